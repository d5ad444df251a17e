"""Guides, wires and tapers with gdsfactory's arguments: shapes, lengths, ``info``, and arguments that are refused."""

import math
from pathlib import Path
from typing import Any

import gdsfactory as gf
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.cells import CELLS
from optinc_pdk.extract import extract
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process()
RADIUS_UM, WIDTH_UM = float(PROCESS.guide.radius_um), float(PROCESS.guide.width_um)
# Sides are rounded to the grid; the length of a guide is the mean of both.
EXACT_UM = 0.005


GUIDES: list[tuple[str, dict[str, Any]]] = [
    ("straight", {"length": 0.001}),
    ("straight", {"length": 17.3, "npoints": 5}),
    ("bend_circular", {}),
    ("bend_circular", {"angle": -90}),
    ("bend_circular", {"angle": 180, "radius": 12.345}),
    ("bend_circular", {"radius": 150.0}),
    ("bend_circular", {"npoints": 60}),
    ("bend_circular", {"angle": -180, "angular_step": 2.0}),
    ("bend_euler", {}),
    ("bend_euler", {"p": 0.0}),
    ("bend_euler", {"p": 1.0, "angle": -90}),
    ("bend_euler", {"p": 0.3, "angle": 180}),
    ("bend_euler", {"angle": -180, "radius": 20.0}),
    ("bend_euler", {"radius": 20.0, "with_arc_floorplan": True}),
    ("bend_euler", {"npoints": 90}),
    ("bend_s", {}),
    ("bend_s", {"size": (40.0, -12.5)}),
    ("bend_s", {"size": (20.0, 60.0)}),
    ("bend_s", {"size": (300.0, 0.4)}),
    ("bend_s", {"size": (25.0, 0.0)}),
    ("bend_s", {"size": (60.0, 20.0), "npoints": 81}),
]


@pytest.mark.parametrize(("name", "arguments"), GUIDES)
def test_a_guide_is_clean_and_as_long_as_its_info_states(name: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    c = gf.Component()
    guide = c << CELLS[name](**arguments)
    for port in guide.ports:
        # a bend rule measures a bend directly behind a device together with it
        (lead := c << CELLS["straight"](length=5.0)).connect("o1", port)
        (c << CELLS["terminator"]()).connect("o1", lead.ports["o2"])
    path = tmp_path / "guide.gds"
    c.write_gds(path, with_metadata=False)
    rules = [rule for rule in PROCESS.rules if not rule.id.startswith("chip.")]
    assert [found.id for found in run_drc(path, rules, PROCESS.gds_layers).rules if found.violations] == []
    extraction = extract(path, PROCESS)
    assert extraction.faults == ()
    (length,) = extraction.circuit.net_length_um.tolist()
    assert length - 10.0 == pytest.approx(guide.cell.info["length"], abs=EXACT_UM)


def test_an_euler_bend_has_the_floorplan_or_the_radius_that_is_asked_for() -> None:
    bend = CELLS["bend_euler"](radius=20.0, with_arc_floorplan=True)
    assert bend.ports["o2"].center == (20.0, 20.0)
    assert RADIUS_UM <= bend.info["min_bend_radius"] < 20.0
    turn = CELLS["bend_euler"](radius=20.0, with_arc_floorplan=True, angle=180)
    assert turn.ports["o2"].center == (0.0, 40.0)
    # Vogelbacher et al., Opt. Express 27, 31394 (2019): 90°, p = 1, effective radius 1.8701 times the smallest
    whole = CELLS["bend_euler"](radius=20.0, p=1.0)
    assert whole.ports["o2"].center[0] == pytest.approx(1.8701 * 20.0, abs=0.003)
    assert whole.info["length"] == pytest.approx(20.0 * math.pi, abs=0.003)
    assert CELLS["bend_euler"](p=0.0).ports["o2"].center == (RADIUS_UM, RADIUS_UM)


@pytest.mark.parametrize(("p", "angle"), [(0.0, 90), (0.5, 90), (1.0, 90), (0.5, 180), (1.0, 180)])
def test_an_euler_bend_is_that_of_gdsfactory(p: float, angle: int) -> None:
    path = gf.path.euler(radius=RADIUS_UM, angle=angle, p=p, use_eff=False, npoints=2000)
    bend = CELLS["bend_euler"](p=p, angle=angle)
    assert bend.ports["o2"].center == pytest.approx(tuple(path.points[-1]), abs=0.002)
    assert bend.info["length"] == pytest.approx(path.length(), abs=0.003)


def test_an_s_bend_has_the_largest_radius_that_fits() -> None:
    bend = CELLS["bend_s"](size=(40.0, 20.0))
    assert bend.info["min_bend_radius"] == 25.0
    assert bend.ports["o2"].center == (40.0, 20.0)


@pytest.mark.parametrize("cross_section", ["wire", "metal_routing"])
def test_straights_and_corners_of_a_wire_are_metal(cross_section: str) -> None:
    width = float(PROCESS.metal.wire_width_um)
    for cell in ("straight", "wire_straight"):
        wire = CELLS[cell](length=30.0, cross_section=cross_section)
        assert wire.area(layer=PROCESS.metal.layer) == pytest.approx(30.0 * width)
        assert [(port.name, port.port_type) for port in wire.ports] == [("e1", "electrical"), ("e2", "electrical")]
    corner = CELLS["wire_corner"](cross_section=cross_section, width=6.0)
    assert corner.area(layer=PROCESS.metal.layer) == pytest.approx(36.0)
    assert {port.name: tuple(port.center) for port in corner.ports} == {"e1": (-3.0, 0.0), "e2": (0.0, 3.0)}


def test_a_taper_has_the_widths_and_the_length_that_are_given() -> None:
    taper = CELLS["taper"](length=12.0, width1=0.6, width2=1.0)
    assert taper.area(layer="core") == pytest.approx(12.0 * 0.8)
    assert [port.width for port in taper.ports] == [0.6, 1.0]
    card = PROCESS.device("taper")
    default = CELLS["taper"]()
    assert default.info["length"] == card.size("length_um")
    assert [port.width for port in default.ports] == [WIDTH_UM, card.size("width_um")]
    assert [port.name for port in CELLS["taper"](with_two_ports=False).ports] == ["o1"]
    wires = CELLS["taper"](width1=12.0, width2=4.0, cross_section="wire")
    assert wires.info["length"] == 4.0


def test_a_straight_under_a_heater_is_as_long_as_asked_for() -> None:
    cell = CELLS["straight_heater_metal"](length=200.0)
    assert cell.ports["o2"].center == (200.0, 0.0)
    assert [instance.cell.function_name for instance in cell.insts] == ["phase_shifter"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("bend_circular", {"radius": 5.0}), ("bend_euler", {"radius": 5.0}), ("bend_s", {"size": (15.0, 25.0)})],
)
def test_a_tighter_bend_is_drawn_on_request_and_reported_by_drc(
    name: str, arguments: dict[str, Any], tmp_path: Path
) -> None:
    c = gf.Component()
    bend = c << CELLS[name](**arguments, allow_min_radius_violation=True)
    for port in bend.ports:
        (c << CELLS["straight"](length=5.0)).connect("o1", port)
    path = tmp_path / "bend.gds"
    c.write_gds(path, with_metadata=False)
    found = run_drc(path, PROCESS.rules, PROCESS.gds_layers)
    assert next(rule for rule in found.rules if rule.id == "core.bend_radius").violations > 0
