"""MZI counts against the published ratios of arXiv 2603.28290, Tables I and II."""

import numpy as np
import pytest

from optinc_pdk.factor import (
    rectangular,
    structure_mzis,
    svd,
    svd_mzis,
    unitary_diagonal,
    unitary_diagonal_mzis,
    unitary_mzis,
)

WIDE = {
    "8/4": (4, 64, 128, 256, 128, 64, 4),
    "8/8": (4, 64, 128, 256, 512, 256, 128, 64, 4),
    "8/16": (4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4),
    "16/4": (4, 64, 128, 256, 512, 256, 128, 64, 8),
}


@pytest.mark.parametrize(
    ("case", "first", "last", "percent"),
    [("8/4", 1, 6, 39.3), ("8/8", 2, 7, 40.9), ("8/16", 2, 9, 40.4), ("16/4", 4, 6, 49.3)],
)
def test_table_1(case: str, first: int, last: int, percent: float) -> None:
    count = structure_mzis(WIDE[case], range(first, last + 1))
    assert abs(100 * count.ratio - percent) <= 0.2


@pytest.mark.parametrize(
    ("first", "last", "percent"), [(4, 6, 49.3), (4, 7, 47.9), (4, 8, 47.4), (3, 6, 43.7), (3, 7, 42.2)]
)
def test_table_2(first: int, last: int, percent: float) -> None:
    count = structure_mzis(WIDE["16/4"], range(first, last + 1))
    assert abs(100 * count.ratio - percent) <= 0.2


@pytest.mark.parametrize(("case", "total"), [("8/4", 106_512), ("8/16", 1_744_912), ("16/4", 434_218)])
def test_full_svd_totals(case: str, total: int) -> None:
    count = structure_mzis(WIDE[case])
    assert count.mzis == count.mzis_full_svd == total
    assert count.ratio == 1.0


def test_counts_are_those_of_the_meshes() -> None:
    assert rectangular(np.eye(7)).row.size == unitary_mzis(7)
    factor = svd(np.ones((5, 3)))
    assert factor.u.row.size + 5 + factor.v.row.size == svd_mzis(5, 3)
    blocks = unitary_diagonal(np.ones((7, 3)))
    assert sum(mesh.row.size + mesh.modes for mesh in blocks.unitary) == unitary_diagonal_mzis(7, 3)


def test_bad_structures_are_refused() -> None:
    with pytest.raises(ValueError, match="at least the inputs"):
        structure_mzis((4,))
    with pytest.raises(ValueError, match="layer 3; there are layers 1 to 2"):
        structure_mzis((4, 8, 4), {2, 3})
    with pytest.raises(ValueError, match="out is 0"):
        structure_mzis((4, 0, 4))
    with pytest.raises(ValueError, match="block is 0"):
        unitary_diagonal_mzis(4, 4, 0)
