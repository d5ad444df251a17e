"""Proof that a closed-form network is exact, stage by stage, for lattices that are too large to enumerate.

A stage of a chain, one layer or a few, reads integer signals and computes integer signals. Each of its units depends on
one signal only, so that evaluating every value of every signal, one signal at a time, covers all combinations. Between
stages there are only sums. Two statements on integers remain: the program's peaks bound its signals, which interval
arithmetic shows, and the program averages, which is long division and is checked on a sample of words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form._stage_program import (
    FloorInstruction,
    IntegerProgram,
    SumInstruction,
    averaging_program,
)
from optinc_pdk.networks.closed_form.chains import compile_program, regenerating_stage, smallest_stage, unary_stages
from optinc_pdk.networks.closed_form.comparators import RECIPE, card_form, card_program
from optinc_pdk.networks.closed_form.stage import ROUNDING, ClosedForm, Stage, same_layers, unit_functions
from optinc_pdk.networks.layers import activate
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.options import Activation

ACCUMULATED = 0.2
"""Largest accepted error of a whole network's outputs, in their steps, of which a wrong word has at least one: a long
division of 16 symbols multiplies rounding errors by 4^16, and 1/N is in general not a double. Words of 32 bits reach
0.04 with fused multiply-add and 0.09 without."""

LARGEST_COUNT = 2**24
"""Largest number of values of one signal that are evaluated, for memory."""


class ProofError(ValueError):
    """Error: a proof fails, for example because a stage does not compute its function. The message states where."""


@dataclass(frozen=True)
class ExactnessProof:
    """Numbers of stages and values that a successful proof has covered.

    Attributes:
        stages: Number of stages; a stage has one or several layers.
        values: Number of signal values evaluated, summed over all stages.
        samples: Number of random lattice points for which the whole network was evaluated in addition.
    """

    stages: int
    values: int
    samples: int


def prove(network: AveragingNetwork, samples: int = 10_000, seed: int = 0) -> ExactnessProof:
    """Prove that a closed-form network is exact over its whole lattice.

    Args:
        network: Unchanged result of `comparator_network`, `carry_chain`, `regenerating_chain` or `unary_chain`.
        samples: Number of random lattice points for which network and program are evaluated in addition.
        seed: Seed of these random points.

    Raises:
        ProofError: The network is not the closed form that its card names, or a stage fails.
    """
    closed, program = _rebuilt(network)
    activation: Activation = "clipped_relu" if network.card["recipe"] == RECIPE else "relu"
    largest = max((peak for stage in closed.stages for peak in stage.peaks.values()), default=0)
    if largest >= LARGEST_COUNT:
        raise ProofError(f"a signal has {largest + 1:,} values, the limit is {LARGEST_COUNT:,}; use more groups")
    if (
        not same_layers(network.layers, closed.layers)
        or network.activation != activation
        or not all(isinstance(how, str) for how in network.factor)
    ):
        raise ProofError("the network is not the closed form that its card names; use an unchanged network")
    _check_peaks(program, network.task)
    values = sum(map(check_stage, closed.stages))
    _check_links(closed, network)
    points = network.task.sample(samples, np.random.default_rng(seed))
    levels = network.task.targets(points)
    steps = np.rint(points * network.task.input_resolution).astype(np.int64)
    signals = program.run(steps)
    for outputs in (program.results(signals), network.forward(points)):
        if (np.abs(outputs - levels) * network.task.output_resolution > ACCUMULATED).any():
            raise ProofError("a sampled word is not averaged exactly")
    for name, peak in program.peaks.items():
        if samples and not 0 <= signals[name].min() <= signals[name].max() <= peak:
            raise ProofError(f"signal {name} leaves 0 ... {peak}")
    return ExactnessProof(len(closed.stages), values, samples)


def _rebuilt(network: AveragingNetwork) -> tuple[ClosedForm, IntegerProgram]:
    """Closed form that the network's card names, and a program that determines its signals."""
    card, task = network.card, network.task
    copies, amplifiers = card.get("copies"), card.get("amplifiers")
    recipe = card.get("recipe")
    if recipe == RECIPE:
        try:
            return card_form(task, card), card_program(task, card)
        except ValueError as fault:
            raise ProofError(str(fault)) from fault
    if recipe == "carry_chain":
        program = averaging_program(task)
        return compile_program(program, task, smallest_stage), program
    program = averaging_program(task, late=True)
    if isinstance(amplifiers, int) and amplifiers > 0:
        if recipe == "regenerating_chain" and isinstance(copies, int) and copies > 0:
            build = partial(regenerating_stage, copies=copies, amplifiers=amplifiers)
            return compile_program(program, task, build), program
        if recipe == "unary_chain":
            return unary_stages(task, amplifiers), program
    raise ProofError("the network's card names no closed form; use a network of carry_chain or another closed form")


def check_stage(stage: Stage) -> int:
    """Check the claims of a stage for every value of every signal that it reads, and return the number of these values.

    Raises:
        ProofError: A unit depends on several signals, or a result differs from its claim for a value.
    """
    try:
        reads, before = unit_functions(stage)
    except ValueError as fault:
        raise ProofError(str(fault)) from fault
    activation: Activation = "relu" if stage.comparators is None else "clipped_relu"
    values = [activate(z, activation) for z in before]
    for layer in stage.layers[1:]:
        sources = [_source(reads, row, "a unit") for row in layer.weight]
        values = [
            activate(_affine(values, row, bias, 1 if source is None else stage.peaks[source] + 1), activation)
            for row, bias, source in zip(layer.weight, layer.bias, sources, strict=True)
        ]
        reads = sources
    count = 0
    for result, row in stage.after.items():
        claim = stage.claims[result]
        if row[:-1].any() and _source(reads, row[:-1], result) != claim.source:
            raise ProofError(f"{result} does not depend on {claim.source}")
        value = np.arange(stage.peaks[claim.source] + 1)
        expected = np.minimum(
            (value + claim.offset) // claim.divisor, value.size if claim.maximum is None else claim.maximum
        )
        wrong = np.flatnonzero(np.abs(_affine(values, row[:-1], row[-1], value.size) - expected) > ROUNDING)
        if wrong.size:
            raise ProofError(f"{result} is wrong where {claim.source} is {wrong[0]}")
        count += value.size
    return count


def _source(reads: list[str | None], weights: Floats, what: str) -> str | None:
    """The one signal that a unit depends on through the previous units, or None for a constant."""
    names = {name for unit in np.flatnonzero(weights) if (name := reads[unit]) is not None}
    if len(names) > 1:
        raise ProofError(f"{what} depends on {', '.join(sorted(names))}, not on one signal")
    return names.pop() if names else None


def _affine(values: list[Floats], weights: Floats, bias: float, size: int) -> Floats:
    """Affine function of units that all depend on one signal, for each of the signal's values."""
    total: Floats = np.full(size, bias)
    for unit in np.flatnonzero(weights):
        total = total + weights[unit] * values[unit]
    return total


def _check_peaks(program: IntegerProgram, task: Averaging) -> None:
    """Checks by interval arithmetic that every signal is between 0 and its peak."""
    floors = {
        step.result: step for step in program.instructions if isinstance(step, FloorInstruction) and not step.offset
    }
    bounds = dict(zip(program.inputs, task.input_steps.tolist(), strict=True))
    for step in program.instructions:
        if isinstance(step, FloorInstruction):
            bounds[step.result] = (bounds[step.signal] + step.offset) // step.divisor
        else:
            bounds[step.result] = _sum_bound(step, bounds, floors)
    for name, bound in bounds.items():
        if bound > program.peaks[name]:
            raise ProofError(f"signal {name} reaches {bound}, its peak is {program.peaks[name]}")


def _sum_bound(step: SumInstruction, bounds: dict[str, int], floors: dict[str, FloorInstruction]) -> int:
    """Largest value of a sum: for the remainder of a floor its divisor minus 1, otherwise the sum of the maxima."""
    negative = [name for name, factor in step.terms.items() if factor < 0]
    if not negative:
        return sum(factor * bounds[name] for name, factor in step.terms.items())
    floor = floors.get(negative[0])
    (positive,) = (name for name in step.terms if name != negative[0]) if len(step.terms) == 2 else (None,)
    if floor is not None and positive is not None and step.terms[positive] == 1:
        factor = -step.terms[negative[0]]
        if floor.signal == positive and floor.divisor == factor:
            return min(bounds[positive], factor - 1)
        # The difference of two floors of one signal: floor(t / n) - f floor(t / nf) is the remainder of floor(t / n).
        finer = floors.get(positive)
        if finer is not None and finer.signal == floor.signal and finer.divisor * factor == floor.divisor:
            return min(bounds[positive], factor - 1)
    raise ProofError(f"sum {step.result} subtracts more than the floor of its signal: it may be negative")


def _check_links(closed: ClosedForm, network: AveragingNetwork) -> None:
    """Checks that the signals each stage reads, and the outputs, are integer sums of the previous stage's signals."""
    names = averaging_program(network.task).inputs
    size = network.task.groups
    rows: dict[str, Floats] = {
        name: resolution * np.eye(size, size + 1)[i]
        for i, (name, resolution) in enumerate(zip(names, network.task.input_resolution, strict=True))
    }
    for stage in closed.stages:
        for name, row in stage.before.items():
            if np.abs(_total(rows, stage.reads[name]) - row).max() > ROUNDING:
                raise ProofError(f"{name} is not the sum of the previous stage's signals that it should be")
        rows = stage.after
    for index, (terms, divisor) in enumerate(closed.outputs):
        row = np.append(closed.last.weight[index], closed.last.bias[index])
        if np.abs(_total(rows, terms) / divisor - row).max() > ROUNDING:
            raise ProofError(f"output {index} is not the sum of the last stage's signals that it should be")


def _total(rows: dict[str, Floats], terms: dict[str, int]) -> Floats:
    total: Floats = np.zeros_like(next(iter(rows.values())))
    for name, factor in terms.items():
        total = total + factor * rows[name]
    return total
