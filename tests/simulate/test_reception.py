"""Light through chip and board against a direct calculation, one word at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.circuit import Bias, Board, NetlistError, Neuron
from optinc_pdk.circuit.bias import Activation
from optinc_pdk.simulate import Scattering, UnsettledError, transmit

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
