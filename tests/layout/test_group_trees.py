"""P for groups of symbols: trees of unequal depth in GDS, without rule violations, and equal after extraction."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

# open branches at the leaves and in chains between symbols, one and several groups, one server
CASES = [
    (Averaging(8, 3, 1), "soi220"),
    (Averaging(8, 5, 2), "soi220_flipchip"),
    (Averaging(4, 1, 1), "soi220_two_metal"),
]


def drawn(task: Averaging, process: str) -> tuple[Circuit, ChipLayout]:
    get_pdk(process).activate()
    rng = np.random.default_rng(0)
    layers = tuple(Layer(rng.normal(size=(b, a)), np.zeros(b)) for a, b in pairwise((task.groups, 2, task.symbols)))
    return lay_out_network(AveragingNetwork(layers, task, ()), load_process(process), "groups")


@pytest.mark.full(every=3)
@pytest.mark.parametrize(("task", "process"), CASES, ids=[name for _, name in CASES])
def test_groups_keep_every_rule_and_match_after_extraction(task: Averaging, process: str, tmp_path: Path) -> None:
    card, path = load_process(process), tmp_path / "chip.gds"
    circuit, chip = drawn(task, process)
    write_gds(to_layout(chip, card, "groups"), path)
    result = run_drc(path, card.rules, card.gds_layers)
    assert {r.id: r.boxes_um.tolist() for r in result.rules if r.violations} == {}
    # paths of equal length to the root of a tree included
    assert compare(circuit, extract(path, card), card).differences == ()


def test_open_branches_take_no_row_of_fibres() -> None:
    task = Averaging(8, 3, 1)
    _, chip = drawn(task, "soi220")
    pitch = float(load_process("soi220").floorplan.fibre_pitch_um)
    heights = [place.y for name, place in chip.canvas.placed.items() if name.startswith("fibre_in_")]
    assert len(heights) == task.servers * task.symbols
    assert max(heights) - min(heights) == pytest.approx((len(heights) - 1) * pitch)
