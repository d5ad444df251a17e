"""Recognition polygons of devices, as golden files state them, and their comparison with the file of a process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb

from optinc_pdk.cards import CardError, Process
from optinc_pdk.cards.device import cell_digest
from optinc_pdk.cells.device_drawings import DeviceDrawing
from optinc_pdk.extract.golden_devices import SCHEMA, golden_layers, renewal
from optinc_pdk.extract.polygons import region_polygons

NEW, CHANGED, UNCHANGED = "new", "changed", "unchanged"
"""States of the golden file of a device."""


def golden_of_component(process: Process, name: str, component: gf.Component) -> dict[str, Any]:
    """Return the content of the golden file of a device that the package draws.

    Args:
        process: Process of the active PDK.
        name: Device name.
        component: Its cell.

    Returns:
        ``schema``, ``name``, ``layers`` (merged polygons in nm by layer) and ``ports`` (for each port its position in
        nm, its outward angle in degrees and, at an edge coupler's tip, ``fibre: true``).
    """
    layers = {
        layer: kdb.Region(component.begin_shapes_rec(component.kcl.layer(*process.layers[layer].gds))).merged()
        for layer in golden_layers(process)
    }
    ports: dict[str, dict[str, Any]] = {}
    for port in component.ports:
        at = [round(port.center[0] * 1000), round(port.center[1] * 1000)]
        ports[str(port.name)] = {"at": at, "angle": int(port.orientation)}
        # light leaves the silicon here, so no guide continues
        if port.port_type == "edge_coupler":
            ports[str(port.name)]["fibre"] = True
    return {"schema": SCHEMA, "name": name, **_shapes(layers, golden_layers(process)), "ports": ports}


def golden_of_drawing(process: Process, name: str, drawing: DeviceDrawing) -> dict[str, Any]:
    """Return the content of the golden file of a device with a cell of its own.

    Args:
        process: Process with the card of the device.
        name: Device name.
        drawing: Layout of the device.

    Returns:
        As :func:`golden_of_component`; besides, ``cell`` is a digest of what the card states about the cell.
    """
    ports = {
        port: {"at": list(place.at_nm), "angle": place.angle_deg} | ({"fibre": True} if place.kind == "fibre" else {})
        for port, place in drawing.ports.items()
    }
    digest = cell_digest(process.device(name), (process.layers[layer].gds for layer in golden_layers(process)))
    shapes = _shapes(drawing.layers, golden_layers(process))
    return {"schema": SCHEMA, "name": name, **shapes, "ports": ports, "cell": digest}


def golden_bytes(data: Mapping[str, Any]) -> bytes:
    """Return the content of a golden file as written."""
    return (json.dumps(data, separators=(",", ":")) + "\n").encode()


def golden_path(process: Process, name: str) -> Path | None:
    """Return the golden file of a device, of the process or inherited; None if there is none."""
    return next(iter(process.files(f"golden/{name}.json")), None)


def golden_state(process: Process, name: str, data: Mapping[str, Any]) -> str:
    """Compare recognition polygons with the golden file of a process.

    Args:
        process: Process.
        name: Device name.
        data: Content that the golden file should have.

    Returns:
        ``new`` if there is no golden file, ``unchanged`` if it has this content, else ``changed``.
    """
    path = golden_path(process, name)
    if path is None:
        return NEW
    return UNCHANGED if path.read_bytes() == golden_bytes(data) else CHANGED


def check_current(process: Process, name: str, data: Mapping[str, Any]) -> None:
    """Check that the golden file of a device has the polygons of its cell, by which extraction recognises it.

    Args:
        process: Process.
        name: Device name.
        data: Content that the golden file should have.

    Raises:
        CardError: The golden file is missing, or is that of another layout.
    """
    state = golden_state(process, name, data)
    if state != UNCHANGED:
        fact = "has no recognition polygons" if state == NEW else "is drawn differently from its recognition polygons"
        raise CardError(f"{process.folder}: device {name!r} {fact} (golden/{name}.json); {renewal(process)}")


def _shapes(layers: Mapping[str, kdb.Region], names: Sequence[str]) -> dict[str, Any]:
    """Return ``layers``, the points of polygons in nm, sorted, and, if there are any, ``holes`` in these polygons.

    Layers without polygons are left out.
    """
    found: dict[str, list[list[list[int]]]] = {}
    holes: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        drawn = region_polygons(layers[name]) if name in layers else []
        polygons = sorted((_ring(each.each_point_hull()), each) for each in drawn)
        if polygons:
            found[name] = [points for points, _ in polygons]
        inside = [
            {"polygon": number, "points": _ring(polygon.each_point_hole(hole))}
            for number, (_, polygon) in enumerate(polygons)
            for hole in range(polygon.holes())
        ]
        if inside:
            holes[name] = inside
    return {"layers": found} | ({"holes": holes} if holes else {})


def _ring(points: Iterable[kdb.Point]) -> list[list[int]]:
    """Return the points of a hull or hole in nm."""
    return [[point.x, point.y] for point in points]
