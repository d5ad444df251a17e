"""Symbol rate of a chip as limited by noise and bandwidths: the largest with an acceptable word-error rate."""

from __future__ import annotations

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import rate_limits
from optinc_pdk.studies.error_estimate import error_margins
from optinc_pdk.studies.highest_rates import highest_rate
from optinc_pdk.validation import validate_arguments


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
    """Compute the largest symbol rate at which noise and bandwidths cause an acceptable word-error rate.

    Args:
        s: S-parameters of the chip.
        board: Connections between the chip's fibres outside the chip.
        bias: Settings of the electronics of the chip's neurons and receivers.
        task: Averaging task of the chip.
        process: Process card, with noise and budget.
        word_error_rate: Accepted word-error rate, 0 ... 1; it is estimated, see `optinc_pdk.studies.error_estimate`.
        laser_w: Optical power into every waveguide, W; that of the card by default.

    Returns:
        Symbol rate, Bd; that of the process if it is acceptable.

    Raises:
        InputError: The word-error rate is too high even at the lowest useful rate of the process.
    """
    margins = error_margins(s, function_inputs(task), board, bias)
    rate = highest_rate(margins, process, word_error_rate, laser_w)
    if rate is None:
        raise InputError(
            f"word-error rate {word_error_rate}: not reached at {rate_limits(process)[0]:g} Bd, the lowest useful "
            "rate; accept a higher one or use more light"
        )
    return rate
