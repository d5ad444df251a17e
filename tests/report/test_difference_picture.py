"""The picture of a difference: colours of each side, and the places that are drawn as details."""

from __future__ import annotations

import io
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from optinc_pdk.cards import load_process
from optinc_pdk.report.difference_picture import (
    BOTH,
    ONLY_A,
    ONLY_B,
    detail_window,
    difference_places,
    difference_png,
    drawn_top,
)
from optinc_pdk.signoff.layout_difference import compare_layouts


def layout(path: Path, boxes: list[kdb.DBox], label: str = "") -> Path:
    drawn = kdb.Layout()
    top = drawn.create_cell("top")
    for box in boxes:
        top.shapes(drawn.layer(3, 0)).insert(box)
    if label:
        top.shapes(drawn.layer(100, 0)).insert(kdb.DText(label, 500, 500))
    drawn.write(str(path))
    return path


def pixels(png: bytes, color: str) -> int:
    """Number of pixels of about this colour."""
    found = imread(io.BytesIO(png))[..., :3]
    return int((np.abs(found - np.array(to_rgb(color))).max(axis=-1) < 0.02).sum())


FRAME = [kdb.DBox(0, 0, 1000, 50), kdb.DBox(0, 950, 1000, 1000)]


def picture(a: Path, b: Path) -> bytes:
    return difference_png(a, b, compare_layouts(a, b), load_process())


@pytest.mark.full
def test_each_side_has_its_colour(tmp_path: Path) -> None:
    same = layout(tmp_path / "a.gds", FRAME)
    more = layout(tmp_path / "b.oas", [*FRAME, kdb.DBox(400, 400, 600, 600)])
    # the legend has all three colours
    legend = {color: pixels(picture(same, same), color) for color in (ONLY_A, ONLY_B, BOTH)}
    for a, b, color, other in ((same, more, ONLY_B, ONLY_A), (more, same, ONLY_A, ONLY_B)):
        png = picture(a, b)
        assert pixels(png, color) > 10 * legend[color] and pixels(png, other) == pytest.approx(legend[other], abs=50)
        assert pixels(png, BOTH) > 10_000


@pytest.mark.full
def test_a_difference_much_smaller_than_a_pixel_is_seen(tmp_path: Path) -> None:
    same = layout(tmp_path / "a.gds", FRAME)
    shifted = layout(tmp_path / "b.gds", [FRAME[0], FRAME[1].moved(0, 0.001)])
    legend = pixels(picture(same, same), ONLY_B)
    assert pixels(picture(same, shifted), ONLY_B) > legend + 100


def test_places_that_are_close_are_one_and_the_largest_comes_first(tmp_path: Path) -> None:
    a = layout(tmp_path / "a.gds", [*FRAME, kdb.DBox(100, 100, 101, 101), kdb.DBox(105, 100, 106, 101)])
    b = layout(tmp_path / "b.gds", [*FRAME, kdb.DBox(700, 700, 800, 750)], label="x")
    places = difference_places(drawn_top(compare_layouts(a, b)))
    assert np.array(places) == pytest.approx(
        np.array([(700, 700, 800, 750), (100, 100, 106, 101), (500, 500, 500, 500)], float)
    )
    assert difference_places(drawn_top(compare_layouts(a, a))) == []


@pytest.mark.full
def test_labels_with_letters_that_the_font_lacks_are_drawn(tmp_path: Path) -> None:
    a, b = layout(tmp_path / "a.gds", FRAME), layout(tmp_path / "b.gds", FRAME, "中 $x_")
    png = picture(a, b)
    assert pixels(png, ONLY_B) > pixels(picture(a, a), ONLY_B)


def test_a_detail_of_a_long_place_shows_a_piece() -> None:
    whole, corners = (0.0, 0.0, 1000.0, 400.0), np.array([(100.0, 250.0), (900.0, 200.0), (500.0, 10.0)])
    left, bottom, right, top = detail_window((100.0, 200.0, 900.0, 250.0), corners, whole)
    assert right - left == pytest.approx(125.0)
    assert ((left + right) / 2, (bottom + top) / 2) == pytest.approx((100.0, 250.0))
    short = detail_window((500.0, 10.0, 520.0, 20.0), corners, whole)
    assert short[0] < 500.0 and short[2] > 520.0 and (short[0] + short[2]) / 2 == pytest.approx(510.0)


@pytest.mark.full
def test_a_detail_of_a_long_row_of_labels_shows_one(tmp_path: Path) -> None:
    a, drawn = layout(tmp_path / "a.gds", FRAME), kdb.Layout()
    drawn.read(str(a))
    for x in range(0, 1000, 5):
        drawn.top_cell().shapes(drawn.layer(100, 0)).insert(kdb.DText("x", x, 500))
    drawn.write(str(tmp_path / "b.gds"))
    (place,) = difference_places(drawn_top(compare_layouts(a, tmp_path / "b.gds")))
    assert place == pytest.approx((0.0, 500.0, 995.0, 500.0))
    assert pixels(picture(a, tmp_path / "b.gds"), ONLY_B) > pixels(picture(a, a), ONLY_B)


@pytest.mark.full
def test_of_several_top_cells_the_first_one_with_other_areas_is_drawn(tmp_path: Path) -> None:
    def tops(path: Path, **boxes: kdb.DBox) -> Path:
        drawn = kdb.Layout()
        for name, box in boxes.items():
            drawn.create_cell(name).shapes(drawn.layer(3, 0)).insert(box)
            drawn.cell(name).shapes(drawn.layer(100, 0)).insert(kdb.DText(path.stem if name == "p" else "", 0, 0))
        drawn.write(str(path))
        return path

    square, other = kdb.DBox(0, 0, 100, 100), kdb.DBox(0, 0, 100, 50)
    a = tops(tmp_path / "a.gds", p=square, q=square, r=square)
    for b, name in (
        (tops(tmp_path / "b.gds", p=square, q=square, r=other), "r"),
        (tops(tmp_path / "d.gds", p=square, q=square, r=square), "p"),
        (a, "p"),
    ):
        assert drawn_top(compare_layouts(a, b)).name_a == name
        assert picture(a, b).startswith(b"\x89PNG")
    # a top cell that only the second layout has
    more = compare_layouts(tops(tmp_path / "c.gds", p=square), a)
    assert (drawn_top(more).name_a, drawn_top(more).name_b) == (None, "q")
    png = picture(tmp_path / "c.gds", a)
    assert pixels(png, ONLY_B) > 10 * pixels(png, BOTH)


def test_a_top_cell_of_labels_is_drawn(tmp_path: Path) -> None:
    def labelled(path: Path, *texts: str) -> Path:
        drawn = kdb.Layout()
        drawn.create_cell("p").shapes(drawn.layer(3, 0)).insert(FRAME[0])
        for number, text in enumerate(texts):
            drawn.create_cell(f"q{number}").shapes(drawn.layer(100, 0)).insert(kdb.DText(text, 5, 5))
        drawn.write(str(path))
        return path

    a, b = labelled(tmp_path / "a.gds", "x"), labelled(tmp_path / "b.gds", "y", "z")
    for one, other in ((a, b), (b, a)):
        assert not compare_layouts(one, other).equal
        assert picture(one, other).startswith(b"\x89PNG")


def test_names_of_files_are_no_formulas(tmp_path: Path) -> None:
    same = layout(tmp_path / "a$\\nothing_$.gds", FRAME)
    assert picture(same, same).startswith(b"\x89PNG")
