"""ε* and σ* against closed formulas for networks small enough to have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, Layer, carry_chain
from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance, perturbed_network


def identity() -> AveragingNetwork:
    """One server and one symbol: the output is the input, 0 ... 3."""
    return AveragingNetwork((Layer(np.ones((1, 1)), np.zeros(1)),), Averaging(2, 1, 1))


def test_noise_of_one_row_is_the_normal_tail() -> None:
    # Errors of 3 σ in levels; of the eight sides of the four levels, the upper one of level 3 has no threshold.
    expected = brentq(lambda sigma: 7 / 4 * norm.sf(0.5 / (3 * sigma)) - 1e-6, 0.01, 0.1)
    assert field_noise_tolerance(identity()) == pytest.approx(expected, rel=0.02)


@pytest.mark.full
def test_matrix_errors_of_one_row_are_proportional_to_the_signal() -> None:
    def wrong(epsilon: float) -> float:
        # Level x is wrong if |ε G x| exceeds a half; the highest level only below.
        sides = (2 * norm.sf(0.5 / epsilon), 2 * norm.sf(0.25 / epsilon), norm.sf(0.5 / 3 / epsilon))
        return float(sum(sides)) / 4

    expected = brentq(lambda epsilon: wrong(epsilon) - 1e-3, 0.01, 0.5)
    assert matrix_error_tolerance(identity(), draws=2000, words=16) == pytest.approx(expected, rel=0.08)


def test_units_that_share_a_detector_share_its_noise() -> None:
    # The noise of one detector reaches the output with the sum of the weights, 3; that of the output with their norm.
    task = Averaging(2, 1, 1)
    first = Layer(np.array([[1 / 3], [1 / 3]]), np.array([0.0, 0.0]))
    last = Layer(np.array([[2.0, 1.0]]), np.zeros(1))
    shared = perturbed_network(AveragingNetwork((first, last), task, activation="clipped_relu"))
    assert len(shared.layers[0].matrix) == 1
    points = np.full((200_000, 1), 1.0)
    spread = np.std(shared.outputs(points, 0.0, 1e-3, 0))
    assert spread == pytest.approx(1e-3 * np.sqrt(3.0**2 + 5.0), rel=0.01)


def test_without_errors_outputs_are_those_of_the_network() -> None:
    onn = carry_chain(Averaging(4, 4, 2))
    network = perturbed_network(onn)
    points = onn.task.lattice()
    assert network.outputs(points, 0.0, 0.0, 0) == pytest.approx(onn.forward(points), abs=1e-9)
    assert network.wrong(points) == 0
    assert network.wrong(points, epsilon=0.1, seed=1) > 0
    assert network.wrong(points, sigma=0.1, seed=1) > 0


def test_a_wrong_network_tolerates_nothing() -> None:
    onn = identity()
    wrong = replace(onn, layers=(Layer(np.full((1, 1), 0.5), np.zeros(1)),))
    assert matrix_error_tolerance(wrong, draws=2, words=64) == 0.0
    assert field_noise_tolerance(wrong) == 0.0
    with pytest.raises(ValueError, match="draws = 0"):
        matrix_error_tolerance(onn, draws=0)
