"""Copies and sums alone on a die: they match after extraction, keep silicon rules, and sums have equal lengths."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import LOCAL_STRIPS, assemble
from optinc_pdk.assemble._component_library import device_types
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit, CircuitBuilder
from optinc_pdk.extract import extract
from optinc_pdk.extract._extractor import Extraction
from optinc_pdk.layout import ChipLayout, to_layout, write_gds
from optinc_pdk.layout._copy_sum_placement import place_copies_or_sums
from optinc_pdk.layout.canvas import Canvas, CellFrames
from optinc_pdk.layout.chip_layout import PlacementView
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

Shape = tuple[tuple[int, ...], tuple[int, ...]]

# widths and sizes of blocks; neighbouring blocks share inputs in the first layer and outputs in the last
NETWORKS: dict[str, Shape] = {
    "two blocks and back": ((2, 4, 2), (2, 2)),
    "one input, three copies": ((1, 3, 1), (1, 1)),
    "two inputs, blocks of one": ((2, 3, 2), (1, 1)),
    "blocks of unequal heights, trees of three": ((3, 5, 3), (2, 2)),
}
LARGE: dict[str, Shape] = {
    "blocks of unequal heights, trees of five": ((4, 13, 4), (3, 3)),
    "the paper's 16 blocks of 4": ((4, 64, 4), (4, 4)),
}
# gratings are so far away that their bodies exempt no guide from the guide space rule
STUB = 40.0


def network(widths: tuple[int, ...], blocks: tuple[int, ...]) -> AveragingNetwork:
    layers = [Layer(np.ones((b, a)), np.zeros(b)) for a, b in pairwise(widths)]
    return AveragingNetwork(
        tuple(layers), Averaging(2 * widths[-1], 2, widths[-1]), tuple(("approx", size) for size in blocks)
    )


class IsolatedSection:
    """One section of a network between labelled gratings, as a circuit of its own and as a layout."""

    def __init__(self, process: Process, whole: Circuit, section: str) -> None:
        netlist = PlacementView(whole)
        names = netlist.section(section)
        begins = [n for n in names if netlist.grid[n][1] == 0]
        guides = [netlist.partner[f"{name},o1"] for name in begins]
        self.canvas, mode = Canvas(CellFrames()), float(process.floorplan.mode_pitch_um)
        # neither at the section's pitch nor all at one x
        starts = [(float(i % 3), -mode * i) for i in range(len(guides))]
        self.ends = place_copies_or_sums(
            self.canvas, netlist, process, section, list(zip(guides, starts, strict=True)), -mode * len(guides) / 2
        )
        b = CircuitBuilder(section, device_types(process))
        for name in names:
            b.add(name, netlist.component[name], netlist.grid[name])
        self.labels: list[str] = []
        self.begins = {f"in{i}": name for i, name in enumerate(begins)}
        for i, (port, at) in enumerate(zip(guides, starts, strict=True)):
            self._grating(b, f"in{i}", netlist.partner[port], at, 180)
        for i, (port, at) in enumerate(self.ends):
            self._grating(b, f"out{i}", port, at, 0)
        inside = set(names)
        for p, q in netlist.partner.items():
            if p < q and {p.rpartition(",")[0], q.rpartition(",")[0]} <= inside:
                b.connect(p, q)
        self.reference = b.build()

    def _grating(self, b: CircuitBuilder, label: str, port: str, at: tuple[float, float], rotation: int) -> None:
        b.add(label, "grating_coupler")
        b.ports[label] = f"{label},o2"
        b.connect(f"{label},o1", port)
        away = STUB if rotation == 0 else -STUB
        self.canvas.place(label, "grating_coupler", at[0] + away, at[1], rotation=rotation)
        self.canvas.guide(at, (at[0] + away, at[1]))
        self.labels.append(label)

    def write(self, process: Process, path: Path) -> Path:
        left, bottom, right, top = self.canvas.box()
        whole, margin = Canvas(self.canvas.frames), 2 * float(process.floorplan.keepout_um)
        whole.add(self.canvas, margin - left, margin - bottom)
        for label in self.labels:
            at = whole.port(f"{label},o2")
            whole.texts.append((label, at.x, at.y))
        die = (0.0, 0.0, right - left + 2 * margin, top - bottom + 2 * margin)
        write_gds(to_layout(ChipLayout(whole, (die,), ((),), ""), process, "isolated"), path)
        return path


def paths_to(extracted: Extraction, label: str) -> dict[str, tuple[float, int]]:
    """Labels from which light reaches ``label``, by way of a trim or not; length in µm and crossings of each path."""
    circuit, through = extracted.circuit, _through()
    partner, offset = circuit.partners(), circuit.offset
    length = np.zeros(int(offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]

    def owner(port: int) -> int:
        return int(np.searchsorted(offset, port, side="right")) - 1

    label_of = {owner(port): name for name, port in circuit.ports.items()}
    reached: dict[str, tuple[float, int]] = {}
    pending = [(int(offset[owner(circuit.ports[label])]), 0.0, 0)]
    while pending:
        port, distance, crossed = pending.pop()
        distance, port = distance + length[port], int(partner[port])
        instance = owner(port)
        first, local = int(offset[instance]), port - int(offset[instance])
        kind = circuit.kinds[circuit.kind[instance]].name
        if kind == "crossing":
            pending.append((first + (local + 2) % 4, distance + through[kind], crossed + 1))
        elif kind == "mmi1x2":
            beyond = (1, 2) if local == 0 else (0,)
            pending += [(first + other, distance + through[kind], crossed) for other in beyond]
        else:
            source = instance if kind == "grating_coupler" else owner(int(partner[first + 1 - local]))
            assert label_of[source] not in reached
            reached[label_of[source]] = distance, crossed
    return reached


def _through() -> dict[str, float]:
    """Length of the devices on a path."""
    frames = CellFrames()
    ends = {"crossing": ("o1", "o3"), "mmi1x2": ("o1", "o2")}
    return {name: frames[name].ports[b].x - frames[name].ports[a].x for name, (a, b) in ends.items()}


@pytest.fixture(params=["soi220", "soi220_flipchip"])
def process(request: pytest.FixtureRequest) -> Process:
    get_pdk(request.param).activate()
    return load_process(request.param)


def whole(process: Process, shape: Shape) -> Circuit:
    return assemble(network(*shape), process, "chip", LOCAL_STRIPS)


def shared(circuit: Circuit) -> list[str]:
    return [section for section in circuit.sections if section.endswith(("_split", "_sum"))]


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", NETWORKS.values(), ids=NETWORKS)
def test_sections_keep_every_rule_of_silicon(shape: Shape, process: Process, tmp_path: Path) -> None:
    circuit = whole(process, shape)
    assert [section[2:] for section in shared(circuit)] == ["_split", "_sum"]
    rules = [rule for rule in process.rules if {"core", "heater"} & set(getattr(rule, "layers", ()))]
    for section in shared(circuit):
        path = IsolatedSection(process, circuit, section).write(process, tmp_path / "isolated.gds")
        result = run_drc(path, rules, process.gds_layers)
        assert {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations} == {}


@pytest.mark.full(every=3)
@pytest.mark.parametrize("shape", (NETWORKS | LARGE).values(), ids=NETWORKS | LARGE)
def test_copies_and_sums_match_after_extraction(shape: Shape, process: Process, tmp_path: Path) -> None:
    circuit = whole(process, shape)
    (inputs, units, outputs), (height, side) = shape
    copies, parts = -(-units // height), -(-units // side)
    for section in shared(circuit):
        isolated = IsolatedSection(process, circuit, section)
        extracted = extract(isolated.write(process, tmp_path / "isolated.gds"), process)
        assert compare(isolated.reference, extracted, process).differences == ()
        assert len(extracted.circuit.instances_of("crossing")) == len(isolated.reference.instances_of("crossing"))
        reached = [paths_to(extracted, f"out{i}") for i in range(len(isolated.ends))]
        if section == "l0_split":
            # blocks of the same columns are neighbours, and each receives its inputs in order
            groups = [range(inputs)[left : left + height] for left in range(0, inputs, height)]
            assert [list(paths) for paths in reached] == [
                [f"in{i}"] for group in groups for _ in range(copies) for i in group
            ]
            crossings = sum(len(group) * (len(group) - 1) // 2 for group in groups) * (copies - 1)
            assert len(extracted.circuit.instances_of("crossing")) == crossings
            continue
        assert len(reached) == outputs
        for output, paths in enumerate(reached):
            blocks = range(output // side * parts, (output // side + 1) * parts)
            assert {isolated.begins[label] for label in paths} == {f"l1b{i}_sum_r{output % side}" for i in blocks}
            lengths = [length for length, _ in paths.values()]
            assert max(lengths) - min(lengths) <= float(process.guide.length_match_um)


def test_missing_section_leaves_guides_unchanged() -> None:
    get_pdk().activate()
    canvas, guides = Canvas(CellFrames()), [("p_m0_0_1,o1", (3.0, 4.0))]
    circuit = whole(load_process(), ((1, 1, 1), (1, 1)))
    assert place_copies_or_sums(canvas, PlacementView(circuit), load_process(), "l1_sum", guides, 0.0) == guides
    assert not canvas.placed


def test_guides_in_another_order_are_refused() -> None:
    get_pdk().activate()
    circuit = whole(load_process(), NETWORKS["two blocks and back"])
    guides = [("l1b0_v_c0_r0,o3", (0.0, 0.0)), ("l1b1_v_c0_r0,o3", (0.0, -80.0))]
    with pytest.raises(ValueError, match=r"l1_sum: .*'l1b0_sum_r0'"):
        place_copies_or_sums(Canvas(CellFrames()), PlacementView(circuit), load_process(), "l1_sum", guides, 0.0)
