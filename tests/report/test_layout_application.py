"""What can be chosen in a layout, its light, and the markers of checks."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
import pytest
import scipy.stats

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.extract import extract
from optinc_pdk.networks import GeneralNetwork, Layer, carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.layout_application import (
    DARK_DB,
    DIFFERENCES,
    FAULTS,
    LAYOUT_WARNINGS,
    MAX_MARKERS,
    STEP_DB,
    VIOLATIONS,
    WARNINGS,
    LayoutData,
    LayoutItem,
    LayoutMarker,
    layer_titles,
    layout_items,
    layout_markers,
    read_process_shapes,
)
from optinc_pdk.report.layout_polygons import LayoutGuides, layout_guides
from optinc_pdk.report.pinout import ExtractedNames, read_pinout
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault, layout_faults_of
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.signoff.lvs.differences import Difference
from optinc_pdk.simulate.transmission.settling import spread_rows
from optinc_pdk.tasks.chip_task import MOST_SAMPLES


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> LayoutData:
    """A small chip without one of its splitters and one of its guides."""
    folder, process = tmp_path_factory.mktemp("damaged"), load_process()
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small")).passed
    layout = kdb.Layout()
    layout.read(str(folder / "small.gds"))
    top = layout.top_cell()
    top.erase(next(each for each in top.each_inst() if each.cell.name == "mmi1x2"))
    silicon = top.shapes(layout.layer(*process.gds_layers["core"]))
    silicon.erase(next(silicon.each()))
    gds = Path(folder, "damaged.gds")
    layout.write(str(gds))
    extraction, netlist = extract(gds, process), read_netlist(folder / "small.pic.yml")
    lvs = compare(netlist, extraction, process)
    assert not lvs.match
    names, pinout = ExtractedNames.of(extraction, netlist, lvs), read_pinout(extraction, netlist, lvs, process)
    shapes = read_process_shapes(gds, process)
    guides = layout_guides(extraction, names, shapes, process)
    return LayoutData(
        shapes,
        layer_titles(shapes, process),
        layout_items(extraction, names, pinout, process),
        guides,
        layout_markers(DrcResult("", "", (), ()), (), lvs, layout_faults_of(extraction.faults), guides),
        pinout.dies,
    )


def of_kind(data: LayoutData, kind: str) -> list[LayoutItem]:
    return [item for item in data.items if item.kind == kind]


@pytest.mark.full
def test_a_layout_that_differs_from_its_netlist_has_items_and_markers(damaged: LayoutData) -> None:
    assert {DIFFERENCES, FAULTS} <= {marker.check for marker in damaged.markers}
    assert of_kind(damaged, "heater") and of_kind(damaged, "pad") and of_kind(damaged, "fibre")
    assert damaged.guides.ends


def test_heaters_without_bias_state_no_voltage(damaged: LayoutData) -> None:
    for heater in of_kind(damaged, "heater"):
        assert heater.values == {} and "values" not in heater.to_json()
        assert {"Netlist instance", "Pad", "Resistance", "Length", "Loss"} <= set(heater.facts)
        assert not {"Phase", "Power", "Voltage", "Current"} & set(heater.facts)


def test_items_are_within_the_layout(damaged: LayoutData) -> None:
    left, bottom, right, top = damaged.shapes.box
    for item in damaged.items:
        assert left <= item.box[0] < item.box[2] <= right and bottom <= item.box[1] < item.box[3] <= top


PROCESS = load_process()
COUPLER_DB = PROCESS.device("grating_coupler").parameter("loss_db")
ROUNDING_DB = STEP_DB / 2 + 0.01
UNITARY = scipy.stats.unitary_group(4, seed=3).rvs()


def page_data(folder: Path, name: str) -> dict[str, Any]:
    """The data of the layout in a build's page."""
    found = re.search(r"id=layout-data>([^<]*)<", (folder / f"{name}.report.html").read_text())
    assert found is not None
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(found[1])))
    return data


def levels_at(data: dict[str, Any], labels: list[str]) -> Floats:
    """(words, fibres) powers in dB in output fibres, behind their couplers."""
    fibres = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "fibre"}
    rows = [[row[fibres[label]] for label in labels] for row in data["light"]["items"]]
    return np.array(rows) * data["light"]["step_db"] - COUPLER_DB


def agree(levels_db: Floats, power: Floats, least_db: float = -60.0) -> bool:
    """Whether levels are those of powers; of powers below the least, that they are low."""
    power_db = 10.0 * np.log10(np.maximum(power, 1e-12))
    bright = power_db > least_db
    close = np.abs(levels_db[bright] - power_db[bright]) < ROUNDING_DB
    return bool(close.all() and np.all(levels_db[~bright] < least_db + 1.0)) and bright.sum() >= 3


@pytest.fixture(scope="module")
def averaging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the chip of two servers with words of four bits."""
    folder = tmp_path_factory.mktemp("small")
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small")).passed
    return folder


def test_light_of_words_is_that_of_their_outputs(averaging: Path) -> None:
    data, bias = page_data(averaging, "small"), read_bias(averaging / "small.bias.yml")
    numbers = [int(re.match(r"input ([\d,]+)", each)[1].replace(",", "")) for each in data["light"]["titles"]]  # type: ignore[index]
    checked = np.load(averaging / "small.function.npz")
    board = read_netlist(averaging / "small.pic.yml").board
    assert board is not None
    labels = [label for row in board.outputs for label in row]
    scale, dark = ([given.get(label, 0.0) for label in labels] for given in (bias.outputs, bias.dark))
    worst = int(np.argmin(checked["margins"].min(axis=1)))
    assert {0, len(checked["rows"]) - 1, worst} <= set(numbers) and len(numbers) <= MOST_SAMPLES
    assert f"input {worst:,} (smallest margin)" in " ".join(data["light"]["titles"])
    outputs = checked["outputs"][0, numbers].reshape(len(numbers), -1)
    assert agree(levels_at(data, labels), (outputs / scale) ** 2 + dark)


def test_light_of_an_input_mode_is_that_of_the_matrix(tmp_path: Path) -> None:
    np.save(tmp_path / "U.npy", UNITARY)
    assert build(tmp_path / "U.npy", tmp_path).passed
    data, checked = page_data(tmp_path, "U"), np.load(tmp_path / "U.matrix.npz")
    s = checked["chip"] * checked["scale"]
    titles = [title.partition(" (")[0] for title in data["light"]["titles"]]
    assert titles == [f"light into in_r{i}" for i in range(4)]
    assert sum("worst entry" in title for title in data["light"]["titles"]) == 1
    assert agree(levels_at(data, [f"out_r{i}" for i in range(4)]), np.abs(s.T) ** 2)
    inputs = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "fibre"}
    lit = np.array([[row[inputs[f"in_r{i}"]] for i in range(4)] for row in data["light"]["items"]]) * STEP_DB
    # light enters one coupler; what the others receive is reflected
    assert np.all(np.diag(lit) == 0.0) and np.all(lit[~np.eye(4, dtype=bool)] < -20.0)


@pytest.mark.full
def test_light_of_samples_is_that_of_their_outputs(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(o, i)) / np.sqrt(i), 0.3 * rng.normal(size=o)) for i, o in pairwise((3, 5, 3))]
    network, x = GeneralNetwork.of_layers(layers, "relu"), rng.normal(size=(40, 3))
    network.save(tmp_path / "net.npz")
    np.savez(tmp_path / "data.npz", x=x)
    build(tmp_path / "net.npz", tmp_path, BuildOptions(data=tmp_path / "data.npz"))
    data, bias = page_data(tmp_path, "net"), read_bias(tmp_path / "net.bias.yml")
    numbers = [int(title.split()[1]) for title in data["light"]["titles"]]
    checked = np.load(tmp_path / "net.network.npz")
    worst = int(np.argmax(np.abs(checked["chip"] - checked["network"]).max(axis=1)))
    assert {0, 39, worst} <= set(numbers) and len(numbers) <= MOST_SAMPLES
    labels = list(bias.outputs)
    offsets = np.array([bias.output_offsets.get(label, 0.0) for label in labels])
    fields = (checked["chip"][numbers] - offsets) / [bias.outputs[label] for label in labels]
    # coherent receivers see no light in quadrature, of which there is little
    assert agree(levels_at(data, labels), fields**2, least_db=-45.0)


def test_every_guide_and_device_has_a_level_and_pads_have_none(averaging: Path) -> None:
    data = page_data(averaging, "small")
    light = data["light"]
    assert light["dark"] * light["step_db"] == DARK_DB
    for guides, items in zip(light["guides"], light["items"], strict=True):
        assert len(guides) == len(data["guides"]["ends"]) and len(items) == len(data["items"])
        assert min(guides) >= light["dark"] and max(guides) > -20 / light["step_db"]
        for item, level in zip(data["items"], items, strict=True):
            assert (level is None) == (item["kind"] == "pad"), item["name"]


def test_a_guide_has_the_power_that_enters_the_devices_at_its_ends(averaging: Path) -> None:
    data = page_data(averaging, "small")
    number = {item["name"]: i for i, item in enumerate(data["items"]) if item["kind"] == "terminator"}
    ends = [(i, end) for i, pair in enumerate(data["guides"]["ends"]) for end in pair]
    pairs = [(i, number[end.partition(",")[0]]) for i, end in ends if end.partition(",")[0] in number]
    assert pairs
    for guides, items in zip(data["light"]["guides"], data["light"]["items"], strict=True):
        # a terminator has one port and reflects little
        assert all(abs(guides[guide] - items[device]) <= 1 for guide, device in pairs if guides[guide] > -120)


def test_thermal_crosstalk_is_that_of_the_card_at_the_distances(averaging: Path) -> None:
    data = page_data(averaging, "small")
    heaters = [item for item in data["items"] if item["kind"] == "heater"]
    card = PROCESS.imperfections
    assert card is not None
    boxes = np.array([heater["box"] for heater in heaters]) / 1e3
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    distance = np.hypot(*(centre[:, None] - centre).transpose(2, 0, 1))
    np.fill_diagonal(distance, np.inf)
    power = np.array([heater["values"]["power"] for heater in heaters])
    own = np.pi * power / (1e3 * PROCESS.device("phase_shifter").parameter("power_pi_w"))
    added = float(card.crosstalk.share) * float(card.crosstalk.distance_um) / distance @ own
    stated = np.array([heater["values"]["crosstalk"] for heater in heaters])
    assert stated.min() > 0.0
    np.testing.assert_allclose(stated, added, rtol=2e-3)
    assert str(float(card.crosstalk.share)) in data["crosstalk"]
    area = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    np.testing.assert_allclose([heater["values"]["density"] for heater in heaters], power / area, atol=1e-6)


@pytest.mark.parametrize(
    ("count", "also", "expected"),
    [(1, 0, [0]), (3, 1, [0, 1, 2]), (100, None, [0, 33, 66, 99]), (100, 7, [0, 7, 50, 99]), (100, 99, [0, 50, 99])],
)
def test_rows_are_spread_with_first_and_last(count: int, also: int | None, expected: list[int]) -> None:
    rows = spread_rows(count, 4, also=also)
    assert len(rows) == len(expected) and np.all(np.abs(rows - expected) <= 1)
    assert rows[0] == 0 and rows[-1] == count - 1
    assert also is None or also in rows


NOTHING = np.zeros(0, dtype=np.int64)
GUIDES = LayoutGuides(
    (("a,o1", "b,o1"),),
    (10.0,),
    (0.1,),
    (),
    NOTHING,
    np.zeros((0, 4), dtype=np.int64),
    {"mmi1x2_0,o1": 0, "mmi1x2_1,o1": 0},
    {"mmi1x2_0,o1": (0, 0, 0, 450), "mmi1x2_1,o1": (50, 0, 50, 450), "mmi1x2_1,o2": (100, 0, 100, 450)},
)


def lvs_with(*differences: Difference) -> LvsResult:
    return LvsResult(not differences, 0, 0, differences, len(differences), NOTHING, NOTHING)


def test_places_of_all_checks_become_markers() -> None:
    error, warning = (
        next(rule for rule in load_process().rules if rule.severity == severity) for severity in ("error", "warning")
    )
    square = kdb.DPolygon(kdb.DBox(1.0, 2.0, 3.5, 4.0))
    rules = DrcResult("made.gds", "made", (RuleResult(error, (square,), ("0.1 µm",)),), (error, warning))
    lvs = lvs_with(
        Difference("open", "is cut", "a", "", (10.0, 20.0)), Difference("label", "is missing", "b", "", None)
    )
    faults = [
        LayoutFault("unused_label", "names nothing", (0.0, 0.0)),
        LayoutFault("dangling", "one end", (5.0, 6.0)),
        LayoutFault("label", "nowhere"),
    ]
    found = layout_markers(rules, (RuleResult(warning, (square,)),), lvs, faults, GUIDES)
    assert found == (
        LayoutMarker(VIOLATIONS, error.id, f"{error.text}; 0.1 µm", (1000, 2000, 3500, 4000)),
        LayoutMarker(WARNINGS, warning.id, warning.text, (1000, 2000, 3500, 4000)),
        LayoutMarker(DIFFERENCES, "open", "is cut", (8000, 18000, 12000, 22000)),
        LayoutMarker(FAULTS, "dangling", f"one end; {FAULT_KINDS['dangling'].meaning}", (3000, 4000, 7000, 8000)),
        LayoutMarker(
            LAYOUT_WARNINGS,
            "unused_label",
            f"names nothing; {FAULT_KINDS['unused_label'].meaning}",
            (-2000, -2000, 2000, 2000),
        ),
    )
    assert found[0].to_json()["box"] == [1000, 2000, 3500, 4000]


def test_each_check_has_a_limit_of_its_own() -> None:
    rule = next(rule for rule in load_process().rules if rule.severity == "error")
    squares = tuple(kdb.DPolygon(kdb.DBox(i, 0, i + 0.5, 1)) for i in range(MAX_MARKERS + 5))
    rules = DrcResult("made.gds", "made", (RuleResult(rule, squares),), (rule,))
    faults = [replace(LayoutFault("stray", "silicon", (0.0, 0.0)), place_um=(float(i), 0.0)) for i in range(3)]
    found = layout_markers(rules, (), lvs_with(), faults, GUIDES)
    assert [marker.check for marker in found] == [VIOLATIONS] * MAX_MARKERS + [FAULTS] * 3


def test_differences_about_connections_are_marked_at_the_guide_or_at_the_port() -> None:
    middle = (20.0, 30.0)
    lvs = lvs_with(
        Difference("length", "is long", "a,o1 - b,o1", "mmi1x2_0,o1 - mmi1x2_1,o1", middle),
        Difference("net", "leads to nothing", "b,o2 - c,o1", "mmi1x2_1,o2 - nothing", middle),
        Difference("gap", "is wide", "a", "mmi1x2_0", middle),
    )
    guide, port, device = layout_markers(DrcResult("", "", (), ()), (), lvs, (), GUIDES)
    assert guide.to_json() == {"check": DIFFERENCES, "name": "length", "text": "is long", "guide": 0}
    assert port.to_json()["box"] == [-1900, -1775, 2100, 2225]
    assert device.to_json()["box"] == [18000, 28000, 22000, 32000]


def test_a_layout_without_netlist_has_faults_only() -> None:
    faults = [LayoutFault("dangling", "one end", (5.0, 6.0))]
    (marker,) = layout_markers(DrcResult("", "", (), ()), (), None, faults, GUIDES)
    assert (marker.check, marker.box) == (FAULTS, (3000, 4000, 7000, 8000))


def test_every_violated_rule_has_markers() -> None:
    first, second = [rule for rule in load_process().rules if rule.severity == "error"][:2]
    squares = tuple(kdb.DPolygon(kdb.DBox(i, 0, i + 0.5, 1)) for i in range(MAX_MARKERS + 5))
    rules = DrcResult(
        "made.gds", "made", (RuleResult(first, squares), RuleResult(second, squares[:3])), (first, second)
    )
    names = [marker.name for marker in layout_markers(rules, (), None, (), GUIDES)]
    assert (names.count(first.id), names.count(second.id)) == (MAX_MARKERS // 2, 3)
