"""A floorplan to a GDS file: cells instantiated, guides and metal drawn, nothing that changes from run to run."""

from __future__ import annotations

import math
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cells import CELLS
from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon, rounded, s_bend
from optinc_pdk.files import write_atomic
from optinc_pdk.layout.canvas import Placed, Point
from optinc_pdk.layout.chip import Chip

MAX_POINTS = 4000
"""Corners of a polygon; mask shops take no more than 4,000, and GDS records hold no more than 8,191."""


def to_layout(chip: Chip, process: Process, name: str) -> kdb.Layout:
    """A layout with one top cell of that name, in a database of its own.

    Returns:
        The layout; every cell of the PDK appears once, however often it is placed.
    """
    layout = kdb.Layout()
    layout.dbu = 1 / GRID_PER_UM
    top = layout.create_cell(name)
    index = {key: layout.layer(*layer.gds) for key, layer in process.layers.items()}
    cells: dict[str, int] = {}
    for placed in chip.canvas.placed.values():
        if placed.component not in cells:
            component = CELLS[placed.component]()
            cells[placed.component] = _copy(layout, component.kdb_cell)
        top.insert(kdb.CellInstArray(cells[placed.component], _transformation(placed)))
    for polygon in _guides(chip, process):
        top.shapes(index["core"]).insert(polygon)
    metal = kdb.Region()
    for box in chip.canvas.metal:
        metal.insert(_box(box))
    metal.merge()
    metal.break_polygons(MAX_POINTS)
    top.shapes(index[process.metal.layer]).insert(metal)
    outline = kdb.Box(0, 0, round(chip.width_um * GRID_PER_UM), round(chip.height_um * GRID_PER_UM))
    top.shapes(index["outline"]).insert(outline)
    for text, x, y in chip.canvas.texts:
        at = kdb.Trans(round(x * GRID_PER_UM), round(y * GRID_PER_UM))
        top.shapes(index["label"]).insert(kdb.Text(text, at))
    return layout


def write_gds(layout: kdb.Layout, path: str | Path) -> None:
    """Write a layout, atomically and without dates, so that the same layout gives the same bytes."""
    options = kdb.SaveLayoutOptions()
    options.format = "GDS2"
    options.gds2_write_timestamps = False
    options.write_context_info = False
    write_atomic(Path(path), layout.write_bytes(options))


def _copy(layout: kdb.Layout, source: kdb.Cell) -> int:
    """Copy a cell with all that it contains; what another cell brought along is not copied again."""
    if layout.has_cell(source.name):
        return int(layout.cell_by_name(source.name))
    cell = layout.create_cell(source.name)
    for index in source.layout().layer_indexes():
        if not source.shapes(index).is_empty():
            cell.shapes(layout.layer(source.layout().get_info(index))).insert(source.shapes(index))
    for instance in source.each_inst():
        array = instance.cell_inst.dup()
        array.cell_index = _copy(layout, instance.cell)
        cell.insert(array)
    return int(cell.cell_index())


def _transformation(placed: Placed) -> kdb.Trans:
    return kdb.Trans(placed.rotation // 90, placed.mirror, round(placed.x * GRID_PER_UM), round(placed.y * GRID_PER_UM))


def _guides(chip: Chip, process: Process) -> list[kdb.Polygon]:
    guide = process.guide
    width, radius, segments = float(guide.width_um), float(guide.radius_um), int(guide.arc_segments)
    lines = [rounded(np.array(path), radius, segments) for path in chip.canvas.guides]
    lines += [_s(start, end, radius, segments) for start, end in chip.canvas.bends]
    return [kdb.Polygon([kdb.Point(x, y) for x, y in ribbon(line, width).tolist()]) for line in lines]


def _s(start: Point, end: Point, radius: float, segments: int) -> Points:
    """An S with the widest bends that its length allows, and chords as near to the arc as at the least radius."""
    length, height = end[0] - start[0], end[1] - start[1]
    widest = (length**2 + height**2) / (4 * abs(height))
    chords = math.ceil(segments * math.sqrt(widest / radius))
    return np.asarray(s_bend(length, height, widest, chords) + np.array(start))


def _box(box: tuple[float, float, float, float]) -> kdb.Box:
    return kdb.Box(*(round(value * GRID_PER_UM) for value in box))
