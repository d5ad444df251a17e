"""The compiled loop that settles light against passes in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.simulate import UnsettledError
from optinc_pdk.simulate.modulator_drive import LINEAR, Modulator, sine
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer
from optinc_pdk.simulate.transmission.noise import DetectionSources
from optinc_pdk.simulate.transmission.reception import ReceivedBatch, settled_amplitudes
from optinc_pdk.simulate.transmission.settling import SETTLED_CHANGE, settle_light

INPUTS = 5
ROWS = ((0, 1, 1, 2, -1), (0, 0, 1), (0, 1, 2, 3, 4, 5))
"""Row of each neuron, by layer; -1 for a neuron without detectors."""


def random_network(rng, reflection: float, leak: float, coherent: bool = False, transfer=LINEAR) -> ChipNetwork:
    """Three hidden layers whose rows have up to three pairs of detectors, and four receivers."""
    neurons = [len(row) for row in ROWS]
    sources = 1 + INPUTS + sum(neurons)

    def detection(detectors: int, source: slice, phase=None) -> DetectionMatrix:
        field = rng.standard_normal((sources, 2 * detectors)) * 0.3
        field[0] += 0.7
        # a layer reads its own sources and the carrier, others by reflections
        others = np.ones(sources, dtype=bool)
        others[source] = others[0] = False
        field[others] *= reflection
        reaching = np.flatnonzero(np.append(True, np.any(field[1:] != 0.0, axis=1)))
        feed = DetectionSources(source, "board", detectors)
        return DetectionMatrix(reaching, field[reaching], feed, Modulator(transfer, leak), phase, neurons=1 + INPUTS)

    layers, source = [], slice(1, 1 + INPUTS)
    for row in ROWS:
        rows = max(row) + 1
        pairs = rng.integers(1, 4, rows)
        following = slice(source.stop, source.stop + len(row))
        layers.append(
            HiddenLayer(
                detection(2 * int(pairs.sum()), source),
                np.cumsum([0, *pairs[:-1]]),
                np.array(row),
                rng.uniform(0.5, 2.0, len(row)),
                rng.uniform(-0.2, 0.4, len(row)),
                rng.uniform(0.8, 1.2, rows)[np.array(row)],
                following,
            )
        )
        source = following
    phase = rng.uniform(0.0, 6.0, 4) if coherent else None
    return ChipNetwork(layers, detection(4, source, phase), np.ones(4), np.zeros(4), sources)


@pytest.mark.parametrize("leak", [0.0, 0.03])
@pytest.mark.parametrize("reflection", [0.0, 1e-3])
@pytest.mark.parametrize("words", [1, 128, 300])
@pytest.mark.parametrize("coherent", [False, True])
@pytest.mark.parametrize("transfer", [LINEAR, sine(1.0)], ids=["linear", "sine"])
def test_settled_light_is_that_of_passes_in_numpy(
    leak: float, reflection: float, words: int, coherent: bool, transfer: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(words)
    network = random_network(rng, reflection, leak, coherent, transfer)
    assert network.forward == (reflection == 0.0)
    inputs = rng.uniform(0.0, 1.0, (words, INPUTS))
    settled = settle_light(inputs, network)
    # complex amplitudes are those of light that leaks already, and go through numpy
    light, differences = settled_amplitudes(inputs + 1j * leak * np.sqrt(1.0 - inputs**2), network, None, None)
    np.testing.assert_allclose(
        settled.amplitudes[:, 1 + INPUTS :], light[:, 1 + INPUTS :].real, atol=20 * SETTLED_CHANGE
    )
    np.testing.assert_array_equal(settled.amplitudes[:, 0], 1.0)
    np.testing.assert_array_equal(settled.amplitudes[:, 1 : 1 + INPUTS], inputs)
    for found, expected in zip(settled.differences, differences, strict=True):
        np.testing.assert_allclose(found, expected, atol=20 * SETTLED_CHANGE)
    np.testing.assert_allclose(settled.fields, network.receivers.fields(settled.amplitudes), atol=20 * SETTLED_CHANGE)
    # words saturate, and words do not
    assert 0.0 < np.mean(settled.amplitudes[:, 1 + INPUTS :] == 1.0) < 1.0


def test_light_that_does_not_settle_is_refused() -> None:
    rng = np.random.default_rng(1)
    network = random_network(rng, 1.5, 0.0)
    with pytest.raises(UnsettledError, match=r"its last change is \d"):
        settle_light(rng.uniform(0.0, 1.0, (300, INPUTS)), network)


@pytest.mark.parametrize("coherent", [False, True])
def test_levels_of_fields_are_those_of_detected_fields(coherent: bool) -> None:
    rng = np.random.default_rng(2)
    network = replace(random_network(rng, 0.01, 0.01, coherent), dark=np.array([0.0, 0.1, 0.5, 1e3]))
    fields = rng.standard_normal((300, 8))
    expected = network.levels(network.receivers.detected(fields))
    assert network.levels_of_fields(fields) == pytest.approx(expected, rel=1e-12, abs=1e-7)
    assert coherent or np.all(network.levels_of_fields(fields)[:, 3] == 0.0)


def test_saturated_amplitudes_are_counted() -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, 0.0, 0.0)
    differences = [rng.uniform(-2.0, 2.0, (300, layer.gain.size)) for layer in network.layers]
    batch = ReceivedBatch(slice(0, 300), np.zeros((300, 2, 2)), differences, network.layers)
    count = sum(int((each > 1.0).sum()) for each in batch.amplitudes())
    assert batch.saturated() == count > 0
