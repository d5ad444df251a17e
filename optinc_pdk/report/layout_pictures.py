"""Pictures of a layout as PNG, drawn by KLayout: of all of it, of windows, and of a layer, a mesh and an MZI.

The last three are found from the positions of heaters alone. The heaters of a mesh stand in columns that alternate
between φ and θ with one period from MZI to MZI. The run of such columns with the most heaters is taken as the mesh;
heaters near to it in the same rows belong to its layer. Names of cells and labels are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import klayout.db as kdb
import klayout.lay as lay
import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.extract.layout_reader import check_layers, read_checked, read_layout
from optinc_pdk.io.file_sets import write_files

WIDTH_PX = 1800
BACKGROUND = "#0e1318"
# in the order of drawing, the last on top: guides and heaters are much thinner than the metal
COLORS: Mapping[str, str] = {
    "outline": "#5d6b78",
    "blackbox": "#8c6bb1",
    "coupled": "#3a4654",
    "slab": "#1d2f40",
    "metal": "#8a6a1f",
    "bump": "#7d5ba6",
    "core": "#63b3f5",
    "holes": "#0e1318",
    "etch70": "#2f6fb0",
    "heater": "#ff5148",
    "label": "#e8edf2",
}
HOLLOW = ("outline", "blackbox", "coupled", "label", "mark")
"""Layers of which only outlines are drawn."""
_SOLID, _HOLLOW = 0, 1
_WIDE_PX = 4
"""Width of wide contours, in pixels of the picture that is averaged to half its size."""


def _top_box(layout: kdb.Layout) -> kdb.DBox:
    box = kdb.DBox()
    for cell in layout.top_cells():
        box += cell.dbbox()
    if box.empty():
        raise ValueError("gds_path: the layout is empty, there is nothing to draw; was it written to its end?")
    return box


def whole_window(layout: kdb.Layout) -> kdb.DBox:
    """Return the part of a layout that a picture of all of it shows: everything with a margin, in µm.

    Raises:
        ValueError: The layout is empty.
    """
    everything = _top_box(layout)
    # labels alone may have no width
    margin = 0.01 * everything.width() or 1.0
    return everything.enlarged(margin, margin)


def _add_layer(view: lay.LayoutView, name: str, layer: tuple[int, int], color: str, contour_px: int) -> None:
    properties = lay.LayerPropertiesNode()
    properties.source = f"{layer[0]}/{layer[1]}@1"
    properties.name = name
    properties.fill_color = properties.frame_color = int(color.removeprefix("#"), 16)
    properties.dither_pattern = _HOLLOW if name in HOLLOW else _SOLID
    properties.width = contour_px
    view.insert_layer(view.end_layers(), properties)


def layout_png(
    gds_path: str | PathLike[str],
    layers: Mapping[str, tuple[int, int]],
    colors: Mapping[str, str] = COLORS,
    window_um: tuple[float, float, float, float] | None = None,
    width_px: int = WIDTH_PX,
) -> bytes:
    """Draw a layout, GDS or OASIS, with all levels of its hierarchy, as PNG; labels only if a window is given.

    Args:
        gds_path: Layout file.
        layers: GDS layer and datatype by layer name; layers without a colour are not drawn.
        colors: Colour as `#rrggbb` by layer name, in drawing order, so the last layer is on top.
        window_um: Left, bottom, right and top of the part to draw, in µm; None for the whole layout.
        width_px: Width of the picture in pixels; the height follows from the window.

    Raises:
        ValueError: The file can't be read, is empty, or the window has no area.
    """
    return next(draw_windows(read_checked(gds_path), layers, colors, [window_um], width_px))


def draw_windows(
    layout: kdb.Layout,
    layers: Mapping[str, tuple[int, int]],
    colors: Mapping[str, str],
    windows_um: Sequence[tuple[float, float, float, float] | None],
    width_px: int = WIDTH_PX,
    wide: Collection[str] = (),
) -> Iterator[bytes]:
    """Draw several windows of a layout as PNG, one after another; arguments as for `layout_png`.

    KLayout's view takes ownership of the layout: the layout is deleted together with the iterator. Layers of names in
    ``wide`` have wide contours, so that shapes much smaller than a pixel are seen.

    Raises:
        ValueError: The layout is empty, or a window has no area.
    """
    everything = whole_window(layout)
    view = lay.LayoutView()
    for key, value in {
        "background-color": BACKGROUND,
        "grid-visible": "false",
        "text-color": colors.get("label", "auto"),
    }.items():
        view.set_config(key, value)
    view.show_layout(layout, False)
    view.max_hier()
    view.clear_layers()
    for name, color in colors.items():
        if name in layers:
            _add_layer(view, name, layers[name], color, _WIDE_PX if name in wide else 1)
    for window_um in windows_um:
        box = everything if window_um is None else kdb.DBox(*window_um)
        if box.empty() or not (box.width() > 0 and box.height() > 0):
            raise ValueError(f"window_um: {window_um} has no area; give left < right and bottom < top in µm")
        # text has a fixed size in pixels: in a picture of the whole die it would cover the pads
        view.set_config("text-visible", "false" if window_um is None else "true")
        height = min(max(round(width_px * box.height() / box.width()), 1), 4 * width_px)
        # drawn at twice the resolution and averaged, so that guides thinner than a pixel stay visible
        yield bytes(view.get_pixels_with_options(width_px, height, 1, 2, 1.0, box).to_png_data())


def detail_window(
    gds_path: str | PathLike[str], layer: tuple[int, int], width_um: float, height_um: float
) -> tuple[float, float, float, float]:
    """Return a window, for `layout_png`, around the shape of a GDS layer that is nearest to the middle of the layout.

    Raises:
        ValueError: The file can't be read, or has nothing on this layer.
    """
    layout = read_checked(gds_path)
    middle = _top_box(layout).center()
    centers: list[kdb.DPoint] = []
    for cell in layout.top_cells():
        found = cell.begin_shapes_rec(layout.layer(*layer))
        while not found.at_end():
            centers.append((found.dtrans() * found.shape().dbbox()).center())
            found.next()
    if not centers:
        raise ValueError(f"layer: {gds_path} has nothing on {layer[0]}/{layer[1]}; name one that is drawn")
    center = min(centers, key=lambda point: (point.sq_distance(middle), point.x, point.y))
    half_width, half_height = width_um / 2, height_um / 2
    return center.x - half_width, center.y - half_height, center.x + half_width, center.y + half_height


PICTURES = ("chip", "layer", "mesh", "mzi")


def write_pictures(
    gds: Path, process: Process, directory: Path, on_picture: Callable[[str], None] | None = None
) -> tuple[Path, ...]:
    """Write pictures of a chip and, if it has meshes, of one layer, one mesh and one MZI, as PNG.

    The paths are ``<stem>.chip.png`` and so on; only that of the chip if no two heaters are side by side.
    ``on_picture`` is called with the name of each picture, one of ``PICTURES``, before it is drawn.

    Raises:
        InputError: The layout cannot be read, is empty, or was drawn for another process.
    """
    layout, top = read_layout(gds)
    if top.bbox().empty():
        raise InputError(f"{gds}: the layout is empty, there is nothing to draw; was it written to its end?")
    check_layers(layout, process.gds_layers, gds)
    windows = find_windows(heater_boxes(layout, process.gds_layers["heater"]))
    views = (None,) if windows is None else (None, windows.layer, windows.mesh, windows.mzi)
    drawn = draw_windows(layout, process.gds_layers, picture_colors(process), views)
    pictures = {}
    for name in PICTURES[: len(views)]:
        if on_picture is not None:
            on_picture(name)
        pictures[directory / f"{gds.stem}.{name}.png"] = next(drawn)
    write_files(pictures)
    return tuple(pictures)


def picture_colors(process: Process) -> dict[str, str]:
    """Return colours by layer name, in drawing order.

    Layers without an entry in ``COLORS`` have the colour of the process card and are drawn first, below the others.
    """
    return {name: layer.color for name, layer in process.layers.items() if name not in COLORS} | dict(COLORS)


Window = tuple[float, float, float, float]

SAME_UM = 1.0
"""Distances that differ by less are taken as equal: cells are placed on a grid."""

NEAR_ROWS = 2.5
"""Largest distance of rows that belong together, in units of the usual distance of two heaters of a column."""


@dataclass(frozen=True)
class PictureWindows:
    """Windows around one layer, one mesh and one MZI: left, bottom, right and top in µm."""

    layer: Window
    mesh: Window
    mzi: Window


@dataclass(frozen=True, eq=False)
class _Columns:
    """C columns of heaters: (C,) centre x, lowest y and highest y, and the indices of the heaters of each."""

    x: Floats
    low: Floats
    high: Floats
    members: tuple[Ints, ...]


def heater_boxes(layout: kdb.Layout, layer: tuple[int, int]) -> Floats:
    """Return the (heaters, 4) bounding boxes of the merged shapes of a heater layer, over the whole hierarchy.

    They are left, bottom, right and top in µm, sorted.
    """
    region = kdb.Region()
    for cell in layout.top_cells():
        region.insert(cell.begin_shapes_rec(layout.layer(*layer)))
    boxes = [(box.left, box.bottom, box.right, box.top) for box in (p.bbox() for p in region.each_merged())]
    return np.array(sorted(boxes), np.float64).reshape(-1, 4) * layout.dbu


def find_windows(boxes: Floats) -> PictureWindows | None:
    """Find windows around a layer, a mesh and an MZI from the (heaters, 4) boxes of the heaters in µm.

    None if no two heaters are side by side.
    """
    if len(boxes) < 2:
        return None
    centre = np.stack([boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]], axis=1) / 2
    length = float(np.median(boxes[:, 2] - boxes[:, 0]))
    columns, row = _columns(centre, length)
    run, period = _longest_run(columns, row)
    if len(run) < 2:
        return None
    mesh = np.concatenate([columns.members[i] for i in run])
    pair = boxes[list(_mzi(columns, run, centre))]
    layer = _grown(_around(boxes[mesh]), boxes, period + length, NEAR_ROWS * row)
    return PictureWindows(
        layer=_wider(layer, 2.0 * length, 2.0 * row),
        mesh=_wider(_around(boxes[mesh]), 1.5 * length, row),
        mzi=_wider(_around(pair), 1.5 * length, 0.8 * row),
    )


def _columns(centre: Floats, length: float) -> tuple[_Columns, float]:
    """Group heaters into columns, separate for each strip; also the usual distance of two heaters in a column."""
    order = np.lexsort((centre[:, 1], np.rint(centre[:, 0] / SAME_UM)))
    place = np.rint(centre[order, 0] / SAME_UM)
    gap = np.diff(centre[order, 1])
    same = np.diff(place) == 0
    # a low quantile, because heaters of different strips may stand above one another; at most two heater lengths
    row = min(float(np.quantile(gap[same], 0.1)), 2.0 * length) if same.any() else length
    starts = np.flatnonzero(~same | (gap > NEAR_ROWS * row)) + 1
    members = tuple(np.split(order, starts))
    x = np.array([centre[group, 0].mean() for group in members])
    low = np.array([centre[group, 1].min() for group in members])
    high = np.array([centre[group, 1].max() for group in members])
    return _Columns(x, low, high, members), row


def _longest_run(columns: _Columns, row: float) -> tuple[list[int], float]:
    """The columns of the mesh with the most heaters, from left to right, and the distance of two MZIs."""
    following = [_following(columns, i, row) for i in range(len(columns.x))]
    best: tuple[int, list[int], float] = (0, [], 0.0)
    for start in range(len(columns.x)):
        run, period = _run(columns, following, start)
        heaters = sum(len(columns.members[i]) for i in run)
        if heaters > best[0]:
            best = (heaters, run, period)
    return best[1], best[2]


def _following(columns: _Columns, index: int, row: float) -> int | None:
    """The next column to the right in the same rows."""
    right = columns.x > columns.x[index] + SAME_UM
    level = (columns.low <= columns.high[index] + 1.5 * row) & (columns.high >= columns.low[index] - 1.5 * row)
    candidates = np.flatnonzero(right & level)
    return int(candidates[np.argmin(columns.x[candidates])]) if candidates.size else None


def _run(columns: _Columns, following: list[int | None], start: int) -> tuple[list[int], float]:
    """The run of columns from ``start`` in which every second column has the same distance, and that distance."""
    run, period = [start], 0.0
    while (after := following[run[-1]]) is not None:
        step = float(columns.x[after] - columns.x[run[-2]]) if len(run) > 1 else 0.0
        if len(run) == 2:
            period = step
        if len(run) > 2 and abs(step - period) > SAME_UM:
            break
        run.append(after)
    return run, period or float(columns.x[run[-1]] - columns.x[run[0]])


def _mzi(columns: _Columns, run: list[int], centre: Floats) -> tuple[int, int]:
    """Two heaters of one MZI in the middle of a run: in neighbouring columns, with the smallest offset in y, then x."""
    middle = len(run) // 2
    column = columns.members[run[middle]]
    heater = int(column[len(column) // 2])
    near = np.concatenate([columns.members[run[i]] for i in (middle - 1, middle + 1) if 0 <= i < len(run)])
    offset = np.abs(centre[near] - centre[heater])
    level = np.rint(offset[:, 1] / SAME_UM)
    return heater, int(near[np.lexsort((offset[:, 0], level))[0]])


def _grown(box: Floats, boxes: Floats, reach: float, row: float) -> Floats:
    """Grow a box by the heaters near to its left and right, until no more are found."""
    while True:
        side = (boxes[:, 0] <= box[2] + reach) & (boxes[:, 2] >= box[0] - reach)
        level = (boxes[:, 1] <= box[3] + row) & (boxes[:, 3] >= box[1] - row)
        larger = _around(boxes[side & level])
        if np.array_equal(larger, box):
            return box
        box = larger


def _around(boxes: Floats) -> Floats:
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])


def _wider(box: Floats, x: float, y: float) -> Window:
    left, bottom, right, top = box.tolist()
    return left - x, bottom - y, right + x, top + y
