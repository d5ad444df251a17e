"""Modulators: the field that they send for the drive of their electronics, and what they leak.

The drive of a modulator is its voltage over the largest one of its driver, 0 … 1. The field at drive 1 is the amplitude
1. The field of a push-pull Mach-Zehnder modulator is a sine, sin(π/2 · V / Vπ). Where the process states a lineariser,
the drive is predistorted, so that the field is proportional to it up to a residual.

A transfer is kept as a polynomial of the drive, which compiled loops evaluate for every word.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.options import Activation

DEGREE = 13
"""Degree of the polynomials: a sine up to its half-wave voltage is within 1e-12."""
TABLE_ERROR = 2e-3
"""Largest distance of a measured table from its polynomial."""
LINEAR = (0.0, 1.0)
"""Transfer whose field is the drive."""
_SAMPLES = 401


@dataclass(frozen=True)
class Modulator:
    """What a modulator sends.

    Attributes:
        transfer: Coefficients of the field over the drive, 0 … 1, from the constant on. The field is 0 without drive,
            1 at full drive, and rises in between.
        leak: Field amplitude that a modulator at its null sends in quadrature, over that at full transmission.
    """

    transfer: tuple[float, ...] = LINEAR
    leak: float = 0.0

    @property
    def linear(self) -> bool:
        """Whether the field is proportional to the drive."""
        return self.transfer == LINEAR

    def field(self, drive: Floats) -> Floats:
        """Return the fields, 0 … 1, for drives of any shape; electronics limit the drive to 0 … 1."""
        limited: Floats = np.clip(drive, 0.0, 1.0)
        return limited if self.linear else _value(self.transfer, limited)

    def slope(self, drive: Floats) -> Floats:
        """Return the derivatives of :meth:`field` for drives of any shape, those at 0 or 1 for drives beyond."""
        return _value(_derivative(self.transfer), np.clip(drive, 0.0, 1.0))

    def drive(self, field: Floats) -> Floats:
        """Return the drives, 0 … 1, for fields of any shape; fields beyond 0 … 1 count as their limit."""
        wanted = np.clip(field, 0.0, 1.0)
        if self.linear:
            return wanted
        grid = np.linspace(0.0, 1.0, _SAMPLES)
        found = np.interp(wanted, self.field(grid), grid)
        inner = (wanted > 0.0) & (wanted < 1.0)
        for _ in range(3):
            step = np.divide(wanted - self.field(found), self.slope(found), out=np.zeros_like(found), where=inner)
            found = np.clip(found + step, 0.0, 1.0)
        return found

    def small_signal(self, swing: float) -> float:
        """Return the drive per field with which signals up to a field ``swing`` below 1 are sent.

        It makes the mean square of the error least for signals of equal probability from 0 to ``swing``. At ``swing`` 1
        it is 1: the ends of the range are exact.
        """
        if self.linear or swing >= 1.0:
            return 1.0
        wanted = np.linspace(0.0, swing, 101)
        factor = 1.0 / float(self.slope(np.zeros(1))[0])
        for _ in range(20):
            drive = factor * wanted
            found, change = self.field(drive), self.slope(drive) * wanted
            factor += float(change @ (wanted - found) / (change @ change))
        return factor


IDEAL = Modulator()
"""Linear modulator that leaks nothing."""


def modulator_of(process: Process) -> Modulator:
    """Return the modulator of a process as its electronics drive it.

    A modulator whose card states neither ``swing`` nor ``transfer`` is linear.

    Raises:
        InputError: The table of the card is not that of a modulator.
    """
    card = process.devices.get("modulator")
    if card is None:
        return IDEAL
    parameters, driver = card.model.parameters, process.activation.lineariser
    extinction, swing = parameters.get("extinction_db"), parameters.get("swing")
    leak = 0.0 if extinction is None else 10.0 ** (-float(extinction) / 20.0)
    if driver is not None:
        transfer = linearised(float(driver.residual))
    elif card.model.transfer:
        transfer = measured(tuple(map(float, card.model.transfer)))
    else:
        transfer = LINEAR if swing is None else sine(float(swing))
    return Modulator(transfer, leak)


def drive_notes(process: Process) -> tuple[str, ...]:
    """State that modulators are taken as linear, where the cards of a process do not state how they are driven."""
    card = process.devices.get("modulator")
    if process.activation.lineariser or card is None or card.model.transfer or "swing" in card.model.parameters:
        return ()
    return (
        f"modulators of process {process.name!r} are taken as linear, because its cards do not say how they are "
        "driven: add swing to devices/modulator.yml, or activation.lineariser to process.yml",
    )


def check_activation(activation: Activation, process: Process) -> None:
    """Check that the modulators of a process realise an activation.

    Raises:
        InputError: The activation is the sine of a modulator that is driven up to its half-wave voltage, and those of
            the process are not.
    """
    if activation == "sine" and modulator_of(process).transfer != sine(1.0):
        raise InputError(
            f"process {process.name!r} has no modulators whose field is the sine of the signal; state "
            "'activation: {lineariser: null}' in process.yml and 'swing: {value: 1.0, …}' in devices/modulator.yml, or "
            "train with ReLU or Hardtanh(0, 1)"
        )


@lru_cache
def sine(swing: float) -> tuple[float, ...]:
    """Return the transfer of a push-pull Mach-Zehnder modulator whose largest voltage is ``swing``, 0 … 1, of Vπ."""
    drive = _drives()
    return _polynomial(np.sin(0.5 * np.pi * swing * drive) / np.sin(0.5 * np.pi * swing))


@lru_cache
def linearised(residual: float) -> tuple[float, ...]:
    """Return the transfer behind a linearising driver, whose largest error is ``residual`` of the full field.

    The error is that of a predistorter of too little or too much curvature, residual · sin(2π drive).
    """
    return LINEAR if residual == 0.0 else _polynomial(_drives() + residual * np.sin(2.0 * np.pi * _drives()))


@lru_cache
def measured(fields: tuple[float, ...]) -> tuple[float, ...]:
    """Return the transfer of a table of fields at equally spaced drives, which rise from 0 as the card checks.

    Raises:
        InputError: No smooth curve goes through them.
    """
    from scipy.interpolate import PchipInterpolator

    values = np.array(fields)
    curve = PchipInterpolator(np.linspace(0.0, 1.0, len(values)), values / values[-1])(_drives())
    found = _polynomial(curve)
    error = np.abs(_value(found, _drives()) - curve).max()
    if error > TABLE_ERROR or np.any(_value(_derivative(found), _drives()) < 0.0):
        raise InputError(
            "devices/modulator.yml: model.transfer: the smoothest curve through the fields "
            f"is off by {error:.2g}, the limit is {TABLE_ERROR:g}; give more fields, or correct one that is out of line"
        )
    return found


def _derivative(transfer: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(power * coefficient for power, coefficient in enumerate(transfer))[1:]


def _value(coefficients: tuple[float, ...], drive: Floats) -> Floats:
    """Value of a polynomial, whose coefficients start with the constant."""
    value = np.full_like(drive, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value *= drive
        value += coefficient
    return value


def _drives() -> Floats:
    return 0.5 - 0.5 * np.cos(np.pi * (np.arange(_SAMPLES) + 0.5) / _SAMPLES)


def _polynomial(fields: Floats) -> tuple[float, ...]:
    """Coefficients of the polynomial nearest to fields at :func:`_drives`, 0 at drive 0 and 1 at drive 1."""
    fit = np.polynomial.Chebyshev.fit(_drives(), fields, DEGREE, domain=[0.0, 1.0])
    coefficients = fit.convert(kind=np.polynomial.Polynomial).coef
    coefficients[0] = 0.0
    return tuple((coefficients / coefficients.sum()).tolist())
