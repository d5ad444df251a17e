"""Sizes of matrices without a layout compared with the assembled circuit."""

import numpy as np
import pytest
import scipy.stats

from optinc_pdk.assemble import CARRIER_TREE, draft_matrix
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import flatten
from optinc_pdk.factor import Mesh, MeshKind, MeshShape
from optinc_pdk.matrices import MatrixTarget, factor_matrix
from optinc_pdk.report.chip_size_table import size_markdown, size_rows
from optinc_pdk.report.matrix_size import matrix_size


def columns_of(mesh: Mesh, kind: MeshKind) -> int:
    """Columns of a rectangle of N modes: N; of a triangle: 2N - 3; both have one column for 2 modes."""
    return 1 if mesh.modes == 2 else mesh.modes if kind == "rectangle" else 2 * mesh.modes - 3


def haar(modes: int) -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(modes, seed=1).rvs())


@pytest.mark.parametrize("mesh", ["rectangle", "triangle"])
@pytest.mark.parametrize(
    "target",
    [
        MatrixTarget(haar(4)),
        MatrixTarget(haar(3), read="power"),
        MatrixTarget(np.eye(6)[::-1]),
        MatrixTarget(np.random.default_rng(0).normal(size=(5, 3)), read="real"),
        MatrixTarget(np.random.default_rng(1).normal(size=(2, 7))),
    ],
    ids=["unitary", "powers", "permutation", "tall", "wide"],
)
def test_counts_equal_those_of_the_assembled_chip(target: MatrixTarget, mesh: MeshKind) -> None:
    process, shape = load_process(), MeshShape(mesh)
    size, factors = matrix_size("x", target, process, shape), factor_matrix(target, process, shape)
    flat = flatten(draft_matrix(target, factors, process, "x").complete(CARRIER_TREE))
    assert size.structure == target.matrix.shape[::-1]
    assert size.heaters == len(flat.instances_of("phase_shifter"))
    assert sum(layer.fibres for layer in size.layers) == len(flat.instances_of("grating_coupler"))
    assert size.pads == len(flat.instances_of("pad"))
    assert size.mzis == factors.mzis
    assert size.layers[0].columns == sum(columns_of(each, mesh) for each in factors.meshes) + (factors.attenuators > 0)


def test_the_loss_is_near_to_that_of_built_chips_and_is_not_judged() -> None:
    """results/matrices.json: insertion losses of 15.1, 16.5 and 18.0 dB for Haar unitaries of 4, 6 and 8 modes."""
    process = load_process()
    sizes = [matrix_size("x", MatrixTarget(haar(modes)), process) for modes in (4, 6, 8)]
    assert [size.layers[0].loss_db for size in sizes] == pytest.approx([15.1, 16.5, 18.0], abs=0.6)
    assert "loss" not in sizes[0].limits and sizes[0].light is None
    assert size_rows(sizes)[2]["mzis"] == 28 and "not known" in size_markdown(sizes, process)


def test_a_matrix_for_no_die_exceeds_the_limits() -> None:
    size = matrix_size("x", MatrixTarget(np.random.default_rng(0).normal(size=(64, 60))), load_process())
    assert size.fit == "not buildable" and "pads" in size.exceeded_limits
