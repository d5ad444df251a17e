"""Points of a drift run: what one chip computes at one time of a scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

import numpy as np

from optinc_pdk.studies.outcomes import Outcome


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


def check_steps(steps: int, checks: int) -> set[int]:
    """Return the numbers of the steps at which a chip is checked: the start, 0, and at most ``checks`` others."""
    return set(np.rint(np.linspace(0, steps, min(checks, steps) + 1)).astype(int).tolist())
