"""The exact network that tolerates most: after its first stage it carries nothing but bits.

Every signal is a sum of bits, bit j saying that it is at least j, so that a bit's error is a fraction of one step
however large the signal. The inputs are counted into bits at once. A bit that waits is turned over in every layer,
ReLU(1 - 1.2 bit): a 1 becomes an exact 0, and its error ends there, so that errors do not add up on the way. Floors
are staircases of clipped bits as in the regenerating chain; those that do not need each other share their layers.

It takes many units: fifteen bits where another chain has one signal in a few copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.closed_form.chain import GAIN
from optinc_pdk.onn.closed_form.program import Floor, Program, Sum, averaging_program
from optinc_pdk.onn.closed_form.stage import Claim, Closed, Row, Stage, combined, expanded, layer_of
from optinc_pdk.onn.network import Layer, Onn

TURN = 1.2
"""Slope with which a waiting bit is turned over: errors up to a sixth of it are forgotten. Engineering default."""


def unary_chain(task: Averaging, amplifiers: int = 3) -> Onn:
    """An exact network with margin 0.5 that carries bits only; large, and of the highest tolerance.

    Args:
        task: Any task; a level of a cascade, too.
        amplifiers: Layers over which the gain of a staircase is spread.

    Returns:
        The network, as for `carry_chain`.

    Raises:
        ValueError: `amplifiers` is no whole number of at least 1.
    """
    if not isinstance(amplifiers, int) or amplifiers < 1:
        raise ValueError(f"amplifiers = {amplifiers} must be a whole number of at least 1")
    card = {"recipe": "unary_chain", "amplifiers": amplifiers}
    return Onn(unary(task, amplifiers).layers, task, card=card)


@dataclass(frozen=True)
class _Count:
    """A signal counted into bits.

    Attributes:
        name: What the bits are called together.
        terms: The signal: an integer sum of counts, or of one input.
        edges: Values from which on each bit is 1.
        peak: Largest value of the signal.
        level: The stage that counts it, from 1.
    """

    name: str
    terms: dict[str, int]
    edges: range
    peak: int
    level: int

    @property
    def signal(self) -> str:
        """The sum in words; several counts may be of one."""
        return " + ".join(f"{factor} {name}" for name, factor in self.terms.items())

    def bits(self) -> list[str]:
        """Names of the bits."""
        return [f"{self.name}>={edge}" for edge in self.edges]


def _plan(program: Program) -> tuple[dict[str, _Count], list[tuple[dict[str, int], int]]]:
    """What is counted, by name, and the outputs as sums of it."""
    counts: dict[str, _Count] = {}
    # What every signal of the program is a sum of; floors read it as it is, sums and outputs read its count.
    direct: dict[str, dict[str, int]] = {name: {name: 1} for name in program.inputs}
    counted: dict[str, dict[str, int]] = {}
    added = {name for step in program.instructions if isinstance(step, Sum) for name in step.terms}
    shown = {name for terms, _ in program.outputs for name in terms}

    def count(name: str, signal: str, divisor: int) -> dict[str, int]:
        terms, peak = direct[signal], program.peaks[signal]
        level = 1 + max((counts[part].level for part in terms if part in counts), default=0)
        counts[name] = _Count(name, terms, range(divisor, peak + 1, divisor), peak, level)
        return {name: 1}

    for name in program.inputs:
        counted[name] = count(f"{name}'", name, 1) if name in added | shown else direct[name]
    for step in program.instructions:
        if isinstance(step, Floor):
            found = count(step.result, step.signal, step.divisor) if program.peaks[step.result] else {}
            direct[step.result] = counted[step.result] = found
            continue
        direct[step.result] = counted[step.result] = expanded(counted, step.terms)
        if min(step.terms.values()) < 0 and step.result in added:
            counted[step.result] = count(f"{step.result}'", step.result, 1)
    return counts, [(expanded(counted, terms), divisor) for terms, divisor in program.outputs]


def unary(task: Averaging, amplifiers: int) -> Closed:
    """The stages of `unary_chain`."""
    program = averaging_program(task, late=True)
    counts, sums = _plan(program)
    outputs = tuple((_in_bits(terms, counts), divisor) for terms, divisor in sums)
    size = task.groups
    held: dict[str, Row] = {
        name: resolution * np.eye(size, size + 1)[i]
        for i, (name, resolution) in enumerate(zip(program.inputs, task.input_resolution, strict=True))
    }
    stages: list[Stage] = []
    levels = max(count.level for count in counts.values())
    for level in range(1, levels + 1):
        now = [count for count in counts.values() if count.level == level]
        later = {name for count in counts.values() if count.level > level for name in count.terms}
        later |= {name for terms, _ in sums for name in terms}
        kept = [count for count in counts.values() if count.level < level and count.name in later]
        waiting = {bit: held[bit] for count in kept for bit in count.bits()}
        reads = {count.signal: _in_bits(count.terms, counts) for count in now}
        before = {name: combined(held, terms) for name, terms in reads.items()}
        layers, held = _stage(now, [before[count.signal] for count in now], waiting, amplifiers, last=level == levels)
        claims = {bit: Claim(bit) for bit in waiting}
        for count in now:
            edges = zip(count.bits(), count.edges, strict=True)
            claims |= {bit: Claim(count.signal, edge, 1) for bit, edge in edges}
        peaks = {count.signal: count.peak for count in now} | dict.fromkeys(waiting, 1)
        reads |= {bit: {bit: 1} for bit in waiting}
        stages.append(Stage(reads, peaks, before | waiting, tuple(layers), held, claims))
    last = layer_of([combined(held, terms) / divisor for terms, divisor in outputs])
    return Closed(tuple(stages), outputs, last)


def _in_bits(terms: dict[str, int], counts: dict[str, _Count]) -> dict[str, int]:
    """A sum of counts as one of bits; inputs stay what they are."""
    return {
        bit: factor for name, factor in terms.items() for bit in (counts[name].bits() if name in counts else [name])
    }


def _stage(
    now: list[_Count], signals: list[Row], waiting: dict[str, Row], amplifiers: int, last: bool
) -> tuple[list[Layer], dict[str, Row]]:
    """Layers that count signals into bits while others wait, and what their units then hold.

    Args:
        now: What is counted.
        signals: Their rows.
        waiting: Rows of the bits that wait, each of one unit.
        amplifiers: Layers over which the gain is spread.
        last: Whether a unit has to hold the constant 1, for the output layer can add none.
    """
    one = np.eye(1, signals[0].size, signals[0].size - 1)[0]
    bits: list[Row] = []
    tops: list[float] = []
    falls: list[bool] = []
    for count, signal in zip(now, signals, strict=True):
        for edge in count.edges:
            falling, rising = GAIN * (edge - 0.5) + 0.5, GAIN * (count.peak - edge + 0.5) + 0.5
            bit = GAIN * (signal - (edge - 0.5) * one) + 0.5 * one
            falls.append(falling >= rising)
            tops.append(max(falling, rising))
            bits.append(one - bit if falls[-1] else bit)
    rises = np.array(tops)
    names = [bit for count in now for bit in count.bits()]
    layers: list[Layer] = []
    gains = np.ones(len(names))
    for number in range(amplifiers + 1):
        constant = [one] if last and number == amplifiers else []
        # A bit is p + q unit with q = ±1; the unit is turned over, the bit is not.
        turned = [_turned(row) for row in waiting.values()]
        layers.append(layer_of([*bits, *turned, *constant]))
        units = np.eye(layers[-1].outputs + 1)
        one = units[-1]
        held, rest = units[: len(names)], units[len(names) :]
        waiting = {
            name: (row[-1] + row[:-1].sum()) * one - row[:-1].sum() * unit
            for (name, row), unit in zip(waiting.items(), rest, strict=False)
        }
        following = rises ** (1.0 / amplifiers - 1.0) if number == 0 else gains * rises ** (1.0 / amplifiers)
        level = held if number == 0 else (one - held) / gains[:, None]
        bits = list(one - following[:, None] * level)
        gains = following
    if last:
        one = units[-2]
        waiting = {name: np.append(row[:-1], 0.0) + row[-1] * one for name, row in waiting.items()}
    found = {name: unit if fall else one - unit for name, unit, fall in zip(names, held, falls, strict=True)}
    return layers, waiting | found


def _turned(row: Row) -> Row:
    """One minus the unit that holds a bit, a little steeper so that a 1 becomes an exact 0."""
    unit = np.append(np.abs(row[:-1]), 0.0)
    turned: Row = np.eye(1, row.size, row.size - 1)[0] - TURN * unit
    return turned
