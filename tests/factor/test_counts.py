"""MZI counts against the published ratios of arXiv 2603.28290, Tables I and II."""

import numpy as np
import pytest

from optinc_pdk.factor import (
    block_trees,
    network_mzis,
    rectangular,
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
    count = network_mzis(WIDE[case], range(first, last + 1))
    assert abs(100 * count.ratio - percent) <= 0.2


@pytest.mark.parametrize(
    ("first", "last", "percent"), [(4, 6, 49.3), (4, 7, 47.9), (4, 8, 47.4), (3, 6, 43.7), (3, 7, 42.2)]
)
def test_table_2(first: int, last: int, percent: float) -> None:
    count = network_mzis(WIDE["16/4"], range(first, last + 1))
    assert abs(100 * count.ratio - percent) <= 0.2


@pytest.mark.parametrize(("case", "total"), [("8/4", 106_512), ("8/16", 1_744_912), ("16/4", 434_218)])
def test_full_svd_totals(case: str, total: int) -> None:
    count = network_mzis(WIDE[case])
    assert count.mzis == count.mzis_full_svd == total
    assert count.ratio == 1.0


def test_counts_are_those_of_the_meshes() -> None:
    assert rectangular(np.eye(7)).row.size == unitary_mzis(7)
    factor = svd(np.ones((5, 3)))
    assert factor.u.row.size + 5 + factor.v.row.size == svd_mzis(5, 3)
    blocks = unitary_diagonal(np.ones((7, 3)))
    assert sum(mesh.row.size + mesh.modes for mesh in blocks.unitary) == unitary_diagonal_mzis(7, 3)


def test_bad_structures_are_refused() -> None:
    with pytest.raises(ValueError, match=r"widths.*\(4,\)"):
        network_mzis((4,))
    with pytest.raises(ValueError, match=r"layer 3.*1 to 2"):
        network_mzis((4, 8, 4), {2, 3})
    with pytest.raises(ValueError, match=r"out.*0"):
        network_mzis((4, 0, 4))
    with pytest.raises(ValueError, match=r"block.*0"):
        unitary_diagonal_mzis(4, 4, 0)
    with pytest.raises(ValueError, match=r"out.*2\.5"):
        unitary_diagonal_mzis(2.5, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shape", "block", "splitters", "combiners", "levels"),
    [
        ((4, 4), 4, 0, 0, (0, 0)),
        ((8, 4), None, 4, 0, (1, 0)),
        ((4, 12), None, 0, 8, (0, 2)),
        ((6, 6), 2, 12, 12, (2, 2)),
        ((7, 5), 3, 10, 7, (2, 1)),
        ((1, 8), 1, 0, 7, (0, 3)),
    ],
)
def test_trees(
    shape: tuple[int, int], block: int | None, splitters: int, combiners: int, levels: tuple[int, int]
) -> None:
    trees = block_trees(*shape, block, excess_db=0.3)
    assert (trees.splitters, trees.combiners) == (splitters, combiners)
    np.testing.assert_allclose(trees.split_db, levels[0] * (10 * np.log10(2) + 0.3))
    np.testing.assert_allclose(trees.combine_db, levels[1] * (10 * np.log10(2) + 0.3))
    np.testing.assert_allclose(trees.loss_db, trees.split_db + trees.combine_db)


def test_zero_blocks_need_no_trees() -> None:
    matrix = np.kron(np.eye(3), np.ones((2, 2)))
    assert unitary_diagonal(matrix, 2).trees(0.3).loss_db == 0.0
    matrix[:2, 4:] = 1.0
    trees = unitary_diagonal(matrix, 2).trees()
    assert (trees.splitters, trees.combiners) == (2, 2)


def test_loss_of_a_tree_agrees_with_its_fields() -> None:
    """Ideal splitters: four blocks share each input, and four contribute to each output."""
    trees = block_trees(8, 8, 2)
    field = np.sqrt(1 / 4) * np.sqrt(1 / 4)  # a quarter of the power to each block, and from each block to the sum
    np.testing.assert_allclose(10 ** (-trees.loss_db / 20), field)


def test_bad_trees_are_refused() -> None:
    with pytest.raises(ValueError, match=r"excess_db.*-1"):
        block_trees(4, 4, 2, -1.0)
    with pytest.raises(ValueError, match=r"block.*0"):
        block_trees(4, 4, 0)
    with pytest.raises(ValueError, match=r"nonzero.* \(1, 1\)"):
        block_trees(4, 4, 2, nonzero=[[True]])
