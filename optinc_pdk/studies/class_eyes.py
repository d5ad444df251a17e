"""Eye diagrams of a classifier: by how much each output exceeds the largest of the others, symbol after symbol.

The trace of an output is its value less the largest one of the others, relative to the largest output over the data; of
a network of one output, the output. It is above 0 where the receivers read this class. Samples for which the network
chooses the class are the upper level, all others the lower one. The eye is open by twice the smaller distance of the
readings of both levels from 0, over the distance of the medians of the levels. The share of the samples that may
be read otherwise, such as samples on the border between two classes, is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Floats
from optinc_pdk.networks.network_comparison import classes
from optinc_pdk.simulate.transmission.noise import Noise, draw_noise
from optinc_pdk.simulate.transmission.reception import input_amplitudes, settled_amplitudes
from optinc_pdk.studies.eye_diagram import SEED, WORDS, Eye, check_bandwidths, detected_instants
from optinc_pdk.studies.noisy_outputs import NoisyNetwork


@dataclass(frozen=True, eq=False)
class ClassEyes:
    """Eye diagrams of a classifier.

    Attributes:
        eyes: One for each class; one for a network of one output.
        agreement: Share of the symbols for which the receivers read the class that the network chooses.
    """

    eyes: list[Eye]
    agreement: float


def class_eyes(outputs: NoisyNetwork, noise: Noise, seed: int) -> ClassEyes:
    """Send random samples of labelled data through a classifier's chip and record its outputs at all instants.

    Args:
        outputs: The chip, its network and its data, of which ``WORDS`` samples are drawn at random. Its limit of the
            agreement states which share of the samples may be read otherwise.
        noise: Noise of lasers and detectors, and the shape of symbols.
        seed: Seed of the noise.

    Raises:
        InputError: The cards state no bandwidth of modulators.
    """
    check_bandwidths(noise)
    rng = np.random.default_rng((SEED, seed))
    x = outputs.data.x[np.random.default_rng(SEED).integers(0, outputs.sent, WORDS)]
    expected = outputs.network.forward(x)
    largest = float(np.abs(outputs.network.forward(outputs.data.x)).max()) or 1.0
    chip, sent = outputs.chip, input_amplitudes(x, outputs.board, outputs.bias)
    drawn = draw_noise(noise, chip.detection_sources, 0, WORDS, seed)
    light, _ = settled_amplitudes(sent, chip, noise, drawn)
    traces = leads(detected_instants(chip.receivers, light, noise, rng) * chip.scale + outputs.offsets) / largest
    still, _ = settled_amplitudes(sent, chip, None, None)
    reference = leads(chip.receivers.readings(still, None, None) * chip.scale + outputs.offsets) / largest
    chosen = classes(expected)
    # symbols may be read otherwise as the limit of the agreement allows
    spared = math.floor((1.0 - outputs.limits.agreement) * WORDS + 1e-9)
    readings = np.stack([_read(trace, noise) for trace in traces.T], axis=1)
    read = classes(readings)
    names = outputs.network.classes or tuple(range(max(traces.shape[1], 2)))
    # a single output is that of class 1
    numbers = range(1, 2) if traces.shape[1] == 1 else range(traces.shape[1])
    eyes = [
        _eye(f"class {names[number]}", trace, level, chosen == number, spared, noise)
        for number, trace, level in zip(numbers, traces.T, reference.T, strict=True)
    ]
    return ClassEyes(eyes, float(np.mean(read == chosen)))


def leads(outputs: Floats) -> Floats:
    """Return by how much each of (B, M) outputs exceeds the largest of the others; a single output itself.

    Args:
        outputs: Outputs of a classifier.
    """
    if outputs.shape[1] == 1:
        return outputs
    ordered = np.sort(outputs, axis=1)
    first, second = ordered[:, -1:], ordered[:, -2:-1]
    return np.asarray(outputs - np.where(outputs == first, second, first))


def _read(trace: Floats, noise: Noise) -> Floats:
    return noise.shape.windowed(trace[:, np.newaxis])[:, 0]


def _eye(name: str, trace: Floats, level: Floats, upper: Bools, spared: int, noise: Noise) -> Eye:
    """Return the eye of one class.

    Args:
        name: Name of the class.
        trace: (B · SAMPLES,) lead of its output at all instants.
        level: (B,) lead without noise, at a low rate.
        upper: (B,) whether the network chooses the class.
        spared: Number of readings of a level that are left out.
        noise: Noise and shape of symbols.
    """
    readings = _read(trace, noise)
    if upper.all() or not upper.any():
        return Eye(name, trace, readings, level, None, None)
    distance = float(np.median(level[upper]) - np.median(level[~upper]))
    edges = [np.sort(values)[min(spared, values.size - 1)] for values in (readings[upper], -readings[~upper])]
    deviation = float((readings - level).std()) / distance
    return Eye(name, trace, readings, level, 2.0 * float(min(edges)) / distance, deviation)
