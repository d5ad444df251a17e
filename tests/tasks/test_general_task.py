"""Chips of general networks from file to verdict, with faults, and with options and data that cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, read_bias, read_netlist
from optinc_pdk.cli.commands import app
from optinc_pdk.errors import InputError
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks import GeneralNetwork, Layer, NetworkComparison, NetworkData, NetworkLimits, factorise
from optinc_pdk.options import BuildOptions, CheckOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.pipeline.stages import Build
from optinc_pdk.report.findings import network_findings
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.simulate import scattering, transmit_vectors, trim_offsets
from optinc_pdk.tasks.reading import read_task

PROCESS = load_process()


def random_network(*sizes: int, activation: Any = "relu", seed: int = 0) -> GeneralNetwork:
    """Network of random weights with biases at every layer."""
    rng = np.random.default_rng(seed)
    layers = [
        Layer(rng.normal(size=(out, into)) / np.sqrt(into), 0.3 * rng.normal(size=out)) for into, out in pairwise(sizes)
    ]
    return GeneralNetwork.of_layers(layers, activation)


NETWORK = random_network(3, 5, 3)
X = np.random.default_rng(1).normal(size=(200, 3))
LABELS = NETWORK.forward(X).argmax(axis=1)


def file(chip: Build, ending: str) -> Path:
    return chip.directory / f"{chip.report.name}{ending}"


@pytest.fixture(scope="module")
def chip(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """A classifier of three classes, from files."""
    folder = tmp_path_factory.mktemp("network")
    NETWORK.save(folder / "net.npz")
    np.savez(folder / "test.npz", x=X, y=LABELS)
    return build(folder / "net.npz", folder / "out", BuildOptions(data=folder / "test.npz"))


@pytest.mark.full
def test_a_classifier_becomes_a_chip_that_passes(chip: Build) -> None:
    report = chip.report
    assert chip.passed, chip.findings
    assert report.kind == "network" and report.averaging is None and report.onn is None and report.function is None
    assert report.drc is not None and report.drc.violations == 0
    assert report.lvs is not None and report.lvs.match
    assert report.network is not None and report.chip is not None
    assert report.network.structure == [3, 5, 3] and report.network.samples == report.network.agreeing == 200
    assert report.network.network_accuracy == report.network.chip_accuracy == 1.0
    assert report.network.confusion == np.diag(np.bincount(LABELS, minlength=3)).tolist()
    assert 0.0 < report.network.rms_deviation < report.network.worst_deviation < 0.003
    # 3 inputs with trims; 3 × 5 and 5 × 3 matrices without a constant unit; a local oscillator for each of 5 mixers
    assert report.chip.phase_shifters == 3 + 2 * (3 * 2 + 5 * 4 + 3) + 5
    assert report.chip.offchip["receivers of fields"] == 3 and report.chip.offchip["input modulators"] == 3
    written = json.loads(file(chip, ".report.json").read_text())
    assert written["task"]["kind"] == "network" and written["task"]["data"] == "labels" and "matrix" not in written
    assert f"{report.name}.network.npz" in written["files"]
    page = file(chip, ".report.html").read_text()
    assert "agree on 200 of 200 samples" in page and "Accuracy of the chip" in page


@pytest.mark.full
def test_the_written_chip_computes_the_written_outputs(chip: Build) -> None:
    """Netlist, layout and bias are read from their files; the inputs are sent as the bias states."""
    bias = read_bias(file(chip, ".bias.yml"))
    netlist = read_netlist(file(chip, ".pic.yml"))
    assert netlist.board is not None and netlist.board.coherent and netlist.board.layers == 2
    np.testing.assert_allclose(list(bias.input_scales.values()), np.abs(X).max(axis=0))
    layout = read_extracted_layout(file(chip, ".gds"), bias, PROCESS)
    s = scattering(layout.circuit, bias, float(PROCESS.guide.wavelength_nm), PROCESS, ground=layout.ground)
    received = transmit_vectors(X, s, netlist.board, bias)
    assert received.saturated == 0
    with np.load(file(chip, ".network.npz")) as arrays:
        np.testing.assert_allclose(arrays["network"], NETWORK.forward(X))
        np.testing.assert_allclose(arrays["chip"], received.outputs, atol=1e-7)
        np.testing.assert_array_equal(arrays["y"], LABELS)
    # both signs occur at inputs and outputs
    assert X.min() < 0.0 < X.max() and received.outputs.min() < 0.0 < received.outputs.max()


@pytest.mark.full(every=4)
@pytest.mark.parametrize(
    ("network", "process"),
    [
        (random_network(2, 4, 3, 1, seed=2), "soi220"),
        (random_network(3, 6, 2, activation="clipped_relu", seed=3), "soi220"),
        (random_network(5, 3, 4, seed=4), "soi220_flipchip_onchip"),
        (random_network(1, 3, 2, seed=5), "soi220"),
    ],
)
def test_other_shapes_activations_and_processes_pass_on_random_inputs(
    tmp_path: Path, network: GeneralNetwork, process: str
) -> None:
    done = build(network, tmp_path, BuildOptions(name="chip", process=process))
    assert done.passed, done.findings
    assert done.report.network is not None and done.report.network.samples == 4096
    assert done.report.task.model_dump()["data"] == "random"
    assert done.report.network.network_accuracy is None and done.report.network.confusion is None


@pytest.mark.full
def test_outputs_are_compared_within_the_tolerance(tmp_path: Path) -> None:
    network = random_network(3, 4, 2, seed=6)
    wanted = network.forward(X) + 0.01
    done = build(network, tmp_path, BuildOptions(data=(X, wanted)))
    assert done.passed, done.findings
    assert done.report.network is not None and done.report.task.model_dump()["data"] == "outputs"
    assert done.report.network.network_rms_error == pytest.approx(0.01)
    assert done.report.network.chip_rms_error == pytest.approx(0.01, rel=0.1)
    strict = build(network, tmp_path, BuildOptions(data=(X, wanted), tolerance=1e-7))
    assert not strict.passed
    assert any("outputs beyond the tolerance" in line for line in strict.findings)


def flipped(network: GeneralNetwork, layer: int, row: int, column: int) -> GeneralNetwork:
    """The network with the sign of one weight inverted."""
    layers = list(network.layers)
    weight = layers[layer].weight.copy()
    weight[row, column] *= -1.0
    layers[layer] = Layer(weight, layers[layer].bias)
    return GeneralNetwork.of_layers(layers, network.activation, card=network.card)


@pytest.mark.full
def test_a_network_with_one_weight_flipped_fails_and_is_named_as_the_cause(tmp_path: Path) -> None:
    wrong = flipped(NETWORK, 1, 0, 2)
    share = float(np.mean(wrong.forward(X).argmax(axis=1) == LABELS))
    assert share < 0.95
    done = build(wrong, tmp_path, BuildOptions(data=(X, LABELS), accuracy=0.95))
    assert not done.passed and done.report.network is not None
    assert done.report.network.agreement == 1.0 and done.report.network.network_accuracy == pytest.approx(share)
    cause = next(line for line in done.findings if "the network itself is the cause" in line)
    assert f"{share:.2%}" in cause and "95.00%" in cause
    assert any("accuracy of the chip" in line for line in done.report.failures())


@pytest.mark.full
def test_the_accuracy_that_the_card_states_is_required(tmp_path: Path) -> None:
    stated = GeneralNetwork.of_layers(NETWORK.layers, card={"accuracy": 1.0})
    right = build(stated, tmp_path, BuildOptions(data=(X, LABELS)))
    assert right.passed and right.report.task.model_dump()["accuracy"] == pytest.approx(0.999)
    wrong = build(flipped(stated, 1, 0, 2), tmp_path, BuildOptions(data=(X, LABELS)))
    assert not wrong.passed and any("the network itself is the cause" in line for line in wrong.findings)


@pytest.mark.full
def test_a_file_that_states_the_accuracy_fails_once_a_weight_is_flipped(tmp_path: Path) -> None:
    """The documented way: with_accuracy, save, then a build of the file with data."""
    labels = LABELS.copy()
    labels[:6] = (labels[:6] + 1) % 3
    network = NETWORK.with_accuracy(X, labels)
    assert network.card == {"accuracy": 0.97} and NETWORK.card == {}
    network.save(tmp_path / "net.npz")
    np.savez(tmp_path / "test.npz", x=X, y=labels)
    right = build(tmp_path / "net.npz", tmp_path, BuildOptions(data=tmp_path / "test.npz"))
    assert right.passed and not any("floating point" in line for line in right.findings)
    with np.load(tmp_path / "net.npz") as stored:
        arrays = dict(stored)
    arrays["layers.1.weight"][0, 2] *= -1.0
    np.savez(tmp_path / "flip.npz", **arrays)
    share = float(np.mean(flipped(NETWORK, 1, 0, 2).forward(X).argmax(axis=1) == labels))
    assert share < 0.9
    options = ["--data", str(tmp_path / "test.npz"), "-o", str(tmp_path)]
    failed = CliRunner().invoke(app, ["build", str(tmp_path / "flip.npz"), *options])
    assert failed.exit_code == 1
    cause = next(line for line in failed.stderr.splitlines() if "the network itself is the cause" in line)
    assert f"{share:.2%}" in cause and "its card states 97.00%" in cause
    # a build with a lower requirement passes, and mentions the accuracy
    passed = CliRunner().invoke(app, ["build", str(tmp_path / "flip.npz"), *options, "--accuracy", "0.1"])
    assert passed.exit_code == 0 and "its card states 97.00%" in passed.stderr


def test_a_network_of_low_accuracy_is_mentioned_where_none_is_required() -> None:
    labels = np.array([0, 1, 2, 0, 1, 2])
    for right, mentioned in ((2, True), (4, True), (5, False)):
        outputs = np.eye(3)[np.where(np.arange(6) < right, labels, (labels + 1) % 3)]
        found = NetworkComparison(NetworkData(np.zeros((6, 3)), labels=labels), NetworkLimits(), outputs, outputs)
        lines = network_findings(found, 0, NETWORK, ())
        assert bool(lines) is mentioned, lines
        assert not mentioned or f"classifies {right / 6:.2%}" in lines[0]
        # a stated accuracy says what the network should reach
        limits = NetworkLimits(accuracy=right / 6)
        assert bool(network_findings(replace(found, limits=limits), 0, NETWORK, ())) is (right == 2)


@pytest.mark.full
def test_a_regressor_that_states_its_error_fails_once_a_weight_is_flipped(tmp_path: Path) -> None:
    y = NETWORK.forward(X) + 0.05 * np.random.default_rng(3).normal(size=(200, 3))
    network = NETWORK.with_accuracy(X, y)
    error = float(np.sqrt(np.mean((NETWORK.forward(X) - y) ** 2)))
    assert network.card == {"rms_error": pytest.approx(error, rel=1e-12)}
    network.save(tmp_path / "net.npz")
    np.savez(tmp_path / "test.npz", x=X, y=y)
    right = build(tmp_path / "net.npz", tmp_path, BuildOptions(data=tmp_path / "test.npz"))
    limit = error + 0.01 * np.abs(y).max()
    assert right.passed and right.report.task.model_dump()["rms_error"] == pytest.approx(limit)
    with np.load(tmp_path / "net.npz") as stored:
        arrays = dict(stored)
    arrays["layers.1.weight"][0, 2] *= -1.0
    np.savez(tmp_path / "flip.npz", **arrays)
    options = ["--data", str(tmp_path / "test.npz"), "-o", str(tmp_path)]
    failed = CliRunner().invoke(app, ["build", str(tmp_path / "flip.npz"), *options])
    assert failed.exit_code == 1
    wrong = flipped(NETWORK, 1, 0, 2).forward(X) - y
    cause = next(line for line in failed.stderr.splitlines() if "the network itself is the cause" in line)
    assert f"differ from y by {np.sqrt(np.mean(wrong**2)):.4g} rms" in cause
    assert f"its card states {error:.4g}" in cause
    # labels say nothing of the outputs, so that the stated error is then no limit
    assert read_task(network, load_process("soi220"), CheckOptions(data=(X, LABELS)))[0].limits.rms_error is None


def test_a_chip_of_a_larger_error_than_its_network_is_the_cause() -> None:
    y = NETWORK.forward(X)
    limits = NetworkLimits(tolerance=0.1, rms_error=0.01)
    found = NetworkComparison(NetworkData(X, outputs=y), limits, y, y + 0.02)
    assert found.agreement == 1.0 and not found.passed
    assert replace(found, limits=NetworkLimits(tolerance=0.1, rms_error=0.03)).passed
    (line,) = network_findings(found, 0, NETWORK, ())
    assert "the chip is the cause" in line and "by 0.02 rms, allowed are 0.01" in line


def test_blocks_that_do_not_realise_a_layer_are_the_cause() -> None:
    y = NETWORK.forward(X)
    limits = NetworkLimits(tolerance=0.1, rms_error=0.01)
    found = NetworkComparison(NetworkData(X, outputs=y), limits, y, y + 0.02)
    blocks = replace(NETWORK, factor=(("approx", 2), *NETWORK.factor[1:]))
    factors = factorise(blocks)
    lines = network_findings(found, 0, blocks, factors)
    assert lines[0].startswith("factor: blocks of 2 × 2 realise layer 0 but for ") and "project_blocks" in lines[0]
    assert f"{factors[0].relative_error:.2%}" in lines[0]
    assert "the factorisation of the network is the cause, or the chip" in lines[1]
    # weights that blocks realise are not mentioned
    layer = replace(blocks.layers[0], weight=unitary_diagonal(blocks.layers[0].weight, 2).matrix())
    exact = replace(blocks, layers=(layer, *blocks.layers[1:]))
    exact = GeneralNetwork.of_layers(exact.layers, input_range=(-1.0, 1.0))
    exact = replace(exact, factor=blocks.factor)
    assert "the chip is the cause" in network_findings(found, 0, exact, factorise(exact))[0]


@pytest.mark.parametrize("stated", [-1.0, True, "small", float("inf")])
def test_an_error_that_a_card_states_wrongly_is_refused(stated: object) -> None:
    network = GeneralNetwork.of_layers(NETWORK.layers, card={"rms_error": stated})
    with pytest.raises(InputError, match="give a number from 0"):
        read_task(network, load_process("soi220"), CheckOptions(data=(X, NETWORK.forward(X))))


def test_inputs_alone_state_no_accuracy() -> None:
    with pytest.raises(InputError, match="y is None"):
        NETWORK.with_accuracy(X, None)


def wrong_heater(bias: Bias) -> Bias:
    code = bias.code.copy()
    code[bias.labels.index("l0_v_c0_r0_theta")] //= 2
    return replace(bias, code=code)


def wrong_offset(bias: Bias) -> Bias:
    label = "l0_r0"
    changed = replace(bias.activations[label], offset=-bias.activations[label].offset)
    return replace(bias, activations={**bias.activations, label: changed})


def wrong_output_bias(bias: Bias) -> Bias:
    label = "out_s0_m2"
    return replace(bias, output_offsets={**bias.output_offsets, label: bias.output_offsets[label] + 1.0})


def wrong_sign(bias: Bias) -> Bias:
    label = "out_s0_m1"
    return replace(bias, phases={**bias.phases, label: bias.phases[label] + np.pi})


def wrong_input(bias: Bias) -> Bias:
    return replace(bias, input_scales={**bias.input_scales, "in_s0_m1": 2.0 * bias.input_scales["in_s0_m1"]})


@pytest.mark.full(every=5)
@pytest.mark.parametrize("mutant", [wrong_heater, wrong_offset, wrong_output_bias, wrong_sign, wrong_input])
def test_a_chip_with_a_wrong_bias_fails_and_the_network_is_not_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mutant: Any
) -> None:
    monkeypatch.setattr("optinc_pdk.simulate.trim_offsets", lambda *arguments: mutant(trim_offsets(*arguments)))
    done = build(NETWORK, tmp_path, BuildOptions(data=(X, LABELS), accuracy=0.999))
    assert not done.passed and done.report.network is not None
    assert done.report.network.agreement < 0.99
    assert any("chip and network agree on" in line for line in done.report.failures())
    assert any("the chip is the cause" in line for line in done.findings)


def test_signals_are_scaled_over_data_that_the_network_has_else_over_that_of_the_check() -> None:
    network = random_network(3, 5, 2)
    seen, unseen = (np.random.default_rng(seed).uniform(-0.5, 0.5, (20, 3)) for seed in (1, 2))
    check = CheckOptions(data=unseen)
    given, default = (read_task(each, load_process("soi220"), check)[0] for each in (network.with_data(seen), network))
    assert given.network.task.data is seen
    assert default.network.task.data is not None and np.array_equal(default.network.task.data, unseen)
    assert all(np.array_equal(each.data.x, unseen) for each in (given, default))


def test_data_beyond_the_stated_range_is_refused(tmp_path: Path) -> None:
    network = GeneralNetwork.of_layers(NETWORK.layers, input_range=(-1.0, 1.0))
    with pytest.raises(InputError, match=r"x\[.*beyond -1 … 1, the input_range"):
        build(network, tmp_path, BuildOptions(data=X))


BAD_DATA = [
    ({"x": np.full((4, 3), np.nan)}, ("x[0, 0]", "(4, 3)", "nan")),
    ({"x": np.zeros((0, 3))}, ("x", "(0, 3)", "no sample")),
    ({"x": np.zeros((4, 2))}, ("x", "(4, 2)", "(samples, 3)")),
    ({"x": np.zeros((2, 4, 3))}, ("x", "(2, 4, 3)", "(samples, 3)")),
    ({"x": np.zeros((4, 3)) * 1j}, ("x", "complex128", "(4, 3)", "real")),
    ({"x": np.array(["a"] * 4)}, ("x", "<U1", "real")),
    ({"x": np.zeros((4, 3)), "y": np.array([0, 1, 2, 3])}, ("y[3]", "label 3", "0 … 2")),
    ({"x": np.zeros((4, 3)), "y": np.array([0, -1, 2, 1])}, ("y[1]", "label -1", "0 … 2")),
    ({"x": np.zeros((4, 3)), "y": np.array([0, 1, 2])}, ("y", "(3,)", "4 samples")),
    ({"x": np.zeros((4, 3)), "y": np.zeros((4, 2))}, ("y", "(4, 2)", "(4, 3) outputs")),
    ({"x": np.zeros((4, 3)), "y": np.zeros(4)}, ("y", "(4,)", "float64", "whole numbers")),
    ({"x": np.zeros((4, 3)), "y": np.full((4, 3), np.inf)}, ("y[0, 0]", "inf")),
    ({"x": np.zeros((4, 3)), "z": np.zeros(4)}, ("'z'", "possibly y")),
    ({"y": np.zeros(4)}, ("'y'", "x (samples, inputs)")),
    ({"x": np.array([{}], dtype=object)}, ("x", "Python objects")),
    ({"x": np.full((4, 3), 5.0) * 1e200}, ("x[0, 0]", "(4, 3)", "5e+200", "-1e+30 … 1e+30", "scale")),
    ({"x": np.full((4, 3), 1.0) * 1e-200}, ("x", "(4, 3)", "1e-200", "1e-30", "scale")),
    ({"x": np.zeros((4, 3)), "y": np.full((4, 3), -1e31)}, ("y[0, 0]", "-1e+31", "-1e+30 … 1e+30")),
]


@pytest.mark.parametrize(("arrays", "parts"), BAD_DATA)
def test_data_that_does_not_fit_is_refused_with_array_shape_and_expectation(
    tmp_path: Path, arrays: dict[str, Any], parts: tuple[str, ...]
) -> None:
    path = tmp_path / "test.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError) as caught:
        build(NETWORK, tmp_path / "out", BuildOptions(data=path))
    for part in (str(path), *parts):
        assert part in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_masked_samples_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x has 1 masked entries, first \[2, 1\]"):
        build(NETWORK, tmp_path, BuildOptions(data=np.ma.masked_array(X, mask=np.arange(X.size).reshape(X.shape) == 7)))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"agreement": 0.0}, "agreement"),
        ({"agreement": 1.1}, "agreement"),
        ({"accuracy": -0.1}, "accuracy"),
        ({"tolerance": 0.1}, "classes are compared"),
        ({"read": "power"}, "a matrix"),
        ({"link": "neurons"}, "averages words"),
        ({"receivers": "photodiodes"}, "averages words"),
        ({"input_amplitudes": [1.0]}, "averages words"),
        ({"data": (X, LABELS, LABELS)}, "3 entries"),
        ({"data": X, "accuracy": 0.5}, "no labels"),
    ],
)
def test_options_without_effect_or_out_of_range_are_refused(tmp_path: Path, options: dict[str, Any], part: str) -> None:
    with pytest.raises(InputError, match=part):
        build(NETWORK, tmp_path, BuildOptions(**{"data": (X, LABELS), **options}))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"data": X}, {"agreement": 0.9}, {"accuracy": 0.9}])
def test_words_and_matrices_take_no_options_of_general_networks(tmp_path: Path, options: dict[str, Any]) -> None:
    for source in (None, np.eye(3)):
        with pytest.raises(InputError, match="a general network"):
            build(source, tmp_path, BuildOptions(**options))
    assert not list(tmp_path.iterdir())


def test_a_single_layer_is_refused_with_the_matrix_as_remedy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"one layer.*its matrix"):
        build(random_network(3, 2), tmp_path)


def test_classes_of_one_output_are_its_signs() -> None:
    outputs = np.array([[-0.5], [0.2], [0.0]])
    data = NetworkData(np.zeros((3, 1)), labels=np.array([0, 1, 1]))
    found = NetworkComparison(data, NetworkLimits(), outputs, outputs)
    assert found.network_accuracy == pytest.approx(2 / 3)
    assert found.confusion is not None and found.confusion.tolist() == [[1, 0], [1, 1]]
