"""Heaters and the electronics that drive them: phase, power, pad voltage, DAC code.

A heater of resistance R_h is in series with wires of resistance R_w, out and back::

    DAC --- R_w --- R_h --- ground        phi = pi P / P_pi,  P = I^2 R_h,  V = I (R_h + R_w)

Heaters share ground metal, so that their currents raise the ground potential of each by a voltage G(I), linear in the
currents; where G is given, V = I (R_h + R_w) + G(I).

Phases here are those that heaters produce in their own guides; :mod:`optinc_pdk.drive.crosstalk` adds their neighbours.
All numbers come from the process and device cards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import InputError

MAX_DAC_BITS = 32
# A voltage that exceeds full scale by rounding alone is accepted.
_ROUNDING = 1e-12
# Grounds take a tenth of a voltage or less, so each round of their solution gains a digit.
_GROUND_ROUNDS = 200


class RangeError(InputError):
    """A required voltage, phase or setting is beyond the range of the heater drive or the electronics.

    The message names the value and the limit.
    """


@dataclass(frozen=True, eq=False)
class HeaterArray:
    """All heaters of a chip, which have one device type, and their DACs; arrays have one entry per channel.

    Attributes:
        power_pi_w: Heater power for a phase of π, in W.
        resistance_ohm: (channels,) heater resistances in Ω.
        wire_ohm: (channels,) total resistance of the wires to and from each heater, in Ω.
        dac_bits: Resolution of the DACs; codes are 0 to 2^bits - 1.
        full_scale_v: Voltage of the highest code, in V.
        rise_v: Function from currents (channels,) in A to ground potentials (channels,) in V; None for an ideal ground.

    Raises:
        ValueError: A number is not finite or not positive (wire resistances may be 0), or shapes differ.
    """

    power_pi_w: float
    resistance_ohm: Floats
    wire_ohm: Floats
    dac_bits: int
    full_scale_v: float
    rise_v: Callable[[Floats], Floats] | None = None

    def __post_init__(self) -> None:
        """Check shapes and values."""
        for name, value in (("power_pi_w", self.power_pi_w), ("full_scale_v", self.full_scale_v)):
            if not isinstance(value, int | float | np.integer | np.floating) or not 0.0 < value < np.inf:
                raise ValueError(f"{name} is {value!r}; give a positive, finite number")
        bits = self.dac_bits
        if isinstance(bits, bool) or not isinstance(bits, int | np.integer) or not 1 <= bits <= MAX_DAC_BITS:
            raise ValueError(f"dac_bits is {bits!r}; give a whole number, 1 to {MAX_DAC_BITS}")
        if self.resistance_ohm.ndim != 1 or self.wire_ohm.shape != self.resistance_ohm.shape:
            raise ValueError(
                f"resistance_ohm has shape {self.resistance_ohm.shape} and wire_ohm {self.wire_ohm.shape}; "
                "give one of each per channel"
            )
        resistance, wire = self.resistance_ohm, self.wire_ohm
        _refuse_channels("resistance_ohm", resistance, (resistance > 0) & (resistance < np.inf), "positive")
        _refuse_channels("wire_ohm", wire, (wire >= 0) & (wire < np.inf), "zero or positive")

    @property
    def max_code(self) -> int:
        """Highest DAC code, 2^bits - 1."""
        return int(2**self.dac_bits) - 1

    @property
    def step_v(self) -> float:
        """Voltage difference between adjacent DAC codes, in V."""
        return self.full_scale_v / self.max_code


@dataclass(frozen=True, eq=False)
class Drive:
    """Phase, power, voltage and DAC code of every heater channel.

    Attributes:
        phase_rad: (channels,) phase that each heater produces in its own guide, in rad, without crosstalk.
        power_w: (channels,) power in each heater, without its wires, in W.
        voltage_v: (channels,) voltage at each pad, in V.
        code: (channels,) DAC code.
    """

    phase_rad: Floats
    power_w: Floats
    voltage_v: Floats
    code: Ints


def drive_heaters(heater: HeaterArray, own_rad: ArrayLike) -> Drive:
    """Convert the phases (channels,) in rad that heaters produce in their own guides to powers, voltages and DAC codes.

    Powers and voltages are those before rounding to the nearest codes; :func:`readback` returns the phases of the
    codes.

    Raises:
        ValueError: The shape is wrong, a value is not a real number, or a phase is below 0.
        RangeError: A voltage is above full scale.
    """
    own = as_real("own_rad", own_rad)
    _refuse_wrong_shape(heater, "own_rad", own)
    _refuse_channels("own_rad", own, (own >= 0) & (own < np.inf), "0 or more; add a turn")
    power = heater.power_pi_w * own / np.pi
    current = np.sqrt(power / heater.resistance_ohm)
    voltage = current * (heater.resistance_ohm + heater.wire_ohm)
    if heater.rise_v is not None:
        voltage = voltage + heater.rise_v(current)
        # a heater that is off draws no current: its code is 0 whatever its ground potential
        voltage[current == 0] = 0.0
    over = np.flatnonzero(voltage > heater.full_scale_v * (1 + _ROUNDING))
    if over.size:
        channel = over[np.argmax(voltage[over])]
        raise RangeError(
            f"channel {channel} needs {voltage[channel]:.4g} V, above the full scale of "
            f"{heater.full_scale_v:.4g} V ({over.size} of {own.size} channels are): raise full_scale_v, "
            "widen or shorten the wires, or lower the heater's resistance or power_pi_w"
        )
    code = np.minimum(np.rint(voltage / heater.step_v), heater.max_code).astype(np.int64)
    return Drive(phase_rad=own, power_w=power, voltage_v=voltage, code=code)


def readback(heater: HeaterArray, code: ArrayLike) -> Drive:
    """Convert DAC codes (channels,) to voltages, powers and the phases that heaters produce in their own guides.

    Phases exclude crosstalk and are not reduced modulo 2π.

    Raises:
        ValueError: The shape is wrong, or a code is not an integer or is out of range.
        RangeError: The currents do not converge, because ground resistances are as large as heater resistances.
    """
    given = np.asarray(code)
    _refuse_wrong_shape(heater, "code", given)
    if given.dtype.kind not in "iu":
        raise ValueError(f"code has dtype {given.dtype}; give integers")
    _refuse_channels("code", given, (given >= 0) & (given <= heater.max_code), f"0 to {heater.max_code}")
    codes = given.astype(np.int64)
    voltage = codes.astype(np.float64) * heater.step_v
    power = heater_currents(heater, voltage) ** 2 * heater.resistance_ohm
    return Drive(phase_rad=np.pi * power / heater.power_pi_w, power_w=power, voltage_v=voltage, code=codes)


def heater_currents(heater: HeaterArray, voltage_v: Floats) -> Floats:
    """Return the heater currents (channels,) in A for pad voltages (channels,) in V.

    Where heaters share a ground, they are found by fixed-point iteration. The DAC sources current but does not sink it:
    no current flows where the ground potential is above the pad voltage.

    Raises:
        RangeError: The currents do not converge, because ground resistances are as large as heater resistances.
    """
    total = heater.resistance_ohm + heater.wire_ohm
    current = voltage_v / total
    if heater.rise_v is None:
        return np.asarray(current)
    for _ in range(_GROUND_ROUNDS):
        updated = np.maximum(voltage_v - heater.rise_v(current), 0.0) / total
        change = float(np.max(np.abs(updated - current), initial=0.0))
        current = updated
        if change <= _ROUNDING * float(np.max(current, initial=0.0)):
            return np.asarray(current)
    raise RangeError(
        f"currents do not converge in {_GROUND_ROUNDS} rounds: the grounds are as resistive as the heaters; "
        "widen the grounds"
    )


def as_real(name: str, values: ArrayLike) -> Floats:
    """Convert an argument to a new float64 array of any shape.

    Raises:
        ValueError: Rows have different lengths, or a value is not a real number; the message begins with ``name``.
    """
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; make them equal") from None
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {given.dtype}; give real numbers")
    return given.astype(np.float64)


def _refuse_wrong_shape(heater: HeaterArray, name: str, values: NDArray[np.generic]) -> None:
    if values.shape != heater.resistance_ohm.shape:
        raise ValueError(
            f"{name} has shape {values.shape}; give one for each of the {heater.resistance_ohm.size} heaters"
        )


def _refuse_channels(name: str, values: NDArray[np.generic], good: Bools, allowed: str) -> None:
    wrong = np.flatnonzero(~good)
    if wrong.size:
        raise ValueError(f"{name} of channel {wrong[0]} is {values[wrong[0]]}; it must be {allowed}")


@dataclass(frozen=True, eq=False)
class SharedGround:
    """Ground potentials of a chip's heater channels as a linear function of the heater currents.

    Attributes:
        labels: (channels,) channel labels.
        rise_v: Function from currents (channels,) in A to ground potentials (channels,) in V, both in the order of
            ``labels``.
    """

    labels: tuple[str, ...]
    rise_v: Callable[[Floats], Floats]

    def for_channels(self, labels: Sequence[str]) -> Callable[[Floats], Floats]:
        """Return ``rise_v`` for another selection or order of channels.

        Channels of this ground that are missing in ``labels`` carry no current. Channels in ``labels`` that this ground
        lacks have an ideal ground of 0 V.
        """
        place = {label: i for i, label in enumerate(self.labels)}
        known = np.array([i for i, label in enumerate(labels) if label in place], dtype=np.int64)
        number = np.array([place[label] for label in labels if label in place], dtype=np.int64)

        def rise(current_a: Floats) -> Floats:
            all_currents, potential = np.zeros(len(self.labels)), np.zeros(len(labels))
            all_currents[number] = current_a[known]
            potential[known] = self.rise_v(all_currents)[number]
            return potential

        return rise
