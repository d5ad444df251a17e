"""Plan of a DASO run: its phases, and the interval between exchanges as a function of the loss.

This module does not communicate. Source: arXiv 2104.05588.
"""

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

    The defaults of `skip`, `patience` and `threshold` are those of the authors' code, where the window is an epoch.

    Attributes:
        nodes: Number P of nodes.
        members: Number of ranks of a node; rank r is member r mod members of node ⌊r / members⌋.
        warm_up: Number of batches of the warm-up phase.
        cycling: Number of batches of the cycling phase; all later batches are cool-down.
        window: Number of batches over which the loss is averaged before it is compared with the best mean loss.
        skip: Number of batches from one global synchronisation to the next, at the start of cycling and after a reset.
        patience: Number of consecutive windows without improvement that are tolerated; one more is a plateau.
        threshold: Smallest relative decrease from the best mean loss that counts as an improvement, 0 <= threshold < 1.

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
        """Return the phase of a batch; batches are numbered from 0."""
        if batch < self.warm_up:
            return DasoPhase.WARM_UP
        return DasoPhase.CYCLING if batch < self.warm_up + self.cycling else DasoPhase.COOL_DOWN


@dataclass(frozen=True)
class DasoCycle:
    """State of the cycling phase: the current skip, and the loss history that determines the next one.

    Attributes:
        skip: Number of batches from one global synchronisation to the next.
        best: Mean loss of the last window that was an improvement; infinite before the first window.
        windows_without_improvement: Number of consecutive windows without improvement since then, or since the last
            change of the skip.
    """

    skip: int
    best: float = math.inf
    windows_without_improvement: int = 0

    @property
    def wait(self) -> int:
        """Number S of batches from sending to merging: a quarter of the skip, at least 1, as in the authors' code."""
        return max(1, self.skip // 4)


def update_cycle(cycle: DasoCycle, loss: float, plan: DasoPlan) -> DasoCycle:
    """Return the state of the cycling phase after a window of batches.

    On a plateau of the loss the skip is halved, or reset to ``plan.skip`` if it is 1 already.

    Args:
        cycle: State before the window.
        loss: Mean loss over the batches of the window and over all ranks.
        plan: Definition of a plateau: its `threshold` and `patience`.
    """
    if loss < cycle.best - plan.threshold * abs(cycle.best) or math.isinf(cycle.best):
        return replace(cycle, best=loss, windows_without_improvement=0)
    if cycle.windows_without_improvement < plan.patience:
        return replace(cycle, windows_without_improvement=cycle.windows_without_improvement + 1)
    return replace(cycle, skip=cycle.skip // 2 if cycle.skip > 1 else plan.skip, windows_without_improvement=0)
