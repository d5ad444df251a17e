"""Guides of many strips: measured from their distinct parts, they have the length and the width of the whole."""

from __future__ import annotations

from itertools import pairwise

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.arrays import Ints
from optinc_pdk.cells.curves import circular_arc, ribbon, s_bend
from optinc_pdk.extract._guide_strips import GuideStrip, PlacedStrips, StripRule, StripSides, mean_width_fault
from optinc_pdk.extract._guide_tracing import _Guides, _joined

WIDTH = 450
RULE = StripRule(WIDTH, 2, 600)
STRAIGHTS = (1, 20, 300, 499, 500, 501, 1_499, 1_500, 2_999, 7_500, 30_000, 3_000_000)
CURVES = (circular_arc(10.0, 90, 64), circular_arc(7.003, 90, 700), s_bend(40.0, 3.0, 10.0, 64))
QUARTERS = (1, 1, 0)
"""Quarter turns to the left of each curve."""


def guide_strip(left: Ints, right: Ints, wider: int = 0) -> GuideStrip:
    """A strip from its sides in nm, clockwise; ``wider`` moves every second point of the left side upwards."""
    left, right = (side[np.append(True, np.any(np.diff(side, axis=0) != 0, axis=1))] for side in (left, right))
    left[1:-1:2, 1] += wider
    ends = np.array([(right[-1], left[0]), (left[-1], right[0])])
    polygon = kdb.Polygon([kdb.Point(x, y) for x, y in np.concatenate([left, right]).tolist()])
    return GuideStrip(polygon, ends, StripSides(left, right), RULE)


def moved(points: Ints, by: kdb.Trans) -> Ints:
    return np.array([(p.x, p.y) for p in (by * kdb.Point(x, y) for x, y in points.tolist())])


def strips(wider: int = 0) -> tuple[list[GuideStrip], list[tuple[int, int]]]:
    """Straights and curves in all directions, and the directions, 0 … 3, in which a guide enters and leaves them."""
    found, directions = [], []
    for turns in range(4):
        for mirrored in (False, True):
            move = kdb.Trans(turns, mirrored, 0, 0)
            for line, quarters in zip(CURVES, QUARTERS, strict=True):
                left, right = np.split(moved(ribbon(line, 0.45), move), 2)
                # mirroring exchanges the sides
                found.append(guide_strip(*((right[::-1], left[::-1]) if mirrored else (left, right)), wider))
                directions.append((turns, (turns + (-quarters if mirrored else quarters)) % 4))
        along = kdb.Trans(turns, False, 0, 0)
        for length in STRAIGHTS:
            corners = np.array([(0, WIDTH // 2), (length, WIDTH // 2), (length, -WIDTH // 2), (0, -WIDTH // 2)])
            found.append(guide_strip(*np.split(moved(corners, along), 2)))
            directions.append((turns, turns))
    return found, directions


def random_codes(directions: list[tuple[int, int]], count: int, seed: int) -> Ints:
    """Codes of a guide of some strips, each of which is entered in the direction in which the one before is left."""
    rng, direction, codes = np.random.default_rng(seed), 0, []
    for _ in range(count):
        number = int(rng.choice([k for k, (entered, _) in enumerate(directions) if entered == direction]))
        direction = directions[number][1]
        codes.append(2 * number)
    return np.array(codes, dtype=np.int64)


@pytest.mark.parametrize("seed", range(40))
def test_the_length_is_that_of_the_whole_to_the_last_bit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # joints of curves without straights are rounded to the grid, which is no matter here
    monkeypatch.setattr(_Guides, "are_smooth", lambda *_: True)
    monkeypatch.setattr(_Guides, "has_wrong_width", lambda *_: False)
    placed, directions = strips()
    guides = _Guides(PlacedStrips(placed, np.zeros(0, np.int64), np.zeros((0, 2), np.int64)), RULE)
    for count in (1, 2, 3, 30):
        codes = random_codes(directions, count, seed)
        assert guides.length_um(codes) == _joined([placed[code >> 1].sides for code in codes]).length_um


@pytest.mark.parametrize("wider", [-1, 0, 1])
def test_a_wrong_mean_width_is_that_of_the_whole(wider: int) -> None:
    placed, directions = strips(wider)
    guides = _Guides(PlacedStrips(placed, np.zeros(0, np.int64), np.zeros((0, 2), np.int64)), RULE)
    found = []
    for seed, count in enumerate((1, 2, 3, 5, 8, 30) * 5):
        codes = random_codes(directions, count, seed)
        whole = mean_width_fault([placed[code >> 1].width_errors for code in codes], RULE)
        found.append(guides.has_wrong_width(codes))
        assert found[-1] == (whole is not None)
    assert any(found) == (wider != 0)


def test_the_directions_of_a_random_guide_continue() -> None:
    placed, directions = strips()
    for one, other in pairwise(random_codes(directions, 50, 1).tolist()):
        leaving, entering = placed[one >> 1].ends[1], placed[other >> 1].ends[0]
        assert np.array_equal(leaving[1] - leaving[0], entering[0] - entering[1])
