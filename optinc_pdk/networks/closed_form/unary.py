"""Unary chain: an exact network that represents every signal by bits and tolerates the largest errors.

Every signal is a sum of bits, where bit j means that the signal is at least j, so that a bit's error is a fraction of
one step however large the signal is. The first stage converts the inputs to bits. A bit for a later stage is inverted
in every layer, ReLU(1 - 1.2 bit): a 1 becomes an exact 0, which removes its error, so that errors do not accumulate.
Floors are staircases of clipped bits as in the regenerating chain; floors that do not depend on each other share
their layers.

The network needs many units: fifteen bits where another chain has one signal in a few copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form.chain import GAIN
from optinc_pdk.networks.closed_form.program import FloorInstruction, IntegerProgram, SumInstruction, averaging_program
from optinc_pdk.networks.closed_form.stage import (
    ClosedForm,
    Row,
    Stage,
    StageClaim,
    check_units,
    combined_row,
    layer_of,
    substituted_sum,
)
from optinc_pdk.networks.network import AveragingNetwork, Layer

INVERSION_SLOPE = 1.2
"""Slope with which a bit is inverted: it removes errors up to a sixth of the bit. Engineering default."""


def unary_chain(task: Averaging, amplifiers: int = 3) -> AveragingNetwork:
    """Builds an exact network whose signals are bits: the largest closed form, with the highest error tolerance.

    Args:
        task: Any averaging task, including those of a cascade.
        amplifiers: Number of layers over which the gain of a staircase is distributed.

    Returns:
        The network; its margin is 0.5 and its last layer has no bias.

    Raises:
        ValueError: `amplifiers` is not a whole number of at least 1.
        InputError: A layer would have more than `optinc_pdk.networks.closed_form.stage.MAX_UNITS` units.
    """
    if not isinstance(amplifiers, int) or amplifiers < 1:
        raise ValueError(f"amplifiers = {amplifiers} must be a whole number of at least 1")
    card = {"recipe": "unary_chain", "amplifiers": amplifiers}
    return AveragingNetwork(unary_stages(task, amplifiers).layers, task, card=card)


@dataclass(frozen=True)
class _Count:
    """Conversion of a signal to bits.

    Attributes:
        name: Common name of the bits.
        terms: The signal, as an integer sum of counts or of one input.
        edges: Smallest values of the signal for which each bit is 1.
        peak: Largest value of the signal.
        level: Number of the stage that converts it, from 1.
    """

    name: str
    terms: dict[str, int]
    edges: range
    peak: int
    level: int

    @property
    def signal(self) -> str:
        """Name of the sum; several counts may have the same one."""
        return " + ".join(f"{factor} {name}" for name, factor in self.terms.items())

    def bits(self) -> list[str]:
        """Names of the bits."""
        return [f"{self.name}>={edge}" for edge in self.edges]


def _plan(program: IntegerProgram) -> tuple[dict[str, _Count], list[tuple[dict[str, int], int]]]:
    """All counts by name, and the outputs as sums of counts with their divisors."""
    counts: dict[str, _Count] = {}
    # Every signal of the program as a sum: floors read the sum itself, sums and outputs read its count.
    direct: dict[str, dict[str, int]] = {name: {name: 1} for name in program.inputs}
    counted: dict[str, dict[str, int]] = {}
    added = {name for step in program.instructions if isinstance(step, SumInstruction) for name in step.terms}
    read_by_outputs = {name for terms, _ in program.outputs for name in terms}

    def count(name: str, signal: str, divisor: int) -> dict[str, int]:
        terms, peak = direct[signal], program.peaks[signal]
        level = 1 + max((counts[part].level for part in terms if part in counts), default=0)
        counts[name] = _Count(name, terms, range(divisor, peak + 1, divisor), peak, level)
        return {name: 1}

    for name in program.inputs:
        counted[name] = count(f"{name}'", name, 1) if name in added | read_by_outputs else direct[name]
    for step in program.instructions:
        if isinstance(step, FloorInstruction):
            bits = count(step.result, step.signal, step.divisor) if program.peaks[step.result] else {}
            direct[step.result] = counted[step.result] = bits
            continue
        direct[step.result] = counted[step.result] = substituted_sum(counted, step.terms)
        if min(step.terms.values()) < 0 and step.result in added:
            counted[step.result] = count(f"{step.result}'", step.result, 1)
    return counts, [(substituted_sum(counted, terms), divisor) for terms, divisor in program.outputs]


def unary_stages(task: Averaging, amplifiers: int) -> ClosedForm:
    """Creates the stages of the network that `unary_chain` returns; arguments as for `unary_chain`."""
    program = averaging_program(task, late=True)
    counts, sums = _plan(program)
    for level in {count.level for count in counts.values()}:
        check_units(sum(len(count.edges) for count in counts.values() if count.level == level))
    outputs = tuple((_in_bits(terms, counts), divisor) for terms, divisor in sums)
    size = task.groups
    rows: dict[str, Row] = {
        name: resolution * np.eye(size, size + 1)[i]
        for i, (name, resolution) in enumerate(zip(program.inputs, task.input_resolution, strict=True))
    }
    stages: list[Stage] = []
    levels = max(count.level for count in counts.values())
    for level in range(1, levels + 1):
        current = [count for count in counts.values() if count.level == level]
        read_later = {name for count in counts.values() if count.level > level for name in count.terms}
        read_later |= {name for terms, _ in sums for name in terms}
        kept = [count for count in counts.values() if count.level < level and count.name in read_later]
        passed_on = {bit: rows[bit] for count in kept for bit in count.bits()}
        reads = {count.signal: _in_bits(count.terms, counts) for count in current}
        before = {name: combined_row(rows, terms) for name, terms in reads.items()}
        layers, rows = _stage(
            current, [before[count.signal] for count in current], passed_on, amplifiers, last=level == levels
        )
        claims = {bit: StageClaim(bit) for bit in passed_on}
        for count in current:
            edges = zip(count.bits(), count.edges, strict=True)
            claims |= {bit: StageClaim(count.signal, edge, 1) for bit, edge in edges}
        peaks = {count.signal: count.peak for count in current} | dict.fromkeys(passed_on, 1)
        reads |= {bit: {bit: 1} for bit in passed_on}
        stages.append(Stage(reads, peaks, before | passed_on, tuple(layers), rows, claims))
    last = layer_of([combined_row(rows, terms) / divisor for terms, divisor in outputs])
    return ClosedForm(tuple(stages), outputs, last)


def _in_bits(terms: dict[str, int], counts: dict[str, _Count]) -> dict[str, int]:
    """Converts a sum of counts to a sum of bits; inputs are not changed."""
    return {
        bit: factor for name, factor in terms.items() for bit in (counts[name].bits() if name in counts else [name])
    }


def _stage(
    current: list[_Count], signals: list[Row], passed_on: dict[str, Row], amplifiers: int, last: bool
) -> tuple[list[Layer], dict[str, Row]]:
    """Layers that convert signals to bits and pass other bits on, and the rows of all bits over their last units.

    Args:
        current: Counts of this stage.
        signals: Rows of their signals.
        passed_on: Rows of the bits passed on to later stages, each of one unit.
        amplifiers: Number of layers over which the gain is distributed.
        last: Whether a unit provides the constant 1, which the output layer cannot add.
    """
    check_units(sum(len(count.edges) for count in current) + len(passed_on))
    one = np.eye(1, signals[0].size, signals[0].size - 1)[0]
    bits: list[Row] = []
    tops: list[float] = []
    falls: list[bool] = []
    for count, signal in zip(current, signals, strict=True):
        for edge in count.edges:
            falling, rising = GAIN * (edge - 0.5) + 0.5, GAIN * (count.peak - edge + 0.5) + 0.5
            bit = GAIN * (signal - (edge - 0.5) * one) + 0.5 * one
            falls.append(falling >= rising)
            tops.append(max(falling, rising))
            bits.append(one - bit if falls[-1] else bit)
    rises = np.array(tops)
    names = [bit for count in current for bit in count.bits()]
    layers: list[Layer] = []
    gains = np.ones(len(names))
    for number in range(amplifiers + 1):
        constant = [one] if last and number == amplifiers else []
        # A bit is p + q unit with q = ±1; the unit is inverted, the bit is not.
        inverted = [_inverted(row) for row in passed_on.values()]
        layers.append(layer_of([*bits, *inverted, *constant]))
        units = np.eye(layers[-1].outputs + 1)
        one = units[-1]
        rows, rest = units[: len(names)], units[len(names) :]
        passed_on = {
            name: (row[-1] + row[:-1].sum()) * one - row[:-1].sum() * unit
            for (name, row), unit in zip(passed_on.items(), rest, strict=False)
        }
        following = rises ** (1.0 / amplifiers - 1.0) if number == 0 else gains * rises ** (1.0 / amplifiers)
        level = rows if number == 0 else (one - rows) / gains[:, None]
        bits = list(one - following[:, None] * level)
        gains = following
    if last:
        one = units[-2]
        passed_on = {name: np.append(row[:-1], 0.0) + row[-1] * one for name, row in passed_on.items()}
    counted = {name: unit if fall else one - unit for name, unit, fall in zip(names, rows, falls, strict=True)}
    return layers, passed_on | counted


def _inverted(row: Row) -> Row:
    """One minus the unit of a bit, with a slope above 1 so that a 1 becomes an exact 0."""
    unit = np.append(np.abs(row[:-1]), 0.0)
    inverted: Row = np.eye(1, row.size, row.size - 1)[0] - INVERSION_SLOPE * unit
    return inverted
