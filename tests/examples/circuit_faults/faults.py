"""Three faults for each circuit: how they are made, and where and how they are reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from circuit_faults.layouts import Edit, add, all_of, cut, delete, exchange, move_silicon, shift, stretch, swap


@dataclass(frozen=True)
class CircuitFault:
    """A fault in the layout of a circuit.

    Attributes:
        text: Description.
        edit: Change of the layout.
        place_um: Place of the fault, x and y, near which there is a finding.
        instance: Name in the netlist that a difference of LVS states; empty if the fault is no part of an instance.
    """

    text: str
    edit: Edit
    place_um: tuple[float, float]
    instance: str = ""


FAULTS: Mapping[str, Sequence[CircuitFault]] = {
    "mzi_heater": (
        CircuitFault("guide of an arm cut", cut((256.0, -131.0, 258.0, -129.0)), (257.0, -130.0), "split,o3"),
        CircuitFault("pads shorted", add((50.0, 290.0, 440.0, 310.0), "metal"), (20.0, 300.0), "GND, drive"),
        CircuitFault("splitter 0.5 µm too high", shift(["split"], 0.0, 0.5), (36.0, 0.0), "split"),
    ),
    "ring_filter": (
        CircuitFault(
            "gap of 220 instead of 200 nm",
            move_silicon(["ring", "coupler_ring"], 0.02, 0.0),
            (1.0, 10.0),
            "ring.coupler_ring",
        ),
        CircuitFault(
            "radius of 16 instead of 15 µm",
            swap(["ring"], "ring_single", radius=16.0, length_x=2.0, length_y=1.0),
            (1.0, 10.0),
            "ring.coupler_ring",
        ),
        CircuitFault("guide 20 nm too wide for 20 µm", add((-80.0, 0.2, -60.0, 0.245)), (-70.0, 0.0)),
    ),
    "ring_pulley": (
        CircuitFault(
            "gap 20 nm too wide",
            move_silicon(["ring", "coupler_ring_bend"], 0.02, -0.5),
            (0.0, 10.0),
            "ring.coupler_ring_bend",
        ),
        CircuitFault(
            "guide follows the ring for 40 degrees",
            swap(
                ["ring"], "ring_single_bend_coupler", gap=0.21, radius=20.0, coupling_angle_coverage=40.0, length_x=0.0
            ),
            (0.0, 10.0),
            "ring.coupler_ring_bend",
        ),
        CircuitFault("ring cut", cut((-21.0, 20.1, -19.0, 20.4)), (-20.0, 20.2), "ring.coupler_ring_bend"),
    ),
    "wdm_rings": (
        CircuitFault(
            "gap of one ring 20 nm too wide",
            move_silicon(["ring1", "coupler_ring"], 0.02, 0.0),
            (316.0, 7.0),
            "ring1.coupler_ring3",
        ),
        CircuitFault("terminator missing", delete(["add2"]), (503.0, 32.0), "add2"),
        CircuitFault("guide between rings cut", cut((360.0, -1.0, 361.0, 1.0)), (360.0, 0.0), "ring1.coupler_ring3"),
    ),
    "switch_2x2": (
        CircuitFault("heater shorter by 5 µm", add((202.0, 74.0, 207.0, 86.0), "metal"), (265.0, 80.0), "heater"),
        CircuitFault("wire of the heater cut", cut((90.0, 200.0, 110.0, 220.0), "metal"), (265.0, 80.0), "heater"),
        CircuitFault("coupler 0.1 µm too high", shift(["join"], 0.0, 0.1), (540.0, 0.0), "join"),
    ),
    "splitter_tree": (
        CircuitFault("fibre 1 µm too high", shift(["out3"], 0.0, 1.0), (1091.0, -63.0), "out3"),
        CircuitFault("outputs joined by silicon", add((330.0, -110.0, 330.5, -70.0)), (330.0, -106.0), "out0"),
        CircuitFault(
            "splitter 20 nm too far to the right",
            shift(["tree", "coupler_0_0"], 0.02, 0.0),
            (0.0, 0.0),
            "tree.coupler_0_0",
        ),
    ),
    "lattice_filter": (
        CircuitFault("terminator missing", delete(["unused"]), (-150.0, -65.0), "unused"),
        CircuitFault("guide 40 nm too narrow for 10 µm", cut((480.0, 90.185, 490.0, 90.3)), (485.0, 90.0)),
        CircuitFault("coupler 1 µm too far to the right", shift(["coupler1"], 1.0, 0.0), (300.0, 0.0), "coupler1"),
    ),
    "y_branch_filter": (
        CircuitFault(
            "arm of the first interferometer cut", cut((173.0, -22.0, 174.5, -21.0)), (173.6, -21.5), "stage0.cp1"
        ),
        CircuitFault(
            "path difference of 51 instead of 50 µm",
            swap(["stage1"], "mzi", delta_length=51.0),
            (354.0, 0.0),
            "stage1.cp1",
        ),
        CircuitFault("Y-branch 50 nm too high", shift(["stage2", "cp2"], 0.0, 0.05), (776.0, 0.0), "stage2.cp2"),
    ),
    "cutback_spirals": (
        CircuitFault(
            "spiral longer by 5 µm a turn, in a flat layout",
            stretch(150.0, (-80.0, 190.0, 1300.0, 370.0), 5.0),
            (1220.0, 340.0),
            "in1",
        ),
        CircuitFault("turns joined by silicon", add((100.0, 585.0, 100.5, 592.0)), (100.0, 585.0), "in2"),
        CircuitFault("guide to a fibre cut", cut((600.0, -87.5, 601.0, -86.5)), (600.0, -87.0), "out0"),
    ),
    "grating_array": (
        CircuitFault("loop-back cut", cut((100.0, -156.0, 101.0, -154.0)), (100.0, -155.0), "array.extend_ports3"),
        CircuitFault(
            "splitter 50 nm too high", shift(["array", "mzi_DL40", "cp2"], 0.0, 0.05), (199.0, 0.0), "array.mzi.cp2"
        ),
        CircuitFault(
            "grating of the loop-back cut off", cut((289.0, -110.0, 291.0, -108.0)), (290.0, -109.0), "extend_ports3"
        ),
    ),
    "crossings": (
        CircuitFault("crossing missing", delete(["crossing11"]), (145.0, 109.0), "crossing11"),
        CircuitFault(
            "guides across each other",
            all_of(delete(["crossing01"]), add((127.0, -0.225, 163.0, 0.225)), add((144.775, -18.0, 145.225, 18.0))),
            (145.0, 0.0),
            "crossing01",
        ),
        CircuitFault("guide cut", cut((60.0, -1.0, 61.0, 1.0)), (60.0, 0.0), "crossing00"),
    ),
    "two_dies": (
        CircuitFault(
            "rings of both dies exchanged", exchange("left_ring", "right_ring"), (1328.0, 250.0), "right_ring"
        ),
        CircuitFault("outline of a die 200 µm off", shift(["left"], 200.0, 0.0), (225.0, 250.0)),
        CircuitFault("guide on one die cut", cut((1250.0, 249.0, 1251.0, 251.0)), (1250.0, 250.0), "right_in"),
    ),
    "ten_filters": (
        CircuitFault("arm of one 20 nm too wide", add((850.0, 943.1, 860.0, 943.349)), (855.0, 943.0)),
        CircuitFault("wire of one cut", cut((745.0, 700.0, 755.0, 720.0), "metal"), (900.0, 532.0), "filter3.mzi.sxt"),
        CircuitFault(
            "splitter of one 50 nm too high",
            shift(["filter4", "mzi", "cp1"], 0.0, 0.05),
            (36.0, 1000.0),
            "filter4.mzi.cp1",
        ),
    ),
}
