"""Picture of the difference of two layouts: a whole top cell, and details of the places that differ."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import klayout.db as kdb
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.image import imread
from matplotlib.patches import Patch, Rectangle

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.extract.layout_reader import drawn_layers, read_cells
from optinc_pdk.io.writing import png_bytes
from optinc_pdk.report.layout_pictures import draw_windows, whole_window
from optinc_pdk.signoff.layout_difference import Label, LayoutDifference, TopDifference

MOST_DETAILS = 4
MOST_LABELS = 20
"""Labels that are written into a detail."""
MOST_MARKS = 1_000
"""Places that are marked in the picture of the whole layout."""
_WIDTH_IN = 11.0
ONLY_A, ONLY_B, BOTH = "#ff5148", "#39c6f0", "#59636e"
_MARK = "#ffe14d"
_MARK_SHARE = 0.008
"""Smallest size of the mark of a place, as a share of the layout's width."""
_GRID_UM = 0.001
_JOIN = 5_000
"""Polygons at most twice as far apart, in units of the grid, are one place."""
_LEAST_UM = 10.0
"""Smallest height of a detail."""
_ASPECT = 4 / 3
_SHARE = 0.7
"""Largest share of a detail that its place fills."""
_ENLARGED = 8.0
"""Smallest enlargement of a detail over the whole layout: of longer places, a detail shows a piece."""
_SIDES = ("only a", "only b")
"""Names of the layers of the difference in the picture."""
_HOLLOW = ("outline", "blackbox", "coupled")
"""Layers that the picture draws as contours, as other pictures do."""

Box = tuple[float, float, float, float]


def difference_png(path_a: Path, path_b: Path, difference: LayoutDifference, process: Process) -> bytes:
    """Draw two layouts as PNG: what only the first has, what only the second has, and what both have.

    Of several top cells, it shows :func:`drawn_top`. The names of the process's layers say which are drawn as contours.
    """
    top = drawn_top(difference)
    layout, layers, colors = _drawn(path_a, top, process)
    places = difference_places(top)
    box = whole_window(layout)
    whole = (box.left, box.bottom, box.right, box.top)
    corners = _corners(top)
    details = [detail_window(place, corners, whole) for place in places[:MOST_DETAILS]]
    pictures = list(draw_windows(layout, layers, colors, [None, *details], wide=_SIDES))
    return _composed(pictures, [whole, *details], places, top, (path_a.name, path_b.name))


def drawn_top(difference: LayoutDifference) -> TopDifference:
    """Return the top cell that the picture shows: the first one whose areas differ, else whose labels differ."""

    def order(top: TopDifference) -> tuple[bool, bool, bool]:
        return all(layer.equal for layer in top.layers), top.name_a is None, top.equal

    return min(difference.tops, key=order)


def _drawn(
    path_a: Path, difference: TopDifference, process: Process
) -> tuple[kdb.Layout, dict[str, tuple[int, int]], dict[str, str]]:
    """The first layout with the differences on layers of their own, and its layers and their colours by name."""
    layout = read_cells(path_a)
    top = layout.create_cell("difference")
    for cell in layout.top_cells():
        if cell.name == difference.name_a:
            top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans()))
        elif cell.cell_index() != top.cell_index():
            layout.prune_cell(cell.cell_index(), -1)
    pairs = sorted(drawn_layers(layout))
    names = {pair: name for name, pair in process.gds_layers.items() if name in _HOLLOW}
    layers = {names.get(pair, f"{pair[0]}/{pair[1]}"): pair for pair in pairs}
    colors = dict.fromkeys(sorted(layers, key=lambda name: name not in _HOLLOW), BOTH)
    free = max((number for number, _ in pairs), default=0) + 1
    for side, color, name in ((0, ONLY_A, _SIDES[0]), (1, ONLY_B, _SIDES[1])):
        layers[name], colors[name] = (free + side, 0), color
        shapes = top.shapes(layout.layer(free + side, 0))
        for layer in difference.layers:
            one = (layer.only_a, layer.only_b)[side]
            for polygon in one.polygons:
                shapes.insert(polygon.to_dtype(one.unit_um))
    return layout, layers, colors


def difference_places(difference: TopDifference) -> list[Box]:
    """Return the places of a top cell that differ as left, bottom, right and top in µm, the largest first.

    Polygons and labels that are close to each other are one place.
    """
    sides = [side for layer in difference.layers for side in (layer.only_a, layer.only_b)]
    labels = [(label.x_um, label.y_um) * 2 for label in (*difference.labels_a, *difference.labels_b)]
    boxes = np.concatenate([*(side.boxes_um() for side in sides), np.array(labels, float).reshape(-1, 4)])
    region = kdb.Region()
    for left, bottom, right, top in np.rint(boxes / _GRID_UM).astype(int).tolist():
        region.insert(kdb.Box(left, bottom, right, top).enlarged(_JOIN, _JOIN))
    merged = [polygon.bbox().enlarged(-_JOIN, -_JOIN) for polygon in region.merged().each()]
    ordered = sorted(merged, key=lambda box: (-box.width() - box.height(), box.left, box.bottom))
    return [(_GRID_UM * box.left, _GRID_UM * box.bottom, _GRID_UM * box.right, _GRID_UM * box.top) for box in ordered]


def detail_window(place: Box, corners: Floats, whole: Box) -> Box:
    """Return the part of the layout to draw around a place, of the shape that all details have.

    Of a place that is long compared to the whole layout, it is around one of the (n, 2) corners: those of all polygons
    that only one layout has, and places of labels. All are in µm.
    """
    left, bottom, right, top = place
    height = max((right - left) / _SHARE / _ASPECT, (top - bottom) / _SHARE, _LEAST_UM)
    most = max((whole[2] - whole[0]) / _ENLARGED / _ASPECT, _LEAST_UM)
    x, y = (left + right) / 2, (bottom + top) / 2
    if height > most:
        inside = (
            (corners >= (left - _GRID_UM, bottom - _GRID_UM)) & (corners <= (right + _GRID_UM, top + _GRID_UM))
        ).all(1)
        x, y = min(corners[inside].tolist())
        height = most
    return x - height * _ASPECT / 2, y - height / 2, x + height * _ASPECT / 2, y + height / 2


def _corners(difference: TopDifference) -> Floats:
    """Return the (n, 2) corners in µm of all polygons that only one layout has, and the places of labels."""
    sides = [side for layer in difference.layers for side in (layer.only_a, layer.only_b)]
    points = [
        (point.x * side.unit_um, point.y * side.unit_um)
        for side in sides
        for polygon in side.polygons
        for point in polygon.each_point_hull()
    ]
    points += [(label.x_um, label.y_um) for label in (*difference.labels_a, *difference.labels_b)]
    return np.array(points, float).reshape(-1, 2)


def _composed(
    pictures: Sequence[bytes],
    windows: Sequence[Box],
    places: Sequence[Box],
    difference: TopDifference,
    names: tuple[str, str],
) -> bytes:
    """Put the picture of the whole layout above those of the details, with axes in µm and a legend."""
    left, bottom, right, top = windows[0]
    height = min(max(_WIDTH_IN * (top - bottom) / (right - left), 2.0), _WIDTH_IN)
    ratios = [height, _WIDTH_IN / MOST_DETAILS / _ASPECT] if len(windows) > 1 else [height]
    figure = Figure(figsize=(_WIDTH_IN, sum(ratios) + 1.0), dpi=150, layout="constrained")
    grid = figure.add_gridspec(len(ratios), MOST_DETAILS, height_ratios=ratios)
    whole = figure.add_subplot(grid[0, :])
    _show(whole, pictures[0], windows[0])
    whole.set_title("both layouts, in µm", fontsize=8)
    _mark_places(whole, places, _MARK_SHARE * (right - left))
    for number, (picture, window) in enumerate(zip(pictures[1:], windows[1:], strict=True)):
        detail = figure.add_subplot(grid[1, number])
        _show(detail, picture, window)
        detail.set_title(f"place {number + 1}", fontsize=8)
        for labels, color in ((difference.labels_a, ONLY_A), (difference.labels_b, ONLY_B)):
            _write_labels(detail, labels, color, window)
    # a pair of dollar signs in the name of a file would be a formula
    texts = (*("only in " + name.replace("$", r"\$") for name in names), "in both")
    patches = [Patch(color=color, label=text) for color, text in zip((ONLY_A, ONLY_B, BOTH), texts, strict=True)]
    figure.legend(handles=patches, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    return png_bytes(figure)


def _mark_places(axes: Axes, places: Sequence[Box], least_um: float) -> None:
    """Draw a rectangle around each place, and the numbers of those that have a detail."""
    for number, (left, bottom, right, top) in enumerate(places[:MOST_MARKS], start=1):
        width, height = max(right - left, least_um), max(top - bottom, least_um)
        corner = ((left + right - width) / 2, (bottom + top - height) / 2)
        axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=_MARK, linewidth=0.8))
        if number <= MOST_DETAILS:
            axes.annotate(f"{number}", (corner[0] + width, corner[1] + height), color=_MARK, fontsize=7)


def _write_labels(axes: Axes, labels: Sequence[Label], color: str, window: Box) -> None:
    """Write the labels that are within a detail, with a dot at their place."""
    left, bottom, right, top = window
    letters = get_font(findfont(FontProperties())).get_charmap()
    inside = [label for label in labels if left <= label.x_um <= right and bottom <= label.y_um <= top]
    for label in inside[:MOST_LABELS]:
        axes.plot(label.x_um, label.y_um, ".", color=color, markersize=3)
        text = "".join(letter if ord(letter) in letters else "?" for letter in label.text)
        axes.annotate(text, (label.x_um, label.y_um), color=color, fontsize=7, clip_on=True, parse_math=False)


def _show(axes: Axes, picture: bytes, window: Box) -> None:
    left, bottom, right, top = window
    axes.imshow(imread(io.BytesIO(picture)), extent=(left, right, bottom, top), interpolation="antialiased")
    axes.tick_params(labelsize=6)
    axes.ticklabel_format(style="plain", useOffset=False)
