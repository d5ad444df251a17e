"""Symbol rate of a chip with known noise."""

from __future__ import annotations

import numpy as np
import pytest

from optinc_collective.interconnect.noise_limited_rate import max_symbol_rate
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import noise_choices
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import RATE_PRECISION, best_noise

PROCESS = load_process()
TASK = Averaging(4, 1, 2)
NONE = np.zeros(0)


def waveguides(field):
    """Two waveguides from one server to its receiver, with a field transmission."""
    board = Board("c", (), (), (("in0", "in1"),), (), (("out0", "out1"),))
    s = np.zeros((1, 5, 5), dtype=complex)
    s[0, 3:, 1:3] = field * np.eye(2)
    outputs = dict.fromkeys(("out0", "out1"), 3 / field)
    bias = Bias("soi220", "toy", 16, (), NONE, NONE, NONE, NONE.astype(int), {}, outputs)
    return Scattering(np.array([1550.0]), ("c", "in0", "in1", "out0", "out1"), s), board, bias


def test_the_rate_is_the_largest_with_an_acceptable_error_rate():
    chip = waveguides(0.03)
    rate = max_symbol_rate(*chip, TASK, PROCESS, 1e-5)
    margins = error_margins(chip[0], function_inputs(TASK), *chip[1:])
    below, above = (
        estimate_errors(margins, best_noise(margins, noise_choices(PROCESS, None, at_rate))).rate
        for at_rate in (rate, RATE_PRECISION * rate)
    )
    assert below <= 1e-5 < above


def test_the_rate_increases_with_light_and_with_the_accepted_error_rate():
    dim, bright = waveguides(0.01), waveguides(0.03)
    assert max_symbol_rate(*dim, TASK, PROCESS, 1e-5) < max_symbol_rate(*bright, TASK, PROCESS, 1e-5)
    assert max_symbol_rate(*dim, TASK, PROCESS, 1e-5) < max_symbol_rate(*dim, TASK, PROCESS, 1e-3)
    assert max_symbol_rate(*dim, TASK, PROCESS, 1e-5) < max_symbol_rate(*dim, TASK, PROCESS, 1e-5, laser_w=0.1)


def test_the_rate_is_limited_by_the_card():
    assert max_symbol_rate(*waveguides(1.0), TASK, PROCESS, 1e-5) == float(PROCESS.budget.symbol_rate_max_bd)


def test_a_chip_without_light_is_refused():
    with pytest.raises(InputError, match="word-error rate 1e-05"):
        max_symbol_rate(*waveguides(1e-9), TASK, PROCESS, 1e-5)
