"""Cells take the arguments of gdsfactory's cells of the same name, and work in its routers in every process."""

from __future__ import annotations

import inspect
from pathlib import Path

import gdsfactory as gf
import pytest

from optinc_pdk import active_pdk
from optinc_pdk.cards import load_process, process_names
from optinc_pdk.cells import CELLS, cells_of
from optinc_pdk.extract import extract

# Devices with geometry on their cards have no arguments for it. gdsfactory's `port` of a taper is deprecated.
SAME = (
    "bend_circular",
    "bend_euler",
    "bend_s",
    "coupler",
    "coupler_ring",
    "coupler_ring_bend",
    "coupler_straight",
    "mzi",
    "ring_double",
    "ring_single",
    "ring_single_bend_coupler",
    "straight",
    "taper",
    "wire_corner",
    "wire_straight",
)
LEFT_OUT = {"taper": {"port"}, "ring_single_bend_coupler": {"kwargs"}}


def arguments(cell: object) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(cell).parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SAME)
def test_a_cell_takes_the_arguments_of_gdsfactorys_cell(name: str) -> None:
    expected = [each for each in arguments(getattr(gf.components, name)) if each not in LEFT_OUT.get(name, set())]
    assert list(arguments(CELLS[name])) == expected


@pytest.mark.parametrize("name", ["mmi1x2", "mmi2x2", "straight_heater_metal"])
def test_a_device_takes_a_part_of_the_arguments_of_gdsfactorys_cell(name: str) -> None:
    assert set(arguments(CELLS[name])) <= set(arguments(getattr(gf.components, name)))


def test_every_cell_of_gdsfactorys_name_is_compared() -> None:
    shared = {name for name in CELLS if hasattr(gf.components, name)}
    # shapes that the process fixes, and a frame and a tree of the project's own
    fixed = {"crossing", "die_frame", "pad", "splitter_tree", "terminator"}
    assert shared == {*SAME, "mmi1x2", "mmi2x2", "straight_heater_metal", *fixed}


@pytest.mark.parametrize("process", process_names())
def test_routers_and_gdsfactorys_mzi_work_in_every_process(process: str, tmp_path: Path) -> None:
    card = load_process(process)
    with active_pdk(process):
        # gdsfactory keeps its own cells by their arguments alone, and would return those of another process
        gf.clear_cache()
        c = gf.Component()
        left, right = c << gf.get_component("mmi1x2"), c << gf.get_component("mmi1x2")
        left.drotate(180)
        right.move((400.0, 150.0))
        (route,) = gf.routing.route_bundle(c, [left["o1"]], [right["o1"]], cross_section="strip")
        lone = c << gf.components.mzi(delta_length=40.0, length_x=20.0, length_y=20.0, cross_section="strip")
        lone.move((0.0, -400.0))
        for inst in (left, right):
            for port in ("o2", "o3"):
                (c << gf.get_component("terminator")).connect("o1", inst[port])
        for port in ("o1", "o2"):
            (c << gf.get_component("terminator")).connect("o1", lone[port])
        path = tmp_path / "circuit.gds"
        c.write_gds(path, with_metadata=False)
        drawn = sum(each.cell.info["length"] for each in route.instances)
        assert {"strip", "metal_routing"} <= set(gf.get_active_pdk().cross_sections)
        assert gf.get_active_pdk().routing_strategies
        assert set(cells_of(card)) <= set(gf.get_active_pdk().cells)
    circuit = extract(path, card).circuit
    assert {circuit.kinds[kind].name for kind in circuit.kind.tolist()} == {"mmi1x2", "terminator"}
    assert any(abs(length - drawn) < 0.05 for length in circuit.net_length_um.tolist())
