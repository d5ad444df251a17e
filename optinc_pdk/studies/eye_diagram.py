"""Eye diagrams: what detectors of all layers see of random words at a symbol rate, with noise.

A trace is the output of photodiode and amplifier over two symbols, see
:mod:`optinc_pdk.simulate.transmission.symbol_shape`: for a row of a hidden layer the difference of its detectors, for
an output the level that a receiver would read at that instant. Values that words give without noise and at a low rate
are the levels of a trace. The eye between two adjacent levels is open by the distance between the lowest reading of a
word of the upper level and the highest reading of one of the lower level, over the distance of the levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import FunctionInputs, symbol_assignments
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import DetectionMatrix, network_of
from optinc_pdk.simulate.transmission.noise import Noise, draw_noise
from optinc_pdk.simulate.transmission.reception import server_amplitudes, settled_amplitudes
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES

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
    """Send random words through a chip and record all detected signals.

    Args:
        s: S-parameters of the chip.
        inputs: The inputs, of which ``WORDS`` are drawn at random.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers.
        noise: Noise of lasers and detectors, and the shape of symbols.
        seed: Seed of the noise.

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
        instants = detected_instants(layer.detection, light, noise, rng)
        pairs = instants.shape[1] // 2
        reference = layer.detection.detected(layer.detection.fields(still))
        for row, start in enumerate(layer.starts):
            members = slice(start, layer.starts[row + 1] if row + 1 < layer.starts.size else pairs)
            balance = layer.balance[np.argmax(layer.row == row)]
            found, levels = (_difference(each, members, pairs, balance) for each in (instants, reference))
            scale = max(float(np.abs(levels).max()), np.finfo(np.float64).tiny)
            eyes.append(_eye(f"layer {index}, row {row}", found / scale, levels / scale, noise))
    instants = network.levels(detected_instants(network.receivers, light, noise, rng))
    reference = network.levels(network.receivers.detected(network.receivers.fields(still)))
    for number, label in enumerate(board.outputs[0]):
        eyes.append(_eye(label, instants[:, number], reference[:, number], noise))
    return eyes


def check_bandwidths(noise: Noise) -> None:
    """Raise an error if the cards state no bandwidth of modulators, without which symbols have no shape.

    Raises:
        InputError: There is none; the message names the keys.
    """
    if np.isinf(noise.shape.transmitter):
        raise InputError(
            "the process states no bandwidth of its modulators, without which symbols have no shape: add "
            "model.parameters.bandwidth_hz to devices/modulator.yml, or activation.bandwidth_hz to process.yml"
        )


def detected_instants(sight: DetectionMatrix, light: Floats, noise: Noise, rng: np.random.Generator) -> Floats:
    """Return the output of photodiodes and amplifiers at all instants, with the noise of detectors.

    Args:
        sight: The detectors.
        light: (B, sources) amplitudes of the sources, symbol after symbol.
        noise: Noise of the detectors, and the shape of symbols.
        rng: Random numbers of the noise.

    Returns:
        (B · SAMPLES, D) powers, or fields of coherent receivers.
    """
    detected = sight.instants(light, noise)
    # white noise up to half of the rate of instants; the filter removes what is above its bandwidth
    density = sight.variance(detected, noise) / noise.bandwidth_hz
    white = np.sqrt(density * 0.5 * SAMPLES * noise.symbol_rate_bd) * rng.standard_normal(detected.shape)
    return noise.shape.filtered(detected + white)


def _difference(values: Floats, members: slice, pairs: int, balance: float) -> Floats:
    plus, minus = values[:, :pairs][:, members], values[:, pairs:][:, members]
    return np.asarray(plus.sum(axis=1) - balance * minus.sum(axis=1))


def _eye(name: str, instants: Floats, levels: Floats, noise: Noise) -> Eye:
    readings = noise.shape.windowed(instants[:, np.newaxis])[:, 0]
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

    Args:
        eyes: The eye diagrams.
        noise: Their noise.
        oscillator_w: Power launched into each fibre that leads to local oscillators, in W.
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
