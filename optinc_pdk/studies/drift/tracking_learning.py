"""Measurement of the linear model of a chip's changes, on a bench, right after calibration or in service.

The pilots are read once as reference, and then with every heater moved in turn: changes x of the heaters' phases and y
of the electronics change the readings by A x + B y. The system is solved once, with prior standard deviations of x and
y.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.studies.calibration.end_to_end import ElectronicsSettings, WordSample, transmit_words
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.measurement import (
    BenchLayer,
    BenchProtocol,
    LayerResponse,
    detection_coefficients,
    measure_layers,
)
from optinc_pdk.studies.drift.pilot_readings import (
    dithered_voltages,
    mixes_sources,
    pilot_signals,
    pilot_transmissions,
    read_signals,
    reading_changes,
)
from optinc_pdk.studies.drift.tracking_model import PilotReference, ServiceSetting, TrackingModel

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

    The pilots are sent at all of their settings. They are sent again as in service, where fewer symbols are averaged,
    to measure the noise of their readings. Then every heater is moved up and down at each setting, while the modulators
    are driven as the pilots left them.

    Args:
        laboratory: The bench.
        layers: The layers.
        heaters: Design model of the heaters.
        turn_rad: (H,) design phase that causes a real phase of 2π; NaN for heaters without effect.
        process: Process of the cards.
        pilots: The pilot words.
        setting: The calibrated setting.
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

    Args:
        laboratory: The bench with the chip as it is now.
        model: What tracking knows of the chip.
        setting: The setting in use.
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
    rise = heaters.rise_ohm @ heaters.currents(voltage_v)
    phase = heaters.phases_at_rise(voltage_v, rise)
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
