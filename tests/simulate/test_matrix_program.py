"""Programming of chips for matrices: voltages and codes, other matrices than built for, and wrong ones."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import optinc_pdk as op
from optinc_pdk.assemble import CARRIER_TREE, draft_matrix, matrix_labels
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Board, Circuit, read_bias, read_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.factor import MeshShape
from optinc_pdk.matrices import (
    MatrixReading,
    MatrixTarget,
    compare_matrices,
    factor_matrix,
    one_mesh,
    two_meshes,
)
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.electrical.wiring import wiring_of
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


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    assert op.build(unitary(3, 0), folder, op.BuildOptions(name="chip")).passed
    return folder / "chip.gds"


@pytest.fixture(scope="module")
def extraction(chip: Path) -> Extraction:
    return extract(chip, PROCESS)


@pytest.mark.full
def test_voltages_and_codes_of_an_array_are_those_of_a_reprogrammed_chip(
    chip: Path, extraction: Extraction, tmp_path: Path
) -> None:
    matrix = unitary(3, 1)
    np.save(tmp_path / "V.npy", matrix)
    ground = wiring_of(extraction, PROCESS).common_ground
    found = op.simulate.program(extraction.circuit, matrix, ground=ground)
    assert found.driven.passed and found.driven.target.read == "field"
    done = op.reprogram(chip, chip.with_suffix(".pic.yml"), matrix, tmp_path, op.ProgramOptions(name="other"))
    assert done.passed
    bias = read_bias(tmp_path / "other.bias.yml")
    assert bias.labels == found.bias.labels
    np.testing.assert_array_equal(found.bias.code, bias.code)
    np.testing.assert_allclose(found.bias.voltage_v, bias.voltage_v, atol=1e-6)
    assert found.bias.code.any()
    others = (tmp_path / "V.npy", str(tmp_path / "V.npy"), MatrixTarget(matrix))
    for given in others:
        same = op.simulate.program(extraction.circuit, given, process="soi220", ground=ground)
        np.testing.assert_array_equal(same.bias.code, bias.code)


def test_the_outputs_are_read_as_stated_else_as_the_chip_allows(extraction: Extraction) -> None:
    circuit, matrix = extraction.circuit, unitary(3, 1)
    target = MatrixTarget(matrix, "power")
    assert op.simulate.program(circuit, target).driven.target.read == "power"
    assert op.simulate.program(circuit, target, read="field").driven.target.read == "field"
    assert op.simulate.program(circuit, matrix, read="power").driven.target.read == "power"


def test_powers_are_read_where_there_are_no_output_phase_shifters(tmp_path: Path) -> None:
    assert op.build(unitary(3, 0), tmp_path, op.BuildOptions(name="chip", read="power")).passed
    circuit = extract(tmp_path / "chip.gds", PROCESS).circuit
    assert op.simulate.program(circuit, unitary(3, 1)).driven.target.read == "power"
    with pytest.raises(InputError, match="no output phase shifters"):
        op.simulate.program(circuit, unitary(3, 1), read="field")


BAD: list[tuple[Any, str]] = [
    (np.full((3, 3), np.nan), r"target\[0, 0\] is nan"),
    (np.full((3, 3), np.inf), r"the matrix\[0, 0\] is inf"),
    (np.eye(4), r"3 outputs and 3 inputs, the matrix has shape \(4, 4\)"),
    (np.ones(3), r"shape \(3,\)"),
    (np.zeros((3, 3)), "all zero"),
    (np.diag([1.0, 1.0, 0.5]), "a chip of one mesh realises unitaries only"),
    (np.ma.masked_array(np.eye(3), mask=np.eye(3)), r"3 masked entries.*\[0, 0\]"),
    ([[1.0, 2.0]], "target = .*give .* an array"),
    ("missing.npy", "missing.npy: cannot be read"),
]


@pytest.mark.parametrize(("target", "message"), BAD)
def test_what_is_no_matrix_of_the_chip_is_refused(extraction: Extraction, target: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        op.simulate.program(extraction.circuit, target)


def test_a_netlist_without_resistances_is_refused_with_the_extraction_as_remedy(chip: Path) -> None:
    with pytest.raises(InputError, match=r"no resistances of heaters.*extract"):
        op.simulate.program(Circuit.read(chip.with_suffix(".pic.yml")), unitary(3, 1))


def test_arguments_without_effect_are_refused(extraction: Extraction) -> None:
    circuit, onn, board = extraction.circuit, carry_chain(Averaging(2, 2, 1)), Board("", (), (), (), (), ())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"target": unitary(3, 1), "onn": onn}, "onn has no effect"),
        ({"target": unitary(3, 1), "inputs": [1.0]}, "inputs has no effect"),
        ({"target": unitary(3, 1), "factors": []}, "factors has no effect"),
        ({"target": board}, "onn is None, and target is a board"),
        ({"target": board, "onn": onn, "read": "field"}, "read has no effect"),
    ]
    for arguments, message in wrong:
        with pytest.raises(InputError, match=message):
            op.simulate.program(circuit, **arguments)


def test_a_network_is_no_matrix(tmp_path: Path) -> None:
    assert op.build(carry_chain(Averaging(2, 2, 1)), tmp_path, op.BuildOptions(name="words")).passed
    circuit = read_netlist(tmp_path / "words.pic.yml")
    with pytest.raises(InputError, match=r"no fibres in_r0, out_r0"):
        op.simulate.program(circuit, unitary(3, 1))
