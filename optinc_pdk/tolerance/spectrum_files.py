"""A spectrum as CSV, JSON, picture, and the lines that say what it means."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.tolerance.spectrum import LIGHT_NM_GHZ, Point, Spectrum, Window

SCHEMA = 1
COLUMNS = ("bias", "wavelength_nm", "inputs", "exact", "accuracy", "margin_levels", "fault")
_FIXED, _ANEW, _INK = "#d3302f", "#2f6fb0", "#444c54"
_PM_PER_NM = 1e3


def spectrum_csv(found: Spectrum) -> str:
    """A line per bias and wavelength; links' channels too."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for bias, points in (("fixed", found.fixed), ("rebiased", found.rebiased), ("channel", found.channels)):
        for point in points:
            numbers = _numbers(point)
            lines.writerow([bias, *("" if numbers[key] is None else numbers[key] for key in COLUMNS[1:])])
    return text.getvalue()


def spectrum_json(found: Spectrum) -> dict[str, Any]:
    """Everything, with null where no bias could be made."""
    return {
        "schema": SCHEMA,
        "carrier_nm": found.carrier_nm,
        "models_nm": [found.models.low_nm, found.models.high_nm],
        "fixed_window": _window(found.fixed_window, found.carrier_nm),
        "rebiased_window": _window(found.rebiased_window, found.carrier_nm),
        "link": {
            "channels": len(found.channels),
            "spacing_ghz": found.spacing_ghz,
            "chips_in_parallel": found.served,
            "in_fixed_window": found.shared,
            "wavelengths_nm": [channel.wavelength_nm for channel in found.channels],
            "exact": [channel.passed for channel in found.channels],
        },
        "fixed": [_numbers(point) for point in found.fixed],
        "rebiased": [_numbers(point) for point in found.rebiased],
    }


def _numbers(point: Point) -> dict[str, Any]:
    margin = None if math.isnan(point.margin) else round(point.margin, 6)
    values = (point.wavelength_nm, point.inputs, point.exact, point.accuracy, margin, point.fault)
    return dict(zip(COLUMNS[1:], values, strict=True))


def _window(window: Window | None, carrier_nm: float) -> dict[str, Any] | None:
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
    """A small change of a wavelength as one of frequency."""
    return LIGHT_NM_GHZ / carrier_nm**2 * drift_nm


def spectrum_lines(found: Spectrum) -> list[str]:
    """What a spectrum means for lasers and links."""
    carrier = found.carrier_nm
    lines = [f"the models hold for {found.models}"]
    if found.fixed_window is None:
        lines.append(f"bias fixed: not exact at its own carrier, {carrier:g} nm")
    else:
        drift = found.fixed_window.drift_nm(carrier)
        lines.append(
            f"bias fixed: exact from {_signed(found.fixed_window.low_nm - carrier)} to "
            f"{_signed(found.fixed_window.high_nm - carrier)} pm around {carrier:g} nm, to "
            f"{found.fixed_window.resolution_nm * _PM_PER_NM:g} pm: the laser may drift by {drift * _PM_PER_NM:.3g} pm "
            f"({drift_ghz(drift, carrier):.3g} GHz){_limit(found.fixed_window)}"
        )
    if found.rebiased_window is None:
        lines.append(f"rebiased: not exact at {carrier:g} nm")
    else:
        window = found.rebiased_window
        lines.append(
            f"rebiased: exact from {window.low_nm:.7g} to {window.high_nm:.7g} nm, to {window.resolution_nm:.2g} nm"
            + _limit(window)
        )
    count, served = len(found.channels), found.served
    lines.append(
        f"a link of {count} channels, {found.spacing_ghz:g} GHz apart: {served} computed exactly, each by a chip of "
        f"its own, {served} chips in parallel; one fixed bias is right for {found.shared} of them"
    )
    return lines


def _signed(offset_nm: float) -> str:
    return f"{offset_nm * _PM_PER_NM:+.3g}"


def _limit(window: Window) -> str:
    ends = [end for end, there in zip(("low", "high"), window.to_limit, strict=True) if there]
    return f"; beyond its {' and '.join(ends)} end nothing was tried" if ends else ""


def spectrum_png(found: Spectrum, title: str) -> bytes:
    """Accuracy and margin against the wavelength, over the grid and close around the carrier."""
    figure = Figure(figsize=(11.0, 6.0), dpi=130, layout="constrained")
    axes = figure.subplots(2, 2, sharex="col")
    figure.suptitle(title, color=_INK)
    for row, (what, label) in enumerate((("accuracy", "share of words exact"), ("margin", "margin, levels"))):
        for column, centre in enumerate((None, found.carrier_nm)):
            _draw(axes[row, column], found, what, centre)
        axes[row, 0].set_ylabel(label)
    axes[1, 0].set_xlabel("carrier, nm")
    axes[1, 1].set_xlabel(f"carrier - {found.carrier_nm:g} nm, pm")
    axes[0, 0].legend(frameon=False, loc="center left")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _draw(axes: Axes, found: Spectrum, what: str, centre: float | None) -> None:
    window, scale = found.fixed_window, 1.0 if centre is None else _PM_PER_NM
    reach = np.inf if window is None or centre is None else 4.0 * window.width_nm
    for name, points, color, mark in (
        ("bias fixed", found.fixed, _FIXED, "o"),
        ("rebiased", (*found.rebiased, *found.channels), _ANEW, "s"),
    ):
        x, y = np.array(sorted({(p.wavelength_nm, getattr(p, what)) for p in points})).reshape(-1, 2).T
        near = np.abs(x - found.carrier_nm) <= reach
        axes.plot(
            (x[near] - (centre or 0.0)) * scale,
            y[near],
            color=color,
            marker=mark,
            markersize=3.0,
            linewidth=1.0,
            label=name,
        )
    if window is not None and centre is not None:
        axes.axvspan(*((end - centre) * scale for end in (window.low_nm, window.high_nm)), color=_FIXED, alpha=0.12)
    if what == "margin":
        axes.axhline(0.0, color=_INK, linewidth=0.8, linestyle=":")
    axes.grid(linewidth=0.3)
