"""Golden files: silicon polygons and ports of every device, for the extractor, which does not import the cells.

``make golden`` writes the files; a test compares the committed files with the cells.
"""

from __future__ import annotations

import json
from typing import Any

import gdsfactory as gf
import klayout.db as kdb

from optinc_pdk.cards import Process
from optinc_pdk.cells import CELLS
from optinc_pdk.file_writing import write_atomic

SCHEMA = 1
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


def golden_data(process: Process, name: str) -> dict[str, Any]:
    """Return the content of the golden file of a device.

    Args:
        process: Process of the active PDK.
        name: Device name.

    Returns:
        ``schema``, ``name``, ``layers`` (merged polygons in nm by layer) and ``ports`` (for each port its position in
        nm, its outward angle in degrees and, at an edge coupler's tip, ``fibre: true``).
    """
    cell: gf.Component = CELLS[name]()
    layers: dict[str, list[list[list[int]]]] = {}
    for layer in ("core", process.grating.layer):
        region = kdb.Region(cell.begin_shapes_rec(cell.kcl.layer(*process.layers[layer].gds))).merged()
        polygons = sorted([[p.x, p.y] for p in polygon.each_point_hull()] for polygon in region.each())
        if polygons:
            layers[layer] = polygons
    ports: dict[str, dict[str, Any]] = {}
    for port in cell.ports:
        at = [round(port.center[0] * 1000), round(port.center[1] * 1000)]
        ports[str(port.name)] = {"at": at, "angle": int(port.orientation)}
        # light leaves the silicon here, so no guide continues
        if port.port_type == "edge_coupler":
            ports[str(port.name)]["fibre"] = True
    return {"schema": SCHEMA, "name": name, "layers": layers, "ports": ports}


def write_golden(process: Process) -> None:
    """Write the golden file of every device of a process to the folder ``golden`` beside its cards.

    A file that would equal the inherited one is not written.

    Args:
        process: Process of the active PDK.
    """
    for name in (name for name in GOLDEN_DEVICES if name in process.devices):
        data = (json.dumps(golden_data(process, name), separators=(",", ":")) + "\n").encode()
        target = process.folder / "golden" / f"{name}.json"
        inherited = [path for path in process.files(f"golden/{name}.json") if path != target]
        if not any(path.read_bytes() == data for path in inherited):
            write_atomic(target, data)
