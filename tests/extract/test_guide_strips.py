"""Lengths of guides: those of the lines that were drawn, whatever rounding to the grid does to their chords."""

from __future__ import annotations

import math

import klayout.db as kdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cells.curves import circular_arc, euler_bend, polyline_length_um, ribbon, round_corners, s_bend
from optinc_pdk.extract.guide_strips import StripSides

BEND_NM = 0.4
"""Largest error of the length of a bend by 90°."""
TURNS = [kdb.Trans(turns, mirrored, 0, 0) for mirrored in (False, True) for turns in range(4)]


def strip(line: Floats, move: kdb.Trans = TURNS[0]) -> StripSides:
    """The sides of a guide along a line (n, 2) in µm, moved."""
    points = ribbon(line, 0.45)
    # mirroring exchanges the sides
    half = np.split(np.array([(p.x, p.y) for p in (move * kdb.Point(*xy) for xy in points.tolist())]), 2)
    left, right = (distinct(side) for side in half)
    return StripSides(right[::-1], left[::-1]) if move.is_mirror() else StripSides(left, right)


def distinct(points: Ints) -> Ints:
    """Points without those that equal the one before."""
    return points[np.append(True, np.any(np.diff(points, axis=0) != 0, axis=1))]


@settings(max_examples=150, deadline=None)
@given(st.integers(5_000, 120_000), st.integers(32, 4_000), st.sampled_from([90, 180]))
def test_an_arc_of_any_radius_and_number_of_chords_has_its_length(radius_nm: int, chords: int, angle: int) -> None:
    line = circular_arc(radius_nm / 1000, angle, chords)
    error = (strip(line).length_um - polyline_length_um(line)) * 1000
    assert abs(error) < BEND_NM * angle / 90


@pytest.mark.parametrize("chords", [16, 64, 360, 2000])
@pytest.mark.parametrize("radius", [5.0, 10.0, 33.3, 80.0])
def test_euler_bends_and_s_bends_have_their_lengths(radius: float, chords: int) -> None:
    for line in (euler_bend(radius, chords, 90.0, 0.5)[0], s_bend(3 * radius, radius, radius, chords)):
        assert abs(strip(line).length_um - polyline_length_um(line)) * 1000 < BEND_NM


def test_errors_do_not_grow_with_the_length_of_straights() -> None:
    corners = np.array([[0, 0], [5_000, 0], [5_000, 400], [12_000, 400]], dtype=float)
    line = round_corners(corners, 10.0, 64)
    assert abs(strip(line).length_um - polyline_length_um(line)) * 1000 < 2 * BEND_NM


@pytest.mark.parametrize("line", [circular_arc(7.003, 90, 700), euler_bend(10.0, 64)[0], s_bend(40.0, 3.0, 10.0, 64)])
def test_the_length_is_the_same_from_both_ends_and_in_all_orientations(line: Floats) -> None:
    found = {strip(line, turn).length_um for turn in TURNS} | {strip(line, turn).back.length_um for turn in TURNS}
    assert len(found) == 1


@given(st.lists(st.integers(1, 59_999), max_size=5))
def test_corners_on_a_straight_do_not_change_the_length(extra: list[int]) -> None:
    line = np.concatenate([circular_arc(10.0, 90, 200), [[10.0, 70.0]]])
    sides = strip(line)
    more = np.array([(10_000 - 225, 10_000 + y) for y in sorted(set(extra))], dtype=np.int64).reshape(-1, 2)
    left = np.concatenate([sides.left[:-1], more, sides.left[-1:]])
    assert StripSides(left, sides.right).length_um == sides.length_um


@given(st.integers(1, 200_000))
def test_a_straight_has_its_exact_length(length: int) -> None:
    sides = StripSides(np.array([(0, 225), (length, 225)]), np.array([(length, -225), (0, -225)]))
    assert sides.length_um == length / 1000


def test_a_lengthened_bend_is_measured_to_a_fraction_of_a_nanometre() -> None:
    for extra in (1, 5, 20):
        line = np.concatenate([circular_arc(10.0, 90, 1000), [[10.0, 20.0 + extra / 1000]]])
        assert abs(strip(line).length_um - (10 * math.pi / 2 + 10 + extra / 1000)) * 1000 < BEND_NM
