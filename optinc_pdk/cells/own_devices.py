"""Cells of devices that a process brings along: their cards state a layout file or a function that draws them."""

from __future__ import annotations

from functools import cache

import gdsfactory as gf

from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.device_drawings import DeviceDrawing, DrawnPort, draw_device
from optinc_pdk.cells.drawing import add_electrical
from optinc_pdk.cells.golden_polygons import check_current, golden_of_drawing
from optinc_pdk.tech import active_process

NM = 0.001
"""A nanometre in µm."""


@cache
def own_cell(name: str) -> gf.typings.ComponentFactory:
    """Return the cell function of a device that the card of the active process states a cell for.

    The component has the shapes of the device without any hierarchy, and the ports of its card.

    Args:
        name: Device name, which is the name of the function.

    Returns:
        A function without arguments. It raises ``CardError`` if the layout cannot be used, or if it is not that of the
        recognition polygons.
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
    at = port.at_nm[0] * NM, port.at_nm[1] * NM
    if port.kind == "electrical":
        add_electrical(component, name, at, port.angle_deg)
        return
    strip = gf.get_cross_section("strip")
    section = strip if port.kind == "fibre" else gf.get_cross_section("strip", width=port.width_nm * NM)
    kind = "vertical_te" if port.kind == "fibre" else "optical"
    component.add_port(name=name, center=at, orientation=port.angle_deg, cross_section=section, port_type=kind)
