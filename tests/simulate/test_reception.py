"""Light through chip and board: words one at a time, vectors, and two levels of chips joined by light."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import optinc_pdk as op
from optinc_pdk.assemble import assemble
from optinc_pdk.averaging import decide_steps
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board, NetlistError, Neuron, read_bias, read_netlist
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.errors import InputError
from optinc_pdk.networks import Layer, comparator_network, factorise
from optinc_pdk.networks.network import cascade_tasks
from optinc_pdk.signoff.cascade_words import check_cascade, link_amplitudes
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.signoff.function import check_function
from optinc_pdk.simulate import Scattering, UnsettledError, program, scattering, transmit, transmit_vectors
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.reception import (
    input_amplitudes,
    link_chips,
    output_fields,
    server_amplitudes,
    transmit_cascade,
)

LABELS = ("c", "in0", "in1", "m0", "m1", "n0", "n1", "out0", "out1", "p0", "p1", "t0", "t1", "x")
BOARD = Board(
    carrier="c",
    supplies=(),
    monitors=("x",),
    inputs=(("in0",), ("in1",)),
    neurons=(Neuron("a", 0, "p0", "n0", "t0"), Neuron("b", 1, "p1", "n1", "t1")),
    outputs=(("out0",), ("out1",)),
)
ZEROS = np.zeros(0)
BIAS = Bias(
    "soi220",
    "toy",
    16,
    (),
    ZEROS,
    ZEROS,
    ZEROS,
    ZEROS.astype(np.int64),
    activations={"a": Activation(2.0, -0.02, 1.1), "b": Activation(3.0, 0.05, 0.9)},
    outputs={"out0": 4.0, "out1": 5.0},
)


@pytest.fixture
def chip():
    rng = np.random.default_rng(3)
    s = rng.standard_normal((1, 14, 14)) + 1j * rng.standard_normal((1, 14, 14))
    return Scattering(np.array([1550.0]), LABELS, 0.06 * (s + np.swapaxes(s, 1, 2)))


def one_word(symbols, chip, bias=BIAS):
    """Outputs at the fixed point of the whole system by plain iteration, and the number of saturated amplitudes."""
    at = {label: i for i, label in enumerate(chip.labels)}
    light = np.zeros(len(chip.labels), dtype=complex)
    light[at["c"]] = 1.0
    light[at["in0"]], light[at["in1"]] = symbols[:, 0] / 3
    cut = 0
    for _ in range(200):
        out = chip.s[0] @ light
        cut = 0
        for neuron in BOARD.neurons:
            e = bias.activations[neuron.label]
            detected = abs(out[at[neuron.plus]]) ** 2 - e.balance * abs(out[at[neuron.minus]]) ** 2
            amplitude = e.gain * max(detected + e.offset, 0.0)
            cut += amplitude > 1.0
            light[at[neuron.to]] = min(amplitude, 1.0)
    return np.abs(chip.s[0] @ light)[[at["out0"], at["out1"]]] * [4.0, 5.0], cut


def test_agrees_with_one_word_at_a_time(chip):
    symbols = np.array(np.meshgrid(range(4), range(4))).reshape(2, -1).T[:, :, np.newaxis]
    received = transmit(symbols, chip, BOARD, BIAS)
    assert received.outputs.shape == received.levels.shape == (16, 2, 1)
    cuts = 0
    for word, output in zip(symbols, received.outputs, strict=True):
        expected, cut = one_word(word, chip)
        assert output[:, 0] == pytest.approx(expected, abs=1e-7)
        cuts += cut
    assert received.saturated == cuts
    assert np.array_equal(received.levels, np.clip(np.rint(received.outputs), 0, 3))


def test_saturation_is_limited_and_counted(chip):
    loud = replace(BIAS, activations={**BIAS.activations, "b": Activation(3.0, 10.0, 0.9)})
    symbols = np.full((5, 2, 1), 2)
    received = transmit(symbols, chip, BOARD, loud)
    expected, cut = one_word(symbols[0], chip, loud)
    assert received.saturated == 5 * cut == 5
    assert received.hidden[1].max() > 1.0
    assert received.outputs[0, :, 0] == pytest.approx(expected, abs=1e-7)


def test_strongly_coupled_layers_do_not_settle(chip):
    wild = replace(BIAS, activations={"a": Activation(1e3, 0.0, 3.0), "b": Activation(1e3, 0.0, 3.0)})
    strong = Scattering(chip.wavelengths_nm, LABELS, 3.0 * np.exp(20j * chip.s.real))
    with pytest.raises(UnsettledError, match=" 20 passes"):
        transmit(np.array([[[1], [2]], [[3], [0]], [[2], [2]]]), strong, BOARD, wild)


def test_missing_electronics_are_named(chip):
    with pytest.raises(NetlistError, match="'b'"):
        transmit(np.zeros((1, 2, 1)), chip, BOARD, replace(BIAS, activations={"a": BIAS.activations["a"]}))
    with pytest.raises(NetlistError, match="'out1'"):
        transmit(np.zeros((1, 2, 1)), chip, BOARD, replace(BIAS, outputs={"out0": 1.0}))


def test_wrong_shape_is_refused(chip):
    with pytest.raises(ValueError, match=r"\(3, 2\).* 2 servers, 1 symbols"):
        transmit(np.zeros((3, 2)), chip, BOARD, BIAS)


PROCESS = load_process()
# one hidden unit for each sign, so that the output is the input
LAYERS = (Layer(np.array([[1.0], [-1.0]]), np.zeros(2)), Layer(np.array([[1.0, -1.0]]), np.array([0.25])))
DATA = np.linspace(-2.0, 2.0, 21)[:, np.newaxis]


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scattering, Board, Bias]:
    folder = tmp_path_factory.mktemp("identity")
    assert op.build(op.GeneralNetwork.of_layers(LAYERS), folder, op.BuildOptions(name="identity", data=DATA)).passed
    bias = read_bias(Path(folder, "identity.bias.yml"))
    layout = read_extracted_layout(Path(folder, "identity.gds"), bias, PROCESS)
    s = scattering(layout.circuit, bias, float(PROCESS.guide.wavelength_nm), PROCESS, ground=layout.ground)
    board = read_netlist(Path(folder, "identity.pic.yml")).board
    assert board is not None
    return s, board, bias


def test_amplitudes_are_values_over_the_scale_of_the_input(identity: tuple[Scattering, Board, Bias]) -> None:
    _, board, bias = identity
    assert list(bias.input_scales.values()) == [2.0]
    np.testing.assert_allclose(input_amplitudes(DATA, board, bias), DATA / 2.0)


def test_a_chip_computes_both_signs_and_the_output_offset(identity: tuple[Scattering, Board, Bias]) -> None:
    received = transmit_vectors(DATA, *identity)
    np.testing.assert_allclose(received.outputs, DATA + 0.25, atol=0.01)
    assert received.saturated == 0


def test_amplitudes_of_neurons_beyond_their_modulators_are_counted(identity: tuple[Scattering, Board, Bias]) -> None:
    s, board, bias = identity
    gains = {label: replace(one, gain=2.0 * one.gain) for label, one in bias.activations.items()}
    received = transmit_vectors(DATA, s, board, replace(bias, activations=gains))
    assert 0 < received.saturated < DATA.size
    assert np.abs(received.outputs).max() < 2.0 * 2.25


def test_what_an_input_cannot_send_is_refused(identity: tuple[Scattering, Board, Bias]) -> None:
    s, board, bias = identity
    with pytest.raises(InputError, match=r"input 0 of sample 1 is -2\.1, the chip sends up to ±2; scale the data"):
        transmit_vectors([[0.0], [-2.1]], s, board, bias)
    with pytest.raises(ValueError, match=r"inputs has shape \(1, 2\); give \(samples, 1 inputs\)"):
        transmit_vectors([[0.0, 1.0]], s, board, bias)
    with pytest.raises(NetlistError, match="the bias has no scale for input"):
        transmit_vectors(DATA, s, board, replace(bias, input_scales={}))


FIRST, SECOND = cascade_tasks(4, 2, 2)
FULL = np.ones((2, 2))


def programmed(task, process, inputs=None):
    """Circuit, bias and network on its board of a comparator chip."""
    onn = comparator_network(task)
    circuit = assemble(onn, process, "chip")
    bias = program(circuit, circuit.board, onn, process, inputs=inputs).bias
    s = scattering(circuit, bias, 1550.0, process)
    return circuit, bias, network_of(s, circuit.board, bias, 0), s


@pytest.fixture(scope="module")
def lower(process):
    return programmed(FIRST, process)


@pytest.fixture(scope="module")
def upper(process, lower):
    return programmed(SECOND, process, link_amplitudes(lower[0].board, lower[1], 0.0))


def linked(lower, upper, loss_db=0.0):
    return link_chips(lower[2], upper[2], FULL, loss_db)


def every_word():
    """Words of four servers, (65536, 2, 2), and their averages."""
    index = np.arange(16**4)
    words = (index[:, np.newaxis] // 16 ** np.arange(4) % 16).reshape(-1, 2, 2)
    return words, words.sum(axis=(1, 2)) // 4


def words_read(words, chips):
    return SECOND.decode(decide_steps(transmit_cascade(FIRST.encode(words), chips).outputs))


def test_every_combination_of_words_of_four_servers_is_exact(lower, upper):
    words, average = every_word()
    np.testing.assert_array_equal(words_read(words, linked(lower, upper)), np.tile(average[:, np.newaxis], 2))


def test_each_level_alone_computes_its_average(process, lower, upper):
    for task, (circuit, bias, *_) in ((FIRST, lower), (SECOND, upper)):
        found = check_function(circuit, circuit.board, bias, task, process)
        assert found.passed and found.margin > 0.3
    # one output fibre per symbol leads to level 2, two receivers per symbol read level 2
    assert [len(circuit.board.outputs) for circuit, *_ in (lower, upper)] == [1, 2]


def test_the_check_counts_sets_errors_and_margins(lower, upper):
    found = check_cascade(linked(lower, upper), (FIRST, SECOND), 3000, 0)
    assert found.passed and found.exact == found.sets > 3000 and found.words == 2 * found.sets
    assert found.errors == {} and found.margin > 0.3 and found.level1_margin > 0.3
    assert 0.0 < found.quadrature < 0.2
    np.testing.assert_array_equal(np.rint(found.outputs), found.levels)
    # level 2 was programmed for more light
    weak = check_cascade(linked(lower, upper, 3.0), (FIRST, SECOND), 3000, 0)
    assert not weak.passed and weak.exact < found.exact
    assert weak.words > sum(weak.errors.values()) > 0
    assert sum(error * count for error, count in weak.errors.items()) < 0
    np.testing.assert_allclose(weak.level1_margin, found.level1_margin, atol=1e-9)


def test_level_2_is_programmed_for_the_loss_of_the_fibres(process, lower, upper):
    amplitudes = link_amplitudes(lower[0].board, lower[1], 3.0)
    np.testing.assert_allclose(amplitudes, 10**-0.15 * np.array(link_amplitudes(lower[0].board, lower[1], 0.0)))
    far = programmed(SECOND, process, amplitudes)
    words, average = every_word()
    read = words_read(words[::7], linked(lower, far, 3.0))
    np.testing.assert_array_equal(read, np.tile(average[::7, np.newaxis], 2))
    assert far[1].inputs["in_s1_m0"] == amplitudes[0]
    gains = [
        max(bias.activations[n.label].gain for n in circuit.board.neurons if n.layer == 0)
        for circuit, bias, *_ in (upper, far)
    ]
    np.testing.assert_allclose(gains[1] / gains[0], 10**0.15, rtol=0.02)


def test_fibres_are_locked_in_phase_for_the_largest_words(lower, upper):
    chips = linked(lower, upper)
    top = transmit_cascade(np.full((1, 2, 2, 2), 3), chips)
    np.testing.assert_allclose(top.between, 3.0, atol=0.05)
    np.testing.assert_allclose(top.quadrature, 0.0, atol=1e-9)
    # a fibre in antiphase inverts its symbol
    wrong = replace(chips, link=chips.link * np.array([1.0, -1.0]))
    words, average = every_word()
    assert (words_read(words[::7], wrong) != average[::7, np.newaxis]).mean() > 0.3


def test_fields_of_equal_phase_turn_the_output_and_keep_its_power(lower):
    circuit, bias, network, s = lower
    symbols = np.array([[[3, 1], [2, 3]], [[0, 2], [1, 1]]])
    sent = server_amplitudes(symbols, circuit.board, bias)
    fields = output_fields(sent, network)
    # averages 12 and 3½
    received = transmit(symbols, s, circuit.board, bias, resolution=FIRST.output_resolution)
    np.testing.assert_allclose(np.abs(fields) * network.scale, received.outputs[:, 0], rtol=1e-12)
    np.testing.assert_allclose(output_fields(sent.astype(complex), network), fields, rtol=1e-9)
    np.testing.assert_array_equal(received.levels[:, 0], [[3, 0], [0, 2 * 3 + 1]])
    # homodyne detection reads the part in phase with the local oscillators, as of a smaller real amplitude
    turned = output_fields(sent * np.exp(0.2j), network)
    np.testing.assert_allclose(turned, output_fields(sent * np.cos(0.2), network), atol=0.02 * np.abs(fields).max())


def test_level_1_needs_one_output_for_each_symbol(upper):
    with pytest.raises(ValueError, match="4 outputs for 2 symbols"):
        link_chips(upper[2], upper[2], FULL, 0.0)


def test_amplitudes_of_inputs_change_the_gains_of_the_first_layer_only():
    onn = comparator_network(SECOND)
    assert SECOND.default_amplitude == 3 / 3.5
    assert FIRST.default_amplitude == 1.0
    default, half = factorise(onn), factorise(onn, [0.5 * 3 / 3.5] * 2)
    np.testing.assert_allclose(half[0].row_norm, 2.0 * default[0].row_norm)
    np.testing.assert_allclose(half[0].matrix, default[0].matrix, atol=1e-12)
    np.testing.assert_array_equal(half[1].matrix, default[1].matrix)
    # unequal amplitudes scale columns
    unequal = factorise(onn, [0.6, 0.3])[0]
    columns = unequal.row_norm[:, np.newaxis] * unequal.matrix[unequal.row]
    reference = default[0].row_norm[:, np.newaxis] * default[0].matrix[default[0].row] * (3 / 3.5)
    np.testing.assert_allclose(columns * [0.6, 0.3], reference, atol=1e-12)


def test_outputs_of_level_1_have_equal_fields_per_level():
    last = factorise(comparator_network(FIRST))[-1]
    assert np.ptp(last.row_norm) == 0.0
    np.testing.assert_allclose(np.linalg.norm(last.matrix, axis=1).max(), 1.0)
