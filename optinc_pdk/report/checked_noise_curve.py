"""The curve of a chip that is compared with a target against the symbol rate: as a table, as a plot, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure

from optinc_pdk.cards import Process
from optinc_pdk.io.writing import csv_text, png_bytes
from optinc_pdk.report.formatting import format_si
from optinc_pdk.studies.checked_noise import CheckedCurve

SHOWN = 2
"""Largest number of quantities in the plot."""
_COLOUR, _INK = "#2f6fb0", "#444c54"


def checked_csv(curve: CheckedCurve) -> bytes:
    """Format a curve as CSV with one row per symbol rate."""
    keys = [quantity.key for quantity in curve.quantities]
    passed = ["passed"] if curve.limited else []
    columns = ["symbol_rate_bd", "integration_s", "laser_w", "receiver_oscillator_w", "sent", *passed, *keys]
    rows = []
    for point in curve.points:
        values = [point.symbol_rate_bd, point.integration_s, curve.laser_w, curve.receiver_oscillator_w]
        row = ["" if value is None else f"{value:.6g}" for value in values] + [str(curve.sent)]
        row += [str(int(point.passed))] if curve.limited else []
        rows.append([*row, *(f"{point.values[key]:.6g}" for key in keys)])
    return csv_text(columns, rows).encode()


def checked_png(curve: CheckedCurve, name: str) -> bytes:
    """Plot the first quantities of a curve as PNG, with their limits.

    Args:
        curve: The quantities against the symbol rate.
        name: Name of the chip, for the title.
    """
    shown = curve.quantities[:SHOWN]
    figure = Figure(figsize=(7.5, 2.8 * len(shown)), layout="constrained", facecolor="white")
    rates = [point.symbol_rate_bd for point in curve.points]
    for axes, quantity in zip(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0], shown, strict=True):
        values = [quantity.factor * point.values[quantity.key] for point in curve.points]
        axes.plot(rates, values, marker="o", markersize=4.0, color=_COLOUR)
        if quantity.limit is not None:
            axes.axhline(quantity.factor * quantity.limit, color=_INK, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylabel=quantity.label)
        axes.grid(which="major", linewidth=0.3, color=_INK)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[-1].set_xlabel("symbols per second")
    figure.axes[0].set_title(f"{name}: {format_si(curve.laser_w, 'W')} into every guide", fontsize=10)
    return png_bytes(figure, 120)


def checked_lines(curve: CheckedCurve, process: Process) -> Iterator[str]:
    """Yield the lines of text about a curve.

    Args:
        curve: The quantities against the symbol rate.
        process: Process of the cards.
    """
    receivers = "photodiodes read the outputs"
    if curve.receiver_oscillator_w is not None:
        known = process.link.oscillator_w is not None
        stated = "" if known else ", as in a guide, because the process states no link.oscillator_w"
        power = format_si(curve.receiver_oscillator_w, "W")
        receivers = f"receivers of the outputs have local oscillators of {power}{stated}"
    yield f"{format_si(curve.laser_w, 'W')} into every guide; {receivers}; {curve.sent:,} vectors at each rate"
    for point in curve.points:
        values = ", ".join(f"{one.text} {one.format(point.values[one.key])}" for one in curve.quantities)
        yield f"{format_si(point.symbol_rate_bd, 'Bd'):>9}, {format_si(point.integration_s, 's'):>7}: {values}"
    if curve.limited:
        highest = "none of these rates" if curve.highest_bd is None else f"up to {format_si(curve.highest_bd, 'Bd')}"
        yield f"within the limits: {highest}"
