"""Pictures of a layout as PNG, drawn by KLayout."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from os import PathLike

import klayout.db as kdb
import klayout.lay as lay

from optinc_pdk.extract.layout_reader import read_checked

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

    Args:
        layout: The layout.

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
    """Draw a layout, with all levels of its hierarchy, as PNG.

    Labels are drawn only if a window is given.

    Args:
        gds_path: GDS or OASIS file.
        layers: GDS layer and datatype by layer name; layers without a colour are not drawn.
        colors: Colour as `#rrggbb` by layer name, in drawing order, so the last layer is on top.
        window_um: Left, bottom, right and top of the part to draw, in µm; None for the whole layout.
        width_px: Width of the picture in pixels; the height follows from the window.

    Returns:
        Content of the PNG file.

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
    """Draw several windows of a layout as PNG, one after another.

    KLayout's view takes ownership of the layout: the layout is deleted together with the iterator.

    Args:
        layout: The layout.
        layers: GDS layer and datatype by layer name, as for `layout_png`.
        colors: Colours by layer name in drawing order, as for `layout_png`.
        windows_um: Left, bottom, right and top of each window in µm; None for the whole layout.
        width_px: Width of every picture in pixels.
        wide: Names of layers with wide contours, so that shapes much smaller than a pixel are seen.

    Yields:
        Content of the PNG file of each window.

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
    """Return a window around the shape of a layer that is nearest to the middle of the layout.

    Args:
        gds_path: GDS or OASIS file.
        layer: GDS layer and datatype.
        width_um: Width of the window in µm.
        height_um: Height of the window in µm.

    Returns:
        Left, bottom, right and top in µm, for `layout_png`.

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
