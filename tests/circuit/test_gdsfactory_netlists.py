"""Netlists of drawn circuits: guides and wires become nets, cells are expanded, faults name instance and port."""

from __future__ import annotations

import math
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from optinc_pdk.cards import DeviceCard, Process, load_process
from optinc_pdk.cards.device import DeviceNames, LengthName, NetlistNames
from optinc_pdk.cards.quantity import Quantity
from optinc_pdk.circuit import NetlistError, PlacedCircuit, read_reference
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.circuit.schematic_cells import InstanceTransform
from optinc_pdk.io.yaml_files import dump_yaml

PROCESS = load_process()
CONTACT_UM = PROCESS.device("phase_shifter").size("contact_width_um")
ANGLES = st.sampled_from([0.0, 90.0, 180.0, 270.0, 33.0])
LENGTHS = st.integers(-(10**6), 10**6).map(lambda nm: nm / 1000)
TRANSFORMS = st.builds(InstanceTransform, LENGTHS, LENGTHS, ANGLES, st.booleans())


def instance(component: str, **settings: Any) -> dict[str, Any]:
    return {"component": component, "settings": settings, "info": {}}


def guide(length: float | None) -> dict[str, Any]:
    return {"component": "straight", "settings": {}, "info": {} if length is None else {"length": length}}


def nets(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"p1": a, "p2": b} for a, b in pairs]


def link() -> dict[str, Any]:
    """Two grating couplers with a heater between them, which two pads drive."""
    return {
        "instances": {
            "west": instance("grating_coupler"),
            "east": instance("grating_coupler"),
            "heater": instance("phase_shifter", length_um=80.0),
            "a": guide(100.0),
            "b": {"component": "bend_euler", "info": {"length": 16.5}},
            "c": guide(7.25),
            "pad1": instance("pad"),
            "pad2": instance("pad"),
            "wire1": instance("straight"),
            "corner": instance("wire_corner"),
            "wire2": instance("straight"),
        },
        "placements": {"west": {"x": 10.0, "y": 5.0, "rotation": 90, "mirror": True}, "east": {"x": "west,o1", "y": 0}},
        "nets": nets(
            ("west,o1", "a,o2"),
            ("a,o1", "b,o1"),
            ("b,o2", "heater,o1"),
            ("heater,o2", "c,o1"),
            ("c,o2", "east,o1"),
            ("pad1,e1", "wire1,e1"),
            ("wire1,e2", "corner,e1"),
            ("corner,e2", "heater,e1"),
            ("pad2,e1", "wire2,e2"),
            ("heater,e2", "wire2,e1"),
        ),
        "ports": {"in": "west,o2", "out": "east,o2", "drive": "pad1,e1"},
    }


def read(data: dict[str, Any], name: str = "top") -> PlacedCircuit:
    return placed_circuit(data, PROCESS, name)


def named(placed: PlacedCircuit) -> dict[tuple[str, str], float]:
    circuit = placed.circuit
    return {
        (circuit.port_name(a), circuit.port_name(b)): length
        for (a, b), length in zip(circuit.nets.tolist(), circuit.net_length_um.tolist(), strict=True)
    }


def test_guides_become_nets_and_wires_electrical_nets() -> None:
    placed = read(link())
    circuit = placed.circuit
    assert circuit.instances == ("west", "east", "heater", "pad1", "pad2")
    assert named(placed) == {("west,o1", "heater,o1"): 116.5 + CONTACT_UM, ("east,o1", "heater,o2"): 7.25 + CONTACT_UM}
    assert {label: circuit.port_name(port) for label, port in circuit.ports.items()} == link()["ports"]
    electrical = {circuit.port_name(p): int(n) for p, n in enumerate(circuit.electrical.tolist()) if n >= 0}
    assert electrical["pad1,e1"] == electrical["heater,e1"] != electrical["pad2,e1"] == electrical["heater,e2"]
    assert circuit.settings["length_um"][2] == 80.0
    assert placed.transforms[:2] == (InstanceTransform(10.0, 5.0, 90.0, True), None)
    assert placed.exposed == {"in", "out", "drive"}


def test_one_unknown_length_makes_the_net_unknown() -> None:
    data = link()
    data["instances"]["a"] = guide(None)
    lengths = named(read(data))
    assert math.isnan(lengths["west,o1", "heater,o1"])
    assert lengths["east,o1", "heater,o2"] == 7.25 + CONTACT_UM


def test_connections_are_nets_and_routes_are_nets_of_unknown_length() -> None:
    data = link()
    data["connections"] = {"a,o2": "west,o1"}
    data["routes"] = {"optical": {"links": {"c,o2": "east,o1"}, "settings": {"radius": 10}}}
    data["nets"] = [net for net in data["nets"] if {"west,o1", "east,o1"}.isdisjoint(net.values())]
    assert read(data).circuit.nets.tolist() == read(link()).circuit.nets.tolist()
    lengths = named(read(data))
    assert lengths["west,o1", "heater,o1"] == 116.5 + CONTACT_UM
    assert math.isnan(lengths["east,o1", "heater,o2"])


def schematic() -> dict[str, Any]:
    """The link as it is written by hand: without ``info``, and with the arguments that differ from default values."""
    data = link()
    for part in data["instances"].values():
        part.pop("info", None)
    del data["placements"]
    data["instances"]["a"]["settings"] = {"length": 100.0}
    return data


def test_nets_of_a_schematic_have_unknown_lengths_and_its_connections_touch() -> None:
    assert all(math.isnan(length) for length in named(read(schematic())).values())
    data = schematic()
    data["instances"]["b"] = {"component": "straight"}
    # guide c stays 10 µm long, as its cell draws it by default
    light = [net for net in data["nets"] if ",o" in net["p1"]]
    data["nets"] = [net for net in data["nets"] if net not in light]
    data["connections"] = {net["p1"]: net["p2"] for net in light}
    assert named(read(data)) == {
        ("west,o1", "heater,o1"): 110.0 + CONTACT_UM,
        ("east,o1", "heater,o2"): 10.0 + CONTACT_UM,
    }
    # one instance that was added by hand to the netlist of a layout
    data = link()
    del data["instances"]["a"]["info"]
    data["instances"]["a"]["settings"] = {"length": 100.0}
    lengths = named(read(data))
    assert math.isnan(lengths["west,o1", "heater,o1"])
    assert lengths["east,o1", "heater,o2"] == 7.25 + CONTACT_UM


def test_schematics_have_the_default_gaps_and_lengths_of_cells() -> None:
    parts = {name: {"component": name} for name in ("coupler", "coupler_ring", "coupler_ring_bend", "coupler_straight")}
    circuit = read({"instances": parts}).circuit
    assert circuit.settings["gap_um"].tolist() == [0.236, 0.2, 0.21, 0.27]
    assert circuit.settings["guide_1_um"][3] == circuit.settings["guide_2_um"][3] == 10.0


@pytest.mark.parametrize(("stated", "expected"), [({}, math.nan), ({"lead_um": 3.0}, 103.0)])
def test_the_gap_of_a_coupler_is_its_argument_and_its_lead_may_be_unknown(
    stated: dict[str, float], expected: float
) -> None:
    data = {
        "instances": {
            "west": instance("grating_coupler"),
            "ring": instance("coupler_ring", gap=0.25) | {"info": stated},
            "a": guide(100.0),
        },
        "nets": nets(("west,o1", "a,o1"), ("a,o2", "ring,o1")),
        "ports": {"in": "west,o2"},
    }
    placed = read(data)
    assert placed.circuit.settings["gap_um"][1] == 0.25
    assert named(placed)["west,o1", "ring,o1"] == pytest.approx(expected, nan_ok=True)
    assert "coupled_length_um" not in placed.circuit.settings


def hierarchy(count: int) -> dict[str, Any]:
    """A cell of two splitters, used several times in a row between two grating couplers."""
    names = [f"cell{i}" for i in range(count)]
    ends = ["west,o1", *(f"{name},{port}" for name in names for port in ("left", "right")), "east,o1"]
    inner = {
        "instances": {"split": instance("mmi1x2"), "join": instance("mmi1x2"), "arm": guide(3.0), "other": guide(5.0)},
        "placements": {"split": {"x": 1.0, "y": 2.0, "rotation": 0, "mirror": False}},
        "nets": nets(("split,o2", "arm,o1"), ("arm,o2", "join,o3"), ("split,o3", "other,o1"), ("other,o2", "join,o2")),
        "ports": {"left": "split,o1", "right": "join,o1"},
    }
    top = {
        "instances": {
            "west": instance("grating_coupler"),
            "east": instance("grating_coupler"),
            **{name: instance("arms") for name in names},
        },
        "placements": {name: {"x": 100.0 * i, "y": 0, "rotation": 180, "mirror": True} for i, name in enumerate(names)},
        "nets": nets(*zip(ends[::2], ends[1::2], strict=True)),
        "ports": {"in": "west,o2"},
    }
    # written sorted by name, as YAML files are
    return {"arms": inner, "top": top}


def test_cells_are_expanded_with_their_placements() -> None:
    placed = read(hierarchy(10))
    circuit = placed.circuit
    assert len(circuit.instances) == 2 + 10 * 2
    lengths = named(placed)
    assert lengths["cell3.split,o2", "cell3.join,o3"] == 3.0
    assert lengths["cell3.join,o1", "cell4.split,o1"] == 0.0
    # mirrored about x, then turned by 180°
    assert placed.transforms[circuit.instances.index("cell3.split")] == InstanceTransform(299.0, 2.0, 180.0, True)


def test_arrays_are_expanded() -> None:
    data = {
        "instances": {
            "gratings": instance("grating_coupler") | {"array": {"columns": 1, "rows": 3, "row_pitch": 127.0}},
            "loop": guide(400.0),
        },
        "placements": {"gratings": {"x": 5.0, "y": 0.0, "rotation": 90, "mirror": False}},
        "nets": nets(("gratings<0.0>,o1", "loop,o1"), ("loop,o2", "gratings<0.2>,o1")),
        "ports": {"in": "gratings<0.0>,o2"},
    }
    placed = read(data)
    assert named(placed) == {("gratings<0.0>,o1", "gratings<0.2>,o1"): 400.0}
    place = placed.transforms[placed.circuit.instances.index("gratings<0.2>")]
    assert place is not None
    assert (place.x_um, place.y_um) == pytest.approx((5.0 - 254.0, 0.0))


@given(TRANSFORMS, TRANSFORMS, LENGTHS, LENGTHS)
def test_transforms_are_those_of_the_layout_tool(
    outer: InstanceTransform, inner: InstanceTransform, x: float, y: float
) -> None:
    def reference(each: InstanceTransform) -> gf.kdb.DCplxTrans:
        return gf.kdb.DCplxTrans(1.0, each.rotation_deg, each.mirror, each.x_um, each.y_um)

    expected = reference(outer) * reference(inner) * gf.kdb.DPoint(x, y)
    assert outer.after(inner).apply(x, y) == pytest.approx((expected.x, expected.y), abs=1e-9)
    assert outer.apply(*inner.apply(x, y)) == pytest.approx((expected.x, expected.y), abs=1e-9)


def changed(*keys: Any) -> dict[str, Any]:
    """The link with the last key as the value at the path of the others."""
    data: Any = link()
    inner = data
    for key in keys[:-2]:
        inner = inner[key]
    inner[keys[-2]] = keys[-1]
    return data


@pytest.mark.parametrize(
    ("data", "values"),
    [
        (changed("instances", "a", instance("mzi_of_mine")), ("'a'", "mzi_of_mine", "grating_coupler", "bend_euler")),
        (changed("nets", 0, {"p1": "west,o7", "p2": "a,o2"}), ("west", "'o7'", "o1, o2")),
        (changed("nets", 0, {"p1": "west,o1", "p2": "a,o3"}), ("a", "'o3'")),
        (changed("nets", 0, {"p1": "nowhere,o1", "p2": "a,o2"}), ("'nowhere'",)),
        (changed("nets", 0, {"p1": "west,o1", "p2": "heater,o1"}), ("heater,o1", "b,o2", "twice")),
        (changed("nets", 0, {"p1": "west,o1", "p2": "west,o1"}), ("west,o1", "itself")),
        (changed("nets", 0, {"p1": "west,o1", "p2": "pad1,e1"}), ("west,o1", "pad1,e1", "electrical")),
        (changed("nets", 0, {"p1": "west,o1"}), ("p1",)),
        (changed("nets", 0, {"p1": 3, "p2": "a,o2"}), ("3",)),
        (changed("nets", 0, {"p1": "west", "p2": "a,o2"}), ("'west'",)),
        (changed("ports", "in", "west,o9"), ("'in'", "o9")),
        (changed("ports", "in", "absent,o1"), ("'in'", "absent")),
        (changed("instances", "a", {"settings": {}}), ("'a'", "component")),
        (changed("instances", "a", {"component": "straight", "colour": 1}), ("'a'", "colour")),
        (changed("instances", "a", guide(float("nan"))), ("'a'", "length", "nan")),
        (changed("instances", "heater", instance("phase_shifter", length_um=-80.0)), ("'heater'", "length_um", "-80")),
        (changed("instances", "a", guide(-1.0)), ("'a'", "length", "-1")),
        (changed("placements", "west", {"x": float("nan"), "y": 0}), ("'west'", "nan")),
        (changed("placements", "west", {"x": 2.0**31, "y": 0}), ("'west'", "2.14748e+09")),
        (changed("schema_of_mine", 1), ("schema_of_mine",)),
        ({"one": hierarchy(1)["arms"], "two": hierarchy(1)["arms"]}, ("one, two",)),
        ({"top": {"instances": {"a": instance("top")}}}, ("0 of its 1",)),
    ],
)
def test_faults_name_instance_and_port(data: dict[str, Any], values: tuple[str, ...]) -> None:
    with pytest.raises(NetlistError) as fault:
        read(data)
    for value in values:
        assert value in str(fault.value)


@pytest.mark.parametrize(
    ("component", "settings", "info", "values"),
    [
        ("coupler", {"gap": 0.25}, {"gap_um": 0.2}, ("gap", "0.25", "gap_um", "0.2")),
        ("coupler_ring_bend", {"coupler_gap": 0.25}, {"gap_um": 0.2}, ("coupler_gap", "0.25", "0.2")),
        ("coupler_straight", {"length": 10.0}, {"guide_2_um": 12.5}, ("length", "10", "guide_2_um", "12.5")),
        ("phase_shifter", {"length_um": 80.0}, {"length_um": 81.0}, ("length_um", "80", "81")),
        ("straight", {"length": 300.0}, {"length": 280.627}, ("length", "300", "280.627")),
        ("straight", {"length": 280.629}, {"length": 280.627}, ("length", "280.629", "280.627")),
        ("straight", {"length": -5}, {"length": 5.0}, ("length", "-5")),
        ("straight", {"length": "abc"}, {"length": 5.0}, ("length", "'abc'")),
    ],
)
def test_settings_that_contradict_info_are_refused(
    component: str, settings: dict[str, Any], info: dict[str, Any], values: tuple[str, ...]
) -> None:
    with pytest.raises(NetlistError) as fault:
        read({"instances": {"part": {"component": component, "settings": settings, "info": info}}})
    for value in ("'part'", *values):
        assert value in str(fault.value)


def test_info_may_be_rounded_and_other_arguments_differ_from_it() -> None:
    parts = {
        "straight": ({"length": 280.6274}, {"length": 280.627}),
        "coupler": ({"gap": 0.2, "length": 20.0}, {"gap_um": 0.2, "guide_1_um": 44.8, "path_difference_um": -0.5}),
        "bend_s": ({"length": 3.0}, {"length": 40}),
    }
    placed = read(
        {"instances": {name: {"component": name, "settings": a, "info": b} for name, (a, b) in parts.items()}}
    )
    circuit = placed.circuit
    assert circuit.instances == ("coupler",)
    assert (circuit.settings["gap_um"][0], circuit.settings["path_difference_um"][0]) == (0.2, -0.5)


def test_a_port_at_the_open_end_of_a_guide_is_refused() -> None:
    data = link()
    data["nets"] = data["nets"][1:]
    data["ports"]["in"] = "a,o2"
    with pytest.raises(NetlistError, match=r"'in'.*'a'.*grating_coupler"):
        read(data)


def test_the_frame_of_a_die_is_no_device_and_has_no_ports() -> None:
    framed = link()
    framed["instances"]["die"] = {"component": "die_frame", "settings": {"name": "a"}}
    plain, with_frame = (placed_circuit(data, PROCESS, "link").circuit for data in (link(), framed))
    assert with_frame.instances == plain.instances
    framed["nets"] += nets(("die,o1", "a,o2"))
    with pytest.raises(NetlistError, match=r"die has no port 'o1'"):
        placed_circuit(framed, PROCESS, "link")


def test_cells_that_contain_each_other_are_refused() -> None:
    data = hierarchy(1)
    data["arms"]["instances"]["again"] = instance("arms")
    data["other"] = {"instances": {"x": instance("arms")}, "ports": {}}
    with pytest.raises(NetlistError, match="arms > arms"):
        read(data)


def test_cells_that_double_are_refused_before_they_are_expanded() -> None:
    cells = {
        f"c{i}": {"instances": {"a": instance(f"c{i + 1}"), "b": instance(f"c{i + 1}")}, "ports": {}} for i in range(60)
    }
    cells["c60"] = {"instances": {"x": guide(1.0)}, "ports": {}}
    with pytest.raises(NetlistError, match="1000000"):
        read(cells, "c0")


def test_an_array_of_too_many_elements_is_refused() -> None:
    data = {"instances": {"many": instance("grating_coupler") | {"array": {"columns": 2000, "rows": 2000}}}}
    with pytest.raises(NetlistError, match=r"'many'.*4000000"):
        read(data)


def test_a_port_on_a_wire_labels_the_pad_of_its_net() -> None:
    data = link()
    data["ports"]["drive"] = "corner,e1"
    assert read(data).circuit.ports["drive"] == read(link()).circuit.ports["drive"]


def test_files_of_both_formats_are_told_apart(tmp_path: Any) -> None:
    dump_yaml(tmp_path / "drawn.pic.yml", link())
    placed = read_reference(tmp_path / "drawn.pic.yml", PROCESS, "drawn")
    assert isinstance(placed, PlacedCircuit)
    assert np.array_equal(placed.circuit.nets, read(link()).circuit.nets)
    (tmp_path / "wrong.pic.yml").write_text("instances: [1]\n")
    with pytest.raises(NetlistError, match=r"wrong.pic.yml.*instances"):
        read_reference(tmp_path / "wrong.pic.yml", PROCESS, "wrong")


def card_named(device: str, **names: Any) -> DeviceCard:
    return PROCESS.devices[device].model_copy(update={"netlist": DeviceNames(**names)})


def process(*cards: DeviceCard, guides: tuple[str, ...] = ()) -> Process:
    devices = {**PROCESS.devices, **{card.name: card for card in cards}}
    return PROCESS.model_copy(update={"devices": devices, "netlist": NetlistNames(guides=guides)})


HEATER = card_named(
    "phase_shifter",
    cells=("heated",),
    settings={"undercut": False, "width": 2.5, "section": "strip"},
    ports={"l_e1": "e1", "l_e2": "e1", "r_e1": "e2", "r_e2": "e2"},
    length=LengthName(argument="length", end_um=Quantity(0.1, "default")),
)
PAD = card_named("pad", ports={"e2": "e1", "pad": "e1"})
SHORT = card_named("directional_coupler", cells=("coupler_of_two",), settings={"length": 10.0})
LONG = card_named("monitor_tap", cells=("coupler_of_two",), settings={"length": 20.0})


def heated_link(**settings: Any) -> dict[str, Any]:
    """A heater between two gratings, wired to two pads through tapers."""
    return {
        "instances": {
            "west": {"component": "grating_coupler", "info": {}},
            "east": {"component": "grating_coupler", "info": {}},
            "mid": {"component": "heated", "settings": settings, "info": {}},
            "p": {"component": "pad", "info": {}},
            "q": {"component": "pad", "info": {}},
            "wide": {"component": "taper_wire", "settings": {"length": 10.0}},
        },
        "nets": [
            {"p1": "west,o1", "p2": "mid,o1"},
            {"p1": "mid,o2", "p2": "east,o1"},
            {"p1": "mid,l_e2", "p2": "wide,e1"},
            {"p1": "wide,e2", "p2": "p,e2"},
            {"p1": "mid,r_e1", "p2": "q,pad"},
            {"p1": "mid,r_e1", "p2": "mid,r_e2"},
        ],
        "ports": {"in": "west,o2", "drive": "p,pad", "GND": "q,e1"},
    }


def read_named(data: dict[str, Any], *cards: DeviceCard) -> PlacedCircuit:
    return placed_circuit(data, process(*cards, guides=("taper_wire",)), "link")


def test_cells_ports_and_lengths_have_the_names_of_the_card() -> None:
    circuit = read_named(heated_link(length=100, undercut=False, width=2.5), HEATER, PAD).circuit
    (heater,) = circuit.instances_of("phase_shifter").tolist()
    assert circuit.instances[heater] == "mid"
    assert circuit.settings["length_um"][heater] == 99.8
    # 0.1 µm of each guide lie in the cell of the heater
    assert sorted(circuit.net_length_um.tolist()) == [0.1, 0.1]
    first = int(circuit.offset[heater])
    ends = circuit.electrical[first + 2 : first + 4].tolist()
    assert ends == [int(circuit.electrical[circuit.ports[label]]) for label in ("drive", "GND")]
    assert ends[0] != ends[1]


def test_a_length_that_is_not_stated_is_that_of_the_card() -> None:
    circuit = read_named(heated_link(), HEATER, PAD).circuit
    assert "length_um" not in circuit.settings


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"undercut": True}, ("undercut is True", "False")),
        ({"width": 3}, ("width is 3", "2.5")),
        ({"section": None}, ("section",)),
    ],
)
def test_a_cell_of_other_dimensions_is_refused_by_its_instance(
    settings: dict[str, Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(NetlistError) as refused:
        read_named(heated_link(**settings), HEATER, PAD)
    assert all(word in str(refused.value) for word in ("'mid'", "heated", "phase_shifter", *words))


def coupler(**settings: Any) -> dict[str, Any]:
    return {"instances": {"dc": {"component": "coupler_of_two", "settings": settings}}}


def test_settings_choose_among_devices_of_one_cell() -> None:
    for length, device in ((10, "directional_coupler"), (20.0000001, "monitor_tap")):
        circuit = read_named(coupler(length=length), SHORT, LONG).circuit
        assert circuit.instances_of(device).size == 1
    with pytest.raises(NetlistError, match=r"'dc'.*directional_coupler, monitor_tap.*length"):
        read_named(coupler(), SHORT, LONG)
    with pytest.raises(NetlistError, match=r"'dc'.*length is 15 instead of 10.*instead of 20"):
        read_named(coupler(length=15), SHORT, LONG)


def test_a_device_may_be_called_by_its_own_name_too() -> None:
    data = {"instances": {"dc": {"component": "directional_coupler", "settings": {"length": 15}}}}
    assert read_named(data, SHORT).circuit.instances_of("directional_coupler").size == 1


def test_unknown_ports_and_components_are_named_with_what_there_is() -> None:
    data = heated_link()
    data["nets"][2]["p1"] = "mid,t_e1"
    with pytest.raises(NetlistError, match=r"mid has no port 't_e1'.*l_e1"):
        read_named(data, HEATER, PAD)
    with pytest.raises(NetlistError, match=r"'mid'.*'heated'.*taper_wire"):
        read_named(heated_link(), PAD)
    data = heated_link()
    data["nets"].append({"p1": "mid,l_e1", "p2": "mid,l_e1"})
    with pytest.raises(NetlistError, match="to itself"):
        read_named(data, HEATER, PAD)


def test_names_of_ports_are_checked_when_the_card_is_read() -> None:
    data = PROCESS.devices["pad"].model_dump()
    for names, word in (({"e2": "e7"}, "e7"), ({"e1": "e1"}, "itself")):
        with pytest.raises(ValidationError, match=word):
            DeviceCard.model_validate({**data, "netlist": {"ports": names}})
