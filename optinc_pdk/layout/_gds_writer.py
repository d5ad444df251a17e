"""GDS writer: converts a chip layout to cells, arrays, boxes and bends; equal layouts give identical files."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
from kfactory import KCell

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon, s_bend
from optinc_pdk.errors import InputError
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.layout.canvas import Box, MetalWire, Point
from optinc_pdk.layout.chip_layout import ChipLayout
from optinc_pdk.pdk import active_pdk

GridPoint = tuple[int, int]
Rotation = tuple[int, bool]

QUARTERS = {(1, 0): 0, (0, 1): 1, (-1, 0): 2, (0, -1): 3}
"""Direction along an axis to its number of quarter turns."""
ARRAY_MIN = 4
"""Smallest number of equal shapes that an array of a cell stores in fewer bytes than the shapes themselves."""
_OF_LAYOUT = ("kfactory:cross_section:", "kfactory:layer_enclosure:")


def to_layout(chip: ChipLayout, process: Process, name: str, port_metadata: bool = False) -> kdb.Layout:
    """Convert a chip to a new KLayout layout with one top cell; every cell of the PDK is contained once.

    With ``port_metadata``, cells have kfactory's metadata about their ports, which :func:`write_gds` writes.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.layout import lay_out_network, to_layout
        >>> from optinc_pdk.networks import carry_chain
        >>> process, network = load_process(), carry_chain(op.Averaging(2, 2, 1))
        >>> circuit, chip = lay_out_network(network, process, "average")
        >>> layout = to_layout(chip, process, "average")
        >>> layout.top_cell().name
        'average'
    """
    layout = kdb.Layout()
    layout.dbu = 1 / GRID_PER_UM
    top = layout.create_cell(name)
    index = {key: layout.layer(*layer.gds) for key, layer in process.layers.items()}
    canvas = chip.canvas
    placed: dict[tuple[str, Rotation], list[GridPoint]] = defaultdict(list)
    for p in canvas.placed.values():
        placed[p.component, (p.rotation // 90 % 4, p.mirror)].append(_grid_point((p.x, p.y)))
    placed["bump", (0, False)] += [_grid_point(point) for point in canvas.bumps]
    metal = process.metal.layer
    boxes = {"core": [], metal: [_nm(box) for box in canvas.metal]}
    for path in canvas.guides:
        _guide(path, process, boxes["core"], placed)
    with active_pdk(process):
        for (component, turned), spots in sorted((key, spots) for key, spots in placed.items() if spots):
            source = canvas.frames.component(component)
            cell = _copy(layout, source.kdb_cell)
            for array in regular_arrays(np.array(spots, dtype=np.int64)):
                top.insert(_instances(cell, turned, array))
        if port_metadata:
            add_port_metadata(layout, top, chip)
    for layer, shapes in boxes.items():
        _boxes(layout, top, index[layer], layer, shapes)
    for polygon in _bends(canvas.bends, process):
        top.shapes(index["core"]).insert(polygon)
    _wires(layout, top, index[metal], metal, canvas.wires)
    for die in chip.dies:
        top.shapes(index["outline"]).insert(kdb.Box(*_nm(die)))
    for text, x, y in canvas.texts:
        top.shapes(index["label"]).insert(kdb.Text(text, kdb.Trans(*_grid_point((x, y)))))
    return layout


def write_gds(layout: kdb.Layout, path: str | Path) -> None:
    """Write a layout to a GDS file, atomically and without dates, so that equal layouts give identical bytes.

    Metadata of its cells are written if there are some.
    """
    options = kdb.SaveLayoutOptions()
    options.format = "GDS2"
    options.gds2_write_timestamps = False
    options.write_context_info = any(True for cell in layout.each_cell() for _ in cell.each_meta_info())
    write_atomic(Path(path), layout.write_bytes(options))


def _copy(layout: kdb.Layout, source: kdb.Cell) -> int:
    """Copy a cell with its sub-cells, unless the layout already has it; return the index of the copy."""
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


def _instances(cell: int, turned: Rotation, array: RegularArray) -> kdb.CellInstArray:
    at = kdb.Trans(turned[0], turned[1], array.x, array.y)
    if array.count == 1:
        return kdb.CellInstArray(cell, at)
    return kdb.CellInstArray(cell, at, kdb.Vector(array.dx, 0), kdb.Vector(0, array.dy), array.columns, array.rows)


def _boxes(
    layout: kdb.Layout, top: kdb.Cell, index: int, layer: str, boxes: Iterable[tuple[int, int, int, int]]
) -> None:
    """Draw boxes; regular arrays of equal boxes become arrays of a cell."""
    sizes: dict[GridPoint, list[GridPoint]] = defaultdict(list)
    # repeated boxes are drawn once
    for left, bottom, right, top_edge in sorted(set(boxes)):
        sizes[right - left, top_edge - bottom].append((left, bottom))
    for (width, height), spots in sorted(sizes.items()):
        cell: kdb.Cell | None = None
        for array in regular_arrays(np.array(spots, dtype=np.int64)):
            if array.count < ARRAY_MIN:
                for x, y in _members(array):
                    top.shapes(index).insert(kdb.Box(x, y, x + width, y + height))
                continue
            if cell is None:
                cell = layout.create_cell(f"{layer}_{width}x{height}")
                cell.shapes(index).insert(kdb.Box(0, 0, width, height))
            top.insert(_instances(cell.cell_index(), (0, False), array))


def _wires(layout: kdb.Layout, top: kdb.Cell, index: int, layer: str, wires: Iterable[MetalWire]) -> None:
    """Draw wires; wires that repeat from column to column of a mesh become arrays of one cell per column."""
    shapes: dict[tuple[int, tuple[GridPoint, ...]], list[GridPoint]] = defaultdict(list)
    for wire in wires:
        points = [_grid_point(point) for point in wire.points]
        x, y = points[0]
        half = round(wire.width * GRID_PER_UM / 2)
        shapes[half, tuple((u - x, v - y) for u, v in points)].append((x, y))
    repeated: dict[tuple[int, int, int, int], list[tuple[RegularArray, kdb.Path]]] = defaultdict(list)
    for (half, way), spots in shapes.items():
        # square ends: half a width beyond the last points
        path = kdb.Path([kdb.Point(*point) for point in way], 2 * half, half, half)
        if len(spots) < ARRAY_MIN:
            for x, y in spots:
                top.shapes(index).insert(path.moved(x, y))
            continue
        for array in regular_arrays(np.array(spots, dtype=np.int64)):
            if array.count < ARRAY_MIN:
                for x, y in _members(array):
                    top.shapes(index).insert(path.moved(x, y))
            else:
                repeated[array.dx, array.dy, array.columns, array.rows].append((array, path))
    number = itertools.count()
    for _, arrays in sorted(repeated.items()):
        for first, paths in _columns(arrays):
            cell = layout.create_cell(f"{layer}_wires_{next(number)}")
            for x, y, path in paths:
                cell.shapes(index).insert(path.moved(x - first.x, y - first.y))
            top.insert(_instances(cell.cell_index(), (0, False), first))


def _columns(
    arrays: Iterable[tuple[RegularArray, kdb.Path]],
) -> Iterator[tuple[RegularArray, list[tuple[int, int, kdb.Path]]]]:
    """Group arrays of equal pitch and counts that start within one pitch; yield the first one and the wires of all."""
    first: RegularArray | None = None
    paths: list[tuple[int, int, kdb.Path]] = []
    for array, path in sorted(arrays, key=lambda pair: (pair[0].x, pair[0].y)):
        if first is not None and array.x - first.x >= max(first.dx, 1):
            yield first, paths
            first, paths = None, []
        first = first or array
        paths.append((array.x, array.y, path))
    if first is not None:
        yield first, paths


def _members(array: RegularArray) -> Iterator[GridPoint]:
    for i in range(array.columns):
        for j in range(array.rows):
            yield array.x + i * array.dx, array.y + j * array.dy


def _guide(
    path: list[Point],
    process: Process,
    boxes: list[tuple[int, int, int, int]],
    placed: dict[tuple[str, Rotation], list[GridPoint]],
) -> None:
    """Decompose a Manhattan guide into boxes and 90° bends.

    Raises:
        InputError: Two corners are too close for the radius, or a leg is not parallel to an axis.
    """
    radius, half = round(float(process.guide.radius_um) * GRID_PER_UM), round(float(process.guide.width_um) * 500)
    points = [_grid_point(point) for point in path]
    directions = [(_sign(b[0] - a[0]), _sign(b[1] - a[1])) for a, b in itertools.pairwise(points)]
    for i, (a, b, (u, v)) in enumerate(zip(points, points[1:], directions, strict=False)):
        length = abs(b[0] - a[0]) + abs(b[1] - a[1])
        start, end = (radius if i else 0), (radius if i < len(directions) - 1 else 0)
        if (u and v) or length < start + end:
            raise InputError(
                f"guide from {a} to {b} nm is {length} nm long and bends of {radius} nm need {start + end}; raise "
                "floorplan.mode_pitch_um and fibre_pitch_um, or lower guide.radius_um"
            )
        if length > start + end:
            (x0, y0), (x1, y1) = (a[0] + u * start, a[1] + v * start), (b[0] - u * end, b[1] - v * end)
            wide, high = (0, half) if u else (half, 0)
            boxes.append((min(x0, x1) - wide, min(y0, y1) - high, max(x0, x1) + wide, max(y0, y1) + high))
        if end:
            left = u * directions[i + 1][1] - v * directions[i + 1][0] > 0
            placed["bend_circular", (QUARTERS[u, v], not left)].append((b[0] - u * radius, b[1] - v * radius))


def _bends(bends: Iterable[tuple[Point, Point]], process: Process) -> Iterator[kdb.Polygon]:
    guide = process.guide
    for start, end in bends:
        line = _s(start, end, float(guide.radius_um), guide.chords)
        yield kdb.Polygon([kdb.Point(x, y) for x, y in ribbon(line, float(guide.width_um)).tolist()])


def _s(start: Point, end: Point, radius: float, segments: int) -> Points:
    """Return an S-bend with the largest radius that its length allows, and chords as fine as at the smallest radius."""
    length, height = end[0] - start[0], end[1] - start[1]
    widest = (length**2 + height**2) / (4 * abs(height))
    chords = math.ceil(segments * math.sqrt(widest / radius))
    return np.asarray(s_bend(length, height, widest, chords) + np.array(start))


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _grid_point(point: Point) -> GridPoint:
    return round(point[0] * GRID_PER_UM), round(point[1] * GRID_PER_UM)


def _nm(box: Box) -> tuple[int, int, int, int]:
    return (*_grid_point((box[0], box[1])), *_grid_point((box[2], box[3])))


@dataclass(frozen=True)
class RegularArray:
    """Regular array of positions (x + i · dx, y + j · dy) in nm, for 0 ≤ i < columns and 0 ≤ j < rows."""

    x: int
    y: int
    dx: int
    dy: int
    columns: int
    rows: int

    @property
    def count(self) -> int:
        """Number of positions."""
        return self.columns * self.rows


def regular_arrays(points: Ints) -> list[RegularArray]:
    """Partition (n, 2) positions in nm into regular arrays, sorted by position; one that occurs twice is in two.

    Positions with the same x are divided into runs of equal pitch, then equal runs are grouped into runs along x. After
    sorting this takes linear time. A complete column of a mesh is one run.
    """
    runs: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    order = np.lexsort((points[:, 1], points[:, 0]))
    ordered = points[order]
    breaks = np.flatnonzero(np.diff(ordered[:, 0])) + 1
    for column in np.split(ordered, breaks) if len(points) else ():
        x = int(column[0, 0])
        for start, pitch, count in _runs(column[:, 1].tolist()):
            runs[start, pitch, count].append(x)
    arrays = [
        RegularArray(x, y, dx, dy, columns, rows)
        for (y, dy, rows), xs in runs.items()
        for x, dx, columns in _runs(sorted(xs))
    ]
    return sorted(arrays, key=lambda a: (a.x, a.y, a.columns, a.rows))


def _runs(values: list[int]) -> list[tuple[int, int, int]]:
    """Cut ascending values into runs (first, pitch, count); single and repeated values are runs of pitch 0."""
    runs: list[tuple[int, int, int]] = []
    i = 0
    while i < len(values):
        end = i + 1
        pitch = values[end] - values[i] if end < len(values) else 0
        while pitch and end < len(values) and values[end] - values[end - 1] == pitch:
            end += 1
        # the second value of a pair may start a longer run
        if end - i == 2 and end + 1 < len(values) and values[end] - values[end - 1] == values[end + 1] - values[end]:
            end, pitch = i + 1, 0
        count = end - i
        runs.append((values[i], pitch if count > 1 else 0, count))
        i = end
    return runs


def add_port_metadata(layout: kdb.Layout, top: kdb.Cell, chip: ChipLayout) -> None:
    """Add the metadata of ports in kfactory's format, for programs that read ports from a layout file.

    They are those of all cells of the active PDK, of which the layout has copies, and of the fibres and pads of the top
    cell. kfactory stores ports as KLayout's metadata of a cell (``kfactory:ports:<number>``), and cross-sections, to
    which ports refer, as metadata of the layout. Both are copied from kfactory's own cells, so that the format is that
    of its version. Nothing here reads them: extraction recovers a circuit from polygons alone.
    """
    for cell in layout.each_cell():
        if cell.cell_index() != top.cell_index():
            source = gf.kcl.layout.cell(cell.name)
            if source is not None:
                _copy_metadata(gf.kcl[source.cell_index()], cell)
    drawn = gf.Component()
    try:
        for port in chip.ports:
            drawn.add_port(name=port.label, port=chip.canvas.frames.component(port.component).ports[port.port])
            drawn.ports[port.label].center = (port.x, port.y)
            drawn.ports[port.label].orientation = port.angle
        _copy_metadata(drawn, top)
        # the name of a cell that is drawn for this alone
        top.remove_meta_info("kfactory:basename")
    finally:
        drawn.delete()
    gf.kcl.set_meta_data()
    used = {value["cross_section"] for cell in layout.each_cell() for value in _port_values(cell)}
    sections = {f"{_OF_LAYOUT[0]}{name}" for name in used}
    infos = [info for info in gf.kcl.layout.each_meta_info() if info.name in sections]
    enclosures = {f"{_OF_LAYOUT[1]}{info.value['layer_enclosure']}" for info in infos}
    infos += [info for info in gf.kcl.layout.each_meta_info() if info.name in enclosures]
    for info in sorted(infos, key=lambda info: info.name):
        layout.add_meta_info(info)


def _copy_metadata(source: gf.Component | KCell, cell: kdb.Cell) -> None:
    source.set_meta_data()
    for info in source.kdb_cell.each_meta_info():
        cell.add_meta_info(info)


def _port_values(cell: kdb.Cell) -> list[dict[str, str]]:
    return [info.value for info in cell.each_meta_info() if info.name.startswith("kfactory:ports:")]
