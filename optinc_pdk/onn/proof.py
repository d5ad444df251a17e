"""Exactness of the closed form, stage by stage, where its lattice is too large to enumerate.

A layer of the chain reads integer signals and holds integer signals. Each of its units turns out to read one
signal alone, so that all that the layer does is seen by trying every value of every signal, one signal at a time;
what holds for each value of each holds for all their combinations. Between two layers there are only sums. What is
left is arithmetic on integers: that the program's peaks bound its signals, which follows from intervals, and that
the program averages, which every docstring claims and any sample of words can refute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.chain import Stage, compile_program
from optinc_pdk.onn.network import Layer, Onn
from optinc_pdk.onn.program import Floor, Program, Sum, averaging_program

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""Largest error of a signal of one layer, in its integer steps."""

ACCUMULATED = 1e-6
"""Largest error of a whole network's outputs, in levels, from rounding in all its layers."""


class ProofError(ValueError):
    """A stage that does not do what it should; the message says which, and for which value."""


@dataclass(frozen=True)
class Proof:
    """What was looked at.

    Attributes:
        stages: Layers proved.
        values: Values of signals tried, over all stages.
        samples: Random words averaged end to end by the network, besides.
    """

    stages: int
    values: int
    samples: int


def prove(onn: Onn, samples: int = 10_000, seed: int = 0) -> Proof:
    """Prove that a closed-form network is exact over its whole lattice.

    Args:
        onn: A network of `carry_chain`, unchanged.
        samples: Lattice points that are sent through it as well, and through the program.
        seed: Seed of the sample.

    Raises:
        ProofError: The network is not the chain of its task, or a stage fails.
    """
    program = averaging_program(onn.task)
    expected, stages = compile_program(program, onn.task)
    if not _same(onn, expected):
        raise ProofError("the network is not the carry chain of its task: only closed forms are proved")
    _check_peaks(program, onn.task)
    values = sum(check_stage(stage, layer, program) for stage, layer in zip(stages, onn.layers[:-1], strict=True))
    _check_sums(program, stages, onn)
    points = onn.task.sample(samples, np.random.default_rng(seed))
    levels = onn.task.targets(points)
    steps = np.rint(points * onn.task.input_resolution).astype(np.int64)
    signals = program.run(steps)
    for outputs in (program.results(signals), onn.forward(points)):
        if (np.abs(outputs - levels) > ACCUMULATED).any():
            raise ProofError("a sampled word is not averaged exactly")
    for name, peak in program.peaks.items():
        if samples and not 0 <= signals[name].min() <= signals[name].max() <= peak:
            raise ProofError(f"signal {name} leaves 0 ... {peak}")
    return Proof(len(stages), values, samples)


def _same(onn: Onn, other: Onn) -> bool:
    """Whether two networks are equal to the last bit."""
    pairs = zip(onn.layers, other.layers, strict=False)
    return onn.structure == other.structure and all(
        np.array_equal(layer.weight, same.weight) and np.array_equal(layer.bias, same.bias) for layer, same in pairs
    )


def check_stage(stage: Stage, layer: Layer, program: Program) -> int:
    """Try every value of every signal that a layer reads.

    Args:
        stage: What the layer claims.
        layer: Its weights.
        program: The program, for the signals' peaks.

    Returns:
        Values tried.

    Raises:
        ProofError: A unit reads several signals, or a signal is wrong for a value.
    """
    names = list(stage.before)
    table = np.array([stage.before[name] for name in names])
    rows = np.column_stack([layer.weight, layer.bias])
    factors, shifts, reads = np.zeros(len(rows)), np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    for unit, row in enumerate(rows):
        # A unit is ± one signal and a constant; the rows of signals are never multiples of each other.
        for sign in (1.0, -1.0):
            rest = row - sign * table
            alike = np.flatnonzero((rest[:, :-1] == 0.0).all(axis=1))
            if alike.size == 1:
                factors[unit], shifts[unit], reads[unit] = sign, rest[alike[0], -1], alike[0]
        if not factors[unit]:
            raise ProofError(f"floor {stage.floor.result}: unit {unit} reads more than one signal")
    tried = 0
    for result, row in stage.after.items():
        source = stage.floor.signal if result == stage.floor.result else result
        used = np.flatnonzero(row[:-1])
        if any(names[reads[unit]] != source for unit in used):
            raise ProofError(f"floor {stage.floor.result}: {result} depends on more than {source}")
        value = np.arange(program.peaks[source] + 1)
        units = np.maximum(factors[used] * value[:, None] + shifts[used], 0.0)
        wanted = value // stage.floor.divisor if result == stage.floor.result else value
        wrong = np.flatnonzero(np.abs(units @ row[used] + row[-1] - wanted) > ROUNDING)
        if wrong.size:
            raise ProofError(f"floor {stage.floor.result}: {result} is wrong where {source} is {wrong[0]}")
        tried += value.size
    return tried


def _check_peaks(program: Program, task: Averaging) -> None:
    """That every signal stays within 0 and its peak, by intervals."""
    floors = {step.result: step for step in program.instructions if isinstance(step, Floor)}
    bounds = dict(zip(program.inputs, task.input_steps.tolist(), strict=True))
    for step in program.instructions:
        if isinstance(step, Floor):
            bounds[step.result] = bounds[step.signal] // step.divisor
        else:
            bounds[step.result] = _sum_bound(step, bounds, floors)
    for name, bound in bounds.items():
        if bound > program.peaks[name]:
            raise ProofError(f"signal {name} reaches {bound}, its peak is {program.peaks[name]}")


def _sum_bound(step: Sum, bounds: dict[str, int], floors: dict[str, Floor]) -> int:
    """Largest value of a sum: of what a floor leaves, its divisor less one, else the sum of the largest."""
    negative = [name for name, factor in step.terms.items() if factor < 0]
    if not negative:
        return sum(factor * bounds[name] for name, factor in step.terms.items())
    floor = floors.get(negative[0])
    if (
        floor is None
        or len(step.terms) != 2
        or step.terms[negative[0]] != -floor.divisor
        or step.terms.get(floor.signal) != 1
    ):
        raise ProofError(f"sum {step.result} subtracts more than a floor leaves: it may be negative")
    return min(bounds[floor.signal], floor.divisor - 1)


def _check_sums(program: Program, stages: tuple[Stage, ...], onn: Onn) -> None:
    """That the rows which a layer reads are the program's sums of what the layer below holds."""
    size = onn.task.groups
    held: dict[str, Floats] = {
        name: resolution * np.eye(size, size + 1)[i]
        for i, (name, resolution) in enumerate(zip(program.inputs, onn.task.input_resolution, strict=True))
    }
    by_floor = {stage.floor.result: stage for stage in stages}
    for step in program.instructions:
        if isinstance(step, Sum):
            held[step.result] = _combined(held, step.terms)
        elif step.result in by_floor:
            stage = by_floor[step.result]
            for name, row in stage.before.items():
                if (row != held[name]).any():
                    raise ProofError(f"floor {step.result} does not read {name} as the layer below holds it")
            held = dict(stage.after)
        else:
            held[step.result] = np.zeros(len(next(iter(held.values()))))
    last = onn.layers[-1]
    for place, (terms, divisor) in enumerate(program.outputs):
        row = _combined(held, terms) / divisor
        if (row != np.append(last.weight[place], last.bias[place])).any():
            raise ProofError(f"output {place} is not the program's")


def _combined(held: dict[str, Floats], terms: dict[str, int]) -> Floats:
    total: Floats = np.sum([factor * held[name] for name, factor in terms.items()], axis=0)
    return total
