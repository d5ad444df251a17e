"""When DASO synchronises: its phases, and the skip as a function of the loss. No communication takes place here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_fields


class DasoPhase(Enum):
    """Phase of a DASO run.

    Global synchronisation blocks at every batch in warm-up and cool-down, and is asynchronous in cycling.
    """

    WARM_UP = "warm-up"
    CYCLING = "cycling"
    COOL_DOWN = "cool-down"


@dataclass(frozen=True)
class DasoPlan:
    """Settings of a DASO run: the grid of ranks, the phases, and the definition of a plateau of the loss.

    The defaults of the last three are those of the authors' code, where the window is an epoch.

    Attributes:
        nodes: P, number of nodes.
        members: Number of ranks of a node; rank r is member r mod members of node ⌊r / members⌋.
        warm_up: Number of batches of the first phase.
        cycling: Number of batches of the second phase; all later batches are cool-down.
        window: Number of batches over which the loss is averaged before it is compared.
        skip: Batches from one global synchronisation to the next, at the start of cycling and after every reset.
        patience: Number of consecutive windows without improvement that do not count as a plateau yet.
        threshold: Relative decrease from the best mean loss that counts as an improvement, 0 <= threshold < 1.

    Raises:
        InputError: A value is out of range or of the wrong type.
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

    def phase(self, batch: int) -> DasoPhase:
        """Phase of a batch; batches are counted from 0."""
        if batch < self.warm_up:
            return DasoPhase.WARM_UP
        return DasoPhase.CYCLING if batch < self.warm_up + self.cycling else DasoPhase.COOL_DOWN


@dataclass(frozen=True)
class DasoCycle:
    """State of the cycling phase.

    Attributes:
        skip: Batches from one global synchronisation to the next.
        best: Lowest mean loss that counted as an improvement.
        stale: Number of consecutive windows since then.
    """

    skip: int
    best: float = math.inf
    windows_without_improvement: int = 0

    @property
    def wait(self) -> int:
        """S, number of batches from sending to merging: a quarter of the skip, at least 1, as in the authors' code."""
        return max(1, self.skip // 4)


def update_cycle(cycle: DasoCycle, loss: float, plan: DasoPlan) -> DasoCycle:
    """State after a window with a mean loss: on a plateau the skip is halved, or reset if it is 1 already."""
    if loss < cycle.best - plan.threshold * abs(cycle.best) or math.isinf(cycle.best):
        return replace(cycle, best=loss, windows_without_improvement=0)
    if cycle.windows_without_improvement < plan.patience:
        return replace(cycle, windows_without_improvement=cycle.windows_without_improvement + 1)
    return replace(cycle, skip=cycle.skip // 2 if cycle.skip > 1 else plan.skip, windows_without_improvement=0)
