"""Assembly of networks into circuits, with the label of every pad and fibre."""

from optinc_pdk.assemble.blocks import Block, layer_blocks
from optinc_pdk.assemble.buildability import check_buildable, check_weights
from optinc_pdk.assemble.chip import (
    CircuitDraft,
    assemble,
    complete,
    draft_circuit,
    mesh_chip,
)
from optinc_pdk.assemble.die_plan import CARRIER_TREE, LOCAL_STRIPS, DiePlan
from optinc_pdk.assemble.grounds import strip_names
from optinc_pdk.assemble.mesh import rectangular_slots

__all__ = [
    "CARRIER_TREE",
    "LOCAL_STRIPS",
    "Block",
    "CircuitDraft",
    "DiePlan",
    "assemble",
    "check_buildable",
    "check_weights",
    "complete",
    "draft_circuit",
    "layer_blocks",
    "mesh_chip",
    "rectangular_slots",
    "strip_names",
]
