"""Standard deviations of readings to first order, against those of many noisy runs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, Neuron
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.simulate import Scattering, noise_of, transmit
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.noise import KINDS
from optinc_pdk.simulate.transmission.noise_propagation import (
    ReadingSpread,
    _slopes,
    noise_sensitivity,
    reading_spread,
)
from optinc_pdk.simulate.transmission.reception import server_amplitudes, settled_amplitudes

WIDTH, OUTPUTS = 3, 2
NEURONS = tuple(
    Neuron(f"l{layer}_{i}", layer, (f"p{layer}{i}", f"q{layer}{i}"), (f"m{layer}{i}", f"n{layer}{i}"), f"t{layer}{i}")
    for layer in range(2)
    for i in range(WIDTH)
)
# one more neuron that shares detectors, and one without any
NEURONS += (replace(NEURONS[3], label="l1_3", to="t13"), Neuron("l1_4", 1, (), (), "t14"))
BOARD = Board("c", (), (), (("a0", "a1"), ("b0", "b1")), NEURONS, (("y0", "y1"),))
RUNS = 4000


@pytest.fixture
def chip():
    """Two layers of mixers with random phases of light, and receivers."""
    rng = np.random.default_rng(11)
    labels = tuple(sorted(BOARD.labels))
    s = np.zeros((1, len(labels), len(labels)), dtype=complex)
    sources = [
        [label for row in BOARD.inputs for label in row],
        [n.to for n in NEURONS[:3]],
        [n.to for n in NEURONS[3:]],
    ]
    for layer, names in enumerate(sources):
        seen = [n for n in NEURONS if n.layer == layer]
        for sides in [pair for n in seen for pair in zip(n.plus, n.minus, strict=True)]:
            oscillator = 0.2 + 0.05 * rng.random()
            weights = 0.1 * rng.standard_normal(len(names)) * np.exp(0.2j * rng.standard_normal(len(names)))
            for side, sign in zip(sides, (1, -1), strict=True):
                s[0, labels.index(side), labels.index("c")] = oscillator
                s[0, labels.index(side), [labels.index(name) for name in names]] = sign * weights
    for i in range(OUTPUTS):
        s[0, labels.index(f"y{i}"), [labels.index(n.to) for n in NEURONS[3:]]] = 0.5 * np.exp(1j * i)
    return Scattering(np.array([1550.0]), labels, s)


def spread_of(word, chip, bias, noise) -> ReadingSpread:
    network = network_of(chip, BOARD, bias, 0)
    light, _ = settled_amplitudes(server_amplitudes(word, BOARD, bias), network, None, None)
    return reading_spread(noise_sensitivity(network, light), noise)


@pytest.mark.parametrize("kinds", [*((kind,) for kind in KINDS), KINDS])
@pytest.mark.parametrize("inputs", [{}, {"a0": 0.3, "b1": 0.6}])
def test_spread_is_that_of_many_runs(chip, kinds, inputs):
    electronics = {n.label: Activation(1.2, 0.4, 0.95) for n in NEURONS}
    none = np.zeros(0)
    bias = Bias(
        "soi220", "toy", 16, (), none, none, none, none.astype(int), electronics, {"y0": 3.0, "y1": 4.0}, inputs
    )
    # large enough for statistics, small enough for first order
    noise = replace(
        noise_of(load_process(), 1e-6, 1e6),
        receiver_a_per_sqrt_hz=2e-12,
        intensity_per_hz=1e-10,
        linewidth_hz=1e7,
        fibre_phase_rad=0.01,
    ).only(*kinds)
    word = np.array([[[3, 1], [2, 3]]])
    plain = transmit(word, chip, BOARD, bias)
    assert plain.saturated == 0 and all(np.all(layer > 0.0) for layer in plain.hidden)
    found = transmit(np.repeat(word, RUNS, axis=0), chip, BOARD, bias, noise=noise).outputs.std(axis=0)
    scale = np.array([3.0, 4.0])
    # of the power, from which the level is a root
    expected = scale**2 * spread_of(word, chip, bias, noise).receivers / (2 * plain.outputs[0])
    assert np.all(expected > 1e-4)
    assert found == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("gain", [1.2, 40.0])
def test_neurons_at_full_scale_pass_no_noise(chip, gain):
    """Neurons of the second layer, driven far beyond full scale, regenerate the signals; near it, some noise passes."""
    none = np.zeros(0)
    scale = {"y0": 3.0, "y1": 4.0}
    electronics = {n.label: Activation(1.2 if n.layer == 0 else gain, 0.4, 0.95) for n in NEURONS}
    bias = Bias("soi220", "toy", 16, (), none, none, none, none.astype(int), electronics, scale, {})
    noise = replace(noise_of(load_process(), 1e-6, 1e6), receiver_a_per_sqrt_hz=2e-12).only("shot", "receiver")
    word = np.array([[[3, 1], [2, 3]]])
    driven = transmit(word, chip, BOARD, bias).hidden[1]
    output = transmit(word, chip, BOARD, bias).outputs.ravel()
    found = spread_of(word, chip, bias, noise)
    own = np.sqrt(noise.variance((output / np.array([3.0, 4.0])) ** 2))
    assert np.all(driven > 1.0) if gain > 10.0 else np.all(driven < 1.0)
    assert found.rows[1].shape == (1, 3) and np.all(found.rows[1] > 1e-9)
    passed = found.receivers**2 - own**2
    assert np.all(np.abs(passed) < 1e-9 * own**2) if gain > 10.0 else np.all(passed > 0.1 * own**2)


def test_noise_at_both_thresholds_is_weighted_by_the_probability_that_it_passes(chip):
    """One neuron of gain 2: linear for differences of its detectors from 0 to 1/2."""
    none = np.zeros(0)
    electronics = {n.label: Activation(2.0, 0.0, 1.0) for n in NEURONS}
    bias = Bias("soi220", "toy", 16, (), none, none, none, none.astype(int), electronics, {"y0": 3.0, "y1": 4.0}, {})
    first = network_of(chip, BOARD, bias, 0).layers[0]
    one = {"gain": np.array([2.0]), "offset": np.array([0.0]), "balance": np.array([1.0])}
    layer = replace(first, starts=np.array([0]), row=np.array([0]), **one)
    difference = np.array([-1.0, 0.0, 0.25, 0.5, 1.0])
    power = np.column_stack([1.0 + difference, np.ones(5)])
    slopes = _slopes(layer, layer.difference(power), np.full((5, 1), 1e-3))
    assert slopes[:, 0] == pytest.approx(2.0 * np.array([0.0, 0.5, 1.0, 0.5, 0.0]), abs=1e-12)
