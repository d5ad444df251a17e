"""Copies and sums alone on a die: found again in the polygons, every rule of silicon kept, sums of equal lengths."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from optinc_pdk.assemble import LOCAL_STRIPS, assemble
from optinc_pdk.assemble.library import device_kinds
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Builder, Circuit
from optinc_pdk.extract import extract
from optinc_pdk.extract.extractor import Extraction
from optinc_pdk.layout import Chip, to_layout, write_gds
from optinc_pdk.layout.canvas import Canvas
from optinc_pdk.layout.frames import Frames
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.shuffle import place_shuffle
from optinc_pdk.onn import Layer, Onn
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc import run_drc
from optinc_pdk.signoff.lvs import compare

Shape = tuple[tuple[int, ...], tuple[int, ...]]

# Widths and sizes of blocks; neighbouring blocks share inputs in the first layer and outputs in the last.
NETWORKS: dict[str, Shape] = {
    "two blocks and back": ((2, 4, 2), (2, 2)),
    "one input, three copies": ((1, 3, 1), (1, 1)),
    "blocks of unequal heights, trees of three": ((3, 5, 3), (2, 2)),
}
LARGE: dict[str, Shape] = {
    "blocks of unequal heights, trees of five": ((4, 13, 4), (3, 3)),
    "the paper's 16 blocks of 4": ((4, 64, 4), (4, 4)),
}
# Gratings are so far away that their bodies excuse no guide of a section.
STUB = 40.0


def network(widths: tuple[int, ...], blocks: tuple[int, ...]) -> Onn:
    layers = [Layer(np.ones((b, a)), np.zeros(b)) for a, b in pairwise(widths)]
    return Onn(tuple(layers), Averaging(2 * widths[-1], 2, widths[-1]), tuple(("approx", size) for size in blocks))


class Alone:
    """One section of a network between labelled gratings, as a circuit of its own and as a layout."""

    def __init__(self, process: Process, whole: Circuit, section: str) -> None:
        netlist = Netlist(whole)
        names = netlist.section(section)
        begins = [n for n in names if netlist.grid[n][1] == 0]
        guides = [netlist.partner[f"{name},o1"] for name in begins]
        self.canvas, mode = Canvas(Frames()), float(process.floorplan.mode_pitch_um)
        # not where the section wants them, nor all in one line
        starts = [(float(i % 3), -mode * i) for i in range(len(guides))]
        self.ends = place_shuffle(
            self.canvas, netlist, process, section, list(zip(guides, starts, strict=True)), -mode * len(guides) / 2
        )
        b = Builder(section, device_kinds(process))
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

    def _grating(self, b: Builder, label: str, port: str, at: tuple[float, float], rotation: int) -> None:
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
        write_gds(to_layout(Chip(whole, (die,), ((),), ""), process, "alone"), path)
        return path


def ways(found: Extraction, label: str) -> dict[str, tuple[float, int]]:
    """Labels from which light reaches one, or a trim behind one; each way's length in µm and its crossings."""
    circuit, through = found.circuit, _through()
    partner, offset = circuit.partners(), circuit.offset
    length = np.zeros(int(offset[-1]))
    length[circuit.nets] = circuit.net_length_um[:, None]

    def owner(port: int) -> int:
        return int(np.searchsorted(offset, port, side="right")) - 1

    label_of = {owner(port): name for name, port in circuit.ports.items()}
    reached: dict[str, tuple[float, int]] = {}
    pending = [(int(offset[owner(circuit.ports[label])]), 0.0, 0)]
    while pending:
        port, way, crossed = pending.pop()
        way, port = way + length[port], int(partner[port])
        instance = owner(port)
        first, own = int(offset[instance]), port - int(offset[instance])
        kind = circuit.kinds[circuit.kind[instance]].name
        if kind == "crossing":
            pending.append((first + (own + 2) % 4, way + through[kind], crossed + 1))
        elif kind == "mmi1x2":
            beyond = (1, 2) if own == 0 else (0,)
            pending += [(first + other, way + through[kind], crossed) for other in beyond]
        else:
            source = instance if kind == "grating_coupler" else owner(int(partner[first + 1 - own]))
            assert label_of[source] not in reached
            reached[label_of[source]] = way, crossed
    return reached


def _through() -> dict[str, float]:
    """Length of the devices that light goes through."""
    frames = Frames()
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


@pytest.mark.parametrize("shape", NETWORKS.values(), ids=NETWORKS)
def test_sections_keep_every_rule_of_silicon(shape: Shape, process: Process, tmp_path: Path) -> None:
    circuit = whole(process, shape)
    assert [section[2:] for section in shared(circuit)] == ["_split", "_sum"]
    rules = [rule for rule in process.rules if {"core", "heater"} & set(getattr(rule, "layers", ()))]
    for section in shared(circuit):
        path = Alone(process, circuit, section).write(process, tmp_path / "alone.gds")
        result = run_drc(path, rules, process.gds_layers)
        assert {rule.id: rule.boxes_um.tolist() for rule in result.rules if rule.violations} == {}


@pytest.mark.parametrize("shape", (NETWORKS | LARGE).values(), ids=NETWORKS | LARGE)
def test_copies_and_sums_are_found_again_in_the_polygons(shape: Shape, process: Process, tmp_path: Path) -> None:
    circuit = whole(process, shape)
    (inputs, units, outputs), (height, side) = shape
    copies, parts = -(-units // height), -(-units // side)
    for section in shared(circuit):
        alone = Alone(process, circuit, section)
        found = extract(alone.write(process, tmp_path / "alone.gds"), process)
        assert compare(alone.reference, found, process).differences == ()
        assert len(found.circuit.of_kind("crossing")) == len(alone.reference.of_kind("crossing"))
        reached = [ways(found, f"out{i}") for i in range(len(alone.ends))]
        if section == "l0_split":
            # every row of blocks has all inputs, in order
            assert [list(way) for way in reached] == [[f"in{i}"] for _ in range(copies) for i in range(inputs)]
            continue
        assert len(reached) == outputs
        for output, way in enumerate(reached):
            blocks = range(output // side * parts, (output // side + 1) * parts)
            assert {alone.begins[label] for label in way} == {f"l1b{i}_sum_r{output % side}" for i in blocks}
            lengths = [length for length, _ in way.values()]
            assert max(lengths) - min(lengths) <= float(process.guide.length_match_um)


def test_a_section_that_is_not_there_leaves_guides_as_they_are() -> None:
    get_pdk().activate()
    canvas, guides = Canvas(Frames()), [("p_m0_0_1,o1", (3.0, 4.0))]
    circuit = whole(load_process(), ((1, 1, 1), (1, 1)))
    assert place_shuffle(canvas, Netlist(circuit), load_process(), "l1_sum", guides, 0.0) == guides
    assert not canvas.placed


def test_guides_in_another_order_are_refused() -> None:
    get_pdk().activate()
    circuit = whole(load_process(), NETWORKS["two blocks and back"])
    guides = [("l1b0_v_c0_r0,o3", (0.0, 0.0)), ("l1b1_v_c0_r0,o3", (0.0, -80.0))]
    with pytest.raises(ValueError, match="l1_sum: no guides lead to 'l1b0_sum_r0' side by side"):
        place_shuffle(Canvas(Frames()), Netlist(circuit), load_process(), "l1_sum", guides, 0.0)
