"""Chips of processes with larger bends: lengths in cells, floorplans and rules follow from the radius."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.extract import extract
from optinc_pdk.layout import lay_out_network, to_layout
from optinc_pdk.layout.canvas import fibre_row_pitch
from optinc_pdk.networks import carry_chain
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

MakeProcess = Callable[[str, float], Process]


@pytest.mark.full(every=3)
@pytest.mark.parametrize("base", ["soi220", "soi220_two_metal"])
@pytest.mark.parametrize("radius_um", [20.0, 80.0, 200.0])
def test_a_chip_with_large_bends_passes(base: str, radius_um: float, process_with: MakeProcess, tmp_path: Path) -> None:
    process = process_with(base, radius_um)
    circuit, chip = lay_out_network(carry_chain(Averaging(2, 2, 1)), process, "c")
    path = tmp_path / "c.gds"
    to_layout(chip, process, "c").write(str(path))
    result = run_drc(path, process.rules, {name: layer.gds for name, layer in process.layers.items()})
    found = {each.rule.id for each in result.rules if each.violations and each.rule.severity == "error"}
    assert found == set()
    assert compare(circuit, extract(path, process), process).differences == ()


def test_rows_lie_at_multiples_of_the_fibre_pitch(process_with: MakeProcess) -> None:
    pitch = float(load_process().floorplan.fibre_pitch_um)
    assert fibre_row_pitch(load_process()) == pitch
    assert fibre_row_pitch(process_with("soi220", 80.0)) == 3 * pitch
