"""Exact networks of comparators: the default closed form, with units that clip at 0 and 1 and share detectors.

`comparator_layers` describes the units, `comparator_programs` the arithmetic, `comparator_search` the choice of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form.comparator_layers import GAIN, Placement, compile_comparators
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant, comparator_program
from optinc_pdk.networks.closed_form.comparator_search import Candidate, Goal, choose
from optinc_pdk.networks.closed_form.program import IntegerProgram
from optinc_pdk.networks.closed_form.stage import ClosedForm, same_layers, unit_functions
from optinc_pdk.networks.network import AveragingNetwork

RECIPE = "comparators"
MAX_GAIN = 1e6
"""Largest slope: a limit of this program, far above what electronics reach."""


def comparator_network(
    task: Averaging,
    mzis: int | None = None,
    gain: float = GAIN,
    progress: Callable[[int], None] | None = None,
    goal: Goal = "size",
) -> AveragingNetwork:
    """Builds an exact network of comparators; for 4 bits and 4 servers it has 18 MZIs.

    Of many programs and placements, it takes the one with the largest predicted tolerance of matrix errors and field
    noise per MZI, or the most tolerant one within a limit. The choice is deterministic, and part of the card.

    Args:
        task: Any averaging task, including those of a cascade.
        mzis: Largest number of MZIs as `AveragingNetwork.mzis` counts them, of distinct rows and independent parts.
            None for the network with the largest tolerance per MZI.
        gain: Slope of the comparators per step of their signals, at least 1: they remove errors below
            (gain - 1) / 2 gain of a step.
        progress: Called with the number of networks tried so far, before each one.
        goal: "size", or "noise" for the largest predicted σ*, within the limit or up to eight times the MZIs of the
            smallest network.

    Returns:
        The network, with the activation "clipped_relu"; its margin is 0.5 and its last layer has no bias.

    Raises:
        ValueError: `gain` is not a number from 1 to `MAX_GAIN`, or `mzis` is below 1.
        InputError: No network is within the limit, or a layer would have more than
            `optinc_pdk.networks.closed_form.stage.MAX_UNITS` units.
    """
    check_choices(mzis, gain)
    return candidate_network(task, choose(task, float(gain), mzis, progress, goal))


def check_choices(mzis: int | None, gain: float) -> None:
    """Check the limit of MZIs and the slope of the comparators.

    Raises:
        ValueError: As for :func:`comparator_network`.
    """
    if not 1.0 <= gain <= MAX_GAIN:
        raise ValueError(f"gain = {gain} must be a number from 1 to {MAX_GAIN:,.0f}; 8 is usual")
    if mzis is not None and mzis < 1:
        raise ValueError(f"mzis = {mzis} must be at least 1")


def candidate_network(task: Averaging, chosen: Candidate) -> AveragingNetwork:
    """Builds the network of a candidate, with a card that names its choices.

    Args:
        task: The averaging task of the candidate.
        chosen: The candidate.
    """
    variant, placement = chosen.variant, chosen.placement
    card: dict[str, Any] = {
        "recipe": RECIPE,
        "gain": placement.gain,
        "banks": list(variant.banks),
        "splits": list(variant.splits),
        "lift": variant.lift,
        "regenerate": placement.regenerate,
        "spans": list(placement.spans),
    }
    if variant.finish:
        card["finish"] = True
    if any(placement.bits):
        card["bits"] = list(placement.bits)
    closed = compile_comparators(comparator_program(task, variant), task, placement)
    return AveragingNetwork(closed.layers, task, card=card, activation="clipped_relu")


def card_program(task: Averaging, card: dict[str, Any]) -> IntegerProgram:
    """Returns the integer program of the comparator network that a card describes.

    Raises:
        ValueError: The card does not describe a comparator network of the task.
    """
    return comparator_program(task, _choices(card)[0])


def card_form(task: Averaging, card: dict[str, Any]) -> ClosedForm:
    """Returns the stages of the comparator network that a card describes.

    Raises:
        ValueError: The card does not describe a comparator network of the task.
    """
    variant, placement = _choices(card)
    return compile_comparators(comparator_program(task, variant), task, placement)


def _choices(card: dict[str, Any]) -> tuple[ProgramVariant, Placement]:
    if card.get("recipe") != RECIPE:
        raise ValueError("the network's card names no network of comparators; use a result of comparator_network")
    gain, regenerate, lift = card.get("gain"), card.get("regenerate"), card.get("lift")
    finish = card.get("finish", False)
    lists = {name: card.get(name) for name in ("banks", "splits", "spans")} | {"bits": card.get("bits", [])}
    whole = all(isinstance(value, int) and value >= 0 for value in (regenerate, lift)) and all(
        isinstance(values, list) and all(isinstance(v, int) or (v is None and name == "splits") for v in values)
        for name, values in lists.items()
    )
    if not whole or not isinstance(finish, bool) or not isinstance(gain, int | float) or not 1.0 <= gain <= MAX_GAIN:
        raise ValueError("the network's card has a damaged description of its comparators; use an unchanged network")
    banks, splits, spans, bits = (tuple(values or ()) for values in lists.values())
    variant = ProgramVariant(banks, splits, int(str(lift)), finish)
    return variant, Placement(float(gain), int(str(regenerate)), spans, bits)


def saturation_margins(onn: AveragingNetwork) -> tuple[Floats, ...]:
    """Computes how far the comparators of a network are from the linear part of their characteristic.

    Args:
        onn: Unchanged result of `comparator_network`.

    Returns:
        For each hidden layer a (units,) array: the largest m ≥ 0 such that the ideal pre-activation z of the unit is at
        most -m or at least 1 + m for every value of the signal that it reads, and so for every lattice point. NaN for
        analogue units.

    Raises:
        ValueError: The network is not the comparator network that its card names.
    """
    closed = card_form(onn.task, onn.card)
    if not same_layers(onn.layers, closed.layers) or onn.activation != "clipped_relu":
        raise ValueError("the network is not the comparator network that its card names; use an unchanged network")
    margins = []
    for stage in closed.stages:
        _, before = unit_functions(stage)
        margin = np.array([float(np.maximum(-z, z - 1.0).min()) for z in before])
        margins.append(margin if stage.comparators is None else np.where(stage.comparators, margin, np.nan))
    return tuple(margins)
