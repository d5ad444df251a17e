"""How much of each kind of imperfection is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from optinc_pdk.cards import KINDS, Process, Variation
from optinc_pdk.files import InputError


@dataclass(frozen=True)
class Imperfections:
    """The imperfections of a process's card, each of them more or less.

    Attributes:
        card: Their distributions.
        amount: Kind to the factor of its spread; 1 is the card's, 0 is none, and kinds left out have none.

    Raises:
        InputError: There is no such kind, or an amount is negative or not finite.
    """

    card: Variation
    amount: Mapping[str, float]

    def __post_init__(self) -> None:
        """Refuses kinds and amounts that mean nothing."""
        for kind, amount in self.amount.items():
            _refuse_unknown(kind)
            if not 0.0 <= amount < math.inf:
                raise InputError(f"amount of {kind!r} is {amount}; give a factor of the card's, 0 or more")

    def of(self, kind: str) -> float:
        """The factor of one kind.

        Raises:
            InputError: There is no such kind.
        """
        _refuse_unknown(kind)
        return self.amount.get(kind, 0.0)

    def only(self, *kinds: str) -> Imperfections:
        """These kinds, and none of the others.

        Raises:
            InputError: There is no such kind.
        """
        return replace(self, amount={kind: self.of(kind) for kind in kinds})

    def without(self, *kinds: str) -> Imperfections:
        """All but these kinds.

        Raises:
            InputError: There is no such kind.
        """
        return replace(self, amount={**self.amount, **dict.fromkeys(kinds, 0.0)})

    def scaled(self, kind: str, factor: float) -> Imperfections:
        """With a multiple of one kind's amount.

        Raises:
            InputError: There is no such kind, or the factor is negative or not finite.
        """
        return replace(self, amount={**self.amount, kind: factor * self.of(kind)})

    @property
    def effective_bits(self) -> float | None:
        """Effective bits of the drive, whose steps the amount multiplies; None where voltages are not rounded."""
        amount = self.of("dac")
        return float(self.card.dac.effective_bits) - math.log2(amount) if amount else None


def imperfections(process: Process) -> Imperfections:
    """All imperfections of a process, as its card has them.

    Raises:
        InputError: The card has none.
    """
    if process.imperfections is None:
        raise InputError(f"process {process.name!r} has no 'imperfections' in its card; add the section")
    return Imperfections(process.imperfections, dict.fromkeys(KINDS, 1.0))


def _refuse_unknown(kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"there is no imperfection {kind!r}; kinds are {', '.join(KINDS)}")
