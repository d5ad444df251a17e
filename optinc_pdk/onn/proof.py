"""Exactness of the closed form, stage by stage, where its lattice is too large to enumerate.

A stage of a chain, a layer or a few, reads integer signals and holds integer signals. Each of its units turns out
to depend on one signal alone, so that all that the stage does is seen by trying every value of every signal, one at
a time; what holds for each value of each holds for all their combinations. Between stages there are only sums. What
is left is arithmetic on integers: that the program's peaks bound its signals, which follows from intervals, and that
the program averages, which is long division, and which any sample of words can refute.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.chain import Build, Stage, compile_program, regenerating, smallest
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
        stages: Stages proved, of a layer or a few.
        values: Values of signals tried, over all stages.
        samples: Random words averaged end to end by the network, besides.
    """

    stages: int
    values: int
    samples: int


def prove(onn: Onn, samples: int = 10_000, seed: int = 0) -> Proof:
    """Prove that a closed-form network is exact over its whole lattice.

    Args:
        onn: A network of `carry_chain` or `regenerating_chain`, unchanged.
        samples: Lattice points that are sent through it as well, and through the program.
        seed: Seed of the sample.

    Raises:
        ProofError: The network is not the closed form that its card names, or a stage fails.
    """
    build = _builder(onn)
    program = averaging_program(onn.task, late=build is not smallest)
    stages, last = compile_program(program, onn.task, build)
    if not _same(onn, (*(layer for stage in stages for layer in stage.layers), last)):
        raise ProofError("the network is not the closed form that its card names: only those are proved")
    _check_peaks(program, onn.task)
    values = sum(check_stage(stage, program) for stage in stages)
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


def _builder(onn: Onn) -> Build:
    """How the card says that the network was made."""
    card = onn.card
    if card.get("recipe") == "carry_chain":
        return smallest
    copies, amplifiers = card.get("copies"), card.get("amplifiers")
    known = card.get("recipe") == "regenerating_chain"
    if known and isinstance(copies, int) and isinstance(amplifiers, int) and min(copies, amplifiers) > 0:
        return partial(regenerating, copies=copies, amplifiers=amplifiers)
    raise ProofError("the network's card names no closed form: only those are proved")


def _same(onn: Onn, layers: tuple[Layer, ...]) -> bool:
    """Whether a network has these layers, to the last bit."""
    return len(onn.layers) == len(layers) and all(
        np.array_equal(layer.weight, same.weight) and np.array_equal(layer.bias, same.bias)
        for layer, same in zip(onn.layers, layers, strict=True)
    )


def check_stage(stage: Stage, program: Program) -> int:
    """Try every value of every signal that a stage reads.

    Args:
        stage: Its layers, and what it claims.
        program: The program, for the signals' peaks.

    Returns:
        Values tried.

    Raises:
        ProofError: A unit depends on several signals, or a signal is wrong for a value.
    """
    what = f"floor {stage.floor.result}"
    reads, values = _first_layer(stage, program, what)
    for layer in stage.layers[1:]:
        sources = [_source(reads, row, f"{what}: a unit") for row in layer.weight]
        values = [
            np.maximum(_applied(values, row, bias, 1 if source is None else program.peaks[source] + 1), 0.0)
            for row, bias, source in zip(layer.weight, layer.bias, sources, strict=True)
        ]
        reads = sources
    tried = 0
    for result, row in stage.after.items():
        source = stage.floor.signal if result == stage.floor.result else result
        if row[:-1].any() and _source(reads, row[:-1], f"{what}: {result}") != source:
            raise ProofError(f"{what}: {result} does not depend on {source}")
        value = np.arange(program.peaks[source] + 1)
        held = _applied(values, row[:-1], row[-1], value.size)
        wanted = value // stage.floor.divisor if result == stage.floor.result else value
        wrong = np.flatnonzero(np.abs(held - wanted) > ROUNDING)
        if wrong.size:
            raise ProofError(f"{what}: {result} is wrong where {source} is {wrong[0]}")
        tried += value.size
    return tried


def _first_layer(stage: Stage, program: Program, what: str) -> tuple[list[str | None], list[Floats]]:
    """Per unit of a stage's first layer, the signal that it reads, and what it gives for each of its values."""
    table = np.array(list(stage.before.values()))[:, :-1]
    reads: list[str | None] = []
    values: list[Floats] = []
    layer = stage.layers[0]
    for unit, (row, bias) in enumerate(zip(layer.weight, layer.bias, strict=True)):
        overlap = table @ row
        # The signal of which the row is a multiple, if it is one.
        square = np.einsum("ij,ij->i", table, table)
        factor = np.divide(overlap, square, out=np.zeros_like(overlap), where=square > 0.0)
        alike = np.flatnonzero((factor != 0.0) & (np.abs(row - factor[:, None] * table).max(axis=1) <= ROUNDING))
        if alike.size != 1:
            raise ProofError(f"{what}: unit {unit} reads more than one signal")
        name = list(stage.before)[alike[0]]
        constant = bias - factor[alike[0]] * stage.before[name][-1]
        reads.append(name)
        values.append(np.maximum(factor[alike[0]] * np.arange(program.peaks[name] + 1) + constant, 0.0))
    return reads, values


def _source(reads: list[str | None], weights: Floats, what: str) -> str | None:
    """The one signal that a unit depends on through the units below, or None of a constant."""
    names = {name for unit in np.flatnonzero(weights) if (name := reads[unit]) is not None}
    if len(names) > 1:
        raise ProofError(f"{what} depends on {', '.join(sorted(names))}, not on one signal")
    return names.pop() if names else None


def _applied(values: list[Floats], weights: Floats, bias: float, size: int) -> Floats:
    """An affine row of units that all depend on one signal, for each of its values."""
    total: Floats = np.full(size, bias)
    for unit in np.flatnonzero(weights):
        total = total + weights[unit] * values[unit]
    return total


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
