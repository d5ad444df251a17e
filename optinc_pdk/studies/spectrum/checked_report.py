"""Output of the wavelength sweep of a chip that is compared with a target: CSV, JSON, plot and summary text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.io.writing import csv_text, png_bytes
from optinc_pdk.studies.outcomes import Quantity
from optinc_pdk.studies.spectrum.checked_sweep import CheckedPoint, CheckedSweep
from optinc_pdk.studies.spectrum.sweep_report import PM_PER_NM, REACH, close_text, limit_text, window_numbers

SCHEMA = 1
GOOD = "within the limits"
SHOWN = 2
"""Largest number of quantities in the plot."""
_FIXED, _ANEW, _INK = "#d3302f", "#2f6fb0", "#444c54"


def checked_csv(result: CheckedSweep) -> str:
    """Return a CSV table with one line for each bias and wavelength, and for each channel of the link."""
    keys = [quantity.key for quantity in result.quantities]
    rows = []
    for bias, points in (("fixed", result.fixed), ("rebiased", result.rebiased), ("channel", result.channels)):
        for point in points:
            values = [_rounded(point, key) for key in keys]
            shown = ["" if value is None else value for value in values]
            rows.append([bias, point.wavelength_nm, int(point.passed), *shown, point.fault])
    return csv_text(["bias", "wavelength_nm", "passed", *keys, "fault"], rows)


def _rounded(point: CheckedPoint, key: str) -> float | None:
    """Value of a quantity with so many digits that the last bits of a solution do not count; None without one."""
    return float(f"{point.values[key]:.6g}") if key in point.values else None


def checked_json(result: CheckedSweep) -> dict[str, Any]:
    """Return all results of a sweep as JSON-compatible data; values are null where the chip could not be evaluated."""

    def rows(points: Sequence[CheckedPoint]) -> list[dict[str, Any]]:
        return [
            {"wavelength_nm": point.wavelength_nm, "passed": point.passed}
            | {quantity.key: _rounded(point, quantity.key) for quantity in result.quantities}
            | {"fault": point.fault}
            for point in points
        ]

    return {
        "schema": SCHEMA,
        "carrier_nm": result.carrier_nm,
        "models_nm": [result.models.low_nm, result.models.high_nm],
        "limits": {quantity.key: quantity.limit for quantity in result.quantities if quantity.limit is not None},
        "fixed_window": window_numbers(result.fixed_window, result.carrier_nm),
        "rebiased_window": window_numbers(result.rebiased_window, result.carrier_nm),
        "link": {
            "channels": len(result.channels),
            "spacing_ghz": result.spacing_ghz,
            "chips_in_parallel": result.served,
        },
        "fixed": rows(result.fixed),
        "rebiased": rows(result.rebiased),
        "channels": rows(result.channels),
    }


def checked_lines(result: CheckedSweep) -> list[str]:
    """Return the summary of a sweep as lines of text: windows, laser drift and channels."""
    carrier, lines = result.carrier_nm, [f"the models are valid for {result.models}"]
    if result.fixed_window is None:
        lines.append(f"bias fixed: not {GOOD} at its own carrier, {carrier:g} nm")
    else:
        lines.append(f"bias fixed: {close_text(result.fixed_window, carrier, GOOD)}")
    if result.rebiased_window is None:
        lines.append(f"rebiased: not {GOOD} at {carrier:g} nm")
    else:
        window = result.rebiased_window
        lines.append(
            f"rebiased: {GOOD} from {window.low_nm:.7g} to {window.high_nm:.7g} nm{limit_text(window, 'table')}"
        )
    count = len(result.channels)
    lines.append(
        f"a link of {count} channel{'s' * (count != 1)}, {result.spacing_ghz:g} GHz apart: {result.served} of {count} "
        f"{GOOD} if each has its own chip"
    )
    return lines


def checked_png(result: CheckedSweep, title: str) -> bytes:
    """Plot the first quantities against the wavelength, over the whole grid and close to the carrier.

    Returns:
        Contents of a PNG file.
    """
    shown = result.quantities[:SHOWN]
    figure = Figure(figsize=(10.0, 3.0 * len(shown)), dpi=120, layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False)
    figure.suptitle(title, color=_INK)
    again = sorted((*result.rebiased, *result.channels), key=lambda point: point.wavelength_nm)
    window = result.fixed_window
    reach = np.inf if window is None else REACH * max(window.width_nm, window.resolution_nm)
    near = [point for point in result.fixed if abs(point.wavelength_nm - result.carrier_nm) <= reach]
    for row, quantity in enumerate(shown):
        _draw(axes[row, 0], result.fixed, quantity, _FIXED, "bias fixed")
        _draw(axes[row, 0], again, quantity, _ANEW, "rebiased")
        _draw(axes[row, 1], near, quantity, _FIXED, "bias fixed", result.carrier_nm)
        axes[row, 0].set_ylabel(quantity.label)
    axes[-1, 0].set_xlabel("carrier, nm")
    axes[-1, 1].set_xlabel(f"carrier - {result.carrier_nm:g} nm, pm")
    for one in axes[0]:
        one.legend(frameon=False)
    return png_bytes(figure)


def _draw(
    axes: Axes,
    points: Sequence[CheckedPoint],
    quantity: Quantity,
    color: str,
    name: str,
    centre_nm: float | None = None,
) -> None:
    """Plot a quantity against the wavelength, or against its distance from a centre in pm."""
    usable = [point for point in points if quantity.key in point.values]
    x = np.array([point.wavelength_nm for point in usable])
    if centre_nm is not None:
        x = (x - centre_nm) * PM_PER_NM
    y = [quantity.factor * point.values[quantity.key] for point in usable]
    axes.plot(x, y, color=color, marker="o", markersize=3.0, linewidth=1.0, label=name)
    if quantity.limit is not None:
        axes.axhline(quantity.factor * quantity.limit, color=_INK, linewidth=0.8, linestyle=":")
    axes.grid(linewidth=0.3)
