"""Difference of two layout files: areas that only one of them has, by top cell and layer, labels, and names of cells.

Layouts are equal if their masks and labels are: the same areas are drawn on every layer of every top cell, in whatever
shapes and cells. The areas are compared by KLayout's hierarchical Boolean operations, which calculate what repeats in
cells once. What is placed at other angles than multiples of 90° is flattened before, because its corners are rounded to
the database unit: each corner is rounded once, as in a flattened copy, so that rounding causes no difference and every
difference is a change. A change of one unit that rounding hides is found in steps of a fraction of the unit, if both
layouts have cells at such angles; a flat layout that is equal to a flattened copy states no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError
from optinc_pdk.extract.layout_reader import drawn_tops, read_cells, refusing_geometry

LayerPair = tuple[int, int]
"""GDS layer and datatype."""
THREADS = 2
_SHARP = 5
"""KLayout's mode of sizing that keeps acute corners."""
_ROUNDING = 1e-9
"""Largest deviation of the ratio of two database units from a whole number, relative to the ratio."""
_STEPS = 32
"""Steps of a database unit in which layouts with cells at other angles are compared, if they reach to 67 mm at most."""
_ROUNDED = 27
"""Distance in steps that rounding may move an edge, half a unit in x and y; a change of one unit moves it by 32."""
_MAX_COORDINATE = 2**31 - 1
"""Largest coordinate in database units; KLayout wraps larger ones around."""


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

    def boxes_um(self) -> Floats:
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
class TopDifference:
    """Difference of a top cell of one layout and a top cell of the other.

    Attributes:
        name_a: Name of the first layout's top cell; None if only the second layout has this top cell.
        name_b: Name of the second layout's top cell; None if only the first layout has this top cell.
        layers: Difference of every layer that one of the cells has, in the order of their numbers.
        labels_a: Labels that only the first cell has, as often as it has more of them.
        labels_b: Labels that only the second cell has.
    """

    name_a: str | None
    name_b: str | None
    layers: tuple[LayerDifference, ...]
    labels_a: tuple[Label, ...]
    labels_b: tuple[Label, ...]

    @property
    def equal(self) -> bool:
        """Whether masks and labels of the two cells are the same."""
        alone = self.name_a is None or self.name_b is None
        return not alone and all(layer.equal for layer in self.layers) and not self.labels_a and not self.labels_b


@dataclass(frozen=True)
class LayoutDifference:
    """Difference of two layouts.

    Attributes:
        tops: Difference of each pair of top cells, and of each top cell that only one of the layouts has, by name.
        cells_a: Names of cells that only the first layout has.
        cells_b: Names of cells that only the second layout has.
    """

    tops: tuple[TopDifference, ...]
    cells_a: tuple[str, ...]
    cells_b: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether all top cells have a counterpart with the same masks and labels; names of cells do not count."""
        return all(top.equal for top in self.tops)


@refusing_geometry
def compare_layouts(
    path_a: Path, path_b: Path, on_layer: Callable[[str, int, int], None] | None = None
) -> LayoutDifference:
    """Compare the masks, labels and names of cells of two layout files.

    Top cells of the same name are compared with each other. If one top cell of each file then remains, these are
    compared, whatever their names; several that remain are top cells that only one file has. Top cells without shapes
    and labels do not count.

    Args:
        path_a: First file, GDS2 or OASIS with any number of top cells.
        path_b: Second file.
        on_layer: Called before each layer with its number, how many layers are done, and how many there are.

    Returns:
        The difference. Equal files give an equal one, whatever their hierarchy.

    Raises:
        GdsError: A file cannot be used, as for :func:`optinc_pdk.extract.layout_reader.read_cells`.
        InputError: One database unit is not a multiple of the other, the larger layout exceeds the range of
            coordinates in the smaller unit, or both layouts are empty.
    """
    a, b = read_cells(path_a), read_cells(path_b)
    names_a, names_b = ({cell.name for cell in layout.each_cell()} for layout in (a, b))
    _to_one_unit((a, path_a), (b, path_b))
    tops_a, tops_b = ({cell.name: cell for cell in drawn_tops(layout)} for layout in (a, b))
    if all(top.bbox().area() == 0 for top in (*tops_a.values(), *tops_b.values())):
        raise InputError(f"{path_a}, {path_b}: no layer of them has an area; were they written to their end?")
    if path_a.read_bytes() == path_b.read_bytes():
        return LayoutDifference(tuple(_equal(tops_a[name]) for name in sorted(tops_a)), (), ())
    fine = all(_has_other_angles(layout) and _reach(layout) * _STEPS <= _MAX_COORDINATE for layout in (a, b))
    in_steps = (_in_steps(a), _in_steps(b)) if fine else None
    for layout, tops in ((a, tops_a), (b, tops_b)):
        _flatten_rounded(layout, tops.values())
    pairs = _pairs(tops_a, tops_b)
    # a top cell without counterpart is compared with an empty cell
    cells = [
        (
            a.create_cell("missing") if one is None else tops_a[one],
            b.create_cell("missing") if other is None else tops_b[other],
        )
        for one, other in pairs
    ]
    layers = [sorted(_layers(top_a) | _layers(top_b)) for top_a, top_b in cells]
    done, total = 0, sum(map(len, layers))
    found = []
    for (one, other), (top_a, top_b), numbers in zip(pairs, cells, layers, strict=True):
        differences = []
        for layer in numbers:
            if on_layer is not None:
                on_layer(f"{layer[0]}/{layer[1]}", done, total)
            difference = _layer_difference(top_a, top_b, layer)
            if difference.equal and in_steps is not None and one is not None and other is not None:
                difference = _layer_difference(in_steps[0].cell(one), in_steps[1].cell(other), layer, _ROUNDED)
            differences.append(difference)
            done += 1
        labels_a, labels_b = _labels(top_a, numbers), _labels(top_b, numbers)
        only_a, only_b = (_placed(labels, a.dbu) for labels in (labels_a - labels_b, labels_b - labels_a))
        found.append(TopDifference(one, other, tuple(differences), only_a, only_b))
    return LayoutDifference(tuple(found), tuple(sorted(names_a - names_b)), tuple(sorted(names_b - names_a)))


def _equal(top: kdb.Cell) -> TopDifference:
    """Return the difference of a top cell and a copy of it."""
    nothing = OneSided((), top.layout().dbu)
    layers = (LayerDifference(layer, nothing, nothing) for layer in sorted(_layers(top)))
    return TopDifference(top.name, top.name, tuple(layers), (), ())


def _to_one_unit(*files: tuple[kdb.Layout, Path]) -> None:
    """Express the layout with the larger database unit in that of the other."""
    (coarse, path), (fine, other) = sorted(files, key=lambda file: -file[0].dbu)
    ratio = coarse.dbu / fine.dbu
    if abs(ratio - round(ratio)) > _ROUNDING * ratio:
        raise InputError(
            f"{path}: its database unit is {coarse.dbu:.12g} µm, that of {other} {fine.dbu:.12g} µm; one must be a "
            "multiple of the other: write both layouts with the same unit"
        )
    if round(ratio) > 1:
        if _reach(coarse) * round(ratio) > _MAX_COORDINATE:
            raise InputError(
                f"{path}: reaches to {_reach(coarse) * coarse.dbu:,.0f} µm; in the database unit of {other}, "
                f"{fine.dbu:g} µm, the limit is {_MAX_COORDINATE * fine.dbu:,.0f} µm: write both with the same unit"
            )
        coarse.transform(kdb.ICplxTrans(float(round(ratio))))
    # units that differ by rounding are the same
    coarse.dbu = fine.dbu


def _reach(layout: kdb.Layout) -> int:
    """Return the largest coordinate in any cell, in database units."""
    boxes = [box for cell in layout.each_cell() if not (box := cell.bbox()).empty()]
    return max((abs(edge) for box in boxes for edge in (box.left, box.bottom, box.right, box.top)), default=0)


def _pairs(tops_a: Collection[str], tops_b: Collection[str]) -> list[tuple[str | None, str | None]]:
    """Return the names of the top cells to compare; None where a top cell has no counterpart."""
    rest_a, rest_b = sorted(set(tops_a) - set(tops_b)), sorted(set(tops_b) - set(tops_a))
    both: list[tuple[str | None, str | None]] = [(name, name) for name in set(tops_a) & set(tops_b)]
    if len(rest_a) == len(rest_b) == 1:
        both += [(rest_a[0], rest_b[0])]
    else:
        both += [(name, None) for name in rest_a] + [(None, name) for name in rest_b]
    return sorted(both, key=lambda pair: pair[0] or pair[1] or "")


def _has_other_angles(layout: kdb.Layout) -> bool:
    return any(instance.is_complex() for cell in layout.each_cell() for instance in cell.each_inst())


def _in_steps(layout: kdb.Layout) -> kdb.Layout:
    """Return a copy in steps of the database unit, with what is rounded flattened in its top cells."""
    copy = layout.dup()
    copy.transform(kdb.ICplxTrans(float(_STEPS)))
    copy.dbu = layout.dbu / _STEPS
    _flatten_rounded(copy, copy.top_cells())
    return copy


def _flatten_rounded(layout: kdb.Layout, tops: Collection[kdb.Cell]) -> None:
    """Flatten the instances in top cells in which the corners of a shape depend on where they are rounded.

    These are instances at angles that are not a multiple of 90°, magnified ones, and paths whose width is an odd number
    of database units, which lie on half of a unit.
    """
    layers = layout.layer_indexes()
    rounded: set[int] = set()
    for index in layout.each_cell_bottom_up():
        cell = layout.cell(index)
        paths = (path for layer in layers for path in cell.shapes(layer).each(kdb.Shapes.SPaths))
        placed = any(_is_rounded(instance, rounded) for instance in cell.each_inst())
        if placed or any(path.path_width % 2 for path in paths):
            rounded.add(index)
    for top in tops:
        _flatten_instances(top, [instance for instance in top.each_inst() if _is_rounded(instance, rounded)])


def _flatten_instances(top: kdb.Cell, instances: Sequence[kdb.Instance]) -> None:
    """Flatten instances of a cell in a cell of their own, in a time proportional to the number of placed shapes.

    KLayout's method to flatten one instance of an array takes a time that grows with the square of the array's size.
    """
    layout = top.layout()
    layout.start_changes()
    flat = layout.create_cell("flattened")
    for instance in instances:
        flat.insert(instance)
        instance.delete()
    layout.end_changes()
    flat.flatten(False)
    top.move_shapes(flat)
    flat.delete()


def _is_rounded(instance: kdb.Instance, cells: Collection[int]) -> bool:
    return instance.is_complex() or instance.cell_index in cells


def _layers(top: kdb.Cell) -> set[LayerPair]:
    """Return the layers on which a cell or a cell in it has shapes or labels."""
    layout = top.layout()
    infos = {index: layout.get_info(index) for index in layout.layer_indexes() if not top.bbox(index).empty()}
    return {(info.layer, info.datatype) for info in infos.values()}


def _layer_difference(top_a: kdb.Cell, top_b: kdb.Cell, layer: LayerPair, tolerance: int = 0) -> LayerDifference:
    """Return the areas that only one of two cells has, without those that are nowhere wider than a tolerance."""
    store = kdb.DeepShapeStore()
    store.threads = THREADS
    a, b = (kdb.Region(top.begin_shapes_rec(top.layout().layer(*layer)), store) for top in (top_a, top_b))
    unit_um = top_a.layout().dbu
    only_a, only_b = a - b, b - a
    # to size the areas takes several times as long as to subtract them
    if tolerance and not only_a.is_empty():
        only_a = only_a.merged().interacting(a - b.sized(tolerance, _SHARP))
    if tolerance and not only_b.is_empty():
        only_b = only_b.merged().interacting(b - a.sized(tolerance, _SHARP))
    return LayerDifference(layer, _one_sided(only_a, unit_um), _one_sided(only_b, unit_um))


def _one_sided(region: kdb.Region, unit_um: float) -> OneSided:
    merged = region.merged()
    merged.flatten()
    return OneSided(tuple(sorted(merged.each(), key=_order)), unit_um)


def _order(polygon: kdb.Polygon) -> tuple[float, ...]:
    box = polygon.bbox()
    return -box.area(), box.left, box.bottom, box.right, polygon.area(), polygon.num_points()


def _labels(top: kdb.Cell, layers: Sequence[LayerPair]) -> Counter[tuple[LayerPair, str, int, int]]:
    """Return the number of each label, given by layer, text, and place in the top cell in database units."""
    layout = top.layout()
    labels: Counter[tuple[LayerPair, str, int, int]] = Counter()
    for layer in layers:
        shapes = top.begin_shapes_rec(layout.layer(*layer))
        shapes.shape_flags = kdb.Shapes.STexts
        for one in shapes.each():
            text = one.shape().text
            place = one.trans() * kdb.Point(text.x, text.y)
            labels[layer, text.string, place.x, place.y] += 1
    return labels


def _placed(labels: Counter[tuple[LayerPair, str, int, int]], unit_um: float) -> tuple[Label, ...]:
    return tuple(sorted(Label(layer, text, x * unit_um, y * unit_um) for layer, text, x, y in labels.elements()))
