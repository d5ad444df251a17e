"""A chip of bits only whose layers are chains of MZIs for each row: built with all checks, and with one wrong phase."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_netlist
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.closed_form.comparator_search import candidate_network, evaluate
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.stages import Build
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import check_function
from optinc_pdk.studies.rate_search import _all_bits


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    folder, task = tmp_path_factory.mktemp("rows"), Averaging(4, 4, 2)
    candidate = evaluate(task, *next(_all_bits(task, 8.0)))
    assert candidate is not None
    onn = candidate_network(task, candidate)
    replace(onn, factor=("rows",) * len(onn.layers)).save(folder / "bits.npz")
    return build(folder / "bits.npz", folder)


def file(chip: Build, ending: str) -> Path:
    return chip.directory / f"bits{ending}"


def test_the_chip_passes(chip: Build) -> None:
    report = chip.report
    assert chip.passed, chip.findings
    assert report.lvs is not None and report.lvs.match
    assert report.function is not None and report.function.exact == report.function.inputs == 65_536
    assert report.factor is not None and report.factor.mzis == 37
    assert report.chip is not None and report.chip.mzis == 37


def test_a_wrong_phase_of_one_mzi_is_found(chip: Build) -> None:
    process, onn = load_process(), AveragingNetwork.load(chip.directory / "bits.npz")
    read = read_extracted_chip(*(file(chip, ending) for ending in (".gds", ".pic.yml", ".bias.yml")), process)
    board = read_netlist(file(chip, ".pic.yml")).board
    assert board is not None
    at = read.bias.labels.index("l1_v_c3_r3_theta")
    code = np.where(np.arange(read.bias.code.size) == at, 0, read.bias.code)
    for bias, passes in ((read.bias, True), (replace(read.bias, code=code), False)):
        found = check_function(read.circuit, board, bias, onn.task, process, read.ground, onn=onn)
        assert found.passed == passes
