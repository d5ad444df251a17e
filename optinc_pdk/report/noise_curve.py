"""Curves of errors against the symbol rate, of words and of other targets: as tables, as plots, and as text."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.figure import Figure
from rich.table import Table

from optinc_pdk.cards import Process
from optinc_pdk.io.formatting import error_numbers, format_errors, format_si, light_text
from optinc_pdk.io.writing import csv_text, png_bytes
from optinc_pdk.report.summary import count_line, delays_text, oscillator_line
from optinc_pdk.studies.highest_rates import RateLimits
from optinc_pdk.studies.latency import Latency
from optinc_pdk.studies.link_energy import LinkEnergy
from optinc_pdk.studies.noise_curves import CheckedCurve, NoiseCurve, RatePoint
from optinc_pdk.studies.oscillators import ENOUGH, OscillatorRates

COLUMNS = (
    "symbol_rate_bd",
    "integration_s",
    "laser_w",
    "sent",
    "words",
    "wrong",
    "word_error_rate",
    "low_95",
    "high_95",
    "gaussian_estimate",
    "oscillator_w",
)
_COUNTED, _ESTIMATED, _INK = "#2f6fb0", "#d98c21", "#444c54"
LOWEST_RATE = 1e-15
"""The lowest word-error rate on the plot's axis."""


def curve_csv(curve: NoiseCurve) -> bytes:
    """Format a noise curve as CSV with one row per symbol rate."""
    rows = []
    for point in curve.points:
        counted = (point.sent, point.words, point.wrong)
        shares = (point.word_error_rate, point.low, point.high, point.gaussian_estimate)
        row = (point.symbol_rate_bd, point.integration_s, curve.laser_w, *counted, *shares, curve.oscillator_w)
        rows.append([f"{value:.6g}" if isinstance(value, float) else value for value in row])
    return csv_text(COLUMNS, rows).encode()


def curve_png(curve: NoiseCurve, name: str) -> bytes:
    """Plot a noise curve as PNG: counted word-error rates with 95 % intervals, estimate, and the highest rate."""
    figure = Figure(figsize=(7.5, 4.5), layout="constrained", facecolor="white")
    axes = figure.add_subplot()
    rates = [point.symbol_rate_bd for point in curve.points]
    axes.plot(rates, [point.gaussian_estimate for point in curve.points], color=_ESTIMATED, linestyle="--", marker=".")
    axes.lines[-1].set_label("estimate: margins and Gaussian noise")
    if curve.limits.symbol_rate_bd is not None:
        axes.axvline(curve.limits.symbol_rate_bd, color=_INK, linewidth=0.8, linestyle=":")
        axes.lines[-1].set_label(
            f"{format_si(curve.limits.symbol_rate_bd, 'Bd')} at {curve.limits.word_error_rate:g}, the highest rate"
        )
    wrong = [point for point in curve.points if point.wrong]
    if wrong:
        interval = [[p.word_error_rate - p.low for p in wrong], [p.high - p.word_error_rate for p in wrong]]
        counted = [point.word_error_rate for point in wrong]
        counted_bd = [point.symbol_rate_bd for point in wrong]
        label = "counted, 95 % interval"
        axes.errorbar(counted_bd, counted, interval, fmt="o", color=_COUNTED, ms=4, capsize=2, label=label)
    if none := [point for point in curve.points if not point.wrong]:
        limits = [point.high for point in none]
        axes.plot([p.symbol_rate_bd for p in none], limits, "v", color=_COUNTED, markersize=5, fillstyle="none")
        axes.lines[-1].set_label("none counted: upper end of the interval")
    axes.set(xscale="log", yscale="log", ylim=(LOWEST_RATE, 2.0), xlabel="symbols per second", ylabel="word-error rate")
    axes.set_title(f"{name}: {light_text(curve.laser_w, curve.oscillator_w)}", fontsize=10)
    axes.grid(which="major", linewidth=0.3, color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    return png_bytes(figure, 120)


def curve_lines(
    curve: NoiseCurve, against: OscillatorRates, energy: LinkEnergy | None, latency: Latency | None
) -> Iterator[str | Table]:
    """Yield text and tables: errors by rate, limits of the rate, oscillators, energy and latency."""
    yield light_text(curve.laser_w, curve.oscillator_w)
    yield from map(point_line, curve.points)
    yield limits_line(curve.limits)
    yield limits_table(curve)
    if against.light is not None:
        yield f"local oscillators: {oscillator_line(against.light)}"
        yield oscillator_table(against)
    if energy is not None:
        yield energy_line(energy)
    if latency is not None:
        yield f"at the highest rate: latency {delays_text(latency.parts_s, latency.missing)}"


def point_line(point: RatePoint) -> str:
    """Format the result at one symbol rate as one line of text."""
    errors = error_numbers(point.errors)
    return (
        f"{format_si(point.symbol_rate_bd, 'Bd'):>9}, {format_si(point.integration_s, 's'):>7}: "
        f"{point.wrong:,} of {point.words:,} words wrong, {point.word_error_rate:.2g} "
        f"({point.low:.2g} … {point.high:.2g}); "
        f"Gaussian estimate {point.gaussian_estimate:.2g}" + (f"; {format_errors(errors, 4)}" if errors else "")
    )


def limits_table(curve: NoiseCurve) -> Table:
    """Return a table of the highest symbol rates of a noise curve without each of their limits."""
    table = Table("without", "highest symbol rate", box=None)
    for name, rate in curve.without.items():
        bound = ", the limit of the process" if rate is not None and rate >= curve.limits.highest_bd else ""
        table.add_row(name, (format_si(rate, "Bd") if rate else "none") + bound)
    return table


def limits_line(limits: RateLimits) -> str:
    """Format the highest symbol rate, and where errors arise, as one line of text."""
    accepted = f"an estimated word-error rate of {limits.word_error_rate:g}"
    if limits.counted is not None and limits.counted.wrong:
        return f"no highest symbol rate is stated: {count_line(limits.counted, accepted)}"
    if limits.symbol_rate_bd is None:
        return f"no symbol rate of at least the smallest useful one (budget.symbol_rate_min_bd) has {accepted}"
    places = {f"layer {index}": share for index, share in enumerate(limits.layers)} | {"receivers": limits.receivers}
    worst = max(places, key=lambda place: places[place])
    bound = ", the limit of the process" if limits.symbol_rate_bd >= limits.highest_bd else ""
    place = "the receivers" if worst == "receivers" else worst
    rate = format_si(limits.symbol_rate_bd, "Bd")
    counted = "" if limits.counted is None else f"; none of {limits.counted.words:,} words counted there is wrong"
    return f"highest symbol rate at {accepted}: {rate}{bound}; most errors arise in {place}{counted}"


def oscillator_table(rates: OscillatorRates) -> Table:
    """Return a table of the highest symbol rates against the power of the local oscillators."""
    table = Table("local oscillators", "highest symbol rate", box=None)
    for one in rates.points:
        least = f", the least for {100 * ENOUGH:.0f} % of the highest" if one.oscillator_w == rates.enough_w else ""
        rate = "none" if one.symbol_rate_bd is None else format_si(one.symbol_rate_bd, "Bd")
        table.add_row(format_si(one.oscillator_w, "W"), rate + least)
    return table


def energy_line(energy: LinkEnergy) -> str:
    """Format the energy at the highest symbol rate as one line of text."""
    parts = ", ".join(f"{name} {format_si(watts, 'W')}" for name, watts in energy.power_w.items())
    bound = f"; at least, because the cards do not state: {', '.join(energy.missing)}" if energy.missing else ""
    return (
        f"at the highest rate: {format_si(energy.word_j, 'J')} for the average of one word, "
        f"{format_si(energy.bit_j, 'J')} for each bit of a server ({parts}){bound}"
    )


SHOWN = 2
"""Largest number of quantities in the plot."""


def checked_csv(curve: CheckedCurve) -> bytes:
    """Format a curve of quantities as CSV with one row per symbol rate."""
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
    """Plot the first quantities of a curve against the symbol rate as PNG, with their limits."""
    shown = curve.quantities[:SHOWN]
    figure = Figure(figsize=(7.5, 2.8 * len(shown)), layout="constrained", facecolor="white")
    rates = [point.symbol_rate_bd for point in curve.points]
    for axes, quantity in zip(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0], shown, strict=True):
        values = [quantity.factor * point.values[quantity.key] for point in curve.points]
        axes.plot(rates, values, marker="o", markersize=4.0, color=_COUNTED)
        if quantity.limit is not None:
            axes.axhline(quantity.factor * quantity.limit, color=_INK, linewidth=0.8, linestyle=":")
        axes.set(xscale="log", ylabel=quantity.label)
        axes.grid(which="major", linewidth=0.3, color=_INK)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[-1].set_xlabel("symbols per second")
    figure.axes[0].set_title(f"{name}: {format_si(curve.laser_w, 'W')} into every guide", fontsize=10)
    return png_bytes(figure, 120)


def checked_lines(curve: CheckedCurve, process: Process) -> Iterator[str]:
    """Yield the lines of text about a curve of quantities."""
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
