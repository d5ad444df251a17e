"""LVS of a circuit that is drawn by hand, with netlists in gdsfactory's format: labels, lengths, structure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gdsfactory as gf
import numpy as np
import pytest
from drawn_link import HEATER_UM, LENGTH_UM, PROCESS, draw, netlist

from optinc_pdk import active_pdk
from optinc_pdk.circuit.gdsfactory_netlists import placed_circuit
from optinc_pdk.extract import extract
from optinc_pdk.extract.golden_devices import bounding_box, read_golden
from optinc_pdk.signoff.extracted_chip import read_drawn_circuit
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.signoff.lvs.klayout_comparer import compare_with_klayout
from optinc_pdk.signoff.lvs.label_binding import bind_labels, extract_for, named_circuit, placed_positions

VARIANTS = [variant.name for variant in read_golden(PROCESS)]


def check(gds: Path, data: dict[str, Any]) -> LvsResult:
    """Compare, and check that KLayout's comparer agrees about the connections."""
    bound, extraction = extract_for(placed_circuit(data, PROCESS, "link"), gds, PROCESS)
    reference = bound.reference
    result = compare(reference, extraction, PROCESS, bound.differences)
    other = compare_with_klayout(reference, extraction.circuit, PROCESS)
    # KLayout's comparer sees neither lengths nor placements
    kinds = {difference.kind for difference in result.differences if difference not in bound.differences}
    assert other.match == (kinds <= {"length"})
    return result


def test_a_layout_without_labels_matches_by_placements(tmp_path: Path) -> None:
    result = check(draw(tmp_path), netlist())
    assert result.match
    assert result.devices == 5


def test_a_layout_without_labels_matches_by_structure(tmp_path: Path) -> None:
    data = netlist(None, placed=False)
    for name in ("pad1", "pad2"):
        del data["instances"][name]
    data["nets"] = data["nets"][:3]
    result = check(draw(tmp_path), data)
    assert result.match
    assert result.devices == 3


def test_labels_of_the_layout_take_precedence_over_names_of_instances(tmp_path: Path) -> None:
    gds = draw(tmp_path, labels=(("laser", -10.0),))
    data = netlist()
    data["ports"] = {"out": "east,o2"}
    bound, extraction = extract_for(placed_circuit(data, PROCESS, "link"), gds, PROCESS)
    reference = bound.reference
    assert set(reference.ports) == set(extraction.circuit.ports) == {"laser", "out", "pad1", "pad2"}
    assert compare(reference, extraction, PROCESS).match


def test_swapped_labels_of_exposed_ports_are_found(tmp_path: Path) -> None:
    gds = draw(tmp_path, labels=(("out", -10.0), ("in", HEATER_UM + LENGTH_UM + 10.0)))
    result = check(gds, netlist())
    assert [each.reference for each in result.differences if each.kind == "label"] == ["west,o2", "east,o2"]


def labelled(gds: Path, *labels: tuple[str, float, float]) -> Path:
    """Add texts, each with its x and y in µm, to a layout."""
    layout = gf.kdb.Layout()
    layout.read(str(gds))
    texts = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["label"]))
    for text, x, y in labels:
        texts.insert(gf.kdb.DText(text, x, y))
    layout.write(str(gds))
    return gds


PAD1, PAD2 = (-100.0, 300.0), (HEATER_UM + 100.0, 300.0)


def test_swapped_labels_of_pads_are_found(tmp_path: Path) -> None:
    # both ends of a heater are interchangeable, so only the placements say which pad is which
    gds = labelled(draw(tmp_path), ("pad2", *PAD1), ("pad1", *PAD2))
    lvs = read_drawn_circuit(gds, placed_circuit(netlist(), PROCESS, "link"), PROCESS).lvs
    assert lvs is not None
    assert [(each.kind, each.reference, each.extracted, each.position_um) for each in lvs.differences] == [
        ("label", "pad1,e1", "pad2", PAD1),
        ("label", "pad2,e1", "pad1", PAD2),
    ]


@pytest.mark.parametrize("labels", [(("pad1", *PAD1), ("pad2", *PAD2)), (("GND", *PAD1), ("drive", *PAD2))])
def test_labels_of_pads_are_their_instances_or_other_names(
    tmp_path: Path, labels: tuple[tuple[str, float, float], ...]
) -> None:
    lvs = read_drawn_circuit(labelled(draw(tmp_path), *labels), placed_circuit(netlist(), PROCESS, "link"), PROCESS).lvs
    assert lvs is not None
    assert lvs.match


def test_a_label_of_one_pad_on_the_other_is_no_label_that_is_used_twice(tmp_path: Path) -> None:
    lvs = read_drawn_circuit(
        labelled(draw(tmp_path), ("pad1", *PAD2)), placed_circuit(netlist(), PROCESS, "link"), PROCESS
    ).lvs
    assert lvs is not None
    assert [(each.kind, each.reference, each.extracted) for each in lvs.differences] == [("label", "pad2,e1", "pad1")]


def test_a_label_other_than_the_exposed_port_is_found(tmp_path: Path) -> None:
    (difference,) = read_drawn_circuit(
        draw(tmp_path, labels=(("input", -10.0),)), placed_circuit(netlist(), PROCESS, "link"), PROCESS
    ).lvs.differences  # type: ignore[union-attr]
    assert (difference.kind, difference.reference, difference.position_um) == ("label", "west,o2", (-10.0, 0.0))
    assert "'input'" in difference.message
    assert "'in'" in difference.message


def test_an_exposed_coupler_may_have_the_label_of_its_instance(tmp_path: Path) -> None:
    gds = draw(tmp_path, labels=(("west", -10.0),))
    lvs = read_drawn_circuit(gds, placed_circuit(netlist(), PROCESS, "link"), PROCESS).lvs
    assert lvs is not None
    assert lvs.match


def test_another_length_is_found_between_its_devices(tmp_path: Path) -> None:
    result = check(draw(tmp_path), netlist(LENGTH_UM + 0.1))
    (difference,) = result.differences
    assert difference.kind == "length"
    assert "heater,o2 - east,o1" in difference.message or "east,o1 - heater,o2" in difference.message
    contact = PROCESS.device("phase_shifter").size("contact_width_um")
    assert f"{LENGTH_UM + contact:.3f}" in difference.message
    assert f"{LENGTH_UM + contact + 0.1:.3f}" in difference.message


def test_a_missing_device_is_named_as_in_the_netlist(tmp_path: Path) -> None:
    data = netlist()
    data["instances"]["split"] = {"component": "mmi1x2"}
    data["nets"][0] = {"p1": "west,o1", "p2": "split,o1"}
    data["nets"].append({"p1": "split,o2", "p2": "heater,o1"})
    result = check(draw(tmp_path), data)
    assert "split" in {difference.reference for difference in result.differences}


def test_every_fibre_coupler_and_pad_gets_a_label(tmp_path: Path) -> None:
    gds = draw(tmp_path)
    placed = placed_circuit(netlist(), PROCESS, "link")
    bound = bind_labels(placed, (), PROCESS)
    assert {label.text for label in bound.missing} == {"in", "out", "pad1", "pad2"} == set(bound.reference.ports)
    assert set(named_circuit(placed, PROCESS).ports) == set(bound.reference.ports)
    # without a netlist, the extracted couplers have their own names
    drawn = read_drawn_circuit(gds, None, PROCESS)
    assert drawn.named == ("grating_coupler_0", "grating_coupler_1")
    assert not drawn.faults
    assert not extract(gds, PROCESS).circuit.ports


@pytest.mark.parametrize("field", ["x", "rotation"])
def test_a_coupler_that_is_not_where_the_netlist_places_it_is_found(tmp_path: Path, field: str) -> None:
    data = netlist()
    data["placements"]["west"][field] = {"x": -500.0, "rotation": 0}[field]
    assert not check(draw(tmp_path), data).match


def draw_composites(folder: Path, bent_um: float) -> tuple[Path, dict[str, Any]]:
    """Write a circuit of the composites of meshes, and return its path and its netlist.

    Args:
        folder: Folder to write to.
        bent_um: Length of the guide behind the attenuator.
    """
    with active_pdk():
        top = gf.Component()
        tree, mzi, attenuator, dummy, fibre = (
            top << gf.get_component(name)
            for name in ("splitter_tree", "mzi_unit", "attenuator", "mzi_dummy", "grating_coupler")
        )
        mzi.connect("o2", tree["o2"])
        attenuator.connect("o1", tree["o4"])
        dummy.dcplx_trans = gf.kdb.DCplxTrans(1.0, 0.0, True, *tree["o5"].center)
        fibre.connect("o1", tree["o1"])
        top.add_port("in", port=fibre["o2"])
        ends = ((mzi["o3"], 300.0), (mzi["o4"], 30.0), (attenuator["o2"], bent_um), (dummy["o2"], 30.0))
        for port, length in ends:
            guide, end = top << gf.get_component("straight", length=length), top << gf.get_component("terminator")
            guide.connect("o1", port)
            end.connect("o1", guide["o2"])
        path = folder / "composites.gds"
        top.write_gds(path, with_metadata=False)
        return path, top.get_netlist(recursive=True, on_dangling_port="ignore")


def test_composites_of_meshes_are_circuits_of_their_devices(tmp_path: Path) -> None:
    gds, data = draw_composites(tmp_path, 300.0)
    bound, extraction = extract_for(placed_circuit(data, PROCESS, "composites"), gds, PROCESS)
    result = compare(bound.reference, extraction, PROCESS)
    assert result.match
    # 3 splitters, 2 couplers in each interferometer, 3 heaters, 2 terminators in the attenuator and in the dummy
    assert result.devices == 3 + 6 + 3 + 4 + 4 + 1
    assert compare_with_klayout(bound.reference, extraction.circuit, PROCESS, result).match
    other, _ = draw_composites(tmp_path, 301.0)
    bound, extraction = extract_for(placed_circuit(data, PROCESS, "composites"), other, PROCESS)
    (difference,) = compare(bound.reference, extraction, PROCESS).differences
    assert difference.kind == "length"
    assert "attenuator" in str(difference.reference)


def draw_interferometers(folder: Path, differences_um: Sequence[float]) -> tuple[Path, dict[str, Any]]:
    """Draw interferometers of two Y-branches each in a row, between two fibres; return layout and netlist."""
    with active_pdk():
        gf.clear_cache()
        top = gf.Component("interferometers")
        first = top << gf.get_component("grating_coupler")
        top.add_port("in", port=first["o2"])
        end = first["o1"]
        for number, difference in enumerate(differences_um):
            stage = top.add_ref(gf.get_component("mzi", delta_length=difference), name=f"stage{number}")
            stage.connect("o1", end)
            end = stage["o2"]
        last = top << gf.get_component("grating_coupler")
        last.connect("o1", end)
        top.add_port("out", port=last["o2"])
        path = folder / "interferometers.gds"
        top.write_gds(path, with_metadata=False)
        return path, top.get_netlist(recursive=True)


@pytest.mark.parametrize("drawn_um", [(20.0, 40.0, 80.0), (20.0, 41.0, 80.0)])
def test_arms_between_equal_splitters_are_distinguished_by_their_lengths(
    drawn_um: Sequence[float], tmp_path: Path
) -> None:
    _, data = draw_interferometers(tmp_path, (20.0, 40.0, 80.0))
    gds, _ = draw_interferometers(tmp_path, drawn_um)
    bound, extraction = extract_for(placed_circuit(data, PROCESS, "interferometers"), gds, PROCESS)
    differences = compare(bound.reference, extraction, PROCESS).differences
    assert len(differences) == (0 if drawn_um[1] == 40.0 else 1)
    assert all("stage1" in difference.reference and difference.kind == "length" for difference in differences)


def test_placements_are_where_extraction_finds_the_devices(tmp_path: Path) -> None:
    bound, extraction = extract_for(placed_circuit(netlist(), PROCESS, "link"), draw(tmp_path), PROCESS)
    result = compare(bound.reference, extraction, PROCESS)
    found = extraction.circuit.position_um[result.device_map]
    assert bound.reference.position_um == pytest.approx(found, abs=1e-3)
    # without placements, positions are unknown
    placed = placed_circuit(netlist(placed=False), PROCESS, "link")
    assert np.isnan(placed_positions(placed, PROCESS)).all()


def test_a_missing_device_is_where_the_netlist_places_it(tmp_path: Path) -> None:
    data = netlist()
    data["instances"]["spare"] = {"component": "mmi1x2", "info": {}}
    data["placements"]["spare"] = {"x": 400.0, "y": -300.0, "rotation": 180, "mirror": False}
    (difference,) = check(draw(tmp_path), data).differences
    box = bounding_box(read_golden(PROCESS)[VARIANTS.index("mmi1x2")].core)
    assert (difference.kind, difference.reference) == ("device", "spare")
    assert difference.position_um == pytest.approx((400.0 - box.center().x / 1000, -300.0), abs=1e-3)


def test_another_device_in_its_place_is_named_as_the_instance(tmp_path: Path) -> None:
    gds = draw(tmp_path)
    drawn, stated = (read_golden(PROCESS)[VARIANTS.index(name)] for name in ("mmi2x2", "mmi1x2"))
    layout = gf.kdb.Layout()
    layout.read(str(gds))
    core = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["core"]))
    core.insert(gf.kdb.Region(list(drawn.core)).moved(0, -300_000))
    layout.write(str(gds))
    x = (bounding_box(drawn.core).center().x - bounding_box(stated.core).center().x) / 1000
    data = netlist()
    data["instances"]["spare"] = {"component": "mmi1x2", "info": {}}
    data["placements"]["spare"] = {"x": x, "y": -300.0, "rotation": 0, "mirror": False}
    missing, other = check(gds, data).differences
    assert missing.position_um == pytest.approx(other.position_um, abs=1e-3)
    assert (missing.reference, other.reference, other.extracted) == ("spare", "spare", "mmi2x2_0")
    assert "the netlist places 'spare' here" in other.message


def test_a_damaged_device_is_named_as_the_instance(tmp_path: Path) -> None:
    gds = draw(tmp_path)
    layout = gf.kdb.Layout()
    layout.read(str(gds))
    core = layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["core"]))
    # no device of the process, but silicon in its place
    core.insert(gf.kdb.Box(30_000, 7_000).moved(400_000, -300_000))
    layout.write(str(gds))
    data = netlist()
    data["instances"]["spare"] = {"component": "mmi1x2", "info": {}}
    middle = bounding_box(read_golden(PROCESS)[VARIANTS.index("mmi1x2")].core).center().x / 1000
    data["placements"]["spare"] = {"x": 400.0 - middle, "y": -300.0, "rotation": 0, "mirror": False}
    (body,) = [each for each in check(gds, data).differences if each.kind == "extraction.body"]
    assert body.reference == "spare"


@pytest.mark.parametrize(
    ("boxes", "remedy"),
    [
        # on a guide, alone, and as a device of three guides
        (((HEATER_UM + 20, -1.5, HEATER_UM + 26, 1.5),), "was added to a guide"),
        (((400.0, 400.0, 406.0, 403.0),), "no guide leads to it"),
        (
            ((HEATER_UM + 20, -1.5, HEATER_UM + 26, 1.5), (HEATER_UM + 22.8, 1.5, HEATER_UM + 23.25, 20.0)),
            "draw a device of the process, or add this one",
        ),
    ],
)
def test_the_remedy_of_unknown_silicon_depends_on_its_guides(
    tmp_path: Path, boxes: Sequence[tuple[float, float, float, float]], remedy: str
) -> None:
    gds = draw(tmp_path)
    layout = gf.kdb.Layout()
    layout.read(str(gds))
    for box in boxes:
        layout.top_cell().shapes(layout.layer(*PROCESS.gds_layers["core"])).insert(gf.kdb.DBox(*box))
    layout.write(str(gds))
    (body,) = [fault for fault in extract(gds, PROCESS).faults if fault.kind == "body"]
    assert remedy in body.message
