"""Circuits of gdsfactory's routers, cells and YAML with the PDK's cells: DRC clean, and extracted as drawn."""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gdsfactory as gf
import pytest

from optinc_pdk.cards import load_process
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.signoff.drc.design_rule_check import run_drc

PROCESS = load_process()
SHIFTER = PROCESS.device("phase_shifter")
CONTACT_UM = float(SHIFTER.size("contact_width_um"))
# Sides of a bend are rounded to the grid; the length of a guide is the mean of both.
EXACT_UM = 0.005
# The rule of bends measures a bend directly behind a coupler together with it.
STRAIGHT_UM = 3.0
BENDS = ("bend_circular", "bend_euler")


def signed_off(component: gf.Component, folder: Path) -> Extraction:
    """Extract a circuit with terminators at its open guides, after the rules of cells are checked."""
    c = gf.Component()
    inside = c << component
    for port in inside.ports:
        if port.port_type == "optical":
            (c << gf.get_component("terminator")).connect("o1", port)
    path = folder / "circuit.gds"
    c.write_gds(path, with_metadata=False)
    rules = [rule for rule in PROCESS.rules if not rule.id.startswith("chip.")]
    found = run_drc(path, rules, PROCESS.gds_layers).rules
    assert {rule.id: [str(box) for box in rule.boxes_um] for rule in found if rule.violations} == {}
    extraction = extract(path, PROCESS)
    assert extraction.faults == ()
    return extraction


def net_lengths(extraction: Extraction, *devices: str) -> list[float]:
    """Return the lengths in µm of the guides between devices of these names, sorted."""
    circuit = extraction.circuit
    lengths = zip(circuit.nets.tolist(), circuit.net_length_um.tolist(), strict=True)
    between = [({circuit.port_name(port).rpartition("_")[0] for port in ports}, length) for ports, length in lengths]
    return sorted(length for names, length in between if names == set(devices))


def drawn_lengths(routes: Iterable[Any]) -> list[float]:
    """Return the sum of the ``info`` lengths of the cells of each route in µm, sorted."""
    return sorted(sum(instance.cell.info["length"] for instance in route.instances) for route in routes)


def instance_components(component: gf.Component) -> set[str]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unconnected ports")
        return {instance["component"] for instance in component.get_netlist()["instances"].values()}


# The example of the documentation.


def test_the_circuit_of_the_documentation_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    code = page.partition("## Draw a circuit\n")[2].partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/python.md", "exec"), {})
    result = run_drc(tmp_path / "heated_mzi.gds", PROCESS.rules, PROCESS.gds_layers)
    assert [found.id for found in result.rules if found.violations and found.rule.severity == "error"] == []
    extraction = extract(tmp_path / "heated_mzi.gds", PROCESS)
    assert extraction.faults == ()
    assert set(extraction.circuit.ports) == {"in", "out", "heater", "GND"}


# Routers.


@pytest.mark.parametrize("bend", BENDS)
def test_a_single_route_is_a_guide_as_long_as_its_cells(bend: str, tmp_path: Path) -> None:
    c = gf.Component()
    left, right = c << gf.get_component("grating_coupler"), c << gf.get_component("grating_coupler")
    left.drotate(180)
    right.dmove((300.0, 127.0))
    route = gf.routing.route_single(
        c, left.ports["o1"], right.ports["o1"], cross_section="strip", bend=bend, start_straight_length=STRAIGHT_UM
    )
    lengths = net_lengths(signed_off(c, tmp_path), "grating_coupler")
    assert lengths == pytest.approx(drawn_lengths([route]), abs=EXACT_UM)
    assert instance_components(c) == {"grating_coupler", "straight", bend}


def heaters(bend: str) -> tuple[gf.Component, list[Any]]:
    """Four phase shifters with routes to fibres, and to pads above and below."""
    c = gf.Component()
    shifters = [c << gf.get_component("phase_shifter") for _ in range(4)]
    fibres = [c << gf.get_component("grating_coupler_te") for _ in range(4)]
    signals, grounds = ([c << gf.get_component("pad") for _ in range(4)] for _ in range(2))
    for i in range(4):
        shifters[i].dmove((300.0, 127.0 * i))
        fibres[i].drotate(180)
        fibres[i].dmove((-100.0, 127.0 * i - 40.0))
        grounds[i].drotate(180)
        grounds[i].dmove((200.0 - 100.0 * i, -200.0))
        signals[i].dmove((900.0 - 100.0 * i, 700.0))
        for label, pad in ((f"heater{i}", signals[i]), (f"GND{i}", grounds[i])):
            c.add_label(label, position=pad.dcenter, layer="label")
    routes = gf.routing.route_bundle(
        c,
        [fibre.ports["o1"] for fibre in fibres],
        [shifter.ports["o1"] for shifter in shifters],
        cross_section="strip",
        bend=bend,
        separation=30.0,
    )
    for end, pads in (("e1", grounds), ("e2", signals)):
        gf.routing.route_bundle_electrical(
            c,
            [shifter.ports[end] for shifter in shifters],
            [pad.ports["e1"] for pad in pads],
            cross_section="metal_routing",
            separation=20.0,
        )
    for i, shifter in enumerate(shifters):
        c.add_port(f"o{i + 1}", port=shifter.ports["o2"])
    return c, routes


@pytest.mark.parametrize("bend", BENDS)
def test_bundles_of_guides_and_wires_join_the_ports_that_they_were_asked_to(bend: str, tmp_path: Path) -> None:
    c, routes = heaters(bend)
    extraction = signed_off(c, tmp_path)
    # the guide continues under a contact of the heater
    expected = [length + CONTACT_UM for length in drawn_lengths(routes)]
    assert net_lengths(extraction, "grating_coupler", "phase_shifter") == pytest.approx(expected, abs=EXACT_UM)
    circuit = extraction.circuit
    pads = {label: circuit.port_name(port).rpartition("_")[0] for label, port in circuit.ports.items()}
    assert pads == {f"{kind}{i}": "pad" for kind in ("heater", "GND") for i in range(4)}
    wiring = extraction.heater_wiring
    assert wiring is not None
    labels = {pad.net: pad.label for pad in wiring.pads}
    by_height = sorted(zip(wiring.heaters, wiring.ends, strict=True), key=lambda pair: pair[0].active.bottom)
    wired = [(labels[signal], labels[ground]) for _, (signal, ground) in by_height]
    assert wired == [(f"heater{i}", f"GND{i}") for i in range(4)]
    assert instance_components(c) == {
        bend,
        "grating_coupler",
        "pad",
        "phase_shifter",
        "straight",
        "wire_corner",
    }


def test_a_route_that_bends_too_tightly_is_refused() -> None:
    c = gf.Component()
    left, right = c << gf.get_component("terminator"), c << gf.get_component("terminator")
    left.drotate(180)
    right.dmove((300.0, 127.0))
    with pytest.raises(ValueError, match=r"bend_circular: radius is 5\.000 µm.* 10\.0 µm"):
        gf.routing.route_bundle(
            c, [left.ports["o1"]], [right.ports["o1"]], cross_section="strip", bend="bend_circular", radius=5.0
        )


def test_a_fibre_array_is_routed_to_the_ports_of_a_circuit(tmp_path: Path) -> None:
    c = gf.routing.add_fiber_array(
        gf.get_component("mzi"), grating_coupler="grating_coupler_te", cross_section="strip", with_loopback=False
    )
    circuit = signed_off(c, tmp_path).circuit
    assert len(circuit.instances_of("grating_coupler")) == 2
    assert len(circuit.instances_of("mmi1x2")) == 2


# Cells of gdsfactory, drawn with the PDK's.


@pytest.mark.parametrize("bend", BENDS)
@pytest.mark.parametrize("own", [False, True], ids=["gf.components.mzi", "the PDK's mzi"])
def test_an_mzi_has_arms_that_differ_by_delta_length(own: bool, bend: str, tmp_path: Path) -> None:
    mzi = gf.get_component("mzi", delta_length=30.0, bend=bend) if own else gf.components.mzi(30.0, bend=bend)
    short, long = net_lengths(signed_off(mzi, tmp_path), "mmi1x2")
    assert long - short == pytest.approx(30.0, abs=EXACT_UM)
    assert instance_components(mzi) == {"mmi1x2", "straight", bend}


def test_an_mzi_with_a_heater_has_a_phase_shifter_in_one_arm(tmp_path: Path) -> None:
    extraction = signed_off(gf.components.mzi_phase_shifter(), tmp_path)
    assert extraction.silicon["phase_shifter"] == 1
    shifter = extraction.circuit.settings["length_um"][extraction.circuit.instances_of("phase_shifter")]
    assert shifter.tolist() == [200.0 - 2 * CONTACT_UM]
    heated = sum(net_lengths(extraction, "mmi1x2", "phase_shifter")) + 200.0 - 2 * CONTACT_UM
    (plain,) = net_lengths(extraction, "mmi1x2")
    assert plain - heated == pytest.approx(10.0, abs=EXACT_UM)


@pytest.mark.parametrize("name", ["mzi1x2_2x2", "mzi2x2_2x2"])
def test_an_mzi_of_2x2_couplers_is_extracted(name: str, tmp_path: Path) -> None:
    c = gf.Component()
    mzi = c << getattr(gf.components, name)(length_x=20.0)
    for port in mzi.ports:
        # adjacent ports of a coupler are as close as arms may be within 25 µm of it: one arc leads away from the other
        turn = 90.0 if (port.center[1] > 0) == (port.orientation == 0) else -90.0
        (bend := c << gf.get_component("bend_circular", angle=turn)).connect("o1", port)
        c.add_port(port.name, port=bend.ports["o2"])
    counts = dict(signed_off(c, tmp_path).silicon)
    assert counts.get("mmi1x2", 0) + counts["mmi2x2"] == 2


def test_a_splitter_tree_of_gdsfactory_has_leaves_of_equal_length(tmp_path: Path) -> None:
    tree = gf.components.splitter_tree(noutputs=4, spacing=(130.0, 80.0), bend_s_xsize=45.0)
    extraction = signed_off(tree, tmp_path)
    assert extraction.silicon["mmi1x2"] == 3
    first, second = net_lengths(extraction, "mmi1x2")
    assert first == pytest.approx(second, abs=EXACT_UM)
    leaves = net_lengths(extraction, "mmi1x2", "terminator")
    assert leaves[0] == 0.0
    assert leaves[1:] == pytest.approx([leaves[1]] * 4, abs=EXACT_UM)


# Schematics.

SCHEMATIC = """
name: interferometer
instances:
  input: {component: grating_coupler}
  output: {component: grating_coupler_elliptical}
  split: {component: mmi1x2}
  up: {component: bend_s, settings: {size: [40, 20]}}
  down: {component: bend_s, settings: {size: [40, -20]}}
  heater: {component: straight_heater_metal, settings: {length: 100}}
  delay: {component: straight, settings: {length: 150}}
  join: {component: mmi1x2}
  above: {component: bend_s, settings: {size: [40, 20]}}
  below: {component: bend_s, settings: {size: [40, -20]}}
placements:
  input: {x: 0, y: 0, rotation: 180}
  split: {x: 50, y: 0}
  heater: {x: 250, y: 100}
  delay: {x: 250, y: -100}
  join: {x: 650, y: 0, rotation: 180}
  output: {x: 700, y: 0}
connections:
  up,o1: split,o2
  down,o1: split,o3
  above,o1: join,o2
  below,o1: join,o3
routes:
  ends:
    settings: &guide {cross_section: strip, bend: bend_circular, start_straight_length: 3}
    links: {"input,o1": "split,o1", "join,o1": "output,o1"}
  upper:
    settings: *guide
    links: {"up,o2": "heater,o1", "below,o2": "heater,o2"}
  lower:
    settings: *guide
    links: {"down,o2": "delay,o1", "above,o2": "delay,o2"}
"""


def test_a_schematic_with_placements_and_routes_is_drawn_and_extracted(tmp_path: Path) -> None:
    extraction = signed_off(gf.read.from_yaml(SCHEMATIC), tmp_path)
    circuit = extraction.circuit
    nets = {frozenset(circuit.port_name(port) for port in net) for net in circuit.nets.tolist()}
    assert len(nets) == 5
    names = sorted(sorted(port.rpartition("_")[0] for port in net) for net in nets)
    assert names == [
        ["grating_coupler", "mmi1x2"],
        ["grating_coupler", "mmi1x2"],
        ["mmi1x2", "mmi1x2"],
        ["mmi1x2", "phase_shifter"],
        ["mmi1x2", "phase_shifter"],
    ]
