"""River routing: wires keep order and distance, and their ends are as near to their targets as possible."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from optinc_pdk.layout.routing import river_levels, spaced_positions

SPACE = 10.0
Line = tuple[float, float, float, float]

gaps = st.lists(st.floats(0, 60), min_size=1, max_size=12)


def positions(start: float, extra: list[float]) -> np.ndarray:
    """Ascending positions at least SPACE apart."""
    return start + np.cumsum(np.array(extra) + SPACE) - SPACE


def wire(source: float, target: float, level: int, end: float) -> list[Line]:
    """The three pieces of a wire as boxes of zero width."""
    y = (level + 1) * SPACE
    left, right = sorted((source, target))
    return [(source, 0.0, source, y), (left, y, right, y), (target, y, target, end)]


def distance(a: Line, b: Line) -> float:
    across = max(a[0] - b[2], b[0] - a[2], 0.0)
    along = max(a[1] - b[3], b[1] - a[3], 0.0)
    return float(np.hypot(across, along))


@given(
    gaps=st.lists(st.tuples(st.floats(0, 60), st.floats(0, 60)), min_size=1, max_size=12), shift=st.floats(-300, 300)
)
def test_no_two_wires_come_closer_than_the_space(gaps: list[tuple[float, float]], shift: float) -> None:
    source, target = (positions(start, [g[i] for g in gaps]) for i, start in ((0, 0.0), (1, shift)))
    levels = river_levels(source, target, SPACE)
    assert levels.dtype == np.int64
    assert levels.min() == 0
    end = (levels.max() + 2) * SPACE
    wires = [wire(s, t, n, end) for s, t, n in zip(source, target, levels.tolist(), strict=True)]
    closest = min(
        (distance(a, b) for i, one in enumerate(wires) for other in wires[i + 1 :] for a in one for b in other),
        default=SPACE,
    )
    assert closest >= SPACE - 1e-9


@given(gaps=gaps)
def test_straight_wires_need_no_second_track(gaps: list[float]) -> None:
    source = positions(0.0, gaps)
    assert not river_levels(source, source, SPACE).any()


def test_a_common_shift_makes_a_staircase() -> None:
    source = np.arange(4) * SPACE
    assert river_levels(source, source + 5.0, SPACE).tolist() == [3, 2, 1, 0]
    assert river_levels(source, source - 5.0, SPACE).tolist() == [0, 1, 2, 3]


@given(targets=st.lists(st.floats(-100, 100), min_size=1, max_size=12).map(sorted), seed=st.integers(0, 10**6))
def test_spread_is_feasible_and_optimal(targets: list[float], seed: int) -> None:
    low, high = -90.0, 90.0
    points = np.array(targets)
    result = spaced_positions(points, SPACE, low, high)
    assert result.shape == points.shape
    assert np.all(np.diff(result) >= SPACE - 1e-9)
    assert result[0] >= low - 1e-9
    assert result[-1] <= high + 1e-9
    cost = float(np.sum((result - points) ** 2))
    rng = np.random.default_rng(seed)
    spare = high - low - SPACE * (len(points) - 1)
    for _ in range(20):
        other = low + np.sort(rng.uniform(0, spare, len(points))) + SPACE * np.arange(len(points))
        # the feasible set is convex, so no step from the optimum towards another point can be nearer
        for step in (1.0, 1e-3):
            between = result + step * (other - result)
            assert np.sum((between - points) ** 2) >= cost - 1e-6


@given(gaps=gaps)
def test_positions_far_enough_apart_are_unchanged(gaps: list[float]) -> None:
    points = positions(0.0, gaps)
    assume(points[-1] <= 1e3)
    np.testing.assert_allclose(spaced_positions(points, SPACE, -1.0, 1e3), points, atol=1e-9)


def test_spread_of_no_positions_is_empty() -> None:
    assert spaced_positions(np.zeros(0), SPACE, 0.0, 1.0).shape == (0,)


def test_more_positions_than_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\b4\b.*10\.0 µm.*30 µm.*20 µm"):
        spaced_positions(np.zeros(4), SPACE, 0.0, 20.0)
