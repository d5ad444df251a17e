"""Tolerated field noise against simulations with random noise."""

from pathlib import Path

import numpy as np
import pytest

import optinc_pdk.networks as networks_package
from optinc_pdk.averaging import Averaging, score
from optinc_pdk.networks import AveragingNetwork, Layer, bundled_weights, carry_chain, normalise
from optinc_pdk.networks.noise_tolerance import tolerated_field_noise

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
