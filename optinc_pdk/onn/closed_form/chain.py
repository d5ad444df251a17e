"""The exact networks in closed form: every floor of the program is a layer, or a few.

The smallest. The floor of an integer is a staircase of ReLUs, floor(u / n) = Σ_j step_j, where step_j rises from 0 to 1
between jn - 1 and jn: ReLU(u - (jn - 1)) - ReLU(u - jn), or, the same seen from below, 1 + ReLU(jn - 1 - u) -
ReLU(jn - u). Each step takes the pair that stays smaller, so that little of it is active and its errors weigh
least. Signals that wait for their turn pass a ReLU unchanged, for all of them are nonnegative. The last staircase
only rises: its falling steps would leave a constant for the output, where there are receivers and no electronics
that could add one.

The one that regenerates. A ReLU that rises with slope 1 to its end carries every error on, and pairs of them are
told apart by large weights. Here each step is a bit that is clipped at both ends: z = G (u - (jn - 1/2)) + 1/2 is at
least 1 where the bit is 1 and at most 0 where it is 0, if G is at least 1, and errors below (G - 1) / 2G steps of u
leave no trace. a = ReLU(1 - z) clips one end, ReLU(1 - a) the other, and as a reaches A = G (jn - 1/2) + 1/2, that
is a gain of A in the gauge. Errors are of the size of a layer's gain and hit all its signals, also those that wait,
so the gain is better spread over several layers: h_1 = ReLU(1 - k_1 a), h_i+1 = ReLU(1 - (k_i+1 / k_i) (1 - h_i)) up
to k_s = 1 have the gain A^(1/s) each. Where z goes further at the other end, ReLU(z) is taken and the bit is read
upside down: a larger A is a smaller gain in the layer of a. Signals that wait go in several copies and are read as
their mean, and digits are formed at the output, for the difference of a signal and its carry is one more gain.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.closed_form.program import Floor, Program, averaging_program
from optinc_pdk.onn.closed_form.stage import Claim, Closed, Stage, combined, expanded, layer_of
from optinc_pdk.onn.network import Layer, Onn

Floats = NDArray[np.float64]


GAIN = 1.5
"""Slope of a regenerated bit: errors of a sixth of a step are forgotten; more costs gain. Engineering default."""


Build = Callable[[dict[str, Floats], Floor, int, bool, bool], tuple[list[Layer], dict[str, Floats]]]
"""Signals before, the floor, its signal's peak, whether the signal is kept, whether the stage is the last."""


def carry_chain(task: Averaging) -> Onn:
    """The smallest exact network, with margin 0.5; for 4 bits and 4 servers its structure is 2-6-7-2.

    Args:
        task: Any task; a level of a cascade, too.

    Returns:
        The network; its outputs are whole levels, or whole steps of the remainder, and its last layer has no
        bias.
    """
    return _onn(averaging_program(task), task, smallest, {"recipe": "carry_chain"})


def regenerating_chain(task: Averaging, copies: int = 1, amplifiers: int = 3) -> Onn:
    """An exact network with margin 0.5 that tolerates far larger errors of its matrices, with more layers.

    Args:
        task: Any task; a level of a cascade, too.
        copies: Units that carry every signal which waits.
        amplifiers: Layers over which the gain of a staircase is spread.

    Returns:
        The network, as for `carry_chain`.

    Raises:
        ValueError: `copies` or `amplifiers` is no whole number of at least 1.
    """
    for name, value in (("copies", copies), ("amplifiers", amplifiers)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} = {value} must be a whole number of at least 1")
    card = {"recipe": "regenerating_chain", "copies": copies, "amplifiers": amplifiers}
    build = partial(regenerating, copies=copies, amplifiers=amplifiers)
    return _onn(averaging_program(task, late=True), task, build, card)


def _onn(program: Program, task: Averaging, build: Build, card: dict[str, object]) -> Onn:
    return Onn(compile_program(program, task, build).layers, task, card=card)


def compile_program(program: Program, task: Averaging, build: Build) -> Closed:
    """A program as a network, a stage per floor; a floor that is always 0 takes none."""
    size = task.groups
    scales = dict(zip(program.inputs, task.input_resolution, strict=True))
    rows = {name: scales[name] * np.eye(size, size + 1)[i] for i, name in enumerate(program.inputs)}
    sums: dict[str, dict[str, int]] = {name: {name: 1} for name in rows}
    floors = [step for step in program.instructions if isinstance(step, Floor) and program.peaks[step.result]]
    stages: list[Stage] = []
    for place, step in enumerate(program.instructions):
        needed = program.needed_after(place)
        if not isinstance(step, Floor):
            rows[step.result], sums[step.result] = combined(rows, step.terms), expanded(sums, step.terms)
        elif not program.peaks[step.result]:
            rows[step.result], sums[step.result] = np.zeros(size + 1), {}
        else:
            before = {name: row for name, row in rows.items() if name in needed or name == step.signal}
            layers, rows = build(before, step, program.peaks[step.signal], step.signal in needed, step is floors[-1])
            size = layers[-1].outputs
            claims = {name: Claim(name) for name in rows} | {step.result: Claim(step.signal, step.divisor)}
            peaks = {name: program.peaks[name] for name in before}
            stages.append(Stage({name: sums[name] for name in before}, peaks, before, tuple(layers), rows, claims))
            sums = {name: {name: 1} for name in rows}
        kept = [name for name in rows if name in needed or name == step.result]
        rows, sums = {name: rows[name] for name in kept}, {name: sums[name] for name in kept}
    outputs = tuple((expanded(sums, terms), divisor) for terms, divisor in program.outputs)
    last = layer_of([combined(rows, terms) / divisor for terms, divisor in program.outputs])
    return Closed(tuple(stages), outputs, last)


class _Kink(NamedTuple):
    """A unit ReLU(u - shift), or ReLU(shift - u) if it falls, and its weight in the floor."""

    shift: int
    falls: bool
    sign: float


def _staircase(divisor: int, peak: int, rising: bool) -> tuple[list[_Kink], int]:
    """Units of floor(u / divisor) for u = 0 ... peak, and the constant that the falling steps add.

    All of them rise if ``rising``; else each step takes the side that stays smaller.
    """
    kinks: list[_Kink] = []
    constant = 0
    for edge in range(divisor, peak + 1, divisor):
        falls = not rising and edge < peak - edge + 1
        constant += falls
        # A ReLU that is zero over the whole range is left out.
        for shift, sign in ((edge - 1, 1.0), (edge, -1.0)):
            if (falls and shift > 0) or (not falls and shift < peak):
                kinks.append(_Kink(shift, falls, sign))
    return kinks, constant


def smallest(
    before: dict[str, Floats], floor: Floor, peak: int, keep: bool, last: bool
) -> tuple[list[Layer], dict[str, Floats]]:
    """One layer with the staircase of one signal, and what its units then hold.

    Args:
        before: Rows of all signals that are read; a constant zero needs no unit.
        floor: The instruction.
        peak: Largest value of its signal.
        keep: Whether the signal itself is still wanted: it goes on as the difference of the two ReLUs at its
            middle kink, one of which the staircase has anyway, both smaller than the signal.
        last: Whether the layer is the last hidden one, which must need no constant from the output layer.
    """
    signal = before[floor.signal]
    one = np.eye(1, signal.size, signal.size - 1)[0]
    kinks, constant = _staircase(floor.divisor, peak, rising=last)
    middle = min(range(len(kinks)), key=lambda i: abs(2 * kinks[i].shift - peak))
    if keep and last:
        kinks.append(_Kink(0, False, 0.0))
    elif keep:
        kinks.append(_Kink(kinks[middle].shift, not kinks[middle].falls, 0.0))
    rows = [(shift * one - signal) if falls else (signal - shift * one) for shift, falls, _ in kinks]
    waiting = {name: row for name, row in before.items() if name != floor.signal}
    passed = {name: row for name, row in waiting.items() if row.any()}
    layer = layer_of([*rows, *passed.values()])
    units = np.eye(layer.outputs + 1)
    after = dict.fromkeys(waiting, np.zeros(layer.outputs + 1))
    after |= dict(zip(passed, units[len(rows) :], strict=False))
    if keep and last:
        after[floor.signal] = units[len(rows) - 1]
    elif keep:
        pair = units[middle] - units[len(rows) - 1]
        after[floor.signal] = kinks[middle].shift * units[-1] + (-pair if kinks[middle].falls else pair)
    steps = sum((kink.sign * unit for kink, unit in zip(kinks, units, strict=False)), constant * units[-1])
    return [layer], after | {floor.result: steps}


def regenerating(
    before: dict[str, Floats], floor: Floor, peak: int, keep: bool, last: bool, copies: int, amplifiers: int
) -> tuple[list[Layer], dict[str, Floats]]:
    """The layers of a staircase of clipped bits, and what the units of the last then hold; see `smallest`."""
    edges = np.arange(floor.divisor, peak + 1, floor.divisor)
    falling, rising = GAIN * (edges - 0.5) + 0.5, GAIN * (peak - edges + 0.5) + 0.5
    falls = falling >= rising
    tops = np.where(falls, falling, rising)
    waiting = {name: row for name, row in before.items() if row.any() and (keep or name != floor.signal)}
    signal = before[floor.signal]
    one = np.eye(1, signal.size, signal.size - 1)[0]
    bits = GAIN * (signal - (edges[:, None] - 0.5) * one) + 0.5 * one
    bits[falls] = one - bits[falls]
    layers: list[Layer] = []
    gains = np.ones(edges.size)
    for number in range(amplifiers + 1):
        # The output layer has nothing to turn a bit over with, so that one unit holds the constant.
        constant = [np.eye(1, bits.shape[1], bits.shape[1] - 1)[0]] if last and number == amplifiers else []
        turned = constant if not falls.all() else []
        layers.append(layer_of([*bits, *(row for row in waiting.values() for _ in range(copies)), *turned]))
        units = np.eye(layers[-1].outputs + 1)
        starts = edges.size + copies * np.arange(len(waiting))
        waiting = {
            name: units[start : start + copies].mean(axis=0) for name, start in zip(waiting, starts, strict=True)
        }
        if number == 0:
            gains = tops ** (1.0 / amplifiers - 1.0)
            bits = units[-1] - gains[:, None] * units[: edges.size]
        else:
            following = gains * tops ** (1.0 / amplifiers)
            bits = units[-1] - (following / gains)[:, None] * (units[-1] - units[: edges.size])
            gains = following
    dark = {name: np.zeros(len(units)) for name, row in before.items() if not row.any()}
    held, one = units[: edges.size], units[-2] if turned else units[-1]
    return layers, dark | waiting | {floor.result: np.where(falls[:, None], held, one - held).sum(axis=0)}
