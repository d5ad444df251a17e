"""Inputs of the function check: all combinations of symbols, the whole lattice, or random words and corner cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging, assign_random
from optinc_pdk.averaging.fibre_words import source_symbols, source_values
from optinc_pdk.averaging.task import MAX_ENUMERATED
from optinc_pdk.signoff.function.corners import corner_steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Coverage = Literal["combinations", "lattice", "sample"]

EXHAUSTIVE = 2**20
"""Largest number of combinations of symbols that are all tried."""
RANDOM_INPUTS = 2**20
"""Number of random inputs, each of one word per server, that stand for a lattice above `MAX_ENUMERATED` points."""
STUDY_POINTS = 2**20
"""Largest lattice that studies, which evaluate many chips or rates, hold in memory and evaluate completely."""
STUDY_INPUTS = 2**15
"""Number of inputs that studies use for a larger lattice: as many random inputs, and as many corner cases at most."""
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
        coverage: "combinations" if the inputs are all combinations of symbols at the fibres, "lattice" if they are all
            points of the lattice, "sample" if they are random words and corner cases.
    """

    task: Averaging
    symbols: Ints | Floats
    steps: Ints
    ideal: Ints
    levels: Ints | Floats
    coverage: Coverage

    @property
    def exhaustive(self) -> bool:
        """Whether the inputs are all combinations of symbols at the fibres."""
        return self.coverage == "combinations"

    @property
    def assignments(self) -> int:
        """Number of assignments of symbols to servers that are tried for each input: 1 if all combinations are tried.

        Otherwise 2: that of ``symbols``, and the one that the chip's imbalance affects most.
        """
        return 1 if self.exhaustive else 2


@dataclass(frozen=True, eq=False)
class InputPlan:
    """Which inputs a function check tries.

    Attributes:
        task: Average that the chip computes.
        coverage: See `FunctionInputs`.
        random: Number of random inputs.
        corners: (C, K) corner cases of the lattice, in steps; none if every input is tried.
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
        return self.task.lattice_size if self.coverage == "lattice" else self.random + len(self.corners)

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
        # corner cases first
        corners = self.corners[start:stop]
        random = max(stop - max(start, len(self.corners)), 0)
        values = np.random.default_rng(seed).integers(0, source_values(task), (random, task.servers))
        symbols = np.concatenate([assign_random(task, corners, seed), source_symbols(task, values)])
        return _of_symbols(task, symbols, self.coverage)


def plan_inputs(task: Averaging, random: int = RANDOM_INPUTS) -> InputPlan:
    """Choose the inputs of a complete function check.

    They are all combinations of symbols at the fibres if there are at most `EXHAUSTIVE`; otherwise all points of the
    lattice if it has at most `MAX_ENUMERATED`; otherwise random words and all corner cases.

    Args:
        task: Average that the chip computes.
        random: Number of random inputs for a lattice that is not enumerated.
    """
    none = np.zeros((0, task.groups), dtype=np.int64)
    if not task.finer_input and source_values(task) ** task.servers <= EXHAUSTIVE:
        return InputPlan(task, "combinations", 0, none)
    if task.lattice_size <= MAX_ENUMERATED:
        return InputPlan(task, "lattice", 0, none)
    return InputPlan(task, "sample", random, corner_steps(task))


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
    return FunctionInputs(task, symbols, steps, task.combine_levels(levels), levels, coverage)


def _combinations(task: Averaging, start: int, stop: int) -> Ints | Floats:
    """(stop - start, servers, M) symbols of combinations of what the servers send, the last server's fastest."""
    count = source_values(task)
    values = np.arange(start, stop)[:, np.newaxis] // count ** np.arange(task.servers - 1, -1, -1) % count
    return source_symbols(task, values)
