"""Scenarios of drift: a random walk of every heater's resistance, or a change of the temperature of the whole chip.

A chip is checked at some times of a scenario, with and without correction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import KINDS
from optinc_pdk.errors import InputError
from optinc_pdk.studies.outcomes import Outcome
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampling import ChipSample, Imperfections, drifted_sample

WALK_STEPS = 50
"""Tracking steps of a scenario with a random walk."""
KELVIN_PER_STEP = 0.01
"""Change of the temperature between two tracking steps: guides whose lengths differ by 1 mm turn by 7.5 mrad."""
DRIFT_STREAM = 1000
"""Random stream of the walk; those of the imperfections are their positions in the list of kinds."""
MAX_HOURS = 1e6


@dataclass(frozen=True)
class DriftScenario:
    """What changes while a chip is in service.

    Attributes:
        name: Name in files and tables.
        walk: Multiple of the card's random walk of the resistances.
        kelvin: Change of the chip's temperature over the whole time, at a constant rate.
    """

    name: str
    walk: float
    kelvin: float

    @property
    def steps(self) -> int:
        """Number of tracking steps."""
        return max(WALK_STEPS if self.walk else 1, math.ceil(round(abs(self.kelvin) / KELVIN_PER_STEP, 6)))


SCENARIOS = (DriftScenario("walk", 1.0, 0.0), DriftScenario("walk x10", 10.0, 0.0), DriftScenario("10 K", 0.0, 10.0))
"""The card's random walk, ten times that, and a temperature that changes by 10 K."""


def changes(walk: float, kelvin: float) -> str:
    """Return what changes in a scenario as text: a multiple of the card's walk, or the temperature in K."""
    parts = []
    if walk:
        times = "" if walk == 1.0 else f"{walk:g} times "
        parts.append(f"the resistance of every heater walks at random, {times}as far as the process card states")
    if kelvin:
        way = "rises" if kelvin > 0.0 else "falls"
        parts.append(f"the temperature of the whole chip {way} by {abs(kelvin):g} K at a constant rate")
    return "; ".join(parts) or "nothing changes"


def check_hours(hours: float) -> None:
    """Check a time in hours.

    Raises:
        InputError: It is not above 0, or above ``MAX_HOURS``.
    """
    if not 0.0 < hours <= MAX_HOURS:
        raise InputError(f"--drift {hours:g}: give a time in hours, above 0 and up to {MAX_HOURS:,.0f}")


def resistance_walk(
    chip: NominalChip, imperfections: Imperfections, seed: int, hours: float, steps: int, multiple: float = 1.0
) -> Floats:
    """Draw a random walk of all heater resistances of a sample: (steps, H) factors after each of some equal steps.

    The logarithm of every resistance walks on its own. Its standard deviation grows with the square root of time, and
    is the card's ``drift_spread`` after ``drift_h`` hours, times the factor of the heaters' imperfections and
    ``multiple``. The walk has its own random stream: other imperfections of the sample do not depend on it.

    Raises:
        InputError: The time or the number of steps is not positive.
    """
    check_hours(hours)
    if steps < 1:
        raise InputError(f"steps is {steps}; give 1 or more")
    card = imperfections.card.heater
    spread = multiple * imperfections.of("heater") * float(card.drift_spread)
    spread *= math.sqrt(hours / steps / float(card.drift_h))
    generator = np.random.default_rng([seed, len(KINDS) + DRIFT_STREAM])
    normal = generator.standard_normal((steps, chip.structure.heater.size))
    return np.asarray(np.exp(spread * np.cumsum(normal, axis=0)))


def samples_in_time(
    chip: NominalChip,
    sample: ChipSample,
    imperfections: Imperfections,
    scenario: DriftScenario,
    hours: float,
) -> list[ChipSample]:
    """Return a sample, as calibrated, after each tracking step of a scenario; its seed seeds the walk.

    Raises:
        InputError: The time is not positive, or the card has no temperature coefficient.
    """
    steps = scenario.steps
    walk = resistance_walk(chip, imperfections, sample.seed, hours, steps, scenario.walk)
    kelvin = scenario.kelvin * np.arange(1, steps + 1) / steps
    return [drifted_sample(chip, sample, row, change) for row, change in zip(walk, kelvin.tolist(), strict=True)]


@dataclass(frozen=True)
class DriftPoint(Generic[Outcome]):
    """What one chip computes at one time of a scenario.

    Attributes:
        sample: Index of the sample.
        scenario: Name of the scenario.
        tracked: Whether the chip is tracked, or calibrated again.
        share: Share of the scenario's time that has passed, 0 … 1.
        outcome: What the chip computes, with the noise of the study. A chip that is tracked by pilot words has one
            point at a time, the worse one of those before and after the correction; one that is calibrated again has
            both.
    """

    sample: int
    scenario: str
    tracked: bool
    share: float
    outcome: Outcome


def outcomes_in_time(
    states: Sequence[ChipSample],
    checks: int,
    computed: Callable[[ChipSample, int], Outcome],
    correct: Callable[[ChipSample, int], None] | None,
    every_step: bool,
) -> Iterator[tuple[float, list[Outcome]]]:
    """Yield, at up to ``checks`` times after the start, the share of the time that has passed and what a chip computes.

    Args:
        states: The chip after each step.
        checks: Number of times.
        computed: Returns what the chip computes at a step.
        correct: Corrects the chip at a step; what it computes is then yielded before and after it. None for never.
        every_step: Whether the chip is corrected at every step, and not only when it is checked.
    """
    checked = set(np.rint(np.linspace(0, len(states), min(checks, len(states)) + 1)).astype(int).tolist())
    for step, state in enumerate(states, start=1):
        found = [computed(state, step)] if step in checked else []
        if correct is not None and (every_step or found):
            correct(state, step)
            found += [computed(state, step)] if found else []
        if found:
            yield step / len(states), found
