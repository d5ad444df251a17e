"""Title, table and legend of a packaging drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from scipy.spatial import cKDTree

from optinc_pdk.cards import Process
from optinc_pdk.report.pinout_views import (
    COLOURS,
    FIELD,
    INK,
    INNER_PT,
    DieView,
    line_mm,
    pin_group,
    pin_text,
    text_mm,
    write_text,
)
from optinc_pdk.report.pins import Pin

_BARS_UM = (10_000.0, 5_000.0, 2_000.0, 1_000.0, 500.0, 200.0, 100.0)
_BAR_MM = 60.0
_SIZE_PT = 7.0


def draw_title(axes: Axes, name: str, pins: Sequence[Pin], process: Process) -> None:
    """Write name, process, and number and least distance of pads, bumps and fibres above a die."""
    write_text(axes, FIELD[0], 287.0, name, fontsize=14, color=INK, va="center")
    parts = [f"process {process.name}"]
    for kind, count in sorted(Counter(pin.kind for pin in pins).items()):
        places = [(pin.x_um, pin.y_um) for pin in pins if pin.kind == kind]
        apart = f"s, at least {least_distance_um(places):.1f} µm apart" if count > 1 else ""
        parts.append(f"{count:,} {kind}{apart}")
    write_text(axes, FIELD[0], 279.5, "; ".join(parts), fontsize=8, color=INK, va="center")


def least_distance_um(places: Sequence[tuple[float, float]]) -> float:
    """Return the least distance between two of several places in µm."""
    points = np.array(places)
    distances, _ = cKDTree(points).query(points, k=2)
    return float(np.min(distances[:, 1]))


def draw_table(axes: Axes, view: DieView, pins: Sequence[Pin]) -> list[str]:
    """List pins that the drawing does not label below the die.

    Args:
        axes: The sheet.
        view: Place of the die.
        pins: Pins to list.

    Returns:
        A note on pins for which there is no room.
    """
    if not pins:
        return []
    texts = [pin_text(pin) for pin in pins]
    width = max(text_mm(f"{text}  ", INNER_PT) for text in texts)
    top, columns = view.cell[1] - 6.0, int((FIELD[2] - FIELD[0]) / width)
    shown = texts[: columns * max(int((top - FIELD[1]) / line_mm(INNER_PT)), 0)]
    rows = -(-len(shown) // columns)
    for column in range(-(-len(shown) // max(rows, 1))):
        lines = "\n".join(shown[column * rows : (column + 1) * rows])
        write_text(
            axes, FIELD[0] + column * width, top, lines, fontsize=INNER_PT, color=INK, va="top", linespacing=1.15
        )
    if shown:
        write_text(axes, FIELD[0], top + 1.0, "Not labelled above:", fontsize=_SIZE_PT, color=INK, va="bottom")
    missing = len(texts) - len(shown)
    return [f"{missing:,} labels have no room here"] if missing else []


def draw_legend(axes: Axes, pins: Sequence[Pin], view: DieView | None, notes: Sequence[str]) -> None:
    """Draw the colours, a scale bar and notes at the bottom of a sheet."""
    x = FIELD[0]
    for name, count in sorted(Counter(map(pin_group, pins)).items(), key=lambda one: list(COLOURS).index(one[0])):
        square = [(x, 19.0), (x + 3.0, 19.0), (x + 3.0, 22.0), (x, 22.0)]
        axes.add_collection(PolyCollection([square], facecolors=COLOURS[name], edgecolors=INK, linewidths=0.4))
        text = f"{name} ({count:,})"
        write_text(axes, x + 4.0, 20.5, text, fontsize=_SIZE_PT, color=INK, va="center")
        x += 10.0 + text_mm(text, _SIZE_PT)
    if view is not None:
        _draw_scale_bar(axes, view.mm_per_um)
    text = "Squares are pads, octagons bumps; triangles are fibres and point where light leaves the die. "
    write_text(axes, FIELD[0], 13.0, f"{text}{'; '.join(notes)}.", fontsize=_SIZE_PT, color=INK, va="center")


def _draw_scale_bar(axes: Axes, mm_per_um: float) -> None:
    length = next((um for um in _BARS_UM if um * mm_per_um <= _BAR_MM), _BARS_UM[-1])
    bar = [(FIELD[2] - length * mm_per_um, 20.5), (FIELD[2], 20.5)]
    ticks = [[(at, 19.5), (at, 21.5)] for at, _ in bar]
    axes.add_collection(LineCollection([bar, *ticks], colors=INK, linewidths=1.0))
    text = f"{length / 1e3:g} mm; scale {mm_per_um * 1e3:.1f} : 1 on A3"
    write_text(axes, FIELD[2], 17.0, text, fontsize=_SIZE_PT, color=INK, ha="right", va="center")
