"""The gdsfactory PDK of a process, built from the process card.

gdsfactory is imported when the first PDK is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.cards import DEFAULT_PROCESS, Process, load_process
from optinc_pdk.circuit.schematic_cells import CellDrawing, DrawnCell
from optinc_pdk.models import sax_models
from optinc_pdk.validation import validate_arguments

if TYPE_CHECKING:
    from optinc_pdk.tech import ProcessPdk

# By folders, because a changed copy of a process may have the same name; guarded by the lock of the layout database.
_pdks: dict[tuple[Path, ...], ProcessPdk] = {}


@validate_arguments
def get_pdk(process: str | Path = DEFAULT_PROCESS) -> ProcessPdk:
    """Return the gdsfactory PDK of a process. Call ``activate()`` of the PDK before you use its cells.

    Examples:
        >>> import optinc_pdk as op
        >>> "mmi2x2" in op.get_pdk("soi220").cells
        True

    Args:
        process: Name of the process, or path of the folder with its cards.

    Returns:
        The PDK, built once per process and Python session.

    Raises:
        CardError: The process does not exist, or one of its cards is not valid.
    """
    return _pdk_of(load_process(process))


@validate_arguments
@contextmanager
def active_pdk(process: str | Path | Process = DEFAULT_PROCESS) -> Iterator[ProcessPdk]:
    """Activate the PDK of a process within a ``with`` block.

    The active PDK is global. Other threads that need it wait until the block ends; then the PDK that was active before
    is active again, also after an error or an interrupt.

    Examples:
        >>> import optinc_pdk as op
        >>> with op.active_pdk("soi220") as pdk:
        ...     [port.name for port in pdk.get_component("mmi2x2").ports]
        ['o1', 'o2', 'o3', 'o4']

    Args:
        process: Process, name of the process, or path of the folder with its cards.

    Yields:
        The PDK.

    Raises:
        CardError: The process does not exist, or one of its cards is not valid.
    """
    pdk = get_pdk(process.folder if isinstance(process, Process) else process)
    from optinc_pdk.tech import activated

    with activated(pdk):
        yield pdk


def cell_drawing(process: Process) -> CellDrawing:
    """Return the function that draws cells of a process's PDK for the netlists of schematics.

    gdsfactory is imported when the first cell is drawn.
    """

    def draw(name: str, settings: Mapping[str, Any]) -> DrawnCell | None:
        with active_pdk(process) as pdk:
            if name not in pdk.cells:
                return None
            known = signature(pdk.cells[name]).parameters
            if unknown := sorted(set(settings) - set(known)):
                listed = ", ".join(known) or "none"
                raise ValueError(f"{name} has no setting {unknown[0]!r}, it has {listed}; correct or remove it")
            try:
                component = pdk.get_component(name, settings=settings)
            except ValueError:
                raise
            except Exception as fault:
                # functions of gdsfactory raise errors of any kind for arguments that they cannot use
                raise ValueError(f"{name} cannot be drawn: {fault}; correct the settings") from fault
            netlists = component.get_netlist(recursive=True, on_dangling_port="ignore")
            return DrawnCell(netlists, component.info.model_dump())

    return draw


def _pdk_of(card: Process) -> ProcessPdk:
    """Return the PDK of a process card; it is built at the first call."""
    from gdsfactory.routing.factories import routing_strategies

    from optinc_pdk.cells import aliases_of, cells_of, layer_transitions
    from optinc_pdk.tech import (
        LAYOUT_LOCK,
        ProcessPdk,
        bend_points_distance_um,
        layer_enum,
        layer_stack,
        layer_views,
        port_types,
        strip,
        wire,
    )

    with LAYOUT_LOCK:
        if card.folders not in _pdks:
            layers = layer_enum(card)
            pdk = ProcessPdk(
                name=card.name,
                cells=cells_of(card) | aliases_of(card),
                cross_sections={"strip": strip, "wire": wire, "metal_routing": wire},
                layers=layers,
                layer_stack=layer_stack(card),
                layer_views=layer_views(card),
                layer_transitions=layer_transitions(card, layers),
                routing_strategies=routing_strategies,
                bend_points_distance=bend_points_distance_um(card),
                **port_types(card),
                models=sax_models(card),
            )
            pdk._process = card
            _pdks[card.folders] = pdk
        return _pdks[card.folders]
