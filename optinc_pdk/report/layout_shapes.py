"""Polygons of a layout by cell and layer, with all placements of each cell: what the report's page draws."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Any, TypeAlias

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.extract.layout_reader import read_checked

Ints: TypeAlias = Ints
Matrix: TypeAlias = tuple[float, float, float, float]


@dataclass(frozen=True, eq=False)
class CellShapes:
    """The polygons of one cell, without those of the cells in it, and where the cell is placed.

    Attributes:
        name: Name of the cell.
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
    """Read the polygons of a layout.

    Args:
        gds_path: GDS or OASIS file with one top cell.
        layers: GDS layer and datatype by layer name, in drawing order; layers without polygons are left out.

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


def flat_polygons(shapes: LayoutShapes, layer: str) -> list[kdb.Polygon]:
    """Return all polygons of a layer in coordinates of the layout: cell by cell, placement by placement."""
    if layer not in shapes.layers:
        return []
    number = shapes.layers.index(layer)
    return [
        polygon.transformed(trans)
        for cell in shapes.cells
        for trans in _transformations(shapes, cell)
        for owner, polygon in zip(cell.layers, cell.polygons, strict=True)
        if owner == number
    ]


def _transformations(shapes: LayoutShapes, cell: CellShapes) -> list[kdb.ICplxTrans]:
    """Return the transformation of each placement of a cell."""
    found = []
    for number, x, y in cell.placements.tolist():
        xx, xy, yx, yy = shapes.matrices[number]
        angle = math.degrees(math.atan2(yx, xx))
        found.append(kdb.ICplxTrans(math.hypot(xx, yx), angle, xx * yy - xy * yx < 0, x, y))
    return found


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
