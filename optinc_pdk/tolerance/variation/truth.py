"""What a sampled chip really does with the voltages that are put on it.

The only place that knows a sample's devices; calibration may not look here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.cards import Process
from optinc_pdk.drive import RangeError
from optinc_pdk.files import InputError
from optinc_pdk.models import device_s, net_transmission, sampled_s
from optinc_pdk.simulate import Scattering, s_matrices
from optinc_pdk.tolerance.variation.chip import Chip
from optinc_pdk.tolerance.variation.draw import PHASE, Sample

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

LEAST_BITS, MOST_BITS = 1.0, 1000.0
"""Of a drive: on or off, and what 2 to that power is still a number of."""
_SETTLED = 1e-13
# Grounds take a tenth of a voltage or less, so a round of their solution gains a digit.
_ROUNDS = 200


def phases(chip: Chip, sample: Sample, voltage_v: ArrayLike, effective_bits: float | None = None) -> Floats:
    """The phases that voltages make: rounding by the drive, rising grounds, resistances, heaters' powers, crosstalk.

    Args:
        chip: The chip.
        sample: Its devices.
        voltage_v: (K, H) or (H,) voltages at the heaters' pads; the drive cuts them to 0 … full scale.
        effective_bits: Voltages are rounded to steps of full scale / (2^bits - 1); not where left out.

    Returns:
        (K, H) or (H,) phases in rad, not wrapped.

    Raises:
        InputError: Voltages of a wrong shape or not finite, or a number of bits that is none.
    """
    wanted = np.asarray(voltage_v, dtype=np.float64)
    heaters = chip.structure.heater.size
    if wanted.ndim not in (1, 2) or wanted.shape[-1] != heaters or not wanted.size:
        raise InputError(f"voltages have shape {wanted.shape}; give {heaters} numbers, or rows of them")
    for at in np.argwhere(~np.isfinite(wanted))[:1].tolist():
        raise InputError(
            f"the voltage of channel {chip.structure.channel[at[-1]]!r} is {wanted[tuple(at)]}; give a number"
        )
    resistance = chip.resistance_ohm * sample.resistance_scale
    driven, total = _driven(chip, wanted, effective_bits), resistance + chip.wire_ohm
    # for many settings it pays to solve for the currents at once
    several = wanted.ndim > 1 and len(wanted) > 1
    first = driven @ _conductance(chip, sample).T if several else driven / total
    current = _currents(driven, total, chip.rise_ohm, first)
    own = np.pi * current**2 * resistance / (chip.power_pi_w * sample.power_scale)
    made: Floats = own @ sample.crosstalk.T
    return made


def light(
    chip: Chip,
    sample: Sample,
    voltage_v: ArrayLike,
    effective_bits: float | None = None,
    wavelengths_nm: ArrayLike | None = None,
) -> Scattering:
    """S-parameters of a sampled chip at one set of voltages.

    Args:
        chip: The chip.
        sample: Its devices.
        voltage_v: (H,) voltages at the heaters' pads.
        effective_bits: As for :func:`phases`.
        wavelengths_nm: (W,) wavelengths or one; that of the sample's laser where left out.

    Raises:
        InputError: As for :func:`phases`.
        ModelError: A wavelength outside a device's range.
    """
    wavelengths = _wavelengths(sample, wavelengths_nm)
    s = fields(chip, sample, np.asarray(voltage_v)[np.newaxis], effective_bits, wavelengths)[0]
    return Scattering(wavelengths, chip.plan.outs, s, chip.structure.modulators)


def fields(
    chip: Chip,
    sample: Sample,
    voltage_v: ArrayLike,
    effective_bits: float | None = None,
    wavelengths_nm: ArrayLike | None = None,
) -> Complexes:
    """S-parameters of a sampled chip at many sets of voltages, several times faster than one by one.

    Args:
        chip: The chip.
        sample: Its devices.
        voltage_v: (K, H) voltages at the heaters' pads.
        effective_bits: As for :func:`phases`.
        wavelengths_nm: As for :func:`light`.

    Returns:
        (K, W, labels, labels) field amplitudes, indexed [case, wavelength, out, in], labels as in ``chip.plan.outs``.

    Raises:
        InputError: As for :func:`phases`.
        ModelError: A wavelength outside a device's range.
    """
    wavelengths = _wavelengths(sample, wavelengths_nm)
    return s_matrices(
        chip.plan,
        np.atleast_2d(phases(chip, sample, voltage_v, effective_bits)),
        wavelengths,
        chip.process,
        devices={name: device(chip, sample, name, wavelengths) for name in sample.parameters},
        guides=_guides(chip, sample, wavelengths),
    )


def lights(
    chip: Chip, samples: Sequence[Sample], voltage_v: ArrayLike, effective_bits: float | None = None
) -> list[Scattering]:
    """S-parameters of many sampled chips, each at its own laser's wavelength; faster than one by one.

    Args:
        chip: The chip.
        samples: (K,) samples.
        voltage_v: (K, H) voltages at the heaters' pads, or (H,) for all of them.
        effective_bits: As for :func:`phases`.

    Raises:
        InputError: As for :func:`phases`, or another number of rows than of samples.
        ModelError: A wavelength outside a device's range.
    """
    rows = np.asarray(voltage_v, dtype=np.float64)
    rows = np.tile(rows, (len(samples), 1)) if rows.ndim == 1 else rows
    if rows.ndim != 2 or len(rows) != len(samples) or not samples:
        raise InputError(f"voltages have shape {rows.shape}; give a row for each of {len(samples)} samples, or one")
    heat = [phases(chip, sample, row, effective_bits) for sample, row in zip(samples, rows, strict=True)]
    carriers = [_wavelengths(sample, None) for sample in samples]
    names = {name for sample in samples for name in sample.parameters}
    if len({sample.wavelength_nm for sample in samples}) > 1:
        # what does not vary takes the wavelength of each sample too
        names = {group.name for group in chip.structure.devices}
    pairs = list(zip(samples, carriers, strict=True))
    devices = {name: _stacked([device(chip, sample, name, at) for sample, at in pairs]) for name in sorted(names)}
    guides = np.stack([_guides(chip, sample, at) for sample, at in pairs])
    s = s_matrices(chip.plan, np.stack(heat), carriers[0], chip.process, devices=devices, guides=guides)
    return [Scattering(at, chip.plan.outs, one, chip.structure.modulators) for at, one in zip(carriers, s, strict=True)]


def device(chip: Chip, sample: Sample, name: str, wavelengths_nm: Floats) -> Complexes:
    """(W, I or 1, p, p) S-parameters of a component, heaters cold."""
    drawn = sample.parameters.get(name)
    if drawn is None:
        return device_s(chip.process, name, wavelengths_nm)[:, np.newaxis]
    values = {key: value for key, value in drawn.items() if key != PHASE}
    turn = _turn(chip, wavelengths_nm) * drawn.get(PHASE, 0.0)
    return sampled_s(chip.process, name, wavelengths_nm, values, turn)


def _stacked(samples: Sequence[Complexes]) -> Complexes:
    """(K, W, I, p, p) of K samples, some of which may have one S-matrix for all instances."""
    return np.stack(np.broadcast_arrays(*samples))


def _guides(chip: Chip, sample: Sample, wavelengths_nm: Floats) -> Complexes:
    """(W, nets) transmissions of the guides."""
    nominal = net_transmission(chip.process, chip.net_length_um, wavelengths_nm[:, np.newaxis])
    turned = np.exp(1j * _turn(chip, wavelengths_nm) * sample.guide_phase_rad)
    given: Complexes = nominal * turned * 10.0 ** (-sample.guide_loss_db / 20.0)
    return given


def _turn(chip: Chip, wavelengths_nm: Floats) -> Floats:
    """(W, 1) phases at the wavelengths over those at the process's; an index that is off stays so."""
    return float(chip.process.guide.wavelength_nm) / wavelengths_nm[:, np.newaxis]


def _wavelengths(sample: Sample, wavelengths_nm: ArrayLike | None) -> Floats:
    given = sample.wavelength_nm if wavelengths_nm is None else wavelengths_nm
    wavelengths: Floats = np.atleast_1d(np.asarray(given, dtype=np.float64))
    return wavelengths


def _driven(chip: Chip, voltage_v: Floats, effective_bits: float | None) -> Floats:
    """Voltages as the drive makes them."""
    full = float(chip.process.drive.full_scale_v)
    within = np.clip(voltage_v, 0.0, full)
    if effective_bits is None:
        return within
    step = drive_step_v(chip.process, effective_bits)
    # bits that are no whole number leave a part of a step below full scale, which no drive passes
    driven: Floats = np.minimum(np.rint(within / step) * step, full)
    return driven


def drive_step_v(process: Process, effective_bits: float) -> float:
    """Steps of a drive of so many effective bits.

    Raises:
        InputError: Bits that no drive has.
    """
    if not LEAST_BITS <= effective_bits <= MOST_BITS:
        raise InputError(f"effective_bits is {effective_bits}; give {LEAST_BITS:g} to {MOST_BITS:g}, 8.5 for instance")
    return float(process.drive.full_scale_v) / float(2.0**effective_bits - 1.0)


@lru_cache(maxsize=1)
def _conductance(chip: Chip, sample: Sample) -> Floats:
    """(H, H) currents per voltage at each pad, while all of them flow out of their pads."""
    resistance = np.diag(chip.resistance_ohm * sample.resistance_scale + chip.wire_ohm) + chip.rise_ohm
    conductance: Floats = np.asarray(np.linalg.inv(resistance), dtype=np.float64)
    return conductance


def _currents(voltage_v: Floats, total_ohm: Floats, rise_ohm: Floats, first_a: Floats) -> Floats:
    """Currents of heaters on grounds that all currents raise; none flows where the ground is above the pad.

    Args:
        voltage_v: (K, H) or (H,) voltages at the pads.
        total_ohm: (H,) resistances, wires included.
        rise_ohm: (H, H) what currents raise the grounds by.
        first_a: Where to start.
    """
    current: Floats = np.maximum(first_a, 0.0)
    for _ in range(_ROUNDS):
        left = np.maximum(voltage_v - current @ rise_ohm.T, 0.0) / total_ohm
        change = float(np.max(np.abs(left - current), initial=0.0))
        current = left
        if change <= _SETTLED * float(np.max(current, initial=0.0)):
            return current
    raise RangeError(f"no currents after {_ROUNDS} rounds: grounds take as much voltage as heaters; widen the grounds")
