"""Differences of layouts: areas against a raster, whatever the hierarchy, database unit and file format."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from optinc_pdk.arrays import Bools
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.layout_difference import Label, LayoutDifference, TopDifference, compare_layouts

Boxes = list[tuple[int, int, int, int]]
SIZE = 12


def written(path: Path, boxes: Boxes, cells: int = 1, unit_um: float = 0.001, layer: tuple[int, int] = (3, 0)) -> Path:
    """A layout of these boxes in µm, spread over cells that are placed rotated by 90°."""
    layout = kdb.Layout()
    layout.dbu = unit_um
    top, turned = layout.create_cell("top"), kdb.DTrans(1, False, 0, 0)
    children = [layout.create_cell(f"child{number}") for number in range(cells - 1)]
    for number, box in enumerate(boxes):
        place = number % cells
        if place == 0:
            top.shapes(layout.layer(*layer)).insert(kdb.DBox(*box))
        else:
            children[place - 1].shapes(layout.layer(*layer)).insert(turned.inverted() * kdb.DBox(*box))
    for child in children:
        top.insert(kdb.DCellInstArray(child.cell_index(), turned))
    layout.write(str(path))
    return path


def only(difference: LayoutDifference) -> TopDifference:
    (top,) = difference.tops
    return top


def raster(boxes: Boxes) -> Bools:
    filled = np.zeros((SIZE, SIZE), bool)
    for left, bottom, right, top in boxes:
        filled[left:right, bottom:top] = True
    return filled


def boxes() -> st.SearchStrategy[Boxes]:
    side = st.lists(st.integers(0, SIZE), min_size=2, max_size=2, unique=True).map(sorted)
    box = st.tuples(side, side).map(lambda sides: (sides[0][0], sides[1][0], sides[0][1], sides[1][1]))
    return st.lists(box, min_size=1, max_size=6)


def areas(difference: LayoutDifference) -> tuple[float, float]:
    (layer,) = only(difference).layers
    return layer.only_a.area_um2, layer.only_b.area_um2


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(first=boxes(), second=boxes(), cells=st.integers(1, 3), ending=st.sampled_from(["gds", "oas"]))
def test_areas_are_those_of_a_raster(first: Boxes, second: Boxes, cells: int, ending: str, tmp_path: Path) -> None:
    a = written(tmp_path / "a.gds", first)
    b = written(tmp_path / f"b.{ending}", second, cells)
    difference = compare_layouts(a, b)
    one, other = raster(first), raster(second)
    assert areas(difference) == pytest.approx(((one & ~other).sum(), (other & ~one).sum()))
    assert difference.equal == bool((one == other).all())
    for side, mask in (
        (only(difference).layers[0].only_a, one & ~other),
        (only(difference).layers[0].only_b, other & ~one),
    ):
        for left, bottom, right, top in np.rint(side.boxes_um()).astype(int).tolist():
            assert mask[left:right, bottom:top].any()
    assert difference.cells_b == tuple(f"child{number}" for number in range(cells - 1))


def test_database_units_are_converted_if_one_is_a_multiple_of_the_other(tmp_path: Path) -> None:
    a = written(tmp_path / "a.gds", [(0, 0, 2, 1)])
    for unit_um in (0.0005, 0.002):
        assert compare_layouts(a, written(tmp_path / "b.gds", [(0, 0, 2, 1)], 2, unit_um)).equal
        different = compare_layouts(a, written(tmp_path / "c.oas", [(0, 0, 3, 1)], 1, unit_um))
        assert areas(different) == pytest.approx((0.0, 1.0))
        assert only(different).layers[0].only_b.boxes_um() == pytest.approx(np.array([[2.0, 0.0, 3.0, 1.0]]))
    with pytest.raises(InputError, match=r"a\.gds: .* 0\.001 µm.*d\.gds 0\.0007 µm"):
        compare_layouts(a, written(tmp_path / "d.gds", [(0, 0, 7, 7)], 1, 0.0007))


def test_layers_that_only_one_layout_has_are_differences(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.gds", [(0, 0, 2, 1)]), written(tmp_path / "b.gds", [(0, 0, 2, 1)], layer=(41, 1))
    difference = compare_layouts(a, b)
    found = [(one.layer, one.only_a.area_um2, one.only_b.area_um2) for one in only(difference).layers]
    assert found == [((3, 0), 2.0, 0.0), ((41, 1), 0.0, 2.0)]


def test_labels_are_compared_with_their_places_and_as_often_as_they_are_drawn(tmp_path: Path) -> None:
    def labelled(path: Path, labels: list[tuple[str, int, int]], turned: bool) -> Path:
        layout = kdb.Layout()
        top, child = layout.create_cell("top"), layout.create_cell("child")
        trans = kdb.DTrans(3, False, 10, 20) if turned else kdb.DTrans()
        top.shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 1, 1))
        for text, x, y in labels:
            place = trans.inverted() * kdb.DPoint(x, y)
            child.shapes(layout.layer(100, 0)).insert(kdb.DText(text, place.x, place.y))
        top.insert(kdb.DCellInstArray(child.cell_index(), trans))
        layout.write(str(path))
        return path

    a = labelled(tmp_path / "a.gds", [("p", 1, 2), ("p", 1, 2), ("q", 3, 4)], turned=False)
    assert compare_layouts(a, labelled(tmp_path / "b.gds", [("q", 3, 4), ("p", 1, 2), ("p", 1, 2)], turned=True)).equal
    difference = compare_layouts(a, labelled(tmp_path / "c.gds", [("p", 1, 2), ("q", 3, 5)], turned=True))
    assert only(difference).labels_a == (Label((100, 0), "p", 1.0, 2.0), Label((100, 0), "q", 3.0, 4.0))
    assert only(difference).labels_b == (Label((100, 0), "q", 3.0, 5.0),)
    assert not difference.equal and all(layer.equal for layer in only(difference).layers)


def tops(path: Path, **boxes: Boxes) -> Path:
    """A layout with a top cell of these boxes in µm for each name."""
    layout = kdb.Layout()
    for name, some in boxes.items():
        cell = layout.create_cell(name)
        for box in some:
            cell.shapes(layout.layer(3, 0)).insert(kdb.DBox(*box))
    layout.write(str(path))
    return path


def names_and_verdicts(difference: LayoutDifference) -> list[tuple[str | None, str | None, bool]]:
    return [(top.name_a, top.name_b, top.equal) for top in difference.tops]


LARGE, SMALL = [(0, 0, 10, 10)], [(0, 0, 5, 5)]


def test_top_cells_of_one_name_are_compared_with_each_other(tmp_path: Path) -> None:
    a = tops(tmp_path / "a.gds", p=LARGE, q=SMALL)
    # the change lies within the area of the other top cell
    b = tops(tmp_path / "b.gds", q=[(2, 2, 3, 3)], p=LARGE)
    difference = compare_layouts(a, b)
    assert names_and_verdicts(difference) == [("p", "p", True), ("q", "q", False)] and not difference.equal
    (layer,) = difference.tops[1].layers
    assert (layer.only_a.area_um2, layer.only_b.area_um2) == pytest.approx((24.0, 0.0))
    # swapped contents are a difference
    swapped = compare_layouts(a, tops(tmp_path / "c.gds", p=SMALL, q=LARGE))
    assert names_and_verdicts(swapped) == [("p", "p", False), ("q", "q", False)]
    assert compare_layouts(a, tops(tmp_path / "d.oas", q=SMALL, p=LARGE)).equal


def test_top_cells_without_counterpart_are_differences(tmp_path: Path) -> None:
    a, b = tops(tmp_path / "a.gds", p=LARGE, q=SMALL), tops(tmp_path / "b.gds", p=LARGE)
    difference = compare_layouts(a, b)
    assert names_and_verdicts(difference) == [("p", "p", True), ("q", None, False)] and not difference.equal
    assert names_and_verdicts(compare_layouts(b, a)) == [("p", "p", True), (None, "q", False)]
    (layer,) = difference.tops[1].layers
    assert (layer.only_a.area_um2, layer.only_b.area_um2) == pytest.approx((25.0, 0.0))
    # the joined areas of two top cells are not those of one
    halves = tops(tmp_path / "c.gds", left=[(0, 0, 5, 10)], right=[(5, 0, 10, 10)])
    assert names_and_verdicts(compare_layouts(b, halves)) == [
        (None, "left", False),
        ("p", None, False),
        (None, "right", False),
    ]


def test_one_top_cell_that_remains_in_each_file_is_a_pair(tmp_path: Path) -> None:
    a = tops(tmp_path / "a.gds", p=LARGE, q=SMALL)
    renamed = compare_layouts(a, tops(tmp_path / "b.gds", p=LARGE, other=SMALL))
    assert names_and_verdicts(renamed) == [("p", "p", True), ("q", "other", True)] and renamed.equal
    assert (renamed.cells_a, renamed.cells_b) == (("q",), ("other",))
    both = compare_layouts(a, tops(tmp_path / "c.gds", one=LARGE, other=SMALL))
    assert names_and_verdicts(both) == [
        (None, "one", False),
        (None, "other", False),
        ("p", None, False),
        ("q", None, False),
    ]


def test_top_cells_without_shapes_do_not_count(tmp_path: Path) -> None:
    a, b = tops(tmp_path / "a.gds", p=LARGE), tops(tmp_path / "b.gds", aside=[], q=LARGE)
    difference = compare_layouts(a, b)
    assert difference.equal and difference.cells_b == ("aside", "q")


PLACES = st.tuples(
    st.sampled_from([0.0, 90.0, 180.0, 270.0, 85.0, 45.0, 12.34567]),
    st.sampled_from([1.0, 1.0, 0.5, 1.5]),
    st.booleans(),
    st.integers(0, 30_000),
    st.integers(0, 30_000),
)


def nested(seed: int, places: list[tuple[float, float, bool, int, int]]) -> kdb.Layout:
    """A layout of three levels with polygons, paths whose corners lie on half units, and labels in every cell."""
    rng, layout = np.random.default_rng(seed), kdb.Layout()
    top, cell, inner = (layout.create_cell(name) for name in ("top", "cell", "inner"))
    for one in (top, cell, inner):
        for x, y in rng.integers(0, 20_000, (5, 2)).tolist():
            corners = [kdb.Point(x, y), kdb.Point(x + 901, y + 7003), kdb.Point(x + 5011, y + 33)]
            one.shapes(layout.layer(3, 0)).insert(kdb.Polygon(corners))
            one.shapes(layout.layer(3, 0)).insert(kdb.Path([corners[0], corners[0] + kdb.Vector(0, 3001)], 451))
            one.shapes(layout.layer(100, 0)).insert(kdb.Text("label", x, y))
    for number, (angle, scale, mirrored, x, y) in enumerate(places):
        above, below = ((cell, inner), (top, cell), (top, inner))[number % 3]
        trans = kdb.ICplxTrans(scale, angle, mirrored, x, y)
        above.insert(kdb.CellInstArray(below.cell_index(), trans))
    return layout


def rewritten(layout: kdb.Layout, path: Path, flat: bool = False) -> kdb.Layout:
    """The layout as it is written, and flattened then."""
    layout.write(str(path))
    read = kdb.Layout()
    read.read(str(path))
    if flat:
        read.cell("top").flatten(-1, True)
        read.write(str(path))
    return read


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32), places=st.lists(PLACES, min_size=3, max_size=6))
def test_a_flattened_copy_is_equal_at_every_angle(
    seed: int, places: list[tuple[float, float, bool, int, int]], tmp_path: Path
) -> None:
    a, b = tmp_path / "a.gds", tmp_path / "b.gds"
    rewritten(nested(seed, places), a)
    rewritten(nested(seed, places), b, flat=True)
    for one, other in ((a, b), (b, a), (a, a)):
        assert compare_layouts(one, other).equal


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    angle=st.sampled_from([0.0, 90.0, 85.0, 45.0, 30.0, 12.34567, 0.001]),
    length=st.integers(1_000, 100_000),
    width=st.integers(400, 500),
    flat=st.booleans(),
)
def test_one_unit_of_a_rotated_guides_width_is_a_difference(
    angle: float, length: int, width: int, flat: bool, tmp_path: Path
) -> None:
    def guide(path: Path, width: int, flat: bool) -> Path:
        layout = kdb.Layout()
        top, cell = layout.create_cell("top"), layout.create_cell("guide")
        cell.shapes(layout.layer(3, 0)).insert(kdb.Box(0, 0, length, width))
        top.insert(kdb.CellInstArray(cell.cell_index(), kdb.ICplxTrans(1.0, angle, False, 1003, 707)))
        rewritten(layout, path, flat)
        return path

    a, b = tmp_path / "a.gds", tmp_path / "b.gds"
    guide(a, width, flat=False), guide(b, width + 1, flat)
    copy, other = (guide(tmp_path / f"copy_{w}.gds", w, flat=True) for w in (width, width + 1))
    assert compare_layouts(a, copy).equal
    # where both widths round to the same corners, a flat layout does not say which of them it is
    hidden = flat and compare_layouts(copy, other).equal
    difference = compare_layouts(a, b)
    assert difference.equal == hidden
    if not hidden:
        assert sum(areas(difference)) > 0.0


def test_a_change_of_one_unit_that_rounding_hides_is_found(tmp_path: Path) -> None:
    a, b = tmp_path / "445.gds", tmp_path / "446.gds"
    for path, width in ((a, 445), (b, 446)):
        layout = kdb.Layout()
        top, cell = layout.create_cell("top"), layout.create_cell("guide")
        cell.shapes(layout.layer(3, 0)).insert(kdb.Box(0, 0, 1000, width))
        top.insert(kdb.CellInstArray(cell.cell_index(), kdb.ICplxTrans(1.0, 45.0, False, 1003, 707)))
        layout.write(str(path))
    assert areas(compare_layouts(a, b)) == pytest.approx((0.0, 0.001), rel=0.2)
    assert areas(compare_layouts(b, a)) == pytest.approx((0.001, 0.0), rel=0.2)


def test_touching_polygons_off_axis_are_equal_in_a_flattened_copy(tmp_path: Path) -> None:
    """Where they cross, corners are rounded once, whatever is merged before."""
    layout = kdb.Layout()
    top, cell, inner = (layout.create_cell(name) for name in ("top", "cell", "inner"))
    for corners in (
        [(0, 0), (0, 3333), (10007, 4441), (10007, 0)],
        [(3011, 1013), (3011, 9001), (7919, 8009), (8111, 1021)],
    ):
        inner.shapes(layout.layer(3, 0)).insert(kdb.Polygon([kdb.Point(*corner) for corner in corners]))
    cell.insert(kdb.CellInstArray(inner.cell_index(), kdb.Trans(5000, 7000)))
    top.insert(kdb.CellInstArray(cell.cell_index(), kdb.ICplxTrans(1.0, 85.0, False, 3000, 2000)))
    layout.write(str(tmp_path / "a.gds"))
    top.flatten(-1, True)
    layout.write(str(tmp_path / "b.gds"))
    assert compare_layouts(tmp_path / "a.gds", tmp_path / "b.gds").equal


def test_one_moved_box_of_an_array_at_an_angle_is_found(tmp_path: Path) -> None:
    layout = kdb.Layout()
    top, cell = layout.create_cell("top"), layout.create_cell("cell")
    for y in range(0, 4_000, 1_000):
        cell.shapes(layout.layer(3, 0)).insert(kdb.Box(0, y, 5_000, y + 450))
    place, columns, rows = kdb.ICplxTrans(1.0, 5.0, False, 1003, 707), kdb.Vector(8_000, 0), kdb.Vector(0, 8_000)
    top.insert(kdb.CellInstArray(cell.cell_index(), place, columns, rows, 60, 60))
    array, flat, moved = tmp_path / "array.gds", tmp_path / "flat.gds", tmp_path / "moved.gds"
    layout.write(str(array))
    copy = rewritten(layout, flat, flat=True)
    shapes = copy.cell("top").shapes(copy.layer(3, 0))
    shape = list(shapes.each())[7_000]
    before = kdb.Region(shape.polygon)
    shape.transform(kdb.Trans(0, 200))
    after = kdb.Region(shape.polygon)
    copy.write(str(moved))
    assert compare_layouts(array, flat).equal and compare_layouts(flat, array).equal
    expected = [1e-6 * region.area() for region in (before - after, after - before)]
    assert min(expected) > 0.9
    assert areas(compare_layouts(array, moved)) == pytest.approx(expected)


@pytest.mark.parametrize("units", [(0.001, 0.0010000000000000002), (0.001, 0.0005), (1e-3, 2e-3 / 7 * 3.5)])
def test_labels_are_compared_in_whole_units(units: tuple[float, float], tmp_path: Path) -> None:
    for name, unit_um in zip(("a", "b"), units, strict=True):
        layout = kdb.Layout()
        layout.dbu = unit_um
        top = layout.create_cell("top")
        top.shapes(layout.layer(3, 0)).insert(kdb.DBox(0, 0, 50, 1))
        for x in (35.0, 0.003, 1234.567):
            top.shapes(layout.layer(100, 0)).insert(kdb.DText("in", x, 15))
        layout.write(str(tmp_path / f"{name}.oas"))
    a, b = tmp_path / "a.oas", tmp_path / "b.oas"
    assert compare_layouts(a, b).equal and compare_layouts(b, a).equal


def test_a_layout_beyond_the_range_of_the_smaller_unit_is_refused(tmp_path: Path) -> None:
    a = written(tmp_path / "far.gds", [(0, 0, 400_000, 1)])
    with pytest.raises(InputError, match=r"far\.gds: reaches to 400,000 µm.*fine\.gds, 0\.0001 µm.*214,748 µm"):
        compare_layouts(a, written(tmp_path / "fine.gds", [(0, 0, 2, 1)], unit_um=0.0001))


def test_progress_names_each_layer(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.gds", [(0, 0, 2, 1)]), written(tmp_path / "b.gds", [(0, 0, 2, 1)], layer=(41, 1))
    steps: list[tuple[str, int, int]] = []
    compare_layouts(a, b, lambda *step: steps.append(step))
    assert steps == [("3/0", 0, 2), ("41/1", 1, 2)]


def test_empty_layouts_are_refused(tmp_path: Path) -> None:
    layout = kdb.Layout()
    layout.create_cell("top")
    layout.write(str(tmp_path / "empty.gds"))
    with pytest.raises(InputError, match=r"empty\.gds"):
        compare_layouts(tmp_path / "empty.gds", tmp_path / "empty.gds")
    full = written(tmp_path / "full.gds", [(0, 0, 2, 1)])
    assert areas(compare_layouts(tmp_path / "empty.gds", full)) == (0.0, 2.0)
