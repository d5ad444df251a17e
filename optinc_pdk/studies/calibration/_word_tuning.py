"""End-to-end tuning: joint optimisation of phases, gains, offsets and scales against the words that the servers read.

Matrix errors count here only by their effect on the words. The objective is the error of the output levels against the
network's outputs, over a sample of the lattice. Steps are damped least squares (Levenberg–Marquardt); heaters move by
whole DAC steps. A step is accepted if the levels, read through the whole chip, come closer. The result is the setting
with the fewest wrong symbols and, among those, the largest margin.

The derivatives are measured: every heater is perturbed up and down and all layers are read, so thermal crosstalk into
other layers is included. The effect of a neuron's detected signal on the outputs follows by backpropagation through the
measured detection matrices of the following layers and the known electronics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.studies.calibration._heater_model import HeaterModel
from optinc_pdk.studies.calibration._layer_tuning import (
    MAX_CHANGE_RAD,
    MAX_CHANGE_STEPS,
    integer_steps,
    measure_in_batches,
)
from optinc_pdk.studies.calibration._measurement import BenchLayer, BenchProtocol, LayerResponse, detection_coefficients
from optinc_pdk.studies.calibration._word_transmission import (
    ElectronicsSettings,
    WordSample,
    WordTransmission,
    transmit_words,
)

PERTURBATION_RAD, MIN_PERTURBATION_STEPS = 0.03, 1.5
"""Perturbation of each heater in both directions: an angle, or a number of DAC steps where that is more."""
MIN_LEVEL = 0.5
"""The level error is (|y|² - target²) / (2 target); this is the least target in the denominator."""
ROUNDS = 20
TRIES = 5
"""Damping values that are tried with new sensitivities; if none improves the words, the optimisation ends."""
FIRST_DAMPING, DAMPING_FACTOR, LEAST_DAMPING, MOST_DAMPING = 1e-3, 10.0, 1e-6, 1e8
USEFUL = 0.7
"""Sensitivities are measured again after a step that leaves more than this share of the error."""
DONE = 0.003
"""Rms error of the output levels at which the optimisation ends."""
GAIN = 0.99
"""The optimisation ends at a round that leaves more than this share of the error."""
MOST_CHANGE = 0.3
"""Largest change of the logarithm of a gain or scale in one step."""
OUTPUT_MARGIN = 0.5
"""Margin in levels of perfect outputs, to which comparators at their network's distance from their thresholds count."""
RIDGE = 1e-9
"""Regularisation that keeps electronics without effect unchanged, relative to the mean of the diagonal."""


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """First-order model of a chip with H heaters around one setting.

    Attributes:
        unit_rad: (H,) unit of each heater in rad of design phase: one DAC step, or the perturbation if the drive has no
            steps.
        matrix: For each hidden layer, (neurons, J) detection matrix.
        product: (receivers, J, J) real parts of y_i* y_j in the last layer, with y_i the field per amplitude of source
            i.
        change: For each layer, change per unit of each heater: (H, neurons, 1 + J) of constant and detection matrix, or
            (H, receivers, J, J) of the products.
    """

    unit_rad: Floats
    matrix: tuple[Floats, ...]
    product: Floats
    change: tuple[Floats, ...]


def measure_sensitivities(
    laboratory: BenchProtocol,
    layers: Sequence[BenchLayer],
    heaters: HeaterModel,
    voltage_v: Floats,
    electronics: ElectronicsSettings,
) -> Sensitivities:
    """Measure the sensitivities of all layers to every heater by finite differences around (H,) voltages.

    The balances of the electronics define the detection matrices.
    """
    rise, phase = heaters.rise_and_phases(voltage_v)
    step = heaters.phases_at_rise(voltage_v + heaters.step_v, rise) - phase
    nudge = np.maximum(PERTURBATION_RAD, MIN_PERTURBATION_STEPS * step)
    up, down = (
        heaters.quantise(heaters.voltages_at_rise(np.maximum(phase + turn, 0.0), rise)) for turn in (nudge, -nudge)
    )
    distance = heaters.phases_at_rise(up, rise) - heaters.phases_at_rise(down, rise)
    unit = step if heaters.step_v else nudge
    share = np.divide(unit, distance, out=np.zeros_like(unit), where=distance > 0.0)
    settings = np.tile(voltage_v, (1 + 2 * phase.size, 1))
    for moved, rows in ((up, settings[1 : 1 + phase.size]), (down, settings[1 + phase.size :])):
        np.fill_diagonal(rows, moved)
    responses = measure_in_batches(laboratory, layers, list(settings))
    change = []
    for i, layer in enumerate(layers):
        entries = np.stack([_entries(layer, row[i], electronics, i) for row in responses[1:]])
        raised, lowered = entries[: phase.size], entries[phase.size :]
        change.append((raised - lowered) * share.reshape(-1, *(1,) * (raised.ndim - 1)))
    entries_now = [
        _entries(layer, response, electronics, i)
        for i, (layer, response) in enumerate(zip(layers, responses[0], strict=True))
    ]
    return Sensitivities(unit, tuple(entries[:, 1:] for entries in entries_now[:-1]), entries_now[-1], tuple(change))


def _entries(layer: BenchLayer, response: LayerResponse, electronics: ElectronicsSettings, index: int) -> Floats:
    """Return (neurons, 1 + J) constant and detection matrix at the present balance, or (receivers, J, J) products."""
    if layer.target.last:
        return response.product
    detection = detection_coefficients(layer, response, electronics.balance[index][layer.target.first_unit])
    rows = np.concatenate([detection.constant[:, np.newaxis], detection.coefficient.real], axis=1)
    return np.asarray(layer.target.by_unit(rows))


def linearise(
    passage: WordTransmission, electronics: ElectronicsSettings, effects: Sensitivities
) -> tuple[Floats, Floats]:
    """Compute the output errors relative to the network, averaged over the servers, and their Jacobian.

    Returns:
        (N M,) errors of N words with M outputs in levels and their (N M, H + E) Jacobian. Its columns are the
        derivatives by the H heaters in units of ``effects.unit_rad``, then, layer by layer, by the logarithms of the
        gains and by gain × offset, and finally by the logarithms of the output scales; E is the number of electronic
        parameters.
    """
    target, output, modulator = passage.words.network_level, passage.output, passage.words.modulator
    count, servers = target.shape[1], output.shape[1]
    denominator = 2.0 * np.maximum(target, MIN_LEVEL)
    level = (output**2).mean(axis=1)
    # for each output, the receivers of all servers, which receive the same field
    receivers = np.arange(count)[:, np.newaxis] + count * np.arange(servers)
    square = electronics.scale[receivers] ** 2 / servers
    last = passage.source[-1]
    products = np.einsum("ms,msij->mij", square, effects.product[receivers])
    sensitivity = 2.0 * np.einsum("nj,mji->nmi", last, products) / denominator[:, :, np.newaxis]
    pairs = (last[:, :, np.newaxis] * last[:, np.newaxis, :]).reshape(len(last), -1)
    heater_jacobian = np.empty((*target.shape, len(effects.unit_rad)))
    for output_number in range(count):
        change = np.einsum("s,hsij->hij", square[output_number], effects.change[-1][:, receivers[output_number]])
        heater_jacobian[:, output_number] = (
            pairs @ change.reshape(len(change), -1).T / denominator[:, output_number, np.newaxis]
        )
    electronic_parts = [np.eye(count) * (2.0 * level / denominator)[:, :, np.newaxis]]
    for i in range(len(effects.matrix) - 1, -1, -1):
        next_source = passage.source[i + 1][:, np.newaxis]
        drive = modulator.drive(next_source)
        slope = np.where((next_source > 0.0) & (next_source < 1.0), modulator.slope(drive), 0.0)
        electronic_parts[:0] = [sensitivity * drive * slope, sensitivity * slope]
        differences = sensitivity * (slope * electronics.gain[i])
        heater_jacobian += _heater_jacobian(differences, passage.source[i], effects.change[i])
        sensitivity = differences @ effects.matrix[i]
    jacobian = np.concatenate([heater_jacobian, *electronic_parts], axis=2)
    return ((level - target**2) / denominator).reshape(-1), jacobian.reshape(target.size, -1)


def _heater_jacobian(differences: Floats, source: Floats, change: Floats) -> Floats:
    """Return the (N, M, H) Jacobian by heaters of one layer.

    Args:
        differences: (N, M, rows) sensitivities of the outputs to the detected signals.
        source: (N, J) amplitudes of the layer's sources.
        change: (H, rows, 1 + J) changes of constant and matrix.
    """
    count, outputs, _ = differences.shape
    amplitudes = np.concatenate([np.ones((count, 1)), source], axis=1)
    weights = differences[:, :, :, np.newaxis] * amplitudes[:, np.newaxis, np.newaxis, :]
    flat = weights.reshape(count * outputs, -1) @ change.reshape(len(change), -1).T
    return np.asarray(flat.reshape(count, outputs, -1))


@dataclass(frozen=True, eq=False)
class TuningContext:
    """Context of end-to-end tuning: bench, chip model, and the inputs that the servers send."""

    laboratory: BenchProtocol
    heaters: HeaterModel
    layers: tuple[BenchLayer, ...]
    process: Process
    words: WordSample

    def evaluate(self, voltage_v: Floats, electronics: ElectronicsSettings) -> EvaluatedSetting:
        """Send the words at (H,) voltages and return the setting with the transmission."""
        passage = transmit_words(self.laboratory, self.layers, electronics, voltage_v, self.words)
        return EvaluatedSetting(voltage_v, electronics, passage)


@dataclass(frozen=True, eq=False)
class EvaluatedSetting:
    """(H,) voltages and electronics, with the transmission of the words at this setting."""

    voltage_v: Floats
    electronics: ElectronicsSettings
    passage: WordTransmission

    @property
    def rank(self) -> tuple[int, float]:
        """Sort key, lower is better: number of wrong symbols, then negative margin in levels.

        The margin is that of the outputs, or that of the comparators if it is less: outputs have their margin as long
        as every comparator decides correctly, however close to its threshold, but noise passes thresholds that are
        close.
        """
        return self.passage.wrong_symbols, -min(self.passage.margin, OUTPUT_MARGIN * self.threshold_share)

    @property
    def threshold_share(self) -> float:
        """Least distance of a comparator's signal from its threshold over that in the network; 1 without comparators.

        The distance is negative if a comparator, see :mod:`_word_transmission`, decides wrongly.
        """
        share, electronics = 1.0, self.electronics
        pieces = zip(self.passage.words.network_signal, self.passage.detected, strict=True)
        for i, (ideal, detected) in enumerate(pieces):
            compares = ~((ideal > 0.0) & (ideal < 1.0)).any(axis=0)
            distance = ideal[:, compares] - 0.5
            signal = electronics.gain[i] * (detected + electronics.offset[i]) - 0.5
            measured = (signal[:, compares] * np.sign(distance)).min(axis=0)
            share = min(share, float((measured / np.abs(distance).min(axis=0)).min(initial=1.0)))
        return share


def tune_to_words(context: TuningContext, voltage_v: Floats, electronics: ElectronicsSettings) -> EvaluatedSetting:
    """Optimise heaters, from (H,) voltages, and electronics end to end until the words stop improving.

    The result is the best setting by rank, which may be the start.
    """
    current = best = context.evaluate(voltage_v, electronics)
    damping = FIRST_DAMPING
    for _ in range(ROUNDS):
        start = current.passage.rms_error
        if start <= DONE:
            break
        effects = measure_sensitivities(
            context.laboratory, context.layers, context.heaters, current.voltage_v, current.electronics
        )
        while True:
            before = current.passage.rms_error
            current, damping = _next_setting(context, current, effects, damping)
            best = min(best, current, key=lambda one: one.rank)
            if not DONE < current.passage.rms_error <= USEFUL * before:
                break
        if current.passage.rms_error > GAIN * start:
            break
    return best


def _next_setting(
    context: TuningContext, current: EvaluatedSetting, effects: Sensitivities, damping: float
) -> tuple[EvaluatedSetting, float]:
    """Return the setting after a step that reduces the error, or the old one if none does, and the next damping."""
    error, jacobian = linearise(current.passage, current.electronics, effects)
    normal, slope = jacobian.T @ jacobian, jacobian.T @ error
    for _ in range(TRIES):
        trial = context.evaluate(*_step(context, current, effects, normal, slope, damping))
        if trial.passage.rms_error < current.passage.rms_error:
            return trial, max(damping / DAMPING_FACTOR, LEAST_DAMPING)
        damping *= DAMPING_FACTOR
    return current, damping / DAMPING_FACTOR**TRIES


def _step(
    context: TuningContext,
    current: EvaluatedSetting,
    effects: Sensitivities,
    normal: Floats,
    slope: Floats,
    damping: float,
) -> tuple[Floats, ElectronicsSettings]:
    """Return voltages and electronics after one damped step; electronics compensate the rounding of the heaters.

    Normal matrix and slope are those of (H + E,) heaters and electronics.
    """
    one, other = slice(None, current.voltage_v.size), slice(current.voltage_v.size, None)
    shared, electronics_block = normal[one, other], normal[other, other].copy()
    diagonal = np.diag_indices_from(electronics_block)
    ridge = RIDGE * np.trace(electronics_block) / len(electronics_block)
    electronics_block[diagonal] = (1.0 + damping) * electronics_block[diagonal] + ridge
    compensation = np.linalg.solve(electronics_block, np.column_stack([shared.T, slope[other]]))
    heaters_block = normal[one, one] - shared @ compensation[:, :-1]
    moves = _moves(context, effects, heaters_block, slope[one] - shared @ compensation[:, -1], damping)
    electronic_step = -compensation[:, -1] - compensation[:, :-1] @ moves
    electronics = _stepped_electronics(current.electronics, electronic_step, context.process)
    heaters = context.heaters
    if heaters.step_v:
        return heaters.quantise(current.voltage_v + moves * heaters.step_v), electronics
    phase = heaters.phases(current.voltage_v) + moves * effects.unit_rad
    return heaters.voltages(np.maximum(phase, 0.0)), electronics


def _moves(context: TuningContext, effects: Sensitivities, normal: Floats, slope: Floats, damping: float) -> Floats:
    """Return (H,) heater steps in their units, integers if the drive has DAC steps, within the linear range."""
    unit = effects.unit_rad
    coarse = MAX_CHANGE_STEPS * unit if context.heaters.step_v else 0.0 * unit
    while damping < MOST_DAMPING:
        if context.heaters.step_v:
            moves = integer_steps(normal, slope, damping)
        else:
            moves = -np.linalg.solve(normal + damping * np.trace(normal) / len(normal) * np.eye(len(normal)), slope)
        if np.all(np.abs(moves * unit) <= np.maximum(MAX_CHANGE_RAD, coarse)):
            return moves
        damping *= DAMPING_FACTOR
    return np.zeros_like(unit)


def _stepped_electronics(electronics: ElectronicsSettings, step: Floats, process: Process) -> ElectronicsSettings:
    """Return the electronics after a step, clipped to the card's range and rounded to the converters' resolution."""
    card = process.activation
    bits, gain_max, offset_max = int(card.resolution_bits), float(card.gain_max), float(card.offset_max)
    sizes = [gain.size for gain in electronics.gain for _ in range(2)]
    part_by_kind = np.split(step, np.cumsum(sizes))
    gains = [
        round_significant(np.minimum(gain * _factor(part), gain_max), bits)
        for gain, part in zip(electronics.gain, part_by_kind[:-1:2], strict=True)
    ]
    offsets = [
        offset + np.divide(part, gain, out=np.zeros_like(gain), where=gain > 0.0)
        for offset, gain, part in zip(electronics.offset, electronics.gain, part_by_kind[1:-1:2], strict=True)
    ]
    scale = electronics.scale.reshape(-1, part_by_kind[-1].size) * _factor(part_by_kind[-1])
    return replace(
        electronics,
        gain=tuple(gains),
        offset=tuple(round_significant(np.clip(offset, -offset_max, offset_max), bits) for offset in offsets),
        scale=round_significant(scale.reshape(-1), bits),
    )


def _factor(logarithm: Floats) -> Floats:
    return np.asarray(np.exp(np.clip(logarithm, -MOST_CHANGE, MOST_CHANGE)))
