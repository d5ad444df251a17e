"""Interval bounds against all words of small random chips: always a bound, tight for good chips, lost for bad ones."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.signoff.function._certificate import (
    Certificate,
    Interval,
    certify,
    input_amplitudes,
    input_matrix,
    signal_error,
)
from optinc_pdk.signoff.function._word_inputs import InputPlan
from optinc_pdk.simulate.transmission.detection import ChipNetwork, DetectionMatrix, HiddenLayer
from optinc_pdk.simulate.transmission.noise import DetectionSources
from optinc_pdk.simulate.transmission.reception import server_amplitudes, settled_amplitudes

TASKS = [
    Averaging(4, 2, 2),
    Averaging(4, 2, 1),
    Averaging(4, 2, 2, remainder=True),
    Averaging(4, 2, 2, finer_input=True),
]


def random_network(task: Averaging, rng: np.random.Generator) -> AveragingNetwork:
    """Two hidden layers with steep units, flat units, units that share a row, and a constant."""
    first = rng.uniform(-1.0, 1.0, (3, task.groups)) / task.input_maxima
    steep = 20.0 * first[0]
    layers = [
        Layer(np.vstack([first, steep]), np.append(rng.uniform(-0.2, 0.5, 3), rng.uniform(-5.0, 5.0))),
        Layer(
            np.vstack([rng.uniform(-1.0, 1.0, (2, 4)), 15.0 * rng.uniform(-1.0, 1.0, (1, 4)), np.zeros((1, 4))]),
            np.append(rng.uniform(-0.5, 1.0, 3), 0.7),
        ),
        Layer(rng.uniform(0.0, 1.0, (2, 4)), np.zeros(2)),
    ]
    return AveragingNetwork(tuple(layers), task, activation="clipped_relu")


def board_and_bias(task: Averaging, rng: np.random.Generator) -> tuple[Any, Any]:
    inputs = tuple(tuple(f"in{s}_{m}" for m in range(task.symbols)) for s in range(task.servers))
    top = 3.0 / (3.0 + (task.finer_input and (task.servers - 1) / task.servers))
    full = {label: float(rng.uniform(0.5, 1.0) * top) for row in inputs for label in row}
    return SimpleNamespace(inputs=inputs), SimpleNamespace(inputs=full)


def chip_of(onn: AveragingNetwork, board: Any, bias: Any, size: float, rng: np.random.Generator) -> ChipNetwork:
    """A chip that realises a network but for random errors of all fields, balances, gains and offsets."""
    task = onn.task
    count = 1 + task.servers * task.symbols + sum(layer.outputs for layer in onn.layers[:-1])
    source = slice(1, 1 + task.servers * task.symbols)

    def noise(*shape: int) -> Complexes:
        return size * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape))

    def detection(field: Complexes, feed: slice) -> DetectionMatrix:
        kept = np.flatnonzero(np.append(True, rng.uniform(size=count - 1) > 0.1) | (np.abs(field).max(axis=1) > 0.02))
        parts = np.hstack([field.real, field.imag])[kept]
        return DetectionMatrix(kept, parts, DetectionSources(feed, "board", field.shape[1]))

    layers = []
    for index, layer in enumerate(onn.layers[:-1]):
        read = np.eye(layer.inputs) if index else input_matrix(task, input_amplitudes(task, board, bias))
        weight = np.zeros((layer.outputs, count))
        weight[:, source] = layer.weight @ read
        row = onn.detector_rows(index)
        rows = np.array([int(np.flatnonzero(row == r)[0]) for r in range(row.max() + 1)])
        scale = np.abs(weight[rows]).max(axis=1, keepdims=True)
        signal = np.zeros((count, rows.size), complex)
        signal[:] = (0.2 * weight[rows] / scale).T
        carrier = np.zeros((count, rows.size), complex)
        carrier[0] = 1.0
        errors = noise(count, 2 * rows.size)
        # reflections of later layers are weak, or light does not settle
        errors[source.stop :] *= 0.02
        field = np.hstack([carrier + signal, carrier - signal]) / np.sqrt(2.0) + errors
        # weight = gain · 2 · 0.2 · weight / scale
        norm = np.linalg.norm(weight, axis=1) / np.maximum(np.linalg.norm(weight[rows], axis=1)[row], 1e-300)
        gain = np.where(row >= 0, norm * scale[row, 0] / 0.4, 1.0) * (1.0 + size * rng.standard_normal(row.size))
        following = slice(source.stop, source.stop + layer.outputs)
        layers.append(
            HiddenLayer(
                detection(field, source),
                np.arange(rows.size),
                row,
                gain,
                layer.bias / gain + size * rng.standard_normal(row.size),
                (1.0 + size * rng.standard_normal(rows.size))[row],
                following,
            )
        )
        source = following
    ideal = np.zeros((count, task.servers * task.symbols))
    ideal[source] = np.tile(onn.layers[-1].weight.T, task.servers)
    phase = np.exp(1j * rng.uniform(0.0, 2.0 * np.pi, ideal.shape[1]))
    scale = rng.uniform(1.0, 4.0, ideal.shape[1])
    receivers = detection((ideal + noise(*ideal.shape)) * phase / scale, source)
    return ChipNetwork(layers, receivers, scale, np.zeros(scale.size), count)


def true_ranges(onn: AveragingNetwork) -> list[Interval]:
    """For each hidden unit, the smallest and largest pre-activation over the lattice."""
    signal, found = onn.task.lattice(), []
    for layer in onn.layers[:-1]:
        z = signal @ layer.weight.T + layer.bias
        found.append(Interval(z.min(axis=0), z.max(axis=0)))
        signal = np.clip(z, 0.0, 1.0)
    return found


def true_margins(onn: AveragingNetwork) -> list[Floats]:
    """For each hidden unit, the largest m for which no lattice point has a pre-activation in (-m, 1 + m), or NaN."""
    signal, found = onn.task.lattice(), []
    for layer in onn.layers[:-1]:
        z = signal @ layer.weight.T + layer.bias
        margin = np.maximum(-z, z - 1.0).min(axis=0)
        found.append(np.where(margin > 0.0, margin, np.nan))
        signal = np.clip(z, 0.0, 1.0)
    return found


def worst_errors(onn: AveragingNetwork, chip: ChipNetwork, board: Any, bias: Any) -> tuple[list[float], Floats]:
    """Largest error of the amplitudes of each hidden layer, and of each output symbol, over all words."""
    task = onn.task
    values = np.arange(4 ** (task.symbols * task.servers))
    symbols = (values[:, np.newaxis] >> 2 * np.arange(task.symbols * task.servers)) & 3
    symbols = symbols.reshape(-1, task.servers, task.symbols).astype(float)
    if task.finer_input:
        symbols[:, :, -1] += np.random.default_rng(0).integers(0, task.servers, symbols.shape[:2]) / task.servers
        symbols[-1, :, -1] = 3.0 + (task.servers - 1) / task.servers
    light, _ = settled_amplitudes(server_amplitudes(symbols, board, bias), chip, None, None)
    signal, errors = task.preprocess(symbols), []
    for layer, found in zip(onn.layers[:-1], chip.layers, strict=True):
        signal = np.clip(signal @ layer.weight.T + layer.bias, 0.0, 1.0)
        errors.append(float(np.abs(light[:, found.source] - signal).max()))
    level = signal @ onn.layers[-1].weight.T
    output = chip.scale * np.sqrt(chip.receivers.power(chip.receivers.fields(light)))
    worst = np.abs(output.reshape(len(level), -1, task.symbols) - level[:, np.newaxis]).max(axis=(0, 1))
    return errors, worst * task.output_resolution


def certified(task: Averaging, size: float, seed: int) -> tuple[Certificate, list[float], Floats]:
    rng = np.random.default_rng(seed)
    onn = random_network(task, rng)
    board, bias = board_and_bias(task, rng)
    chip = chip_of(onn, board, bias, size, rng)
    certificate = certify(chip, board, bias, onn, true_margins(onn), true_ranges(onn))
    return certificate, *worst_errors(onn, chip, board, bias)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(TASKS), st.sampled_from([0.0, 1e-5, 1e-4, 1e-3, 5e-3]), st.integers(0, 2**32))
def test_no_word_of_a_random_chip_exceeds_the_bounds(task: Averaging, size: float, seed: int) -> None:
    certificate, signals, outputs = certified(task, size, seed)
    assert all(found <= bound for found, bound in zip(signals, certificate.signal_errors, strict=True))
    assert np.all(outputs <= 0.5 - certificate.symbol_margins)
    if size == 0.0:
        assert certificate.margin == pytest.approx(0.5, abs=1e-5)


def test_bounds_are_within_a_small_factor_of_the_worst_word() -> None:
    ratios = []
    for seed in range(20):
        certificate, _, outputs = certified(TASKS[0], 1e-4, seed)
        ratios.append(float((0.5 - certificate.symbol_margins).max() / outputs.max()))
    assert min(ratios) >= 1.0
    assert np.median(ratios) < 4.0


@pytest.mark.parametrize("seed", range(5))
def test_a_chip_with_large_errors_has_no_certificate(seed: int) -> None:
    assert certified(TASKS[0], 1e-5, seed)[0].holds
    bad = certified(TASKS[0], 0.1, seed)[0]
    assert not bad.holds
    assert bad.margin < 0.0


def test_a_comparator_removes_errors_up_to_its_margin_and_passes_the_rest_on() -> None:
    error = Interval(np.array([-0.3, -0.3, -0.6, 0.1, -5.0]), np.array([0.2, 0.2, 0.5, 0.2, 5.0]))
    passed = signal_error(error, np.array([np.nan, 0.4, 0.4, np.nan, 0.4]))
    np.testing.assert_allclose(passed.low, [-0.3, 0.0, -0.2, 0.0, -1.0])
    np.testing.assert_allclose(passed.high, [0.2, 0.0, 0.1, 0.2, 1.0])


def test_reserves_tell_which_layer_passes_errors_on() -> None:
    rng = np.random.default_rng(3)
    onn = random_network(TASKS[0], rng)
    board, bias = board_and_bias(TASKS[0], rng)
    chip = chip_of(onn, board, bias, 0.0, rng)
    margins = [np.full(4, np.nan), np.array([np.nan, np.nan, 0.25, np.nan])]
    assert certify(chip, board, bias, onn, margins, true_ranges(onn)).layer_reserves == pytest.approx(
        (np.inf, 0.25), abs=1e-6
    )
    shifted = replace(chip.layers[1], offset=chip.layers[1].offset + 0.75 / chip.layers[1].gain)
    moved = certify(replace(chip, layers=[chip.layers[0], shifted]), board, bias, onn, margins, true_ranges(onn))
    assert moved.layer_errors[1] == pytest.approx(0.75, abs=1e-6)
    assert moved.layer_reserves[1] == pytest.approx(-0.5, abs=1e-6)


def test_a_chip_of_other_sizes_is_refused() -> None:
    rng = np.random.default_rng(0)
    onn = random_network(TASKS[0], rng)
    board, bias = board_and_bias(TASKS[0], rng)
    chip = chip_of(onn, board, bias, 0.0, rng)
    with pytest.raises(ValueError, match=r"\[4\].*\[4, 4\]"):
        certify(replace(chip, layers=chip.layers[:1]), board, bias, onn, true_margins(onn), true_ranges(onn))


def test_random_and_combined_inputs_of_the_first_layer_agree() -> None:
    """The matrix of amplitudes gives the network's inputs for groups of symbols and finer inputs."""
    for task in (Averaging(8, 3, 2), Averaging(4, 2, 2, finer_input=True)):
        rng = np.random.default_rng(1)
        board, bias = board_and_bias(task, rng)
        none = np.zeros((0, task.groups), dtype=np.int64)
        (inputs,) = InputPlan(task, "sample", 100, none).batches()
        amplitudes = server_amplitudes(inputs.symbols, board, bias)
        matrix = input_matrix(task, input_amplitudes(task, board, bias))
        np.testing.assert_allclose(amplitudes @ matrix.T, task.preprocess(inputs.symbols), atol=1e-12)
        assert np.all(amplitudes <= input_amplitudes(task, board, bias) + 1e-12)
