"""Layout cells: gdsfactory cells with the dimensions of the active process's cards."""

import gdsfactory as gf
import kfactory as kf

from optinc_pdk.cards import Process
from optinc_pdk.cells.activations import activation_offchip, activation_onchip, homodyne_mixer, splitter_tree
from optinc_pdk.cells.blackboxes import modulator, photodiode
from optinc_pdk.cells.couplers import coupler, coupler_ring, coupler_straight, ring_double, ring_single
from optinc_pdk.cells.devices import (
    bend,
    bend_euler,
    bend_s,
    grating_coupler,
    mmi1x2,
    mmi2x2,
    pad,
    phase_shifter,
    straight,
    terminator,
)
from optinc_pdk.cells.interferometers import attenuator, mzi, mzi_dummy
from optinc_pdk.cells.meshes import mesh, mesh_column
from optinc_pdk.cells.passives import crossing, directional_coupler, edge_coupler, monitor_tap, taper
from optinc_pdk.cells.structures import bump, cutback, die_frame, fibre_array, heater_test

# Mask shops accept cell names of at most 32 characters. kfactory ends a longer name in a hash of the parameters.
kf.config.max_cellname_length = 32

CELLS = {
    cell.__name__: cell
    for cell in (
        activation_offchip,
        activation_onchip,
        attenuator,
        bend,
        bend_euler,
        bend_s,
        bump,
        coupler,
        coupler_ring,
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
        pad,
        phase_shifter,
        photodiode,
        ring_double,
        ring_single,
        splitter_tree,
        straight,
        taper,
        terminator,
    )
}

# Cells that not every process has: those of optional devices and those composed of them, with the cards they need.
REQUIRED_CARDS: dict[str, tuple[str, ...]] = {
    name: (name,)
    for name in (
        "bump",
        "coupler",
        "crossing",
        "directional_coupler",
        "edge_coupler",
        "modulator",
        "monitor_tap",
        "photodiode",
        "taper",
    )
} | {"activation_onchip": ("modulator", "photodiode")}
REQUIRED_CARDS |= dict.fromkeys(("coupler_ring", "coupler_straight", "ring_double", "ring_single"), ("coupler",))


def cells_of(process: Process) -> dict[str, gf.typings.ComponentFactory]:
    """Return the cells that a process can draw, because it has the device cards they need.

    Args:
        process: Process.

    Returns:
        Cell functions by cell name.
    """
    return {name: cell for name, cell in CELLS.items() if process.devices.keys() >= set(REQUIRED_CARDS.get(name, ()))}


__all__ = ["CELLS", "cells_of", *CELLS]
