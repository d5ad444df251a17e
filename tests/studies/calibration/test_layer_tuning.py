"""Joint rounding to DAC steps against independent rounding."""

from __future__ import annotations

import numpy as np

from optinc_pdk.studies.calibration._layer_tuning import integer_steps


def test_joint_rounding_leaves_a_smaller_error_than_independent_rounding():
    rng = np.random.default_rng(1)
    for _ in range(10):
        effect, error = rng.standard_normal((20, 60)), 30.0 * rng.standard_normal(20)
        independent = np.rint(np.linalg.lstsq(effect, -error, rcond=None)[0])
        joint = integer_steps(effect.T @ effect, effect.T @ error, 1e-4)
        assert np.array_equal(joint, np.rint(joint))
        assert np.linalg.norm(error + effect @ joint) < 0.5 * np.linalg.norm(error + effect @ independent)


def test_heaters_without_effect_do_not_move():
    assert not integer_steps(np.zeros((4, 4)), np.zeros(4), 1e-4).any()
