"""The field of a modulator over its drive: sine, measured table, linearised, and the electronics that know it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import optinc_pdk as op
from optinc_pdk.assemble import assemble
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.cards.device_models import check_model
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, GeneralNetwork, Layer, comparator_network
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant
from optinc_pdk.networks.closed_form.comparator_search import ALL, candidate_network, evaluate
from optinc_pdk.networks.closed_form.comparators import GAIN, Placement
from optinc_pdk.networks.factorisation import linked_network, realised_network, sends_levels
from optinc_pdk.simulate.modulator_drive import LINEAR, Modulator, drive_notes, linearised, measured, modulator_of, sine

DRIVES = np.linspace(0.0, 1.0, 501)
TASK = op.Averaging(4, 4, 2)


def direct(folder: Path, swing: str = "null") -> Process:
    """Process like soi220, whose modulators are driven directly."""
    # processes are read once for each folder
    folder = folder / str(len(swing))
    folder.mkdir(exist_ok=True)
    (folder / "process.yml").write_text(
        "schema: 1\nname: direct\ntitle: soi220 without linearisers\nbase: soi220\nsources: {own: chosen}\n"
        f"activation:\n  lineariser: null\n  analogue_swing: {swing}\n"
    )
    return load_process(folder)


@pytest.mark.parametrize("swing", [0.1, 0.784, 1.0])
def test_a_push_pull_modulator_is_a_sine(swing: float) -> None:
    one = Modulator(sine(swing))
    wanted = np.sin(0.5 * np.pi * swing * DRIVES) / np.sin(0.5 * np.pi * swing)
    assert np.abs(one.field(DRIVES) - wanted).max() < 1e-11
    assert np.abs(one.slope(DRIVES) - np.gradient(wanted, DRIVES, edge_order=2)).max() < 1e-4
    assert np.abs(one.drive(wanted) - DRIVES).max() < 1e-6
    assert one.field(np.array([-1.0, 0.0, 1.0, 7.0])) == pytest.approx([0.0, 0.0, 1.0, 1.0], abs=1e-15)


def test_a_linear_modulator_sends_its_drive() -> None:
    assert Modulator().linear and np.array_equal(Modulator().field(DRIVES), DRIVES)
    assert linearised(0.0) == LINEAR
    residual = Modulator(linearised(0.01)).field(DRIVES) - DRIVES
    assert np.abs(residual).max() == pytest.approx(0.01, rel=1e-3)


def test_a_table_is_followed_between_its_points() -> None:
    drives = np.linspace(0.0, 1.0, 21)
    found = Modulator(measured(tuple(np.sin(0.5 * np.pi * drives).tolist())))
    assert np.abs(found.field(DRIVES) - np.sin(0.5 * np.pi * DRIVES)).max() < 2e-3


def test_a_table_that_no_smooth_curve_follows_is_refused() -> None:
    with pytest.raises(InputError, match="the smoothest curve through the fields is off by"):
        measured((0.0, 0.01, 0.02, 0.03, 0.98, 0.985, 0.99, 0.995, 1.0))


@pytest.mark.parametrize(
    ("name", "stated", "message"),
    [
        ("modulator", {"transfer": [0.26, 0.5, 1.0]}, "has 3 fields from 0.26.*An electro-absorption"),
        ("modulator", {"transfer": [0.0, 0.6, 0.5, 1.0]}, "at least 3 that rise from 0"),
        ("modulator", {"transfer": [0.0, 1.0]}, "has 2 fields"),
        ("modulator", {"transfer": [0.0, 0.5, 1.0], "swing": 0.5}, "without the parameter swing"),
        ("crossing", {"transfer": [0.0, 0.5, 1.0]}, "belongs to a modulator"),
        ("modulator", {"transfer": [0.0, 0.7, 1.0]}, ""),
    ],
)
def test_tables_of_cards(name: str, stated: dict[str, Any], message: str) -> None:
    card = load_process("soi220").device(name)
    parameters = {key: value for key, value in card.model.parameters.items() if key != "swing"}
    if "swing" in stated:
        parameters["swing"] = Quantity(stated["swing"], "default")
    table = tuple(Quantity(value, "default") for value in stated["transfer"])
    changed = card.model_copy(
        update={"model": card.model.model_copy(update={"transfer": table, "parameters": parameters})}
    )
    if message:
        with pytest.raises(ValueError, match=message):
            check_model(changed)
    else:
        check_model(changed)


def test_modulators_that_no_card_describes_are_taken_as_linear_and_said_so(tmp_path: Path) -> None:
    process = direct(tmp_path)
    card = process.device("modulator")
    parameters = {key: value for key, value in card.model.parameters.items() if key != "swing"}
    model = card.model.model_copy(update={"parameters": parameters})
    devices = {**process.devices, "modulator": card.model_copy(update={"model": model})}
    (note,) = drive_notes(process.model_copy(update={"devices": devices}))
    assert "are taken as linear" in note and drive_notes(process) == drive_notes(load_process("soi220")) == ()


def test_a_chip_with_neurons_after_bits_is_still_read_as_it_is() -> None:
    found = evaluate(TASK, ProgramVariant((3, 3), (0, 0), finish=True), Placement(GAIN, ALL))
    assert found is not None
    bits = candidate_network(TASK, found)
    assert realised_network(bits, len(bits.layers)) is bits
    assert len(realised_network(bits, len(bits.layers) + 1).layers) == len(bits.layers) + 1


@pytest.mark.parametrize(("swing", "limit"), [(0.1, 1e-3), (0.3, 8e-3), (0.7, 5e-2)])
def test_small_signals_are_sent_nearly_linearly(swing: float, limit: float) -> None:
    one = Modulator(sine(1.0))
    wanted = swing * DRIVES
    error = np.abs(one.field(one.small_signal(swing) * wanted) - wanted).max() / swing
    plain = np.abs(one.field(2.0 / np.pi * wanted) - wanted).max() / swing
    assert error < plain and error < limit
    assert one.small_signal(1.0) == 1.0


def test_processes_state_how_modulators_are_driven(tmp_path: Path) -> None:
    assert modulator_of(load_process("soi220")) == Modulator(LINEAR, 0.01)
    assert modulator_of(direct(tmp_path)) == Modulator(sine(1.0), 0.01)


def exact_words(network: AveragingNetwork, process: Process) -> float:
    """Share of 2,000 random inputs that the assembled chip reads correctly."""
    network = linked_network(network, process.link.kind == "neurons")
    circuit = assemble(network, process, "average")
    assert circuit.board is not None
    programmed = op.simulate.program(circuit, circuit.board, network, process)
    light = op.simulate.scattering(circuit, programmed.bias, 1550.0, process)
    symbols = np.random.default_rng(3).integers(0, 4, (2000, TASK.servers, TASK.symbols))
    received = op.simulate.transmit(symbols, light, circuit.board, programmed.bias)
    return float((received.levels == TASK.encode(TASK.ideal(TASK.decode(symbols)))[:, np.newaxis]).all((1, 2)).mean())


def test_directly_driven_modulators_need_a_small_swing_or_bits(tmp_path: Path) -> None:
    analogue = comparator_network(TASK)
    assert exact_words(analogue, load_process("soi220")) == 1.0
    assert exact_words(analogue, direct(tmp_path)) < 0.05
    assert exact_words(analogue, direct(tmp_path, "{value: 0.2, source: own}")) == 1.0
    found = evaluate(TASK, ProgramVariant((3, 3), (0, 0), finish=True), Placement(GAIN, ALL))
    assert found is not None
    bits = candidate_network(TASK, found)
    # its outputs are sums of bits, so that no neuron follows
    assert sends_levels(bits) and linked_network(bits, neurons=True) is bits
    assert not sends_levels(analogue)
    assert exact_words(bits, direct(tmp_path)) == 1.0


def sine_network() -> GeneralNetwork:
    """Network of three layers with a sine between them, whose inputs are 0 to 1."""
    random = np.random.default_rng(5)
    shapes = ((6, 4), (5, 6), (3, 5))
    layers = tuple(Layer(random.normal(0.0, 0.6, shape), random.normal(0.1, 0.2, shape[0])) for shape in shapes)
    return GeneralNetwork.of_layers(layers, "sine", np.array([0.0, 1.0]))


def test_a_chip_computes_the_sine_of_its_modulators(tmp_path: Path) -> None:
    network, process = sine_network(), direct(tmp_path)
    inputs = np.random.default_rng(1).uniform(0.0, 1.0, (200, 4))
    options = op.BuildOptions(name="sines", data=inputs, process=process.folders[0])
    built = op.build(network, tmp_path, options)
    assert built.passed and built.report.network is not None and built.report.network.worst_deviation < 0.01
    clipped = op.GeneralNetwork.of_layers(network.layers, "clipped_relu", np.array([0.0, 1.0]))
    wanted = network.forward(inputs)
    assert np.abs(clipped.forward(inputs) - wanted).max() > 0.1 * np.abs(wanted).max()
    with pytest.raises(InputError, match="has no modulators whose field is the sine of the signal"):
        op.build(network, tmp_path / "linear", op.BuildOptions(name="sines", data=inputs))
