"""Accuracy with errors, ε* and σ* against closed formulas for small networks and against simulations."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import optinc_pdk.networks as networks_package
from optinc_pdk.averaging import Averaging, score
from optinc_pdk.networks import (
    AveragingNetwork,
    Layer,
    bundled_weights,
    carry_chain,
    input_error_accuracy,
    lattice_score,
    matrix_error_accuracy,
    normalise,
)
from optinc_pdk.networks.error_tolerance import (
    field_noise_tolerance,
    matrix_error_tolerance,
    perturbed_network,
    tolerated_field_noise,
)

TASK = Averaging(4, 4, 2)


def test_tolerance_is_independent_of_the_scaling_and_falls_with_the_error() -> None:
    onn = carry_chain(TASK)
    scale = np.array([4.0, 0.25, 2.0, 8.0, 0.5, 1.0])
    first, second, third = onn.layers
    first = Layer(first.weight * scale[:, None], first.bias * scale)
    scaled = AveragingNetwork((first, Layer(second.weight / scale, second.bias), third), TASK)
    shares = [matrix_error_accuracy(onn, epsilon, draws=20) for epsilon in (0.0, 1e-2, 5e-2)]
    assert shares[0] == 1.0
    assert shares[0] > shares[1] > shares[2]
    assert matrix_error_accuracy(scaled, 1e-2, draws=20) == pytest.approx(shares[1])
    assert matrix_error_accuracy(onn, 1e-2, draws=20) == shares[1]
    assert matrix_error_accuracy(onn, 1e-2, draws=20, seed=2) != shares[1]


def test_tolerance_draws_the_defined_matrix_error() -> None:
    # One output level decided at 0.5 by one weight: P(exact) follows from the normal distribution.
    task = Averaging(2, 1, 1)
    onn = AveragingNetwork((Layer(np.array([[1.0]]), np.zeros(1)),), task)
    # Normalised, W = 3 with Q = 1, and the output is 3 Q x, x = 0, 1/3, 2/3, 1: the error of level 3 is 3 ε G, of
    # level 2 2 ε G. Level 3 has no upper threshold, and level 0 has no error.
    epsilon = 0.25
    noise = np.random.default_rng(0).standard_normal(200_000) * epsilon
    expected = np.mean([1.0, np.mean(abs(noise) < 0.5), np.mean(abs(2 * noise) < 0.5), np.mean(3 * noise > -0.5)])
    assert matrix_error_accuracy(onn, epsilon, draws=4000) == pytest.approx(expected, abs=0.015)


def test_input_tolerance_is_uniform_in_the_full_scale() -> None:
    onn = carry_chain(TASK)
    assert input_error_accuracy(onn, 0.0, draws=1) == 1.0
    # 0.2 % shift each of two sums of 0 ... 12 by 0.024 at most, and the steepest output falls by 3 per unit.
    assert input_error_accuracy(onn, 0.002) == 1.0
    assert input_error_accuracy(onn, 0.3) < 0.9


def test_invalid_arguments_are_refused() -> None:
    onn = carry_chain(TASK)
    with pytest.raises(ValueError, match="epsilon = -1"):
        matrix_error_accuracy(onn, -1.0)
    with pytest.raises(ValueError, match="epsilon = nan"):
        matrix_error_accuracy(onn, float("nan"))
    with pytest.raises(ValueError, match="draws = 0"):
        input_error_accuracy(onn, 0.1, draws=0)


def test_lattice_score_counts_wrong_words() -> None:
    onn = carry_chain(TASK)
    last = onn.layers[-1]
    shifted = AveragingNetwork((*onn.layers[:-1], Layer(last.weight, last.bias + np.array([0.0, 0.6]))), TASK)
    result = lattice_score(shifted)
    # The last symbol is one too high except where it is 3, which has no level above.
    levels = TASK.targets(TASK.lattice())
    assert result.exact == int((levels[:, 1] == 3).sum())
    assert result.margin == pytest.approx(-0.1)


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


NETWORKS = Path(networks_package.__file__).with_name("bundled")


def wrong_words(onn: AveragingNetwork, sigma: float, draws: int) -> int:
    """Number of wrong words with noise at every detector, by an independent simulation unit by unit."""
    normalised, rng, wrong = normalise(onn), np.random.default_rng(5), 0
    points = onn.task.lattice()
    for _ in range(draws):
        signal = points / normalised.scales[0]
        for i, layer in enumerate(normalised.layers):
            gain = np.linalg.norm(layer.weight, axis=1)
            rows = layer.weight / gain[:, np.newaxis]
            first = [int(np.argmax(np.all(np.isclose(rows, row), axis=1))) for row in rows]
            last = i == len(normalised.layers) - 1
            reads = np.arange(layer.outputs) if last else np.array(first)
            norm = np.linalg.norm(rows[np.unique(reads)], 2)
            field = signal @ (rows / norm).T + sigma * rng.standard_normal((len(points), layer.outputs))
            signal = gain * norm * field[:, reads] + layer.bias
            if not last:
                signal = np.clip(signal, 0.0, 1.0 if onn.activation == "clipped_relu" else None)
        result = score(signal, onn.task.targets(points), onn.task.output_resolution)
        wrong += result.inputs - result.exact
    return wrong


def comparators() -> AveragingNetwork:
    """Clipped network for 4 bits and 4 servers: t₀ = s₀ and carries of ⌊t/4⌋ by comparators that share detectors."""
    edges = np.array([4.0, 8.0, 12.0])
    # inputs s/4, so that t = 4 x; clip(g (t - edge + 1/2) + 1/2) is [t >= edge]
    first = Layer(np.vstack([np.tile([0.0, 16.0], (3, 1)), [1 / 3, 0.0]]), np.append(-4.0 * edges + 2.5, 0.0))
    # the carry is the sum of the comparators, s₁ the waiting signal times 12; 0 ... 15 for t₁
    total = np.array([1.0, 1.0, 1.0, 12.0])
    second = Layer(np.vstack([np.tile(4.0 * total, (3, 1)), total / 15.0]), np.append(-4.0 * edges + 2.5, 0.0))
    last = Layer(np.array([[1.0, 1.0, 1.0, 0.0], [-4.0, -4.0, -4.0, 15.0]]), np.zeros(2))
    return AveragingNetwork((first, second, last), Averaging(4, 4, 2), activation="clipped_relu")


@pytest.mark.parametrize(
    "onn",
    [
        AveragingNetwork.load(bundled_weights()),
        AveragingNetwork.load(NETWORKS / "average_4bit_4servers_relu.npz"),
        AveragingNetwork.load(NETWORKS / "average_8bit_4servers_robust.npz"),
        comparators(),
    ],
)
def test_random_noise_changes_no_word_at_five_sigma_but_does_beyond(onn: AveragingNetwork) -> None:
    sigma = tolerated_field_noise(onn, 5.0)
    draws = -(-20_000 // onn.task.lattice_size)
    assert wrong_words(onn, sigma, draws) == 0
    assert wrong_words(onn, 5.0 * sigma, draws) > 0


def test_comparators_tolerate_more_noise_than_relu() -> None:
    """Noise reaches an output only through signals that do not saturate: by hand, the digit 15 w - 4 Σ b."""
    onn = comparators()
    rows = np.array([[1.0, 1.0, 1.0, 0.0], [-4.0, -4.0, -4.0, 15.0]])
    gain = np.linalg.norm(rows, axis=1)
    # σ at the server's own detector, at that of t₁ (w = t₁ / 15, norm of its row (1, 1, 1, 12)), and at that of s₁
    last = gain[1] * np.linalg.norm(rows / gain[:, np.newaxis], 2)
    noise = np.sqrt(last**2 + (1 + 1 + 1 + 144) + 144)
    sigma = tolerated_field_noise(onn, 5.0)
    assert sigma > 2.0 * tolerated_field_noise(AveragingNetwork.load(NETWORKS / "average_4bit_4servers_relu.npz"), 5.0)
    assert sigma == pytest.approx(0.5 / (5.0 * noise), rel=1e-6)


def test_one_layer_by_hand() -> None:
    """An output of gain 3 and margin 0.5 tolerates 0.5 / (3 · 4) at four sigma."""
    task = Averaging(2, 1, 1)
    onn = AveragingNetwork((Layer(np.eye(1), np.zeros(1)),), task)
    assert tolerated_field_noise(onn, 4.0) == pytest.approx(0.5 / 12)


def test_a_wrong_word_tolerates_no_noise() -> None:
    onn = carry_chain(Averaging(2, 2, 1))
    last = Layer(0.5 * onn.layers[-1].weight, onn.layers[-1].bias)
    assert tolerated_field_noise(AveragingNetwork((*onn.layers[:-1], last), onn.task), 5.0) == 0.0


@pytest.mark.parametrize("sigmas", [0.0, -1.0, float("nan"), float("inf")])
def test_unusable_sigmas_are_refused(sigmas: float) -> None:
    with pytest.raises(ValueError, match="sigmas"):
        tolerated_field_noise(AveragingNetwork.load(bundled_weights()), sigmas)
