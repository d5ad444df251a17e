"""Factors of matrices for photonic chips: singular values or diagonal times unitary blocks, then MZI meshes.

The import loads numpy only; numba and scipy are imported where they are used.
"""

from optinc_pdk.factor._block_factors import BlockFactor, unitary_diagonal
from optinc_pdk.factor._decomposition import rectangular, triangular
from optinc_pdk.factor._matrix_structure import (
    MatrixPart,
    MatrixStructure,
    PartFactor,
    StructuredFactor,
    factor_by_parts,
    find_structure,
)
from optinc_pdk.factor._row_factors import (
    RowFactor,
    RowsFactor,
    chain_depth,
    chain_output,
    chain_positions,
    row_factor,
)
from optinc_pdk.factor._svd import (
    BlockDiagonalFactor,
    SvdFactor,
    svd,
    svd_generic,
    svd_mixed,
    svd_search,
    total_heater_phase,
)
from optinc_pdk.factor.counts import (
    MziCount,
    TreeCount,
    block_trees,
    dense_mzis,
    network_mzis,
    svd_mzis,
    unitary_diagonal_mzis,
    unitary_mzis,
)
from optinc_pdk.factor.mesh import Mesh, mzi_transfer
from optinc_pdk.factor.mesh_devices import MeshDevices, mesh_devices, random_mesh_devices
from optinc_pdk.factor.mesh_shape import MeshShape, shape_of
from optinc_pdk.options import MeshKind
from optinc_pdk.validation import validate_api

__all__ = [
    "BlockDiagonalFactor",
    "BlockFactor",
    "MatrixPart",
    "MatrixStructure",
    "Mesh",
    "MeshDevices",
    "MeshKind",
    "MeshShape",
    "MziCount",
    "PartFactor",
    "RowFactor",
    "RowsFactor",
    "StructuredFactor",
    "SvdFactor",
    "TreeCount",
    "block_trees",
    "chain_depth",
    "chain_output",
    "chain_positions",
    "dense_mzis",
    "factor_by_parts",
    "find_structure",
    "mesh_devices",
    "mzi_transfer",
    "network_mzis",
    "random_mesh_devices",
    "rectangular",
    "row_factor",
    "shape_of",
    "svd",
    "svd_generic",
    "svd_mixed",
    "svd_mzis",
    "svd_search",
    "total_heater_phase",
    "triangular",
    "unitary_diagonal",
    "unitary_diagonal_mzis",
    "unitary_mzis",
]

validate_api(__name__)
