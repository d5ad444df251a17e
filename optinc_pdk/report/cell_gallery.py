"""The gallery of a process's cells: a Markdown page with picture, ports, device card and model of each cell."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import klayout.db as kdb

from optinc_pdk.cards import DeviceCard, Process, Quantity, load_process
from optinc_pdk.cards.device_models import NO_MODEL
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import write_files
from optinc_pdk.report.layout_pictures import COLORS, layout_png
from optinc_pdk.report.rendering import render

MAX_SIZE_PX = 640, 480
# a straight guide is a thousand times longer than wide; its picture is at most six times wider than high
MIN_ASPECT = 1 / 6


def write_gallery(process: str, path: Path, on_cell: Callable[[str, int, int], None] | None = None) -> int:
    """Write the cell gallery of a process: a Markdown page, and one PNG per cell; returns the number of cells.

    The pictures are in a folder beside the page, named as the page without ``.md``. The function activates the
    process's PDK. ``process`` is a name, or a path of a folder with process cards; ``on_cell`` is called before each
    cell with its name, the number of cells that are done, and the number of all.

    Raises:
        InputError: The page's name does not end in ``.md``, or the process cannot be used.
    """
    if path.suffix.lower() != ".md":
        raise InputError(f"{path}: the gallery is written as Markdown; give the file the ending .md")
    card = load_process(process)

    # gdsfactory takes more than a second to import
    from optinc_pdk.cells import cells_of
    from optinc_pdk.pdk import active_pdk

    cells = cells_of(card)
    folder = path.with_suffix("")
    with active_pdk(process):
        pictures: dict[Path, bytes] = {}
        for name, cell in cells.items():
            if on_cell is not None:
                on_cell(name, len(pictures), len(cells))
            pictures[folder / f"{name}.png"] = cell_picture(card, cell())
        page = render_gallery(card, path.stem)
    write_files(pictures | {path: page.encode()})
    return len(cells)


def render_gallery(process: Process, folder: str) -> str:
    """Render the gallery page as Markdown; it links to ``<folder>/<cell>.png``."""
    from optinc_pdk.cells import cells_of

    cells = [_cell_data(process, name, cell) for name, cell in cells_of(process).items()]
    return render("gallery.md.j2", process=process, folder=folder, cells=cells)


def cell_picture(process: Process, component: Any) -> bytes:
    """Draw a cell, a gdsfactory component, as PNG, at most 640 pixels wide and 480 pixels high."""
    colors = dict(COLORS) | {name: layer.color for name, layer in process.layers.items() if name not in COLORS}
    box = component.dbbox()
    width, height = max(box.width(), MIN_ASPECT * box.height()), max(box.height(), MIN_ASPECT * box.width())
    half = kdb.DVector(width, height) * 0.52
    window = kdb.DBox(box.center() - half, box.center() + half)
    pixels = round(min(MAX_SIZE_PX[0], MAX_SIZE_PX[1] * width / height))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.gds"
        component.write_gds(path, with_metadata=False)
        return layout_png(
            path, process.gds_layers, colors, (window.left, window.bottom, window.right, window.top), pixels
        )


def model_text(process: Process, name: str, component: Any) -> str:
    """Return the name of the S-parameter model of a named cell, or the reason why it has none, as Markdown."""
    from optinc_pdk.cells.couplers import COUPLERS, DEVICE

    light = any(port.port_type != "electrical" for port in component.ports)
    card = process.devices.get(DEVICE if name in COUPLERS else name)
    if card is not None and card.ports.optical:
        if card.model.file is not None:
            return f"S-parameters of `{card.model.file.name}`"
        return "none: its card states none" if card.model.name == NO_MODEL else f"`{card.model.name}`"
    parts = device_counts(process, component)
    if parts:
        return "none: a circuit of " + ", ".join(f"{count} {part}" for part, count in sorted(parts.items()))
    return "`guide`, by its length" if light else "none: carries no light"


def device_counts(process: Process, component: Any) -> Counter[str]:
    """Count the devices of the process within a cell, over all levels of its hierarchy, by device name."""
    return _counts(component.kcl.layout.cell(component.name), sorted(process.devices, key=len, reverse=True))


def _counts(cell: kdb.Cell, devices: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for instance in cell.each_inst():
        times = max(instance.na, 1) * max(instance.nb, 1)
        inside = instance.cell
        # a cell name is the device's name and, for some, its parameters
        name = next((device for device in devices if inside.name.startswith(device)), None)
        for part, count in ({name: 1} if name else _counts(inside, devices)).items():
            counts[part] += times * count
    return counts


def _cell_data(process: Process, name: str, cell: Callable[[], Any]) -> dict[str, Any]:
    """Data of a cell for the template."""
    component, card = cell(), process.devices.get(name)
    box = component.dbbox()
    return {
        "name": name,
        "text": str(cell.__doc__).strip().partition("\n")[0],
        "arguments": _arguments(cell),
        "card": card,
        "model": model_text(process, name, component),
        "size_um": (box.width(), box.height()),
        "ports": [_port_data(port) for port in _ordered(component)],
        "numbers": [] if card is None else _numbers(card),
    }


def _arguments(cell: Callable[[], Any]) -> str:
    """Arguments of a cell function with their defaults; none for gdsfactory's own, which depend on its version."""
    if not cell.__module__.startswith("optinc_pdk."):
        return ""
    return ", ".join(f"{p.name}={p.default!r}" for p in inspect.signature(cell).parameters.values())


def _port_data(port: Any) -> dict[str, Any]:
    # adding 0 turns −0 into 0
    position = tuple(round(float(value), 3) + 0.0 for value in port.center)
    return {"name": port.name, "type": port.port_type, "position_um": position, "degrees": port.orientation}


def _ordered(component: Any) -> list[Any]:
    """Ports by number, optical ones first."""

    def rank(port: Any) -> tuple[bool, list[tuple[int, str]]]:
        parts = re.findall(r"\d+|\D+", port.name)
        return port.port_type == "electrical", [(int(part), "") if part.isdigit() else (0, part) for part in parts]

    return sorted(component.ports, key=rank)


def _numbers(card: DeviceCard) -> list[tuple[str, float, str]]:
    """Names, values and sources of a card's numbers."""
    groups: Mapping[str, Mapping[str, Quantity]] = {
        "geometry": card.geometry,
        "model": card.model.parameters,
        "limits": card.limits,
    }
    return [
        (f"{group}: {key}", float(value), card.sources[value.source])
        for group, numbers in groups.items()
        for key, value in numbers.items()
    ]
