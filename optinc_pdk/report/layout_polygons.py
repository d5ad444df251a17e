"""Polygons of a layout by cell and layer for the report's page, and which polygon of silicon is part of which guide."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any, TypeAlias

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.device_recognition import devices_from_placements
from optinc_pdk.extract.layout_reader import read_checked
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import EdgeIndex
from optinc_pdk.report.pinout import ExtractedNames

Matrix: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class CellShapes:
    """The polygons of one cell, without those of the cells in it, and where the cell is placed.

    Attributes:
        layers: Number of the layer of each polygon, in ascending order.
        polygons: Polygons without holes, in nm and in coordinates of the cell.
        placements: (n, 3) for each placement the number of its matrix, and its shift in x and y in nm.
    """

    name: str
    layers: tuple[int, ...]
    polygons: tuple[kdb.Polygon, ...]
    placements: Ints


@dataclass(frozen=True, eq=False)
class LayoutShapes:
    """The polygons of a layout. A point of a cell is at ``matrix · point + shift`` in the layout.

    Attributes:
        box: Left, bottom, right and top of the layout in nm.
        layers: Names of the layers, in drawing order.
        matrices: Matrices (xx, xy, yx, yy) of the placements.
        cells: Cells with polygons, from the top of the hierarchy to its bottom.
    """

    box: tuple[int, int, int, int]
    layers: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    cells: tuple[CellShapes, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the polygons as dicts and lists of integers.

        Points of a polygon are x and y of the first, and of each next the difference from the one before. Placements
        are in three columns.
        """
        return {
            "box": list(self.box),
            "matrices": [list(matrix) for matrix in self.matrices],
            "cells": [
                {
                    "name": cell.name,
                    "layers": list(cell.layers),
                    "polygons": [_differences(polygon) for polygon in cell.polygons],
                    "placements": cell.placements.T.tolist(),
                }
                for cell in self.cells
            ],
        }


def read_shapes(gds_path: str | PathLike[str], layers: Mapping[str, tuple[int, int]]) -> LayoutShapes:
    """Read the polygons of a layout, GDS or OASIS, with one top cell.

    ``layers`` are GDS layer and datatype by layer name, in drawing order; layers without polygons are left out.

    Raises:
        ValueError: The file cannot be read, or has no polygon on these layers or several top cells.
    """
    layout = read_checked(gds_path)
    if len(layout.top_cells()) != 1:
        raise ValueError(f"gds_path: {gds_path} has {len(layout.top_cells())} top cells; give a layout with one")
    top = layout.top_cell()
    indices = {name: layout.find_layer(*layer) for name, layer in layers.items()}
    drawn = {name: index for name, index in indices.items() if index is not None and _has_polygons(layout, index)}
    placed = _placements(layout)
    numbers: dict[Matrix, int] = {}
    cells: list[CellShapes] = []
    box = kdb.Box()
    for cell in (layout.cell(index) for index in layout.each_cell_top_down()):
        found = [(n, polygon) for n, index in enumerate(drawn.values()) for polygon in _polygons(cell, index)]
        if found:
            at = [
                (numbers.setdefault(_matrix(t.angle, t.mag, t.is_mirror()), len(numbers)), t.disp.x, t.disp.y)
                for t in placed[cell.cell_index()]
            ]
            owners, polygons = zip(*found, strict=True)
            cells.append(CellShapes(cell.name, owners, polygons, np.array(sorted(at), dtype=np.int64)))
    for index in drawn.values():
        box += top.bbox(index)
    if not cells:
        raise ValueError(f"gds_path: {gds_path} has no polygon on the layers {', '.join(layers)}; check the process")
    edges = (box.left, box.bottom, box.right, box.top)
    return LayoutShapes(edges, tuple(drawn), tuple(numbers), tuple(cells))


def has_polygons(layout: kdb.Layout, layers: Iterable[tuple[int, int]]) -> bool:
    """Return whether a layout has anything but texts on GDS layers."""
    indices = [layout.find_layer(*layer) for layer in layers]
    return any(index is not None and _has_polygons(layout, index) for index in indices)


def _placements(layout: kdb.Layout) -> Mapping[int, list[kdb.ICplxTrans]]:
    """Return the transformations to the top cell of all placements of each cell, by index of the cell."""
    placed: dict[int, list[kdb.ICplxTrans]] = {layout.top_cell().cell_index(): [kdb.ICplxTrans()]}
    for index in layout.each_cell_top_down():
        for instance in layout.cell(index).each_inst():
            inner = list(instance.cell_inst.each_cplx_trans())
            placed.setdefault(instance.cell_index, []).extend(outer * t for outer in placed[index] for t in inner)
    return placed


def _has_polygons(layout: kdb.Layout, layer: int) -> bool:
    return any(not shape.is_text() for cell in layout.each_cell() for shape in cell.shapes(layer).each())


def _polygons(cell: kdb.Cell, layer: int) -> list[kdb.Polygon]:
    """Return the polygons of a cell on a layer, sorted, with holes resolved."""
    found = [shape.polygon for shape in cell.shapes(layer).each() if shape.polygon is not None]
    return sorted(polygon.resolved_holes() if polygon.holes() else polygon for polygon in found)


@lru_cache
def _matrix(angle_deg: float, magnification: float, mirrored: bool) -> Matrix:
    """Return the matrix of a transformation; exact for multiples of 90°."""
    angle, flip = math.radians(angle_deg), -1.0 if mirrored else 1.0
    cos, sin = magnification * math.cos(angle), magnification * math.sin(angle)
    xx, xy, yx, yy = (round(value, 9) + 0.0 for value in (cos, -flip * sin, sin, flip * cos))
    return xx, xy, yx, yy


def _differences(polygon: kdb.Polygon) -> list[int]:
    points = np.array([(point.x, point.y) for point in polygon.each_point_hull()], dtype=np.int64)
    points[1:] = np.diff(points, axis=0)
    numbers: list[int] = points.ravel().tolist()
    return numbers


CORE = "core"
ROUNDING_NM = 1.5
"""Deviation of the length of a slanted edge whose two points are rounded to 1 nm."""


@dataclass(frozen=True, eq=False)
class LayoutGuides:
    """Guides between devices.

    Attributes:
        ends: The two ports of each guide, by the names of the netlist.
        length_um: Length of each guide in µm.
        loss_db: Propagation loss of each guide.
        owners: For each cell of the layout, (placements, polygons on the core layer) the number of the guide that a
            polygon is part of, -1 for polygons of devices.
        stub_guide: Number of the guide of each stub: the part of a strip under a heater that is outside the heater.
        stub_boxes: (s, 4) left, bottom, right and top of each stub in nm.
        of_port: Number of the guide at each port that one starts from, by the port's name in the extraction.
        port_boxes: Left, bottom, right and top in nm of the edge of each port to a guide, by the same name.
    """

    ends: tuple[tuple[str, str], ...]
    length_um: tuple[float, ...]
    loss_db: tuple[float, ...]
    owners: tuple[Ints, ...]
    stub_guide: Ints
    stub_boxes: Ints
    of_port: Mapping[str, int]
    port_boxes: Mapping[str, tuple[int, int, int, int]]

    def to_json(self) -> dict[str, Any]:
        """Return the guides as dicts and lists; lengths in µm with three decimals, losses with six."""
        return {
            "ends": [list(pair) for pair in self.ends],
            "length_um": [round(length, 3) for length in self.length_um],
            "loss_db": [round(loss, 6) for loss in self.loss_db],
            "owners": [owners.ravel().tolist() for owners in self.owners],
            "stubs": np.column_stack([self.stub_guide, self.stub_boxes]).tolist(),
        }


def layout_guides(
    extraction: Extraction, names: ExtractedNames, shapes: LayoutShapes, process: Process
) -> LayoutGuides:
    """Find the polygons of each guide of an extracted layout.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    circuit = extraction.circuit
    drawn = [net for net in range(len(circuit.nets)) if circuit.net_length_um[net] > 0]
    ends = _all_ends(shapes, round(float(process.guide.width_um) * NM_PER_UM))
    ports, edges = _port_edges(extraction, names, process)
    of_port = np.full(int(circuit.offset[-1]), UNCONNECTED, dtype=np.int64)
    of_port[circuit.nets[drawn]] = np.arange(len(drawn))[:, None]
    outer = _past_heaters(ends, edges)
    numbers = _guide_of_polygons(ends, of_port[ports], outer)
    corners = np.concatenate([edges, outer], axis=1)
    stubs = np.flatnonzero((edges != outer).any(axis=(1, 2)) & (of_port[ports] != UNCONNECTED))
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)[stubs]
    parts = np.split(numbers, np.cumsum([_silicon_count(cell, shapes) for cell in shapes.cells])[:-1])
    owners = tuple(part.reshape(len(cell.placements), -1) for cell, part in zip(shapes.cells, parts, strict=True))
    length = tuple(float(circuit.net_length_um[net]) for net in drawn)
    per_um = float(process.guide.loss_db_per_cm) * 1e-4
    between = tuple(_ends(circuit, names, net) for net in drawn)
    named = [circuit.port_name(port) for port in ports.tolist()]
    guided = {name: guide for name, guide in zip(named, of_port[ports].tolist(), strict=True) if guide != UNCONNECTED}
    return LayoutGuides(
        between,
        length,
        tuple(per_um * um for um in length),
        owners,
        of_port[ports][stubs],
        boxes,
        guided,
        dict(zip(named, map(_box, edges.tolist()), strict=True)),
    )


def _box(edge: Sequence[Sequence[int]]) -> tuple[int, int, int, int]:
    (x1, y1), (x2, y2) = edge
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


@dataclass(frozen=True, eq=False)
class _Ends:
    """Edges as long as a guide is wide, of all polygons of silicon, placement by placement.

    Attributes:
        count: Number of polygons.
        owner: (e,) number of the polygon of each edge.
        edges: (e, 2, 2) first and second point in nm, with the polygon to the right.
    """

    count: int
    owner: Ints
    edges: Ints


def _all_ends(shapes: LayoutShapes, width_nm: int) -> _Ends:
    """Find the ends of all strips."""
    owners, edges, count = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 2, 2), dtype=np.int64)], 0
    for cell in shapes.cells:
        owner, local = _cell_ends(_silicon(cell, shapes), width_nm)
        matrix = np.array(shapes.matrices).reshape(-1, 2, 2)[cell.placements[:, 0]]
        placed = np.rint(np.einsum("pij,ekj->peki", matrix, local)).astype(np.int64)
        placed += cell.placements[:, None, None, 1:]
        # mirrored polygons have their silicon to the left
        mirrored = np.linalg.det(matrix) < 0
        placed[mirrored] = placed[mirrored][:, :, ::-1]
        first = count + _silicon_count(cell, shapes) // len(cell.placements) * np.arange(len(cell.placements))
        owners.append((first[:, None] + owner).ravel())
        edges.append(placed.reshape(-1, 2, 2))
        count += _silicon_count(cell, shapes)
    return _Ends(count, np.concatenate(owners), np.concatenate(edges))


def _cell_ends(polygons: Sequence[kdb.Polygon], width_nm: int) -> tuple[Ints, Ints]:
    """Return (e,) the polygon and (e, 2, 2) the points of each edge as long as a guide is wide."""
    found = [
        (number, ((edge.x1, edge.y1), (edge.x2, edge.y2)))
        for number, polygon in enumerate(polygons)
        for edge in polygon.each_edge()
        if abs(edge.length() - width_nm) <= ROUNDING_NM
    ]
    owner = np.array([number for number, _ in found], dtype=np.int64)
    return owner, np.array([points for _, points in found], dtype=np.int64).reshape(-1, 2, 2)


def _silicon(cell: CellShapes, shapes: LayoutShapes) -> list[kdb.Polygon]:
    core = shapes.layers.index(CORE) if CORE in shapes.layers else None
    return [polygon for layer, polygon in zip(cell.layers, cell.polygons, strict=True) if layer == core]


def _silicon_count(cell: CellShapes, shapes: LayoutShapes) -> int:
    return len(cell.placements) * len(_silicon(cell, shapes))


def _port_edges(extraction: Extraction, names: ExtractedNames, process: Process) -> tuple[Ints, Ints]:
    """Return (p,) the numbers of the ports to guides, and (p, 2, 2) their edges, with the device to the right."""
    wiring, couplers = extraction.heater_wiring, extraction.couplers
    if wiring is None or couplers is None:
        raise ValueError(f"{extraction.circuit.name}: this extraction has no layout; extract the layout with extract()")
    devices = [*devices_from_placements(extraction.placements, process), *wiring.devices, *couplers.devices]
    ports = [
        int(extraction.circuit.offset[names.instances[device.kind, *device.position_um]]) + local
        for device in devices
        for local in np.flatnonzero(device.guided).tolist()
    ]
    edges = [device.edges[np.array(device.guided, dtype=bool)] for device in devices]
    return np.array(ports, dtype=np.int64), np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *edges])


def _past_heaters(ends: _Ends, ports: Ints) -> Ints:
    """Return the (p, 2, 2) edges of ports, with those inside a strip, at heaters, moved to the end of the strip."""
    moved = ports.copy()
    inner = EdgeIndex(ends.edges[:, 0], ends.edges[:, 1]).find(ports[:, 0], ports[:, 1]) < 0
    for axis in (0, 1):
        # edges across this axis; those of equal extent lie one behind the other along it
        across = ends.edges[ends.edges[:, 0, axis] == ends.edges[:, 1, axis]]
        chosen = np.flatnonzero(inner & (ports[:, 0, axis] == ports[:, 1, axis]))
        asked = ports[chosen]
        both = np.concatenate([across, asked])
        strip = np.unique(both[:, :, 1 - axis], axis=0, return_inverse=True)[1].reshape(-1)
        place = both[:, 0, axis]
        first, span = (int(place.min()), int(np.ptp(place)) + 1) if len(place) else (0, 1)
        along = strip * span + place - first
        behind, at = np.sort(along[: len(across)]), along[len(across) :]
        # light leaves the device to the left of the edge
        turn = asked[:, 1, 1 - axis] - asked[:, 0, 1 - axis]
        onward = (turn > 0) if axis else (turn < 0)
        following = np.where(onward, np.searchsorted(behind, at, "right"), np.searchsorted(behind, at) - 1)
        there = np.flatnonzero((following >= 0) & (following < len(behind)))
        there = there[behind[following[there]] // span == strip[len(across) :][there]]
        moved[chosen[there], :, axis] = (behind[following[there]] % span + first)[:, None]
    return moved


def _guide_of_polygons(ends: _Ends, guide: Ints, ports: Ints) -> Ints:
    """Return the number of the guide that each polygon is part of, -1 for none.

    Polygons whose ends meet are part of one guide, from port to port. ``guide`` is the (p,) number of the guide at each
    port, -1 for none; ``ports`` are the (p, 2, 2) edges of the ports.
    """
    rows = np.concatenate([ends.edges, ends.edges[:, ::-1], ports, ports[:, ::-1]]).reshape(-1, 4)
    same = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
    sizes = np.cumsum([len(ends.edges), len(ends.edges), len(ports)])
    ahead, back, device, facing = np.split(same, sizes)
    of_device = np.zeros(ends.count, dtype=bool)
    of_device[ends.owner[np.isin(ahead, device)]] = True
    kept = ~of_device[ends.owner]
    at_port = np.full(int(same.max(initial=-1)) + 1, UNCONNECTED, dtype=np.int64)
    at_port[facing] = guide
    inner = np.flatnonzero(kept & ~np.isin(ahead, facing))
    partner = np.full(len(at_port), UNCONNECTED, dtype=np.int64)
    partner[back[inner]] = ends.owner[inner]
    meets = inner[partner[ahead[inner]] != UNCONNECTED]
    label = component_labels(ends.count, ends.owner[meets], partner[ahead[meets]])
    last = np.flatnonzero(kept & (at_port[ahead] != UNCONNECTED))
    of_label = np.full(ends.count, UNCONNECTED, dtype=np.int64)
    of_label[label[ends.owner[last]]] = at_port[ahead[last]]
    return np.where(of_device, UNCONNECTED, of_label[label])


def _ends(circuit: Circuit, names: ExtractedNames, net: int) -> tuple[str, str]:
    """Return the two ports of a net as ``instance,port``, with the names of the netlist."""
    first, second = (_port(circuit, names, port) for port in circuit.nets[net].tolist())
    return first, second


def _port(circuit: Circuit, names: ExtractedNames, port: int) -> str:
    instance = int(np.searchsorted(circuit.offset, port, side="right")) - 1
    return f"{names.names[instance]},{circuit.port_name(port).rpartition(',')[2]}"
