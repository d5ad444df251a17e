"""Exact networks of comparators, whose hidden units clip at 0 and 1.

A comparator [t ≥ k] of an integer signal t is one unit, z = g (t - k + 1/2) + 1/2 with the gain g: z is at most
(1 - g) / 2 where the bit is 0 and at least (1 + g) / 2 where it is 1, so that errors of t below (g - 1) / 2g have no
effect. All comparators of one signal read the same optical row, and differ in their biases only.

A floor is a sum of comparators, ⌊t / n⌋ = Σ_j [t ≥ j n], and every layer contains all floors that can be computed.
Signals that wait for a later layer pass as t / peak, in one or in several equal units of one row: m units divide the
norm of the row that reads them by √m. Signals of small peak are regenerated instead, as the bits [t ≥ 1], [t ≥ 2], ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.closed_form._stage_program import FloorInstruction, IntegerProgram, SumInstruction
from optinc_pdk.networks.closed_form.comparator_programs import ProgramVariant, comparator_program
from optinc_pdk.networks.closed_form.stage import (
    ClosedForm,
    Row,
    Stage,
    StageClaim,
    check_units,
    combined_row,
    layer_of,
    same_layers,
    substituted_sum,
    unit_functions,
)
from optinc_pdk.networks.layers import Layer
from optinc_pdk.networks.network import AveragingNetwork

GAIN = 8.0
"""Slope of a comparator, per step of its signal: it removes errors up to 7/16 of a step. Engineering default."""


@dataclass(frozen=True)
class Placement:
    """How a program becomes layers.

    Attributes:
        gain: Slope of the comparators per step of their signals; at least 1.
        regenerate: Largest peak of a waiting signal that is regenerated as bits.
        spans: For each hidden layer, the largest number of steps per analogue unit: a waiting signal of a larger peak
            than `regenerate` is carried by ⌈peak / span⌉ equal units. Layers beyond the last entry, and those with 0,
            use one unit.
        bits: For each hidden layer, a larger peak of which waiting signals are regenerated as bits as well. The layers
            beyond the last entry, and those with 0, have none.
    """

    gain: float = GAIN
    regenerate: int = 1
    spans: tuple[int, ...] = ()
    bits: tuple[int, ...] = ()

    def regenerates(self, layer: int, peak: int) -> bool:
        """Whether a hidden layer regenerates waiting signals of this peak as bits."""
        return peak <= self.regenerate or (layer < len(self.bits) and peak == self.bits[layer])

    def copies(self, layer: int, peak: int) -> int:
        """Number of analogue units that carry a waiting signal through a hidden layer."""
        span = self.spans[layer] if layer < len(self.spans) else 0
        return -(-peak // span) if span else 1


def compile_comparators(program: IntegerProgram, task: Averaging, placement: Placement) -> ClosedForm:
    """Compile the integer program of a task into layers of comparators; every hidden layer is one stage.

    Raises:
        InputError: A layer would have too many units.
    """
    size, peaks = task.groups, program.peaks
    scales = dict(zip(program.inputs, task.input_resolution, strict=True))
    rows: dict[str, Row] = {name: scales[name] * np.eye(size, size + 1)[i] for i, name in enumerate(program.inputs)}
    sums: dict[str, dict[str, int]] = {name: {name: 1} for name in rows}
    todo = _used_instructions(program)
    read_by_outputs = {name for terms, _ in program.outputs for name in terms}
    stages: list[Stage] = []
    while True:
        todo = _resolve_sums(todo, rows, sums, peaks)
        floors = [step for step in todo if isinstance(step, FloorInstruction) and step.signal in rows]
        if not floors:
            break
        todo = [step for step in todo if step not in floors]
        needed = read_by_outputs | {name for step in todo for name in _reads(step)}
        waiting = [name for name in rows if name in needed]
        before = {name: rows[name] for name in rows if name in needed or any(name == step.signal for step in floors)}
        units = _units(len(stages), floors, waiting, list(before), peaks, placement)
        layer, after = _layer(before, floors, units, peaks, placement.gain)
        zero = np.zeros(layer.outputs + 1)
        rows = {name: after.get(name, zero) for name in [*waiting, *(step.result for step in floors)]}
        claims = {name: StageClaim(name) for name in waiting}
        claims |= {step.result: StageClaim(step.signal, step.divisor, offset=step.offset) for step in floors}
        stages.append(
            Stage(
                {name: sums[name] for name in before},
                {name: peaks[name] for name in before},
                before,
                (layer,),
                dict(rows),
                claims,
                np.concatenate([np.arange(len(one.edges) + one.copies) < len(one.edges) for one in units]),
            )
        )
        sums = {name: {name: 1} for name in rows}
    outputs = tuple((substituted_sum(sums, terms), divisor) for terms, divisor in program.outputs)
    last = layer_of([combined_row(rows, terms) / divisor for terms, divisor in program.outputs])
    return ClosedForm(tuple(stages), outputs, last)


def _reads(step: FloorInstruction | SumInstruction) -> list[str]:
    return [step.signal] if isinstance(step, FloorInstruction) else list(step.terms)


def _used_instructions(program: IntegerProgram) -> list[FloorInstruction | SumInstruction]:
    """The instructions on which an output depends, in order."""
    needed = {name for terms, _ in program.outputs for name in terms}
    used = []
    for step in reversed(program.instructions):
        if step.result in needed:
            needed |= set(_reads(step))
            used.append(step)
    return used[::-1]


def _resolve_sums(
    todo: list[FloorInstruction | SumInstruction],
    rows: dict[str, Row],
    sums: dict[str, dict[str, int]],
    peaks: dict[str, int],
) -> list[FloorInstruction | SumInstruction]:
    """Adds rows of all sums whose terms are known, and of floors that are always 0; returns the other instructions."""
    left = []
    size = next(iter(rows.values())).size
    for step in todo:
        if not peaks[step.result] and isinstance(step, FloorInstruction):
            rows[step.result], sums[step.result] = np.zeros(size), {}
        elif isinstance(step, SumInstruction) and all(name in rows for name in step.terms):
            rows[step.result], sums[step.result] = combined_row(rows, step.terms), substituted_sum(sums, step.terms)
        else:
            left.append(step)
    return left


@dataclass(frozen=True)
class _Units:
    """Units of a layer that read one signal: comparators with these edges, then `copies` equal analogue units."""

    signal: str
    edges: tuple[int, ...]
    copies: int


def _units(
    layer: int,
    floors: list[FloorInstruction],
    waiting: list[str],
    before: list[str],
    peaks: dict[str, int],
    placement: Placement,
) -> list[_Units]:
    """The units of one layer, by the signals that they read."""
    units = []
    for name in before:
        steps = [(step.divisor, step.offset) for step in floors if step.signal == name]
        copies = 0
        if name in waiting:
            if placement.regenerates(layer, peaks[name]):
                steps.append((1, 0))
            else:
                copies = placement.copies(layer, peaks[name])
        check_units(sum((peaks[name] + offset) // divisor for divisor, offset in steps) + copies)
        edges = sorted({edge for divisor, offset in steps for edge in _edges(divisor, offset, peaks[name])})
        if edges or copies:
            units.append(_Units(name, tuple(edges), copies))
    check_units(sum(len(one.edges) + one.copies for one in units))
    return units


def _edges(divisor: int, offset: int, peak: int) -> range:
    """Values of a signal at which floor((signal + offset) / divisor) rises."""
    return range(divisor - offset, peak + 1, divisor)


def _layer(
    before: dict[str, Row], floors: list[FloorInstruction], units: list[_Units], peaks: dict[str, int], gain: float
) -> tuple[Layer, dict[str, Row]]:
    """One layer of units, and the rows over it of the floors and of the signals that its units carry."""
    table: list[Row] = []
    places: dict[str, int] = {}
    for one in units:
        row, places[one.signal] = before[one.signal], len(table)
        unit = np.eye(1, row.size, row.size - 1)[0]
        table += [gain * (row - (edge - 0.5) * unit) + 0.5 * unit for edge in one.edges]
        table += [row / peaks[one.signal]] * one.copies
    after: dict[str, Row] = {}
    for one in units:
        start = places[one.signal]
        edges = np.array(one.edges, dtype=np.int64)
        for step in floors:
            if step.signal == one.signal:
                after[step.result] = np.zeros(len(table) + 1)
                after[step.result][start : start + edges.size] = (edges + step.offset) % step.divisor == 0
        row = np.zeros(len(table) + 1)
        if one.copies:
            row[start + edges.size : start + edges.size + one.copies] = peaks[one.signal] / one.copies
        else:
            row[start : start + edges.size] = 1.0
        after[one.signal] = row
    return layer_of(table), after


RECIPE = "comparators"
MAX_GAIN = 1e6
"""Largest slope: a limit of this program, far above what electronics reach."""


def card_program(task: Averaging, card: dict[str, Any]) -> IntegerProgram:
    """Return the integer program of the comparator network that a card describes; ValueError if it describes none."""
    return comparator_program(task, _choices(card)[0])


def card_form(task: Averaging, card: dict[str, Any]) -> ClosedForm:
    """Return the stages of the comparator network that a card describes.

    Raises:
        ValueError: The card does not describe a comparator network of the task.
    """
    variant, placement = _choices(card)
    return compile_comparators(comparator_program(task, variant), task, placement)


def _choices(card: dict[str, Any]) -> tuple[ProgramVariant, Placement]:
    if card.get("recipe") != RECIPE:
        raise ValueError("the network's card names no network of comparators; use a result of comparator_network")
    gain, regenerate, lift = card.get("gain"), card.get("regenerate"), card.get("lift")
    finish = card.get("finish", False)
    lists = {name: card.get(name) for name in ("banks", "splits", "spans")} | {"bits": card.get("bits", [])}
    whole = all(isinstance(value, int) and value >= 0 for value in (regenerate, lift)) and all(
        isinstance(values, list) and all(isinstance(v, int) or (v is None and name == "splits") for v in values)
        for name, values in lists.items()
    )
    if not whole or not isinstance(finish, bool) or not isinstance(gain, int | float) or not 1.0 <= gain <= MAX_GAIN:
        raise ValueError("the network's card has a damaged description of its comparators; use an unchanged network")
    banks, splits, spans, bits = (tuple(values or ()) for values in lists.values())
    variant = ProgramVariant(banks, splits, int(str(lift)), finish)
    return variant, Placement(float(gain), int(str(regenerate)), spans, bits)


def saturation_margins(network: AveragingNetwork) -> tuple[Floats, ...]:
    """Compute how far the comparators of a result of `comparator_network` are from the linear part of their
    characteristic.

    Returns:
        For each hidden layer a (units,) array: the largest m ≥ 0 such that the ideal pre-activation z of the unit is at
        most -m or at least 1 + m for every value of the signal that it reads, and so for every lattice point. NaN for
        analogue units.

    Raises:
        ValueError: The network is not the comparator network that its card names.
    """
    closed = card_form(network.task, network.card)
    if not same_layers(network.layers, closed.layers) or network.activation != "clipped_relu":
        raise ValueError("the network is not the comparator network that its card names; use an unchanged network")
    margins = []
    for stage in closed.stages:
        _, before = unit_functions(stage)
        margin = np.array([float(np.maximum(-z, z - 1.0).min()) for z in before])
        margins.append(margin if stage.comparators is None else np.where(stage.comparators, margin, np.nan))
    return tuple(margins)
