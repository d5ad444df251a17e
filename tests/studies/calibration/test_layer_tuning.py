"""Joint rounding to DAC steps against independent rounding."""

from __future__ import annotations

import numpy as np

from optinc_pdk.studies.calibration.layer_tuning import nearest_plane


def test_joint_rounding_leaves_a_smaller_error_than_independent_rounding():
    rng = np.random.default_rng(1)
    for _ in range(10):
        effect, error = rng.standard_normal((20, 60)), 30.0 * rng.standard_normal(20)
        independent = np.rint(np.linalg.lstsq(effect, -error, rcond=None)[0])
        joint = nearest_plane(effect, error, 1e-4)
        assert np.array_equal(joint, np.rint(joint))
        assert np.linalg.norm(error + effect @ joint) < 0.5 * np.linalg.norm(error + effect @ independent)


def test_heaters_without_effect_do_not_move():
    effect = np.zeros((3, 4))
    assert not nearest_plane(effect, np.ones(3), 1e-4).any()
