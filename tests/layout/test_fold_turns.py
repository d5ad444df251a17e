"""Turns between rows: nested guides of equal length, without crossings, within the predicted width."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.cards import Quantity, load_process
from optinc_pdk.cells.curves import polyline_length_um, round_corners
from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Canvas, CellFrames, Port, guide_track
from optinc_pdk.layout.routing import draw_turn, turn_width

PROCESS = load_process()
PITCH = float(PROCESS.floorplan.mode_pitch_um)


def turned(starts: list[float], side: int, gap: float = 200.0) -> tuple[Canvas, list[tuple[Port, Port]], float]:
    """A turn whose guides start at given x: canvas, ends and reach; light in the lower row runs the other way."""
    angle = 0 if side > 0 else 180
    pairs = [
        (Port(side * x, PITCH * i + gap / 2, angle), Port(side * x, -PITCH * i - gap / 2, angle))
        for i, x in enumerate(starts)
    ]
    canvas = Canvas(CellFrames())
    draw_turn(canvas, PROCESS, pairs, side)
    return canvas, pairs, max(side * x for path in canvas.guides for x, _ in path)


def lengths(canvas: Canvas) -> list[float]:
    radius = float(PROCESS.guide.radius_um)
    return [polyline_length_um(round_corners(np.array(path), radius, 400)) for path in canvas.guides]


@given(
    starts=st.lists(st.integers(0, 80).map(float), min_size=1, max_size=9),
    side=st.sampled_from((-1, 1)),
    gap=st.sampled_from((160.0, 300.0)),
)
def test_all_guides_of_a_turn_have_equal_length(starts: list[float], side: int, gap: float) -> None:
    canvas, pairs, _ = turned(starts, side, gap)
    ends = {frozenset((path[0], path[-1])) for path in canvas.guides}
    assert ends == {frozenset(((a.x, a.y), (b.x, b.y))) for a, b in pairs}
    assert np.ptp(lengths(canvas)) < float(PROCESS.guide.length_match_um)


@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.parametrize("modes", [1, 2, 5, 12, 24])
def test_turn_is_as_wide_as_predicted(modes: int, side: int) -> None:
    _, _, reach = turned([0.0] * modes, side)
    assert 0 < reach <= turn_width(PROCESS, modes)
    # and not much narrower, because rows next to it would be shortened for nothing
    assert reach >= turn_width(PROCESS, modes) - guide_track(PROCESS) - 2 * float(PROCESS.guide.radius_um)


def test_guides_of_a_turn_keep_their_space() -> None:
    canvas, _, _ = turned([0.0, 12.0, 7.0, 0.0, 30.0, 3.0], 1)
    legs = [list(pairwise(path)) for path in canvas.guides]
    for one, other in combinations(legs, 2):
        for (a, b), (c, d) in ((p, q) for p in one for q in other):
            # legs are at least a track apart in one direction
            dx = max(min(a[0], b[0]) - max(c[0], d[0]), min(c[0], d[0]) - max(a[0], b[0]))
            dy = max(min(a[1], b[1]) - max(c[1], d[1]), min(c[1], d[1]) - max(a[1], b[1]))
            assert max(dx, dy) >= guide_track(PROCESS) - 1e-6


def test_pitch_too_small_for_teeth_is_refused_with_the_required_pitch() -> None:
    update: dict[str, Any] = {"mode_pitch_um": Quantity(24.0, "test")}
    narrow = PROCESS.model_copy(update={"floorplan": PROCESS.floorplan.model_copy(update=update)})
    needed = 20 + guide_track(PROCESS)
    with pytest.raises(InputError, match=rf"mode_pitch_um.*\b24\b.*\b10 µm.*\b{needed:g} µm"):
        draw_turn(Canvas(CellFrames()), narrow, [(Port(0, 20, 0), Port(0, -20, 0))], 1)
