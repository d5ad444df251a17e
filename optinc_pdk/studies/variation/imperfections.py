"""Selection and scaling of the kinds of imperfections that a study includes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optinc_pdk.cards import KINDS, Process, Variation
from optinc_pdk.errors import InputError


@dataclass(frozen=True)
class Imperfections:
    """The imperfections of a process card with a scaling factor for each kind.

    Attributes:
        card: Distributions of all kinds.
        amount: Factor on the card's spread by kind: 1 is the card's spread, 0 switches the kind off. Kinds that are
            missing are switched off.

    Raises:
        InputError: A kind is unknown, or an amount is negative or not finite.
    """

    card: Variation
    amount: Mapping[str, float]

    def __post_init__(self) -> None:
        """Validate kinds and amounts."""
        for kind, amount in self.amount.items():
            _refuse_unknown(kind)
            if not 0.0 <= amount < math.inf:
                raise InputError(f"amount of {kind!r} is {amount}; give a factor of the card's, 0 or more")

    def of(self, kind: str) -> float:
        """Return the factor on the card's spread for one kind of imperfection; 0 if it is switched off.

        Raises:
            InputError: The kind is unknown.
        """
        _refuse_unknown(kind)
        return self.amount.get(kind, 0.0)

    def only(self, *kinds: str) -> Imperfections:
        """Return a copy with the given kinds only; all others are switched off.

        Raises:
            InputError: A kind is unknown.
        """
        return replace(self, amount={kind: self.of(kind) for kind in kinds})

    def without(self, *kinds: str) -> Imperfections:
        """Return a copy in which the given kinds are switched off.

        Raises:
            InputError: A kind is unknown.
        """
        return replace(self, amount={**self.amount, **dict.fromkeys(kinds, 0.0)})

    def scaled(self, kind: str, factor: float) -> Imperfections:
        """Return a copy in which the amount of one kind is multiplied by a factor.

        Raises:
            InputError: The kind is unknown, or the factor is negative or not finite.
        """
        return replace(self, amount={**self.amount, kind: factor * self.of(kind)})

    @property
    def effective_bits(self) -> float | None:
        """Effective bits of the drive's DACs; None if voltages are not rounded.

        The factor of the DAC's imperfection multiplies its step.
        """
        amount = self.of("dac")
        return float(self.card.dac.effective_bits) - math.log2(amount) if amount else None


def imperfections(process: Process) -> Imperfections:
    """Return all imperfections of a process, each with factor 1.

    Raises:
        InputError: The process card has no imperfections.
    """
    if process.imperfections is None:
        raise InputError(f"process {process.name!r} has no 'imperfections' in its card; add the section")
    return Imperfections(process.imperfections, dict.fromkeys(KINDS, 1.0))


def _refuse_unknown(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"there is no imperfection {kind!r}; kinds are {', '.join(KINDS)}")
