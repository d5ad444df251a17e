"""Inputs of the function check: all combinations of symbols, the whole lattice, or random words and corner cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import Averaging, assign_random
from optinc_pdk.averaging.fibre_words import source_symbols, source_values
from optinc_pdk.averaging.task import MAX_ENUMERATED
from optinc_pdk.signoff.function.corners import corner_steps

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
        task: Average that the chip computes.
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

    Args:
        task: Average that the chip computes.
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
