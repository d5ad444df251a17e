"""Choice of the program and the placement of a comparator network by predicted tolerance and number of MZIs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import svd_mzis, unitary_mzis
from optinc_pdk.onn.closed_form.comparator_layers import Placement, compile_comparators
from optinc_pdk.onn.closed_form.comparator_programs import ProgramVariant, comparator_program
from optinc_pdk.onn.closed_form.tolerance_prediction import PredictedTolerance, predict_tolerance
from optinc_pdk.onn.optical_layers import optical_layers

LARGEST = 8
"""Networks of more than this multiple of the smallest one's MZIs are not evaluated."""
T = TypeVar("T")

BANKS = (3, 5, 7, 15, 31)
"""Largest banks that are tried; a floor of more steps is divided twice."""
SPLITS = (0, 1, 2)
"""Exponents of early splits that are tried."""
LIFTS = (0, 8, 12, 16, 24, 32, 48, 64)
"""Factors of lifted rows that are tried."""
REGENERATED = (1, 3, 7)
"""Largest peaks of regenerated signals that are tried."""
SPANS = (0, 40, 30, 20, 15, 12, 10, 8, 6, 5, 4)
"""Numbers of steps per analogue unit that are tried; 0 for one unit."""
EVALUATIONS = 1500
"""Number of networks after which the search stops; about 5 ms each for 8 bits."""
SIGMA_WEIGHT = 2.0
"""A field noise counts as much as a matrix error of this multiple: the ratio of the two at equal effort."""


@dataclass(frozen=True)
class Candidate:
    """A comparator network with its size and predicted tolerance.

    Attributes:
        variant: Choices of its program.
        placement: Choices of its layers.
        mzis: Number of MZIs by the convention of arXiv 2603.28290.
        layers: Number of its hidden layers.
        tolerance: Predicted largest errors.
    """

    variant: ProgramVariant
    placement: Placement
    mzis: int
    layers: int
    tolerance: PredictedTolerance

    @property
    def merit(self) -> float:
        """The smaller of the matrix error and the weighted field noise that it tolerates."""
        return min(self.tolerance.epsilon, SIGMA_WEIGHT * self.tolerance.sigma)


def choose(task: Averaging, gain: float, limit: int | None = None) -> Candidate:
    """Chooses a comparator network.

    Starts from programs with equal choices for all groups, and improves the best one by single changes, of a group's
    bank or split, of a layer's span, or of the regenerated peaks, until none helps or `EVALUATIONS` are spent.

    Args:
        task: The averaging task.
        gain: Slope of the comparators.
        limit: Largest number of MZIs; None for the network with the largest tolerance per MZI.

    Returns:
        The most tolerant network within the limit, or that with the largest tolerance per MZI.

    Raises:
        InputError: No network is within the limit.
    """
    search = _Search(task, limit)
    best = search.best(_uniform(task, gain))
    if best is None:
        if search.fault is not None and not search.sizes:
            raise search.fault
        smallest = f"has {min(search.sizes)} MZIs" if search.sizes else "is far larger"
        raise InputError(f"mzis = {limit}: the smallest network of comparators found for this task {smallest}")
    while search.left > 0:
        better = search.best(_changes(best, task))
        if better is None or search.score(better) <= search.score(best):
            break
        best = better
    return best


class _Search:
    """Evaluated choices of one task, and how they are compared."""

    def __init__(self, task: Averaging, limit: int | None) -> None:
        self.task, self.limit, self.left = task, limit, EVALUATIONS
        self.known: dict[tuple[ProgramVariant, Placement], Candidate | None] = {}
        self.sizes: list[int] = []
        self.fault: InputError | None = None

    def score(self, one: Candidate) -> float:
        """What is maximised: tolerance, per MZI if there is no limit."""
        return one.merit if self.limit is not None else one.merit / one.mzis

    def best(self, choices: Iterable[tuple[ProgramVariant, Placement]]) -> Candidate | None:
        """The best of some choices; None if all exceed the limit."""
        found = [one for choice in choices if (one := self.evaluate(*choice)) is not None]
        return max(found, key=self.score, default=None)

    def evaluate(self, variant: ProgramVariant, placement: Placement) -> Candidate | None:
        """A candidate; None if it exceeds the limit."""
        if (variant, placement) not in self.known:
            self.left -= 1
            self.known[variant, placement] = self._candidate(variant, placement)
        return self.known[variant, placement]

    def _candidate(self, variant: ProgramVariant, placement: Placement) -> Candidate | None:
        try:
            closed = compile_comparators(comparator_program(self.task, variant), self.task, placement)
        except InputError as fault:
            self.fault = fault
            return None
        limit = self.limit or LARGEST * min(self.sizes, default=10**9)
        if sum(unitary_mzis(layer.inputs) for layer in closed.layers) > limit:
            return None
        layers = optical_layers(closed.layers, self.task.input_maxima)
        mzis = sum(svd_mzis(*layer.matrix.shape) for layer in layers)
        self.sizes.append(mzis)
        if mzis > limit:
            return None
        tolerance = predict_tolerance(closed, self.task)
        return Candidate(variant, placement, mzis, len(closed.stages), tolerance)


def _uniform(task: Averaging, gain: float) -> Iterator[tuple[ProgramVariant, Placement]]:
    """Choices that are equal for all groups, or for all from some group on."""
    count = task.groups
    for bank in BANKS:
        banks = (bank,) * count
        for regenerate in REGENERATED:
            yield ProgramVariant(banks, (None,) * count), Placement(gain, regenerate)
        for split in SPLITS:
            for first in sorted({0, count // 2}):
                splits = (None,) * first + (split,) * (count - first)
                for regenerate in REGENERATED[:2]:
                    yield ProgramVariant(banks, splits), Placement(gain, regenerate)


def _changes(one: Candidate, task: Averaging) -> Iterator[tuple[ProgramVariant, Placement]]:
    """All choices that differ in one place."""
    variant, placement = one.variant, one.placement
    for k in range(task.groups):
        for bank in BANKS:
            yield replace(variant, banks=_changed(variant.banks, k, bank)), placement
        for split in (None, *SPLITS):
            yield replace(variant, splits=_changed(variant.splits, k, split)), placement
    spans = placement.spans + (0,) * (one.layers - len(placement.spans))
    for layer in range(one.layers):
        place = SPANS.index(spans[layer])
        for span in SPANS[max(place - 1, 0) : place + 3]:
            yield variant, replace(placement, spans=_changed(spans, layer, span))
    for lift in LIFTS:
        yield replace(variant, lift=lift), placement
    for span in SPANS:
        yield variant, replace(placement, spans=(span,) * one.layers)
    for regenerate in REGENERATED:
        yield variant, replace(placement, regenerate=regenerate)


def _changed(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])
