"""Differences of layouts: areas against a raster, whatever the hierarchy, database unit and file format."""

from __future__ import annotations

from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.signoff.layout_difference import Label, LayoutDifference, compare_layouts

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


def raster(boxes: Boxes) -> NDArray[np.bool_]:
    filled = np.zeros((SIZE, SIZE), bool)
    for left, bottom, right, top in boxes:
        filled[left:right, bottom:top] = True
    return filled


def boxes() -> st.SearchStrategy[Boxes]:
    side = st.lists(st.integers(0, SIZE), min_size=2, max_size=2, unique=True).map(sorted)
    box = st.tuples(side, side).map(lambda sides: (sides[0][0], sides[1][0], sides[0][1], sides[1][1]))
    return st.lists(box, min_size=1, max_size=6)


def areas(difference: LayoutDifference) -> tuple[float, float]:
    (layer,) = difference.layers
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
    for side, mask in ((difference.layers[0].only_a, one & ~other), (difference.layers[0].only_b, other & ~one)):
        for left, bottom, right, top in np.rint(side.boxes_um()).astype(int).tolist():
            assert mask[left:right, bottom:top].any()
    assert difference.cells_b == tuple(f"child{number}" for number in range(cells - 1))


def test_database_units_are_converted_if_one_is_a_multiple_of_the_other(tmp_path: Path) -> None:
    a = written(tmp_path / "a.gds", [(0, 0, 2, 1)])
    for unit_um in (0.0005, 0.002):
        assert compare_layouts(a, written(tmp_path / "b.gds", [(0, 0, 2, 1)], 2, unit_um)).equal
        different = compare_layouts(a, written(tmp_path / "c.oas", [(0, 0, 3, 1)], 1, unit_um))
        assert areas(different) == pytest.approx((0.0, 1.0))
        assert different.layers[0].only_b.boxes_um() == pytest.approx(np.array([[2.0, 0.0, 3.0, 1.0]]))
    with pytest.raises(InputError, match=r"0\.0007 µm.*0\.001 µm"):
        compare_layouts(a, written(tmp_path / "d.gds", [(0, 0, 7, 7)], 1, 0.0007))


def test_layers_that_only_one_layout_has_are_differences(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a.gds", [(0, 0, 2, 1)]), written(tmp_path / "b.gds", [(0, 0, 2, 1)], layer=(41, 1))
    difference = compare_layouts(a, b)
    found = [(one.layer, one.only_a.area_um2, one.only_b.area_um2) for one in difference.layers]
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
    assert difference.labels_a == (Label((100, 0), "p", 1.0, 2.0), Label((100, 0), "q", 3.0, 4.0))
    assert difference.labels_b == (Label((100, 0), "q", 3.0, 5.0),)
    assert not difference.equal and all(layer.equal for layer in difference.layers)


def test_all_top_cells_are_compared(tmp_path: Path) -> None:
    layout = kdb.Layout()
    for name, left in (("left", 0), ("right", 1)):
        layout.create_cell(name).shapes(layout.layer(3, 0)).insert(kdb.DBox(left, 0, left + 1, 1))
    layout.write(str(tmp_path / "two.gds"))
    difference = compare_layouts(written(tmp_path / "one.gds", [(0, 0, 2, 1)]), tmp_path / "two.gds")
    assert difference.equal
    assert (difference.cells_a, difference.cells_b) == (("top",), ("left", "right"))


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
