"""Sections of a process card that describe limits of feasibility and noise."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import Field, model_validator

from optinc_pdk.cards.quantity import AnyQuantity, NonNegative, Positive, StrictModel


class BudgetCard(StrictModel):
    """Limits that decide whether a chip of a given size is feasible.

    Attributes:
        cooling_w_per_mm2: Largest heat per area that a die can dissipate.
        laser_w: Optical power launched into every guide.
        oscillator_w: Optical power launched into every fibre that leads to local oscillators of neurons; None for that
            of every guide. Where one carrier is split on the chip, it is the power of this carrier.
        margin_sigmas: Number of standard deviations of noise that a decision must tolerate.
        field_noise: Field noise, relative to full scale, that a network without known weights is assumed to tolerate.
        symbol_rate_min_bd: Lowest useful symbol rate.
        symbol_rate_max_bd: Highest symbol rate that is searched for a chip; None for no limit but the bandwidths.
        laser_efficiency: Light in a fibre over the electrical power of its laser; None if it is not known.
    """

    cooling_w_per_mm2: Positive
    laser_w: Positive
    oscillator_w: Positive | None = None
    margin_sigmas: Positive
    field_noise: Positive
    symbol_rate_min_bd: Positive
    symbol_rate_max_bd: Positive | None = None
    laser_efficiency: Positive | None = None


class AmplifierCard(StrictModel):
    """A measured amplifier behind a photodiode.

    Attributes:
        bandwidth_hz: Bandwidth at which its gain has fallen by 3 dB.
        a_per_sqrt_hz: Noise current referred to its input, one-sided.
        power_w: Electrical power, if known.
    """

    bandwidth_hz: Positive
    a_per_sqrt_hz: Positive
    power_w: Positive | None = None


class NoiseCard(StrictModel):
    """Noise of the laser, of fibres and of receivers.

    Attributes:
        symbol_rate_bd: Default symbol rate of noise figures.
        laser_max_w: Largest optical power in a guide.
        intensity_db_per_hz: Relative intensity noise of the laser.
        linewidth_hz: Linewidth of the laser, full width at half maximum.
        fibre_path_m: Path difference between modulated light and local oscillator at a mixer, if the modulator is off
            the chip.
        fibre_index: Group index of fibres.
        chip_path_m: The same path difference if the modulator is on the chip.
        fibre_phase_rad: Phase error of a phase-locked fibre.
        amplifiers: Amplifiers to choose from, from the slowest to the fastest. The noise of a receiver is that of one
            of them; numbers between them are not interpolated.
    """

    symbol_rate_bd: Positive
    laser_max_w: Positive
    intensity_db_per_hz: AnyQuantity
    linewidth_hz: NonNegative
    fibre_path_m: NonNegative
    fibre_index: Positive
    chip_path_m: NonNegative
    fibre_phase_rad: NonNegative
    amplifiers: Annotated[tuple[AmplifierCard, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _amplifiers_ascend(self) -> NoiseCard:
        bandwidths = [float(each.bandwidth_hz) for each in self.amplifiers]
        for below, above in itertools.pairwise(bandwidths):
            if above <= below:
                raise ValueError(
                    f"noise.amplifiers: {above:g} Hz follows {below:g} Hz; list amplifiers by ascending bandwidth"
                )
        return self
