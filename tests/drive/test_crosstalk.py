"""Thermal crosstalk: operators against matrices and direct sums, and heater phases that compensate it."""

from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.drive import (
    CrosstalkOperator,
    DenseCrosstalk,
    DistanceCrosstalk,
    HeaterArray,
    RangeError,
    compensate,
    crosstalk,
    drive_heaters,
    readback,
)
from optinc_pdk.drive.crosstalk import ERROR_BOUND, GridCrosstalk

TURN = 2.0 * np.pi


def grid(heaters: int, share: float = 0.029, pitch: tuple[float, float] = (60.0, 52.0)) -> DistanceCrosstalk:
    """Heaters in rows of 16; the share is that at 25 µm."""
    return DistanceCrosstalk(np.stack(np.divmod(np.arange(heaters), 16), axis=1) * np.array(pitch), share, 25.0)


def targets(heaters: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.0, TURN, heaters)


def largest_error(phase: np.ndarray, target: np.ndarray) -> float:
    """Largest difference in rad, up to whole turns."""
    return float(np.abs(np.angle(np.exp(1j * (phase - target)))).max(initial=0.0))


def test_shares_fall_with_distance() -> None:
    matrix = DistanceCrosstalk(np.array([[0.0, 0], [60, 0], [0, 120], [0, 1]]), 0.05, 60.0).matrix
    np.testing.assert_allclose(np.diagonal(matrix), 1.0)
    np.testing.assert_allclose(matrix, matrix.T)
    np.testing.assert_allclose(matrix[0, 1:], [0.05, 0.025, 1.0])


@pytest.mark.parametrize("stored", [crosstalk.STORED, 0])
@pytest.mark.parametrize("heaters", [0, 1, 40, 300])
def test_the_operator_is_a_product_with_the_matrix(heaters: int, stored: int, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, own = grid(heaters), targets(heaters)
    monkeypatch.setattr(crosstalk, "STORED", stored)
    np.testing.assert_allclose(operator.apply(own), operator.matrix @ own, rtol=1e-13)
    np.testing.assert_allclose(DenseCrosstalk(operator.matrix).apply(own), operator.matrix @ own)
    # few rows at a time, the last of them fewer
    monkeypatch.setattr(crosstalk, "BLOCK", 7 * heaters)
    np.testing.assert_allclose(grid(heaters).apply(own), operator.matrix @ own, rtol=1e-13)


def test_many_heaters_are_compensated_without_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    heaters = 3000
    operator, target = grid(heaters), targets(heaters)
    monkeypatch.setattr(crosstalk, "STORED", 0)
    tracemalloc.start()
    own = compensate(operator, target)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * heaters**2 / 10
    assert largest_error(operator.apply(own), target) < 1e-8


@given(st.integers(1, 200), st.floats(0.0, 0.1), st.integers(0, 2**31))
def test_guides_get_their_targets_from_heaters_of_at_most_a_turn(heaters: int, share: float, seed: int) -> None:
    operator, target = grid(heaters, share), targets(heaters, seed)
    own = compensate(operator, target)
    assert np.all((own >= 0.0) & (own <= 1.02 * TURN))
    assert largest_error(operator.matrix @ own, target) < 1e-8


@given(st.integers(1, 60), st.floats(0.0, 0.1), st.integers(0, 2**31))
def test_no_fewer_turns_would_do(heaters: int, share: float, seed: int) -> None:
    """Turns taken off again, one heater at a time, leave that heater negative."""
    operator, target = grid(heaters, share), targets(heaters, seed)
    turns = np.rint((operator.matrix @ compensate(operator, target) - target) / TURN)
    assert np.all(turns >= 0.0)
    for i in np.flatnonzero(turns):
        fewer = target + TURN * (turns - (np.arange(heaters) == i))
        assert np.linalg.solve(operator.matrix, fewer)[i] < 0.0


@given(st.integers(1, 40), st.integers(0, 2**31))
def test_a_measured_matrix_need_not_be_symmetric(heaters: int, seed: int) -> None:
    spread = np.random.default_rng(seed).lognormal(0.0, 0.3, (heaters, heaters))
    np.fill_diagonal(spread, 1.0)
    operator, target = DenseCrosstalk(grid(heaters).matrix * spread), targets(heaters, seed)
    own = compensate(operator, target)
    assert np.all(own >= 0.0)
    assert largest_error(operator.matrix @ own, target) < 1e-8
    # the direct solution for the same turns
    turns = np.rint((operator.matrix @ own - target) / TURN)
    np.testing.assert_allclose(own, np.linalg.solve(operator.matrix, target + TURN * turns), atol=1e-8)


def test_codes_for_compensated_phases_give_the_targets() -> None:
    """Forward by hand: every heater's power shifts every guide; codes are fine enough not to matter."""
    heaters, operator, target = 12, grid(12, 0.05), targets(12)
    heater = HeaterArray(0.02, np.full(heaters, 500.0), np.full(heaters, 25.0), 32, 12.0)
    driven = drive_heaters(heater, compensate(operator, target))
    own = [np.pi * power / 0.02 for power in driven.power_w]
    guide = np.array([sum(operator.matrix[i, j] * own[j] for j in range(heaters)) for i in range(heaters)])
    assert largest_error(guide, target) < 1e-8
    assert largest_error(operator.apply(readback(heater, driven.code).phase_rad), target) < 1e-6


def test_ignored_crosstalk_shows_in_the_phases() -> None:
    operator, target = grid(4), np.full(4, 3.0)
    assert np.min(operator.apply(target) - target) > 0.05


def test_without_crosstalk_nothing_changes() -> None:
    target = np.array([0.0, 1.0, 6.0])
    np.testing.assert_array_equal(compensate(DenseCrosstalk(np.eye(3)), target), target)


def test_targets_count_up_to_whole_turns() -> None:
    target = targets(20)
    expected = compensate(grid(20), target)
    np.testing.assert_allclose(compensate(grid(20), target + TURN * np.arange(-10, 10)), expected, atol=1e-8)


def test_zero_targets_need_no_power() -> None:
    assert not np.any(compensate(grid(50), np.zeros(50)))
    assert not np.any(compensate(grid(50), np.full(50, -1e-12)))


def test_a_guide_heated_beyond_its_target_gets_a_turn_more() -> None:
    """Of pi in the first guide 0.1 pi reaches the second, 25 µm away, whose target is 0.1."""
    operator = DistanceCrosstalk(np.array([[0.0, 0.0], [25.0, 0.0]]), 0.1, 25.0)
    own = compensate(operator, [np.pi, 0.1])
    assert own == pytest.approx(np.linalg.solve([[1.0, 0.1], [0.1, 1.0]], [np.pi, 0.1 + TURN]))


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        (grid(100, 0.9, (20.0, 20.0)), ["100 heaters", "0.9 at 25 µm"]),
        (DenseCrosstalk(np.array([[1, 3, 3], [3, 1, 3], [3, 3, 1.0]])), ["3 heaters", "up to 3 "]),
        (DenseCrosstalk(np.ones((3, 3))), ["3 heaters", "up to 1 "]),
    ],
)
def test_too_strong_crosstalk_is_refused(operator: CrosstalkOperator, values: list[str]) -> None:
    with pytest.raises(RangeError) as caught:
        compensate(operator, [1.0, 2.0, 3.0] if "3 heaters" in values else targets(100))
    assert all(value in str(caught.value) for value in values)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "shape (2, 3)"),
        (np.eye(3, dtype=object), "an array of float64"),
        (np.eye(3) - 0.1, "crosstalk[0, 1] is -0.1"),
        (np.full((3, 3), np.nan), "crosstalk[0, 0] is nan"),
        (2 * np.eye(3), "diagonal"),
    ],
)
def test_bad_matrices_are_refused(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        DenseCrosstalk(matrix)


@pytest.mark.parametrize(
    ("position", "share", "distance", "message"),
    [
        ([0.0, 1.0], 0.1, 1.0, "position_um has shape (2,)"),
        ([[0.0, np.nan]], 0.1, 1.0, "position_um holds nan"),
        ([[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]], 0.1, 1.0, "heaters 0 and 2"),
        ([[0.0, 1.0]], 1.0, 1.0, "share is 1.0"),
        ([[0.0, 1.0]], 0.1, 0.0, "distance_um is 0.0"),
    ],
)
def test_impossible_positions_are_refused(
    position: list[list[float]], share: float, distance: float, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        DistanceCrosstalk(np.array(position), share, distance)


@pytest.mark.parametrize("target", [[[1.0], [2.0]], [np.nan, 1.0], ["1", "2"], [1.0, 2.0, 3.0]])
def test_bad_targets_are_refused(target: list[object]) -> None:
    with pytest.raises(ValueError, match="target_rad"):
        compensate(DenseCrosstalk(np.eye(2)), target)  # type: ignore[arg-type]


RNG = np.random.default_rng(0)
ROWS = np.stack(np.meshgrid(150.0 * np.arange(40), 52.0 * np.arange(24)), axis=-1).reshape(-1, 2)
PLACES = {
    "area": RNG.uniform(0.0, 3000.0, (1200, 2)),
    "line": RNG.uniform(0.0, 3000.0, (1200, 2)) * [1.0, 0.001],
    "rows": ROWS,
    "clusters": np.concatenate([RNG.uniform(0.0, 500.0, (600, 2)), RNG.uniform(9000.0, 9500.0, (600, 2))]),
    "two": np.array([[0.0, 0.0], [25.0, 0.0]]),
}


@pytest.mark.parametrize("name", PLACES)
def test_error_is_within_the_stated_bound(name):
    direct = DistanceCrosstalk(PLACES[name], 0.029, 25.0)
    own = np.random.default_rng(1).uniform(0.0, 2 * np.pi, direct.heaters)
    error = np.abs(GridCrosstalk(direct).apply(own) - direct.apply(own))
    assert error.max() <= ERROR_BOUND * own.max()


def test_compensation_agrees_with_direct_sums():
    direct = DistanceCrosstalk(ROWS, 0.029, 25.0)
    target = np.random.default_rng(2).uniform(0.0, 2 * np.pi, direct.heaters)
    own = compensate(GridCrosstalk(direct), target)
    turns = (direct.apply(own) - target) / (2 * np.pi)
    assert own.min() >= 0.0
    assert np.abs(turns - np.rint(turns)).max() < 1e-5


def test_far_crosstalk_is_not_cut_off():
    direct = DistanceCrosstalk(PLACES["clusters"], 0.029, 25.0)
    own = np.zeros(direct.heaters)
    own[:600] = 1.0
    far = GridCrosstalk(direct).apply(own)[600:]
    assert far == pytest.approx(direct.apply(own)[600:], rel=1e-4)
    assert far.min() > 0.03
