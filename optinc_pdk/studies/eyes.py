"""Eye diagrams: what detectors of all layers see of random words or samples at a symbol rate, with noise.

A trace is the output of photodiode and amplifier over two symbols, see
:mod:`optinc_pdk.simulate.transmission.symbol_shape`. Levels are the values of the symbols without noise, at a low rate.

Words: the trace of a row of a hidden layer is the difference of its detectors, that of an output the level that a
receiver would read at that instant. The eye between two adjacent levels is open by the distance between the lowest
reading of a word of the upper level and the highest reading of one of the lower level, over the distance of the levels.

Classifiers: the trace of an output is its value less the largest one of the others, relative to the largest output over
the data; of a network of one output, the output. It is above 0 where the receivers read this class. Samples for which
the network chooses the class are the upper level, all others the lower one. The eye is open by twice the smaller
distance of the readings of both levels from 0, over the distance of the medians of the levels. The share of the samples
that may be read otherwise, such as samples on the border between two classes, is left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.networks.network_data import classes
from optinc_pdk.signoff.function import FunctionInputs, symbol_assignments
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import DetectionMatrix, network_of
from optinc_pdk.simulate.transmission.noise import Noise, NoiseDraw, draw_noise
from optinc_pdk.simulate.transmission.reception import input_amplitudes, server_amplitudes, settled_amplitudes
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.noisy_outputs import NoisyNetwork

WORDS = 1024
"""Number of random words of a diagram."""
SEED = 2603
APART = 0.25
"""Least distance of adjacent levels, over the largest one: closer values are one level."""
CONSTANT = 1e-6
"""Least distance of adjacent levels in any case."""


@dataclass(frozen=True, eq=False)
class Eye:
    """Eye diagram of one signal.

    Attributes:
        name: Layer and row, or the output's label.
        instants: (B · SAMPLES,) filtered signal of B consecutive words; a row's difference over its largest value, or
            levels of an output.
        readings: (B,) readings of the words, in the same unit.
        levels: (B,) values of the words without noise, at a low rate.
        opening: Smallest opening of an eye between adjacent levels, at most 1; negative if the eye is closed. None if
            the signal has one level only, and no eye.
        deviation: Largest standard deviation of the readings of one level, over the smallest distance of levels; None
            without an eye.
    """

    name: str
    instants: Floats
    readings: Floats
    levels: Floats
    opening: float | None
    deviation: float | None


def eye_diagrams(s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise, seed: int) -> list[Eye]:
    """Send ``WORDS`` random words through a chip and record all detected signals.

    Returns:
        Eyes of the rows of all hidden layers, then of the first server's outputs.

    Raises:
        InputError: The cards state no bandwidth of modulators.
    """
    check_bandwidths(noise)
    network = network_of(s, board, bias, 0)
    symbols = symbol_assignments(inputs, s, board, bias)[0]
    chosen = np.random.default_rng(SEED).integers(0, len(symbols), WORDS)
    sent = server_amplitudes(symbols[chosen], board, bias)
    still, _ = settled_amplitudes(sent, network, None, None)
    drawn = draw_noise(noise, network.detection_sources, 0, WORDS, seed)
    light, _ = settled_amplitudes(sent, network, noise, drawn)
    rng = np.random.default_rng((SEED, seed))
    eyes = []
    for index, layer in enumerate(network.layers):
        instants = detected_instants(layer.detection, light, noise, drawn[index], rng)
        pairs = instants.shape[1] // 2
        reference = layer.detection.detected(layer.detection.fields(still))
        for row, start in enumerate(layer.starts):
            members = slice(start, layer.starts[row + 1] if row + 1 < layer.starts.size else pairs)
            balance = layer.balance[np.argmax(layer.row == row)]
            found, levels = (_difference(each, members, pairs, balance) for each in (instants, reference))
            scale = max(float(np.abs(levels).max()), np.finfo(np.float64).tiny)
            eyes.append(_eye(f"layer {index}, row {row}", found / scale, levels / scale, noise))
    received = detected_instants(network.receivers, light, noise, drawn[-1], rng)
    instants, readings = network.levels(received), network.levels(noise.shape.windowed(received))
    reference = network.levels(network.receivers.detected(network.receivers.fields(still)))
    for number, label in enumerate(board.outputs[0]):
        eyes.append(_eye(label, instants[:, number], reference[:, number], noise, readings[:, number]))
    return eyes


def check_bandwidths(noise: Noise) -> None:
    """Raise an InputError if the cards state no bandwidth of modulators, without which symbols have no shape."""
    if np.isinf(noise.shape.transmitter):
        raise InputError(
            "the process states no bandwidth of its modulators, without which symbols have no shape: add "
            "model.parameters.bandwidth_hz to devices/modulator.yml, or activation.bandwidth_hz to process.yml"
        )


def detected_instants(
    sight: DetectionMatrix, light: Floats, noise: Noise, drawn: NoiseDraw, rng: np.random.Generator
) -> Floats:
    """Return the output of photodiodes and amplifiers at all instants, with the noise of laser, fibres and detectors.

    ``light`` holds (B, sources) amplitudes of the sources, symbol after symbol, and ``drawn`` the noise of laser and
    fibres; the result (B · SAMPLES, D) powers, or fields of coherent receivers.
    """
    detected = sight.instants(light, noise, drawn)
    # white noise up to half of the rate of instants; the filter removes what is above its bandwidth
    density = sight.variance(detected, noise) / noise.bandwidth_hz
    white = np.sqrt(density * 0.5 * SAMPLES * noise.symbol_rate_bd) * rng.standard_normal(detected.shape)
    return noise.shape.filtered(detected + white)


def _difference(values: Floats, members: slice, pairs: int, balance: float) -> Floats:
    plus, minus = values[:, :pairs][:, members], values[:, pairs:][:, members]
    return np.asarray(plus.sum(axis=1) - balance * minus.sum(axis=1))


def _eye(name: str, instants: Floats, levels: Floats, noise: Noise, readings: Floats | None = None) -> Eye:
    """Eye of a signal; ``readings`` are by default its means over the window."""
    readings = _windowed(instants, noise) if readings is None else readings
    groups = list(_groups(levels))
    if len(groups) == 1:
        return Eye(name, instants, readings, levels, None, None)
    distances = [upper.mean - lower.mean for lower, upper in itertools.pairwise(groups)]
    gaps = [readings[upper.words].min() - readings[lower.words].max() for lower, upper in itertools.pairwise(groups)]
    opening = min(1.0, *(float(gap / distance) for gap, distance in zip(gaps, distances, strict=True)))
    deviation = max(float(readings[group.words].std() / min(distances)) for group in groups)
    return Eye(name, instants, readings, levels, opening, deviation)


@dataclass(frozen=True, eq=False)
class _Group:
    """Words of one level."""

    words: Ints
    mean: float


def _groups(levels: Floats) -> Iterator[_Group]:
    """Levels of a signal, ascending; values are one level where their distances are small."""
    order = np.argsort(levels)
    gaps = np.diff(levels[order])
    largest = float(gaps.max(initial=0.0))
    # a signal that is constant has one level
    cuts = np.flatnonzero(gaps > max(APART * largest, CONSTANT)) + 1
    for words in np.split(order, cuts.tolist()):
        yield _Group(words, float(levels[words].mean()))


def eyes_json(eyes: list[Eye], noise: Noise, oscillator_w: float) -> dict[str, Any]:
    """Return the numbers of eye diagrams as JSON-compatible data.

    ``oscillator_w`` is the power launched into each fibre that leads to local oscillators, in W.
    """
    return {
        "symbol_rate_bd": noise.symbol_rate_bd,
        "laser_w": noise.laser_w,
        "oscillator_w": oscillator_w,
        "window": noise.shape.window,
        "receiver_a_per_sqrt_hz": noise.receiver_a_per_sqrt_hz,
        "words": WORDS,
        "eyes": [{"signal": eye.name, "opening": eye.opening, "deviation": eye.deviation} for eye in eyes],
    }


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
    """Send ``WORDS`` random samples of labelled data through a classifier's chip and record its outputs at all
    instants.

    The limit of the agreement of ``outputs`` states which share of the samples may be read otherwise.

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
    traces = (
        leads(detected_instants(chip.receivers, light, noise, drawn[-1], rng) * chip.scale + outputs.offsets) / largest
    )
    still, _ = settled_amplitudes(sent, chip, None, None)
    reference = leads(chip.receivers.readings(still, None, None) * chip.scale + outputs.offsets) / largest
    chosen = classes(expected)
    # symbols may be read otherwise as the limit of the agreement allows
    spared = math.floor((1.0 - outputs.limits.agreement) * WORDS + 1e-9)
    readings = np.stack([_windowed(trace, noise) for trace in traces.T], axis=1)
    read = classes(readings)
    names = outputs.network.classes or tuple(range(max(traces.shape[1], 2)))
    # a single output is that of class 1
    numbers = range(1, 2) if traces.shape[1] == 1 else range(traces.shape[1])
    eyes = [
        _class_eye(f"class {names[number]}", trace, level, chosen == number, spared, noise)
        for number, trace, level in zip(numbers, traces.T, reference.T, strict=True)
    ]
    return ClassEyes(eyes, float(np.mean(read == chosen)))


def leads(outputs: Floats) -> Floats:
    """Return by how much each of (B, M) outputs of a classifier exceeds the largest of the others; a single output
    itself.
    """
    if outputs.shape[1] == 1:
        return outputs
    ordered = np.sort(outputs, axis=1)
    first, second = ordered[:, -1:], ordered[:, -2:-1]
    return np.asarray(outputs - np.where(outputs == first, second, first))


def _windowed(trace: Floats, noise: Noise) -> Floats:
    return noise.shape.windowed(trace[:, np.newaxis])[:, 0]


def _class_eye(name: str, trace: Floats, level: Floats, upper: Bools, spared: int, noise: Noise) -> Eye:
    """Return the eye of one class.

    ``trace`` has (B · SAMPLES,) leads of its output at all instants, ``level`` (B,) leads without noise at a low rate,
    ``upper`` whether the network chooses the class; ``spared`` readings of a level are left out.
    """
    readings = _windowed(trace, noise)
    if upper.all() or not upper.any():
        return Eye(name, trace, readings, level, None, None)
    distance = float(np.median(level[upper]) - np.median(level[~upper]))
    edges = [np.sort(values)[min(spared, values.size - 1)] for values in (readings[upper], -readings[~upper])]
    deviation = float((readings - level).std()) / distance
    return Eye(name, trace, readings, level, 2.0 * float(min(edges)) / distance, deviation)
