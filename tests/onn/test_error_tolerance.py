"""ε* and σ* against closed formulas for networks small enough to have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Layer, Onn, carry_chain
from optinc_pdk.onn.error_tolerance import field_noise_tolerance, matrix_error_tolerance, perturbed_network
from optinc_pdk.onn.optical_layers import optical_layers


def identity() -> Onn:
    """One server and one symbol: the output is the input, 0 ... 3."""
    return Onn((Layer(np.ones((1, 1)), np.zeros(1)),), Averaging(2, 1, 1))


def test_noise_of_one_row_is_the_normal_tail() -> None:
    # Errors of 3 σ in levels; of the eight sides of the four levels, the upper one of level 3 has no threshold.
    expected = brentq(lambda sigma: 7 / 4 * norm.sf(0.5 / (3 * sigma)) - 1e-6, 0.01, 0.1)
    assert field_noise_tolerance(identity()) == pytest.approx(expected, rel=0.02)


def test_matrix_errors_of_one_row_are_proportional_to_the_signal() -> None:
    def wrong(epsilon: float) -> float:
        # Level x is wrong if |ε G x| exceeds a half; the highest level only below.
        sides = (2 * norm.sf(0.5 / epsilon), 2 * norm.sf(0.25 / epsilon), norm.sf(0.5 / 3 / epsilon))
        return float(sum(sides)) / 4

    expected = brentq(lambda epsilon: wrong(epsilon) - 1e-3, 0.01, 0.5)
    assert matrix_error_tolerance(identity(), draws=2000, words=16) == pytest.approx(expected, rel=0.08)


def test_errors_are_relative_to_the_largest_singular_value_of_distinct_rows() -> None:
    weight = np.array([[3.0, 0.0], [0.3, 0.0], [1.0, 1.0], [0.0, 0.0]])
    last = np.array([[1.0, 2.0, -1.0, 0.5]])
    first, second = optical_layers((Layer(weight, np.arange(4.0)), Layer(last, np.zeros(1))), np.array([2.0, 2.0]))
    assert first.row.tolist() == [0, 0, 1, -1]
    assert np.linalg.norm(first.matrix, axis=1)[0] == pytest.approx(np.linalg.norm(first.matrix, axis=1)[1])
    assert np.linalg.norm(first.matrix, 2) == pytest.approx(1.0)
    assert np.linalg.norm(second.matrix, 2) == pytest.approx(1.0)
    x = np.array([[0.3, 0.9], [1.0, 0.2]])
    assert first.units(x @ first.matrix.T) == pytest.approx(x @ (2.0 * weight).T + np.arange(4.0))


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
