"""From circuits to masks: placement, guides, heater wiring, pads, fibres and dies."""

from optinc_pdk.layout.chip import Chip
from optinc_pdk.layout.floorplan import chip_of, floorplan, lay_out
from optinc_pdk.layout.write import to_layout, write_gds

__all__ = ["Chip", "chip_of", "floorplan", "lay_out", "to_layout", "write_gds"]
