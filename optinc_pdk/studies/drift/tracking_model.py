"""What tracking knows of a chip in service: its setting, the reference readings of its pilots, and a linear model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.studies.calibration.end_to_end import ElectronicsSettings, WordSample, WordTransmission
from optinc_pdk.studies.calibration.heater_model import HeaterModel
from optinc_pdk.studies.calibration.measurement import BenchLayer

SETTLED_RAD, SETTLED_DEVIATIONS = 0.02, 4.0
"""A step ends if no heater moved by a whole turn or by more than this phase and this multiple of its noise, added as
squares."""


@dataclass(frozen=True, eq=False)
class ServiceSetting:
    """Setting of a chip in service.

    Attributes:
        voltage_v: (H,) voltages of the heaters, rounded to the drive.
        electronics: Settings of the electronics.
        rate_rad: (H,) phases by which the heaters moved in one step lately, a running mean.
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

    @property
    def sent(self) -> int:
        """Number of pilot words that are sent in one round, all transmissions counted."""
        return len(self.references) * len(self.pilots.amplitude)
