"""Cells of the PDK that consist of several devices, and whose netlists a file does not contain: they are drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from optinc_pdk.cards.device_cell import CIRCUIT_CELLS
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.schematic_cells import SchematicCell, SchematicInstance, cells_of_netlist

CellDrawing: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]
"""Function that draws a cell of the PDK from its name and arguments, and returns its netlists as gdsfactory writes
them, the cell's own first; None if the PDK has no such cell. It raises ValueError for wrong arguments."""


def with_drawn_cells(
    cells: Mapping[str, SchematicCell], is_device: Callable[[str, SchematicInstance], bool], draw: CellDrawing
) -> dict[str, SchematicCell]:
    """Add the netlists of the PDK's cells that the file has as instances, but does not describe.

    Args:
        cells: Netlists of the file by name.
        is_device: Function that returns whether an instance, given with its name, is a device of the process.
        draw: Function that draws a cell.

    Returns:
        The netlists, whose instances of such cells name the added ones.

    Raises:
        NetlistError: A cell cannot be drawn with the settings of an instance, which the message names.
    """
    known = dict(cells)
    drawn: dict[str, str | None] = {}
    for name, cell in cells.items():
        instances = dict(cell.instances)
        for instance, part in cell.instances.items():
            if part.component in cells or part.component not in CIRCUIT_CELLS or is_device(instance, part):
                continue
            settings = {key: value for key, value in part.settings.items() if value is not None}
            text = f"{part.component} {json.dumps(settings, sort_keys=True, default=str)}"
            if text not in drawn:
                drawn[text] = _add(known, text, f"instance {instance!r}", part.component, settings, draw)
            if (found := drawn[text]) is not None:
                instances[instance] = replace(part, component=found)
        known[name] = replace(cell, instances=instances)
    return known


def _add(
    known: dict[str, SchematicCell],
    text: str,
    where: str,
    component: str,
    settings: Mapping[str, Any],
    draw: CellDrawing,
) -> str | None:
    """Draw a cell, add its netlists under names that begin with ``text``, and return the name of its own."""
    try:
        netlists = draw(component, settings)
    except ValueError as fault:
        raise NetlistError(f"{where}: {fault}") from fault
    if netlists is None:
        return None
    top = next(iter(netlists))
    inner, _ = cells_of_netlist(netlists, top, top)
    names = {each: f"{text}: {each}" for each in inner}
    for each, cell in inner.items():
        instances = {
            instance: replace(part, component=names.get(part.component, part.component))
            for instance, part in cell.instances.items()
        }
        known[names[each]] = replace(cell, instances=instances)
    return names[top]
