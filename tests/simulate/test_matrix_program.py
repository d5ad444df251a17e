"""Programming of assembled chips for matrices: other matrices than those they were built for, and wrong ones."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

from optinc_pdk.assemble import CARRIER_TREE, draft_matrix, matrix_labels
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshShape
from optinc_pdk.matrices import (
    MatrixReading,
    MatrixTarget,
    compare_matrices,
    factor_matrix,
    one_mesh,
    two_meshes,
)
from optinc_pdk.simulate import program_matrix, scattering
from optinc_pdk.simulate.circuit_optics import analyse

PROCESS = load_process()


def unitary(modes: int, seed: int) -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(modes, seed=seed).rvs())


def assembled(matrix: np.ndarray, read: MatrixReading = "field") -> Circuit:
    target = MatrixTarget(matrix, read)
    return draft_matrix(target, factor_matrix(target, PROCESS), PROCESS, "chip").complete(CARRIER_TREE)


@pytest.mark.parametrize("read", ["field", "power"])
def test_a_chip_is_programmed_for_another_matrix_and_simulated_with_it(read: MatrixReading) -> None:
    rng = np.random.default_rng(5)
    chip = assembled(rng.normal(size=(3, 4)), read)
    target = MatrixTarget(rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4)), read)
    errors: list[float] = []
    found = program_matrix(chip, target, PROCESS, progress=lambda _, error: errors.append(error))
    assert found.fitted.worst < 2e-3
    assert errors and min(errors) <= found.start.rms
    # without a layout there are no codes: the phases of the bias drive the chip
    phases = dict(zip(found.bias.labels, found.bias.phase_rad.tolist(), strict=True))
    inputs, outputs = matrix_labels(target)
    s = scattering(chip, phases, float(PROCESS.guide.wavelength_nm), PROCESS)
    assert compare_matrices(s.between(outputs, inputs)[0], target).worst == pytest.approx(found.fitted.worst, abs=1e-9)


def test_a_chip_of_two_meshes_takes_unitaries_and_permutations() -> None:
    chip = assembled(np.diag([1.0, 0.5, 0.2]))
    for matrix in (unitary(3, 1), np.eye(3)[::-1]):
        assert program_matrix(chip, MatrixTarget(matrix), PROCESS).fitted.passed


@pytest.mark.parametrize(
    ("matrix", "attenuators"),
    [
        (np.arange(12.0).reshape(3, 4), 2),
        (np.outer([1, 2, 3, 4], [1, -1, 2j]), 1),
        (np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]]), 2),
        (np.diag([1.0, 0.3, 1e-4]), 2),
    ],
)
def test_singular_values_near_zero_get_no_attenuator(matrix: Any, attenuators: int) -> None:
    chip = assembled(matrix)
    assert sum("_att_" in label for label in analyse(chip).channel) == attenuators
    assert program_matrix(chip, MatrixTarget(matrix), PROCESS).fitted.worst < 5e-3
    with pytest.raises(InputError, match=rf"has {attenuators} attenuators, .* has rank {min(matrix.shape)}: build a"):
        program_matrix(chip, MatrixTarget(np.random.default_rng(0).normal(size=matrix.shape)), PROCESS)


def test_a_chip_of_one_mesh_takes_unitaries_only() -> None:
    chip = assembled(unitary(3, 0))
    assert program_matrix(chip, MatrixTarget(unitary(3, 1)), PROCESS).fitted.passed
    with pytest.raises(InputError, match=r"0\.5 of the largest"):
        program_matrix(chip, MatrixTarget(np.diag([1.0, 0.7, 0.5])), PROCESS)


def test_chips_of_another_shape_or_reading_are_refused() -> None:
    chip = assembled(unitary(3, 0), "power")
    with pytest.raises(InputError, match="3 outputs and 3 inputs"):
        program_matrix(chip, MatrixTarget(unitary(2, 0), "power"), PROCESS)
    with pytest.raises(InputError, match="has no output phase shifters; give read = 'power' or 'real'"):
        program_matrix(chip, MatrixTarget(unitary(3, 1)), PROCESS)
    target = MatrixTarget(unitary(3, 1), "power")
    with pytest.raises(ValueError, match="l0_v"):
        program_matrix(chip, target, PROCESS, two_meshes(target, PROCESS))


def test_redundant_columns_reach_a_permutation_in_one_mesh_and_take_another_matrix() -> None:
    permutation = np.eye(8)[[3, 5, 0, 7, 1, 6, 2, 4]]
    # without a layout the guides have no lengths, so that reflections are stronger than on the chip
    target, shape = MatrixTarget(permutation, tolerance=0.02), MeshShape(extra_columns=2)
    factor = factor_matrix(target, PROCESS, shape)
    assert factor.v is None and factor.mzis == 28 + 7
    chip = draft_matrix(target, factor, PROCESS, "chip").complete(CARRIER_TREE)
    assert program_matrix(chip, target, PROCESS, factor).fitted.passed
    # the shape of the mesh is read from the circuit
    assert program_matrix(chip, MatrixTarget(unitary(8, 3), tolerance=0.02), PROCESS).fitted.passed


def test_a_triangular_mesh_is_programmed() -> None:
    target = MatrixTarget(unitary(4, 0))
    factors = one_mesh(target, MeshShape("triangle"))
    chip = draft_matrix(target, factors, PROCESS, "chip").complete(CARRIER_TREE)
    assert program_matrix(chip, target, PROCESS, factors).fitted.passed
