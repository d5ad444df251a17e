"""Tracking of a chip in service with pilot words: thresholds, gains and phases follow what its detectors read.

Between data, the servers send a few known words, and the detectors of all neurons and the receivers of the servers are
read (:mod:`optinc_pdk.studies.drift.pilot_readings`). A round of tracking multiplies the changes of the readings by a
matrix that is measured at the end of calibration (:mod:`optinc_pdk.studies.drift.tracking_learning`): thresholds,
gains and scales follow changes that electronics can correct, and phases follow the others. The next round measures what
remains, as a Gauss-Newton iteration with a fixed Jacobian.

Tracking uses what a bench reads, never the sampled parameters of a chip.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.simulate.programming.electronics import round_significant
from optinc_pdk.studies.calibration.end_to_end import ElectronicsSettings
from optinc_pdk.studies.calibration.in_loop_steps import wrapped_into_range
from optinc_pdk.studies.calibration.measurement import BenchProtocol
from optinc_pdk.studies.drift.pilot_readings import reading_changes
from optinc_pdk.studies.drift.tracking_learning import PILOT_AVERAGES
from optinc_pdk.studies.drift.tracking_model import ServiceSetting, TrackingModel

MAX_STEP_RAD = 0.3
"""Largest phase by which a heater moves in one round; larger steps are shortened, because the model is linear."""
RATE_GAIN = 0.2
"""Share of the last step in the running mean of the steps."""
MAX_ROUNDS = 4
"""Largest number of times that the pilots are sent in one step."""


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
    """Follow a chip in service: send the pilots and correct the setting, until it hardly moves.

    Args:
        laboratory: The bench with the chip as it is now.
        model: What tracking knows of the chip.
        setting: The setting in use.

    Returns:
        The new setting, and the effort.
    """
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
