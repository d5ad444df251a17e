"""Golden files: silicon polygons and ports of every device, for the extractor, which does not import the cells.

``optinc process golden`` writes the files, ``make golden`` those of all bundled processes; a test compares the
committed files with the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards import CardError, Process
from optinc_pdk.cells import CELLS
from optinc_pdk.cells.own_devices import (
    UNCHANGED,
    DeviceDrawing,
    check_current,
    draw_device,
    golden_bytes,
    golden_of_component,
    golden_of_drawing,
    golden_state,
)
from optinc_pdk.extract.device_recognition import match_devices
from optinc_pdk.extract.golden_devices import GoldenVariant, golden_variants
from optinc_pdk.extract.guide_couplers import coupler_card
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import contours, region_polygons
from optinc_pdk.io.file_sets import write_files

GOLDEN_DEVICES = (
    "crossing",
    "directional_coupler",
    "edge_coupler",
    "grating_coupler",
    "mmi1x2",
    "mmi2x2",
    "modulator",
    "monitor_tap",
    "photodiode",
    "taper",
    "terminator",
)
"""Devices that the package draws and extraction recognises by polygons."""
MARK_LAYER = "coupled"
"""Layer of the marks of coupled guides."""


def golden_names(process: Process) -> tuple[str, ...]:
    """Return the devices of a process that extraction recognises by polygons, sorted."""
    cards = process.devices
    return tuple(sorted(name for name, card in cards.items() if card.cell is not None or name in GOLDEN_DEVICES))


def golden_data(process: Process, name: str) -> dict[str, Any]:
    """Return the content of the golden file of a device, see :mod:`optinc_pdk.cells.own_devices`.

    Raises:
        CardError: The cell of the device cannot be drawn, or its mark of coupled guides is not the bounding box of
            several guides.
    """
    if process.device(name).cell is not None:
        drawing = draw_device(process, name)
        _check_mark(process, name, drawing)
        return golden_of_drawing(process, name, drawing)
    return golden_of_component(process, name, CELLS[name]())


def check_golden_files(process: Process) -> None:
    """Check that the golden files of a process have the polygons that the package draws with the present cards.

    Devices with cells of their own are not drawn: their golden files state what they were made from.

    Raises:
        CardError: A golden file is missing, or is that of another layout; the message names the device.
    """
    for name in golden_names(process):
        if process.devices[name].cell is None:
            check_current(process, name, golden_data(process, name))


def golden_states(
    process: Process, on_device: Callable[[str, int, int], None] | None = None
) -> dict[str, tuple[str, bytes]]:
    """Draw the devices of a process and compare them with their golden files.

    Args:
        on_device: Called before each device with its name, the number of devices that are done, and the number of all.

    Returns:
        By device name: ``new``, ``changed`` or ``unchanged``, and the content that its golden file should have.

    Raises:
        CardError: A device cannot be drawn, or extraction could not tell it from a guide or from another device.
    """
    names = golden_names(process)
    data: dict[str, dict[str, Any]] = {}
    for name in names:
        if on_device is not None:
            on_device(name, len(data), len(names))
        data[name] = golden_data(process, name)
    _check_distinct(process, data)
    return {name: (golden_state(process, name, each), golden_bytes(each)) for name, each in data.items()}


def write_golden(process: Process, states: Mapping[str, tuple[str, bytes]] | None = None) -> None:
    """Write the golden files of all devices of a process, together, to the folder ``golden`` beside its cards.

    A file that would equal the present or the inherited one is not written.

    Raises:
        CardError: As :func:`golden_states`.
    """
    if states is None:
        states = golden_states(process)
    folder = process.folder / "golden"
    files = {folder / f"{name}.json": data for name, (state, data) in states.items() if state != UNCHANGED}
    if files:
        write_files(files)


def _check_mark(process: Process, name: str, drawing: DeviceDrawing) -> None:
    """Check that a device has no mark of coupled guides, or several guides and one mark, their bounding box."""
    if MARK_LAYER not in drawing.layers or "core" not in drawing.layers or coupler_card(process) is None:
        return
    marks, silicon = region_polygons(drawing.layers[MARK_LAYER]), drawing.layers["core"].bbox()
    if [kdb.Polygon(silicon)] != marks:
        drawn = " and ".join(_corners(mark.bbox()) + ("" if mark.is_box() else ", no rectangle") for mark in marks)
        raise CardError(
            f"{process.folder}: device {name!r}: the mark on layer {MARK_LAYER!r} covers {drawn}, the silicon "
            f"{_corners(silicon)}; draw the mark as one rectangle, the bounding box of the silicon"
        )
    if drawing.layers["core"].merged().count() == 1:
        raise CardError(
            f"{process.folder}: device {name!r}: its silicon on layer 'core' is one polygon under a mark on layer "
            f"{MARK_LAYER!r}, which is for separate guides; draw no mark"
        )


def _corners(box: kdb.Box) -> str:
    """Return the lower left and upper right corner of a box in nm as text in µm."""
    low, high = box.to_dtype(1.0 / NM_PER_UM).p1, box.to_dtype(1.0 / NM_PER_UM).p2
    return f"({low.x:.3f}, {low.y:.3f}) to ({high.x:.3f}, {high.y:.3f}) µm"


def _check_distinct(process: Process, data: Mapping[str, Mapping[str, Any]]) -> None:
    """Check that extraction can recognise each device with a cell of its own, and finds no other device in it."""
    variants = {
        name: golden_variants(process, name, golden_bytes(each).decode(), f"{process.folder}: device {name!r}")
        for name, each in data.items()
    }
    own = [name for name in data if process.devices[name].cell is not None]
    for name in own:
        first = variants[name][0]
        if not len(first.sides):
            raise CardError(
                f"{process.folder}: device {name!r} has the silicon of a guide, which extraction cannot tell from one; "
                "draw it with gdsfactory's straight, or give it another width"
            )
        for other in data:
            if other == name:
                continue
            if _contains(first, variants[other]):
                raise CardError(_overlap(process, name, other))
            if other not in own and _contains(variants[other][0], variants[name]):
                raise CardError(_overlap(process, other, name))


def _contains(device: GoldenVariant, others: tuple[GoldenVariant, ...]) -> bool:
    """Whether extraction recognises another device within the silicon of a device."""
    return bool(match_devices(contours(device.core), others))


def _overlap(process: Process, name: str, other: str) -> str:
    return (
        f"{process.folder}: device {name!r} contains the silicon of device {other!r}: extraction would recognise both "
        "at one place; draw it as a circuit of devices, or change its outline"
    )
