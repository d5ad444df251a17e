"""Pictures of matrices of any shape are PNG files that depend on the matrix."""

import numpy as np
import pytest

from optinc_pdk.matrices import MatrixTarget, compare_matrices
from optinc_pdk.report.matrix_picture import matrix_png


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", [(1, 4), (6, 2), (5, 5), (40, 3)])
def test_pictures_show_the_difference(shape: tuple[int, int]) -> None:
    target = MatrixTarget(np.random.default_rng(0).normal(size=shape))
    wrong = target.matrix.copy()
    wrong[0, 0] += 0.2
    exact, other = (matrix_png(compare_matrices(matrix, target)) for matrix in (target.matrix, wrong))
    assert exact.startswith(b"\x89PNG") and other.startswith(b"\x89PNG")
    assert exact != other
    assert exact == matrix_png(compare_matrices(target.matrix, target))
