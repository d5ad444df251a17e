"""Trees of splitters: all paths of a tree have equal length, also after extraction, and trees of unequal depth."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.assemble._splitter_trees import add_tree
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit, CircuitBuilder
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, lay_out_network, to_layout, write_gds
from optinc_pdk.layout._trees import TreePlacer
from optinc_pdk.layout.canvas import Canvas, CellFrames, Point
from optinc_pdk.layout.chip_layout import PlacementView
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

LEAVES = range(1, 13)
UNBALANCED = [n for n in LEAVES if n & (n - 1)]
LEAD = 20.0


def circuit(process: Process, counts: Iterable[int] = LEAVES) -> Circuit:
    """A tree for each number of leaves, with fibres at leaves and root, in a section where fields interfere."""
    b = CircuitBuilder("trees", device_types(process))
    for n in counts:
        for name in (f"t{n}_root", *(f"t{n}_r{i}" for i in range(n))):
            b.add(name, "grating_coupler", (f"t{n}_mix", 0, 0))
            b.ports[name] = f"{name},o2"
        add_tree(b, f"t{n}", f"t{n}_mix", f"t{n}_root,o1", [f"t{n}_r{i},o1" for i in range(n)])
    return b.build()


def placed(process: Process, netlist: PlacementView, matched: bool, counts: Iterable[int] = LEAVES) -> Canvas:
    """The trees above each other, leaves on the left."""
    canvas, pitch = Canvas(CellFrames()), float(process.floorplan.fibre_pitch_um)
    y = 0.0
    for n in counts:
        y -= pitch
        leaves: dict[str, list[Point]] = {}
        for i in range(n):
            y -= pitch
            canvas.place(f"t{n}_r{i}", "grating_coupler", 0.0, y, rotation=180)
            leaves[f"t{n}_r{i},o1"] = [(0.0, y), (LEAD, y)]
        placer, top = TreePlacer(canvas, netlist, process, LEAD, +1), netlist.partner[f"t{n}_root,o1"]
        root = placer.place(top, placer.match_lengths([top], leaves) if matched else leaves)
        canvas.place(f"t{n}_root", "grating_coupler", root.x + pitch, root.y)
        # a tree of one leaf draws no guide
        canvas.guide(*leaves.get(top, []), (root.x, root.y), (root.x + pitch, root.y))
    return canvas


def write(canvas: Canvas, netlist: PlacementView, process: Process, path: Path) -> Path:
    left, bottom, right, top = canvas.box()
    whole, margin = Canvas(canvas.frames), 2 * float(process.floorplan.keepout_um)
    whole.add(canvas, margin - left, margin - bottom)
    for port, label in netlist.label.items():
        at = whole.port(port)
        whole.texts.append((label, at.x, at.y))
    # as large as the smallest die, or larger
    width = max(right - left + 2 * margin, float(process.dies[0].width_um))
    die = (0.0, 0.0, width, max(top - bottom + 2 * margin, float(process.dies[0].height_um)))
    write_gds(to_layout(ChipLayout(whole, (die,), ((),), ""), process, "trees"), path)
    return path


@pytest.mark.parametrize("name", ["soi220", "soi220_flipchip"])
def test_paths_of_every_tree_have_equal_length(name: str, tmp_path: Path) -> None:
    process = load_process(name)
    get_pdk(name).activate()
    reference = circuit(process)
    netlist = PlacementView(reference)
    path = write(placed(process, netlist, True), netlist, process, tmp_path / "trees.gds")
    assert compare(reference, extract(path, process), process).differences == ()


@pytest.mark.parametrize("name", ["soi220", "soi220_flipchip"])
def test_meanders_keep_every_rule(name: str, tmp_path: Path) -> None:
    process, counts = load_process(name), (3, 5)
    get_pdk(name).activate()
    netlist = PlacementView(circuit(process, counts))
    path = write(placed(process, netlist, True, counts), netlist, process, tmp_path / "trees.gds")
    result = run_drc(path, process.rules, process.gds_layers)
    assert {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations} == {}


def test_lvs_reports_unbalanced_trees_without_meanders(tmp_path: Path) -> None:
    process = load_process()
    get_pdk().activate()
    reference = circuit(process)
    netlist = PlacementView(reference)
    path = write(placed(process, netlist, False), netlist, process, tmp_path / "trees.gds")
    differences = compare(reference, extract(path, process), process).differences
    assert {d.kind for d in differences} == {"lengths"}
    assert sorted(d.reference.partition(" - ")[0] for d in differences) == sorted(f"t{n}_0_{n - 1}" for n in UNBALANCED)


def test_reported_lengths_are_those_drawn_and_balanced_trees_are_unchanged() -> None:
    process = load_process()
    get_pdk().activate()
    netlist = PlacementView(circuit(process))
    for n in LEAVES:
        canvas, top = Canvas(CellFrames()), netlist.partner[f"t{n}_root,o1"]
        leaves = {f"t{n}_r{i},o1": [(0.0, -127.0 * i), (LEAD, -127.0 * i)] for i in range(n)}
        placer = TreePlacer(canvas, netlist, process, LEAD, +1)
        matched = placer.match_lengths([top], leaves)
        assert (matched == leaves and placer.x == LEAD) == (n not in UNBALANCED)
        lengths = placer.place(top, matched).lengths
        assert sorted(lengths) == sorted(leaves)
        assert max(lengths.values()) - min(lengths.values()) < 0.01


def test_leaves_too_close_for_meanders_are_refused() -> None:
    process = load_process()
    get_pdk().activate()
    netlist = PlacementView(circuit(process))
    close = {f"t5_r{i},o1": [(0.0, -35.0 * i)] for i in range(5)}
    placer = TreePlacer(Canvas(CellFrames()), netlist, process, 0.0, +1)
    with pytest.raises(InputError, match=r"\b35 µm.*µm"):
        placer.match_lengths([netlist.partner["t5_root,o1"]], close)


# open branches at the leaves and in chains between symbols, one and several groups, one server
CASES = [
    (Averaging(8, 3, 1), "soi220"),
    (Averaging(8, 5, 2), "soi220_flipchip"),
    (Averaging(4, 1, 1), "soi220_two_metal"),
]


def drawn(task: Averaging, process: Process) -> tuple[Circuit, ChipLayout]:
    rng = np.random.default_rng(0)
    layers = tuple(Layer(rng.normal(size=(b, a)), np.zeros(b)) for a, b in pairwise((task.groups, 2, task.symbols)))
    return lay_out_network(AveragingNetwork(layers, task, ()), process, "groups")


@pytest.mark.full(every=3)
@pytest.mark.parametrize(("task", "process"), CASES, ids=[name for _, name in CASES])
def test_groups_keep_every_rule_and_match_after_extraction(
    task: Averaging, process: str, process_of: Callable[..., Any], written: Callable[..., Any]
) -> None:
    card = process_of(process)
    chip = written(card, *drawn(task, card))
    assert chip.rules_broken() == {}
    # paths of equal length to the root of a tree included
    assert chip.differences() == []


def test_open_branches_take_no_row_of_fibres(process_of: Callable[..., Any]) -> None:
    task = Averaging(8, 3, 1)
    process = process_of("soi220")
    _, chip = drawn(task, process)
    pitch = float(process.floorplan.fibre_pitch_um)
    heights = [place.y for name, place in chip.canvas.placed.items() if name.startswith("fibre_in_")]
    assert len(heights) == task.servers * task.symbols
    assert max(heights) - min(heights) == pytest.approx((len(heights) - 1) * pitch)
