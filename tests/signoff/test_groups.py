"""A chip with two symbols per input: exact, weighted base 4, and its faults caught by LVS and by the function check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import assemble, preprocessing
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Circuit
from optinc_pdk.drive import SharedGround
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.layout import ChipLayout, floorplan, to_layout, write_gds
from optinc_pdk.networks import carry_chain
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.signoff.function import FunctionResult, check_function, check_scattering, server_errors
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.simulate import program, scattering

PROCESS, TASK = load_process(), Averaging(4, 4, 1)
ONN = carry_chain(TASK)


@dataclass(frozen=True)
class GroupChip:
    """A chip with groups, its layout read back, and its bias."""

    circuit: Circuit
    extraction: Extraction
    bias: Bias
    ground: SharedGround | None


def drawn(circuit: Circuit) -> ChipLayout:
    get_pdk().activate()
    return floorplan(circuit, PROCESS)


def read_back(chip: ChipLayout, path: Path) -> Extraction:
    write_gds(to_layout(chip, PROCESS, "groups"), path)
    return extract(path, PROCESS)


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> GroupChip:
    circuit = assemble(ONN, PROCESS, "groups")
    extraction = read_back(drawn(circuit), tmp_path_factory.mktemp("groups") / "chip.gds")
    ground = wiring_of(extraction, PROCESS).common_ground
    assert circuit.board is not None
    programmed = program(extraction.circuit, circuit.board, ONN, PROCESS, ground=ground)
    return GroupChip(circuit, extraction, programmed.bias, ground)


def check(chip: GroupChip, extraction: Extraction) -> FunctionResult:
    assert chip.circuit.board is not None
    return check_function(extraction.circuit, chip.circuit.board, chip.bias, TASK, PROCESS, chip.ground)


def test_every_word_is_exact_with_base_4_weights(chip: GroupChip) -> None:
    board = chip.circuit.board
    assert board is not None
    assert compare(chip.circuit, chip.extraction, PROCESS).match
    s = scattering(chip.extraction.circuit, chip.bias, 1550.0, PROCESS, ground=chip.ground)
    errors = server_errors(s, board, chip.bias, TASK)
    # relative to the weight of the whole group
    assert np.abs(errors * TASK.symbol_shares).max() < 1e-4
    result = check_scattering(s, board, chip.bias, TASK)
    assert result.coverage == "combinations"
    assert result.inputs == 16**4
    assert result.passed


def test_a_symbol_with_the_label_of_another_weight_is_caught(chip: GroupChip, tmp_path: Path) -> None:
    swapped = drawn(chip.circuit)
    names = {"in_s0_m0": "in_s0_m1", "in_s0_m1": "in_s0_m0"}
    swapped.canvas.texts[:] = [(names.get(text, text), x, y) for text, x, y in swapped.canvas.texts]
    extraction = read_back(swapped, tmp_path / "swapped.gds")
    assert not compare(chip.circuit, extraction, PROCESS).match
    assert check(chip, extraction).accuracy < 0.5


def test_a_symbol_that_enters_a_level_too_early_is_caught(
    chip: GroupChip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preprocessing, "SPARE_DB", 3.0)
    wrong = assemble(ONN, PROCESS, "groups")
    assert len(wrong.instances) == len(chip.circuit.instances) - 2
    extraction = read_back(drawn(wrong), tmp_path / "early.gds")
    assert not compare(chip.circuit, extraction, PROCESS).match
    assert check(chip, extraction).accuracy < 0.9


def test_errors_of_weights_are_relative_to_their_group(chip: GroupChip) -> None:
    board = chip.circuit.board
    assert board is not None
    s = scattering(chip.extraction.circuit, chip.bias, 1550.0, PROCESS, ground=chip.ground)
    weaker = replace(chip.bias, inputs={"in_s2_m1": 0.5})
    share = TASK.symbol_shares
    # a least-squares fit shares the missing part between all symbols
    lost = 0.5 * share[1] ** 2 / (4 * np.sum(share**2))
    errors = server_errors(s, board, weaker, TASK)
    expected = np.full((4, 2), 1 / (1 - lost) - 1)
    expected[2, 1] = 0.5 / (1 - lost) - 1
    np.testing.assert_allclose(errors, expected, atol=1e-3)
