"""Tolerated field noise against simulations with random noise."""

from pathlib import Path

import numpy as np
import pytest

import optinc_pdk.onn as onn_package
from optinc_pdk.averaging import Averaging, score
from optinc_pdk.onn import Layer, Onn, bundled_weights, carry_chain, normalise
from optinc_pdk.onn.noise_tolerance import tolerated_field_noise

NETWORKS = Path(onn_package.__file__).with_name("networks")


def wrong_words(onn: Onn, sigma: float, draws: int) -> int:
    """Number of wrong words with noise at every detector, by an independent simulation unit by unit."""
    normalised, rng, wrong = normalise(onn), np.random.default_rng(5), 0
    points = onn.task.lattice()
    for _ in range(draws):
        signal = points / normalised.scales[0]
        for i, layer in enumerate(normalised.layers):
            passive = layer.weight / np.linalg.norm(layer.weight, 2)
            field = signal @ passive.T + sigma * rng.standard_normal((len(points), layer.outputs))
            signal = np.linalg.norm(layer.weight, 2) * field + layer.bias
            signal = np.maximum(signal, 0.0) if i < len(normalised.layers) - 1 else signal
        result = score(signal, onn.task.targets(points), onn.task.output_resolution)
        wrong += result.inputs - result.exact
    return wrong


@pytest.mark.parametrize("file", [bundled_weights(), NETWORKS / "average_8bit_4servers_robust.npz"])
def test_random_noise_changes_no_word_at_five_sigma_but_does_beyond(file: Path) -> None:
    onn = Onn.load(file)
    sigma = tolerated_field_noise(onn, 5.0)
    draws = -(-20_000 // onn.task.lattice_size)
    assert wrong_words(onn, sigma, draws) == 0
    assert wrong_words(onn, 3.0 * sigma, draws) > 0


def test_one_layer_by_hand() -> None:
    """An output of gain 3 and margin 0.5 tolerates 0.5 / (3 · 4) at four sigma."""
    task = Averaging(2, 1, 1)
    onn = Onn((Layer(np.eye(1), np.zeros(1)),), task)
    assert tolerated_field_noise(onn, 4.0) == pytest.approx(0.5 / 12)


def test_a_wrong_word_tolerates_no_noise() -> None:
    onn = carry_chain(Averaging(2, 2, 1))
    last = Layer(0.5 * onn.layers[-1].weight, onn.layers[-1].bias)
    assert tolerated_field_noise(Onn((*onn.layers[:-1], last), onn.task), 5.0) == 0.0


@pytest.mark.parametrize("sigmas", [0.0, -1.0, float("nan"), float("inf")])
def test_unusable_sigmas_are_refused(sigmas: float) -> None:
    with pytest.raises(ValueError, match="sigmas"):
        tolerated_field_noise(Onn.load(bundled_weights()), sigmas)
