"""Layout cells: gdsfactory cells with the dimensions of the active process's cards."""

from functools import partial
from typing import Any

import gdsfactory as gf

from optinc_pdk.cards import Process
from optinc_pdk.cells._activations import activation_offchip, activation_onchip, homodyne_mixer, splitter_tree
from optinc_pdk.cells._devices import (
    crossing,
    directional_coupler,
    edge_coupler,
    grating_coupler,
    mmi1x2,
    mmi2x2,
    modulator,
    monitor_tap,
    pad,
    phase_shifter,
    photodiode,
    straight_heater_metal,
    taper,
    terminator,
)
from optinc_pdk.cells._guides import bend_circular, bend_euler, bend_s, straight, wire_corner, wire_straight
from optinc_pdk.cells._structures import bump, cutback, die_frame, fibre_array, heater_test
from optinc_pdk.cells.couplers import (
    coupler,
    coupler_ring,
    coupler_ring_bend,
    coupler_straight,
    ring_double,
    ring_single,
    ring_single_bend_coupler,
)
from optinc_pdk.cells.interferometers import (
    attenuator,
    mesh,
    mesh_column,
    mzi,
    mzi_dummy,
    mzi_unit,
)
from optinc_pdk.cells.own_devices import own_cell

CELLS = {
    cell.__name__: cell
    for cell in (
        activation_offchip,
        activation_onchip,
        attenuator,
        bend_circular,
        bend_euler,
        bend_s,
        bump,
        coupler,
        coupler_ring,
        coupler_ring_bend,
        coupler_straight,
        crossing,
        cutback,
        die_frame,
        directional_coupler,
        edge_coupler,
        fibre_array,
        grating_coupler,
        heater_test,
        homodyne_mixer,
        mesh,
        mesh_column,
        mmi1x2,
        mmi2x2,
        modulator,
        monitor_tap,
        mzi,
        mzi_dummy,
        mzi_unit,
        pad,
        phase_shifter,
        photodiode,
        ring_double,
        ring_single,
        ring_single_bend_coupler,
        splitter_tree,
        straight,
        straight_heater_metal,
        taper,
        terminator,
        wire_corner,
        wire_straight,
    )
}

# Devices that each cell is drawn with, which a process must have, with their dimensions in the cards.
_MZI = ("mmi2x2", "phase_shifter", "terminator")
_COUPLED = (
    "coupler_ring",
    "coupler_ring_bend",
    "coupler_straight",
    "ring_double",
    "ring_single",
    "ring_single_bend_coupler",
)
REQUIRED_CARDS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("bump", "coupler", "crossing", "directional_coupler", "edge_coupler")},
    **{name: (name,) for name in ("grating_coupler", "mmi1x2", "mmi2x2", "modulator", "monitor_tap", "pad")},
    **{name: (name,) for name in ("phase_shifter", "photodiode", "taper", "terminator")},
    **dict.fromkeys(_COUPLED, ("coupler",)),
    **dict.fromkeys(("attenuator", "mesh", "mesh_column", "mzi_dummy", "mzi_unit"), _MZI),
    "activation_offchip": ("grating_coupler", "mmi2x2", "phase_shifter"),
    "activation_onchip": ("mmi2x2", "modulator", "phase_shifter", "photodiode"),
    "cutback": ("grating_coupler",),
    "fibre_array": ("grating_coupler",),
    "heater_test": ("pad", "phase_shifter", "terminator"),
    "homodyne_mixer": ("mmi2x2", "phase_shifter"),
    "mzi": ("mmi1x2",),
    "splitter_tree": ("mmi1x2",),
    "straight_heater_metal": ("phase_shifter",),
}

# Further names by which gdsfactory's functions ask for cells. Netlists state the cell's own name.
ALIASES = {"grating_coupler_elliptical": "grating_coupler", "grating_coupler_te": "grating_coupler"}


def cells_of(process: Process) -> dict[str, gf.typings.ComponentFactory]:
    """Return the cells that a process can draw: those of the package for which it has the devices, and its own devices.

    A device whose card states a cell takes the place of the package's cell of its name. Circuits of the package that
    are drawn with that device are left out, except ``mzi``, which takes its splitter from the PDK. So are those with
    heaters if the heaters of the process are of another PDK.

    Returns:
        Cell functions by cell name, sorted.
    """
    own = {name: own_cell(name) for name, card in process.devices.items() if card.cell is not None}
    drawn = process.devices.keys() - own.keys() - ({"phase_shifter"} if process.has_foreign_heaters else set())
    of_package = {
        name: cell
        for name, cell in CELLS.items()
        if set(REQUIRED_CARDS.get(name, ())) <= (process.devices.keys() if name == "mzi" else drawn)
    }
    return dict(sorted((of_package | own).items()))


def aliases_of(process: Process) -> dict[str, gf.typings.ComponentFactory]:
    """Return the cells of a process by the further names by which gdsfactory's functions ask for them."""
    cells = cells_of(process)
    return {alias: cells[name] for alias, name in ALIASES.items() if name in cells and alias not in cells}


def layer_transitions(process: Process, layers: Any) -> dict[Any, gf.typings.ComponentSpec]:
    """Return the tapers that gdsfactory's routers insert between a port and a route of another width.

    Keys are the layers of metal and silicon, attributes of ``layers``, a gdsfactory `LayerEnum` of the process.
    """
    ends, kinds = ("e1", "e2"), ("electrical", "electrical")
    wires = partial(taper, cross_section="metal_routing", port_names=ends, port_types=kinds)
    tapers: dict[Any, gf.typings.ComponentSpec] = {getattr(layers, process.metal.layer): wires}
    return tapers | ({layers.core: taper} if "taper" in cells_of(process) else {})


__all__ = ["ALIASES", "CELLS", "aliases_of", "cells_of", "layer_transitions", *CELLS]
