"""Output of a wavelength sweep: CSV, JSON, plot and summary text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.io.writing import csv_text, png_bytes
from optinc_pdk.studies.spectrum import LIGHT_NM_GHZ, WavelengthPoint, WavelengthSweep, WavelengthWindow

SCHEMA = 1
COLUMNS = ("bias", "wavelength_nm", "inputs", "exact", "accuracy", "margin_levels", "fault")
_FIXED, _ANEW, _MATCHED, _INK = "#d3302f", "#2f6fb0", "#2e8b57", "#444c54"
REACH = 4.0
PM_PER_NM = 1e3


def spectrum_csv(result: WavelengthSweep) -> str:
    """Return a CSV table with one line for each bias and wavelength, and for each channel of the link."""
    rows = []
    for bias, points in (
        ("fixed", result.fixed),
        ("matched", result.matched),
        ("rebiased", result.rebiased),
        ("channel", result.channels),
    ):
        for point in points:
            numbers = _numbers(point)
            rows.append([bias, *("" if numbers[key] is None else numbers[key] for key in COLUMNS[1:])])
    return csv_text(COLUMNS, rows)


def spectrum_json(result: WavelengthSweep) -> dict[str, Any]:
    """Return all results of a sweep as JSON-compatible data; values are null where the chip could not be evaluated."""
    return {
        "schema": SCHEMA,
        "carrier_nm": result.carrier_nm,
        "models_nm": [result.models.low_nm, result.models.high_nm],
        "fixed_window": window_numbers(result.fixed_window, result.carrier_nm),
        "rebiased_window": window_numbers(result.rebiased_window, result.carrier_nm),
        "matched_window": window_numbers(result.matched_window, result.carrier_nm),
        "oscillators_late_ps": list(result.delays_ps),
        "signals_by_fibre": list(result.by_fibre),
        "link": {
            "channels": len(result.channels),
            "spacing_ghz": result.spacing_ghz,
            "chips_in_parallel": result.served,
            "in_fixed_window": result.shared,
            "wavelengths_nm": [channel.wavelength_nm for channel in result.channels],
            "exact": [channel.passed for channel in result.channels],
        },
        "fixed": [_numbers(point) for point in result.fixed],
        "matched": [_numbers(point) for point in result.matched],
        "rebiased": [_numbers(point) for point in result.rebiased],
    }


def _numbers(point: WavelengthPoint) -> dict[str, Any]:
    margin = None if math.isnan(point.margin) else round(point.margin, 6)
    values = (point.wavelength_nm, point.inputs, point.exact, point.accuracy, margin, point.fault)
    return dict(zip(COLUMNS[1:], values, strict=True))


def window_numbers(window: WavelengthWindow | None, carrier_nm: float) -> dict[str, Any] | None:
    """Return a window, and how far the laser may drift in it, as JSON-compatible data; None if there is none."""
    if window is None:
        return None
    return {
        "low_nm": window.low_nm,
        "high_nm": window.high_nm,
        "resolution_nm": window.resolution_nm,
        "nothing_tried_beyond": list(window.to_limit),
        "drift_nm": window.drift_nm(carrier_nm),
        "drift_ghz": drift_ghz(window.drift_nm(carrier_nm), carrier_nm),
    }


def drift_ghz(drift_nm: float, carrier_nm: float) -> float:
    """Convert a small wavelength change to a frequency change in GHz."""
    return LIGHT_NM_GHZ / carrier_nm**2 * drift_nm


def spectrum_lines(result: WavelengthSweep) -> list[str]:
    """Return the summary of a sweep as lines of text: windows, laser drift and channels."""
    carrier = result.carrier_nm
    lines = [f"the models are valid for {result.models}"]
    if result.fixed_window is None:
        lines.append(f"bias fixed: not exact at its own carrier, {carrier:g} nm")
    else:
        lines.append(f"bias fixed: {close_text(result.fixed_window, carrier)}")
    if result.matched_window is not None:
        fibres = [
            f"{delay:.1f} ps in front of l{layer}"
            for layer, (delay, by_fibre) in enumerate(zip(result.delays_ps, result.by_fibre, strict=True))
            if by_fibre
        ]
        lines.append(
            f"bias fixed, fibre delays matched to the local oscillators, by {', '.join(fibres)}: "
            + close_text(result.matched_window, carrier)
        )
    if result.rebiased_window is None:
        lines.append(f"rebiased: not exact at {carrier:g} nm")
    else:
        window = result.rebiased_window
        # no resolution if both ends are at the limits of the grid
        found_to = f", to {window.resolution_nm:.2g} nm" if window.resolution_nm else ""
        found_to += limit_text(window, "table")
        lines.append(f"rebiased: exact from {window.low_nm:.7g} to {window.high_nm:.7g} nm{found_to}")
    count, served = len(result.channels), result.served
    exact = f"all {count} are" if served == count > 1 else f"{served} of {count} {'is' if served == 1 else 'are'}"
    lines.append(
        f"a link of {count} channel{'s' * (count != 1)}, {result.spacing_ghz:g} GHz apart: {exact} exact if each has "
        f"its own chip; one fixed bias is exact for {result.shared} of {count}"
    )
    return lines


def close_text(window: WavelengthWindow, carrier_nm: float, good: str = "exact") -> str:
    """Return a window of the fixed bias as text; ``good`` is what the chip is in it."""
    drift, resolution = window.drift_nm(carrier_nm), window.resolution_nm * PM_PER_NM
    if not window.width_nm:
        return f"{good} at {carrier_nm:g} nm, but not {resolution:g} pm from it: give a smaller --resolution"
    return (
        f"{good} from {_signed(window.low_nm - carrier_nm)} to {_signed(window.high_nm - carrier_nm)} pm around "
        f"{carrier_nm:g} nm, to {resolution:g} pm: the laser may drift by {drift * PM_PER_NM:.3g} pm "
        f"({drift_ghz(drift, carrier_nm):.3g} GHz){limit_text(window, 'models')}"
    )


def _signed(offset_nm: float) -> str:
    return f"{offset_nm * PM_PER_NM:+.3g}"


def limit_text(window: WavelengthWindow, what: str) -> str:
    """Say which ends of a window are at the end of what was evaluated, as text; empty for none."""
    ends = [end for end, at_limit in zip(("low", "high"), window.to_limit, strict=True) if at_limit]
    if len(ends) == 2:
        return f"; both ends are limited by the range of the {what}"
    return f"; its {ends[0]} end is limited by the range of the {what}" if ends else ""


def spectrum_png(result: WavelengthSweep, title: str) -> bytes:
    """Plot accuracy and margin against the wavelength, once over the whole grid and once close to the carrier.

    Returns:
        Contents of a PNG file.
    """
    figure = Figure(figsize=(13.0, 6.0), dpi=120, layout="constrained")
    axes = figure.subplots(2, 3, sharex="col")
    figure.suptitle(title, color=_INK)
    wide = (("bias fixed", result.fixed, _FIXED), ("rebiased", (*result.rebiased, *result.channels), _ANEW))
    close = ((("bias fixed", result.fixed, _FIXED),), (("bias fixed, fibres matched", result.matched, _MATCHED),))
    windows = (result.fixed_window, result.matched_window)
    for row, (what, label) in enumerate((("accuracy", "share of words exact"), ("margin", "margin, levels"))):
        for name, points, color in wide:
            _draw(axes[row, 0], points, what, color, name)
        for column, (lines, window) in enumerate(zip(close, windows, strict=True), start=1):
            for name, points, color in lines:
                reach = np.inf if window is None else REACH * window.width_nm
                near = [point for point in points if abs(point.wavelength_nm - result.carrier_nm) <= reach]
                _draw(axes[row, column], near, what, color, name, result.carrier_nm)
        axes[row, 0].set_ylabel(label)
    axes[1, 0].set_xlabel("carrier, nm")
    for column in range(3):
        axes[0, column].legend(frameon=False, loc="lower center")
        if column:
            axes[1, column].set_xlabel(f"carrier - {result.carrier_nm:g} nm, pm")
    return png_bytes(figure)


def _draw(
    axes: Axes, points: Sequence[WavelengthPoint], what: str, color: str, name: str, centre_nm: float | None = None
) -> None:
    """Plot a quantity against the wavelength, or against its distance from a centre in pm."""
    x, y = np.array(sorted({(p.wavelength_nm, getattr(p, what)) for p in points})).reshape(-1, 2).T
    if centre_nm is not None:
        x = (x - centre_nm) * PM_PER_NM
    axes.plot(x, y, color=color, marker="o", markersize=3.0, linewidth=1.0, label=name)
    if what == "margin":
        axes.axhline(0.0, color=_INK, linewidth=0.8, linestyle=":")
    axes.grid(linewidth=0.3)
