"""The pinout: rows agree with netlist, bias and layout, and follow a layout that was changed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit, flatten, read_bias, read_netlist
from optinc_pdk.circuit.board import label_tuple
from optinc_pdk.extract import Extraction, extract
from optinc_pdk.networks import carry_chain
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.report.pinout import Pin, Pinout, board_functions, read_pinout
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare

REFERENCE = Path(__file__).parents[2] / "netlists" / "average_4bit_4servers.gds"
PROCESSES = ("soi220", "soi220_onchip", "soi220_fast")
Rows = list[dict[str, str]]


@pytest.fixture(scope="module", params=PROCESSES)
def chip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Process]:
    """Layout of a small chip in the folder of its build, and its process."""
    folder = tmp_path_factory.mktemp(request.param)
    assert build(carry_chain(Averaging(2, 4, 1)), folder, BuildOptions(name="small", process=request.param)).passed
    return folder / "small.gds", load_process(request.param)


def rows_of(gds: Path) -> Rows:
    return list(csv.DictReader(io.StringIO(gds.with_suffix(".pinout.csv").read_text())))


def netlist_of(gds: Path) -> Circuit:
    return read_netlist(gds.with_suffix(".pic.yml"))


def texts_of(gds: Path, process: Process) -> dict[str, tuple[float, float]]:
    """Position in µm of each label."""
    layout = kdb.Layout()
    layout.read(str(gds))
    found = kdb.Texts(layout.top_cell().begin_shapes_rec(layout.layer(*process.gds_layers["label"])))
    return {text.string: (text.x / 1e3, text.y / 1e3) for text in found.each()}


def at(row: dict[str, str]) -> tuple[float, float]:
    return float(row["x_um"]), float(row["y_um"])


@pytest.mark.full(every=3)
def test_every_label_of_the_netlist_has_one_row_at_its_place(chip: tuple[Path, Process]) -> None:
    gds, process = chip
    rows, texts = rows_of(gds), texts_of(gds, process)
    assert sorted(row["label"] for row in rows if row["label"]) == sorted(netlist_of(gds).ports)
    for row in rows:
        if not row["label"]:
            assert row["kind"] == "bump" and row["function"] == "ground"
            continue
        x, y = texts[row["label"]]
        if row["kind"] == "fibre" and process.fibres.coupler == "edge_coupler":
            # the facet is at the edge of the die, 5 µm beyond the tip
            assert at(row)[1] == pytest.approx(y, abs=1e-3) and abs(at(row)[0] - x) == pytest.approx(5.0, abs=1e-3)
            assert row["edge"] == ("left" if at(row)[0] == 0.0 else "right")
        else:
            assert at(row) == pytest.approx((x, y), abs=1e-3)
    assert {row["kind"] for row in rows} == ({"bump", "fibre"} if process.name == "soi220_fast" else {"pad", "fibre"})


@pytest.mark.full(every=3)
def test_every_bump_of_the_layout_has_a_row(chip: tuple[Path, Process]) -> None:
    gds, process = chip
    layout = kdb.Layout()
    layout.read(str(gds))
    layer = process.gds_layers.get("bump")
    bumps = kdb.Region() if layer is None else kdb.Region(layout.top_cell().begin_shapes_rec(layout.layer(*layer)))
    places = {(shape.bbox().center().x / 1e3, shape.bbox().center().y / 1e3) for shape in bumps.merged().each()}
    assert {at(row) for row in rows_of(gds) if row["kind"] == "bump"} == places


def test_rows_name_what_the_netlist_connects(chip: tuple[Path, Process]) -> None:
    gds, _ = chip
    circuit = flatten(netlist_of(gds))
    owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))
    partners, optical = circuit.partners(), circuit.optical_mask()
    kinds = [circuit.kinds[kind].name for kind in circuit.kind.tolist()]
    for row in rows_of(gds):
        if not row["label"]:
            continue
        port = circuit.ports[row["label"]]
        if optical[port]:
            first, last = circuit.offset[owner[port]], circuit.offset[owner[port] + 1]
            wanted = [circuit.instances[owner[end]] for end in partners[first:last].tolist() if end >= 0]
            assert row["net"] == ""
        elif row["label"].startswith("GND"):
            wanted = []
            assert row["function"] == "ground" and row["net"].startswith("GND")
        else:
            on_net = owner[circuit.electrical == circuit.electrical[port]].tolist()
            wanted = [circuit.instances[i] for i in on_net if kinds[i] != "pad"]
            (kind,) = {kinds[i] for i in on_net if kinds[i] != "pad"}
            assert row["function"] == {"phase_shifter": "heater"}.get(kind, kind)
            assert row["net"] == row["label"]
        assert row["connects_to"].split() == sorted(wanted)


def test_channels_voltages_and_currents_are_those_of_the_bias(chip: tuple[Path, Process]) -> None:
    gds, process = chip
    bias, rows = read_bias(gds.with_suffix(".bias.yml")), rows_of(gds)
    heaters = {row["label"]: row for row in rows if row["function"] == "heater"}
    assert set(heaters) == set(bias.labels)
    full = float(process.drive.full_scale_v)
    for i, label in enumerate(bias.labels):
        row = heaters[label]
        assert int(row["channel"]) == i
        assert float(row["voltage_v"]) == pytest.approx(bias.code[i] * full / (2**bias.dac_bits - 1), abs=1e-3)
        assert float(row["voltage_max_v"]) == full
        assert 0.0 <= float(row["current_ma"]) <= float(row["current_max_ma"])
    # every heater's current returns through one ground
    grounds = {row["net"]: row for row in rows if row["function"] == "ground"}
    for column in ("current_ma", "current_max_ma"):
        total = sum(float(row[column]) for row in heaters.values())
        assert sum(float(row[column]) for row in grounds.values()) == pytest.approx(total, abs=0.05)


def test_functions_and_signals_are_those_of_the_board(chip: tuple[Path, Process]) -> None:
    gds, process = chip
    board, rows = netlist_of(gds).board, {row["label"]: row for row in rows_of(gds)}
    assert board is not None
    for s, symbols in enumerate(board.inputs):
        for m, label in enumerate(symbols):
            assert (rows[label]["function"], rows[label]["signal"]) == ("input", f"s{s}_m{m}")
    assert rows[board.carrier]["function"] == "carrier"
    onchip = process.activation.realisation == "onchip"
    for neuron in board.neurons:
        for labels, function, sign in ((neuron.plus, "detector", "+"), (neuron.minus, "detector", "-")):
            for label in label_tuple(labels):
                assert rows[label]["function"] == ("photodiode" if onchip else function)
                assert f"{neuron.label}{sign}" in rows[label]["signal"].split()
        for label in label_tuple(neuron.to):
            assert (rows[label]["function"], neuron.label in rows[label]["signal"].split()) == ("modulator", True)
    channels = [int(row["channel"]) for row in rows.values() if row["function"] == "photodiode"]
    assert sorted(channels) == list(range(len(channels)))


def test_fibres_of_an_array_are_numbered_in_order(chip: tuple[Path, Process]) -> None:
    gds, process = chip
    rows = [row for row in rows_of(gds) if row["kind"] == "fibre"]
    assert [int(row["number"]) for row in rows] == list(range(1, len(rows) + 1))
    for before, after in pairwise(rows):
        if before["array"] == after["array"]:
            assert int(after["channel"]) == int(before["channel"]) + 1
            (x, y), (u, v) = at(before), at(after)
            assert x == u and abs(y - v) < 1.5 * float(process.floorplan.fibre_pitch_um)
        else:
            assert int(after["array"]) == int(before["array"]) + 1 and after["channel"] == "0"


def test_a_shared_detector_has_the_signals_of_all_its_neurons() -> None:
    board = netlist_of(REFERENCE).board
    assert board is not None
    functions = board_functions(board)
    (shared,) = {label for neuron in board.neurons if neuron.layer == 1 for label in label_tuple(neuron.plus)}
    assert functions[shared].signal.split() == [f"{n.label}+" for n in board.neurons if n.layer == 1]


def pinout_of(gds: Path, netlist: Circuit, process: Process) -> Pinout:
    extraction = extract(gds, process)
    return read_pinout(extraction, netlist, compare(netlist, extraction, process), process)


def changed(gds: Path, folder: Path, change: Callable[[kdb.Layout, kdb.Cell], None]) -> dict[str, Pin]:
    """Return the pinout of a changed copy of a layout, by label."""
    layout = kdb.Layout()
    layout.read(str(gds))
    top = layout.top_cell()
    top.flatten(True)
    change(layout, top)
    layout.write(str(folder / "changed.gds"))
    return {pin.label: pin for pin in pinout_of(folder / "changed.gds", netlist_of(gds), load_process()).pins}


def a_heater(gds: Path) -> Pin:
    pins = pinout_of(gds, netlist_of(gds), load_process()).pins
    return next(pin for pin in pins if pin.function == "heater" and pin.edge == "bottom")


def move(layout: kdb.Layout, top: kdb.Cell, pin: Pin, by: kdb.Vector) -> None:
    """Move the label of a pad and the square of metal under it."""
    process, place = load_process(), kdb.Point(round(pin.x_um * 1e3), round(pin.y_um * 1e3))
    for layer in ("label", "metal"):
        shapes = top.shapes(layout.layer(*process.gds_layers[layer]))
        for shape in list(shapes.each()):
            box = shape.bbox()
            if box.center() == place and box.width() in (0, round(1e3 * float(process.pads.size_um))):
                shapes.transform(shape, kdb.Trans(by))


def test_a_moved_pad_is_where_it_was_moved(tiny_chip: Path, tmp_path: Path) -> None:
    pin = a_heater(tiny_chip)
    pins = changed(tiny_chip, tmp_path, lambda layout, top: move(layout, top, pin, kdb.Vector(7_000, 0)))
    assert (pins[pin.label].x_um, pins[pin.label].y_um) == pytest.approx((pin.x_um + 7.0, pin.y_um))
    assert pins[pin.label].connects_to == pin.connects_to
    others = {other.label: other for other in pinout_of(tiny_chip, netlist_of(tiny_chip), load_process()).pins}
    assert all(pins[label] == other for label, other in others.items() if label != pin.label)


def test_a_renamed_label_has_its_new_name(tiny_chip: Path, tmp_path: Path) -> None:
    pin = a_heater(tiny_chip)

    def rename(layout: kdb.Layout, top: kdb.Cell) -> None:
        for shape in top.shapes(layout.layer(*load_process().gds_layers["label"])).each():
            if shape.text_string == pin.label:
                shape.text_string = "other"

    pins = changed(tiny_chip, tmp_path, rename)
    assert pin.label not in pins
    other = pins["other"]
    assert (other.x_um, other.y_um, other.net) == (pin.x_um, pin.y_um, "other")
    assert other.function == "heater" and len(other.connects_to) == 1


def test_a_pad_whose_wire_is_cut_connects_to_nothing(tiny_chip: Path, tmp_path: Path) -> None:
    pin = a_heater(tiny_chip)

    def cut(layout: kdb.Layout, top: kdb.Cell) -> None:
        shapes = top.shapes(layout.layer(*load_process().gds_layers["metal"]))
        x, y, half = round(pin.x_um * 1e3), round(pin.y_um * 1e3), round(500 * float(load_process().pads.size_um))
        metal = kdb.Region(shapes) - kdb.Region(kdb.Box(x - half, y + half + 1_000, x + half, y + half + 2_000))
        shapes.clear()
        shapes.insert(metal)

    pins = changed(tiny_chip, tmp_path, cut)
    assert (pins[pin.label].connects_to, pins[pin.label].function, pins[pin.label].current_max_ma) == ((), "", None)


def test_an_extraction_without_a_layout_has_no_pinout() -> None:
    netlist = netlist_of(REFERENCE)
    nothing = LvsResult(False, 0, 0, (), 0, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    with pytest.raises(ValueError, match="has no metal"):
        read_pinout(Extraction(flatten(netlist), (), {}), netlist, nothing, load_process())


def test_the_text_of_a_label_is_quoted() -> None:
    pin = Pin("pad", 1, None, 'a,"b"\nc', 1.0, -0.00001, "", connects_to=("x", "y"))
    ((row),) = csv.DictReader(io.StringIO(Pinout("chip", (), (pin,)).to_csv()))
    assert row["label"] == 'a,"b"\nc' and row["connects_to"] == "x y" and row["die"] == row["voltage_v"] == ""
    assert row["y_um"] == "0.000"
