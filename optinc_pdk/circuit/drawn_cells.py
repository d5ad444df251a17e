"""Cells of the PDK that a schematic has without saying all about them: they are drawn.

These are cells of several devices whose netlists the file does not contain, and couplers, whose coupled lengths follow
from the arguments of their cells.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from optinc_pdk.cards.device_cell import CIRCUIT_CELLS
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.schematic_cells import SchematicCell, SchematicInstance, cells_of_netlist


@dataclass(frozen=True)
class DrawnCell:
    """A cell of the PDK as drawn.

    Attributes:
        netlists: Its netlists as gdsfactory writes them, the cell's own first.
        info: What the cell states about itself.
    """

    netlists: Mapping[str, Any]
    info: Mapping[str, Any]


CellDrawing: TypeAlias = Callable[[str, Mapping[str, Any]], DrawnCell | None]
"""Function that draws a cell of the PDK from its name and arguments; None if the PDK has no such cell. It raises
ValueError for wrong arguments."""


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
            text = _text(part)
            if text not in drawn:
                drawn[text] = _add(known, text, instance, part, draw)
            if (found := drawn[text]) is not None:
                instances[instance] = replace(part, component=found)
        known[name] = replace(cell, instances=instances)
    return known


def with_drawn_settings(
    cells: Mapping[str, SchematicCell],
    settings_of: Callable[[str, SchematicInstance], Collection[str]],
    draw: CellDrawing,
) -> dict[str, SchematicCell]:
    """Complete the instances whose cells are drawn to know the settings that LVS compares.

    The netlist of a layout has these settings in ``info``, and a schematic may state them itself: such instances are
    left as they are.

    Args:
        cells: Netlists by name.
        settings_of: Function that returns the settings of an instance, given with its name, that its drawn cell states.
        draw: Function that draws a cell.

    Returns:
        The netlists, with ``info`` of the instances.

    Raises:
        NetlistError: A cell cannot be drawn with the settings of an instance, which the message names.
    """
    drawn: dict[str, DrawnCell | None] = {}
    completed = {}
    for name, cell in cells.items():
        instances = dict(cell.instances)
        for instance, part in cell.instances.items():
            keys = settings_of(instance, part)
            if part.drawn or not keys or any(key in part.settings or key in part.info for key in keys):
                continue
            text = _text(part)
            if text not in drawn:
                drawn[text] = _draw(instance, part, draw)
            if (found := drawn[text]) is not None:
                instances[instance] = replace(part, info={**found.info, **part.info})
        completed[name] = replace(cell, instances=instances)
    return completed


def _arguments(part: SchematicInstance) -> dict[str, Any]:
    return {key: value for key, value in part.settings.items() if value is not None}


def _text(part: SchematicInstance) -> str:
    """Return a text that is the same for instances whose cells are."""
    return f"{part.component} {json.dumps(_arguments(part), sort_keys=True, default=str)}"


def _draw(instance: str, part: SchematicInstance, draw: CellDrawing) -> DrawnCell | None:
    try:
        return draw(part.component, _arguments(part))
    except ValueError as fault:
        raise NetlistError(f"instance {instance!r}: {fault}") from fault


def _add(
    known: dict[str, SchematicCell], text: str, instance: str, part: SchematicInstance, draw: CellDrawing
) -> str | None:
    """Draw a cell, add its netlists under names that begin with ``text``, and return the name of its own."""
    found = _draw(instance, part, draw)
    if found is None:
        return None
    top = next(iter(found.netlists))
    inner, _ = cells_of_netlist(found.netlists, top, top)
    names = {each: f"{text}: {each}" for each in inner}
    for each, cell in inner.items():
        instances = {
            instance: replace(part, component=names.get(part.component, part.component))
            for instance, part in cell.instances.items()
        }
        known[names[each]] = replace(cell, instances=instances)
    return names[top]
