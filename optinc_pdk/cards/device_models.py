"""Parameters of the compact models in device cards: their ranges, and that a device does not amplify.

A device is passive if no combination of amplitudes at its ports leaves with more power than it entered, that is, if no
singular value of its S-matrix exceeds 1. For the models of this package the largest singular value over all wavelengths
follows from losses and reflections alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats

if TYPE_CHECKING:
    from optinc_pdk.cards.device import DeviceCard

NO_MODEL = "none"
"""Name of the model of devices without light, such as pads."""
ROUNDING = 1e-12
MAX_DB = 1e3
"""Largest loss in dB, and most negative reflection; 10^(-1000/20) is a number of double precision."""
MAX_NM = 1e6


@dataclass(frozen=True)
class Range:
    """Range of a number.

    Attributes:
        low: Smallest value.
        high: Largest value.
        open_low: Whether ``low`` itself is outside.
    """

    low: float
    high: float
    open_low: bool = False

    def __contains__(self, value: float) -> bool:
        """Whether a value is inside."""
        return (self.low < value if self.open_low else self.low <= value) and value <= self.high

    def __str__(self) -> str:
        """Text of the range, such as "in 0 … 1"."""
        return f"above {self.low:g} and at most {self.high:g}" if self.open_low else f"in {self.low:g} … {self.high:g}"


LOSS, BACK = Range(0.0, MAX_DB), Range(-MAX_DB, 0.0)
POSITIVE = Range(0.0, 1e30, open_low=True)
WAVELENGTH = Range(0.0, MAX_NM, open_low=True)
PARAMETERS: Mapping[str, Mapping[str, Range]] = {
    "coupled_guides": {
        "loss_db": LOSS,
        "coupling_per_um": Range(0.0, 1e3),
        "reference_gap_um": Range(0.0, 1e3),
        "decay_um": Range(1e-3, 1e3),
        "center_nm": WAVELENGTH,
        "slope_per_nm": Range(-1e3, 1e3),
        "reflection_db": BACK,
    },
    "coupler": {"loss_db": LOSS, "imbalance": Range(-1.0, 1.0), "reflection_db": BACK},
    "crossing": {"loss_db": LOSS, "crosstalk_db": BACK, "reflection_db": BACK},
    "directional_coupler": {
        "loss_db": LOSS,
        "cross": Range(0.0, 1.0),
        "center_nm": WAVELENGTH,
        "slope_per_nm": Range(-1e3, 1e3),
        "reflection_db": BACK,
    },
    "edge_coupler": {"loss_db": LOSS, "reflection_db": BACK},
    "grating_coupler": {
        "loss_db": LOSS,
        "bandwidth_3db_nm": WAVELENGTH,
        "center_nm": WAVELENGTH,
        "reflection_db": BACK,
    },
    "modulator": {"loss_db": LOSS, "reflection_db": BACK},
    "phase_shifter": {"power_pi_w": POSITIVE, "sheet_ohm": POSITIVE, "loss_db": LOSS},
    "photodiode": {"responsivity_a_per_w": POSITIVE, "reflection_db": BACK},
    "splitter": {"loss_db": LOSS, "imbalance": Range(-1.0, 1.0), "reflection_db": BACK},
    "taper": {"loss_db": LOSS},
    "terminator": {"reflection_db": BACK},
    NO_MODEL: {},
}
"""Range of every parameter that a model needs."""
PORTS: Mapping[str, int] = {
    "coupled_guides": 4,
    "coupler": 4,
    "crossing": 4,
    "directional_coupler": 4,
    "edge_coupler": 2,
    "grating_coupler": 2,
    "modulator": 2,
    "phase_shifter": 2,
    "photodiode": 1,
    "splitter": 3,
    "taper": 2,
    "terminator": 1,
}
"""Number of optical ports of every model; a device without a model may have any."""
BANDWIDTH = Range(0.0, 1e15, open_low=True)
OPTIONAL: Mapping[str, Mapping[str, Range]] = {
    "modulator": {
        "bandwidth_hz": BANDWIDTH,
        "extinction_db": Range(0.0, MAX_DB, open_low=True),
        "swing": Range(0.0, 1.0, open_low=True),
    },
    "photodiode": {"bandwidth_hz": BANDWIDTH, "power_max_w": POSITIVE},
}
"""Range of every parameter that a model may have."""

LEAST_FIELDS = 3
"""Least number of fields in the table of a modulator."""
PATH_DIFFERENCE = "path_difference_um"
"""Setting of two coupled guides that may be negative."""
SETTINGS: Mapping[str, tuple[str, ...]] = {
    "coupled_guides": ("gap_um", "coupled_length_um", PATH_DIFFERENCE, "guide_1_um", "guide_2_um"),
}
"""Settings that every instance of a device has, in µm, because its geometry is not in its card, by name of the model.

Two coupled guides have the smallest gap between them, the length of parallel guides at the card's reference gap that
couple as strongly, by how much the first guide is longer than the second where they couple, and the lengths of the
guides from o1 to o4 and from o2 to o3.
"""

LIMITS: Mapping[str, Range] = {
    "wavelength_min_nm": WAVELENGTH,
    "wavelength_max_nm": WAVELENGTH,
    "phase_max_rad": POSITIVE,
}
"""Range of the limits that a device card may state."""


def amplitude(loss_db: ArrayLike) -> Floats:
    """Return the transmitted field amplitude 10^(-loss/20) for a power loss in dB, any shape."""
    field: Floats = 10.0 ** (-np.asarray(loss_db, dtype=np.float64) / 20.0)
    return field


def check_passive(through: ArrayLike, back: ArrayLike) -> None:
    """Check that a device is passive, given its transmitted and reflected field amplitudes, which broadcast.

    The largest singular value of its S-matrix is at most their sum.

    Raises:
        ValueError: The sum exceeds 1.
    """
    worst = float(np.max(np.add(through, back)))
    if not worst <= 1.0 + ROUNDING:
        raise ValueError(
            f"transmitted plus reflected amplitude is {worst:.6g}, the limit is 1; raise loss_db or lower reflection_db"
        )


def check_passive_crossing(through: ArrayLike, leak: ArrayLike, back: ArrayLike) -> None:
    """Check that a crossing is passive, whose largest singular value is √((through + back)² + (2 leak)²).

    These are the field amplitudes of the straight path, of the reflection, and into each crossed arm.

    Raises:
        ValueError: The singular value exceeds 1.
    """
    check_passive(np.hypot(np.add(through, back), 2.0 * np.asarray(leak)), 0.0)


def check_model(card: DeviceCard) -> None:
    """Check the compact model and the limits of a device card.

    A card whose S-parameters come from a file needs no parameters, and may have other ports than the model; the file is
    checked when it is read.

    Raises:
        ValueError: The model is unknown or has another number of ports, a parameter is missing, unknown or outside its
            range, the device would amplify, or the limits are no range; the message states the key.
    """
    model, measured = card.model, card.model.file is not None
    known = PARAMETERS.get(model.name)
    if known is None and not measured:
        names = ", ".join(PARAMETERS)
        raise ValueError(f"model.name: no model {model.name!r}; take one of {names}, or give a file of S-parameters")
    stated = len(card.ports.optical)
    if not measured and PORTS.get(model.name, stated) != stated:
        raise ValueError(
            f"ports.optical: model {model.name} has {PORTS[model.name]} ports, the card states {stated}; correct the "
            "ports, or take another model or a file of S-parameters"
        )
    for key in known or {}:
        if key not in model.parameters and not measured:
            raise ValueError(f"model.parameters.{key} is missing; add it")
    possible = None if known is None else {**known, **OPTIONAL.get(model.name, {})}
    _check_ranges("model.parameters", model.parameters, possible)
    _check_ranges("limits", card.limits, LIMITS)
    _check_transfer(card)
    low, high = (card.limits.get(f"wavelength_{end}_nm") for end in ("min", "max"))
    if low is not None and high is not None and low > high:
        raise ValueError(f"limits: wavelength_min_nm {low:g} is above wavelength_max_nm {high:g}; exchange them")
    if not measured:
        try:
            _GAIN_CHECKS.get(model.name, _check_two_ways)(model.parameters)
        except ValueError as fault:
            raise ValueError(f"model.parameters: the device would amplify: {fault}") from None


def _check_transfer(card: DeviceCard) -> None:
    """Check the measured fields of a modulator over its drive."""
    fields = card.model.transfer
    if not fields:
        return
    if card.model.name != "modulator" or "swing" in card.model.parameters:
        raise ValueError("model.transfer: belongs to a modulator without the parameter swing; remove one of them")
    if len(fields) < LEAST_FIELDS or fields[0] != 0.0 or np.any(np.diff(fields) <= 0.0):
        raise ValueError(
            f"model.transfer: has {len(fields)} fields from {float(fields[0]):g}; give at least {LEAST_FIELDS} that "
            "rise from 0. An electro-absorption modulator, whose field never is 0, cannot send these signals"
        )


def _check_ranges(where: str, values: Mapping[str, float], known: Mapping[str, Range] | None) -> None:
    for key, value in values.items():
        if known is None:
            continue
        if key not in known:
            raise ValueError(f"{where}: unknown key {key!r}; remove it or correct its spelling")
        if value not in known[key]:
            raise ValueError(f"{where}.{key}: value {float(value):g} must be {known[key]}; correct the value")


def _check_two_ways(parameters: Mapping[str, float]) -> None:
    """Refuse gain of a device that transmits and reflects; one without a loss transmits nothing."""
    through = amplitude(parameters["loss_db"]) if "loss_db" in parameters else 0.0
    back = amplitude(-parameters["reflection_db"]) if "reflection_db" in parameters else 0.0
    check_passive(through, back)


def _check_crossing(parameters: Mapping[str, float]) -> None:
    leak, back = (amplitude(-parameters[key]) for key in ("crosstalk_db", "reflection_db"))
    check_passive_crossing(amplitude(parameters["loss_db"]), leak, back)


_GAIN_CHECKS: Mapping[str, Callable[[Mapping[str, float]], None]] = {"crossing": _check_crossing}
