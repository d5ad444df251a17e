"""A gdsfactory PDK made from a process card."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from optinc_pdk.cards import DEFAULT_PROCESS, load_process
from optinc_pdk.models import sax_models
from optinc_pdk.tech import layer_enum, layer_stack, layer_views, register, strip, wire

if TYPE_CHECKING:
    from gdsfactory import Pdk


def get_pdk(process: str = DEFAULT_PROCESS) -> Pdk:
    """The PDK of a process; ``get_pdk(...).activate()`` makes its cells usable.

    Raises:
        CardError: The process's cards cannot be used.
    """
    return _made_pdk(process)


# apart, because a cache takes the default and its name for two keys
@cache
def _made_pdk(process: str) -> Pdk:
    import gdsfactory as gf

    from optinc_pdk.cells import cells_of

    card = load_process(process)
    register(card)
    return gf.Pdk(
        name=card.name,
        cells=cells_of(card),
        cross_sections={"strip": strip, "wire": wire},
        layers=layer_enum(card),
        layer_stack=layer_stack(card),
        layer_views=layer_views(card),
        models=sax_models(card),
    )
