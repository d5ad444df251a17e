"""Steps of the phase fit."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.simulate.programming.phase_fit import damped_step


def test_heaters_without_effect_get_no_step() -> None:
    """The phases of a layer of attenuators alone have no effect that the rows' gains do not provide."""
    for shape in ((2, 4), (4, 2)):
        step, left = damped_step(np.zeros(shape), np.full(shape[0], 0.5), 0.1)
        assert np.array_equal(step, np.zeros(shape[1])) and left == 0.5


@pytest.mark.parametrize("shape", [(3, 7), (7, 3)])
def test_a_step_with_little_damping_solves_the_linear_problem(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    slope, error = rng.normal(size=shape), 1e-3 * rng.normal(size=shape[0])
    step, left = damped_step(slope, error, 1e-12)
    expected = np.linalg.lstsq(slope, -error)[0]
    np.testing.assert_allclose(step, expected, rtol=1e-5, atol=1e-9)
    assert left == pytest.approx(np.sqrt(np.mean((error + slope @ expected) ** 2)), abs=1e-9)
