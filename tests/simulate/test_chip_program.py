"""One function programs chips of matrices and of networks: voltages and codes, without private functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import optinc_pdk as op
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Board, Circuit, read_bias, read_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.matrices import MatrixTarget
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.electrical.wiring import wiring_of

PROCESS = load_process()


def unitary(seed: int, modes: int = 3) -> np.ndarray:
    return np.asarray(scipy.stats.unitary_group(modes, seed=seed).rvs())


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chip")
    assert op.build(unitary(0), folder, op.BuildOptions(name="chip")).passed
    return folder / "chip.gds"


@pytest.fixture(scope="module")
def extraction(chip: Path) -> Extraction:
    return extract(chip, PROCESS)


@pytest.mark.full
def test_voltages_and_codes_of_an_array_are_those_of_a_reprogrammed_chip(
    chip: Path, extraction: Extraction, tmp_path: Path
) -> None:
    matrix = unitary(1)
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
    circuit, matrix = extraction.circuit, unitary(1)
    target = MatrixTarget(matrix, "power")
    assert op.simulate.program(circuit, target).driven.target.read == "power"
    assert op.simulate.program(circuit, target, read="field").driven.target.read == "field"
    assert op.simulate.program(circuit, matrix, read="power").driven.target.read == "power"


def test_powers_are_read_where_there_are_no_output_phase_shifters(tmp_path: Path) -> None:
    assert op.build(unitary(0), tmp_path, op.BuildOptions(name="chip", read="power")).passed
    circuit = extract(tmp_path / "chip.gds", PROCESS).circuit
    assert op.simulate.program(circuit, unitary(1)).driven.target.read == "power"
    with pytest.raises(InputError, match="no output phase shifters"):
        op.simulate.program(circuit, unitary(1), read="field")


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
        op.simulate.program(Circuit.read(chip.with_suffix(".pic.yml")), unitary(1))


def test_arguments_without_effect_are_refused(extraction: Extraction) -> None:
    circuit, onn, board = extraction.circuit, carry_chain(Averaging(2, 2, 1)), Board("", (), (), (), (), ())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"target": unitary(1), "onn": onn}, "onn has no effect"),
        ({"target": unitary(1), "inputs": [1.0]}, "inputs has no effect"),
        ({"target": unitary(1), "factors": []}, "factors has no effect"),
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
        op.simulate.program(circuit, unitary(1))
