"""Exact networks in closed form, with one or a few layers per floor instruction of the averaging program.

**Smallest chain.** The floor of an integer is a staircase of ReLUs, floor(u / n) = Σ_j step_j, where step_j rises from
0 to 1 between jn - 1 and jn: ReLU(u - (jn - 1)) - ReLU(u - jn), or equivalently 1 + ReLU(jn - 1 - u) - ReLU(jn - u).
Each step uses the pair with the smaller maximum, which has the smaller errors. Signals for later instructions pass a
ReLU unchanged, as they are not negative. The last staircase has rising steps only: falling steps need a constant at
the output, where receivers detect light and no electronics could add it.

**Regenerating chain.** A ReLU of slope 1 transmits every error, and pairs of them need large weights. Here each step is
a bit that is clipped at both ends: z = G (u - (jn - 1/2)) + 1/2 is at least 1 where the bit is 1 and at most 0 where
it is 0, if G is at least 1, and errors below (G - 1) / 2G steps of u have no effect. a = ReLU(1 - z) clips one end,
ReLU(1 - a) the other. As the maximum of a is A = G (jn - 1/2) + 1/2, this is a gain of A in normalised signals. Errors
are proportional to a layer's gain and affect all its signals, also those passed on, so the gain is distributed over
several layers: h_1 = ReLU(1 - k_1 a), h_i+1 = ReLU(1 - (k_i+1 / k_i) (1 - h_i)) up to k_s = 1 have the gain A^(1/s)
each. Where z has the larger range at the other end, ReLU(z) is used and the bit is inverted: a larger A means a
smaller gain in the layer of a. Signals passed on have several copies and are read as their mean. Digits are formed at
the output, as the difference of a signal and its carry needs further gain.

**Unary chain.** Every signal is a sum of bits, where bit j means that the signal is at least j, so that a bit's error
is a fraction of one step however large the signal is. The first stage converts the inputs to bits. A bit for a later
stage is inverted in every layer, ReLU(1 - 1.2 bit): a 1 becomes an exact 0, which removes its error, so that errors do
not accumulate. Floors are staircases of clipped bits as in the regenerating chain; floors that do not depend on each
other share their layers. The network needs many units: fifteen bits where another chain has one signal in a few copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form._stage_program import (
    FloorInstruction,
    IntegerProgram,
    SumInstruction,
    averaging_program,
)
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
from optinc_pdk.networks.layers import Layer
from optinc_pdk.networks.network import AveragingNetwork

GAIN = 1.5
"""Slope of a regenerated bit: it removes errors up to a sixth of a step; more needs gain. Engineering default."""


StageBuilder = Callable[[dict[str, Floats], FloorInstruction, int, bool, bool], tuple[list[Layer], dict[str, Floats]]]
"""Function that creates the layers of one floor.

Its arguments are the rows of all signals, the floor, the peak of its signal, whether that signal is kept, and whether
the stage is the last. It returns the layers, and the rows of all signals over the units of the last of them.
"""


def carry_chain(task: Averaging) -> AveragingNetwork:
    """Build the smallest exact network in closed form; for 4 bits and 4 servers its structure is 2-6-7-2.

    The task may be one of a cascade. Outputs are whole levels, or whole steps of the remainder, so the margin is 0.5.
    The last layer has no bias.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.networks import carry_chain
        >>> carry_chain(op.Averaging(bits=4, servers=4, groups=2)).structure
        (2, 6, 7, 2)

    Raises:
        InputError: A layer would have more than `optinc_pdk.networks.closed_form.stage.MAX_UNITS` units.
    """
    closed = compile_program(averaging_program(task), task, smallest_stage)
    return AveragingNetwork(closed.layers, task, card={"recipe": "carry_chain"})


def regenerating_chain(task: Averaging, copies: int = 1, amplifiers: int = 3) -> AveragingNetwork:
    """Build an exact network that has more layers than `carry_chain` and tolerates much larger matrix errors.

    Its margin is 0.5 and its last layer has no bias.

    Args:
        task: Any averaging task, including those of a cascade.
        copies: Number of parallel units that carry each signal which waits for a later layer.
        amplifiers: Number of layers that share the slope of the steps by which a signal is rounded.

    Raises:
        ValueError: `copies` or `amplifiers` is not a whole number of at least 1.
        InputError: A layer would have more than `optinc_pdk.networks.closed_form.stage.MAX_UNITS` units.
    """
    for name, value in (("copies", copies), ("amplifiers", amplifiers)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} = {value} must be a whole number of at least 1")
    card = {"recipe": "regenerating_chain", "copies": copies, "amplifiers": amplifiers}
    build = partial(regenerating_stage, copies=copies, amplifiers=amplifiers)
    return AveragingNetwork(compile_program(averaging_program(task, late=True), task, build).layers, task, card=card)


def _network(
    program: IntegerProgram, task: Averaging, build: StageBuilder, card: dict[str, object]
) -> AveragingNetwork:
    return AveragingNetwork(compile_program(program, task, build).layers, task, card=card)


def compile_program(program: IntegerProgram, task: Averaging, build: StageBuilder) -> ClosedForm:
    """Compile the integer program of a task into a closed-form network, with one stage per floor instruction.

    Sums need no layer, and a floor whose result is always 0 needs no stage. ``build`` is `smallest_stage`, or
    `regenerating_stage` with its last two arguments fixed.
    """
    size = task.groups
    scales = dict(zip(program.inputs, task.input_resolution, strict=True))
    rows = {name: scales[name] * np.eye(size, size + 1)[i] for i, name in enumerate(program.inputs)}
    sums: dict[str, dict[str, int]] = {name: {name: 1} for name in rows}
    floors = [
        step for step in program.instructions if isinstance(step, FloorInstruction) and program.peaks[step.result]
    ]
    stages: list[Stage] = []
    for index, step in enumerate(program.instructions):
        needed = program.needed_after(index)
        if not isinstance(step, FloorInstruction):
            rows[step.result], sums[step.result] = combined_row(rows, step.terms), substituted_sum(sums, step.terms)
        elif not program.peaks[step.result]:
            rows[step.result], sums[step.result] = np.zeros(size + 1), {}
        else:
            before = {name: row for name, row in rows.items() if name in needed or name == step.signal}
            layers, rows = build(before, step, program.peaks[step.signal], step.signal in needed, step is floors[-1])
            size = layers[-1].outputs
            claims = {name: StageClaim(name) for name in rows} | {step.result: StageClaim(step.signal, step.divisor)}
            peaks = {name: program.peaks[name] for name in before}
            stages.append(Stage({name: sums[name] for name in before}, peaks, before, tuple(layers), rows, claims))
            sums = {name: {name: 1} for name in rows}
        kept = [name for name in rows if name in needed or name == step.result]
        rows, sums = {name: rows[name] for name in kept}, {name: sums[name] for name in kept}
    outputs = tuple((substituted_sum(sums, terms), divisor) for terms, divisor in program.outputs)
    last = layer_of([combined_row(rows, terms) / divisor for terms, divisor in program.outputs])
    return ClosedForm(tuple(stages), outputs, last)


class _Kink(NamedTuple):
    """Unit ReLU(u - shift), or ReLU(shift - u) if it falls, and its weight in the floor."""

    shift: int
    falls: bool
    sign: float


def _staircase(divisor: int, peak: int, rising: bool) -> tuple[list[_Kink], int]:
    """Units of floor(u / divisor) for u = 0 ... peak, and the constant that the falling steps need.

    With ``rising`` all steps rise; otherwise each step uses the direction with the smaller maximum.
    """
    kinks: list[_Kink] = []
    constant = 0
    for edge in range(divisor, peak + 1, divisor):
        falls = not rising and edge < peak - edge + 1
        constant += falls
        # A ReLU that is zero over the whole range is omitted.
        for shift, sign in ((edge - 1, 1.0), (edge, -1.0)):
            if (falls and shift > 0) or (not falls and shift < peak):
                kinks.append(_Kink(shift, falls, sign))
    return kinks, constant


def smallest_stage(
    before: dict[str, Floats], floor: FloorInstruction, peak: int, keep: bool, last: bool
) -> tuple[list[Layer], dict[str, Floats]]:
    """Create one layer that computes the floor of one signal as a staircase of ReLUs.

    Args:
        before: (units + 1,) row of every signal that this stage or a later one reads, over the previous layer's units.
            A signal that is always 0 needs no unit.
        floor: The floor instruction.
        peak: Largest value of its signal.
        keep: Whether the signal itself is needed later. It is then passed on as the difference of the two ReLUs at its
            middle kink; both are smaller than the signal, and the staircase already contains one of them.
        last: Whether the layer is the last hidden layer. The output layer cannot add a constant.

    Returns:
        The layer, in a list, and the row of every signal over its units.
    """
    signal = before[floor.signal]
    one = np.eye(1, signal.size, signal.size - 1)[0]
    check_units(2 * (peak // floor.divisor) + len(before))
    kinks, constant = _staircase(floor.divisor, peak, rising=last)
    middle = min(range(len(kinks)), key=lambda i: abs(2 * kinks[i].shift - peak))
    if keep and last:
        kinks.append(_Kink(0, False, 0.0))
    elif keep:
        kinks.append(_Kink(kinks[middle].shift, not kinks[middle].falls, 0.0))
    rows = [(shift * one - signal) if falls else (signal - shift * one) for shift, falls, _ in kinks]
    others = {name: row for name, row in before.items() if name != floor.signal}
    passed = {name: row for name, row in others.items() if row.any()}
    layer = layer_of([*rows, *passed.values()])
    units = np.eye(layer.outputs + 1)
    after = dict.fromkeys(others, np.zeros(layer.outputs + 1))
    after |= dict(zip(passed, units[len(rows) :], strict=False))
    if keep and last:
        after[floor.signal] = units[len(rows) - 1]
    elif keep:
        pair = units[middle] - units[len(rows) - 1]
        after[floor.signal] = kinks[middle].shift * units[-1] + (-pair if kinks[middle].falls else pair)
    steps = sum((kink.sign * unit for kink, unit in zip(kinks, units, strict=False)), constant * units[-1])
    return [layer], after | {floor.result: steps}


def regenerating_stage(
    before: dict[str, Floats], floor: FloorInstruction, peak: int, keep: bool, last: bool, copies: int, amplifiers: int
) -> tuple[list[Layer], dict[str, Floats]]:
    """Create amplifiers + 1 layers that compute the floor of one signal as a staircase of clipped bits.

    Arguments and result are those of `smallest_stage`, with the ``copies`` of units that carry a signal, and the number
    of layers over which the gain is distributed, ``amplifiers``, at least 1.

    Raises:
        InputError: A layer would have too many units.
    """
    check_units(peak // floor.divisor + copies * len(before))
    edges = np.arange(floor.divisor, peak + 1, floor.divisor)
    falling, rising = GAIN * (edges - 0.5) + 0.5, GAIN * (peak - edges + 0.5) + 0.5
    falls = falling >= rising
    tops = np.where(falls, falling, rising)
    passed_on = {name: row for name, row in before.items() if row.any() and (keep or name != floor.signal)}
    signal = before[floor.signal]
    one = np.eye(1, signal.size, signal.size - 1)[0]
    bits = GAIN * (signal - (edges[:, None] - 0.5) * one) + 0.5 * one
    bits[falls] = one - bits[falls]
    layers: list[Layer] = []
    gains = np.ones(edges.size)
    for number in range(amplifiers + 1):
        # The output layer has no constant to invert a bit with, so one unit provides it.
        constant = [np.eye(1, bits.shape[1], bits.shape[1] - 1)[0]] if last and number == amplifiers else []
        added = constant if not falls.all() else []
        layers.append(layer_of([*bits, *(row for row in passed_on.values() for _ in range(copies)), *added]))
        units = np.eye(layers[-1].outputs + 1)
        starts = edges.size + copies * np.arange(len(passed_on))
        passed_on = {
            name: units[start : start + copies].mean(axis=0) for name, start in zip(passed_on, starts, strict=True)
        }
        if number == 0:
            gains = tops ** (1.0 / amplifiers - 1.0)
            bits = units[-1] - gains[:, None] * units[: edges.size]
        else:
            following = gains * tops ** (1.0 / amplifiers)
            bits = units[-1] - (following / gains)[:, None] * (units[-1] - units[: edges.size])
            gains = following
    zero = {name: np.zeros(len(units)) for name, row in before.items() if not row.any()}
    bit_units, one = units[: edges.size], units[-2] if added else units[-1]
    return layers, zero | passed_on | {floor.result: np.where(falls[:, None], bit_units, one - bit_units).sum(axis=0)}


INVERSION_SLOPE = 1.2
"""Slope with which a bit is inverted: it removes errors up to a sixth of the bit. Engineering default."""


def unary_chain(task: Averaging, amplifiers: int = 3) -> AveragingNetwork:
    """Build an exact network whose signals are bits: the largest closed form, with the highest error tolerance.

    Its margin is 0.5 and its last layer has no bias. The gain of a staircase is distributed over ``amplifiers`` layers.

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
    """Conversion of a signal of largest value ``peak``, an integer sum of counts or of one input, to bits.

    Each bit is 1 from its edge on. ``level`` is the number of the stage that converts the signal, from 1.
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

    In the last stage, a unit provides the constant 1, which the output layer cannot add.
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
