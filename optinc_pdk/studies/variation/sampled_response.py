"""Optical response of a sampled chip to heater voltages: heater phases and S-parameters.

Only this module evaluates the sampled device parameters. Calibration must not import it (see pyproject.toml).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import Process
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.models import instance_settings, instances_s, net_transmission, sampled_s
from optinc_pdk.simulate import Scattering, s_matrices
from optinc_pdk.simulate.modulator_drive import modulator_of
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampling import PHASE, ChipSample

MIN_EFFECTIVE_BITS, MAX_EFFECTIVE_BITS = 1.0, 1000.0
"""Range of the effective bits of a drive: on/off at the lower end; at the upper end, 2^bits is still a finite float."""
_TOLERANCE = 1e-13
# Ground rise takes a tenth of a voltage or less, so every iteration gains about one digit.
_MAX_ITERATIONS = 200


def sample_phases(
    chip: NominalChip, sample: ChipSample, voltage_v: ArrayLike, effective_bits: float | None = None
) -> Floats:
    """Compute the heater phases of a sample at given pad voltages.

    The model includes rounding by the drive, ground rise, resistances, power per π and thermal crosstalk.

    Args:
        chip: The nominal chip.
        sample: Sampled device parameters.
        voltage_v: (K, H) or (H,) voltages at the heaters' pads; the drive clips them to 0 … full scale.
        effective_bits: Voltages are rounded to steps of full scale / (2^bits - 1); no rounding if None.

    Returns:
        (K, H) or (H,) phases in rad, not wrapped.

    Raises:
        InputError: The voltages have a wrong shape or are not finite, or the number of bits is out of range.
        RangeError: The ground resistance is too high for a solution.
    """
    requested = np.asarray(voltage_v, dtype=np.float64)
    heaters = chip.structure.heater.size
    if requested.ndim not in (1, 2) or requested.shape[-1] != heaters or not requested.size:
        raise InputError(f"voltages have shape {requested.shape}; give {heaters} numbers, or rows of them")
    for index in np.argwhere(~np.isfinite(requested))[:1].tolist():
        raise InputError(
            f"the voltage of channel {chip.structure.channel[index[-1]]!r} is {requested[tuple(index)]}; give a number"
        )
    power = _powers(chip, sample, _drive_output(chip, requested, effective_bits))
    self_phase = np.pi * power / (chip.power_pi_w * sample.power_scale)
    phase: Floats = self_phase @ sample.crosstalk.T
    return phase


def _powers(chip: NominalChip, sample: ChipSample, output: Floats) -> Floats:
    """Return the electrical powers of the heaters of a sample at outputs of its drive in V; both (K, H) or (H,).

    A drive that holds power holds that of a heater as drawn, whatever the resistances of the sample and the ground
    rise. It cannot exceed the power at full scale.

    Raises:
        RangeError: The ground resistance is too high for a solution.
    """
    resistance = chip.resistance_ohm * sample.resistance_scale
    total = resistance + chip.wire_ohm
    if chip.process.drive.holds == "power":
        held = (output / (chip.resistance_ohm + chip.wire_ohm)) ** 2 * chip.resistance_ohm
        most = (float(chip.process.drive.full_scale_v) / total) ** 2 * resistance
        return np.asarray(np.minimum(held, most))
    # for many settings, one dense solve for a starting point is faster than more iterations
    batched = output.ndim > 1 and len(output) > 1
    first = output @ _conductance(chip, sample).T if batched else output / total
    current = _currents(output, total, chip.rise_ohm, first)
    return np.asarray(current**2 * resistance)


def sample_scattering(
    chip: NominalChip,
    sample: ChipSample,
    voltage_v: ArrayLike,
    effective_bits: float | None = None,
    wavelengths_nm: ArrayLike | None = None,
) -> Scattering:
    """Compute the S-parameters of a sample at (H,) voltages at the heaters' pads, see :func:`sample_phases`.

    Wavelengths are (W,) or one, in nm; that of the sample's laser if None.

    Raises:
        ModelError: A wavelength is outside a device's range.
    """
    wavelengths = _wavelengths(sample, wavelengths_nm)
    s = sample_s_matrices(chip, sample, np.asarray(voltage_v)[np.newaxis], effective_bits, wavelengths)[0]
    return Scattering(wavelengths, chip.plan.outs, s, chip.structure.modulators, modulator_of(chip.process))


def sample_s_matrices(
    chip: NominalChip,
    sample: ChipSample,
    voltage_v: ArrayLike,
    effective_bits: float | None = None,
    wavelengths_nm: ArrayLike | None = None,
) -> Complexes:
    """Compute the S-parameters of a sample at (K, H) heater voltages as one batch, see :func:`sample_scattering`.

    Returns:
        (K, W, labels, labels) field amplitudes, indexed [setting, wavelength, out, in], labels as in
            ``chip.plan.outs``.
    """
    wavelengths = _wavelengths(sample, wavelengths_nm)
    return s_matrices(
        chip.plan,
        np.atleast_2d(sample_phases(chip, sample, voltage_v, effective_bits)),
        wavelengths,
        chip.process,
        devices={name: sample_device_s(chip, sample, name, wavelengths) for name in sample.parameters},
        guides=_guides(chip, sample, wavelengths),
    )


def sample_scatterings(
    chip: NominalChip, samples: Sequence[ChipSample], voltage_v: ArrayLike, effective_bits: float | None = None
) -> list[Scattering]:
    """Compute the S-parameters of K samples as one batch, each at the wavelength of its own laser.

    Voltages are (K, H), or (H,) for all samples, see :func:`sample_phases`.

    Raises:
        InputError: The numbers of rows and samples differ.
        ModelError: A wavelength is outside a device's range.
    """
    rows = np.asarray(voltage_v, dtype=np.float64)
    rows = np.tile(rows, (len(samples), 1)) if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != len(samples) or not samples:
        raise InputError(f"voltages have shape {rows.shape}; give a row for each of {len(samples)} samples, or one")
    heat = [sample_phases(chip, sample, row, effective_bits) for sample, row in zip(samples, rows, strict=True)]
    carriers = [_wavelengths(sample, None) for sample in samples]
    names = {name for sample in samples for name in sample.parameters}
    if len({sample.wavelength_nm for sample in samples}) > 1:
        # devices without variation are evaluated at each sample's wavelength as well
        names = {group.name for group in chip.structure.devices}
    pairs = list(zip(samples, carriers, strict=True))
    devices = {
        # some may have one S-matrix for all instances
        name: np.stack(np.broadcast_arrays(*(sample_device_s(chip, sample, name, at) for sample, at in pairs)))
        for name in sorted(names)
    }
    guides = np.stack([_guides(chip, sample, at) for sample, at in pairs])
    s = s_matrices(chip.plan, np.stack(heat), carriers[0], chip.process, devices=devices, guides=guides)
    modulator = modulator_of(chip.process)
    return [
        Scattering(at, chip.plan.outs, one, chip.structure.modulators, modulator)
        for at, one in zip(carriers, s, strict=True)
    ]


def sample_device_s(chip: NominalChip, sample: ChipSample, name: str, wavelengths_nm: Floats) -> Complexes:
    """Compute the S-parameters of a component of a sample at (W,) wavelengths with all heaters off.

    Returns:
        (W, I, p, p) S-matrices of its I instances with p ports; (W, 1, p, p) for a component of which all instances are
            equal.
    """
    drawn = sample.parameters.get(name)
    instances = next(group.instance for group in chip.structure.devices if group.name == name)
    if drawn is None:
        return instances_s(chip.process, name, wavelengths_nm, chip.structure.circuit, instances)
    values = instance_settings(chip.process, name, chip.structure.circuit, instances)
    values |= {key: value for key, value in drawn.items() if key != PHASE}
    phase = _phase_ratio(chip, wavelengths_nm) * drawn.get(PHASE, 0.0)
    return sampled_s(chip.process, name, wavelengths_nm, values, phase)


def _guides(chip: NominalChip, sample: ChipSample, wavelengths_nm: Floats) -> Complexes:
    """Return (W, nets) field transmissions of the waveguides."""
    nominal = net_transmission(chip.process, chip.net_length_um, wavelengths_nm[:, np.newaxis])
    phase_factor = np.exp(1j * _phase_ratio(chip, wavelengths_nm) * sample.guide_phase_rad)
    transmission: Complexes = nominal * phase_factor * 10.0 ** (-sample.guide_loss_db / 20.0)
    return transmission


def _phase_ratio(chip: NominalChip, wavelengths_nm: Floats) -> Floats:
    """Return (W, 1) phase errors relative to the process wavelength: an index error does not depend on wavelength."""
    return float(chip.process.guide.wavelength_nm) / wavelengths_nm[:, np.newaxis]


def _wavelengths(sample: ChipSample, wavelengths_nm: ArrayLike | None) -> Floats:
    given = sample.wavelength_nm if wavelengths_nm is None else wavelengths_nm
    wavelengths: Floats = np.atleast_1d(np.asarray(given, dtype=np.float64))
    return wavelengths


def _drive_output(chip: NominalChip, voltage_v: Floats, effective_bits: float | None) -> Floats:
    """Return the voltages that the drive outputs: clipped and rounded."""
    full = float(chip.process.drive.full_scale_v)
    within = np.clip(voltage_v, 0.0, full)
    if effective_bits is None:
        return within
    step = drive_step_v(chip.process, effective_bits)
    # with a fractional number of bits, the highest code may round above full scale
    rounded: Floats = np.minimum(np.rint(within / step) * step, full)
    return rounded


def drive_step_v(process: Process, effective_bits: float) -> float:
    """Return the DAC step in volts of a drive with the given effective bits.

    Raises:
        InputError: The number of bits is out of range.
    """
    if not MIN_EFFECTIVE_BITS <= effective_bits <= MAX_EFFECTIVE_BITS:
        raise InputError(
            f"effective_bits is {effective_bits}; give {MIN_EFFECTIVE_BITS:g} to {MAX_EFFECTIVE_BITS:g}; example: 8.5"
        )
    return float(process.drive.full_scale_v) / float(2.0**effective_bits - 1.0)


@lru_cache(maxsize=1)
def _conductance(chip: NominalChip, sample: ChipSample) -> Floats:
    """Return the (H, H) conductance matrix from pad voltages to heater currents, valid while no current is cut off."""
    resistance = np.diag(chip.resistance_ohm * sample.resistance_scale + chip.wire_ohm) + chip.rise_ohm
    conductance: Floats = np.asarray(np.linalg.inv(resistance), dtype=np.float64)
    return conductance


def _currents(voltage_v: Floats, total_ohm: Floats, rise_ohm: Floats, first_a: Floats) -> Floats:
    """Solve for the heater currents with ground rise by fixed-point iteration; 0 where the ground is above the pad
    voltage.

    Voltages at the pads and starting currents are (K, H) or (H,); resistances with wires (H,), ground resistances (H,
    H).

    Raises:
        RangeError: The iteration does not converge.
    """
    current: Floats = np.maximum(first_a, 0.0)
    for _ in range(_MAX_ITERATIONS):
        updated = np.maximum(voltage_v - current @ rise_ohm.T, 0.0) / total_ohm
        change = float(np.max(np.abs(updated - current), initial=0.0))
        current = updated
        if change <= _TOLERANCE * float(np.max(current, initial=0.0)):
            return current
    raise RangeError(
        f"heater currents do not converge in {_MAX_ITERATIONS} iterations: ground rise is as large as the heater "
        "voltages; widen the grounds"
    )
