"""Search for windows of wavelengths in which every word is exact, with few evaluations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from optinc_pdk.studies.spectrum.points import JudgedPoint, WavelengthRange, WavelengthWindow

_HALVED = 32.0


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
    """Bisect between an exact and an inexact wavelength.

    Args:
        exact: Function that states whether every word is exact at a wavelength in nm.
        good: Exact wavelength in nm.
        bad: Inexact wavelength in nm; NaN if there is none.
        resolution_nm: Distance at which the bisection ends.

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
    """Find the window of exact wavelengths around a carrier from points on a grid.

    The ends are refined by bisection between the last exact grid point and the first inexact one.

    Args:
        judge: Function that evaluates all words at a wavelength in nm.
        points: Results on the grid, ascending, with the carrier among them.
        carrier_nm: Carrier wavelength.

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

    Args:
        judge: Function that evaluates all words at a wavelength in nm.
        points: Results at further wavelengths.
        window: The window; None is returned unchanged.
        carrier_nm: Carrier wavelength.
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
