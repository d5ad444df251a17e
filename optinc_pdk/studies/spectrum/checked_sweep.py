"""Wavelength sweep of a chip that is compared with a matrix or a general network.

As for chips of words, all fibres are phase-locked at every wavelength, and heater phases do not depend on wavelength.
The oscillators of a general network's receivers are aligned to the light at every wavelength.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.matrices.comparison import NoLightError
from optinc_pdk.simulate import Scattering, UnsettledError, prepare, program, program_matrix, trim_offsets
from optinc_pdk.studies.calibration.network_procedure import NetworkSetting
from optinc_pdk.studies.chip_checks import BiasedSetting, MatrixCheck, NetworkCheck
from optinc_pdk.studies.outcomes import Quantity
from optinc_pdk.studies.spectrum.judged_points import (
    Progress,
    all_points,
    channel_points,
    check_sweep,
    points_around,
)
from optinc_pdk.studies.spectrum.points import WavelengthRange, WavelengthWindow
from optinc_pdk.studies.spectrum.windows import window_between
from optinc_pdk.studies.variation.nominal_chip import NominalChip, bias_voltages
from optinc_pdk.studies.variation.sampled_response import sample_scattering
from optinc_pdk.studies.variation.sampling import nominal_sample


@dataclass(frozen=True)
class CheckedPoint:
    """Comparison of a chip with its target at one carrier wavelength.

    Attributes:
        wavelength_nm: Carrier wavelength.
        passed: Whether it keeps all limits.
        values: The quantities by key; empty if the chip could not be evaluated.
        fault: Why it could not be evaluated; empty if it could.
    """

    wavelength_nm: float
    passed: bool
    values: Mapping[str, float]
    fault: str = ""


@dataclass(frozen=True, eq=False)
class CheckedSweep:
    """Comparison of a chip with its target against the carrier wavelength.

    Attributes:
        carrier_nm: Wavelength that the bias was programmed for.
        models: Range in which the models are valid.
        quantities: Quantities of the comparison.
        fixed: Points with the fixed bias, on the grid and close to its window; wavelengths ascend.
        rebiased: Points with a new bias for each wavelength of the grid; wavelengths ascend.
        fixed_window: Window of the fixed bias; None if the chip fails at the carrier.
        rebiased_window: Window with a new bias for each wavelength; None if the chip fails at the carrier.
        channels: Points with a new bias at the channels of a link.
        spacing_ghz: Channel spacing.
    """

    carrier_nm: float
    models: WavelengthRange
    quantities: tuple[Quantity, ...]
    fixed: tuple[CheckedPoint, ...]
    rebiased: tuple[CheckedPoint, ...]
    fixed_window: WavelengthWindow | None
    rebiased_window: WavelengthWindow | None
    channels: tuple[CheckedPoint, ...]
    spacing_ghz: float

    @property
    def served(self) -> int:
        """Number of channels within the limits with a new bias: the number of parallel chips in a link."""
        return sum(channel.passed for channel in self.channels)


@dataclass(frozen=True, eq=False)
class CheckedChip:
    """Chip whose carrier wavelength is swept.

    Attributes:
        circuit: The extracted circuit.
        chip: The nominal chip with its bias.
        check: What is measured, and the target.
        ground: Ground network of the heaters; ideal grounds if None.
    """

    circuit: Circuit
    chip: NominalChip
    check: MatrixCheck | NetworkCheck
    ground: SharedGround | None = None


def sweep_checked(
    subject: CheckedChip,
    grid_nm: Floats,
    *,
    resolution_nm: float,
    channels: int,
    spacing_ghz: float,
    progress: Progress | None = None,
) -> CheckedSweep:
    """Sweep the carrier wavelength of a chip and find the windows in which it keeps its limits.

    Args:
        subject: The chip.
        grid_nm: (W,) wavelengths to evaluate; the carrier is added.
        resolution_nm: Resolution of the window with the fixed bias; that with new biases is 1/32 of the grid spacing.
        channels: Number of channels of a link.
        spacing_ghz: Channel spacing; the carrier is one of the channels.
        progress: Called after each wavelength with the name of the step and the numbers of finished and of all
            wavelengths.

    Raises:
        InputError: A wavelength is outside the models' range, or an option is out of range.
    """
    chip, process = subject.chip, subject.chip.process
    carrier = float(process.guide.wavelength_nm)
    models, grid = check_sweep(chip.structure, process, grid_nm, resolution_nm, channels, spacing_ghz)
    report = progress or (lambda what, done, total: None)
    ends = [wavelength for wavelength in (models.low_nm, models.high_nm) if np.isfinite(wavelength)]
    subject = replace(subject, chip=replace(chip, plan=prepare(chip.structure, [*ends, carrier], process)))
    fixed, rebiased = _fixed_bias(subject), _new_bias(subject)
    points, window = points_around(fixed, carrier, grid, resolution_nm, models, "fixed bias", report)
    again = all_points(rebiased, grid, "rebiased", report)
    return CheckedSweep(
        carrier_nm=carrier,
        models=models,
        quantities=subject.check.quantities,
        fixed=points,
        rebiased=again,
        fixed_window=window,
        rebiased_window=window_between(rebiased, again, carrier),
        channels=channel_points(rebiased, models, carrier, channels, spacing_ghz, _unusable, report),
        spacing_ghz=spacing_ghz,
    )


def _unusable(wavelength_nm: float, fault: str) -> CheckedPoint:
    return CheckedPoint(wavelength_nm, False, {}, fault)


def _light(chip: NominalChip, voltage_v: Floats, wavelength_nm: float) -> Scattering:
    """Return the S-parameters of the nominal chip at a wavelength."""
    return sample_scattering(chip, nominal_sample(chip), voltage_v, wavelengths_nm=wavelength_nm)


def _fixed_bias(subject: CheckedChip) -> Callable[[float], CheckedPoint]:
    setting = subject.check.stated_setting()

    def at(wavelength_nm: float) -> CheckedPoint:
        return _compared(subject, setting, wavelength_nm)

    return at


def _compared(subject: CheckedChip, setting: BiasedSetting, wavelength_nm: float) -> CheckedPoint:
    s = _light(subject.chip, setting.voltage_v, wavelength_nm)
    try:
        return CheckedPoint(wavelength_nm, *subject.check.measured(s, setting))  # type: ignore[arg-type]
    except (NoLightError, UnsettledError) as fault:
        return _unusable(wavelength_nm, str(fault))


def _new_bias(subject: CheckedChip) -> Callable[[float], CheckedPoint]:
    """Return a function that programs the chip for a wavelength, and compares it there with its target."""

    def at(wavelength_nm: float) -> CheckedPoint:
        try:
            return _compared(subject, _programmed(subject, wavelength_nm), wavelength_nm)
        except (RangeError, UnsettledError) as fault:
            return _unusable(wavelength_nm, str(fault))

    return at


def _programmed(subject: CheckedChip, wavelength_nm: float) -> BiasedSetting:
    """Return the setting of a bias that is programmed for a wavelength as a build programs it."""
    chip, check, process = subject.chip, subject.check, subject.chip.process
    bias: Bias
    if isinstance(check, MatrixCheck):
        bias = program_matrix(
            subject.circuit, check.target, process, wavelength_nm=wavelength_nm, ground=subject.ground
        ).bias
        return replace(check.stated_setting(), voltage_v=bias_voltages(chip.structure, bias, process))
    factors = check.factors
    bias = program(
        subject.circuit, chip.board, check.network, process, wavelength_nm, ground=subject.ground, factors=factors
    ).bias
    voltage = bias_voltages(chip.structure, bias, process)
    trimmed = trim_offsets(_light(chip, voltage, wavelength_nm), chip.board, bias, check.network, factors, process)
    return NetworkSetting(voltage, trimmed, np.zeros(0))
