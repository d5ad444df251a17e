"""Heaters and the electronics that drive them: phase, power, pad voltage, DAC code.

A heater of resistance R_h sits behind wires and a return of total resistance R_w::

    DAC --- R_w --- R_h --- ground        phi = pi P / P_pi,  P = I^2 R_h,  V = I (R_h + R_w)

Heaters share their ground's metal, so that all currents raise the ground end of each by some voltage G(I), linear in
them; where that is known, V = I (R_h + R_w) + G(I).

A heater also warms its neighbors: of every phase that heater j makes in its own guide, the share X[i, j]
appears in guide i (X[i, i] = 1), so that phi = X pi P / P_pi. Powers that make wanted phases come from the
inverse; where one comes out negative, its phase is raised by a turn.

All numbers come from the process and device cards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.files import InputError

MAX_DAC_BITS = 32
# Rounding of a voltage that was meant to be the full scale is no overdrive.
_ROUNDING = 1e-12
# Each round adds a turn where a power is negative; what does not settle by then has no sensible solution.
_ROUNDS = 50


# Grounds take a tenth of a voltage or less, so a round of their solution gains a digit; what takes longer has none.
_GROUND_ROUNDS = 200


@dataclass(frozen=True, eq=False)
class Ground:
    """What heaters' currents raise their grounds by.

    Attributes:
        labels: (n) channels.
        rise_v: Linear function of the currents (n,) of the channels, in A: (n,) voltages of their grounds, in V.
    """

    labels: tuple[str, ...]
    rise_v: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def of(self, labels: Sequence[str]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """The same function for other channels in another order; channels that it lacks are on a perfect ground."""
        place = {label: i for i, label in enumerate(self.labels)}
        known = np.array([i for i, label in enumerate(labels) if label in place], dtype=np.int64)
        own = np.array([place[label] for label in labels if label in place], dtype=np.int64)

        def rise(current_a: NDArray[np.float64]) -> NDArray[np.float64]:
            every, found = np.zeros(len(self.labels)), np.zeros(len(labels))
            every[own] = current_a[known]
            found[known] = self.rise_v(every)[own]
            return found

        return rise


class RangeError(InputError):
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
        rise_v: What currents (channels,) in A raise each heater's ground by, in V; grounds are perfect where left out.

    Raises:
        ValueError: A number that is not finite, not positive (wires: negative), or shapes that disagree.
    """

    power_pi_w: float
    resistance_ohm: NDArray[np.float64]
    wire_ohm: NDArray[np.float64]
    dac_bits: int
    full_scale_v: float
    rise_v: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None

    def __post_init__(self) -> None:
        """Refuses what no heater or DAC can be."""
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


def crosstalk(position_um: ArrayLike, share: float, distance_um: float) -> NDArray[np.float64]:
    """The matrix X of heaters that warm each other's guides, falling as 1 / distance.

    Args:
        position_um: (channels, 2) centers of the heaters in um.
        share: Share of a heater's own phase that appears in a guide at the distance, in [0, 1).
        distance_um: That distance in um. Nearer guides get at most the share 1.

    Returns:
        (channels, channels); X[i, j] is what guide i gets of heater j's phase, 1 on the diagonal.

    Raises:
        ValueError: Positions of a wrong shape, not finite or equal, or numbers out of range.
    """
    position = _as_real("position_um", position_um)
    if position.ndim != 2 or position.shape[1] != 2:
        raise ValueError(f"position_um has shape {position.shape}; give (channels, 2)")
    if not np.all(np.isfinite(position)):
        raise ValueError(f"position_um holds {position[~np.isfinite(position)][0]}; give finite numbers")
    if not 0.0 <= share < 1.0:
        raise ValueError(f"share is {share}; a neighbor gets 0 to less than 1 of a heater's phase")
    if not 0.0 < distance_um < np.inf:
        raise ValueError(f"distance_um is {distance_um}; give a positive, finite distance")
    apart = np.hypot(*(position[:, np.newaxis] - position).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    if np.any(apart == 0.0):
        one, other = np.argwhere(apart == 0.0)[0]
        raise ValueError(f"position_um of channels {one} and {other} are equal; heaters can't share a place")
    matrix: NDArray[np.float64] = np.minimum(share * distance_um / apart, 1.0)
    np.fill_diagonal(matrix, 1.0)
    return matrix


def program(heater: Heater, phase_rad: ArrayLike, crosstalk: ArrayLike | None = None) -> Drive:
    """The codes for wanted phases.

    Args:
        heater: The heaters and their DAC.
        phase_rad: (channels,) wanted phases in rad, in [0, 2 pi).
        crosstalk: (channels, channels) matrix X of :func:`crosstalk`, measured or modeled; none if left out.

    Returns:
        The wanted phases, their power and voltage before rounding, and the nearest codes; what the rounded
        codes really make is :func:`readback`.

    Raises:
        ValueError: A wrong shape, no real numbers, a phase outside [0, 2 pi), a voltage above full scale, or a
            crosstalk matrix that is out of range or has no non-negative powers for these phases.
    """
    phase = _as_real("phase_rad", phase_rad)
    _refuse_wrong_shape(heater, "phase_rad", phase)
    _refuse_channels("phase_rad", phase, (phase >= 0) & (phase < 2 * np.pi), "in [0, 2 pi); wrap it")
    made = drive(heater, own_phases(crosstalk, phase) if crosstalk is not None else phase)
    return replace(made, phase_rad=phase)


def drive(heater: Heater, own_rad: ArrayLike) -> Drive:
    """The codes for phases that heaters are to make by themselves, whatever their neighbors add.

    Args:
        heater: The heaters and their DAC.
        own_rad: (channels,) phases in rad, 0 or more.

    Returns:
        These phases, their power and voltage before rounding, and the nearest codes.

    Raises:
        ValueError: A wrong shape, no real numbers or a phase below 0.
        RangeError: A voltage above full scale.
    """
    own = _as_real("own_rad", own_rad)
    _refuse_wrong_shape(heater, "own_rad", own)
    _refuse_channels("own_rad", own, (own >= 0) & (own < np.inf), "0 or more; add a turn")
    power = heater.power_pi_w * own / np.pi
    current = np.sqrt(power / heater.resistance_ohm)
    voltage = current * (heater.resistance_ohm + heater.wire_ohm)
    if heater.rise_v is not None:
        voltage = voltage + heater.rise_v(current)
        # a heater that is off sinks no current: its pad has no voltage, though its ground has
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


def readback(heater: Heater, code: ArrayLike, crosstalk: ArrayLike | None = None) -> Drive:
    """The phases that codes really make.

    Args:
        heater: The heaters and their DAC.
        code: (channels,) whole numbers, 0 to 2^bits - 1.
        crosstalk: (channels, channels) matrix X of :func:`crosstalk`; none where left out.

    Returns:
        Voltage, power and phase of these codes. The phase is that of the guide, own heater and neighbors, and
        is not wrapped: a high code may push it past 2 pi.

    Raises:
        ValueError: A wrong shape, codes that are not integers, one out of range, or a bad crosstalk matrix.
    """
    given = np.asarray(code)
    _refuse_wrong_shape(heater, "code", given)
    if given.dtype.kind not in "iu":
        raise ValueError(f"code has dtype {given.dtype}; give integers")
    _refuse_channels("code", given, (given >= 0) & (given <= heater.max_code), f"0 to {heater.max_code}")
    codes = given.astype(np.int64)
    voltage = codes.astype(np.float64) * heater.step_v
    current = currents(heater, voltage)
    power = current**2 * heater.resistance_ohm
    phase = np.pi * power / heater.power_pi_w
    if crosstalk is not None:
        phase = _as_crosstalk(codes.size, crosstalk) @ phase
    return Drive(phase_rad=phase, power_w=power, voltage_v=voltage, code=codes)


def currents(heater: Heater, voltage_v: NDArray[np.float64]) -> NDArray[np.float64]:
    """(channels,) currents in A for voltages (channels,) at the pads, in V.

    The DAC sources current and sinks none: where the ground is above the pad, no current flows.

    Raises:
        RangeError: Grounds that take as much as the heaters, so that no currents are found.
    """
    total = heater.resistance_ohm + heater.wire_ohm
    current = voltage_v / total
    if heater.rise_v is None:
        return np.asarray(current)
    for _ in range(_GROUND_ROUNDS):
        left = np.maximum(voltage_v - heater.rise_v(current), 0.0) / total
        change = float(np.max(np.abs(left - current), initial=0.0))
        current = left
        if change <= _ROUNDING * float(np.max(current, initial=0.0)):
            return np.asarray(current)
    raise RangeError(
        f"no currents after {_GROUND_ROUNDS} rounds: grounds take as much voltage as heaters; widen the grounds"
    )


def own_phases(crosstalk: ArrayLike, phase_rad: NDArray[np.float64]) -> NDArray[np.float64]:
    """(channels,) phases, 0 or more, that heaters have to make in their own guides: X own = phase mod 2 pi.

    Args:
        crosstalk: (channels, channels) matrix X of :func:`crosstalk`.
        phase_rad: (channels,) wanted phases in rad.

    Raises:
        ValueError: A matrix that is out of range or has no non-negative powers for these phases.
    """
    matrix = _as_crosstalk(phase_rad.size, crosstalk)
    if phase_rad.size == 0:
        return phase_rad
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        raise ValueError("crosstalk is singular; its heaters can't set all phases apart") from None
    own = inverse @ phase_rad
    # A heater that should be off comes out at minus a rounding; a turn more would cost it a full 2 P_pi.
    rounding = _ROUNDING * (1.0 + np.abs(own).max())
    turns = np.zeros_like(phase_rad)
    for _ in range(_ROUNDS):
        cold = own < -rounding
        if not np.any(cold):
            return np.maximum(own, 0.0)
        turns[cold] += 1.0
        own = inverse @ (phase_rad + 2.0 * np.pi * turns)
    channel = int(np.argmin(own))
    raise ValueError(
        f"crosstalk leaves channel {channel} with the phase {own[channel]:.3g} rad of its own after "
        f"{_ROUNDS} turns; no heater cools: the neighbors' shares must be smaller"
    )


def _as_crosstalk(channels: int, crosstalk: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(crosstalk)
    if matrix.dtype.kind not in "iuf":
        raise ValueError(f"crosstalk has dtype {matrix.dtype}; give real numbers")
    if matrix.shape != (channels, channels):
        raise ValueError(f"crosstalk has shape {matrix.shape}; give {(channels, channels)}, one row a heater")
    if not np.all((matrix >= 0.0) & (matrix < np.inf)):
        row, column = np.argwhere(~((matrix >= 0.0) & (matrix < np.inf)))[0]
        raise ValueError(
            f"crosstalk[{row}, {column}] is {matrix[row, column]}; a share of a heater's phase is 0 or more"
        )
    if not np.all(np.abs(np.diagonal(matrix) - 1.0) <= _ROUNDING):
        raise ValueError("crosstalk has a diagonal other than 1; shares are of each heater's own phase")
    return matrix.astype(np.float64)


def _as_real(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """A copy of the argument in double precision; strings, truth values and complex numbers are refused."""
    try:
        given = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; make them equal") from None
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {given.dtype}; give real numbers")
    return given.astype(np.float64)


def _refuse_wrong_shape(heater: Heater, name: str, values: NDArray[np.generic]) -> None:
    if values.shape != heater.resistance_ohm.shape:
        raise ValueError(
            f"{name} has shape {values.shape}; give one for each of the {heater.resistance_ohm.size} heaters"
        )


def _refuse_channels(name: str, values: NDArray[np.generic], good: NDArray[np.bool_], allowed: str) -> None:
    wrong = np.flatnonzero(~good)
    if wrong.size:
        raise ValueError(f"{name} of channel {wrong[0]} is {values[wrong[0]]}; it must be {allowed}")
