"""Assembly of trained networks into circuits: netlist, floorplan sections, and labels of all pads and fibres."""

from optinc_pdk.assemble._component_library import check_devices
from optinc_pdk.assemble._network_circuit import (
    CircuitDraft,
    assemble,
    check_buildable,
    check_weights,
    complete_circuit,
    draft_circuit,
    mesh_chip,
)
from optinc_pdk.assemble._weight_blocks import (
    WeightBlock,
    chain_slots,
    layer_blocks,
    mesh_depth,
    mesh_slots,
    rectangular_slots,
)
from optinc_pdk.assemble.die_plan import CARRIER_TREE, LOCAL_STRIPS, CircuitPlan, DiePlan, strip_names
from optinc_pdk.assemble.matrix_circuit import (
    MatrixDraft,
    MatrixForm,
    draft_matrix,
    factor_for_chip,
    matrix_form,
    matrix_labels,
)
from optinc_pdk.assemble.preprocessing import preprocessing_loss_db, symbol_levels
from optinc_pdk.validation import validate_api

__all__ = [
    "CARRIER_TREE",
    "LOCAL_STRIPS",
    "CircuitDraft",
    "CircuitPlan",
    "DiePlan",
    "MatrixDraft",
    "MatrixForm",
    "WeightBlock",
    "assemble",
    "chain_slots",
    "check_buildable",
    "check_devices",
    "check_weights",
    "complete_circuit",
    "draft_circuit",
    "draft_matrix",
    "factor_for_chip",
    "layer_blocks",
    "matrix_form",
    "matrix_labels",
    "mesh_chip",
    "mesh_depth",
    "mesh_slots",
    "preprocessing_loss_db",
    "rectangular_slots",
    "strip_names",
    "symbol_levels",
]

validate_api(__name__)
