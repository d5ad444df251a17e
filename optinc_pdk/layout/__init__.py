"""From circuits to masks: placement, guides, heater wiring, pads, fibres and dies."""

from optinc_pdk.layout._gds_writer import to_layout, write_gds
from optinc_pdk.layout.chip_layout import ChipLayout
from optinc_pdk.layout.floorplan import floorplan, lay_out, lay_out_network
from optinc_pdk.validation import validate_api

__all__ = ["ChipLayout", "floorplan", "lay_out", "lay_out_network", "to_layout", "write_gds"]

validate_api(__name__)
