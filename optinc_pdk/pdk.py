"""The gdsfactory PDK of a process, built from the process card."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from optinc_pdk.cards import DEFAULT_PROCESS, load_process
from optinc_pdk.models import sax_models
from optinc_pdk.tech import layer_enum, layer_stack, layer_views, register_process, strip, wire

if TYPE_CHECKING:
    from gdsfactory import Pdk


def get_pdk(process: str = DEFAULT_PROCESS) -> Pdk:
    """Return the gdsfactory PDK of a process. Call ``activate()`` of the PDK before you use its cells.

    Args:
        process: Name of the process, or path of the folder with its cards.

    Returns:
        The PDK, built once per process and Python session.

    Raises:
        CardError: The process does not exist, or one of its cards is not valid.
    """
    return _build_pdk(process)


# A separate function: the cache would keep ``get_pdk()`` and ``get_pdk(DEFAULT_PROCESS)`` under two keys.
@cache
def _build_pdk(process: str) -> Pdk:
    import gdsfactory as gf

    from optinc_pdk.cells import cells_of

    card = load_process(process)
    register_process(card)
    return gf.Pdk(
        name=card.name,
        cells=cells_of(card),
        cross_sections={"strip": strip, "wire": wire},
        layers=layer_enum(card),
        layer_stack=layer_stack(card),
        layer_views=layer_views(card),
        models=sax_models(card),
    )
