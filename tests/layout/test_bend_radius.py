"""Chips of processes with larger bends: lengths in cells and floorplans follow from the radius."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.layout import lay_out_network, to_layout
from optinc_pdk.layout.canvas import fibre_row_pitch
from optinc_pdk.onn import carry_chain
from optinc_pdk.signoff.drc.design_rule_check import run_drc


def process_with(folder: Path, base: str, radius_um: float) -> Process:
    """A process with another bend radius, whose rule of guide space lets large bends leave their couplers."""
    rules = yaml.safe_load((components_folder() / base / "rules.yml").read_text())
    rule = next(each for each in rules["rules"] if each["id"] == "core.guide_space")
    # arcs of a radius are apart by the space of guides behind a length that grows as its root
    rule["exempt_um"] += 3 * int((4 * radius_um) ** 0.5)
    path = folder / f"radius_{radius_um:g}"
    path.mkdir()
    radius = {"value": radius_um, "source": "default"}
    card = {"schema": 1, "name": path.name, "title": path.name, "base": base, "guide": {"radius_um": radius}}
    (path / "process.yml").write_text(yaml.safe_dump(card))
    (path / "rules.yml").write_text(yaml.safe_dump(rules | {"process": path.name, "rules": [rule]}))
    return load_process(path)


@pytest.mark.parametrize("base", ["soi220", "soi220_two_metal"])
@pytest.mark.parametrize("radius_um", [20.0, 80.0, 200.0])
def test_a_chip_with_large_bends_obeys_the_rules(base: str, radius_um: float, tmp_path: Path) -> None:
    process = process_with(tmp_path, base, radius_um)
    _, chip = lay_out_network(carry_chain(Averaging(2, 2, 1)), process, "c")
    path = tmp_path / "c.gds"
    to_layout(chip, process, "c").write(str(path))
    result = run_drc(path, process.rules, {name: layer.gds for name, layer in process.layers.items()})
    found = {each.rule.id: each.violations for each in result.rules if each.violations}
    # the chip may be larger than a die; densities are warnings
    assert {name for name in found if not name.startswith("chip.") and not name.endswith(".density")} == set()


def test_rows_lie_at_multiples_of_the_fibre_pitch(tmp_path: Path) -> None:
    pitch = float(load_process().floorplan.fibre_pitch_um)
    assert fibre_row_pitch(load_process()) == pitch
    assert fibre_row_pitch(process_with(tmp_path, "soi220", 80.0)) == 3 * pitch
