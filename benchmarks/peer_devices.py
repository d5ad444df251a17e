"""The mesh in a form that kfactory's netlist extraction accepts: instances in one cell, whose optical ports touch.

Whole MZIs are black boxes with four ports. In the version of devices, every phase shifter, coupler, terminator, grating
coupler and every waveguide between two of them within an MZI is an instance, so that their ports touch.
"""

from __future__ import annotations

from functools import cache

import gdsfactory as gf
import kfactory as kf
import klayout.db as kdb
from bench_layout import placed, slots

from optinc_pdk.cards import Process
from optinc_pdk.cells import grating_coupler
from optinc_pdk.cells.drawing import add_optical
from optinc_pdk.tech import active_process


def whole_mzis(name: str, process: Process, modes: int) -> gf.Component:
    """A mesh of MZIs and their dummies."""
    c = gf.Component(name=name)
    for slot in slots(modes):
        placed(c, process, slot)
    return c


def devices(name: str, process: Process, modes: int) -> gf.Component:
    """The same mesh as devices and waveguides, with a grating coupler at every input and output."""
    c, mesh = gf.Component(name=name), gf.Component()
    for slot in slots(modes):
        _, _, cell, _ = slot
        whole = placed(mesh, process, slot).trans
        for part, at in parts(cell):
            c.create_inst(part, (whole * at).to_dtype(c.kcl.dbu))
    end = max(port.center[0] for cell in mesh.insts for port in cell.ports if port.port_type == "optical")
    pitch = float(process.floorplan.mode_pitch_um)
    for mode in range(modes):
        c.add_ref(grating_coupler()).mirror_x().move((0.0, -mode * pitch))
        c.add_ref(grating_coupler()).move((end, -mode * pitch))
    return c


@cache
def parts(cell: gf.Component) -> list[tuple[kf.DKCell, kdb.Trans]]:
    """Devices and waveguides of a cell with their positions."""
    inner = [(instance.cell, instance.trans) for instance in cell.insts]
    drawn = kdb.Region(cell.shapes(_core(cell))).merged().each()
    return inner + [(_guide(shape), kdb.Trans()) for shape in drawn]


def _core(cell: gf.Component) -> int:
    """Layer of the waveguides."""
    layer: int = cell.kcl.layer(*active_process().layers["core"].gds)
    return layer


def _guide(shape: kdb.Polygon) -> gf.Component:
    """Waveguide with a port at each end: the two axis-parallel edges whose length equals its width."""
    c = gf.Component()
    c.shapes(_core(c)).insert(shape)
    width = round(float(active_process().guide.width_um) / c.kcl.dbu)
    ends = [edge for edge in shape.each_edge() if 0 in (edge.dx(), edge.dy()) and edge.length() == width]
    if len(ends) != 2:
        raise ValueError(f"a waveguide of {shape.num_points()} points has {len(ends)} ends; it must have 2")
    for number, edge in enumerate(ends, 1):
        middle, out = edge.bbox().center().to_dtype(c.kcl.dbu), kdb.Vector(-edge.dy(), edge.dx())
        side = {(1, 0): 0, (0, 1): 90, (-1, 0): 180, (0, -1): 270}[out.x // width, out.y // width]
        add_optical(c, f"o{number}", (middle.x, middle.y), side)
    return c
