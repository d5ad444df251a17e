"""The whole pipeline on the bundled 4-bit network, and the results of sign-off on damaged copies of its layout."""

from __future__ import annotations

import csv
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import klayout.db as kdb
import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.extract import extract
from optinc_pdk.factor import SvdFactor
from optinc_pdk.networks import (
    AveragingNetwork,
    LayerFactor,
    bundled_weights,
    carry_chain,
    factorise,
    with_output_neurons,
)
from optinc_pdk.networks.weight_files import NETWORKS
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.stages import Build
from optinc_pdk.report.build_files import file_digest
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, run_drc
from optinc_pdk.signoff.electrical.electrical_check import Currents, bias_currents, check_electrical, ground_densities
from optinc_pdk.signoff.electrical.wiring import read_wiring, wiring_of
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import check_function
from optinc_pdk.signoff.lvs.comparison import LvsResult, compare
from optinc_pdk.simulate import UnsettledError, program, scattering, transmit
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.studies import draw_sample, imperfections, read_chip
from optinc_pdk.studies.variation import sampled_response

NAME = "average_4bit_4servers"
CORE, HEATER, METAL, LABEL = (3, 0), (39, 0), (41, 0), (100, 0)


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build(out=tmp_path_factory.mktemp("chip"))


@pytest.fixture(scope="module")
def relu_chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A chip with four times the heaters, a higher current, and a network that tolerates less."""
    return build(NETWORKS / f"{NAME}_relu.npz", tmp_path_factory.mktemp("relu_chip"), BuildOptions(accept=("rate",)))


@pytest.fixture(scope="module")
def small_chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A chip of 2-bit words, for checks that take long on a flat layout."""
    return build(carry_chain(Averaging(2, 4, 1)), tmp_path_factory.mktemp("small_chip"), BuildOptions(name="small"))


def file(chip: Build, ending: str) -> Path:
    return chip.directory / f"{chip.report.name}{ending}"


def test_the_bundled_chip_passes(chip: Build) -> None:
    report = chip.report
    assert chip.passed, chip.findings
    assert report.drc is not None and report.drc.rules >= 20 and report.drc.violations == 0
    assert report.lvs is not None and report.lvs.match and report.lvs.devices > 230
    assert report.function is not None and report.function.inputs == 65_536 == report.function.exact
    assert report.function.margin > 0.45
    assert report.chip is not None and report.chip.fit == "fits one die"
    assert report.chip.limits is not None and all(limit.holds for limit in report.chip.limits.values())
    assert report.chip.light is not None and len(report.chip.light.hop_loss_db) == 4
    assert 1e8 < report.chip.light.symbol_rate_bd < 1e10
    assert json.loads(file(chip, ".report.json").read_text())["verdict"] == "pass"


@pytest.mark.full
def test_a_chip_whose_outputs_end_in_neurons_passes_and_is_checked_by_the_commands(tmp_path: Path) -> None:
    chip = build(out=tmp_path, options=BuildOptions(link="neurons", process="soi220_onchip"))
    report, process = chip.report, load_process("soi220_onchip")
    assert chip.passed, chip.findings
    assert any("2 neurons" in line for line in chip.findings)
    assert report.function is not None and report.function.exact == 65_536
    assert report.function.certificate is not None and report.function.certificate.margin > 0.4
    board = read_netlist(file(chip, ".pic.yml")).board
    onn = AveragingNetwork.load(bundled_weights())
    assert board is not None and board.layers == len(onn.layers) + 1
    last = [neuron for neuron in board.neurons if neuron.layer == board.layers - 2]
    assert [neuron.to for neuron in last] == ["l3_in_r0", "l3_in_r1"]
    # the servers see nothing but the modulators of these neurons
    extracted = read_extracted_chip(file(chip, ".gds"), file(chip, ".pic.yml"), file(chip, ".bias.yml"), process)
    s = scattering(extracted.circuit, extracted.bias, 1550.0, process, ground=extracted.ground)
    network = network_of(s, board, extracted.bias, 0)
    real, imaginary = np.split(network.receivers.field, 2, axis=1)
    seen = np.zeros((network.sources, network.scale.size))
    seen[network.receivers.reaching] = np.hypot(real, imaginary)
    assert (seen[-2:].max(axis=0) > 1e3 * seen[:-2].max(axis=0)).all()
    result = check_function(extracted.circuit, board, extracted.bias, onn.task, process, extracted.ground, onn=onn)
    assert result.passed and result.certificate is not None


@pytest.mark.full
def test_the_relu_chip_passes_with_a_smaller_margin(relu_chip: Build) -> None:
    report = relu_chip.report
    assert relu_chip.passed, relu_chip.findings
    # a network of ReLUs tolerates so little noise that no useful rate is left
    assert report.verdict_text == "pass, accepted: rate 0 Bd of at least 1 MBd"
    assert report.lvs is not None and report.lvs.match and report.lvs.devices > 700
    assert report.function is not None and report.function.inputs == 65_536 == report.function.exact
    assert report.function.margin > 0.01
    assert report.chip is not None and report.chip.light is not None
    assert 1e6 < report.chip.light.symbol_rate_bd < 1e8


def test_the_table_holds_every_combination_at_the_fibres(chip: Build) -> None:
    with np.load(file(chip, ".function.npz")) as table:
        symbols, ideal, words = table["symbols"][0], table["ideal"], table["words"][0]
    assert len(np.unique(symbols.reshape(len(symbols), -1), axis=0)) == 65_536
    place = np.array([4, 1])
    assert np.array_equal(ideal, (symbols.astype(int) @ place).sum(axis=1) // 4)
    assert np.array_equal(words, np.repeat(ideal[:, np.newaxis], 4, axis=1))


@pytest.mark.full
def test_a_second_build_in_another_process_gives_the_same_bytes(chip: Build, tmp_path: Path) -> None:
    code = f"import optinc_pdk as op; op.build(out={str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    for ending in (".gds", ".pic.yml", ".bias.yml", ".function.npz", ".pinout.csv", ".pinout.svg"):
        assert (tmp_path / f"{NAME}{ending}").read_bytes() == file(chip, ending).read_bytes(), ending


def test_the_reference_circuit_is_what_a_build_writes(chip: Build) -> None:
    reference = Path(__file__).parents[2] / "netlists"
    assert (reference / f"{NAME}.pic.yml").read_bytes() == file(chip, ".pic.yml").read_bytes()
    # another machine's linear algebra may change a code by one step, so the test runs the reference bias
    process, bias = load_process(), read_bias(reference / f"{NAME}.bias.yml")
    board = read_netlist(reference / f"{NAME}.pic.yml").board
    assert board is not None
    circuit, ground = (
        extract(file(chip, ".gds"), process).circuit,
        read_wiring(file(chip, ".gds"), process).common_ground,
    )
    assert check_function(circuit, board, bias, AveragingNetwork.load(bundled_weights()).task, process, ground).passed


def test_the_reference_pinout_is_what_a_build_writes(chip: Build) -> None:
    reference = Path(__file__).parents[2] / "netlists" / f"{NAME}.pinout.csv"
    paths = reference, file(chip, ".pinout.csv")
    wanted, found = (list(csv.DictReader(path.read_text().splitlines())) for path in paths)
    assert len(wanted) == len(found) == 54 + 43
    for row, same in zip(wanted, found, strict=True):
        # another machine's linear algebra may change a code by one step
        for column in ("voltage_v", "current_ma"):
            values = [float(one.pop(column) or "nan") for one in (row, same)]
            assert values[0] == pytest.approx(values[1], abs=0.01, nan_ok=True)
        assert row == same


def test_the_report_links_the_pinout_and_vouches_for_it(chip: Build) -> None:
    page, digests = file(chip, ".report.html").read_text(), chip.report.files
    for ending in (".pinout.csv", ".pinout.svg"):
        assert page.count(f'href="{NAME}{ending}"') == 2
        assert digests[f"{NAME}{ending}"] == file_digest(file(chip, ending))


def test_without_imperfections_the_chip_is_that_of_the_function_check(chip: Build) -> None:
    process, task = load_process(), AveragingNetwork.load(bundled_weights()).task
    extracted = read_chip(file(chip, ".gds"), file(chip, ".pic.yml"), file(chip, ".bias.yml"), process)
    light = sampled_response.sample_scattering(
        extracted, draw_sample(extracted, imperfections(process).only(), 0), extracted.voltage_v, 16.0
    )
    with np.load(file(chip, ".function.npz")) as table:
        symbols, words, outputs = table["symbols"][0], table["words"][0], table["outputs"][0]
    received = transmit(symbols, light, extracted.board, extracted.bias)
    assert np.array_equal(task.decode(received.levels), words)
    # the table is rounded to 6 digits and single precision
    assert np.abs(received.outputs - outputs).max() < 1e-6
    ground = read_wiring(file(chip, ".gds"), process).common_ground
    checked = check_function(extracted.structure.circuit, extracted.board, extracted.bias, task, process, ground)
    # ground voltages are found by iteration, in both cases to 1e-12 of the currents
    assert np.abs(received.outputs - checked.outputs[0]).max() < 1e-9


def mutate(chip: Build, folder: Path, change: Callable[[kdb.Layout, kdb.Cell], None]) -> Path:
    """Write a flat copy of the chip's layout with a change."""
    layout = kdb.Layout()
    layout.read(str(file(chip, ".gds")))
    top = layout.top_cell()
    top.flatten(True)
    change(layout, top)
    path = folder / "mutant.gds"
    layout.write(str(path))
    return path


def region(layout: kdb.Layout, top: kdb.Cell, layer: tuple[int, int]) -> kdb.Region:
    return kdb.Region(top.begin_shapes_rec(layout.layer(*layer))).merged()


def replace(layout: kdb.Layout, top: kdb.Cell, layer: tuple[int, int], new: kdb.Region) -> None:
    shapes = top.shapes(layout.layer(*layer))
    texts = [shape.text for shape in shapes.each() if shape.is_text()]
    shapes.clear()
    shapes.insert(new)
    for text in texts:
        shapes.insert(text)


def lvs(chip: Build, gds: Path) -> LvsResult:
    process = load_process()
    return compare(read_netlist(file(chip, ".pic.yml")), extract(gds, process), process)


def near(result: LvsResult, at: kdb.Point, within_um: float) -> bool:
    places = [d.position_um for d in result.differences if d.position_um is not None]
    return any(np.hypot(x - at.x / 1e3, y - at.y / 1e3) < within_um for x, y in places)


def a_straight(layout: kdb.Layout, top: kdb.Cell) -> kdb.Point:
    """The middle of a long straight guide: a carrier feed, far from every device."""
    guides = region(layout, top, CORE)
    bodies = guides.sized(-600).sized(600).sized(60_000)
    clear = (guides - bodies - region(layout, top, HEATER).sized(5_000)).merged()
    boxes = [p.bbox() for p in clear.each() if p.bbox().height() == 450 and p.bbox().width() > 50_000]
    assert boxes
    return boxes[0].center()


def test_lvs_reports_a_cut_guide_at_its_position(chip: Build, tmp_path: Path) -> None:
    at: list[kdb.Point] = []

    def cut(layout: kdb.Layout, top: kdb.Cell) -> None:
        at.append(a_straight(layout, top))
        gap = kdb.Region(kdb.Box(at[0].x, at[0].y - 1_000, at[0].x + 50, at[0].y + 1_000))
        replace(layout, top, CORE, region(layout, top, CORE) - gap)

    result = lvs(chip, mutate(chip, tmp_path, cut))
    assert not result.match
    assert near(result, at[0], 1.0)


@pytest.mark.full
def test_a_narrowed_guide_violates_a_rule_at_its_position(small_chip: Build, tmp_path: Path) -> None:
    at: list[kdb.Point] = []

    def narrow(layout: kdb.Layout, top: kdb.Cell) -> None:
        at.append(a_straight(layout, top))
        x, y = at[0].x, at[0].y
        sides = [kdb.Box(x, y + s, x + 2_000, y + s + 75) for s in (-225, 150)]
        replace(layout, top, CORE, region(layout, top, CORE) - kdb.Region(sides))

    gds, process = mutate(small_chip, tmp_path, narrow), load_process()
    # the other rules take long on a flat chip
    rules = [rule for rule in process.rules if rule.id == "core.width"]
    result = run_drc(gds, rules, process.gds_layers)
    found = {rule.id: rule.boxes_um for rule in result.rules if rule.violations}
    assert "core.width" in found
    left, bottom, right, top = found["core.width"][0]
    assert left - 1 < at[0].x / 1e3 < right + 1 and bottom - 1 < at[0].y / 1e3 < top + 1
    assert not lvs(small_chip, gds).match


def cut_trunk(currents: Currents) -> kdb.Box:
    """Half of the width of the ground metal with the highest current density."""
    trunk = max(ground_densities(currents), key=lambda place: place.density).polygon.bbox()
    return kdb.Box(trunk.left, trunk.bottom, trunk.left + trunk.width() // 2, trunk.top + 50_000)


def cut_bus(currents: Currents) -> kdb.Box:
    """All but 100 µm of the ground bus, between its pads and the first trunk."""
    y = next(pad.center[1] for pad in currents.wiring.pads if pad.label == "GND0")
    return kdb.Box(400_000, round(y) + 60_000, 410_000, round(y) + 400_000)


def cut_wire(currents: Currents) -> kdb.Box:
    """A wire of 4 µm, down to the minimum width of metal, beside the pad of a channel with a high current."""
    wiring = currents.wiring
    pads = {pad.label: pad for pad in wiring.pads}
    for heater in np.argsort(-currents.current_a).tolist():
        pad = pads[wiring.labels[heater]]
        x, y = (round(place) for place in pad.center)
        for beyond in (50_000, -50_000):
            if wiring.metal.nets_at(np.array([[x - 1_000, y + beyond]])) == pad.net:
                return kdb.Box(x, y + beyond - 5_000, x + 2_000, y + beyond + 5_000)
    raise AssertionError("no wire leaves a pad straight")


@pytest.mark.full
@pytest.mark.parametrize("cut", [cut_trunk, cut_bus, cut_wire])
def test_thin_metal_violates_the_current_rule_at_its_position(
    cut: Callable[[Currents], kdb.Box], relu_chip: Build, tmp_path: Path
) -> None:
    chip = relu_chip
    process, bias = load_process(), read_bias(file(chip, ".bias.yml"))
    whole = bias_currents(read_wiring(file(chip, ".gds"), process), bias)
    gone = cut(whole)

    def thin(layout: kdb.Layout, top: kdb.Cell) -> None:
        replace(layout, top, METAL, region(layout, top, METAL) - kdb.Region(gone))

    gds = mutate(chip, tmp_path, thin)
    rules = [rule for rule in process.rules if rule.kind in ELECTRICAL_KINDS or rule.id == "metal.width"]
    electrical = check_electrical(rules, read_wiring(gds, process), bias)
    results = run_drc(gds, rules, process.gds_layers).all_rules(electrical.rules)
    found = {rule.id: rule.boxes_um for rule in results if rule.violations}
    # no geometric rule finds it
    assert "metal.width" not in found
    boxes = 1e3 * found["metal.current"]
    around = gone.enlarged(3_000)
    near = (boxes[:, 0] < around.right) & (boxes[:, 2] > around.left)
    assert np.any(near & (boxes[:, 1] < around.top) & (boxes[:, 3] > around.bottom))
    if cut is not cut_wire:
        # the grounds behind the cut rise, though they need not be the highest
        assert np.max(electrical.currents.rise_v / whole.rise_v) > 1.005


def test_swapped_heater_wires_are_named(chip: Build, tmp_path: Path) -> None:
    labels = ("l1_v_c0_r2_theta", "l1_v_c0_r2_phi")

    def swap(layout: kdb.Layout, top: kdb.Cell) -> None:
        # swapped labels are equivalent to swapped wires
        shapes = top.shapes(layout.layer(*LABEL))
        for shape in list(shapes.each()):
            if shape.is_text() and shape.text.string in labels:
                text = shape.text
                text.string = labels[1 - labels.index(text.string)]
                shape.text = text

    gds = mutate(chip, tmp_path, swap)
    result = lvs(chip, gds)
    assert not result.match
    text = " ".join(f"{d.message} {d.reference} {d.extracted}" for d in result.differences)
    assert all(label in text for label in labels)
    assert words(chip, gds) < 65_536


def words(chip: Build, gds: Path) -> int:
    """Number of exact words of a layout's extracted circuit under the chip's bias, without LVS."""
    process = load_process()
    board = read_netlist(file(chip, ".pic.yml")).board
    assert board is not None
    task = Averaging(**chip.report.task.model_dump())
    bias, ground = read_bias(file(chip, ".bias.yml")), read_wiring(gds, process).common_ground
    return check_function(extract(gds, process).circuit, board, bias, task, process, ground).exact


def test_a_heater_moved_to_the_other_arm_loses_words(chip: Build, tmp_path: Path) -> None:
    """All metal and TiN of one theta heater move down by one mode; metal bars keep it connected to its wires."""
    pitch = round(load_process().floorplan.mode_pitch_um * 1000)
    bias = read_bias(file(chip, ".bias.yml"))
    circuit = extract(file(chip, ".gds"), load_process()).circuit
    # the lowest MZI of a column, so that there is no heater below
    label = "l1_v_c0_r2_theta"
    assert bias.phase_rad[bias.labels.index(label)] > 0.1
    net = circuit.electrical[circuit.ports[label]]
    shifter = next(
        int(i)
        for i in circuit.instances_of("phase_shifter")
        if net in circuit.electrical[circuit.offset[i] : circuit.offset[i + 1]]
    )
    x, y = (round(value * 1000) for value in circuit.position_um[shifter])

    def move(layout: kdb.Layout, top: kdb.Cell) -> None:
        body = kdb.Region(kdb.Box(x - 61_000, y - 450, x + 61_000, y + 450))
        heaters = region(layout, top, HEATER)
        replace(layout, top, HEATER, heaters - body + body.moved(0, -pitch))
        ends = [kdb.Box(x + side - 6_000, y - pitch - 6_000, x + side + 6_000, y + 6_000) for side in (-56_000, 56_000)]
        replace(layout, top, METAL, (region(layout, top, METAL) + kdb.Region(ends)).merged())

    gds = mutate(chip, tmp_path, move)
    assert words(chip, gds) < 65_536
    assert words(chip, file(chip, ".gds")) == 65_536


def test_a_bias_without_crosstalk_compensation_loses_words(relu_chip: Build) -> None:
    """The bias is programmed for a process without thermal crosstalk and applied to a chip with it."""
    chip, process, reference = relu_chip, load_process(), read_netlist(file(relu_chip, ".pic.yml"))
    extraction, onn = extract(file(chip, ".gds"), process), AveragingNetwork.load(NETWORKS / f"{NAME}_relu.npz")
    ground = wiring_of(extraction, process).common_ground
    without = process.model_copy(update={"imperfections": None})
    assert reference.board is not None
    bias = program(extraction.circuit, reference.board, onn, without, ground=ground).bias

    def exact(card: Process) -> int:
        return check_function(extraction.circuit, reference.board, bias, onn.task, card, ground).exact

    assert exact(without) == 65_536
    assert exact(process) < 0.1 * 65_536
    crosstalk = chip.report.chip and chip.report.chip.crosstalk
    assert crosstalk and (crosstalk.share, crosstalk.distance_um) == (0.029, 25.0)


@pytest.mark.parametrize("bits", [20, 24])
def test_with_finer_codes_the_relu_chip_has_its_full_margin(bits: int, relu_chip: Build) -> None:
    """The rounding of 16-bit codes takes more than a quarter of the margin, in another layout nothing."""
    card, reference = load_process(), read_netlist(file(relu_chip, ".pic.yml"))
    process = card.model_copy(update={"drive": card.drive.model_copy(update={"dac_bits": bits})})
    extraction, onn = extract(file(relu_chip, ".gds"), process), AveragingNetwork.load(NETWORKS / f"{NAME}_relu.npz")
    ground = wiring_of(extraction, process).common_ground
    assert reference.board is not None
    bias = program(extraction.circuit, reference.board, onn, process, ground=ground).bias
    assert check_function(extraction.circuit, reference.board, bias, onn.task, process, ground).margin > 0.02


def test_extraction_ignores_cell_names_hierarchy_and_other_texts(small_chip: Build, tmp_path: Path) -> None:
    chip, process = small_chip, load_process()
    fibres_and_pads = set(read_netlist(file(chip, ".pic.yml")).ports)
    layout = kdb.Layout()
    layout.read(str(file(chip, ".gds")))
    for i, cell in enumerate(layout.each_cell()):
        cell.name = f"renamed{i}"
    layout.top_cell().flatten(True)
    shapes = layout.top_cell().shapes(layout.layer(*LABEL))
    for shape in list(shapes.each()):
        if shape.is_text() and shape.text.string not in fibres_and_pads:
            shape.delete()
    path = tmp_path / "stripped.gds"
    layout.write(str(path))
    before, after = extract(file(chip, ".gds"), process), extract(path, process)
    assert not after.faults
    assert after.circuit.instances == before.circuit.instances
    assert np.array_equal(after.circuit.nets, before.circuit.nets)
    assert np.array_equal(after.circuit.electrical, before.circuit.electrical)
    assert np.array_equal(after.circuit.position_um, before.circuit.position_um)
    assert lvs(chip, path).match
    assert run_drc(path, process.rules, process.gds_layers).violations == 0
    assert words(chip, path) == 4**4


def test_the_report_describes_the_factors_that_are_programmed(
    small_chip: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onn = carry_chain(Averaging(2, 4, 1))

    def perturbed(network: AveragingNetwork, *amplitudes: object) -> tuple[LayerFactor, ...]:
        # behind the output neurons there is no mesh
        *others, last, attenuators = factorise(network)
        assert isinstance(last.factor, SvdFactor)
        mesh = last.factor.v
        moved = dataclasses.replace(mesh, theta=mesh.theta + 1e-3)
        return (*others, dataclasses.replace(last, factor=dataclasses.replace(last.factor, v=moved)), attenuators)

    monkeypatch.setattr("optinc_pdk.tasks.averaging_task.factorise", perturbed)
    done = build(onn, tmp_path, BuildOptions(name="moved"))
    assert small_chip.report.factor is not None and small_chip.report.factor.max_error < 1e-12
    assert done.report.factor is not None
    assert done.report.factor.max_error == perturbed(with_output_neurons(onn))[-2].max_error > 1e-4
    one, two = (read_bias(file(each, ".bias.yml")) for each in (small_chip, done))
    changed = [label for label, a, b in zip(one.labels, one.code, two.code, strict=True) if abs(a - b) > 2]
    assert any(label.startswith(f"l{len(onn.layers) - 1}_v") for label in changed)


def test_a_chip_whose_light_does_not_settle_fails_with_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsettled(*_: object, **__: object) -> None:
        raise UnsettledError(1e-3)

    monkeypatch.setattr("optinc_pdk.signoff.function.check_scattering", unsettled)
    done = build(carry_chain(Averaging(2, 4, 1)), tmp_path, BuildOptions(name="unsettled"))
    assert not done.passed
    assert any(one.startswith("function: light does not settle within 20 passes") for one in done.findings)
    assert done.report.function is None and done.report.lvs is not None and done.report.lvs.match
    assert (tmp_path / "unsettled.bias.yml").exists() and not (tmp_path / "unsettled.function.npz").exists()


def test_a_failing_stage_leaves_no_files_of_an_earlier_build(
    chip: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layout without one wire fails LVS; no bias or function table of the earlier build may remain beside it."""
    folder = tmp_path / "again"
    shutil.copytree(chip.directory, folder)

    def broken(layout: kdb.Layout, path: Path) -> None:
        top = layout.top_cell()
        metal = layout.layer(*METAL)
        largest = max(top.shapes(metal).each(), key=lambda shape: shape.area())
        largest.delete()
        layout.write(str(path))

    monkeypatch.setattr("optinc_pdk.layout.write_gds", broken)
    again = build(out=folder)
    assert again.report.verdict == "fail"
    assert again.report.function is None
    assert not (folder / f"{NAME}.bias.yml").exists()
    assert not (folder / f"{NAME}.function.npz").exists()
    assert any("lvs" in line for line in again.findings)
