"""Whole steps chosen together against each rounded by itself."""

from __future__ import annotations

import numpy as np

from optinc_pdk.tolerance.calibration.rounding import nearest_plane


def test_steps_chosen_together_leave_less_than_rounding_each():
    rng = np.random.default_rng(1)
    for _ in range(10):
        effect, error = rng.standard_normal((20, 60)), 30.0 * rng.standard_normal(20)
        each = np.rint(np.linalg.lstsq(effect, -error, rcond=None)[0])
        together = nearest_plane(effect, error, 1e-4)
        assert np.array_equal(together, np.rint(together))
        assert np.linalg.norm(error + effect @ together) < 0.5 * np.linalg.norm(error + effect @ each)


def test_heaters_without_effect_stay():
    effect = np.zeros((3, 4))
    assert not nearest_plane(effect, np.ones(3), 1e-4).any()
