"""What cell functions share: the decorator ``cell``, shapes, ports and cross-sections, and checks of parameters."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, cast

import gdsfactory as gf
import klayout.db as kdb
import numpy as np
from gdsfactory._cell import ComponentFunc
from gdsfactory.cross_section import CrossSection
from gdsfactory.typings import CrossSectionSpec, LayerSpec
from kfactory.serialization import get_cell_name
from pydantic import BaseModel

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import DEFAULT_PROCESS, Process
from optinc_pdk.cards.technology import ViaCard
from optinc_pdk.cells.curves import GRID_PER_UM, Points, ribbon
from optinc_pdk.tech import LAYOUT_LOCK, active_process

Arguments = ParamSpec("Arguments")

MAX_NAME_LENGTH = 32
"""Longest cell name that mask shops accept."""
# Coordinates are 32-bit integers in nm; 1 m is safely within that range.
LIMIT_UM = 1e6


def cell(function: ComponentFunc[Arguments]) -> ComponentFunc[Arguments]:
    """Decorate a function that draws a cell as ``gdsfactory.cell`` does, but with a separate cache for every process.

    gdsfactory's caches, by arguments and by cell name, would return the component of another process. The names of
    cells of processes other than the default end in four hexadecimal digits, so that one layout can hold cells of
    several processes. The full process name would make cell names longer than mask shops accept.

    A cell name lists the arguments that differ from their defaults. A name of more than 32 characters ends in a hash.
    kfactory's own setting of that length is not changed, because it would rename the cells of other PDKs.
    """
    decorated: dict[tuple[Path, ...], ComponentFunc[Arguments]] = {}

    @wraps(function)
    def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> gf.Component:
        # another thread may have activated another process, until it gives the lock back
        with LAYOUT_LOCK:
            process = active_process()
            # by folder: a changed copy of a process may have the same name
            if process.folders not in decorated:
                basename = f"{function.__name__}{_suffix(process)}"
                decorate = cast(Any, gf.cell)(basename=basename, layout_cache=False, set_name=False)
                decorated[process.folders] = decorate(_named(function, basename))
            return decorated[process.folders](*args, **kwargs)

    return cast(ComponentFunc[Arguments], draw)


def _named(function: Callable[..., gf.Component], basename: str) -> Callable[..., gf.Component]:
    """Return a function that draws a cell and names it after the arguments that differ from their defaults."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

    @wraps(function)
    def draw(**arguments: Any) -> gf.Component:
        component = function(**arguments)
        given = {name: value for name, value in arguments.items() if value != defaults[name]}
        component.name = get_cell_name(basename, MAX_NAME_LENGTH, **given)
        return component

    return draw


def _suffix(process: Process) -> str:
    if process.name == DEFAULT_PROCESS:
        return ""
    return f"_{hashlib.sha256(process.name.encode()).hexdigest()[:4]}"


def to_grid(points_um: Points) -> Ints:
    """Return points (n, 2) in µm as integers in nm."""
    return np.rint(points_um * GRID_PER_UM).astype(np.int64)


def add_polygon(component: gf.Component, points_nm: Ints, layer: str | int) -> None:
    """Add a polygon with (n, 2) vertices in nm to a layer: its name in the active process, or its index."""
    points = [kdb.Point(int(x), int(y)) for x, y in points_nm.tolist()]
    component.shapes(_index(component, layer)).insert(kdb.Polygon(points))


def add_rectangle(component: gf.Component, box_um: tuple[float, float, float, float], layer: str | int) -> None:
    """Add a rectangle (left, bottom, right, top) to a layer: its name in the active process, or its index."""
    corners = (round(value * GRID_PER_UM) for value in box_um)
    component.shapes(_index(component, layer)).insert(kdb.Polygon(kdb.Box(*corners)))


def _index(component: gf.Component, layer: str | int) -> int:
    """Return the index of a layer in the layout database."""
    return layer if isinstance(layer, int) else component.kcl.layer(*active_process().layers[layer].gds)


def add_contact(component: gf.Component, box_um: tuple[float, float, float, float]) -> None:
    """Draw a contact: all metals of the contact stack over a box (left, bottom, right, top), and vias between them."""
    stack = active_process().contact
    for metal in stack.metals:
        add_rectangle(component, box_um, metal)
    if stack.via is None:
        return
    left, bottom, right, top = box_um
    size = float(stack.via.size_um)
    for x in _via_positions(stack.via, left, right):
        for y in _via_positions(stack.via, bottom, top):
            for layer in stack.vias:
                add_rectangle(component, (x, y, x + size, y + size), layer)


def _via_positions(via: ViaCard, low: float, high: float) -> list[float]:
    """Return the lower edges (µm) of a row of vias, centred between two edges of a contact, on the 1 nm grid."""
    size, pitch = float(via.size_um), float(via.size_um + via.space_um)
    count = math.floor((high - low - 2 * via.enclosure_um - size) / pitch + 1 + 1e-9)
    first = (low + high - (count - 1) * pitch - size) / 2
    # rounded down: edge and enclosure are on the grid, so the enclosure is kept on both sides
    first = math.floor(first * GRID_PER_UM + 1e-6) / GRID_PER_UM
    return [first + i * pitch for i in range(count)]


def add_guide(component: gf.Component, centreline: Points) -> None:
    """Add a strip guide of the active process's width along a centreline of (n, 2) points in µm."""
    add_polygon(component, ribbon(centreline, float(active_process().guide.width_um)), "core")


def add_optical(component: gf.Component, name: str, at: tuple[float, float], orientation: float) -> None:
    """Add an optical port with the cross-section of a strip guide, at a position in µm, outwards in degrees."""
    component.add_port(name=name, center=at, orientation=orientation, cross_section="strip")


def add_corner_ports(component: gf.Component, left: float, right: float, low: float, high: float) -> None:
    """Add four optical ports at positions in µm, numbered clockwise from the lower left."""
    add_optical(component, "o1", (left, low), 180)
    add_optical(component, "o2", (left, high), 180)
    add_optical(component, "o3", (right, high), 0)
    add_optical(component, "o4", (right, low), 0)


def add_electrical(component: gf.Component, name: str, at: tuple[float, float], orientation: float) -> None:
    """Add an electrical port on the routing metal, as wide as a wire, so that wires connect to it in a netlist."""
    metal = active_process().metal
    component.add_port(
        name=name,
        center=at,
        orientation=orientation,
        width=float(metal.wire_width_um),
        layer=metal.layer,
        port_type="electrical",
    )


def place_cell(
    component: gf.Component,
    cell: gf.Component,
    at: tuple[float, float],
    rotation: float = 0,
    mirror: bool = False,
) -> Any:
    """Add and return an instance of a cell: mirrored at the x axis if asked, then rotated by degrees, then moved."""
    instance = component.add_ref(cell)
    instance.dcplx_trans = kdb.DCplxTrans(1.0, rotation, mirror, *at)
    return instance


def check_length(name: str, value: Any, lowest: float = 0.0, cell: str = "") -> float:
    """Check that a parameter of a cell is a length in µm on the 1 nm grid, from ``lowest`` to 1 m, and return it.

    Without the check, the layout database would silently round the length or let it overflow.
    """
    where = f"{cell}: {name}" if cell else name
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.number):
        raise ValueError(f"{where} is {value!r}, not a length in µm; give a number from {lowest} to {LIMIT_UM:.0f}")
    # no math.isfinite, which fails for integers too large for a float; NaN fails this comparison
    if not lowest <= value < LIMIT_UM:
        raise ValueError(f"{where} is {value} µm, outside {lowest} to {LIMIT_UM:.0f} µm; give a length in this range")
    if abs(value * GRID_PER_UM - round(value * GRID_PER_UM)) > 1e-6:
        raise ValueError(f"{where} is {value} µm, off the 1 nm grid; round it")
    return float(value)


def check_count(name: str, value: Any, lowest: int, highest: int, cell: str) -> int:
    """Check that a parameter of a cell is a whole number from ``lowest`` to ``highest``, and return it."""
    if isinstance(value, bool | np.bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{cell}: {name} is {value!r}, not a whole number; give one from {lowest} to {highest}")
    if not lowest <= value <= highest:
        raise ValueError(f"{cell}: {name} is {value}, outside {lowest} to {highest}; give a number in this range")
    return int(value)


def plain_section(
    cell: str,
    cross_section: CrossSectionSpec,
    width: float | None = None,
    layer: LayerSpec | None = None,
    what: str = "width",
) -> CrossSection:
    """Return a cross-section of one centred strip, with another width (µm) or layer if these are given.

    Messages name the cell and the width's parameter ``what``.

    Raises:
        ValueError: The cross-section has several strips, a varying width or an offset, or the width is not on the grid.
    """
    changes: dict[str, Any] = {}
    if width is not None:
        changes["width"] = _even_width(cell, what, width)
    if layer is not None:
        changes["layer"] = layer
    section = gf.get_cross_section(cross_section, **changes)
    if not _is_one_strip(section):
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is not one centred strip of constant width; "
            f"use gdsfactory.components.{cell} for it"
        )
    _even_width(cell, what, section.width)
    return section


def _even_width(cell: str, what: str, width: float) -> float:
    """Check that both sides of a centred strip of a width in µm are on the grid."""
    half = check_length(what, width, 2 / GRID_PER_UM, cell) * GRID_PER_UM / 2
    if abs(half - round(half)) > 1e-6:
        raise ValueError(f"{cell}: {what} is {width} µm, half of it is off the 1 nm grid; give an even number of nm")
    return float(width)


def _is_one_strip(section: Any) -> bool:
    """Return whether a cross-section consists of one centred strip of constant width.

    Cross-sections have strips of width and offset until gdsfactory 9, and are those of kfactory from version 10 on.
    """
    if not isinstance(section, BaseModel):
        return bool(section.is_symmetric()) and len(section.get_sections()) == 1
    first: Any = section.sections[0]  # type: ignore[attr-defined]
    varying = first.width_function or first.offset_function or first.insets
    return not (len(section.sections) > 1 or section.components_along_path or first.offset or varying)  # type: ignore[attr-defined]


def layer_index(section: CrossSection) -> int:
    """Return the index of a cross-section's layer in the layout database."""
    layer: Any = section.layer
    return int(gf.kcl.layer(layer) if isinstance(layer, kdb.LayerInfo) else gf.get_layer(layer))


def device_section(cell: str, cross_section: CrossSectionSpec) -> None:
    """Check that a cross-section has the width and layer of the process's guides, as the ports of devices do."""
    section, guide = plain_section(cell, cross_section), gf.get_cross_section("strip")
    layers = [layer_index(one) for one in (section, guide)]
    if section.width != guide.width or layers[0] != layers[1]:
        drawn, joined = (gf.get_layer_name(layer) for layer in layers)
        raise ValueError(
            f"{cell}: cross_section {section.name!r} is {section.width} µm wide on layer {drawn}; the device has ports "
            f"of {guide.width} µm on layer {joined}; leave cross_section out, and join a taper"
        )


def check_radius(cell: str, what: str, radius: float, section: CrossSection, allowed: bool) -> None:
    """Check that a radius in µm, named ``what``, is at least that of the cross-section, unless less is ``allowed``."""
    least = section.radius_min
    # half a step of the grid: an Euler bend is scaled to end on it
    if least is not None and radius < least - 0.5 / GRID_PER_UM and not allowed:
        raise ValueError(
            f"{cell}: {what} is {radius:.3f} µm, guides bend with {least} µm or more; give a larger radius or size, or "
            "allow_min_radius_violation=True, which the design rule check reports"
        )


def chords_per_quarter(radius: float) -> int:
    """Return the number of chords of a 90° arc: that of the process card, and more if the radius is larger.

    The distance between arc and chord grows with the radius and falls with the square of the number of chords.
    """
    guide = active_process().guide
    return math.ceil(guide.chords * math.sqrt(max(radius / float(guide.radius_um), 1.0)) - 1e-9)


def draw_along(c: gf.Component, section: CrossSection, centreline: Points) -> None:
    """Draw a cross-section along a centreline of (n, 2) points in µm, with its bounding boxes."""
    add_polygon(c, ribbon(centreline, section.width), layer_index(section))
    section.add_bbox(c)


def add_section_port(
    c: gf.Component, section: CrossSection, end: int, at: tuple[float, float], orientation: float
) -> None:
    """Add the first (0) or second (1) port of a cross-section at a position in µm, with its outward direction.

    Ports of metal are electrical, e1 and e2; all others are optical, o1 and o2.
    """
    electrical = layer_index(section) == gf.get_layer(active_process().metal.layer)
    c.add_port(
        name=f"{'e' if electrical else 'o'}{end + 1}",
        center=at,
        orientation=orientation,
        width=section.width,
        layer=layer_index(section),
        port_type="electrical" if electrical else "optical",
        cross_section=section,
    )
