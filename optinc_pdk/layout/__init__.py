"""Circuits to masks: placement, guides, heater wiring, pads, fibres, the die."""

from optinc_pdk.layout.chip import Chip
from optinc_pdk.layout.floorplan import chip_of, first_circuit, floorplan
from optinc_pdk.layout.write import to_layout, write_gds

__all__ = ["Chip", "chip_of", "first_circuit", "floorplan", "to_layout", "write_gds"]
