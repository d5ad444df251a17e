"""Difference of two layout files: areas that only one of them has, by layer, labels, and names of cells.

Layouts are equal if their masks and labels are: the same areas are drawn on every layer, in whatever shapes and cells.
The areas are compared by KLayout's hierarchical Boolean operations, which calculate what repeats in cells once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.extract.geometry_faults import refusing_geometry
from optinc_pdk.extract.layout_reader import drawn_layers, read_cells

LayerPair = tuple[int, int]
"""GDS layer and datatype."""
THREADS = 2
_ROUNDING = 1e-6
"""Largest deviation of the ratio of two database units from a whole number, relative to the ratio."""


@dataclass(frozen=True)
class OneSided:
    """Areas of a layer that only one of two layouts has.

    Attributes:
        polygons: The areas as merged polygons in database units, the largest extent first.
        unit_um: Database unit in µm.
    """

    polygons: tuple[kdb.Polygon, ...]
    unit_um: float

    @property
    def area_um2(self) -> float:
        """Total area in µm²."""
        return float(sum(polygon.area() for polygon in self.polygons)) * self.unit_um**2

    def boxes_um(self) -> NDArray[np.float64]:
        """(n, 4) left, bottom, right and top of the polygons in µm."""
        boxes = [polygon.bbox() for polygon in self.polygons]
        return self.unit_um * np.array([(b.left, b.bottom, b.right, b.top) for b in boxes], float).reshape(-1, 4)


@dataclass(frozen=True)
class LayerDifference:
    """Areas of a layer that only the first or only the second layout has."""

    layer: LayerPair
    only_a: OneSided
    only_b: OneSided

    @property
    def equal(self) -> bool:
        """Whether both layouts have the same areas."""
        return not self.only_a.polygons and not self.only_b.polygons


@dataclass(frozen=True, order=True)
class Label:
    """A label of a layout: layer, text, and place in µm."""

    layer: LayerPair
    text: str
    x_um: float
    y_um: float


@dataclass(frozen=True)
class LayoutDifference:
    """Difference of two layouts.

    Attributes:
        layers: Difference of every layer that one of the layouts has, in the order of their numbers.
        labels_a: Labels that only the first layout has, as often as it has more of them.
        labels_b: Labels that only the second layout has.
        cells_a: Names of cells that only the first layout has.
        cells_b: Names of cells that only the second layout has.
    """

    layers: tuple[LayerDifference, ...]
    labels_a: tuple[Label, ...]
    labels_b: tuple[Label, ...]
    cells_a: tuple[str, ...]
    cells_b: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether masks and labels are the same; names of cells do not count."""
        return all(layer.equal for layer in self.layers) and not self.labels_a and not self.labels_b


@refusing_geometry
def compare_layouts(
    path_a: Path, path_b: Path, on_layer: Callable[[str, int, int], None] | None = None
) -> LayoutDifference:
    """Compare the masks, labels and names of cells of two layout files.

    Args:
        path_a: First file, GDS2 or OASIS with any number of top cells.
        path_b: Second file.
        on_layer: Called before each layer with its number, how many layers are done, and how many there are.

    Returns:
        The difference. Equal files give an equal one, whatever their hierarchy.

    Raises:
        GdsError: A file cannot be used, as for :func:`optinc_pdk.extract.layout_reader.read_cells`.
        InputError: One database unit is not a multiple of the other, or both layouts are empty.
    """
    a, b = read_cells(path_a), read_cells(path_b)
    names_a, names_b = _cell_names(a), _cell_names(b)
    _to_one_unit(a, b, path_b)
    top_a, top_b = _joined_top(a), _joined_top(b)
    if top_a.bbox().area() == top_b.bbox().area() == 0:
        raise InputError(f"{path_a}, {path_b}: no layer of them has an area; were they written to their end?")
    layers = sorted(drawn_layers(a) | drawn_layers(b))
    found = []
    for done, layer in enumerate(layers):
        if on_layer is not None:
            on_layer(f"{layer[0]}/{layer[1]}", done, len(layers))
        found.append(_layer_difference(top_a, top_b, layer))
    labels_a, labels_b = _labels(top_a), _labels(top_b)
    return LayoutDifference(
        tuple(found),
        tuple(sorted((labels_a - labels_b).elements())),
        tuple(sorted((labels_b - labels_a).elements())),
        tuple(sorted(names_a - names_b)),
        tuple(sorted(names_b - names_a)),
    )


def _cell_names(layout: kdb.Layout) -> set[str]:
    return {cell.name for cell in layout.each_cell()}


def _to_one_unit(a: kdb.Layout, b: kdb.Layout, path_b: Path) -> None:
    """Express the layout with the larger database unit in that of the other."""
    coarse, fine = (a, b) if a.dbu > b.dbu else (b, a)
    ratio = coarse.dbu / fine.dbu
    if abs(ratio - round(ratio)) > _ROUNDING * ratio:
        raise InputError(
            f"{path_b}: its database unit is {b.dbu:g} µm, that of the other layout {a.dbu:g} µm; one must be a "
            "multiple of the other: write both layouts with the same unit"
        )
    if round(ratio) > 1:
        coarse.transform(kdb.ICplxTrans(float(round(ratio))))
        coarse.dbu = fine.dbu


def _joined_top(layout: kdb.Layout) -> kdb.Cell:
    """Return the top cell; a new one with all of them where a layout has several, or none."""
    tops = layout.top_cells()
    if len(tops) == 1:
        return tops[0]
    joined = layout.create_cell("joined_top")
    for top in tops:
        joined.insert(kdb.CellInstArray(top.cell_index(), kdb.Trans()))
    return joined


def _layer_difference(top_a: kdb.Cell, top_b: kdb.Cell, layer: LayerPair) -> LayerDifference:
    store = kdb.DeepShapeStore()
    store.threads = THREADS
    a, b = (kdb.Region(top.begin_shapes_rec(top.layout().layer(*layer)), store) for top in (top_a, top_b))
    unit_um = top_a.layout().dbu
    return LayerDifference(layer, _one_sided(a - b, unit_um), _one_sided(b - a, unit_um))


def _one_sided(region: kdb.Region, unit_um: float) -> OneSided:
    merged = region.merged()
    merged.flatten()
    return OneSided(tuple(sorted(merged.each(), key=_order)), unit_um)


def _order(polygon: kdb.Polygon) -> tuple[float, ...]:
    box = polygon.bbox()
    return -box.area(), box.left, box.bottom, box.right, polygon.area(), polygon.num_points()


def _labels(top: kdb.Cell) -> Counter[Label]:
    """Number of each of the labels, with their places in the top cell."""
    layout = top.layout()
    labels: Counter[Label] = Counter()
    for layer in drawn_layers(layout):
        shapes = top.begin_shapes_rec(layout.layer(*layer))
        shapes.shape_flags = kdb.Shapes.STexts
        for one in shapes.each():
            text = one.shape().text
            place = one.trans() * kdb.Point(text.x, text.y)
            labels[Label(layer, text.string, place.x * layout.dbu, place.y * layout.dbu)] += 1
    return labels
