"""Crosstalk in linear time against direct sums."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.drive import DistanceCrosstalk, compensate
from optinc_pdk.drive.crosstalk import ERROR_BOUND, GridCrosstalk

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
