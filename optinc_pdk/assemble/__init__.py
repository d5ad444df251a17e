"""Networks to circuits, with every pad's and fibre's label."""

from optinc_pdk.assemble.blocks import Block, layer_blocks
from optinc_pdk.assemble.chip import assemble, check_buildable, check_weights, mesh_chip
from optinc_pdk.assemble.grounds import strip_names
from optinc_pdk.assemble.mesh import rectangular_slots

__all__ = [
    "Block",
    "assemble",
    "check_buildable",
    "check_weights",
    "layer_blocks",
    "mesh_chip",
    "rectangular_slots",
    "strip_names",
]
