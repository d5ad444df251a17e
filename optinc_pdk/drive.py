"""Heaters and the electronics that drive them: phase, power, pad voltage, DAC code.

A heater of resistance R_h sits behind wires and a return of total resistance R_w::

    DAC --- R_w --- R_h --- ground        phi = pi P / P_pi,  P = I^2 R_h,  V = I (R_h + R_w)

All numbers come from the process and device cards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_DAC_BITS = 32
# Rounding of a voltage that was meant to be the full scale is no overdrive.
_ROUNDING = 1e-12


class RangeError(ValueError):
    """Drive or electronics lack the range that a chip needs; the message says what, how much, and the limit."""


@dataclass(frozen=True, eq=False)
class Heater:
    """The heaters of a chip, one per channel.

    Attributes:
        power_pi_w: Power in the heater for a phase of pi, in W.
        resistance_ohm: (channels,) resistance of each heater, in ohm.
        wire_ohm: (channels,) resistance in series with it, out and back, in ohm.
        dac_bits: Resolution of the DAC; codes run from 0 to 2^bits - 1.
        full_scale_v: Voltage of the highest code, in V.

    Raises:
        ValueError: A number that is not finite, not positive (wires: negative), or shapes that disagree.
    """

    power_pi_w: float
    resistance_ohm: NDArray[np.float64]
    wire_ohm: NDArray[np.float64]
    dac_bits: int
    full_scale_v: float

    def __post_init__(self) -> None:
        """Refuses what no heater or DAC can be."""
        for name, value in (("power_pi_w", self.power_pi_w), ("full_scale_v", self.full_scale_v)):
            if not 0.0 < value < np.inf:
                raise ValueError(f"{name} is {value}; give a positive, finite number")
        if not 1 <= self.dac_bits <= MAX_DAC_BITS:
            raise ValueError(f"dac_bits is {self.dac_bits}; give 1 to {MAX_DAC_BITS}")
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
        """The highest DAC code."""
        return int(2**self.dac_bits) - 1

    @property
    def step_v(self) -> float:
        """Voltage between neighbouring codes, in V."""
        return self.full_scale_v / self.max_code


@dataclass(frozen=True, eq=False)
class Drive:
    """What the electronics do and what the heaters make of it, one entry per channel.

    Attributes:
        phase_rad: (channels,) phase in rad.
        power_w: (channels,) power in the heater alone, in W.
        voltage_v: (channels,) voltage at the pads, in V.
        code: (channels,) DAC code.
    """

    phase_rad: NDArray[np.float64]
    power_w: NDArray[np.float64]
    voltage_v: NDArray[np.float64]
    code: NDArray[np.int64]


def program(heater: Heater, phase_rad: ArrayLike) -> Drive:
    """The codes for wanted phases.

    Args:
        heater: The heaters and their DAC.
        phase_rad: (channels,) wanted phases in rad, in [0, 2 pi).

    Returns:
        The wanted phases, their power and voltage before rounding, and the nearest codes; what the rounded
        codes really make is :func:`readback`.

    Raises:
        ValueError: A wrong shape, a phase outside [0, 2 pi), or a voltage above full scale.
    """
    phase = np.array(phase_rad, dtype=np.float64)
    _refuse_wrong_shape(heater, "phase_rad", phase)
    _refuse_channels("phase_rad", phase, (phase >= 0) & (phase < 2 * np.pi), "in [0, 2 pi); wrap it")
    power = heater.power_pi_w * phase / np.pi
    voltage = np.sqrt(power / heater.resistance_ohm) * (heater.resistance_ohm + heater.wire_ohm)
    over = np.flatnonzero(voltage > heater.full_scale_v * (1 + _ROUNDING))
    if over.size:
        channel = over[np.argmax(voltage[over])]
        raise RangeError(
            f"channel {channel} needs {voltage[channel]:.4g} V, above the full scale of "
            f"{heater.full_scale_v:.4g} V ({over.size} of {phase.size} channels are): raise full_scale_v, "
            "widen or shorten the wires, or lower the heater's resistance or power_pi_w"
        )
    code = np.minimum(np.rint(voltage / heater.step_v), heater.max_code).astype(np.int64)
    return Drive(phase_rad=phase, power_w=power, voltage_v=voltage, code=code)


def readback(heater: Heater, code: ArrayLike) -> Drive:
    """The phases that codes really make.

    Args:
        heater: The heaters and their DAC.
        code: (channels,) whole numbers, 0 to 2^bits - 1.

    Returns:
        Voltage, power and phase of these codes. The phase is the heater's own and is not wrapped: a high code
        may push it past 2 pi.

    Raises:
        ValueError: A wrong shape, codes that are not integers, or a code out of range.
    """
    given = np.asarray(code)
    _refuse_wrong_shape(heater, "code", given)
    if given.dtype.kind not in "iu":
        raise ValueError(f"code has dtype {given.dtype}; give integers")
    _refuse_channels("code", given, (given >= 0) & (given <= heater.max_code), f"0 to {heater.max_code}")
    codes = given.astype(np.int64)
    voltage = codes.astype(np.float64) * heater.step_v
    current = voltage / (heater.resistance_ohm + heater.wire_ohm)
    power = current**2 * heater.resistance_ohm
    return Drive(phase_rad=np.pi * power / heater.power_pi_w, power_w=power, voltage_v=voltage, code=codes)


def _refuse_wrong_shape(heater: Heater, name: str, values: NDArray[np.generic]) -> None:
    if values.shape != heater.resistance_ohm.shape:
        raise ValueError(
            f"{name} has shape {values.shape}; give one for each of the {heater.resistance_ohm.size} heaters"
        )


def _refuse_channels(name: str, values: NDArray[np.generic], good: NDArray[np.bool_], allowed: str) -> None:
    wrong = np.flatnonzero(~good)
    if wrong.size:
        raise ValueError(f"{name} of channel {wrong[0]} is {values[wrong[0]]}; it must be {allowed}")
