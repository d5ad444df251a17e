"""The layout of an extracted chip is read once; files that do not belong together are refused before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import read_netlist, write_bias, write_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract, mask_layout
from optinc_pdk.layout import lay_out_network, to_layout, write_gds
from optinc_pdk.networks import carry_chain
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.electrical.wiring import read_wiring
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.simulate import program

ENDINGS = (".gds", ".pic.yml", ".bias.yml")


@pytest.fixture(scope="module")
def process() -> Process:
    return load_process("soi220")


@pytest.fixture(scope="module")
def stem(process: Process, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a small chip."""
    path = tmp_path_factory.mktemp("built") / "tiny"
    onn = carry_chain(Averaging(2, 4, 1))
    get_pdk("soi220").activate()
    circuit, drawn = lay_out_network(onn, process, "tiny")
    write_gds(to_layout(drawn, process, "tiny"), path.with_suffix(".gds"))
    write_netlist(circuit, path.with_suffix(".pic.yml"))
    assert circuit.board is not None
    bias = program(extract(path.with_suffix(".gds"), process).circuit, circuit.board, onn, process).bias
    write_bias(bias, path.with_suffix(".bias.yml"))
    return path


def test_a_chip_is_read_once(stem: Path, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real: Callable[..., Any] = mask_layout.read_layout

    def counted(path: Path) -> Any:
        read.append(path)
        return real(path)

    monkeypatch.setattr(mask_layout, "read_layout", counted)
    layout, netlist, bias = (stem.with_suffix(ending) for ending in ENDINGS)
    built = read_extracted_chip(layout, netlist, bias, process)
    assert read == [layout]
    assert built.bias.circuit == "tiny" and built.board == read_netlist(netlist).board
    assert built.circuit.ports == extract(layout, process).circuit.ports
    current = np.full(len(built.bias.labels), 1e-3)
    rise = built.ground.for_channels(built.bias.labels)(current)
    assert rise.min() > 0.0
    assert np.array_equal(rise, read_wiring(layout, process).common_ground.for_channels(built.bias.labels)(current))


@pytest.mark.parametrize(
    ("ending", "was", "now", "values"),
    [
        (".bias.yml", "circuit: tiny", "circuit: other", r"'other'.*'tiny'"),
        (".bias.yml", "process: soi220", "process: other", r"'other'.*'soi220'"),
        (".pic.yml", "  board:", "  plank:", "'plank'"),
    ],
)
def test_files_that_do_not_belong_together_are_refused_before_the_layout_is_read(
    stem: Path, process: Process, tmp_path: Path, ending: str, was: str, now: str, values: str
) -> None:
    text = stem.with_suffix(ending).read_text()
    assert text.count(was) == 1
    changed = tmp_path / f"changed{ending}"
    changed.write_text(text.replace(was, now))
    files = {known: stem.with_suffix(known) for known in ENDINGS} | {".gds": tmp_path / "none.gds", ending: changed}
    with pytest.raises(InputError, match=f"changed{ending}: .*{values}"):
        read_extracted_chip(*files.values(), process)


def test_a_phase_that_contradicts_its_power_is_refused(stem: Path, process: Process, tmp_path: Path) -> None:
    layout, netlist, path = (stem.with_suffix(ending) for ending in ENDINGS)
    bias = read_extracted_chip(layout, netlist, path, process).bias
    changed = tmp_path / "changed.bias.yml"
    # another turn is the same phase, and rounding errors do not count
    for phase, power in (
        (bias.phase_rad, bias.power_w * (1 + 1e-4)),
        (np.mod(bias.phase_rad + 0.01, 6.28), bias.power_w),
    ):
        write_bias(replace(bias, phase_rad=phase, power_w=power), changed)
        assert read_extracted_chip(layout, netlist, changed, process).bias.labels == bias.labels
    for index, step in ((0, 0.05), (3, 3.0)):
        phase = bias.phase_rad.copy()
        phase[index] = np.mod(phase[index] + step, 2 * np.pi)
        write_bias(replace(bias, phase_rad=phase), changed)
        with pytest.raises(InputError, match=rf"changed.bias.yml: channel '{bias.labels[index]}': phase_rad .*power_w"):
            read_extracted_chip(layout, netlist, changed, process)
