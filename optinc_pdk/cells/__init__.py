"""The cells: ordinary gdsfactory cells, drawn from the cards of the active PDK's process."""

from optinc_pdk.cells.blackboxes import modulator, photodiode
from optinc_pdk.cells.devices import (
    bend,
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

CELLS = {
    cell.__name__: cell
    for cell in (
        attenuator,
        bend,
        bend_s,
        grating_coupler,
        mmi1x2,
        mmi2x2,
        modulator,
        mzi,
        mzi_dummy,
        pad,
        phase_shifter,
        photodiode,
        straight,
        terminator,
    )
}

__all__ = ["CELLS", *CELLS]
