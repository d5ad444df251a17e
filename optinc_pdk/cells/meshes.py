"""Cells of rectangular meshes: a column is an array of MZIs, and a mesh consists of two arrays of columns."""

from __future__ import annotations

import gdsfactory as gf

from optinc_pdk.cards import Process
from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.drawing import LIMIT_UM, add_electrical, add_optical, check_count, place_cell
from optinc_pdk.cells.interferometers import mzi_dummy, mzi_positions, mzi_unit
from optinc_pdk.tech import active_process


def column_count(modes: int) -> int:
    """Return the number of columns of a rectangular mesh: N for N ≥ 3 modes, 1 for two modes.

    Source: Clements et al., Optica 3, 1460 (2016).
    """
    return modes if modes > 2 else 1


def _check_modes(modes: int, process: Process, cell: str) -> int:
    """Check that a mesh has 2 modes or more and is smaller than 1 m."""
    longest = max(mzi_positions(process).end, float(process.floorplan.mode_pitch_um))
    return check_count("modes", modes, 2, int(LIMIT_UM / longest), cell)


@cell
def mesh_column(modes: int = 4, column: int = 0) -> gf.Component:
    """Column of a rectangular mesh: an array of MZIs, and a dummy MZI on every edge mode without a partner.

    Optical ports are numbered clockwise from the lower left. e(4i+1) to e(4i+4) are e1 to e4 of the i-th MZI from the
    top, i from 0.

    Args:
        modes: Number of modes; the first is at y = 0, the others are below.
        column: Number of the column from 0; in odd columns the MZIs start at the second mode.

    Raises:
        ValueError: ``modes`` is below 2 or the mesh would be larger than 1 m, or it has no such column.
    """
    process = active_process()
    _check_modes(modes, process, "mesh_column")
    check_count("column", column, 0, column_count(modes) - 1, "mesh_column")
    c = gf.Component()
    pitch, end = float(process.floorplan.mode_pitch_um), mzi_positions(process).end
    first = column % 2
    count = (modes - first) // 2
    inside = mzi_unit()
    array = c.add_ref(inside, rows=count, row_pitch=2 * pitch)
    array.dmove((0.0, -(first + 2 * count - 2) * pitch))
    if first:
        place_cell(c, mzi_dummy(), (0.0, 0.0))
    if (modes - first) % 2:
        # the last dummy extends away from the mesh
        place_cell(c, mzi_dummy(), (0.0, -(modes - 1) * pitch), mirror=True)
    _mode_ports(c, modes, pitch, end)
    for i in range(count):
        for k in range(1, 5):
            port = inside.ports[f"e{k}"]
            at = (port.center[0], port.center[1] - (first + 2 * i) * pitch)
            add_electrical(c, f"e{4 * i + k}", at, port.orientation)
    return c


@cell
def mesh(modes: int = 4) -> gf.Component:
    """Rectangular mesh of MZIs, with dummy MZIs in its idle edge slots, so that all paths have the same loss.

    Optical ports are numbered clockwise from the lower left. The heaters have no ports here, because a large mesh has
    tens of thousands: use the ports of its columns.

    Args:
        modes: Number of modes; the first is at y = 0, the others are below.

    Raises:
        ValueError: ``modes`` is below 2, or the mesh would be larger than 1 m.
    """
    process = active_process()
    _check_modes(modes, process, "mesh")
    c = gf.Component()
    pitch, end, columns = float(process.floorplan.mode_pitch_um), mzi_positions(process).end, column_count(modes)
    for parity in range(min(columns, 2)):
        half = c.add_ref(mesh_column(modes, parity), columns=(columns - parity + 1) // 2, column_pitch=2 * end)
        half.dmove((parity * end, 0.0))
    _mode_ports(c, modes, pitch, columns * end)
    return c


def _mode_ports(c: gf.Component, modes: int, pitch: float, end: float) -> None:
    """Add optical ports clockwise from the lower left."""
    for i in range(modes):
        add_optical(c, f"o{i + 1}", (0.0, -(modes - 1 - i) * pitch), 180)
    for i in range(modes):
        add_optical(c, f"o{modes + i + 1}", (end, -i * pitch), 0)
