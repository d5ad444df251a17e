"""Symbol rate of a chip whose noise is known."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.interconnect.chip import PRECISION, symbol_rate
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.tolerance.error_rates import gaussian_error_rate

PROCESS = load_process()
TASK = Averaging(4, 1, 2)
NONE = np.zeros(0)


def wires(field):
    """Two wires from one server to its receiver, of so much light."""
    board = Board("c", (), (), (("in0", "in1"),), (), (("out0", "out1"),))
    s = np.zeros((1, 5, 5), dtype=complex)
    s[0, 3:, 1:3] = field * np.eye(2)
    outputs = dict.fromkeys(("out0", "out1"), 3 / field)
    bias = Bias("soi220", "toy", 16, (), NONE, NONE, NONE, NONE.astype(int), {}, outputs)
    return Scattering(np.array([1550.0]), ("c", "in0", "in1", "out0", "out1"), s), board, bias


def test_the_rate_is_the_last_before_there_are_too_many_errors():
    chip = wires(0.003)
    rate = symbol_rate(*chip, TASK, PROCESS, 1e-5)
    tried = function_inputs(TASK)
    below, above = (
        gaussian_error_rate(chip[0], tried, *chip[1:], noise_of(PROCESS, None, at)) for at in (rate, PRECISION * rate)
    )
    assert below <= 1e-5 < above


def test_more_light_and_more_errors_allow_more():
    dim, bright = wires(0.001), wires(0.003)
    assert symbol_rate(*dim, TASK, PROCESS, 1e-5) < symbol_rate(*bright, TASK, PROCESS, 1e-5)
    assert symbol_rate(*dim, TASK, PROCESS, 1e-5) < symbol_rate(*dim, TASK, PROCESS, 1e-3)
    assert symbol_rate(*dim, TASK, PROCESS, 1e-5) < symbol_rate(*dim, TASK, PROCESS, 1e-5, laser_w=0.1)


def test_the_card_s_largest_rate_is_the_end():
    assert symbol_rate(*wires(1.0), TASK, PROCESS, 1e-5) == float(PROCESS.budget.symbol_rate_max_bd)


def test_a_dark_chip_has_no_rate():
    with pytest.raises(InputError, match="not reached at any rate; accept more, or use more light"):
        symbol_rate(*wires(1e-9), TASK, PROCESS, 1e-5)
