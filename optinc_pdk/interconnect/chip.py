"""Symbol rate of a chip from its light: the fastest at which noise leaves its words right."""

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

PRECISION = 1.02
"""Ratio of two rates that are not told apart."""


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
    """The largest symbol rate, in Bd, at which so few words are estimated to be read wrong.

    Args:
        s: S-parameters of the chip.
        board: What joins its fibres outside.
        bias: Electronics of its neurons and receivers.
        task: What the chip computes.
        process: Process of the cards, with noise and budget.
        word_error_rate: Share of wrong words that is accepted.
        laser_w: Light into every guide; the card's where left out.

    Raises:
        InputError: No rate between 1 Bd and 1 TBd, or the card's largest, has so few errors.
    """
    tried = function_inputs(task)
    budget = process.budget
    most = 1e12 if budget is None or budget.symbol_rate_max_bd is None else float(budget.symbol_rate_max_bd)
    low, high = 1.0, most

    def errors(rate: float) -> float:
        return gaussian_error_rate(s, tried, board, bias, noise_of(process, laser_w, rate))

    if errors(low) > word_error_rate:
        raise InputError(f"word-error rate {word_error_rate}: not reached at any rate; accept more, or use more light")
    if errors(high) <= word_error_rate:
        return high
    while high > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if errors(middle) <= word_error_rate else (low, middle)
    return low
