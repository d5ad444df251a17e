"""Packaging drawing of a chip as SVG: outlines of its dies with pads, bumps and fibres on sheets of format A3.

Places on a sheet are in mm.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from scipy.spatial import cKDTree

from optinc_pdk.cards import Process
from optinc_pdk.report._label_placement import (
    NOWHERE,
    Box,
    OccupiedPlaces,
    boxes_around,
    leader_points,
    spread_positions,
)
from optinc_pdk.report.pinout import EDGES, FIBRE, Pin, Pinout
from optinc_pdk.report.rendering import figure_bytes

SHEET_MM = (420.0, 297.0)
"""Format A3."""
FIELD: Box = (10.0, 25.0, 410.0, 275.0)
"""Part of the sheet for the die and, below it, for a table; the title is above it and the legend below."""
SIZES_PT = (6.0, 5.0, 4.0)
"""Sizes of labels; those of an edge have the largest at which there is room."""
INNER_PT = 5.0
"""Size of labels within a die and in the table."""
INK, SOFT = "#20262c", "#8a9199"
COLOURS = {
    "heater": "#e0a526",
    "ground": "#8a9199",
    "photodiode": "#8c6bb1",
    "modulator": "#3f8f5f",
    FIBRE: "#2f6fb0",
    "other": "#f4f6f8",
}
"""Colour of pads and bumps by function, and of fibres."""
MOST_LETTERS = 24
"""Longest label that is drawn in full."""
TABLE_MM = 14.0
"""Least height of the table."""
LEADER_MM = 6.0
"""Distance of labels from the edge of a die."""
_LETTERS = {"pad": "P", "bump": "B", FIBRE: "F"}
_MM_PER_PT = 25.4 / 72
# width of a character of a monospaced font, and distance of lines, in ems
_ADVANCE, _LINE = 0.61, 1.15
# room for the dimensions beyond the labels
_DIMENSION_MM = 8.0
_FACET_UM = 1.0


def write_text(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write a text as it is, in the monospaced font that :func:`text_mm` assumes."""
    axes.text(x, y, text, family="monospace", parse_math=False, **style)


def text_mm(text: str, size_pt: float) -> float:
    """Return the width of a text."""
    return len(text) * size_pt * _MM_PER_PT * _ADVANCE


def line_mm(size_pt: float) -> float:
    """Return the distance of lines of text."""
    return size_pt * _MM_PER_PT * _LINE


def pin_number(pin: Pin) -> str:
    """Return letter and number of a pin."""
    return f"{_LETTERS[pin.kind]}{pin.number}"


def pin_text(pin: Pin) -> str:
    """Return letter, number and label of a pin; a long label is cut off."""
    label = "".join(letter if letter.isprintable() else "?" for letter in pin.label)
    return f"{pin_number(pin)} {label if len(label) <= MOST_LETTERS else f'{label[: MOST_LETTERS - 1]}…'}".rstrip()


def pin_group(pin: Pin) -> str:
    """Return the key of a pin's colour."""
    group = FIBRE if pin.kind == FIBRE else pin.function
    return group if group in COLOURS else "other"


def outer_edge(pin: Pin, pinout: Pinout) -> str:
    """Return the edge outside which a pin is labelled; empty for bumps, and for fibres in the middle of a die."""
    if pin.die is None or not pin.edge or pin.kind != FIBRE:
        return pin.edge
    left, bottom, right, top = pinout.dies[pin.die - 1]
    away = {"left": pin.x_um - left, "bottom": pin.y_um - bottom, "right": right - pin.x_um, "top": top - pin.y_um}
    return pin.edge if away[pin.edge] <= _FACET_UM else ""


@dataclass(frozen=True)
class DieView:
    """Place of a die on the sheet.

    Attributes:
        die: Outline of the die in µm.
        mm_per_um: Scale.
        box: Outline of the die on the sheet.
        cell: Part of the sheet for the die, its labels and dimensions.
    """

    die: Box
    mm_per_um: float
    box: Box
    cell: Box

    def at(self, x_um: float, y_um: float) -> tuple[float, float]:
        """Return the place on the sheet of a position in the layout."""
        return self.box[0] + (x_um - self.die[0]) * self.mm_per_um, self.box[1] + (y_um - self.die[1]) * self.mm_per_um


def die_view(pinout: Pinout, number: int) -> DieView:
    """Place a die, by its number from 1, on its sheet, at the largest scale at which its labels have room."""
    die = pinout.dies[number - 1]
    edges = [(outer_edge(pin, pinout), pin_text(pin)) for pin in pinout.pins if pin.die == number]
    x, y = (_margin(text for edge, text in edges if edge in sides) for sides in (("left", "right"), ("bottom", "top")))
    width, height = die[2] - die[0], die[3] - die[1]
    across, down = FIELD[2] - FIELD[0] - 2 * x, FIELD[3] - FIELD[1] - 2 * y - TABLE_MM
    scale = min(across / width, down / height)
    middle = (FIELD[0] + FIELD[2]) / 2
    left, top = middle - width * scale / 2, FIELD[3] - y
    box = (left, top - height * scale, left + width * scale, top)
    return DieView(die, scale, box, (box[0] - x, box[1] - y, box[2] + x, FIELD[3]))


def _margin(texts: Iterable[str]) -> float:
    """Return the room that labels and dimensions beside a die need."""
    return LEADER_MM + max((text_mm(text, SIZES_PT[0]) for text in texts), default=0.0) + _DIMENSION_MM


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
    """List pins that the drawing does not label below the die; returns a note on pins for which there is no room."""
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


MOST_INNER_LABELS = 1000
"""Pins within one die that are labelled; the drawing states how many are not."""
MOST_FAR_LABELS = 400
"""Pins within one die up to which labels without room beside their pins are placed farther away."""
FAR_MM = (2.5, 4.0, 6.0, 9.0, 13.0)
"""Distances of these labels from their pins."""
_TURNS = {"right": 0, "top": 1, "left": 2, "bottom": 3}
_ALIGNMENT = {
    "left": ("right", "center"),
    "bottom": ("center", "top"),
    "right": ("left", "center"),
    "top": ("center", "bottom"),
}

Line = list[tuple[float, float]]


def pinout_svg(pinout: Pinout, process: Process) -> bytes:
    """Draw a pinout for packaging; texts are text, so that labels can be searched for.

    Every die has a sheet, one below the other. Pins at an edge of the die are labelled outside it, the others beside
    their symbols. Where a label has no room, the drawing has the number of the pin, and a table below it the label. The
    sheet states how many pins have no number, and how many labels have no room in the table.
    """
    sheets = max(len(pinout.dies), 1)
    figure = Figure(figsize=(SHEET_MM[0] / 25.4, SHEET_MM[1] * sheets / 25.4), facecolor="white")
    for number in range(1, sheets + 1):
        place = (0.0, 1.0 - number / sheets, 1.0, 1.0 / sheets)
        axes = figure.add_axes(place, xlim=(0.0, SHEET_MM[0]), ylim=(0.0, SHEET_MM[1]))
        axes.set_axis_off()
        _draw_sheet(axes, number, pinout, process)
    return figure_bytes(figure, "svg", f"{pinout.name}: pinout")


@dataclass(frozen=True)
class _Drawing:
    """Drawing of a die.

    Attributes:
        axes: The sheet.
        view: Place of the die.
        pins: Pins of the die.
        lines: Lines that are drawn together.
        notes: What is not labelled.
        numbered: Labelled pins of which the drawing has the number only, or nothing.
    """

    axes: Axes
    view: DieView
    pins: Sequence[Pin]
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    numbered: list[Pin] = field(default_factory=list)


def _draw_sheet(axes: Axes, number: int, pinout: Pinout, process: Process) -> None:
    """Draw the sheet of a die, or an empty one if there is none."""
    pins = [pin for pin in pinout.pins if pin.die == number]
    name = f"{pinout.name}: pinout" + (f", die {number} of {len(pinout.dies)}" if len(pinout.dies) > 1 else "")
    draw_title(axes, name, pins, process)
    notes = [f"All pins are in {pinout.name}.pinout.csv"]
    if outside := sum(pin.die is None for pin in pinout.pins):
        notes.append(f"{outside:,} pins are outside all dies")
    view = die_view(pinout, number) if pinout.dies else None
    if view is not None:
        drawn = _Drawing(axes, view, pins)
        _draw_die(drawn, pinout, process)
        notes += [*drawn.notes, *draw_table(axes, view, drawn.numbered)]
    draw_legend(axes, pins, view, notes)


def _draw_die(drawn: _Drawing, pinout: Pinout, process: Process) -> None:
    """Draw a die with its pins."""
    axes, view = drawn.axes, drawn.view
    left, bottom, right, top = view.box
    outline = [(left, bottom), (right, bottom), (right, top), (left, top)]
    symbols = [_symbol(pin, view, process) for pin in drawn.pins]
    occupied = OccupiedPlaces(view.box, [_around(symbol) for symbol in symbols])
    _draw_dimensions(drawn)
    for edge in EDGES:
        _label_edge(drawn, edge, [pin for pin in drawn.pins if outer_edge(pin, pinout) == edge])
    _draw_pitches(drawn, occupied)
    _label_inside(drawn, [pin for pin in drawn.pins if not outer_edge(pin, pinout)], occupied)
    axes.add_collection(PolyCollection([outline], facecolors="white", edgecolors=INK, linewidths=0.6, zorder=1))
    axes.add_collection(LineCollection(drawn.lines, colors=SOFT, linewidths=0.35, zorder=2))
    of_group: dict[str, list[Line]] = {}
    for pin, symbol in zip(drawn.pins, symbols, strict=True):
        of_group.setdefault(pin_group(pin), []).append(symbol)
    for group, shapes in of_group.items():
        # thousands of symbols are one path, in the file too
        axes.add_artist(PathPatch(_outlines(shapes), facecolor=COLOURS[group], edgecolor=INK, linewidth=0.3, zorder=3))


def _symbol(pin: Pin, view: DieView, process: Process) -> Line:
    """Return the corners of a pin's symbol: a square, an octagon, or a triangle that points where light leaves."""
    x, y = view.at(pin.x_um, pin.y_um)
    if pin.kind == FIBRE:
        angle = math.pi / 2 * _TURNS.get(pin.edge, 0)
        cos, sin, size = math.cos(angle), math.sin(angle), max(0.7, min(1.4, 60.0 * view.mm_per_um))
        corners = ((0.0, 0.0), (-size, 0.45 * size), (-size, -0.45 * size))
        return [(x + u * cos - v * sin, y + u * sin + v * cos) for u, v in corners]
    bump = pin.kind == "bump"
    width = process.device(pin.kind).size("opening_um") if bump else float(process.pads.size_um)
    half = max(width * view.mm_per_um, 0.3) / 2
    cut = half * math.tan(math.pi / 8) if bump else half
    corner = [
        (half, -cut),
        (half, cut),
        (cut, half),
        (-cut, half),
        (-half, cut),
        (-half, -cut),
        (-cut, -half),
        (cut, -half),
    ]
    return [(x + u, y + v) for u, v in (corner if bump else corner[1::2])]


def _outlines(shapes: Sequence[Line]) -> Path:
    """Return closed polygons as one path."""
    corners = [corner for shape in shapes for corner in (*shape, shape[0])]
    codes = [code for shape in shapes for code in (Path.MOVETO, *[Path.LINETO] * (len(shape) - 1), Path.CLOSEPOLY)]
    return Path(corners, codes)


def _around(points: Line) -> Box:
    xs, ys = zip(*points, strict=True)
    return min(xs), min(ys), max(xs), max(ys)


def _label_edge(drawn: _Drawing, edge: str, pins: Sequence[Pin]) -> None:
    """Write the labels of the pins at an edge outside it, with a line to each."""
    view, upright = drawn.view, edge in ("left", "right")
    along = 1 if upright else 0
    low, high = view.cell[along] + 2.0, view.cell[along + 2] - 2.0
    size = next((size for size in SIZES_PT if len(pins) * line_mm(size) <= high - low), SIZES_PT[-1])
    every = max(math.ceil(len(pins) * line_mm(size) / (high - low)), 1)
    if every > 1:
        drawn.notes.append(f"{edge} edge: one of {every} pins is labelled")
    placed = sorted((view.at(pin.x_um, pin.y_um)[along], pin.number, pin) for pin in pins)[::every]
    places = spread_positions(np.array([at for at, *_ in placed]), line_mm(size), low, high).tolist()
    sign = 1.0 if edge in ("right", "top") else -1.0
    start = view.box[EDGES.index(edge)]
    horizontal, vertical = _ALIGNMENT[edge]
    for (at, _, pin), place in zip(placed, places, strict=True):
        foot = view.at(pin.x_um, pin.y_um)[1 - along]
        line = [(foot, at), (start + sign, at), (start + sign * (LEADER_MM - 1.0), place)]
        end = (start + sign * (LEADER_MM - 0.6), place)
        drawn.lines.append(line if upright else [(v, u) for u, v in line])
        write_text(
            drawn.axes,
            end[1 - along],
            end[along],
            pin_text(pin),
            fontsize=size,
            color=INK,
            ha=horizontal,
            va=vertical,
            rotation=0.0 if upright else 90.0,
        )


def _label_inside(drawn: _Drawing, pins: Sequence[Pin], occupied: OccupiedPlaces) -> None:
    """Write the labels of pins beside their symbols, farther away with a line, or their numbers without labels."""
    gap = 0.3 + max(16.0 * drawn.view.mm_per_um, 0.3)
    shown = pins[:MOST_INNER_LABELS]
    middles = [drawn.view.at(pin.x_um, pin.y_um) for pin in shown]
    # every pin has a number before any has a label
    texts, places = [""] * len(shown), range(len(occupied), len(occupied) + len(shown))
    occupied.add([NOWHERE] * len(shown))
    far = ((pin_text, FAR_MM), (pin_number, FAR_MM)) if len(shown) <= MOST_FAR_LABELS else ()
    for text_of, gaps in ((pin_number, (gap,)), (pin_text, (gap,)), *far):
        for i, (pin, at) in enumerate(zip(shown, middles, strict=True)):
            text = text_of(pin)
            if texts[i] in (text, pin_text(pin)):
                continue
            before, occupied[places[i]] = occupied[places[i]], NOWHERE
            size = text_mm(text, INNER_PT), line_mm(INNER_PT) * 0.9
            candidates = [box for away in gaps for box in boxes_around(at, away, *size, pin.edge or "right")]
            box = occupied.first_free(candidates, at if gaps == FAR_MM else None)
            occupied[places[i]] = box or before
            if box is None:
                continue
            texts[i] = text
            if gaps == FAR_MM:
                points = leader_points(at, box)
                drawn.lines.append([(float(x), float(y)) for x, y in points[[0, -1]]])
                occupied.add([(x - 0.1, y - 0.1, x + 0.1, y + 0.1) for x, y in points.tolist()])
    for pin, text, place in zip(shown, texts, places, strict=True):
        left, bottom, right, top = occupied[place]
        if text:
            at = (left + right) / 2, (bottom + top) / 2
            write_text(drawn.axes, *at, text, fontsize=INNER_PT, color=INK, ha="center", va="center_baseline")
        if pin.label and text != pin_text(pin):
            drawn.numbered.append(pin)
    if missing := len(pins) - sum(map(bool, texts)):
        drawn.notes.append(f"{missing:,} pins have no number here")


def _draw_pitches(drawn: _Drawing, occupied: OccupiedPlaces) -> None:
    """Draw the pitch of each array of fibres beside it, on the side of the die, where there is room."""
    for _, members in groupby((pin for pin in drawn.pins if pin.kind == FIBRE), lambda pin: pin.array):
        fibres = list(members)
        if len(fibres) < 2 or not fibres[0].edge:
            continue
        upright = fibres[0].edge in ("left", "right")
        inward = -1.0 if fibres[0].edge in ("right", "top") else 1.0
        ends = [drawn.view.at(pin.x_um, pin.y_um) for pin in (fibres[0], fibres[-1])]
        text = f"{len(fibres) - 1} × {pitch_text(fibres)}"
        width, height = text_mm(text, INNER_PT), line_mm(INNER_PT)
        across = ends[0][0 if upright else 1] + inward * 3.0
        low, high = sorted(end[1 if upright else 0] for end in ends)
        beside = across + inward * (0.8 + (width if upright else height) / 2), (low + high) / 2
        x, y = beside if upright else beside[::-1]
        bar = (across - 0.6, low, across + 0.6, high)
        boxes = [(x - width / 2, y - height / 2, x + width / 2, y + height / 2)]
        boxes.append(bar if upright else (low, bar[0], high, bar[2]))
        if any(occupied.first_free([box]) is None for box in boxes):
            continue
        occupied.add(boxes)
        lines = [[(across, low), (across, high)], *([(bar[0], end), (bar[2], end)] for end in (low, high))]
        drawn.lines.extend(line if upright else [(v, u) for u, v in line] for line in lines)
        write_text(drawn.axes, x, y, text, fontsize=INNER_PT, color=SOFT, ha="center", va="center_baseline")


def pitch_text(fibres: Sequence[Pin]) -> str:
    """Return the distance of neighbouring fibres of an array as text, or its range if it is not uniform."""
    distances = [math.hypot(b.x_um - a.x_um, b.y_um - a.y_um) for a, b in pairwise(fibres)]
    low, high = (f"{value:.1f}".removesuffix(".0") for value in (min(distances), max(distances)))
    return f"{low} µm" if low == high else f"{low} to {high} µm"


def _draw_dimensions(drawn: _Drawing) -> None:
    """Draw width and height of a die, and the coordinates of two of its corners."""
    axes, view = drawn.axes, drawn.view
    left, bottom, right, top = view.box
    width, height = (view.die[2] - view.die[0]) / 1e3, (view.die[3] - view.die[1]) / 1e3
    y, x = view.cell[1] + 3.0, view.cell[0] + 3.0
    drawn.lines.extend([[(left, y), (right, y)], *([(at, y - 1.0), (at, y + 1.0)] for at in (left, right))])
    drawn.lines.extend([[(x, bottom), (x, top)], *([(x - 1.0, at), (x + 1.0, at)] for at in (bottom, top))])
    white = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
    for at, text, turn in (
        (((left + right) / 2, y), f"{width:.3f} mm", 0.0),
        ((x, (bottom + top) / 2), f"{height:.3f} mm", 90.0),
    ):
        write_text(axes, *at, text, fontsize=7, color=INK, ha="center", va="center", rotation=turn, bbox=white)
    for at, (x_um, y_um), horizontal, vertical in (
        ((left, bottom - 0.8), view.die[:2], "left", "top"),
        ((right, top + 0.8), view.die[2:], "right", "bottom"),
    ):
        text = f"({x_um / 1e3:.3f}, {y_um / 1e3:.3f}) mm"
        write_text(axes, *at, text, fontsize=INNER_PT, color=SOFT, ha=horizontal, va=vertical)
