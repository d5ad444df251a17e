"""Symbol rate of a chip as limited by receiver noise: the largest rate with an acceptable word-error rate."""

from __future__ import annotations

import math

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.tolerance.error_rates import gaussian_error_rate
from optinc_pdk.validation import validate_arguments

RATE_PRECISION = 1.02
"""Ratio of two rates below which the bisection stops."""


@validate_arguments
def max_symbol_rate(
    s: Scattering,
    board: Board,
    bias: Bias,
    task: Averaging,
    process: Process,
    word_error_rate: float,
    laser_w: float | None = None,
) -> float:
    """Compute the largest symbol rate at which receiver noise causes an acceptable word-error rate.

    The word-error rate is estimated with `gaussian_error_rate`. The symbol rate is found by bisection between 1 Bd and
    the maximum rate of the card (1 TBd if it has none), to a relative precision of `RATE_PRECISION` − 1.

    Args:
        s: S-parameters of the chip.
        board: Connections between the chip's fibres outside the chip.
        bias: Settings of the electronics of the chip's neurons and receivers.
        task: Averaging task of the chip.
        process: Process card, with noise and budget.
        word_error_rate: Accepted word-error rate, 0 ... 1.
        laser_w: Optical power into every waveguide, W; that of the card by default.

    Returns:
        Symbol rate, Bd; the maximum if it is acceptable.

    Raises:
        InputError: The word-error rate is too high even at 1 Bd.
    """
    inputs = function_inputs(task)
    budget = process.budget
    maximum = 1e12 if budget is None or budget.symbol_rate_max_bd is None else float(budget.symbol_rate_max_bd)
    low, high = 1.0, maximum

    def errors(rate: float) -> float:
        return gaussian_error_rate(s, inputs, board, bias, noise_of(process, laser_w, rate))

    if errors(low) > word_error_rate:
        raise InputError(
            f"word-error rate {word_error_rate}: not reached at any rate; accept a higher one or use more light"
        )
    if errors(high) <= word_error_rate:
        return high
    while high > RATE_PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if errors(middle) <= word_error_rate else (low, middle)
    return low
