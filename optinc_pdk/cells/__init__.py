"""The cells: ordinary gdsfactory cells, drawn from the cards of the active PDK's process."""

from optinc_pdk.cells.blackboxes import modulator, photodiode
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
from optinc_pdk.cells.passives import crossing, directional_coupler, edge_coupler, monitor_tap, taper

CELLS = {
    cell.__name__: cell
    for cell in (
        attenuator,
        bend,
        bend_euler,
        bend_s,
        crossing,
        directional_coupler,
        edge_coupler,
        grating_coupler,
        mmi1x2,
        mmi2x2,
        modulator,
        monitor_tap,
        mzi,
        mzi_dummy,
        pad,
        phase_shifter,
        photodiode,
        straight,
        taper,
        terminator,
    )
}

__all__ = ["CELLS", *CELLS]
