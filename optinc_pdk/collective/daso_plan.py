"""When DASO synchronises: its phases, and a skip that follows the loss. Plain numbers, no communication."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_fields


class Phase(Enum):
    """What global synchronisation does: it blocks at every batch, or runs beside the next ones."""

    WARM_UP = "warm-up"
    CYCLING = "cycling"
    COOL_DOWN = "cool-down"


@dataclass(frozen=True)
class Plan:
    """A run of DASO: the grid of ranks, the phases, and what counts as a plateau of the loss.

    The last three numbers' defaults are those of the authors' code, with an epoch for a window.

    Attributes:
        nodes: P, number of nodes.
        members: Ranks of a node; rank r is member r mod members of node ⌊r / members⌋.
        warm_up: Batches of the first phase.
        cycling: Batches of the second phase; all later ones are cool-down.
        window: Batches whose mean loss is one reading.
        skip: Batches from one global synchronisation to the next, at the start of cycling and after every reset.
        patience: Readings in a row without improvement that are still no plateau.
        threshold: The part of the best reading by which a better one improves on it.
    """

    nodes: int
    members: int
    warm_up: int
    cycling: int
    window: int
    skip: int = 4
    patience: int = 2
    threshold: float = 0.05

    def __post_init__(self) -> None:
        validate_fields(self)
        counts = {"nodes": 1, "members": 1, "warm_up": 0, "cycling": 0, "window": 1, "skip": 1, "patience": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise InputError(f"DASO: {name} is {getattr(self, name)}; give at least {least}")
        if not 0 <= self.threshold < 1:
            raise InputError(f"DASO: threshold is {self.threshold}; give a number from 0 to below 1")

    def phase(self, batch: int) -> Phase:
        """The phase of a batch, counted from 0."""
        if batch < self.warm_up:
            return Phase.WARM_UP
        return Phase.CYCLING if batch < self.warm_up + self.cycling else Phase.COOL_DOWN


@dataclass(frozen=True)
class Cycle:
    """The state of the cycling phase.

    Attributes:
        skip: Batches from one global synchronisation to the next.
        best: The lowest reading of the loss that counted as an improvement.
        stale: Readings in a row since then.
    """

    skip: int
    best: float = math.inf
    stale: int = 0

    @property
    def wait(self) -> int:
        """S, batches from sending to merging what arrived: a quarter of the skip, as in the authors' code."""
        return max(1, self.skip // 4)


def after_reading(cycle: Cycle, loss: float, plan: Plan) -> Cycle:
    """The state after a reading of the loss: on a plateau the skip is halved, and where it is one already, reset."""
    if loss < cycle.best - plan.threshold * abs(cycle.best) or math.isinf(cycle.best):
        return replace(cycle, best=loss, stale=0)
    if cycle.stale < plan.patience:
        return replace(cycle, stale=cycle.stale + 1)
    return replace(cycle, skip=cycle.skip // 2 if cycle.skip > 1 else plan.skip, stale=0)
