"""Transmissions of pilot words, and the changes of what detectors read since calibration.

The pilots are sent at the setting in use, and once for each layer with the phases of its local oscillators
``DITHER_RAD`` higher. A signal in phase with its oscillator does not change with a small phase error, but both readings
together tell the error and its sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.studies.calibration.end_to_end import (
    ElectronicsSettings,
    WordTransmission,
    detected_signals,
    transmit_words,
)
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.measurement import BenchLayer, BenchProtocol
from optinc_pdk.studies.drift.tracking_model import TrackingModel

DITHER_RAD = 0.2
"""Phase of a layer's local oscillators, above that in use, while pilots are sent for it."""
MIN_LEVEL = 0.5
"""Outputs are read as |y|² / (2 level), whose change is that of the level; this is the least level in it."""
MAX_SOURCE_ERROR = 0.25
"""Words for which a source of a layer changes by more than this do not count for the layer."""


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
