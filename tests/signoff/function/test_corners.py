"""Corner cases of lattices: on the lattice, complete in what they promise, and bounded in number."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging
from optinc_pdk.signoff.function._word_inputs import MAX_COMBINATIONS, corner_steps


@st.composite
def tasks(draw: st.DrawFn) -> Averaging:
    symbols = draw(st.integers(1, 6))
    groups = draw(st.sampled_from([k for k in range(1, symbols + 1) if symbols % k == 0]))
    level = draw(st.sampled_from(["none", "remainder", "finer_input"]))
    return Averaging(2 * symbols, draw(st.integers(1, 9)), groups, level == "remainder", level == "finer_input")


@given(tasks())
def test_corners_are_distinct_lattice_points_with_all_extremes(task: Averaging) -> None:
    points = corner_steps(task)
    assert points.min() >= 0
    assert np.all(points <= task.input_steps)
    assert len(np.unique(points, axis=0)) == len(points)
    found = {tuple(point) for point in points.tolist()}
    for corner in product(*[(0, int(top)) for top in task.input_steps]):
        assert corner in found
    for k in range(task.groups):
        one = np.eye(task.groups, dtype=int)[k]
        assert {tuple(one), tuple(task.input_steps - one)} <= found


@pytest.mark.parametrize("task", [Averaging(16, 4, 8), Averaging(16, 4, 8, finer_input=True), Averaging(32, 4, 16)])
def test_the_number_of_corners_is_bounded(task: Averaging) -> None:
    assert 60_000 < len(corner_steps(task)) < 2 * MAX_COMBINATIONS


def test_every_value_of_one_input_is_tried_with_the_others_at_their_extremes() -> None:
    """16 bits and 4 servers: a carry into symbol 3 starts or ends at some of these values."""
    found = {tuple(point) for point in corner_steps(Averaging(16, 4, 8)).tolist()}
    for value in range(13):
        for upper, lower in product((0, 12), repeat=2):
            assert (*(upper,) * 3, value, *(lower,) * 4) in found


def test_carries_run_through_all_digits() -> None:
    """For each j, the sums next to a multiple of 4^j occur with full and with empty lower inputs."""
    task = Averaging(16, 4, 8)
    points = corner_steps(task)
    total = points @ (4 ** np.arange(7, -1, -1))
    for power in range(1, 8):
        for sign in (-1, 0):
            near = points[total == 4 * 4**power + sign]
            # least and most in the lowest input
            assert near[:, -1].min() <= 3
            assert near[:, -1].max() >= 9
