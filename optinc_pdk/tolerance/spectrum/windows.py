"""Windows of wavelengths in which every word is exact, found by trying as few as can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from optinc_pdk.tolerance.spectrum.points import Point, Range, Window

_HALVED = 32.0


def find_window(
    judge: Callable[[float], Point],
    carrier_nm: float,
    resolution_nm: float,
    models: Range,
    counted: Callable[[int], None] | None = None,
) -> Window | None:
    """The wavelengths around a carrier at which every word is exact.

    Args:
        judge: All words at one wavelength.
        carrier_nm: Where to begin.
        resolution_nm: To which its ends are found.
        models: Where to stop.
        counted: Called with the wavelengths judged so far.

    Returns:
        The window; None where a word is wrong at the carrier.
    """
    tried = 0

    def exact(wavelength_nm: float) -> bool:
        nonlocal tried
        tried += 1
        if counted is not None:
            counted(tried)
        return judge(wavelength_nm).passed

    if not exact(carrier_nm):
        return None
    ends, to_limit = [], []
    for limit in (models.low_nm, models.high_nm):
        good, bad, step = carrier_nm, float("nan"), resolution_nm
        while np.isnan(bad) and good != limit:
            far = step >= abs(limit - carrier_nm)
            next_nm = limit if far else carrier_nm + float(np.sign(limit - carrier_nm)) * step
            good, bad = (next_nm, bad) if exact(next_nm) else (good, next_nm)
            step *= 2.0
        ends.append(bisected(exact, good, bad, resolution_nm))
        to_limit.append(bool(np.isnan(bad)))
    return Window(ends[0], ends[1], resolution_nm, cast(tuple[bool, bool], tuple(to_limit)))


def bisected(exact: Callable[[float], bool], good: float, bad: float, resolution_nm: float) -> float:
    """The last good wavelength before a bad one, if there is one."""
    while abs(bad - good) > resolution_nm:
        middle = (good + bad) / 2.0
        if middle in (good, bad):
            break
        good, bad = (middle, bad) if exact(middle) else (good, middle)
    return good


def window_between(judge: Callable[[float], Point], seen: tuple[Point, ...], carrier_nm: float) -> Window | None:
    """The window of a grid that has the carrier in it, its ends found between two of its wavelengths."""
    start = next(place for place, point in enumerate(seen) if point.wavelength_nm == carrier_nm)
    if not seen[start].passed:
        return None
    ends, to_limit, resolution = [], [], 0.0
    for way in (seen[start::-1], seen[start:]):
        wrong = next((place for place, point in enumerate(way) if not point.passed), len(way))
        good = bad = way[wrong - 1].wavelength_nm
        if wrong < len(way):
            bad = way[wrong].wavelength_nm
            resolution = max(resolution, abs(bad - good) / _HALVED)
        ends.append(bisected(lambda at: judge(at).passed, good, bad, abs(bad - good) / _HALVED))
        to_limit.append(wrong == len(way))
    return Window(ends[0], ends[1], resolution, cast(tuple[bool, bool], tuple(to_limit)))


def narrowed(
    judge: Callable[[float], Point], seen: tuple[Point, ...], window: Window | None, carrier_nm: float
) -> Window | None:
    """The window up to the nearest wavelength within it at which a word is wrong, where doubled steps passed one."""
    if window is None:
        return None
    ends, to_limit = [window.low_nm, window.high_nm], list(window.to_limit)
    for side, sign in enumerate((-1.0, 1.0)):
        wrong = [
            point.wavelength_nm
            for point in seen
            if not point.passed and 0.0 < sign * (point.wavelength_nm - carrier_nm) < sign * (ends[side] - carrier_nm)
        ]
        if wrong:
            bad = min(wrong, key=lambda wavelength: abs(wavelength - carrier_nm))
            ends[side] = bisected(lambda at: judge(at).passed, carrier_nm, bad, window.resolution_nm)
            to_limit[side] = False
    return Window(ends[0], ends[1], window.resolution_nm, cast(tuple[bool, bool], tuple(to_limit)))
