"""Factors of matrices for photonic chips: singular values or diagonal times unitary blocks, then MZI meshes.

The import loads numpy only; numba and scipy are imported where they are used.
"""

from optinc_pdk.factor.block_factors import BlockFactor, unitary_diagonal
from optinc_pdk.factor.correction.layer_correction import LayerCorrection, correct_layer
from optinc_pdk.factor.correction.mesh_correction import Correction, correct, correct_homodyne
from optinc_pdk.factor.counts import (
    MziCount,
    TreeCount,
    block_trees,
    dense_mzis,
    structure_mzis,
    svd_mzis,
    unitary_diagonal_mzis,
    unitary_mzis,
)
from optinc_pdk.factor.devices import Devices, devices, drawn_devices
from optinc_pdk.factor.matrix_structure import Part, Structure, structure
from optinc_pdk.factor.mesh import Mesh, mzi_transfer
from optinc_pdk.factor.part_factors import PartFactor, StructuredFactor, structured
from optinc_pdk.factor.rectangular import rectangular
from optinc_pdk.factor.svd import SvdFactor, heater_phase, svd, svd_generic, svd_search
from optinc_pdk.factor.triangular import triangular

__all__ = [
    "BlockFactor",
    "Correction",
    "Devices",
    "LayerCorrection",
    "Mesh",
    "MziCount",
    "Part",
    "PartFactor",
    "Structure",
    "StructuredFactor",
    "SvdFactor",
    "TreeCount",
    "block_trees",
    "correct",
    "correct_homodyne",
    "correct_layer",
    "dense_mzis",
    "devices",
    "drawn_devices",
    "heater_phase",
    "mzi_transfer",
    "rectangular",
    "structure",
    "structure_mzis",
    "structured",
    "svd",
    "svd_generic",
    "svd_mzis",
    "svd_search",
    "triangular",
    "unitary_diagonal",
    "unitary_diagonal_mzis",
    "unitary_mzis",
]
