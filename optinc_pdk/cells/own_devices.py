"""Devices that a process brings along: their layouts, checked against the cards, recognition polygons and cells.

The function that draws a device is imported here alone: when the cell is drawn.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gdsfactory as gf
import klayout.db as kdb

from optinc_pdk.cards import CardError, DeviceCard, Process
from optinc_pdk.cards.device import NM_PER_UM, PYTHON_FILE, CellCard, cell_digest
from optinc_pdk.cells.drawing import add_electrical, cell
from optinc_pdk.extract.golden_devices import SCHEMA, golden_layers, renewal
from optinc_pdk.extract.layout_reader import check_unit, read_cells, refusing_geometry
from optinc_pdk.extract.layout_size import GdsError
from optinc_pdk.extract.polygons import region_polygons
from optinc_pdk.io.reading import real_path
from optinc_pdk.tech import activated, active_process

GRID_UM = 0.001
FIBRE_TYPES = ("vertical", "edge_coupler", "edge_te", "edge_tm")
"""Beginnings of gdsfactory's types of ports through which light enters or leaves a chip."""
OUTWARD = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}

Polygons = dict[tuple[int, int], kdb.Region]
NEW, CHANGED, UNCHANGED = "new", "changed", "unchanged"
"""States of the golden file of a device."""


@dataclass(frozen=True)
class DrawnPort:
    """Port of a device.

    Attributes:
        at_nm: Position (x, y) in nm.
        angle_deg: Outward direction in degrees.
        width_nm: Width of the silicon at a guide port; 0 for other ports.
        kind: ``guide``, ``fibre`` or ``electrical``.
    """

    at_nm: tuple[int, int]
    angle_deg: int
    width_nm: int
    kind: str


@dataclass(frozen=True)
class DeviceDrawing:
    """Layout of a device.

    Attributes:
        layers: Merged polygons in nm by layer name; layers without polygons are left out.
        ports: Ports by name, in the order of the card.
    """

    layers: Mapping[str, kdb.Region]
    ports: Mapping[str, DrawnPort]


def draw_device(process: Process, name: str) -> DeviceDrawing:
    """Draw a device whose card states a cell with the active PDK of its process, and check layers and ports.

    Raises:
        CardError: The file or function cannot be used, it draws on a layer that the process does not have, or a port is
            not where the card states it; the message names card, key and place.
    """
    card = process.device(name)
    (path,) = process.files(f"devices/{name}.yml")
    cell = card.cell
    if cell is None:
        raise CardError(f"{path}: no key 'cell', so there is nothing to draw; add it")
    shapes, found = _of_file(cell, path) if cell.gds is not None else _of_function(cell, path)
    layers = _layers(process, shapes, f"{path}: cell: {cell.text}")
    ports = {port: _port(process, card, port, found, path) for port in (*card.ports.optical, *card.ports.electrical)}
    _check_ports(process, layers, ports, path)
    return DeviceDrawing(layers, ports)


def _of_file(cell: CellCard, path: Path) -> tuple[Polygons, dict[str, DrawnPort]]:
    """Return the polygons of a layout file by GDS layer, and no ports."""
    try:
        return _file_polygons(str(cell.gds), cell.top, f"{path}: cell"), {}
    except GdsError as fault:
        raise CardError(f"{path}: cell.gds: {fault}") from fault


@refusing_geometry
def _file_polygons(file: str, top: str | None, where: str) -> Polygons:
    """Return the polygons of a cell of a layout file by GDS layer."""
    layout = read_cells(file)
    check_unit(layout, GRID_UM, file)
    return _polygons(layout, _top(layout, top, where, file))


def _top(layout: kdb.Layout, name: str | None, where: str, file: str) -> kdb.Cell:
    """Return the cell of a name, or the only top cell of a layout."""
    if name is not None:
        if not layout.has_cell(name):
            known = ", ".join(sorted(each.name for each in layout.each_cell())[:8])
            raise CardError(f"{where}.top: {file} has no cell {name!r}, it has {known}; correct the name")
        return layout.cell(name)
    tops = layout.top_cells()
    if len(tops) != 1:
        names = ", ".join(sorted(each.name for each in tops)[:8]) or "none"
        raise CardError(f"{where}.gds: {file} has {len(tops)} top cells ({names}); state one of them as cell.top")
    return tops[0]


def _polygons(layout: kdb.Layout, cell: kdb.Cell) -> Polygons:
    """Return the merged polygons of a cell with all cells below it, by GDS layer and datatype."""
    shapes: Polygons = {}
    for index in layout.layer_indexes():
        # texts are no polygons, so that a region leaves them out
        region = kdb.Region(cell.begin_shapes_rec(index))
        region.remove_properties()
        if not region.is_empty():
            info = layout.get_info(index)
            shapes[info.layer, info.datatype] = region.merged()
    return shapes


def _of_function(cell: CellCard, path: Path) -> tuple[Polygons, dict[str, DrawnPort]]:
    """Return the polygons of a function's component by GDS layer, and its ports by name."""
    where = f"{path}: cell.function: {cell.function}"
    function = _function(str(cell.function), where)
    with _other_pdk(cell, path):
        try:
            component = function(**cell.settings)
        except Exception as fault:
            raise CardError(
                f"{where} raised {type(fault).__name__}: {fault}; correct the function, or cell.settings"
            ) from fault
        if not isinstance(component, gf.Component):
            raise CardError(f"{where} returned {type(component).__name__}; return a gdsfactory component")
        shapes = _polygons(component.kcl.layout, component.kcl.layout.cell(component.cell_index()))
        ports = {str(port.name): _component_port(port) for port in component.ports if port.orientation is not None}
    return shapes, ports


@contextmanager
def _other_pdk(cell: CellCard, path: Path) -> Iterator[None]:
    """Activate the PDK that a function draws with, if the card states one."""
    if cell.pdk is None:
        yield
        return
    pdk = _attribute(cell.pdk, f"{path}: cell.pdk: {cell.pdk}")
    if not isinstance(pdk, gf.Pdk):
        raise CardError(f"{path}: cell.pdk: {cell.pdk} is a {type(pdk).__name__}; give a gdsfactory PDK")
    with activated(pdk):
        yield


def _function(text: str, where: str) -> Callable[..., Any]:
    function = _attribute(text, where)
    if not callable(function):
        raise CardError(f"{where} is a {type(function).__name__}; give a function that returns a component")
    return function  # type: ignore[no-any-return]


def _attribute(text: str, where: str) -> Any:
    """Import a module, or run a Python file, and return one of its names."""
    module_name, _, name = text.rpartition(":")
    try:
        if module_name.endswith(PYTHON_FILE):
            module = _file_module(Path(module_name))
        else:
            module = importlib.import_module(module_name)
    except Exception as fault:
        raise CardError(
            f"{where}: the module cannot be imported ({type(fault).__name__}: {fault}); install or correct it"
        ) from fault
    if not hasattr(module, name):
        raise CardError(f"{where}: the module has no {name!r}; correct the name")
    return getattr(module, name)


def _file_module(file: Path) -> Any:
    """Return the module of a Python file, which is run once; the name is that of its path, which no package has."""
    name = f"optinc_device_cells.{real_path(file)}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _component_port(port: Any) -> DrawnPort:
    """Return a port of a gdsfactory component."""
    x, y = (round(float(value) * NM_PER_UM) for value in port.center)
    kind = "electrical" if port.port_type == "electrical" else "guide"
    if str(port.port_type).startswith(FIBRE_TYPES):
        kind = "fibre"
    width = round(float(port.width) * NM_PER_UM) if kind == "guide" else 0
    return DrawnPort((x, y), round(float(port.orientation)) % 360, width, kind)


def _layers(process: Process, shapes: Polygons, where: str) -> dict[str, kdb.Region]:
    """Return polygons by the name of their layer in a process."""
    names = {layer.gds: name for name, layer in process.layers.items()}
    for gds, region in sorted(shapes.items()):
        if gds not in names:
            middle = region.bbox().center()
            known = ", ".join(f"{name} {layer.gds[0]}/{layer.gds[1]}" for name, layer in process.layers.items())
            raise CardError(
                f"{where} has shapes on layer {gds[0]}/{gds[1]}, around {_text((middle.x, middle.y))} µm, "
                f"which process {process.name!r} does not have ({known}); move or remove them"
            )
    layers = {names[gds]: region for gds, region in sorted(shapes.items())}
    if "core" not in layers:
        raise CardError(f"{where} has no silicon on layer core, {process.layers['core'].gds}; draw the device on it")
    return layers


def _port(process: Process, card: DeviceCard, name: str, found: Mapping[str, DrawnPort], path: Path) -> DrawnPort:
    """Return a port of a device: where its card states it, else where its component has it."""
    cell = card.cell
    place = None if cell is None else cell.ports.get(name)
    drawn = found.get(name)
    if place is None:
        if drawn is None:
            known = ", ".join(found) or "none"
            raise CardError(
                f"{path}: cell: the component has no port {name!r}, it has {known}; correct ports, or state the place "
                f"of the port as cell.ports.{name}"
            )
    elif drawn is not None and (drawn.at_nm, drawn.angle_deg) != (place.at_nm, place.angle_deg):
        raise CardError(
            f"{path}: cell.ports.{name}: at {_text(place.at_nm)} µm, {place.angle_deg}°, but the component's is "
            f"at {_text(drawn.at_nm)} µm, {drawn.angle_deg}°; correct or remove the entry"
        )
    at, angle = (place.at_nm, place.angle_deg) if place is not None else (drawn.at_nm, drawn.angle_deg)  # type: ignore[union-attr]
    if name in card.ports.electrical:
        return DrawnPort(at, angle, 0, "electrical")
    fibre = (place is not None and place.fibre) or (drawn is not None and drawn.kind == "fibre")
    if fibre:
        return DrawnPort(at, angle, 0, "fibre")
    key = card.ports.widths.get(name)
    width = process.guide.width_um if key is None else card.geometry[key]
    return DrawnPort(at, angle, round(float(width) * NM_PER_UM), "guide")


def _check_ports(
    process: Process, layers: Mapping[str, kdb.Region], ports: Mapping[str, DrawnPort], path: Path
) -> None:
    """Check that guide ports lie on edges of silicon, and electrical ports on metal."""
    if not any(port.kind == "guide" for port in ports.values()):
        raise CardError(f"{path}: no optical port joins a guide, so no light passes through the device; add one")
    edges = list(layers["core"].edges().each())
    metals = [layers[layer] for layer in {*process.contact.metals, process.metal.layer} if layer in layers]
    places: dict[tuple[int, int], str] = {}
    for name, port in ports.items():
        where = f"{path}: cell: port {name!r} at {_text(port.at_nm)} µm"
        if port.at_nm in places:
            raise CardError(f"{where} is where {places[port.at_nm]!r} is; correct one of them")
        places[port.at_nm] = name
        if port.kind == "electrical":
            point = kdb.Region(kdb.Box(-1, -1, 1, 1).moved(*port.at_nm))
            if not any(not (point & metal).is_empty() for metal in metals):
                raise CardError(f"{where} lies on no metal ({process.metal.layer}); correct its place")
        if port.kind == "guide":
            _check_guide_port(port, edges, where)


def _check_guide_port(port: DrawnPort, edges: Sequence[kdb.Edge], where: str) -> None:
    """Check that a guide port is the middle of an edge of silicon that is as wide and faces as the port does."""
    if port.angle_deg not in OUTWARD:
        raise CardError(f"{where} faces {port.angle_deg}°; ports of devices face 0, 90, 180 or 270°")
    x, y = port.at_nm
    here = [edge for edge in edges if (edge.x1 + edge.x2, edge.y1 + edge.y2) == (2 * x, 2 * y)]
    if not here:
        nearest = min(edges, key=lambda edge: (edge.x1 + edge.x2 - 2 * x) ** 2 + (edge.y1 + edge.y2 - 2 * y) ** 2)
        middle = (nearest.x1 + nearest.x2) / 2, (nearest.y1 + nearest.y2) / 2
        raise CardError(
            f"{where} is the middle of no edge of the silicon; the nearest is "
            f"{nearest.length() / NM_PER_UM:g} µm long with its middle at {_text(middle)} µm; correct the place"
        )
    edge, (dx, dy) = here[0], OUTWARD[port.angle_deg]
    # silicon is on the right of an edge, so that outward is on its left
    faces = (-edge.dy(), edge.dx())
    if faces[0] * dy != faces[1] * dx or faces[0] * dx + faces[1] * dy <= 0:
        raise CardError(f"{where} faces {port.angle_deg}°, but the silicon's edge does not; correct the angle")
    if round(edge.length()) != port.width_nm:
        raise CardError(
            f"{where} is {edge.length() / NM_PER_UM:g} µm wide, the card states {port.width_nm / NM_PER_UM:g} µm: the "
            "width of the process's guides, or that of ports.widths; correct the card or the layout"
        )


def _text(at_nm: tuple[float, float]) -> str:
    """Return a position in nm as text in µm."""
    return f"({at_nm[0] / NM_PER_UM:.3f}, {at_nm[1] / NM_PER_UM:.3f})"


def golden_of_component(process: Process, name: str, component: gf.Component) -> dict[str, Any]:
    """Return the content of the golden file of a device that the package draws.

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

    It is as that of :func:`golden_of_component`; besides, ``cell`` is a digest of what the card states about the cell.
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


def golden_state(process: Process, name: str, data: Mapping[str, Any]) -> str:
    """Compare the content that a golden file should have with the file: ``new``, ``changed`` or ``unchanged``."""
    # of the process, or inherited
    path = next(iter(process.files(f"golden/{name}.json")), None)
    if path is None:
        return NEW
    return UNCHANGED if path.read_bytes() == golden_bytes(data) else CHANGED


def check_current(process: Process, name: str, data: Mapping[str, Any]) -> None:
    """Check that the golden file of a device has the polygons of its cell, by which extraction recognises it."""
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


@cache
def own_cell(name: str) -> gf.typings.ComponentFactory:
    """Return the cell function of a device that the card of the active process states a cell for.

    The component has the shapes of the device without any hierarchy, and the ports of its card. The function raises
    ``CardError`` if the layout cannot be used, or if it is not that of the recognition polygons.
    """

    def draw() -> gf.Component:
        """Device of the process, drawn as its card states."""
        process = active_process()
        drawing = draw_device(process, name)
        check_current(process, name, golden_of_drawing(process, name, drawing))
        return _component(drawing)

    draw.__name__ = draw.__qualname__ = name
    return cell(draw)


def _component(drawing: DeviceDrawing) -> gf.Component:
    """Return a component with the shapes and ports of a device."""
    process = active_process()
    component = gf.Component()
    for layer, region in drawing.layers.items():
        component.shapes(component.kcl.layer(*process.layers[layer].gds)).insert(region)
    for name, port in drawing.ports.items():
        _add_port(component, name, port)
    return component


def _add_port(component: gf.Component, name: str, port: DrawnPort) -> None:
    """Add a port to a component."""
    at = port.at_nm[0] * GRID_UM, port.at_nm[1] * GRID_UM
    if port.kind == "electrical":
        add_electrical(component, name, at, port.angle_deg)
        return
    strip = gf.get_cross_section("strip")
    section = strip if port.kind == "fibre" else gf.get_cross_section("strip", width=port.width_nm * GRID_UM)
    kind = "vertical_te" if port.kind == "fibre" else "optical"
    component.add_port(name=name, center=at, orientation=port.angle_deg, cross_section=section, port_type=kind)
