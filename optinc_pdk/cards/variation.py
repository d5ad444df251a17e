"""What a process does not make twice alike: the distributions of its imperfections, with their sources.

Every section is a kind of imperfection; its name stands on the command line, in files and in plots. Numbers called
``rms`` are standard deviations of normal distributions. Numbers called ``spread`` are relative: the standard deviation
of the quantity's logarithm, so that no resistance, power or loss changes its sign. ``chip`` is common to a chip,
``local`` is every device's own.
"""

from __future__ import annotations

from optinc_pdk.cards.values import AnyQuantity, NonNegative, Positive, Share, Strict


class CouplerVariation(Strict):
    """2×2 couplers: ``power_rms`` of the share that a 50:50 coupler sends across, 0.5 + error.

    The error is one of the coupling angle, share = sin²(angle), which is the same number at 50:50; other ratios
    vary less, and no share leaves 0 … 1.
    """

    power_rms: NonNegative


class SplitterVariation(Strict):
    """1×2 splitters: ``power_rms`` of the share in the upper branch, as for couplers."""

    power_rms: NonNegative


class LossVariation(Strict):
    """Losses in dB: of guides by chip and by piece, of devices, of gratings; and a crossing's crosstalk in dB."""

    guide_chip_spread: NonNegative
    guide_local_spread: NonNegative
    device_spread: NonNegative
    grating_spread: NonNegative
    crossing_crosstalk_rms_db: NonNegative


class SizeVariation(Strict):
    """Width or height of the guides.

    ``rms_nm`` varies over the wafer with autocorrelation exp(-(distance / correlation_um)²), ``local_rms_nm`` along
    every guide by itself with ``local_correlation_um``; both turn a guide's phase by ``rad_per_nm`` per 100 µm.
    """

    rms_nm: NonNegative
    correlation_um: Positive
    local_rms_nm: NonNegative
    local_correlation_um: Positive
    rad_per_nm: AnyQuantity


class PhaseVariation(Strict):
    """Static phase of every guide between two devices and under every heater, whatever its length."""

    rms_rad: NonNegative


class HeaterVariation(Strict):
    """Resistance and power per π of heaters, by chip and by heater; and how far resistances drift in use."""

    resistance_chip_spread: NonNegative
    resistance_local_spread: NonNegative
    power_pi_chip_spread: NonNegative
    power_pi_local_spread: NonNegative
    drift_spread: NonNegative


class CrosstalkVariation(Strict):
    """Thermal crosstalk: the share of a heater's phase in a guide at a distance, falling as 1 / distance."""

    share: Share
    distance_um: Positive
    chip_spread: NonNegative
    pair_spread: NonNegative


class DacVariation(Strict):
    """Effective bits of the heaters' drive, from 0 V to full scale."""

    effective_bits: Positive


class LaserVariation(Strict):
    """The carrier's relative intensity noise and linewidth."""

    rin_db_per_hz: AnyQuantity
    linewidth_hz: NonNegative


class DetectorVariation(Strict):
    """Photodiodes: responsivity, and the thermal noise current of their amplifiers; shot noise follows from these."""

    responsivity_a_per_w: Positive
    thermal_a_per_rthz: NonNegative


class WavelengthVariation(Strict):
    """Offset of the laser from the wavelength that the bias is made for."""

    rms_nm: NonNegative


class Variation(Strict):
    """The imperfections of a process, by kind."""

    coupler: CouplerVariation
    splitter: SplitterVariation
    loss: LossVariation
    width: SizeVariation
    height: SizeVariation
    phase: PhaseVariation
    heater: HeaterVariation
    crosstalk: CrosstalkVariation
    dac: DacVariation
    laser: LaserVariation
    detector: DetectorVariation
    wavelength: WavelengthVariation


KINDS = tuple(Variation.model_fields)
"""Names of the kinds; their order is that of the streams of random numbers, so new ones go to the end."""
