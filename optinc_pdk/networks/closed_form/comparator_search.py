"""Choice of a comparator network by predicted tolerance and number of MZIs.

Until a bit is wrong, errors spread linearly, and through analogue units only: a comparator removes them. The error of
every row of every layer is then a sum of independent normal terms, one for each row of this and of earlier layers, and
a word is wrong if the error of a row exceeds the distance to the nearest threshold of a comparator, or to a decision
threshold of an output. The sum of these probabilities bounds the word-error rate from above.

Matrix errors ε and field noise σ are defined as in `optinc_pdk.networks.error_tolerance`: a row's error has the
standard deviation ε |x| / √n for the n signals x of the layer below, or σ, times the 2-norm of the layer's matrix,
whose rows have norm 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant, comparator_program
from optinc_pdk.networks.closed_form.comparators import GAIN, MAX_GAIN, RECIPE, Placement, compile_comparators
from optinc_pdk.networks.closed_form.stage import ClosedForm, Stage
from optinc_pdk.networks.layers import Layer
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.normalisation import NormalisedNetwork, OpticalLayer, optical_layers

MATRIX_ERROR_WORDS = 1e-3
"""Fraction of wrong words at the largest tolerated matrix error."""
NOISE_WORDS = 1e-6
"""Word-error rate at the largest tolerated field noise."""
TINY = 1e-30
"""Smallest variance, so that the distances of words without signals can be divided by it."""
BISECTIONS = 14
"""Halvings of the logarithmic range: the result is within 0.1 %."""
RANGE = (1e-7, 1.0)
"""Smallest and largest error that is considered."""


@dataclass(frozen=True)
class PredictedTolerance:
    """Predicted largest errors.

    Attributes:
        epsilon: Matrix error at which 99.9 % of the words are exact.
        sigma: Field noise at which one word in 10^6 is wrong.
        margin: Smallest distance of a detected field from a threshold without errors, in the units of the field noise.
    """

    epsilon: float
    sigma: float
    margin: float


def comparator_optics(closed: ClosedForm, task: Averaging, swing: float = 1.0) -> tuple[OpticalLayer, ...]:
    """Return the layers of a network of comparators as optics and electronics, for inputs and bits of 0 to 1.

    Analogue signals are sent with amplitudes up to ``swing``.
    """
    below, layers = task.input_maxima, []
    for index, layer in enumerate(closed.layers):
        above = np.ones(layer.outputs)
        if index < len(closed.stages) and (bits := closed.stages[index].comparators) is not None:
            above = np.where(bits, 1.0, swing)
        layers.append(Layer(above[:, np.newaxis] * layer.weight * below, above * layer.bias))
        below = 1.0 / above
    return optical_layers(NormalisedNetwork(tuple(layers), (task.input_maxima,), (), task, "clipped_relu"))


def predict_tolerance(
    closed: ClosedForm, task: Averaging, points: int = 200, seed: int = 0, swing: float = 1.0
) -> PredictedTolerance:
    """Predict the largest matrix error and field noise of a comparator network of a task, at random lattice points.

    Analogue signals are sent with amplitudes up to ``swing``.
    """
    signals = task.sample(points, np.random.default_rng(seed)) / task.input_maxima
    layers = comparator_optics(closed, task, swing)
    power: list[Floats] = []
    # For each layer so far, the effect (rows of it, inputs of this layer) of its rows' errors.
    effects: list[Floats] = []
    events: list[tuple[Floats, Floats]] = []
    margin = np.inf
    for index, layer in enumerate(layers):
        power.append((signals**2).sum(axis=1) / layer.matrix.shape[1])
        effects = [effect @ layer.matrix.T for effect in effects] + [layer.norm * np.eye(len(layer.matrix))]
        before = (signals @ layer.matrix.T)[:, layer.row] * layer.gain + layer.bias
        if index < len(closed.stages):
            comparators = closed.stages[index].comparators
            if comparators is None:
                raise ValueError("the network has stages without comparators; predict comparator networks only")
            distance = np.where(comparators, np.abs(before - 0.5), np.inf) / layer.gain
        else:
            comparators = np.zeros(layer.row.size, dtype=np.bool_)
            distance = np.broadcast_to(0.5 / task.output_resolution, before.shape) / layer.gain
        nearest = np.full((points, len(layer.matrix)), np.inf)
        for unit, row in enumerate(layer.row.tolist()):
            np.minimum(nearest[:, row], distance[:, unit], out=nearest[:, row])
        margin = min(margin, float(nearest.min()) / layer.norm)
        events.append((nearest, np.array([(effect**2).sum(axis=0) for effect in effects])))
        effects = [effect[:, layer.row] * (layer.gain * ~comparators) for effect in effects]
        signals = np.clip(before, 0.0, 1.0)
    variance = np.array(power)
    # Distance to the nearest threshold in standard deviations, at an error of 1.
    matrix = [nearest / np.sqrt(variance[: len(squares)].T @ squares + TINY) for nearest, squares in events]
    noise = [nearest / np.sqrt(squares.sum(axis=0)) for nearest, squares in events]
    return PredictedTolerance(
        _largest(np.concatenate(matrix, axis=1), MATRIX_ERROR_WORDS),
        _largest(np.concatenate(noise, axis=1), NOISE_WORDS),
        margin,
    )


def _largest(distances: Floats, limit: float) -> float:
    """Largest error with at most a fraction ``limit`` of wrong words, by bisection of its logarithm.

    ``distances`` to the nearest thresholds are (points, rows), in standard deviations at an error of 1.
    """
    from scipy.special import ndtr

    relevant = distances[:, np.isfinite(distances).any(axis=0)]
    low, high = np.log(RANGE[0]), np.log(RANGE[1])
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        wrong = np.minimum(ndtr(-relevant / np.exp(middle)).sum(axis=1), 1.0).mean()
        low, high = (middle, high) if wrong <= limit else (low, middle)
    return float(np.exp(low))


FAN_OUT = 32
"""Largest number of units per row, if possible: limit of the process cards that ship, `activation.fan_out_max`."""
LARGEST = 8
"""Networks of more than this multiple of the smallest one's MZIs are not evaluated."""
T = TypeVar("T")
Goal = Literal["size", "noise"]
"""What a network is chosen for: tolerance per MZI, or the largest tolerated field noise."""

BANKS = (3, 5, 7, 15, 31)
"""Largest banks that are tried; a floor of more steps is divided twice."""
SPLITS = (0, 1, 2)
"""Exponents of early splits that are tried."""
LIFTS = (0, 8, 12, 16, 24, 32, 48, 64)
"""Factors of lifted rows that are tried."""
ALL = 10**6
"""Peak above that of every signal: all signals are bits."""
REGENERATED = (1, 3, 7)
"""Largest peaks of regenerated signals that are tried."""
SPANS = (0, 40, 30, 20, 15, 12, 10, 8, 6, 5, 4)
"""Numbers of steps per analogue unit that are tried; 0 for one unit."""
MOST_BITS = 31
"""Largest peak of a waiting signal that is regenerated as bits in one layer only."""
EFFORT = 1500.0
"""Number of networks after which an improvement stops, where larger networks count more."""
UNIT_EFFORT = 500.0
"""Number of MZIs up to which a network counts as one; evaluated in about 5 ms."""
SIGMA_WEIGHT = 2.0
"""A field noise counts as much as a matrix error of this multiple: the ratio of the two at equal effort."""


@dataclass(frozen=True)
class Candidate:
    """A comparator network with its size and predicted tolerance.

    Attributes:
        variant: Choices of its program.
        placement: Choices of its layers.
        mzis: Number of MZIs by the convention of arXiv 2603.28290, of independent parts as the chip has them.
        layers: Number of its hidden layers.
        fan_out: Largest number of units that read one row.
        tolerance: Predicted largest errors.
        waiting: For each hidden layer, the peaks up to `MOST_BITS` of the signals that wait in it as analogue units.
    """

    variant: ProgramVariant
    placement: Placement
    mzis: int
    layers: int
    fan_out: int
    tolerance: PredictedTolerance
    waiting: tuple[tuple[int, ...], ...]

    @property
    def merit(self) -> float:
        """The smaller of the matrix error and the weighted field noise that it tolerates."""
        return min(self.tolerance.epsilon, SIGMA_WEIGHT * self.tolerance.sigma)


def choose(
    task: Averaging,
    gain: float,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    goal: Goal = "size",
) -> Candidate:
    """Chooses a comparator network: the first of :func:`candidates`, which has the same arguments."""
    return candidates(task, gain, limit, progress, goal)[0]


def candidates(
    task: Averaging,
    gain: float,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
    goal: Goal = "size",
    swing: float = 1.0,
) -> list[Candidate]:
    """Find comparator networks within a limit, the best first.

    Starts from programs with equal choices for all groups, and improves the best one by single changes, of a group's
    bank or split, of a layer's span, or of the regenerated peaks, until none helps or `EFFORT` is spent. With a limit,
    the one with the largest tolerance per MZI is improved as well: the most tolerant one may leave no MZIs for changes.

    Args:
        task: The averaging task.
        gain: Slope of the comparators.
        limit: Largest number of MZIs; None for none, or for `LARGEST` times those of the smallest network.
        progress: Called with the number of networks tried so far, before each one.
        goal: "size" for the largest tolerance per MZI, or the largest tolerance within a limit; "noise" for the largest
            predicted σ*, for which outputs and single signals may be regenerated in more layers.
        swing: Amplitude that analogue signals reach at most.

    Raises:
        InputError: No network is within the limit.
    """
    search = _Search(task, limit, progress, goal, swing)
    found = search.found(_uniform(task, gain))
    if not found:
        raise _no_network(search, gain)
    starts = dict.fromkeys((max(found, key=search.score), max(found, key=search.score_per_mzi)))
    best = max(map(search.climb, starts), key=search.score)
    others = sorted((one for one in search.known.values() if one not in (None, best)), key=search.score, reverse=True)
    return [best, *others]


def evaluate(
    task: Averaging, variant: ProgramVariant, placement: Placement, limit: int | None = None, swing: float = 1.0
) -> Candidate | None:
    """Evaluate one network; None if it has more than ``limit`` MZIs, or a row is read by more units than `FAN_OUT`."""
    found = _Search(task, limit, swing=swing).evaluate(variant, placement)
    return found if found is not None and found.fan_out <= FAN_OUT else None


def tolerant_front(found: Iterable[Candidate]) -> list[Candidate]:
    """Selects the networks that tolerate more field noise than every smaller one, in the order of their MZIs."""
    most = 0.0
    front = []
    for one in sorted(found, key=lambda one: (one.mzis, -one.tolerance.sigma)):
        if one.tolerance.sigma > most and one.fan_out <= FAN_OUT:
            most = one.tolerance.sigma
            front.append(one)
    return front


def _no_network(search: _Search, gain: float) -> InputError:
    """The error for a search without a result: a layer has too many units, or the limit is too low."""
    unlimited = _Search(search.task, None)
    if search.limit is None or not unlimited.found(_uniform(search.task, gain)):
        return unlimited.fault or search.fault or InputError(f"{search.task} has no network of comparators")
    return InputError(
        f"mzis = {search.limit}: the smallest network of comparators found for this task has "
        f"{min(unlimited.sizes):,} MZIs; raise the limit (--mzis), or use fewer bits or servers"
    )


class _Search:
    """Evaluated choices of one task, and how they are compared."""

    def __init__(
        self,
        task: Averaging,
        limit: int | None,
        progress: Callable[[int], None] | None = None,
        goal: Goal = "size",
        swing: float = 1.0,
    ) -> None:
        self.task, self.limit, self.left, self.progress, self.goal = task, limit, EFFORT, progress, goal
        self.swing = swing
        self.known: dict[tuple[ProgramVariant, Placement], Candidate | None] = {}
        self.sizes: list[int] = []
        self.fault: InputError | None = None

    def score(self, one: Candidate) -> tuple[bool, float]:
        """What is maximised: tolerance, per MZI if there is no limit; a fan-out above `FAN_OUT` is the last resort."""
        if self.goal == "noise":
            return one.fan_out <= FAN_OUT, one.tolerance.sigma
        return (one.fan_out <= FAN_OUT, one.merit) if self.limit is not None else self.score_per_mzi(one)

    def score_per_mzi(self, one: Candidate) -> tuple[bool, float]:
        """The score without a limit."""
        return one.fan_out <= FAN_OUT, one.merit / one.mzis

    def found(self, choices: Iterable[tuple[ProgramVariant, Placement]]) -> list[Candidate]:
        """The candidates of some choices that are within the limit."""
        return [one for choice in choices if (one := self.evaluate(*choice)) is not None]

    def climb(self, one: Candidate) -> Candidate:
        """The best candidate that single changes lead to from this one with the effort of one climb."""
        self.left = EFFORT
        while self.left > 0:
            changes = [*_changes(one, self.task), *(_regenerations(one) if self.goal == "noise" else ())]
            better = max(self.found(changes), key=self.score, default=one)
            if self.score(better) <= self.score(one):
                break
            one = better
        return one

    def evaluate(self, variant: ProgramVariant, placement: Placement) -> Candidate | None:
        """A candidate; None if it exceeds the limit."""
        if (variant, placement) not in self.known:
            if self.progress is not None:
                self.progress(len(self.known))
            self.known[variant, placement] = self._candidate(variant, placement)
        return self.known[variant, placement]

    def _candidate(self, variant: ProgramVariant, placement: Placement) -> Candidate | None:
        self.left -= 1.0
        try:
            closed = compile_comparators(comparator_program(self.task, variant), self.task, placement)
        except InputError as fault:
            self.fault = fault
            return None
        limit = self.limit or LARGEST * min(self.sizes, default=10**9)
        if _fewest_mzis(closed) > limit:
            return None
        network = AveragingNetwork(closed.layers, self.task, activation="clipped_relu")
        mzis = network.mzis
        self.sizes.append(mzis)
        self.left -= mzis / UNIT_EFFORT
        if mzis > limit:
            return None
        tolerance = predict_tolerance(closed, self.task, swing=self.swing)
        fan_out = max(int(np.bincount(network.detector_rows(i)).max()) for i in range(len(network.layers)))
        waiting = tuple(_analogue_peaks(stage, placement.regenerate) for stage in closed.stages)
        return Candidate(variant, placement, mzis, len(closed.stages), fan_out, tolerance, waiting)


def _analogue_peaks(stage: Stage, regenerated: int) -> tuple[int, ...]:
    """Peaks of the waiting signals of a stage that single choices of a layer can regenerate."""
    peaks = {stage.peaks[name] for name in stage.after if name in stage.peaks}
    return tuple(sorted(peak for peak in peaks if regenerated < peak <= MOST_BITS))


def _fewest_mzis(closed: ClosedForm) -> float:
    """A lower bound of the number of MZIs: of parts with one row, which divide the columns equally."""
    rows = [*(len(stage.before) for stage in closed.stages), closed.last.outputs]
    columns = [layer.inputs for layer in closed.layers]
    return sum(0.5 * m * (m / n - 1.0) for n, m in zip(rows, columns, strict=True) if m > n)


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


def _regenerations(one: Candidate) -> Iterator[tuple[ProgramVariant, Placement]]:
    """Choices that differ in what is regenerated: the outputs, or the signals of one peak in one layer."""
    variant, placement = one.variant, one.placement
    yield replace(variant, finish=not variant.finish), placement
    bits = placement.bits + (0,) * (one.layers - len(placement.bits))
    for layer, peaks in enumerate(one.waiting):
        for peak in (0, *peaks):
            yield variant, replace(placement, bits=_changed(bits, layer, peak))


def _changed(values: tuple[T, ...], place: int, value: T) -> tuple[T, ...]:
    return (*values[:place], value, *values[place + 1 :])


def comparator_network(
    task: Averaging,
    mzis: int | None = None,
    gain: float = GAIN,
    progress: Callable[[int], None] | None = None,
    goal: Goal = "size",
) -> AveragingNetwork:
    """Build an exact network of comparators; for 4 bits and 4 servers it has 18 MZIs.

    Of many programs and placements, it takes the one with the largest predicted tolerance of matrix errors and field
    noise per MZI, or the most tolerant one within a limit. The choice is deterministic, and part of the card. The
    activation is "clipped_relu", the margin 0.5, and the last layer has no bias.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.networks import comparator_network
        >>> comparator_network(op.Averaging(bits=4, servers=4, groups=2)).mzis
        18

    Args:
        task: Any averaging task, including those of a cascade.
        mzis: Largest number of MZIs as `AveragingNetwork.mzis` counts them, of distinct rows and independent parts.
            None for the network with the largest tolerance per MZI.
        gain: Slope of the comparators per step of their signals, at least 1: they remove errors below
            (gain - 1) / (2 * gain) of a step.
        progress: Called with the number of networks tried so far, before each one.
        goal: "size", or "noise" for the largest predicted field noise σ*, within the limit or up to eight times the
            MZIs of the smallest network.

    Raises:
        ValueError: `gain` is not a number from 1 to `MAX_GAIN`, or `mzis` is below 1.
        InputError: No network is within the limit, or a layer would have more than
            `optinc_pdk.networks.closed_form.stage.MAX_UNITS` units.
    """
    check_choices(mzis, gain)
    return candidate_network(task, choose(task, float(gain), mzis, progress, goal))


def check_choices(mzis: int | None, gain: float) -> None:
    """Raise ValueError if the limit of MZIs or the slope of the comparators is out of range."""
    if not 1.0 <= gain <= MAX_GAIN:
        raise ValueError(f"gain = {gain} must be a number from 1 to {MAX_GAIN:,.0f}; 8 is usual")
    if mzis is not None and mzis < 1:
        raise ValueError(f"mzis = {mzis} must be at least 1")


def candidate_network(task: Averaging, chosen: Candidate) -> AveragingNetwork:
    """Build the network of a candidate of a task, with a card that names its choices."""
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
