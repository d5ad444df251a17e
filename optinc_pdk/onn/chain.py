"""The exact network in closed form: every floor of the program is a layer.

The floor of an integer is a staircase of ReLUs, floor(u / n) = Σ_j step_j, where step_j rises from 0 to 1
between jn - 1 and jn: ReLU(u - (jn - 1)) - ReLU(u - jn), or, the same seen from below, 1 + ReLU(jn - 1 - u) -
ReLU(jn - u). Each step takes the pair that stays smaller, so that little of it is active and its errors weigh
least. Signals that wait for their turn pass a ReLU unchanged, for all of them are nonnegative. The last staircase
only rises: its falling steps would leave a constant for the output, where there are receivers and no electronics
that could add one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.network import Layer, Onn
from optinc_pdk.onn.program import Floor, Program, averaging_program

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stage:
    """What a hidden layer of the chain does.

    Attributes:
        floor: Its instruction.
        before: Signals that the layer reads: affine rows over the units below, one coefficient each and a
            constant at the end.
        after: Signals that its units hold: affine rows over them; the floor's result among them.
    """

    floor: Floor
    before: dict[str, Floats]
    after: dict[str, Floats]


def carry_chain(task: Averaging) -> Onn:
    """An exact network with margin 0.5; for 4 bits and 4 servers its structure is 2-6-7-2.

    Args:
        task: Any task; a level of a cascade, too.

    Returns:
        The network; its outputs are whole levels, or whole steps of the remainder, and its last layer has no
        bias.
    """
    return compile_program(averaging_program(task), task)[0]


def compile_program(program: Program, task: Averaging) -> tuple[Onn, tuple[Stage, ...]]:
    """A program as a network, and what each of its hidden layers does."""
    size = task.groups
    scales = dict(zip(program.inputs, task.input_resolution, strict=True))
    rows = {name: scales[name] * np.eye(size, size + 1)[i] for i, name in enumerate(program.inputs)}
    floors = [step for step in program.instructions if isinstance(step, Floor) and program.peaks[step.result]]
    layers: list[Layer] = []
    stages: list[Stage] = []
    for place, step in enumerate(program.instructions):
        needed = program.needed_after(place)
        if not isinstance(step, Floor):
            rows[step.result] = _combination(rows, step.terms)
        elif not program.peaks[step.result]:
            rows[step.result] = np.zeros(size + 1)
        else:
            waiting = [name for name in rows if name in needed and name != step.signal]
            layer, after = _stage(
                rows[step.signal],
                {name: rows[name] for name in waiting},
                step,
                program.peaks[step.signal],
                keep=step.signal in needed,
                last=step is floors[-1],
            )
            before = {name: rows[name] for name in (step.signal, *waiting)}
            layers.append(layer)
            stages.append(Stage(step, before, after))
            rows, size = after, layer.outputs
        rows = {name: row for name, row in rows.items() if name in needed or name == step.result}
    outputs = [_combination(rows, terms) / divisor for terms, divisor in program.outputs]
    layers.append(_layer(outputs))
    return Onn(tuple(layers), task, card={"recipe": "carry_chain"}), tuple(stages)


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


def _stage(
    signal: Floats, waiting: dict[str, Floats], floor: Floor, peak: int, keep: bool, last: bool
) -> tuple[Layer, dict[str, Floats]]:
    """A layer with the staircase of one signal, and what its units then hold.

    Args:
        signal: Row of the signal, of 0 ... peak.
        waiting: Rows of the other signals that are still wanted; a constant zero needs no unit.
        floor: The instruction.
        peak: Largest value of the signal.
        keep: Whether the signal itself is still wanted: it goes on as the difference of the two ReLUs at its
            middle kink, one of which the staircase has anyway, both smaller than the signal.
        last: Whether the layer is the last hidden one, which must need no constant from the output layer.
    """
    one = np.eye(1, signal.size, signal.size - 1)[0]
    kinks, constant = _staircase(floor.divisor, peak, rising=last)
    middle = min(range(len(kinks)), key=lambda i: abs(2 * kinks[i].shift - peak))
    if keep and last:
        kinks.append(_Kink(0, False, 0.0))
    elif keep:
        kinks.append(_Kink(kinks[middle].shift, not kinks[middle].falls, 0.0))
    rows = [(shift * one - signal) if falls else (signal - shift * one) for shift, falls, _ in kinks]
    passed = {name: row for name, row in waiting.items() if row.any()}
    layer = _layer([*rows, *passed.values()])
    units = np.eye(layer.outputs + 1)
    after = dict.fromkeys(waiting, np.zeros(layer.outputs + 1))
    after |= dict(zip(passed, units[len(rows) :], strict=False))
    if keep and last:
        after[floor.signal] = units[len(rows) - 1]
    elif keep:
        pair = units[middle] - units[len(rows) - 1]
        after[floor.signal] = kinks[middle].shift * units[-1] + (-pair if kinks[middle].falls else pair)
    steps = sum((kink.sign * unit for kink, unit in zip(kinks, units, strict=False)), constant * units[-1])
    return layer, after | {floor.result: steps}


def _combination(rows: dict[str, Floats], terms: dict[str, int]) -> Floats:
    total: Floats = np.sum([factor * rows[name] for name, factor in terms.items()], axis=0)
    return total


def _layer(rows: list[Floats]) -> Layer:
    """A layer from affine rows with the constant in the last column."""
    table = np.array(rows)
    return Layer(table[:, :-1], table[:, -1])
