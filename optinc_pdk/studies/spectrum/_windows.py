"""Windows of wavelengths in which a chip computes exactly, found with few evaluations, and the range of the models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.models import read_measured
from optinc_pdk.simulate import CircuitOptics

LIGHT_NM_GHZ = 299_792_458.0
"""Speed of light: wavelength in nm times frequency in GHz."""
FINEST_NM = 1e-9
"""Finest resolution of a window; floating-point wavelengths differ by at least 2e-13 nm."""
NEAR = 25
"""Number of points around the window of the fixed bias, over four times its width."""
_BEYOND = 4.0
_HALVED = 32.0

Progress = Callable[[str, int, int | None], None]
"""Called with the name of the stage, the wavelengths evaluated, and their total number, or None if it is unknown."""


class JudgedPoint(Protocol):
    """Result at one carrier wavelength."""

    @property
    def wavelength_nm(self) -> float:
        """Carrier wavelength."""
        ...

    @property
    def passed(self) -> bool:
        """Whether the chip reaches its target."""
        ...


Point = TypeVar("Point", bound=JudgedPoint)


@dataclass(frozen=True)
class WavelengthWindow:
    """Range of wavelengths around the carrier in which every word is exact.

    Attributes:
        low_nm: Lowest wavelength that was found exact.
        high_nm: Highest wavelength that was found exact.
        resolution_nm: Uncertainty of both ends.
        to_limit: Whether the low and the high end are at the limit of the models or of the grid, beyond which nothing
            was evaluated.
    """

    low_nm: float
    high_nm: float
    resolution_nm: float
    to_limit: tuple[bool, bool]

    @property
    def width_nm(self) -> float:
        """Width of the window."""
        return self.high_nm - self.low_nm

    def drift_nm(self, carrier_nm: float) -> float:
        """Return the largest laser drift in nm that stays within the window in either direction."""
        return min(carrier_nm - self.low_nm, self.high_nm - carrier_nm)


@dataclass(frozen=True)
class WavelengthRange:
    """Range of wavelengths in which all models of a circuit are valid.

    Attributes:
        low_nm: Lowest wavelength.
        high_nm: Highest wavelength.
        low_by: Name of the component whose model limits the low end.
        high_by: Name of the component whose model limits the high end.
    """

    low_nm: float
    high_nm: float
    low_by: str
    high_by: str

    def __str__(self) -> str:
        """Return the range and the limiting devices as text."""
        limited_by = self.low_by if self.low_by == self.high_by else f"{self.low_by}, {self.high_by}"
        return f"{self.low_nm:g} … {self.high_nm:g} nm ({limited_by})"

    def __contains__(self, wavelength_nm: float) -> bool:
        return self.low_nm <= wavelength_nm <= self.high_nm


def model_range(structure: CircuitOptics, process: Process) -> WavelengthRange:
    """Return the range of wavelengths in which the models of all devices of a circuit are valid, and what limits it."""
    low, high = (-np.inf, ""), (np.inf, "")
    for group in structure.devices:
        card = process.device(group.name)
        limits = (card.limits.get("wavelength_min_nm", -np.inf), card.limits.get("wavelength_max_nm", np.inf))
        ends = [tuple(float(end) for end in limits)]
        if card.model.file is not None:
            ends.append(tuple(read_measured(card.model.file).wavelengths_nm[[0, -1]].tolist()))
        for least, most in ends:
            low, high = max(low, (least, group.name)), min(high, (most, group.name))
    return WavelengthRange(low[0], high[0], low[1], high[1])


def check_sweep(
    structure: CircuitOptics, process: Process, grid_nm: Floats, resolution_nm: float, channels: int, spacing_ghz: float
) -> tuple[WavelengthRange, Floats]:
    """Check the options of a sweep, and return the range of the models and the wavelengths with the carrier.

    Raises:
        InputError: A wavelength is outside the models' range, or an option is out of range.
    """
    models = model_range(structure, process)
    grid = np.union1d(grid_nm, [float(process.guide.wavelength_nm)])
    for wavelength in grid.tolist():
        if wavelength not in models:
            raise InputError(
                f"wavelength {wavelength:g} nm: the models are valid for {models}; choose one in this range"
            )
    if not resolution_nm >= FINEST_NM or channels < 1 or not spacing_ghz > 0.0:
        raise InputError(
            f"resolution {1e3 * resolution_nm:g} pm, {channels} channels, spacing {spacing_ghz:g} GHz: all must be "
            f"positive, and the resolution {1e3 * FINEST_NM:g} pm or more; correct them"
        )
    return models, grid


def points_around(
    judge: Callable[[float], Point],
    carrier_nm: float,
    grid: Floats,
    resolution_nm: float,
    models: WavelengthRange,
    what: str,
    report: Progress,
) -> tuple[tuple[Point, ...], WavelengthWindow | None]:
    """Return the points of a grid and close to the window, and the window, see :func:`find_window`."""
    window = find_window(judge, carrier_nm, resolution_nm, models, lambda n: report(what, n, None))
    near = np.array([carrier_nm])
    if window is not None:
        middle, half = (window.low_nm + window.high_nm) / 2.0, window.width_nm / 2.0
        near = middle + _BEYOND * half * np.linspace(-1.0, 1.0, NEAR)
        near = near[(near >= models.low_nm) & (near <= models.high_nm)]
    points = all_points(judge, np.union1d(grid, near), what, report)
    return points, narrow_window(judge, points, window, carrier_nm)


def all_points(judge: Callable[[float], Point], wavelengths: Floats, what: str, report: Progress) -> tuple[Point, ...]:
    """Evaluate all wavelengths in turn."""
    points = []
    for done, wavelength in enumerate(wavelengths.tolist(), start=1):
        points.append(judge(wavelength))
        report(what, done, wavelengths.size)
    return tuple(points)


def find_window(
    judge: Callable[[float], JudgedPoint],
    carrier_nm: float,
    resolution_nm: float,
    models: WavelengthRange,
    counted: Callable[[int], None] | None = None,
) -> WavelengthWindow | None:
    """Find the window around a carrier by doubling steps outwards, then bisection.

    Args:
        judge: Function that evaluates all words at a wavelength in nm.
        carrier_nm: Carrier wavelength, where the search starts.
        resolution_nm: Resolution of the window's ends.
        models: Limits of the search.
        counted: Called with the number of wavelengths evaluated so far.

    Returns:
        The window; None if a word is wrong at the carrier.
    """
    evaluated = 0

    def exact(wavelength_nm: float) -> bool:
        nonlocal evaluated
        evaluated += 1
        if counted is not None:
            counted(evaluated)
        return judge(wavelength_nm).passed

    if not exact(carrier_nm):
        return None
    ends, to_limit = [], []
    for limit in (models.low_nm, models.high_nm):
        good, bad, step = carrier_nm, float("nan"), resolution_nm
        while np.isnan(bad) and good != limit:
            beyond_limit = step >= abs(limit - carrier_nm)
            next_nm = limit if beyond_limit else carrier_nm + float(np.sign(limit - carrier_nm)) * step
            good, bad = (next_nm, bad) if exact(next_nm) else (good, next_nm)
            step *= 2.0
        ends.append(bisect_window(exact, good, bad, resolution_nm))
        to_limit.append(bool(np.isnan(bad)))
    return WavelengthWindow(ends[0], ends[1], resolution_nm, cast(tuple[bool, bool], tuple(to_limit)))


def bisect_window(exact: Callable[[float], bool], good: float, bad: float, resolution_nm: float) -> float:
    """Bisect between an exact and an inexact wavelength in nm, down to a distance.

    Returns:
        The exact wavelength closest to ``bad`` that was found; ``good`` if ``bad`` is NaN.
    """
    while abs(bad - good) > resolution_nm:
        middle = (good + bad) / 2.0
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if exact(middle) else (good, middle)
    return good


def window_between(
    judge: Callable[[float], JudgedPoint], points: Sequence[JudgedPoint], carrier_nm: float
) -> WavelengthWindow | None:
    """Find the window of exact wavelengths from points on an ascending grid that contains the carrier.

    The ends are refined by bisection between the last exact grid point and the first inexact one.

    Returns:
        The window; None if a word is wrong at the carrier.
    """
    start = next(place for place, point in enumerate(points) if point.wavelength_nm == carrier_nm)
    if not points[start].passed:
        return None
    ends, to_limit, resolution = [], [], 0.0
    for outward in (points[start::-1], points[start:]):
        first_wrong = next((place for place, point in enumerate(outward) if not point.passed), len(outward))
        good = bad = outward[first_wrong - 1].wavelength_nm
        if first_wrong < len(outward):
            bad = outward[first_wrong].wavelength_nm
            resolution = max(resolution, abs(bad - good) / _HALVED)
        ends.append(bisect_window(lambda at: judge(at).passed, good, bad, abs(bad - good) / _HALVED))
        to_limit.append(first_wrong == len(outward))
    return WavelengthWindow(ends[0], ends[1], resolution, cast(tuple[bool, bool], tuple(to_limit)))


def narrow_window(
    judge: Callable[[float], JudgedPoint],
    points: Sequence[JudgedPoint],
    window: WavelengthWindow | None,
    carrier_nm: float,
) -> WavelengthWindow | None:
    """Narrow a window to the inexact points within it that are nearest to the carrier.

    :func:`find_window` may skip such points, because it doubles its steps.
    """
    if window is None:
        return None
    ends, to_limit = [window.low_nm, window.high_nm], list(window.to_limit)
    for side, sign in enumerate((-1.0, 1.0)):
        inexact = [
            point.wavelength_nm
            for point in points
            if not point.passed and 0.0 < sign * (point.wavelength_nm - carrier_nm) < sign * (ends[side] - carrier_nm)
        ]
        if inexact:
            bad = min(inexact, key=lambda wavelength: abs(wavelength - carrier_nm))
            ends[side] = bisect_window(lambda at: judge(at).passed, carrier_nm, bad, window.resolution_nm)
            to_limit[side] = False
    return WavelengthWindow(ends[0], ends[1], window.resolution_nm, cast(tuple[bool, bool], tuple(to_limit)))
