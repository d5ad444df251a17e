"""Eye diagrams of the worst row of every layer and of all outputs: as a picture, a table, and data of the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from optinc_pdk.arrays import Floats
from optinc_pdk.io.formatting import format_si, light_text
from optinc_pdk.io.writing import png_bytes
from optinc_pdk.report.rendering import packed_json
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.symbol_shape import SAMPLES
from optinc_pdk.studies.eyes import Eye

_TRACE, _WINDOW = "#2f6fb0", "#d98c21"
COLUMNS = 3
AXES = {
    "layer": "difference of the detectors\n/ its largest value",
    "class": "lead over the other outputs\n/ largest output",
}
"""Label of the vertical axis by the beginning of the names of signals; other signals are levels."""
TRACES = 400
"""Number of pairs of symbols that are drawn."""


def worst_eyes(eyes: Sequence[Eye]) -> list[Eye]:
    """Return the eye with the smallest opening of every hidden layer, and all outputs.

    A signal of one level, which has no eye, stands for a layer only if all of its signals have one.
    """
    layers: dict[str, Eye] = {}
    for eye in eyes:
        place = eye.name.split(",")[0]
        if place not in layers or _opening(eye) < _opening(layers[place]):
            layers[place] = eye
    return list(layers.values())


def eyes_table(eyes: Sequence[Eye]) -> Table:
    """Return opening and deviation of the eyes of :func:`worst_eyes` as a table for the terminal."""
    table = Table("signal", "opening", "deviation", box=None)
    for one in worst_eyes(eyes):
        table.add_row(one.name, *eye_texts(one))
    return table


def eye_texts(eye: Eye) -> tuple[str, str]:
    """Return opening and deviation of an eye as text, or that there is none."""
    if eye.opening is None or eye.deviation is None:
        return "no eye: one level", "none"
    return f"{eye.opening:.3f}", f"{eye.deviation:.3f}"


def _opening(eye: Eye) -> float:
    return math.inf if eye.opening is None else eye.opening


def axis_label(signal: str) -> str:
    """Return what the vertical axis of a signal's diagram shows, with its unit."""
    return next((text for name, text in AXES.items() if signal.startswith(f"{name} ")), "output / levels")


def eyes_png(eyes: Sequence[Eye], noise: Noise, oscillator_w: float, name: str) -> bytes:
    """Draw the eye diagrams of :func:`worst_eyes` as PNG; the noise model states rate and window."""
    shown = worst_eyes(eyes)
    rows = math.ceil(len(shown) / COLUMNS)
    figure = Figure(figsize=(10.0, 0.6 + 2.6 * rows), layout="constrained", facecolor="white")
    axes = np.atleast_1d(figure.subplots(rows, COLUMNS)).ravel()
    # two symbols, from the middle of the one before
    time = (np.arange(2 * SAMPLES + 1) / SAMPLES) - 0.5
    for panel, eye in zip(axes, shown, strict=False):
        starts = SAMPLES // 2 - 1 + SAMPLES * np.arange(min(TRACES, len(eye.readings) - 3))
        traces = eye.instants[starts[:, np.newaxis] + np.arange(2 * SAMPLES + 1)]
        panel.plot(time, traces.T, color=_TRACE, linewidth=0.4, alpha=0.12)
        for end in (0.0, 1.0):
            panel.axvspan(end - noise.shape.window, end, color=_WINDOW, alpha=0.15, linewidth=0)
        opening = "no eye, one level" if eye.opening is None else f"opening {eye.opening:.2f}"
        # names of classes come from the network's card
        panel.set_title(f"{eye.name}: {opening}", fontsize=9, parse_math=False)
        panel.set_xlim(-0.5, 1.5)
        panel.set_xticks([-0.5, 0.0, 0.5, 1.0, 1.5])
        panel.set_xlabel("time / symbol", fontsize=8)
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_ylabel(axis_label(eye.name), fontsize=8)
        if eye.name.startswith("class "):
            # a class is read where it leads
            panel.axhline(0.0, color="#444c54", linewidth=0.8, linestyle=":")
    for panel in axes[len(shown) :]:
        panel.set_visible(False)
    rate, power = format_si(noise.symbol_rate_bd, "Bd"), light_text(noise.laser_w, oscillator_w)
    figure.suptitle(f"{name} at {rate}, {power}; readings are means over the shaded windows", fontsize=10)
    return png_bytes(figure, 120)


WIDE, HIGH = 8 * SAMPLES, 96
"""Columns and rows of a density: eight columns for each half of a sample of two symbols."""
MARGIN = 0.05
"""Part of the range of values that is drawn beyond it."""


@dataclass(frozen=True, eq=False)
class RateEyes:
    """Eye diagrams, at least one, of all rows of hidden layers and all outputs, and the noise model with the rate."""

    eyes: Sequence[Eye]
    noise: Noise


def eye_rows(eyes: Sequence[Eye]) -> list[tuple[str, str, str]]:
    """Return signal, opening and deviation of the eyes that are shown, as text."""
    return [(eye.name, *eye_texts(eye)) for eye in worst_eyes(eyes)]


def eyes_text(eyes: Sequence[Eye], window: float) -> str:
    """Return the densities of the eyes that are shown for the page's script.

    ``window`` is the part of a symbol over which a reading is averaged, which ends with the symbol.
    """
    return packed_json({"window": window, "eyes": [eye_density(eye) for eye in worst_eyes(eyes)]})


def eye_density(eye: Eye) -> dict[str, Any]:
    """Return how many traces pass each place of a diagram of two symbols, from the middle of the one before.

    ``counts`` are those of the cells of a grid of ``wide`` × ``high_cells``, row by row from the highest value; ``low``
    and ``high`` are the values at its edges.
    """
    starts = SAMPLES // 2 - 1 + SAMPLES * np.arange(len(eye.readings) - 3)
    traces = eye.instants[starts[:, np.newaxis] + np.arange(2 * SAMPLES + 1)]
    low, high = float(traces.min()), float(traces.max())
    margin = MARGIN * (high - low) or 1.0
    low, high = low - margin, high + margin
    # between two instants, a trace is a straight line
    at = (np.arange(WIDE) + 0.5) * (2 * SAMPLES / WIDE)
    before, share = np.floor(at).astype(np.int64), at % 1.0
    values: Floats = traces[:, before] * (1.0 - share) + traces[:, before + 1] * share
    row = np.clip(((high - values) / (high - low) * HIGH).astype(np.int64), 0, HIGH - 1)
    cells = row * WIDE + np.arange(WIDE)
    counts = np.bincount(cells.ravel(), minlength=HIGH * WIDE)
    return {
        "name": eye.name,
        "low": round(low, 6),
        "high": round(high, 6),
        "wide": WIDE,
        "high_cells": HIGH,
        "counts": counts.tolist(),
    }
