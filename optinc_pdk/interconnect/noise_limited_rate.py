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
def symbol_rate(
    s: Scattering,
    board: Board,
    bias: Bias,
    task: Averaging,
    process: Process,
    word_error_rate: float,
    laser_w: float | None = None,
) -> float:
    """Largest symbol rate, in Bd, at which the estimated word-error rate is acceptable.

    Args:
        s: S-parameters of the chip.
        board: Connections between its fibres outside the chip.
        bias: Settings of the electronics of its neurons and receivers.
        task: Averaging task of the chip.
        process: Process card, with noise and budget.
        word_error_rate: Accepted word-error rate.
        laser_w: Optical power into every waveguide, W; that of the card by default.

    Raises:
        InputError: The word-error rate is higher at every rate from 1 Bd to the card's maximum, or 1 TBd without one.
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
