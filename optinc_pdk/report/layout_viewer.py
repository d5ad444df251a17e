"""Show a layout: in the KLayout application, as the report page in a browser, or as pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path

import klayout.lay as lay

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.extract.layout_reader import check_layers, read_layout
from optinc_pdk.io.file_sets import write_files
from optinc_pdk.io.reading import real_path
from optinc_pdk.io.writing import saved_bytes, write_atomic
from optinc_pdk.report.layout_pictures import COLORS, draw_windows
from optinc_pdk.report.picture_windows import find_windows, heater_boxes

PICTURES = ("chip", "layer", "mesh", "mzi")
HEADLESS_PLATFORMS = ("offscreen", "minimal")


def klayout_application(environment: Mapping[str, str] | None = None) -> str | None:
    """Find the KLayout application.

    Args:
        environment: Environment variables; None for those of this process.

    Returns:
        Path of the executable; None if it is not installed or there is no display.
    """
    variables = os.environ if environment is None else environment
    return shutil.which("klayout", path=variables.get("PATH")) if _has_display(variables) else None


def open_page(page: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Open a page in the browser of the display.

    Args:
        page: HTML file.
        environment: Environment variables; None for those of this process.

    Returns:
        Whether there is a display and a browser that could be started.
    """
    # without a display, a browser of the terminal would be started, which cannot show layouts
    return _has_display(os.environ if environment is None else environment) and webbrowser.open(
        real_path(page).as_uri()
    )


def _has_display(environment: Mapping[str, str]) -> bool:
    display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    return bool(display) and environment.get("QT_QPA_PLATFORM") not in HEADLESS_PLATFORMS


def layer_properties(process: Process) -> bytes:
    """Return the layers of a process with names and colours as a KLayout layer properties file (.lyp)."""
    view = lay.LayoutView()
    for name, layer in process.layers.items():
        node = lay.LayerPropertiesNode()
        node.source = f"{layer.gds[0]}/{layer.gds[1]}@1"
        node.name = f"{name}: {layer.text}"
        node.fill_color = node.frame_color = int(layer.color.removeprefix("#"), 16)
        view.insert_layer(view.end_layers(), node)
    return saved_bytes(view.save_layer_props)


def open_klayout(application: str, gds: Path, process: Process, directory: Path) -> Path:
    """Open a layout in the KLayout application and wait until the application is closed.

    Args:
        application: Path of the application.
        gds: Layout, GDS2 or OASIS.
        process: Process card with layers and colours.
        directory: Folder in which the layer properties file is written.

    Returns:
        Path of the layer properties file, .lyp.

    Raises:
        InputError: The layout cannot be read or was drawn for another process, or the application fails.
    """
    check_layers(read_layout(gds)[0], process.gds_layers, gds)
    properties = directory / f"{gds.stem}.lyp"
    write_atomic(properties, layer_properties(process))
    done = subprocess.run([application, "-l", str(properties), str(gds)], check=False)
    if done.returncode:
        raise InputError(f"{application} ended with {done.returncode} on {gds}; give --png to write pictures instead")
    return properties


def write_pictures(
    gds: Path, process: Process, directory: Path, on_picture: Callable[[str], None] | None = None
) -> tuple[Path, ...]:
    """Write pictures of a chip and, if it has meshes, of one layer, one mesh and one MZI, as PNG.

    Args:
        gds: Layout, GDS2 or OASIS.
        process: Process card with layers and colours.
        directory: Folder for ``<stem>.chip.png`` and the other pictures.
        on_picture: Called with the name of each picture, one of ``PICTURES``, before it is drawn.

    Returns:
        Paths of the pictures; only that of the chip if no two heaters are side by side.

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
