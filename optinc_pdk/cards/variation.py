"""Process variation: the distributions of a process's imperfections, with their sources.

Every section is a kind of imperfection; its name appears on the command line, in files and in plots. Numbers called
``rms`` are standard deviations of normal distributions. Numbers called ``spread`` are relative: the standard deviation
of the quantity's logarithm, so that no resistance, power or loss changes its sign. ``chip`` is common to a chip,
``local`` is independent for every device. The documentation prints the description of each number.
"""

from __future__ import annotations

from pydantic import Field

from optinc_pdk.cards.quantity import (
    Angle,
    AnyQuantity,
    Decibels,
    Deviation,
    EffectiveBits,
    NonNegative,
    Positive,
    Share,
    Spread,
    StrictModel,
)


class CouplerVariation(StrictModel):
    """Variation of 2×2 couplers: the fraction of the power that crosses is 0.5 + error.

    The error is applied to the coupling angle, fraction = sin²(angle), which is equivalent at 50:50. Couplers of other
    ratios vary less, and every fraction stays within 0 … 1.
    """

    power_rms: Deviation = Field(description="error of the share of power across a 50:50 coupler, every one's own")


class SplitterVariation(StrictModel):
    """Variation of 1×2 splitters: the fraction of the power in the upper output is 0.5 + error, as for couplers."""

    power_rms: Deviation = Field(description="error of the share of power in the upper branch, every one's own")


class LossVariation(StrictModel):
    """Variation of the losses of guides and devices in dB.

    Every device stays passive, reflections included.
    """

    guide_chip_spread: Spread = Field(description="relative spread of the guides' dB/cm, common to a chip")
    guide_local_spread: Spread = Field(description="relative spread of the guides' dB/cm, every piece's own")
    device_spread: Spread = Field(description="relative spread of a device's dB, every one's own")
    grating_spread: Spread = Field(description="relative spread of a grating coupler's dB, every one's own")
    crossing_crosstalk_rms_db: Decibels = Field(description="error of a crossing's crosstalk in dB, every one's own")


class SizeVariation(StrictModel):
    """Variation of the width or height of all guides, both between devices and under heaters.

    The variation over the wafer is evaluated at the middle of a guide. A local variation along the guide is added. Both
    change the phase of the guide.
    """

    rms_nm: NonNegative = Field(description="over the wafer, autocorrelation exp(-(distance / correlation)²)")
    correlation_um: Positive = Field(description="correlation length over the wafer")
    local_rms_nm: NonNegative = Field(description="along every guide by itself")
    local_correlation_um: Positive = Field(description="correlation length along a guide")
    rad_per_nm: AnyQuantity = Field(description="phase per nm and per 100 µm of guide")


class PhaseVariation(StrictModel):
    """Static phase errors in addition to those from width and height."""

    rms_rad: Angle = Field(description="every guide between two devices and under a heater, at any length")


class HeaterVariation(StrictModel):
    """Variation of the resistance and of the power for π of heaters, and drift of resistances in operation."""

    resistance_chip_spread: Spread = Field(description="relative spread of resistances, common to a chip")
    resistance_local_spread: Spread = Field(description="relative spread of resistances, every heater's own")
    power_pi_chip_spread: Spread = Field(description="relative spread of powers per π, common to a chip")
    power_pi_local_spread: Spread = Field(description="relative spread of powers per π, every heater's own")
    drift_spread: Spread = Field(description="relative change of a resistance after calibration")
    drift_h: Positive = Field(description="hours after which a random walk of a resistance has this spread")
    resistance_per_k: AnyQuantity = Field(description="relative change of a resistance per kelvin")


class CrosstalkVariation(StrictModel):
    """Thermal crosstalk: the fraction of a heater's phase that appears in the guide under another heater.

    The fraction is proportional to 1 / distance. The bias compensates the nominal crosstalk; the spreads describe how a
    chip deviates from it.
    """

    share: Share = Field(description="share of a heater's phase at the distance")
    distance_um: Positive = Field(description="that distance, middle to middle")
    chip_spread: Spread = Field(description="relative spread of all shares, common to a chip")
    pair_spread: Spread = Field(description="relative spread of a share, every pair of heaters' own")


class DacVariation(StrictModel):
    """Resolution of the heater drive: voltages are rounded to multiples of full scale / (2^bits - 1)."""

    effective_bits: EffectiveBits = Field(
        description="effective bits up to full scale; published: 7.2 to 8.5 (arXiv 2502.12869)"
    )


class WavelengthVariation(StrictModel):
    """Offset of the laser's wavelength from the wavelength for which the bias is computed."""

    rms_nm: NonNegative = Field(description="offset of the carrier")


class Variation(StrictModel):
    """Distributions of all imperfections of a process; each field is one kind of imperfection."""

    coupler: CouplerVariation
    splitter: SplitterVariation
    loss: LossVariation
    width: SizeVariation
    height: SizeVariation
    phase: PhaseVariation
    heater: HeaterVariation
    crosstalk: CrosstalkVariation
    dac: DacVariation
    wavelength: WavelengthVariation


KINDS = (
    "coupler",
    "splitter",
    "loss",
    "width",
    "height",
    "phase",
    "heater",
    "crosstalk",
    "dac",
    "laser",
    "detector",
    "wavelength",
)
"""Names of the kinds of imperfection; the numbers of ``laser`` and ``detector`` are in the card's ``noise``. The
position of a kind seeds its random stream, so new kinds go to the end."""
