"""Options that choose imperfections: their kinds, and multiples of the card's amounts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.cards import Process

MAX_FACTOR = 1000.0
"""Largest multiple of a card's imperfection; larger losses overflow."""


def sampled_amounts(
    process: Process, only: list[str], scales: list[str], dac_bits: float | None, noise: bool
) -> dict[str, float]:
    """The multiple of the card's amount to sample, by kind of imperfection.

    Args:
        process: Process card.
        only: Kinds given with ``--imperfection``; empty for all.
        scales: ``KIND=FACTOR``, as given with ``--scale``.
        dac_bits: Effective bits of the drive; None for the card's.
        noise: Whether the noise of lasers and detectors is sampled.

    Raises:
        InputError: An unknown kind, a kind that is not sampled, or a number out of range.
    """
    from optinc_pdk.cards import KINDS
    from optinc_pdk.drive import MAX_DAC_BITS
    from optinc_pdk.studies.montecarlo.study import NOISE_KINDS
    from optinc_pdk.studies.variation.sampled_response import MIN_EFFECTIVE_BITS
    from optinc_pdk.studies.variation.sampling import imperfections

    amounts = dict.fromkeys(only or [kind for kind in KINDS if noise or kind not in NOISE_KINDS], 1.0)
    factors = [(text, *text.partition("=")[::2]) for text in scales]
    given = [(f"--imperfection {kind}", kind) for kind in only]
    for option, kind in [*given, *((f"--scale {text}", kind) for text, kind, _ in factors)]:
        if kind not in KINDS:
            raise InputError(f"{option}: {kind!r} is no kind of imperfection; give one of {', '.join(KINDS)}")
        if kind in NOISE_KINDS and not noise:
            raise InputError(f"the imperfection {kind!r} is noise: add --noise, or leave it out")
    if dac_bits is not None:
        if not MIN_EFFECTIVE_BITS <= dac_bits <= MAX_DAC_BITS:
            raise InputError(
                f"--dac-bits {dac_bits}: give {MIN_EFFECTIVE_BITS:g} to {MAX_DAC_BITS} effective bits, such as 8.5"
            )
        if "dac" not in amounts:
            raise InputError(f"--dac-bits {dac_bits}: 'dac' is not among the kinds given with --imperfection; add it")
        amounts["dac"] = 2.0 ** (float(imperfections(process).card.dac.effective_bits) - dac_bits)
    for text, kind, factor in factors:
        if kind not in amounts:
            raise InputError(f"--scale {text}: {kind!r} is not among the kinds given with --imperfection; add it")
        amounts[kind] *= _factor(text, factor)
    return amounts


def _factor(text: str, number: str) -> float:
    """Parse the factor of ``--scale text``."""
    try:
        factor = float(number)
    except ValueError:
        factor = math.nan
    if not 0.0 <= factor <= MAX_FACTOR:
        raise InputError(
            f"--scale {text}: give KIND=FACTOR with a factor from 0 to {MAX_FACTOR:,.0f}, such as coupler=0.5"
        )
    return factor
