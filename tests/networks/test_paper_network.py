"""The paper's network: its start in copies of comparators, and the trained file."""

import sys
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks import AveragingNetwork, lattice_score, matrix_error_accuracy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STRUCTURE = (4, 64, 128, 256, 128, 64, 4)


@pytest.fixture(scope="module")
def design():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import paper_network
    finally:
        sys.path.remove(str(BENCHMARKS))
    return paper_network


def paper_structure(onn):
    """Whether a network has the paper's structure and count, and its weights are blocks without an approximation."""
    errors = [unitary_diagonal(layer.weight, how[1]).error for layer, how in zip(onn.layers, onn.factor, strict=True)]
    return onn.structure == STRUCTURE and onn.mzis == 41_664 and max(errors) < 1e-12


def test_start_is_exact_and_consists_of_blocks(design):
    onn = design.start()
    result = lattice_score(onn)
    assert paper_structure(onn)
    assert result.exact == 28_561
    assert result.margin > 0.499


def test_trained_network_is_exact_and_tolerates_errors():
    onn = AveragingNetwork.load(BENCHMARKS / "paper_8bit_4servers.npz")
    result = lattice_score(onn)
    assert paper_structure(onn)
    assert result.exact == 28_561
    assert result.margin == pytest.approx(onn.card["margin"], abs=1e-4)
    assert matrix_error_accuracy(onn, 2e-3, draws=2, sample=2048) > 0.999


def test_rows_of_a_block_are_orthogonal_and_compute_their_units(design):
    rng = np.random.default_rng(3)
    columns = ["x0"] * 5 + ["t1"] * 4 + design.comparators(1) * 2 + ["one"]
    rows = ["d2"] * 4 + ["x0"] * 6 + ["one"] * 6
    block = design.orthogonal_block(columns, rows, rng)
    used = np.array(rows) != "one"
    products = block[used] @ block[used].T
    assert products == pytest.approx(np.diag(np.diag(products)), abs=1e-12)
    # equal copies of x0 = 0.3, t1 = 0.9 and the comparators 1, 1, 0
    values = {"x0": 0.3, "t1": 0.9, "one": 1.0} | dict(zip(design.comparators(1), (1.0, 1.0, 0.0), strict=True))
    signals = block @ [values[column] for column in columns]
    assert signals == pytest.approx([5 * 0.9 - 8 / 3] * 4 + [0.3] * 6 + [0.0] * 6)


def test_directions_without_a_row_are_an_error(design):
    with pytest.raises(AssertionError, match="constant unit"):
        design.orthogonal_block(["x0", "x1"], ["x0", "x0"], np.random.default_rng(0))
