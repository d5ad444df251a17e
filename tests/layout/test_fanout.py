"""Bundles of guides: lengths as predicted, and no concave sides of one guide closer than the guide space."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.cards import Process, load_process
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, to_layout, write_gds
from optinc_pdk.layout.canvas import Canvas, CellFrames
from optinc_pdk.layout.routing import draw_fanout, fan_end, fan_length
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc

# around 2R the leg of an S-bend is so short that its concave sides are close to each other
RISES = (0.0, 0.01, 0.3, 0.7, 1.0, 1.7, 3.0, 12.0, 19.9, 20.0, 20.5, 21.0, 22.6, 23.0, 40.0, 60.0)
# gratings are so far away that their bodies exempt nothing from the guide space rule
PITCH, START, STUB = 127.0, 100.0, 40.0


@pytest.mark.parametrize("name", ["soi220", "soi220_two_metal"])
@pytest.mark.parametrize("radius_um", [None, 80.0, 200.0])
def test_guides_of_every_rise_keep_their_space_and_have_the_predicted_length(
    name: str, radius_um: float | None, process_with: Callable[[str, float], Process], tmp_path: Path
) -> None:
    process = load_process(name) if radius_um is None else process_with(name, radius_um)
    get_pdk(process.folder).activate()
    canvas, x = Canvas(CellFrames()), START + STUB
    rows = [START + PITCH * (i + 1) for i in range(len(RISES))]
    target = [row + rise for row, rise in zip(rows, RISES, strict=True)]
    end = fan_end(process, rows, target, x)
    pairs = [((x, row), (end, to)) for row, to in zip(rows, target, strict=True)]
    assert draw_fanout(canvas, process, pairs, x) == end
    for i, (a, b) in enumerate(pairs):
        for label, (at, row), side in (("in", a, -1), ("out", b, +1)):
            canvas.place(f"{label}{i}", "grating_coupler", at + side * STUB, row, rotation=180 if side < 0 else 0)
            canvas.guide((at, row), (at + side * STUB, row))
            fibre = canvas.port(f"{label}{i},o2")
            canvas.texts.append((f"{label}{i}", fibre.x, fibre.y))
    die = (0.0, 0.0, end + 2 * START, target[-1] + 2 * START)
    write_gds(to_layout(ChipLayout(canvas, (die,), ((),), ""), process, "fan"), tmp_path / "fan.gds")
    extracted = extract(tmp_path / "fan.gds", process)
    assert extracted.faults == ()
    circuit, partner = extracted.circuit, extracted.circuit.partners()
    length = np.zeros(int(circuit.offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]
    for i, (a, b) in enumerate(pairs):
        # a grating's guide port precedes its fibre port
        guide = circuit.ports[f"in{i}"] - 1
        assert partner[guide] == circuit.ports[f"out{i}"] - 1
        assert length[guide] == pytest.approx(fan_length(process, a, b) + 2 * STUB, abs=0.005)
    rules = [rule for rule in process.rules if rule.id.startswith("core.")]
    result = run_drc(tmp_path / "fan.gds", rules, process.gds_layers)
    assert {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations} == {}
