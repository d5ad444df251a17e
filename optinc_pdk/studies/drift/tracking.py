"""Tracking of a chip in service with pilot words: thresholds, gains and phases follow what its detectors read.

Between data, the servers send a few known words, and the detectors of all neurons and the receivers of the servers are
read. A round of tracking multiplies the changes of the readings by a matrix that is measured at the end of calibration:
thresholds, gains and scales follow changes that electronics can correct, and phases follow the others. The next round
measures what remains, as a Gauss-Newton iteration with a fixed Jacobian. Tracking uses what a bench reads, never the
sampled parameters of a chip.

Pilots have to show every signal of every layer: with source amplitudes a, a detector reads constant + Σ m_j a_j, so the
patterns (1, a) of a layer's sources must be linearly independent, as many as there are for words. The words are chosen
one after another, each with the largest part that is orthogonal to the patterns of those before (QR decomposition with
pivoting; Businger and Golub, Numer. Math. 7, 269 (1965)). They are sent at the setting in use, and once for each layer
with the phases of its local oscillators ``DITHER_RAD`` higher: a signal in phase with its oscillator does not change
with a small phase error, but both readings together tell the error and its sign.

For the linear model, the pilots are read once as reference, and then with every heater moved in turn: changes x of the
heaters' phases and y of the electronics change the readings by A x + B y. The system is solved once, with prior
standard deviations of x and y.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import qr

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.studies.calibration._heater_model import HeaterModel
from optinc_pdk.studies.calibration._layer_tuning import wrapped_into_range
from optinc_pdk.studies.calibration._measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    measure_layers,
)
from optinc_pdk.studies.calibration._word_transmission import (
    ElectronicsSettings,
    WordSample,
    WordTransmission,
    detected_signals,
    transmit_words,
)

SETTLED_RAD, SETTLED_DEVIATIONS = 0.02, 4.0
"""A step ends if no heater moved by a whole turn or by more than this phase and this multiple of its noise, added as
squares."""
PILOT_SETS = 2
"""Number of times that a set of words with all patterns is chosen; every further one averages errors."""
MIN_PART = 1e-6
"""Orthogonal part of a pattern, relative to the largest, below which a set is complete."""
DITHER_RAD = 0.2
"""Phase of a layer's local oscillators, above that in use, while pilots are sent for it."""
MIN_LEVEL = 0.5
"""Outputs are read as |y|² / (2 level), whose change is that of the level; this is the least level in it."""
MAX_SOURCE_ERROR = 0.25
"""Words for which a source of a layer changes by more than this do not count for the layer."""
PERTURBATION_RAD = 0.05
"""Perturbation of every heater in both directions, for the linear model."""
PILOT_AVERAGES, LEARNING_AVERAGES = 1_000, 10_000
"""Symbols that a reading of a pilot is the mean of in service, and one of the reference and the linear model."""
NOISE_ROUNDS = 16
"""Number of times that the pilots are sent after calibration to measure the noise of their readings."""
MODEL_ERROR = 1e-3
"""Expected error of a reading besides noise, in units of a neuron's standard deviation or in levels of an output."""
MIXED_ERROR = 0.05
"""The same for an output that mixes sources, in levels: its power is not linear in the phases where it is dark."""
PHASE_PRIOR_RAD = 0.05
"""Prior standard deviation of the change of a heater's phase."""
GAIN_PRIOR, THRESHOLD_PRIOR = 0.01, 0.01
"""Prior standard deviations of the change of a gain, relative, and of a threshold, in units of its signal."""
BATCH = 32
"""Heaters that are moved in one batch of readings."""
MAX_STEP_RAD = 0.3
"""Largest phase by which a heater moves in one round; larger steps are shortened, because the model is linear."""
RATE_GAIN = 0.2
"""Share of the last step in the running mean of the steps."""
MAX_ROUNDS = 4
"""Largest number of times that the pilots are sent in one step."""


@dataclass(frozen=True, eq=False)
class ServiceSetting:
    """Setting of a chip in service: (H,) voltages, rounded to the drive, and electronics.

    ``rate_rad`` are (H,) phases by which the heaters moved in one step lately, a running mean.
    """

    voltage_v: Floats
    electronics: ElectronicsSettings
    rate_rad: Floats


@dataclass(frozen=True, eq=False)
class PilotReference:
    """Transmission of the pilots at one of their settings right after calibration.

    Attributes:
        dithered: Indices of the heaters whose phases are raised; none while all layers are read.
        read: Indices of the layers whose signals count.
        passage: Transmission of the pilots.
        response: For each of these layers, the (neurons, J) change of what is detected per source amplitude; for the
            last layer of the chip, the (receivers, J, J) products of the sources' fields.
    """

    dithered: Ints
    read: tuple[int, ...]
    passage: WordTransmission
    response: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class TrackingModel:
    """What tracking knows of a chip with H heaters: its pilots, their reference readings, a linear model of changes.

    Attributes:
        layers: The layers.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        process: Process of the cards, for range and resolution of the electronics.
        pilots: The pilot words.
        electronics: Electronics after calibration.
        units: For each hidden layer, (neurons,) standard deviations of what is detected for the pilots; readings are
            in these units.
        references: Reference of each transmission: the first at the setting in use, the others with one layer dithered.
        noise: (readings,) rms changes of the readings in service of a chip that does not change.
        solution: (unknowns, readings) matrix from changes of the readings to those of (H,) phases in rad; then, layer
            by layer, of the logarithms of the gains and of the thresholds; and of the logarithms of the scales.
    """

    layers: tuple[BenchLayer, ...]
    heaters: HeaterModel
    turn_rad: Floats
    process: Process
    pilots: WordSample
    electronics: ElectronicsSettings
    units: tuple[Floats, ...]
    references: tuple[PilotReference, ...]
    noise: Floats
    solution: Floats

    @property
    def settled_rad(self) -> Floats:
        """(H,) largest phases by which heaters move in a round that ends a step."""
        step = np.sqrt(self.solution[: self.turn_rad.size] ** 2 @ self.noise**2)
        return np.hypot(SETTLED_RAD, SETTLED_DEVIATIONS * step)


def choose_pilots(words: WordSample) -> WordSample:
    """Choose pilot words from a sample of words, in the order in which they are chosen."""
    # a constant, and the ideal amplitudes of the sources of all layers
    signals = [words.modulator.field(signal) for signal in words.network_signal]
    patterns = np.column_stack([np.ones(len(words.amplitude)), words.amplitude, *signals])
    rest, chosen = np.arange(len(patterns)), list[Ints]()
    for _ in range(PILOT_SETS):
        _, triangle, order = qr(patterns[rest].T, mode="economic", pivoting=True)
        part = np.abs(np.diagonal(triangle))
        count = int(np.count_nonzero(part > MIN_PART * part[:1]))
        chosen.append(rest[order[:count]])
        rest = np.delete(rest, order[:count])
        if not rest.size:
            break
    index = np.concatenate(chosen)
    network_signal = tuple(signal[index] for signal in words.network_signal)
    return replace(
        words,
        amplitude=words.amplitude[index],
        ideal_level=words.ideal_level[index],
        network_signal=network_signal,
        network_level=words.network_level[index],
    )


def pilot_transmissions(layers: Sequence[BenchLayer]) -> list[tuple[Ints, tuple[int, ...]]]:
    """Return, for each transmission of the pilots, the heaters that are dithered and the layers that are read.

    Only one layer is dithered at a time, so that the words arrive at it as they do in use. Heaters of a last layer that
    mixes sources are those of all but one source.
    """
    found = [(np.zeros(0, dtype=np.int64), tuple(range(len(layers))))]
    for i, layer in enumerate(layers):
        dithered = layer.oscillators
        if layer.target.last and mixes_sources(layer):
            dithered = layer.shift_heaters[: layer.sources.size - 1]
        if dithered.size:
            found.append((np.unique(dithered), (i,)))
    return found


def mixes_sources(layer: BenchLayer) -> bool:
    """Whether a receiver gets light of several sources of the last layer."""
    return bool(np.count_nonzero(layer.target.weight, axis=1).max(initial=0) > 1)


def dithered_voltages(heaters: HeaterModel, dithered: Ints, voltage_v: Floats) -> Floats:
    """Return the (H,) voltages that raise the phases of some heaters by the dither."""
    if not dithered.size:
        return voltage_v
    phase = heaters.phases(voltage_v)
    phase[dithered] += DITHER_RAD
    return np.where(np.isin(np.arange(phase.size), dithered), heaters.voltages(phase), voltage_v)


def pilot_signals(units: Sequence[Floats], electronics: ElectronicsSettings, passage: WordTransmission) -> list[Floats]:
    """Return, for each layer, (N, neurons) detected signals in their units.

    For the last layer, they are the (N, receivers) outputs |y|² / (2 level), with |y| in levels.
    """
    hidden = [detected / unit for unit, detected in zip(units, passage.detected, strict=True)]
    power = (passage.output.reshape(len(passage.output), -1) / electronics.scale) ** 2
    return [*hidden, _levels(electronics, passage, power)]


def read_signals(model: TrackingModel, passage: WordTransmission, read: Floats) -> list[Floats]:
    """Return the signals, as :func:`pilot_signals`, from (N, all detectors) readings."""
    electronics = model.electronics
    hidden = [
        detected_signals(layer, balance, read) / unit
        for layer, unit, balance in zip(model.layers[:-1], model.units, electronics.balance, strict=True)
    ]
    return [*hidden, _levels(electronics, passage, read[:, model.layers[-1].plus])]


def reading_changes(
    laboratory: BenchProtocol, model: TrackingModel, voltage_v: Floats, in_use: ElectronicsSettings
) -> Floats:
    """Send the pilots and return the (readings,) changes of the signals that changes of the sources do not explain.

    Signals are those of the reference's electronics. Words whose sources are wrong do not count.
    """
    parts, electronics = [], model.electronics
    voltages = np.array([dithered_voltages(model.heaters, one.dithered, voltage_v) for one in model.references])
    # the carrier alone at all settings: a simulated bench solves them as one batch
    laboratory.read(voltages, np.zeros((1, len(laboratory.sources))))
    for reference, voltage in zip(model.references, voltages, strict=True):
        passage = transmit_words(laboratory, model.layers, in_use, voltage, model.pilots)
        # scales follow, but signals are compared at those of the reference
        factor = (electronics.scale / in_use.scale).reshape(passage.output.shape[1:])
        passage = replace(passage, output=passage.output * factor)
        before, now = (pilot_signals(model.units, electronics, one) for one in (reference.passage, passage))
        for i, response in zip(reference.read, reference.response, strict=True):
            old, new = reference.passage.source[i], passage.source[i]
            if model.layers[i].target.last:
                products = (np.einsum("nj,rjk,nk->nr", a, response, a) for a in (new, old))
                caused = _levels(electronics, passage, np.subtract(*products))
            else:
                caused = ((new - old) @ response.T) / model.units[i]
            right = np.abs(new - old).max(axis=1, keepdims=True) < MAX_SOURCE_ERROR
            parts.append(np.where(right, now[i] - before[i] - caused, 0.0).ravel())
    return np.concatenate(parts)


def _levels(electronics: ElectronicsSettings, passage: WordTransmission, power: Floats) -> Floats:
    """Return |y|² / (2 level) from the (N, receivers) powers at receivers."""
    level = np.maximum(passage.words.network_level, MIN_LEVEL)
    servers = power.shape[1] // level.shape[1]
    return np.asarray(electronics.scale**2 * power / (2.0 * np.tile(level, (1, servers))))


def learn_tracking(
    laboratory: BenchProtocol,
    layers: tuple[BenchLayer, ...],
    heaters: HeaterModel,
    turn_rad: Floats,
    process: Process,
    pilots: WordSample,
    setting: ServiceSetting,
) -> TrackingModel:
    """Measure reference readings and linear model for tracking on a bench, at the calibrated setting.

    The pilots are sent at all of their settings. They are sent again as in service, where fewer symbols are averaged,
    to measure the noise of their readings. Then every heater is moved up and down at each setting, while the modulators
    are driven as the pilots left them. ``turn_rad`` is that of :class:`TrackingModel`.
    """
    electronics, references = setting.electronics, list[PilotReference]()
    laboratory.averages = LEARNING_AVERAGES
    first = transmit_words(laboratory, layers, electronics, setting.voltage_v, pilots)
    units = tuple(np.maximum(detected.std(axis=0), np.finfo(np.float64).tiny) for detected in first.detected)
    for dithered, read in pilot_transmissions(layers):
        voltage = dithered_voltages(heaters, dithered, setting.voltage_v)
        passage = transmit_words(laboratory, layers, electronics, voltage, pilots)
        (responses,) = measure_layers(laboratory, layers, voltage[np.newaxis])
        response = tuple(_response(layers[i], responses[i], electronics, i) for i in read)
        references.append(PilotReference(dithered, read, passage, response))
    none = np.zeros(0)
    model = TrackingModel(
        layers, heaters, turn_rad, process, pilots, electronics, units, tuple(references), none, np.zeros((0, 0))
    )
    return learn_again(laboratory, replace(model, noise=_measured_noise(laboratory, model, setting)), setting)


def learn_again(laboratory: BenchProtocol, model: TrackingModel, setting: ServiceSetting) -> TrackingModel:
    """Measure the linear model at the setting in use; the reference stays that after calibration.

    Every heater is moved up and down, while the electronics drive all modulators as the pilots left them.
    """
    laboratory.averages = LEARNING_AVERAGES
    by_phase = [_phase_columns(laboratory, model, setting.voltage_v, one) for one in model.references]
    columns = np.column_stack([np.concatenate(by_phase), _electronics_columns(model)])
    prior = np.concatenate(
        [
            np.where(np.isfinite(model.turn_rad), PHASE_PRIOR_RAD, 0.0),
            *(np.repeat([GAIN_PRIOR, THRESHOLD_PRIOR], gain.size) for gain in model.electronics.gain),
            np.full(model.electronics.scale.size, GAIN_PRIOR),
        ]
    )
    error = np.hypot(_model_errors(model), model.noise)
    scaled = columns * prior / error[:, np.newaxis]
    solution = np.linalg.solve(scaled.T @ scaled + np.eye(prior.size), scaled.T / error)
    return replace(model, solution=np.asarray(prior[:, np.newaxis] * solution))


def _measured_noise(laboratory: BenchProtocol, model: TrackingModel, setting: ServiceSetting) -> Floats:
    """Return the (readings,) rms changes of the readings of the pilots between the reference and rounds in service."""
    laboratory.averages = PILOT_AVERAGES
    rounds = [reading_changes(laboratory, model, setting.voltage_v, setting.electronics) for _ in range(NOISE_ROUNDS)]
    return np.asarray(np.sqrt(np.mean(np.square(rounds), axis=0)))


def _model_errors(model: TrackingModel) -> Floats:
    """Return the (readings,) expected errors besides noise."""
    parts = []
    for reference in model.references:
        signals = pilot_signals(model.units, model.electronics, reference.passage)
        for i in reference.read:
            mixed = model.layers[i].target.last and mixes_sources(model.layers[i])
            parts.append(np.full(signals[i].size, MIXED_ERROR if mixed else MODEL_ERROR))
    return np.concatenate(parts)


def _response(layer: BenchLayer, response: LayerResponse, electronics: ElectronicsSettings, index: int) -> Floats:
    if layer.target.last:
        return response.product
    balance = electronics.balance[index][layer.target.first_unit]
    coefficient = detection_coefficients(layer, response, balance).coefficient.real
    return np.asarray(layer.target.by_unit(coefficient))


def _phase_columns(
    laboratory: BenchProtocol, model: TrackingModel, voltage_v: Floats, reference: PilotReference
) -> Floats:
    """Measure the (readings, H) derivatives of the readings by the phases of heaters, at equal source amplitudes."""
    layers, heaters = model.layers, model.heaters
    voltage_v = dithered_voltages(heaters, reference.dithered, voltage_v)
    passage, count = reference.passage, voltage_v.size
    rise, phase = heaters.rise_and_phases(voltage_v)
    amplitude = np.zeros((len(passage.output), len(laboratory.sources)))
    for layer, source in zip(layers, passage.source, strict=True):
        amplitude[:, layer.sources] = source
    settings = np.tile(voltage_v, (2, count, 1))
    for rows, turn in zip(settings, (PERTURBATION_RAD, -PERTURBATION_RAD), strict=True):
        moved = heaters.quantise(heaters.voltages_at_rise(np.maximum(phase + turn, 0.0), rise))
        np.fill_diagonal(rows, moved)
    up, down = (heaters.phases_at_rise(np.diagonal(rows), rise) for rows in settings)
    columns = []
    for first in range(0, count, BATCH):
        above, below = (laboratory.read(rows[first : first + BATCH], amplitude) for rows in settings)
        for one, other in zip(above, below, strict=True):
            pair = (read_signals(model, passage, each) for each in (one, other))
            high, low = (np.concatenate([each[i].ravel() for i in reference.read]) for each in pair)
            columns.append(high - low)
    return np.column_stack(columns) / (up - down)


def _electronics_columns(model: TrackingModel) -> Floats:
    """Return the (readings, E) derivatives of the readings by changes that the electronics can compensate."""
    references, hidden = model.references, len(model.units)
    signals = [pilot_signals(model.units, model.electronics, one.passage) for one in references]
    kinds = [*((i, kind) for i in range(hidden) for kind in ("gain", "threshold")), (hidden, "scale")]
    columns = []
    for i, kind in kinds:
        for n in range(signals[0][i].shape[1]):
            parts = []
            for reference, blocks in zip(references, signals, strict=True):
                for number in reference.read:
                    change = np.zeros_like(blocks[number])
                    if number == i:
                        value = blocks[i][:, n]
                        # outputs are read as squares, so that they change twice as much
                        change[:, n] = {"gain": value, "threshold": np.ones_like(value), "scale": 2.0 * value}[kind]
                    parts.append(change.ravel())
            columns.append(np.concatenate(parts))
    return np.column_stack(columns)


@dataclass(frozen=True)
class TrackingEffort:
    """Effort of one tracking step.

    Attributes:
        rounds: Number of times that the pilots were sent at all of their settings.
        turns: Number of heaters that moved by a whole turn.
        settled: Whether the heaters hardly moved in the last round. If they did, the linear model is out of date.
    """

    rounds: int
    turns: int
    settled: bool


def track(
    laboratory: BenchProtocol, model: TrackingModel, setting: ServiceSetting
) -> tuple[ServiceSetting, TrackingEffort]:
    """Follow a chip in service: send the pilots and correct the setting in use, until it hardly moves."""
    heaters, rounds, turns, settled = model.heaters, 0, 0, False
    electronics, rate, total = setting.electronics, setting.rate_rad, np.zeros_like(setting.rate_rad)
    design_phase, settled_rad = heaters.phases(setting.voltage_v), model.settled_rad
    laboratory.averages = PILOT_AVERAGES
    while rounds < MAX_ROUNDS and not settled:
        rounds += 1
        change = model.solution @ reading_changes(laboratory, model, heaters.voltages(design_phase), electronics)
        phase, rest = np.split(change, [design_phase.size])
        phase = phase * min(1.0, MAX_STEP_RAD / max(float(np.abs(phase).max(initial=0.0)), MAX_STEP_RAD))
        design_phase, turned = _moved(model, design_phase - phase)
        electronics = _followed(model, rest)
        total, turns = total + phase, turns + turned
        settled = not turned and bool((np.abs(phase) <= settled_rad).all())
    # half the change until the next step is expected by now, and half by then
    if not turns:
        # what follows a whole turn is its error, not a drift
        rate = rate - RATE_GAIN * (total + 0.5 * rate)
    voltage_v = heaters.voltages(np.maximum(design_phase + 0.5 * rate, 0.0))
    return ServiceSetting(voltage_v, electronics, rate), TrackingEffort(rounds, turns, settled)


def _moved(model: TrackingModel, wanted: Floats) -> tuple[Floats, int]:
    """Return (H,) design phases in the range of the drive, and the number of heaters that moved by a whole turn.

    The other heaters compensate for thermal crosstalk of whole turns. A heater without a known turn stays at zero.
    """
    whole = wrapped_into_range(model.heaters, model.turn_rad, wanted) - wanted
    turned = np.abs(whole) > np.pi
    crosstalk = model.heaters.crosstalk @ np.where(turned, whole, 0.0)
    # rounded, because rounding is part of what the next readings show
    voltage_v = model.heaters.voltages(np.maximum(wanted + whole - crosstalk, 0.0))
    return model.heaters.phases(voltage_v), int(np.count_nonzero(turned))


def _followed(model: TrackingModel, change: Floats) -> ElectronicsSettings:
    """Return the reference's electronics after (E,) changes of gains, thresholds and scales, which they compensate.

    A neuron that would leave the card's range keeps the settings of the reference.
    """
    card, old = model.process.activation, model.electronics
    bits = int(card.resolution_bits)
    parts = np.split(change, np.cumsum([gain.size for gain in old.gain for _ in range(2)]))
    gains, offsets = [], []
    changes = zip(old.gain, old.offset, model.units, parts[:-1:2], parts[1:-1:2], strict=True)
    for gain, offset, unit, log_gain, threshold in changes:
        factor = np.exp(log_gain)
        new_gain = round_significant(gain / factor, bits)
        new_offset = round_significant(offset * factor - threshold * unit, bits)
        fits = (new_gain <= float(card.gain_max)) & (np.abs(new_offset) <= float(card.offset_max))
        gains.append(np.where(fits, new_gain, gain))
        offsets.append(np.where(fits, new_offset, offset))
    scale = round_significant(old.scale * np.exp(-parts[-1]), bits)
    return replace(old, gain=tuple(gains), offset=tuple(offsets), scale=scale)
