"""Evaluation of a chip at many wavelengths, whatever it computes: on a grid, around its window, and at channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.models import read_measured
from optinc_pdk.simulate import CircuitOptics
from optinc_pdk.studies.spectrum.points import LIGHT_NM_GHZ, JudgedPoint, WavelengthRange, WavelengthWindow
from optinc_pdk.studies.spectrum.windows import find_window, narrow_window

Point = TypeVar("Point", bound=JudgedPoint)
Progress = Callable[[str, int, int | None], None]
"""Called with the name of the stage, the wavelengths evaluated, and their total number, or None if it is unknown."""

FINEST_NM = 1e-9
"""Finest resolution of a window; floating-point wavelengths differ by at least 2e-13 nm."""
NEAR = 25
"""Number of points around the window of the fixed bias, over four times its width."""
_BEYOND = 4.0


def model_range(structure: CircuitOptics, process: Process) -> WavelengthRange:
    """Return the range of wavelengths in which the models of all devices of a circuit are valid, and what limits it."""
    low, high = (-np.inf, ""), (np.inf, "")
    for group in structure.devices:
        card = process.device(group.name)
        ends = [tuple(float(card.limits.get(f"wavelength_{end}_nm", far)) for end, far in _ENDS)]
        if card.model.file is not None:
            ends.append(tuple(read_measured(card.model.file).wavelengths_nm[[0, -1]].tolist()))
        for least, most in ends:
            low, high = max(low, (least, group.name)), min(high, (most, group.name))
    return WavelengthRange(low[0], high[0], low[1], high[1])


_ENDS = (("min", -np.inf), ("max", np.inf))


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
        if not models.low_nm <= wavelength <= models.high_nm:
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
    """Return the points of a grid and close to the window, and the window.

    The window is found from the carrier with doubled steps until the chip fails, then by bisection.
    """
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


def channel_points(
    judge: Callable[[float], Point],
    models: WavelengthRange,
    carrier_nm: float,
    channels: int,
    spacing_ghz: float,
    unusable: Callable[[float, str], Point],
    report: Progress,
) -> tuple[Point, ...]:
    """Evaluate the channels of a link; the carrier is one of them. Those outside the models' range are unusable."""
    frequency = LIGHT_NM_GHZ / carrier_nm + spacing_ghz * (np.arange(channels) - channels // 2)
    points = []
    for done, wavelength in enumerate((LIGHT_NM_GHZ / frequency[::-1]).tolist(), start=1):
        inside = models.low_nm <= wavelength <= models.high_nm
        points.append(judge(wavelength) if inside else unusable(wavelength, f"the models are valid for {models}"))
        report("channels", done, channels)
    return tuple(points)
