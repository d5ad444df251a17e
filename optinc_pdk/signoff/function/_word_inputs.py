"""Inputs of the function check: all combinations of symbols, the whole lattice, or random words and corner cases.

Corner cases are lattice points, for a lattice that is too large to enumerate; each is tried with several assignments of
symbols to servers:

- combinations of every input at its lowest and highest values,
- every value of one input at which a carry may start or end, with the other inputs at their extremes,
- averages next to every multiple of 4^j, composed with as much and with as little in the lower inputs as possible, so
  that carries run through all digits,
- words with typical bit patterns, on one part of the servers one word and on the others another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import Averaging, assign_random
from optinc_pdk.averaging.task import MAX_ENUMERATED
from optinc_pdk.averaging.words import source_symbols, source_values

Coverage = Literal["combinations", "lattice", "sample"]

EXHAUSTIVE = 2**20
"""Largest number of combinations of symbols that are all tried."""
MAX_ENUMERATED_IF_CERTIFIED = 2**20
"""Largest lattice that is enumerated although a certificate holds for all words and assignments."""
RANDOM_INPUTS = 2**20
"""Number of random inputs, each of one word per server, that are tried of a lattice that is not enumerated."""
STUDY_POINTS = 2**20
"""Largest lattice that studies, which evaluate many chips or rates, hold in memory and evaluate completely."""
STUDY_INPUTS = 2**15
"""Number of random inputs, and largest number of corner cases, that studies use for a larger lattice."""
BATCH = 2**15
"""Inputs of one batch."""
SEED = 2603
"""Seed of random words and of random assignments of symbols to servers."""
MAX_COMBINATIONS = 2**16
"""Largest number of combinations of extremes in one family of corners."""
MAX_VALUES = 256
"""Inputs with more values are only tried near multiples of the largest powers of 4."""
NEAREST = 4
"""Number of multiples of a power of 4, from each end of an input's range, next to which values are tried."""


@dataclass(frozen=True, eq=False)
class FunctionInputs:
    """I inputs of a function check for M symbols per word: all of them, or one batch.

    Attributes:
        task: Average that the chip computes.
        symbols: (I, servers, M) symbols at the fibres, 0 ... 3; for points of the lattice, assigned to servers at
            random. For level 2 of a cascade they are floats, the last one in steps of 1/N.
        steps: (I, K) lattice points of the inputs in integer steps of 1/`input_resolution`.
        ideal: (I,) words of the ideal average; with a remainder, averages in steps, see `Averaging.combine_steps`.
        levels: (I, M) ideal output levels.
        worst: (I,) whether an input is tried with the assignment of symbols to servers that the imbalance of the chip
            affects most, in place of that of ``symbols``.
        coverage: "combinations" if the inputs are all combinations of symbols at the fibres, "lattice" if they are all
            points of the lattice, "sample" if they are random words and corner cases.
    """

    task: Averaging
    symbols: Ints | Floats
    steps: Ints
    ideal: Ints
    levels: Ints | Floats
    worst: Bools
    coverage: Coverage

    def rows(self, chosen: Ints) -> FunctionInputs:
        """Return the chosen inputs only."""
        keys = ("symbols", "steps", "ideal", "levels", "worst")
        return replace(self, **{key: getattr(self, key)[chosen] for key in keys})

    @property
    def assignments(self) -> int:
        """Number of assignments of symbols to servers that are tried for each input.

        For points of the lattice 2: that of ``symbols``, and the one that the chip's imbalance affects most.
        """
        return 2 if self.coverage == "lattice" else 1


@dataclass(frozen=True, eq=False)
class InputPlan:
    """Which inputs a function check tries.

    Attributes:
        task: Average that the chip computes.
        coverage: See `FunctionInputs`.
        random: Number of random inputs.
        corners: (C, K) corner cases of the lattice, in steps; none if every input is tried. Each is two inputs: with
            symbols assigned to servers at random, and in the way that the chip's imbalance affects most.
    """

    task: Averaging
    coverage: Coverage
    random: int
    corners: Ints

    @property
    def total(self) -> int:
        """Number of inputs."""
        if self.coverage == "combinations":
            return int(source_values(self.task) ** self.task.servers)
        return self.task.lattice_size if self.coverage == "lattice" else self.random + 2 * len(self.corners)

    def batches(self, size: int = BATCH) -> Iterator[FunctionInputs]:
        """Generate the inputs in batches.

        Args:
            size: Largest number of inputs in a batch. Random words depend on it.
        """
        for number, start in enumerate(range(0, self.total, size)):
            yield self._batch(number, start, min(start + size, self.total))

    def _batch(self, number: int, start: int, stop: int) -> FunctionInputs:
        seed = SEED if number == 0 else int(np.random.SeedSequence((SEED, number)).generate_state(1)[0])
        task = self.task
        if self.coverage == "combinations":
            return _of_symbols(task, _combinations(task, start, stop), self.coverage)
        if self.coverage == "lattice":
            steps = task.lattice_steps(start, stop)
            return _of_symbols(task, assign_random(task, steps, seed), self.coverage)
        # corner cases first, those with the worst assignment after all with a random one
        places = np.arange(start, min(stop, 2 * len(self.corners)))
        corners = self.corners[places % max(len(self.corners), 1)]
        random = stop - start - len(places)
        values = np.random.default_rng(seed).integers(0, source_values(task), (random, task.servers))
        symbols = np.concatenate([assign_random(task, corners, seed), source_symbols(task, values)])
        inputs = _of_symbols(task, symbols, self.coverage)
        return replace(inputs, worst=np.append(places >= len(self.corners), np.zeros(random, dtype=bool)))


def plan_inputs(task: Averaging, certified: bool = False) -> InputPlan:
    """Choose the inputs of a complete function check.

    They are all combinations of symbols at the fibres if there are at most `EXHAUSTIVE`; otherwise all points of the
    lattice if it has at most `MAX_ENUMERATED`, or `MAX_ENUMERATED_IF_CERTIFIED`; otherwise random words and all corner
    cases.

    Args:
        certified: Whether a certificate holds for all words.
    """
    none = np.zeros((0, task.groups), dtype=np.int64)
    if not task.finer_input and source_values(task) ** task.servers <= EXHAUSTIVE:
        return InputPlan(task, "combinations", 0, none)
    if task.lattice_size <= (MAX_ENUMERATED_IF_CERTIFIED if certified else MAX_ENUMERATED):
        return InputPlan(task, "lattice", 0, none)
    return InputPlan(task, "sample", RANDOM_INPUTS, corner_steps(task))


def function_inputs(task: Averaging) -> FunctionInputs:
    """Generate the inputs with which studies evaluate many chips, wavelengths or symbol rates, in memory.

    They are those of the function check, but for a lattice above `STUDY_POINTS` points they are `STUDY_INPUTS` random
    words and at most as many corner cases.
    """
    plan = plan_inputs(task)
    if plan.total > STUDY_POINTS:
        corners = corner_steps(task)
        if len(corners) > STUDY_INPUTS:
            chosen = np.random.default_rng(SEED).choice(len(corners), STUDY_INPUTS, replace=False)
            corners = corners[np.sort(chosen)]
        plan = InputPlan(task, "sample", STUDY_INPUTS, corners)
    (inputs,) = plan.batches(plan.total)
    return inputs


def _of_symbols(task: Averaging, symbols: Ints | Floats, coverage: Coverage) -> FunctionInputs:
    steps = np.rint(task.preprocess(symbols) * task.input_resolution).astype(np.int64)
    levels = task.targets(steps / task.input_resolution)
    worst = np.zeros(len(steps), dtype=bool)
    return FunctionInputs(task, symbols, steps, task.combine_levels(levels), levels, worst, coverage)


def _combinations(task: Averaging, start: int, stop: int) -> Ints | Floats:
    """(stop - start, servers, M) symbols of combinations of what the servers send, the last server's fastest."""
    count = source_values(task)
    values = np.arange(start, stop)[:, np.newaxis] // count ** np.arange(task.servers - 1, -1, -1) % count
    return source_symbols(task, values)


@lru_cache(maxsize=2)
def corner_steps(task: Averaging) -> Ints:
    """Return the corner cases of a task's lattice.

    Returns:
        (P, K) distinct lattice points in integer steps of 1/`input_resolution`, in lexicographic order; read-only.
    """
    families = (_extremes(task), _single_inputs(task), _carries(task), _patterns(task))
    points = np.unique(np.vstack(families), axis=0)
    points.setflags(write=False)
    return points


def _extremes(task: Averaging) -> Ints:
    """Combinations of every input at 0, 1, maximum - 1 and maximum; for many inputs, at 0 and maximum."""
    maxima = task.input_steps
    choices = [[0, 1, top - 1, top] if 4**task.groups <= MAX_COMBINATIONS else [0, top] for top in maxima.tolist()]
    one = np.eye(task.groups, dtype=np.int64)
    return np.vstack([np.array(list(product(*choices))), one, maxima - one])


def _single_inputs(task: Averaging) -> Ints:
    """Every value near a carry of one input, with the other inputs at 0 and at their maxima in all combinations.

    With many inputs, the more significant ones are all at one extreme, and so are the less significant ones.
    """
    maxima, points = task.input_steps, []
    for k in range(task.groups):
        values = _values_near_carries(task, k)
        others = np.array(list(product((0, 1), repeat=task.groups - 1)), dtype=np.int64)
        if task.groups * len(values) * len(others) > MAX_COMBINATIONS:
            upper, lower = np.arange(4)[:, np.newaxis] // 2, np.arange(4)[:, np.newaxis] % 2
            others = np.where(np.arange(task.groups - 1) < k, upper, lower)
        base = np.insert(others, k, 0, axis=1) * maxima
        base = np.repeat(base, len(values), axis=0)
        base[:, k] = np.tile(values, len(others))
        points.append(base)
    return np.vstack(points)


def _values_near_carries(task: Averaging, k: int) -> Ints:
    """Values of input k: all, or those within 1 of the first and last multiples of powers of 4."""
    top, resolution = int(task.input_steps[k]), int(task.input_resolution[k])
    if top <= MAX_VALUES:
        return np.arange(top + 1)
    near: list[Ints] = [np.array([0, 1, top - 1, top])]
    for power in range(task.group_symbols):
        step = resolution * 4**power
        count = top // step
        multiples = np.unique(np.clip(np.r_[: NEAREST + 1, count - NEAREST : count + 1], 0, count)) * step
        near.append((multiples[:, np.newaxis] + np.arange(-1, 2)).ravel())
    return np.unique(np.clip(np.concatenate(near), 0, top))


def _carries(task: Averaging) -> Ints:
    """Totals next to multiples of every power of 4, split into inputs from the top down and from the bottom up."""
    finest = int(task.input_resolution[-1])
    place = _places(task)
    largest = int(task.input_steps @ place)
    totals: list[Ints] = []
    for power in range(task.symbols):
        step = finest * 4**power
        count = largest // step
        near = [*range(1, NEAREST * 4), *range(max(count - NEAREST * 4, 0), count + 1)]
        totals.append((np.unique(np.array(near, dtype=np.int64))[:, np.newaxis] * step + np.arange(-1, 2)).ravel())
    total = np.unique(np.concatenate(totals))
    total = total[(total >= 0) & (total <= largest)]
    return np.vstack([_from_top(task, total), _from_bottom(task, total)])


def _places(task: Averaging) -> Ints:
    """(K,) weight of one step of each input in a total, in steps of the last input."""
    base = 4**task.group_symbols
    finest = int(task.input_resolution[-1])
    places: Ints = base ** np.arange(task.groups - 1, -1, -1, dtype=np.int64) * (finest // task.input_resolution)
    return places


def _from_top(task: Averaging, total: Ints) -> Ints:
    """Split totals into inputs, with as much as possible in the most significant ones."""
    steps = np.zeros((total.size, task.groups), dtype=np.int64)
    rest = total.copy()
    for k, (place, top) in enumerate(zip(_places(task).tolist(), task.input_steps.tolist(), strict=True)):
        steps[:, k] = np.minimum(rest // place, top)
        rest -= steps[:, k] * place
    return np.asarray(steps[rest == 0])


def _from_bottom(task: Averaging, total: Ints) -> Ints:
    """Split totals into inputs, with as much as possible in the least significant ones."""
    places, maxima = _places(task).tolist(), task.input_steps.tolist()
    steps = np.zeros((total.size, task.groups), dtype=np.int64)
    rest = total.copy()
    for k in range(task.groups - 1, 0, -1):
        place, above = places[k], places[k - 1]
        least = rest % above // place
        most = np.minimum(rest // place, maxima[k])
        steps[:, k] = least + (most - least) // (above // place) * (above // place)
        rest -= steps[:, k] * place
    steps[:, 0] = rest // places[0]
    whole = (steps >= 0).all(axis=1) & (steps <= task.input_steps).all(axis=1) & (steps @ _places(task) == total)
    return np.asarray(steps[whole])


def _patterns(task: Averaging) -> Ints:
    """Averages of servers of which some send one word and the others another, for words with typical bit patterns."""
    values = source_values(task)
    patterns = {
        0,
        1,
        2,
        values // 2 - 1,
        values // 2,
        values // 3,
        2 * (values // 3),
        values - 3,
        values - 2,
        values - 1,
    }
    sent = np.array([value for value in sorted(patterns) if 0 <= value < values], dtype=np.int64)
    one, other = (pair.ravel() for pair in np.meshgrid(sent, sent, indexing="ij"))
    first = np.arange(task.servers) < np.unique(np.rint(np.linspace(0, task.servers, 9)))[:, np.newaxis]
    words = np.where(first[:, np.newaxis], one[:, np.newaxis], other[:, np.newaxis]).reshape(-1, task.servers)
    inputs = task.preprocess(source_symbols(task, words))
    return np.rint(inputs * task.input_resolution).astype(np.int64)
