"""Tracking of a chip in service with pilot words: thresholds, gains and phases follow what its detectors read.

Between data, the servers send a few known words, and the detectors of all neurons and the receivers of the servers are
read. The pilots are sent twice: at the setting in use, and with the phases of all local oscillators ``DITHER_RAD``
higher. A signal in phase with its oscillator does not change with a small phase error, but both readings together tell
the error and its sign.

At the end of calibration, :func:`learn_tracking` reads the pilots once as reference, and then with every heater moved
in turn. The result is a linear model of all later changes: changes x of the heaters' phases and y of the electronics
change the readings by A x + B y. It is solved once, with prior standard deviations of x and y. A tracking step is then
a product of this matrix with the changes of the readings: thresholds, gains and scales follow y, and phases follow x,
which electronics cannot correct. The next step measures what remains, as a Gauss-Newton iteration with a fixed
Jacobian.

Tracking uses what a bench reads, never the sampled parameters of a chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.tolerance.calibration.end_to_end import (
    ElectronicsSettings,
    WordSample,
    WordTransmission,
    detected_signals,
    transmit_words,
)
from optinc_pdk.tolerance.calibration.heater_model import HeaterModel
from optinc_pdk.tolerance.calibration.in_loop_steps import wrapped_into_range
from optinc_pdk.tolerance.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    measure_layers,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DITHER_RAD = 0.2
"""Phase of all local oscillators, above that in use, while pilots are sent for the second time."""
PERTURBATION_RAD = 0.05
"""Perturbation of every heater in both directions, for the linear model."""
READING_ERROR = 1e-3
"""Expected error of a reading, in units of the standard deviation of a neuron's signal, or in levels of an output."""
PHASE_PRIOR_RAD = 0.05
"""Prior standard deviation of the change of a heater's phase."""
GAIN_PRIOR, THRESHOLD_PRIOR = 0.01, 0.01
"""Prior standard deviations of the change of a gain, relative, and of a threshold, in units of its signal."""
MIN_LEVEL = 0.5
"""Outputs are read as |y|² / (2 level), whose change is that of the level; this is the least level in it."""
MAX_ROUNDS = 4
"""Largest number of times that the pilots are sent in one step."""
SETTLED_RAD = 0.02
"""A step ends if no heater moved by more than this phase or by a whole turn."""


@dataclass(frozen=True, eq=False)
class ServiceSetting:
    """Setting of a chip in service.

    Attributes:
        voltage_v: (H,) voltages of the heaters, rounded to the drive.
        electronics: Settings of the electronics.
    """

    voltage_v: Floats
    electronics: ElectronicsSettings


@dataclass(frozen=True, eq=False)
class PilotReference:
    """Transmission of the pilots at one of the two settings right after calibration.

    Attributes:
        passage: Transmission of the pilots.
        response: For each hidden layer, the (neurons, J) change of what is detected per source amplitude; for the last
            layer, the (receivers, J, J) products of the sources' fields.
    """

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
        dithered: Indices of the heaters whose phases are raised when the pilots are sent for the second time.
        references: Reference of the first and of the second transmission.
        solution: (unknowns, readings) matrix from changes of the readings to those of (H,) phases in rad; then, layer by
            layer, of the logarithms of the gains and of the thresholds; and of the logarithms of the scales.
    """

    layers: tuple[BenchLayer, ...]
    heaters: HeaterModel
    turn_rad: Floats
    process: Process
    pilots: WordSample
    electronics: ElectronicsSettings
    units: tuple[Floats, ...]
    dithered: Ints
    references: tuple[PilotReference, ...]
    solution: Floats

    @property
    def sent(self) -> int:
        """Number of pilot words that are sent in one round, both transmissions counted."""
        return len(self.references) * len(self.pilots.amplitude)


@dataclass(frozen=True)
class TrackingEffort:
    """Effort of one tracking step.

    Attributes:
        rounds: Number of times that the pilots were sent at both settings.
        turns: Number of heaters that moved by a whole turn.
        largest_rad: Largest phase by which a heater moved in one round, whole turns excluded.
    """

    rounds: int
    turns: int
    largest_rad: float


def learn_tracking(
    laboratory: BenchProtocol,
    layers: tuple[BenchLayer, ...],
    heaters: HeaterModel,
    turn_rad: Floats,
    process: Process,
    pilots: WordSample,
    setting: ServiceSetting,
) -> TrackingModel:
    """Measure reference readings and linear model for tracking on a bench, right after calibration.

    The pilots are sent at both settings. Then every heater is moved up and down at each of them, while the bench drives
    all modulators as the pilots left them.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        process: Process of the cards.
        pilots: The pilot words.
        setting: The calibrated setting.
    """
    dithered, electronics = _dithered(layers), setting.electronics
    references, by_phase = list[PilotReference](), list[Floats]()
    first = transmit_words(laboratory, layers, electronics, setting.voltage_v, pilots)
    units = tuple(np.maximum(detected.std(axis=0), np.finfo(np.float64).tiny) for detected in first.detected)
    for voltage in _both_voltages(heaters, dithered, setting.voltage_v):
        passage = transmit_words(laboratory, layers, electronics, voltage, pilots)
        (responses,) = measure_layers(laboratory, layers, voltage[np.newaxis])
        parts = (_response(layer, one, electronics, i) for i, (layer, one) in enumerate(zip(layers, responses, strict=True)))
        references.append(PilotReference(passage, tuple(parts)))
        by_phase.append(_phase_columns(laboratory, layers, heaters, electronics, units, voltage, passage))
    signals = [_signals(units, electronics, one.passage) for one in references]
    columns = np.column_stack([np.concatenate(by_phase), _electronics_columns(layers, electronics, signals)])
    prior = np.concatenate(
        [
            np.where(np.isfinite(turn_rad), PHASE_PRIOR_RAD, 0.0),
            *(np.repeat([GAIN_PRIOR, THRESHOLD_PRIOR], gain.size) for gain in electronics.gain),
            np.full(electronics.scale.size, GAIN_PRIOR),
        ]
    )
    scaled = columns * (prior / READING_ERROR)
    solution = np.linalg.solve(scaled.T @ scaled + np.eye(prior.size), scaled.T / READING_ERROR)
    return TrackingModel(
        layers,
        heaters,
        turn_rad,
        process,
        pilots,
        electronics,
        units,
        dithered,
        tuple(references),
        np.asarray(prior[:, np.newaxis] * solution),
    )


def track(
    laboratory: BenchProtocol, model: TrackingModel, setting: ServiceSetting
) -> tuple[ServiceSetting, TrackingEffort]:
    """Follow a chip in service: send the pilots and correct the setting, until it hardly moves.

    Args:
        laboratory: The bench with the chip as it is now.
        model: What tracking knows of the chip.
        setting: The setting in use.

    Returns:
        The new setting, and the effort.
    """
    heaters, rounds, turns, largest = model.heaters, 0, 0, 0.0
    while rounds < MAX_ROUNDS:
        rounds += 1
        phase, rest = np.split(model.solution @ _changes(laboratory, model, setting), [setting.voltage_v.size])
        wanted = heaters.phases(setting.voltage_v) - phase
        whole = wrapped_into_range(heaters, model.turn_rad, wanted) - wanted
        # heaters at zero that should go lower stay there if they have no whole turn
        moved = np.maximum(wanted + whole - heaters.crosstalk @ whole, 0.0)
        setting = ServiceSetting(heaters.voltages(moved), _followed(model, rest))
        turned = int(np.count_nonzero(np.abs(whole) > np.pi))
        turns, step = turns + turned, float(np.abs(phase).max(initial=0.0))
        largest = max(largest, step)
        if not turned and step <= SETTLED_RAD:
            break
    return setting, TrackingEffort(rounds, turns, largest)


def _dithered(layers: Sequence[BenchLayer]) -> Ints:
    """Return the heaters of all local oscillators and, if receivers mix sources, of all but one of these sources."""
    last = layers[-1]
    mixing = np.count_nonzero(last.target.weight, axis=1).max(initial=0) > 1
    shifted = last.shift_heaters[: last.sources.size - 1] if mixing else last.shift_heaters[:0]
    return np.unique(np.concatenate([*(layer.oscillators for layer in layers), shifted]))


def _both_voltages(heaters: HeaterModel, dithered: Ints, voltage_v: Floats) -> tuple[Floats, Floats]:
    """Return the (H,) voltages of both transmissions of the pilots."""
    phase = heaters.phases(voltage_v)
    phase[dithered] += DITHER_RAD
    return voltage_v, heaters.voltages(phase)


def _response(layer: BenchLayer, response: LayerResponse, electronics: ElectronicsSettings, index: int) -> Floats:
    if layer.target.last:
        return response.product
    balance = electronics.balance[index][layer.target.first_unit]
    coefficient = detection_coefficients(layer, response, balance).coefficient.real
    return np.asarray(layer.target.by_unit(coefficient))


def _phase_columns(
    laboratory: BenchProtocol,
    layers: Sequence[BenchLayer],
    heaters: HeaterModel,
    electronics: ElectronicsSettings,
    units: Sequence[Floats],
    voltage_v: Floats,
    passage: WordTransmission,
) -> Floats:
    """Measure the (readings, H) derivatives of the readings by the phases of all heaters, at equal source amplitudes."""
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.phases_at_rise(voltage_v, rise)
    amplitude = np.zeros((len(passage.output), len(laboratory.sources)))
    for layer, source in zip(layers, passage.source, strict=True):
        amplitude[:, layer.sources] = source
    columns = np.zeros((sum(one.size for one in _signals(units, electronics, passage)), phase.size))
    for heater in range(phase.size):
        settings = np.tile(voltage_v, (2, 1))
        for row, turn in zip(settings, (PERTURBATION_RAD, -PERTURBATION_RAD), strict=True):
            moved = np.maximum(phase + turn, 0.0)
            row[heater] = heaters.quantise(heaters.voltages_at_rise(moved, rise))[heater]
        up, down = (heaters.phases_at_rise(row, rise)[heater] for row in settings)
        read = laboratory.read(settings, amplitude)
        above, below = (np.concatenate([one.ravel() for one in _read_signals(layers, units, electronics, passage, each)]) for each in read)
        columns[:, heater] = (above - below) / (up - down)
    return columns


def _signals(units: Sequence[Floats], electronics: ElectronicsSettings, passage: WordTransmission) -> list[Floats]:
    """Return, for each layer, (N, neurons) detected signals in their units.

    For the last layer, they are the (N, receivers) outputs |y|² / (2 level), with |y| in levels.
    """
    hidden = [detected / unit for unit, detected in zip(units, passage.detected, strict=True)]
    power = (passage.output.reshape(len(passage.output), -1) / electronics.scale) ** 2
    return [*hidden, _levels(electronics, passage, power)]


def _read_signals(
    layers: Sequence[BenchLayer],
    units: Sequence[Floats],
    electronics: ElectronicsSettings,
    passage: WordTransmission,
    read: Floats,
) -> list[Floats]:
    """Return the signals, as :func:`_signals`, from (N, all detectors) readings."""
    hidden = [
        detected_signals(layer, balance, read) / unit
        for layer, unit, balance in zip(layers[:-1], units, electronics.balance, strict=True)
    ]
    return [*hidden, _levels(electronics, passage, read[:, layers[-1].plus])]


def _levels(electronics: ElectronicsSettings, passage: WordTransmission, power: Floats) -> Floats:
    """Return |y|² / (2 level) from the (N, receivers) powers at receivers."""
    level = np.maximum(passage.words.network_level, MIN_LEVEL)
    servers = power.shape[1] // level.shape[1]
    return np.asarray(electronics.scale**2 * power / (2.0 * np.tile(level, (1, servers))))


def _electronics_columns(
    layers: Sequence[BenchLayer], electronics: ElectronicsSettings, signals: Sequence[Sequence[Floats]]
) -> Floats:
    """Return the (readings, E) derivatives of the readings by changes that the electronics can compensate."""
    columns = []
    for i in range(len(layers)):
        count = signals[0][i].shape[1]
        kinds = ("gain", "threshold") if i < len(layers) - 1 else ("scale",)
        for kind in kinds:
            for n in range(count):
                parts = []
                for one in signals:
                    blocks = [np.zeros_like(block) for block in one]
                    blocks[i][:, n] = {"gain": one[i][:, n], "threshold": 1.0, "scale": 2.0 * one[i][:, n]}[kind]
                    parts += [block.ravel() for block in blocks]
                columns.append(np.concatenate(parts))
    return np.column_stack(columns)


def _changes(laboratory: BenchProtocol, model: TrackingModel, setting: ServiceSetting) -> Floats:
    """Send the pilots and return the (readings,) changes of the signals that changes of the sources do not explain.

    Signals are those of the reference's electronics.
    """
    parts = []
    voltages = _both_voltages(model.heaters, model.dithered, setting.voltage_v)
    for voltage, reference in zip(voltages, model.references, strict=True):
        passage = transmit_words(laboratory, model.layers, setting.electronics, voltage, model.pilots)
        # scales follow, signals are compared at those of the reference
        factor = (model.electronics.scale / setting.electronics.scale).reshape(passage.output.shape[1:])
        passage = replace(passage, output=passage.output * factor)
        before, now = (_signals(model.units, model.electronics, one) for one in (reference.passage, passage))
        for i, layer in enumerate(model.layers):
            old, new = reference.passage.source[i], passage.source[i]
            change = now[i] - before[i]
            if layer.target.last:
                products = (np.einsum("nj,rjk,nk->nr", a, reference.response[i], a) for a in (new, old))
                caused = np.subtract(*products)
                change -= _levels(model.electronics, passage, caused)
            else:
                change -= ((new - old) @ reference.response[i].T) / model.units[i]
            parts.append(change.ravel())
    return np.concatenate(parts)


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
