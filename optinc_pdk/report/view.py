"""A layout to look at: in KLayout where there is one, else as pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import klayout.lay as lay

from optinc_pdk.cards import Process
from optinc_pdk.extract.gds import read_layout
from optinc_pdk.files import InputError, saved_bytes, write_atomic
from optinc_pdk.report.layout_pictures import COLORS, pictures
from optinc_pdk.report.windows import find_windows, heater_boxes

PICTURES = ("chip", "layer", "mesh", "mzi")
WITHOUT_DISPLAY = ("offscreen", "minimal")


def klayout_application(environment: Mapping[str, str] | None = None) -> str | None:
    """KLayout's executable, where it is on the path and there is a display to open it on."""
    found = os.environ if environment is None else environment
    display = found.get("DISPLAY") or found.get("WAYLAND_DISPLAY")
    if not display or found.get("QT_QPA_PLATFORM") in WITHOUT_DISPLAY:
        return None
    return shutil.which("klayout", path=found.get("PATH"))


def layer_properties(process: Process) -> bytes:
    """The process's layers with their names and colours, as KLayout's layer properties (.lyp)."""
    view = lay.LayoutView()
    for name, layer in process.layers.items():
        node = lay.LayerPropertiesNode()
        node.source = f"{layer.gds[0]}/{layer.gds[1]}@1"
        node.name = f"{name}: {layer.text}"
        node.fill_color = node.frame_color = int(layer.color.removeprefix("#"), 16)
        view.insert_layer(view.end_layers(), node)
    return saved_bytes(view.save_layer_props)


def open_klayout(application: str, gds: Path, process: Process, directory: Path) -> Path:
    """Open a layout in KLayout's application and wait until it is closed.

    Args:
        application: Its executable.
        gds: Layout, GDS2 or OASIS.
        process: Gives layers and colours.
        directory: Where the layer properties are written.

    Returns:
        The file of layer properties.

    Raises:
        InputError: The layout can't be read, or the application fails.
    """
    read_layout(gds)
    properties = directory / f"{gds.stem}.lyp"
    write_atomic(properties, layer_properties(process))
    done = subprocess.run([application, "-l", str(properties), str(gds)], check=False)
    if done.returncode:
        raise InputError(f"{application} ended with {done.returncode} on {gds}; give --png to write pictures instead")
    return properties


def write_pictures(
    gds: Path, process: Process, directory: Path, watch: Callable[[str], None] | None = None
) -> tuple[Path, ...]:
    """Write pictures of the chip, and of one layer, one mesh and one MZI where there are any.

    Args:
        gds: Layout, GDS2 or OASIS.
        process: Gives layers and colours.
        directory: Where ``<stem>.chip.png`` and the others are written.
        watch: Called with the name of every picture, one of ``PICTURES``, as it begins.

    Returns:
        The files; the chip alone where no heaters stand side by side.

    Raises:
        InputError: The layout can't be read or is empty.
    """
    layout, top = read_layout(gds)
    if top.bbox().empty():
        raise InputError(f"{gds}: the layout is empty, there is nothing to draw; was it written to its end?")
    windows = find_windows(heater_boxes(layout, process.gds_layers["heater"]))
    views = (None,) if windows is None else (None, windows.layer, windows.mesh, windows.mzi)
    drawn = pictures(layout, process.gds_layers, picture_colors(process), views)
    written = []
    for name in PICTURES[: len(views)]:
        if watch is not None:
            watch(name)
        path = directory / f"{gds.stem}.{name}.png"
        write_atomic(path, next(drawn))
        written.append(path)
    return tuple(written)


def picture_colors(process: Process) -> dict[str, str]:
    """The pictures' colours; layers that these do not know have the process's own, and lie below."""
    return {name: layer.color for name, layer in process.layers.items() if name not in COLORS} | dict(COLORS)
