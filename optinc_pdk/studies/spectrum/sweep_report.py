"""Output of a wavelength sweep: CSV, JSON, plot and summary text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from optinc_pdk.io.writing import csv_text, png_bytes
from optinc_pdk.studies.spectrum._windows import LIGHT_NM_GHZ, WavelengthWindow
from optinc_pdk.studies.spectrum.sweep import CheckedPoint, CheckedSweep, WavelengthPoint, WavelengthSweep

SCHEMA = 1
_FIXED, _ANEW, _MATCHED, _INK = "#d3302f", "#2f6fb0", "#2e8b57", "#444c54"
REACH = 4.0
PM_PER_NM = 1e3
SHOWN = 2
"""Largest number of quantities in the plot of a chip that is compared with a target."""

AnySweep = WavelengthSweep | CheckedSweep


def _rows(result: AnySweep) -> dict[str, list[tuple[Any, ...]]]:
    """Return the values of the columns of all points by the name of their bias."""
    if isinstance(result, WavelengthSweep):
        return {bias: [result.row(point) for point in points] for bias, points in result.series.items()}
    return {bias: [result.row(point) for point in points] for bias, points in result.series.items()}


def spectrum_csv(result: AnySweep) -> str:
    """Return a CSV table with one line for each bias and wavelength, and for each channel of the link."""
    rows = [
        [bias, *("" if value is None else int(value) if isinstance(value, bool) else value for value in row)]
        for bias, some in _rows(result).items()
        for row in some
    ]
    return csv_text(["bias", *result.columns], rows)


def spectrum_json(result: AnySweep) -> dict[str, Any]:
    """Return all results of a sweep as JSON-compatible data; values are null where the chip could not be evaluated."""
    carrier = result.carrier_nm
    rows = {bias: [dict(zip(result.columns, row, strict=True)) for row in some] for bias, some in _rows(result).items()}
    link: dict[str, Any] = {
        "channels": len(result.channels),
        "spacing_ghz": result.spacing_ghz,
        "chips_in_parallel": result.served,
    }
    head = {"schema": SCHEMA, "carrier_nm": carrier, "models_nm": [result.models.low_nm, result.models.high_nm]}
    windows: dict[str, Any] = {
        "fixed_window": window_numbers(result.fixed_window, carrier),
        "rebiased_window": window_numbers(result.rebiased_window, carrier),
    }
    if isinstance(result, CheckedSweep):
        limits = {quantity.key: quantity.limit for quantity in result.quantities if quantity.limit is not None}
        found = {"fixed": rows["fixed"], "rebiased": rows["rebiased"], "channels": rows["channel"]}
        return {**head, "limits": limits, **windows, "link": link, **found}
    windows["matched_window"] = window_numbers(result.matched_window, carrier)
    link["in_fixed_window"] = result.shared
    link["wavelengths_nm"] = [channel.wavelength_nm for channel in result.channels]
    link["exact"] = [channel.passed for channel in result.channels]
    return {
        **head,
        **windows,
        "oscillators_late_ps": list(result.delays_ps),
        "signals_by_fibre": list(result.by_fibre),
        "link": link,
        **{bias: rows[bias] for bias in ("fixed", "matched", "rebiased")},
    }


def spectrum_table(result: AnySweep, grid: set[float]) -> Table:
    """Return a table of the wavelengths of a grid, in nm, with the bias fixed and rebiased."""
    return _words_table(result, grid) if isinstance(result, WavelengthSweep) else _checked_table(result, grid)


def _words_table(result: WavelengthSweep, grid: set[float]) -> Table:
    table = Table("nm", "bias fixed: exact", "margin", "rebiased: exact", "margin", "reason", box=None)
    for column in table.columns[:-1]:
        column.justify = "right"
    rebiased = {point.wavelength_nm: point for point in result.rebiased}
    for point in result.fixed:
        if point.wavelength_nm in grid:
            other = rebiased[point.wavelength_nm]
            table.add_row(f"{point.wavelength_nm:g}", *_words(point), *_words(other), other.fault.partition(";")[0])
    return table


def _words(point: WavelengthPoint) -> tuple[str, str]:
    return ("", "") if point.fault else (f"{point.exact:,}/{point.inputs:,}", f"{point.margin:.3f}")


def _checked_table(result: CheckedSweep, grid: set[float]) -> Table:
    first = result.quantities[0]
    table = Table("nm", f"bias fixed: {first.text}", "rebiased", "reason", box=None)
    rebiased = {point.wavelength_nm: point for point in result.rebiased}
    for point in result.fixed:
        if point.wavelength_nm in grid:
            other = rebiased[point.wavelength_nm]
            values = (first.format(one.values[first.key]) if one.values else "" for one in (point, other))
            table.add_row(f"{point.wavelength_nm:g}", *values, other.fault.partition(";")[0])
    return table


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


def spectrum_lines(result: AnySweep) -> list[str]:
    """Return the summary of a sweep as lines of text: windows, laser drift and channels."""
    carrier, good, words = result.carrier_nm, result.good, isinstance(result, WavelengthSweep)
    lines = [f"the models are valid for {result.models}"]
    if result.fixed_window is None:
        lines.append(f"bias fixed: not {good} at its own carrier, {carrier:g} nm")
    else:
        lines.append(f"bias fixed: {_close_text(result.fixed_window, carrier, good)}")
    if isinstance(result, WavelengthSweep) and result.matched_window is not None:
        fibres = [
            f"{delay:.1f} ps in front of l{layer}"
            for layer, (delay, by_fibre) in enumerate(zip(result.delays_ps, result.by_fibre, strict=True))
            if by_fibre
        ]
        lines.append(
            f"bias fixed, fibre delays matched to the local oscillators, by {', '.join(fibres)}: "
            + _close_text(result.matched_window, carrier, good)
        )
    window = result.rebiased_window
    if window is None:
        lines.append(f"rebiased: not {good} at {carrier:g} nm")
    else:
        # no resolution if both ends are at the limits of the grid
        found_to = f", to {window.resolution_nm:.2g} nm" if words and window.resolution_nm else ""
        found_to += _limit_text(window, "table")
        lines.append(f"rebiased: {good} from {window.low_nm:.7g} to {window.high_nm:.7g} nm{found_to}")
    count, served = len(result.channels), result.served
    link = f"a link of {count} channel{'s' * (count != 1)}, {result.spacing_ghz:g} GHz apart: "
    if isinstance(result, CheckedSweep):
        return [*lines, f"{link}{served} of {count} {good} if each has its own chip"]
    exact = f"all {count} are" if served == count > 1 else f"{served} of {count} {'is' if served == 1 else 'are'}"
    one_bias = f"one fixed bias is exact for {result.shared} of {count}"
    return [*lines, f"{link}{exact} exact if each has its own chip; {one_bias}"]


def _close_text(window: WavelengthWindow, carrier_nm: float, good: str) -> str:
    """Return a window of the fixed bias as text; ``good`` is what the chip is in it."""
    drift, resolution = window.drift_nm(carrier_nm), window.resolution_nm * PM_PER_NM
    if not window.width_nm:
        return f"{good} at {carrier_nm:g} nm, but not {resolution:g} pm from it: give a smaller --resolution"
    low, high = (f"{(end - carrier_nm) * PM_PER_NM:+.3g}" for end in (window.low_nm, window.high_nm))
    return (
        f"{good} from {low} to {high} pm around {carrier_nm:g} nm, to {resolution:g} pm: the laser may drift by "
        f"{drift * PM_PER_NM:.3g} pm ({drift_ghz(drift, carrier_nm):.3g} GHz){_limit_text(window, 'models')}"
    )


def _limit_text(window: WavelengthWindow, what: str) -> str:
    """Say which ends of a window are at the end of what was evaluated, as text; empty for none."""
    ends = [end for end, at_limit in zip(("low", "high"), window.to_limit, strict=True) if at_limit]
    if len(ends) == 2:
        return f"; both ends are limited by the range of the {what}"
    return f"; its {ends[0]} end is limited by the range of the {what}" if ends else ""


def spectrum_png(result: AnySweep, title: str) -> bytes:
    """Plot a sweep against the wavelength, over the whole grid and close to the carrier, as the contents of a PNG file.

    What is plotted is accuracy and margin of words, or the first quantities of a comparison.
    """
    figure = _words_figure(result) if isinstance(result, WavelengthSweep) else _checked_figure(result)
    figure.suptitle(title, color=_INK)
    return png_bytes(figure)


def _words_figure(result: WavelengthSweep) -> Figure:
    figure = Figure(figsize=(13.0, 6.0), dpi=120, layout="constrained")
    axes = figure.subplots(2, 3, sharex="col")
    wide = (("bias fixed", result.fixed, _FIXED), ("rebiased", (*result.rebiased, *result.channels), _ANEW))
    close = (
        ("bias fixed", result.fixed, _FIXED, result.fixed_window),
        ("bias fixed, fibres matched", result.matched, _MATCHED, result.matched_window),
    )
    for row, (what, label, line) in enumerate(
        (("accuracy", "share of words exact", None), ("margin", "margin, levels", 0.0))
    ):
        for name, points, color in wide:
            _draw_words(axes[row, 0], points, what, color, name, line)
        for column, (name, points, color, window) in enumerate(close, start=1):
            reach = np.inf if window is None else REACH * window.width_nm
            near = [point for point in points if abs(point.wavelength_nm - result.carrier_nm) <= reach]
            _draw_words(axes[row, column], near, what, color, name, line, result.carrier_nm)
        axes[row, 0].set_ylabel(label)
    axes[1, 0].set_xlabel("carrier, nm")
    for column in range(3):
        axes[0, column].legend(frameon=False, loc="lower center")
        if column:
            axes[1, column].set_xlabel(f"carrier - {result.carrier_nm:g} nm, pm")
    return figure


def _draw_words(
    axes: Axes,
    points: Sequence[WavelengthPoint],
    what: str,
    color: str,
    name: str,
    line: float | None,
    centre_nm: float | None = None,
) -> None:
    x, y = np.array(sorted({(p.wavelength_nm, getattr(p, what)) for p in points})).reshape(-1, 2).T
    _draw(axes, x, y, color, name, line, centre_nm)


def _checked_figure(result: CheckedSweep) -> Figure:
    shown = result.quantities[:SHOWN]
    figure = Figure(figsize=(10.0, 3.0 * len(shown)), dpi=120, layout="constrained")
    axes = figure.subplots(len(shown), 2, squeeze=False)
    again = sorted((*result.rebiased, *result.channels), key=lambda point: point.wavelength_nm)
    window = result.fixed_window
    reach = np.inf if window is None else REACH * max(window.width_nm, window.resolution_nm)
    near = [point for point in result.fixed if abs(point.wavelength_nm - result.carrier_nm) <= reach]
    for row, quantity in enumerate(shown):
        line = None if quantity.limit is None else quantity.factor * quantity.limit
        curves: tuple[tuple[int, Sequence[CheckedPoint], str, str, float | None], ...] = (
            (0, result.fixed, _FIXED, "bias fixed", None),
            (0, again, _ANEW, "rebiased", None),
            (1, near, _FIXED, "bias fixed", result.carrier_nm),
        )
        for column, points, color, name, centre_nm in curves:
            usable = [point for point in points if quantity.key in point.values]
            x = np.array([point.wavelength_nm for point in usable])
            y = [quantity.factor * point.values[quantity.key] for point in usable]
            _draw(axes[row, column], x, y, color, name, line, centre_nm)
        axes[row, 0].set_ylabel(quantity.label)
    axes[-1, 0].set_xlabel("carrier, nm")
    axes[-1, 1].set_xlabel(f"carrier - {result.carrier_nm:g} nm, pm")
    for one in axes[0]:
        one.legend(frameon=False)
    return figure


def _draw(
    axes: Axes, x: Any, y: Any, color: str, name: str, line: float | None, centre_nm: float | None = None
) -> None:
    """Plot y against the wavelength, or against its distance from a centre in pm, with a dotted line."""
    if centre_nm is not None:
        x = (x - centre_nm) * PM_PER_NM
    axes.plot(x, y, color=color, marker="o", markersize=3.0, linewidth=1.0, label=name)
    if line is not None:
        axes.axhline(line, color=_INK, linewidth=0.8, linestyle=":")
    axes.grid(linewidth=0.3)
