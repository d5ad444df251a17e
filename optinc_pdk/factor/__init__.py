"""Matrices to phases: singular values or unitary times diagonal blocks, then rectangular meshes.

Imports numpy only, so that it starts at once.
"""

from optinc_pdk.factor.blocks import BlockFactor, unitary_diagonal
from optinc_pdk.factor.counts import MziCount, structure_mzis, svd_mzis, unitary_diagonal_mzis, unitary_mzis
from optinc_pdk.factor.mesh import Mesh, mzi_transfer
from optinc_pdk.factor.rectangular import rectangular
from optinc_pdk.factor.svd import SvdFactor, svd

__all__ = [
    "BlockFactor",
    "Mesh",
    "MziCount",
    "SvdFactor",
    "mzi_transfer",
    "rectangular",
    "structure_mzis",
    "svd",
    "svd_mzis",
    "unitary_diagonal",
    "unitary_diagonal_mzis",
    "unitary_mzis",
]
