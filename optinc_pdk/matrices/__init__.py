"""Matrices as chips: what a chip multiplies by, how it is read and judged, and its factors."""

from optinc_pdk.matrices.matrix_factor import RECTANGLE, MatrixFactor, factor_matrix, one_mesh, two_meshes
from optinc_pdk.matrices.target import READINGS, TOLERANCE, MatrixComparison, MatrixTarget, compare_matrices
from optinc_pdk.options import MatrixReading
from optinc_pdk.validation import validate_api

__all__ = [
    "READINGS",
    "RECTANGLE",
    "TOLERANCE",
    "MatrixComparison",
    "MatrixFactor",
    "MatrixReading",
    "MatrixTarget",
    "compare_matrices",
    "factor_matrix",
    "one_mesh",
    "two_meshes",
]

validate_api(__name__)
