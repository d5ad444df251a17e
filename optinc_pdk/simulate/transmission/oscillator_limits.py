"""Limits on the optical power in the fibres that lead to local oscillators of neurons."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.simulate.transmission.noise import LEAST_W


def check_oscillator_power(process: Process, laser_w: float | None, oscillator_power: float) -> float:
    """Return the power in each fibre that leads to local oscillators, in W, after checking it.

    Args:
        process: Process of the cards, which states the largest power of a guide.
        laser_w: Power of a field of amplitude 1, in W; by default the card's.
        oscillator_power: Power in such a fibre relative to it.

    Raises:
        InputError: The process has no noise or no budget section, or the power is more than a guide may carry.
    """
    if process.noise is None or process.budget is None:
        raise InputError(
            f"process {process.name!r} has no 'noise' or no 'budget' in its process.yml: add them, or take a process "
            "that has both"
        )
    laser = float(process.budget.laser_w) if laser_w is None else laser_w
    power, most = oscillator_power * laser, float(process.noise.laser_max_w)
    # a ratio of powers may be rounded up
    if not LEAST_W <= power <= most * (1.0 + 1e-9):
        raise InputError(
            f"power {power:g} W in the fibres of the local oscillators must be at least {LEAST_W:g} and at most "
            f"{most:g} W, the limit of noise.laser_max_w in process.yml; give such a power (--oscillator-w)"
        )
    return power


def relative_oscillator_power(process: Process, laser_w: float | None, oscillator_w: float) -> float:
    """Return the power in the fibres that lead to local oscillators, relative to that of a field of amplitude 1.

    Args:
        process: Process of the cards.
        laser_w: Power of a field of amplitude 1, in W; by default the card's.
        oscillator_w: Power in each of these fibres, in W.

    Raises:
        InputError: As for :func:`check_oscillator_power`.
    """
    laser = check_oscillator_power(process, laser_w, 1.0)
    ratio = oscillator_w / laser
    check_oscillator_power(process, laser_w, ratio)
    return ratio
