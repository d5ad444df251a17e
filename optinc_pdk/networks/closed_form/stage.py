"""Stages of a closed-form network: consecutive layers, the signals they read and compute, and their functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Floats
from optinc_pdk.errors import InputError
from optinc_pdk.networks.layers import Layer

MAX_UNITS = 10_000
"""Largest number of units of a layer; its weight matrix then has at most 10^8 entries, 0.8 GB. Chips have hundreds."""
ROUNDING = 1e-9
"""Largest accepted error of a signal of one layer, in its integer steps."""
Row = Floats
"""(units + 1,) affine function of a layer's units: a coefficient for each, and a constant at the end."""


@dataclass(frozen=True)
class StageClaim:
    """Claim that a result of a stage equals min(floor((source + offset) / divisor), maximum).

    ``source`` is a signal that the stage reads; without a ``maximum`` there is no limit; 0 <= offset < divisor.
    """

    source: str
    divisor: int = 1
    maximum: int | None = None
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Stage:
    """One hidden layer of a closed-form network, or several consecutive ones.

    Attributes:
        reads: For each signal that the stage reads, the integer sum of signals of the previous stage (or of network
            inputs) that defines it: factor by name.
        peaks: Largest value of each signal that the stage reads.
        before: Row of each signal that the stage reads, over the units of the previous stage's last layer.
        layers: The layers of the stage.
        after: Row of each signal that the stage computes or passes on, over the units of its last layer.
        claims: For each signal of `after`, the function of one signal of `before` that it must equal.
        comparators: For a stage of one layer of clipped units, the mask (units,) of those that are always 0 or 1; None
            for a stage of ReLUs.
    """

    reads: dict[str, dict[str, int]]
    peaks: dict[str, int]
    before: dict[str, Row]
    layers: tuple[Layer, ...]
    after: dict[str, Row]
    claims: dict[str, StageClaim]
    comparators: Bools | None = None


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A closed-form network: its stages and its output layer.

    ``outputs`` has, for each output, the integer sum of signals of the last stage (factor by name), and its divisor.
    """

    stages: tuple[Stage, ...]
    outputs: tuple[tuple[dict[str, int], int], ...]
    last: Layer

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the network, including the output layer."""
        return (*(layer for stage in self.stages for layer in stage.layers), self.last)


def same_layers(layers: tuple[Layer, ...], others: tuple[Layer, ...]) -> bool:
    """Returns whether two sequences of layers have exactly the same weights and biases."""
    return len(layers) == len(others) and all(
        np.array_equal(layer.weight, other.weight) and np.array_equal(layer.bias, other.bias)
        for layer, other in zip(layers, others, strict=True)
    )


def unit_functions(stage: Stage) -> tuple[list[str | None], list[Floats]]:
    """Express every unit of a stage's first layer as a function of the one signal that it reads.

    Returns:
        Per unit, the signal, and its pre-activation for each value 0 ... peak of this signal.

    Raises:
        ValueError: A unit does not read exactly one signal.
    """
    names = list(stage.before)
    table = np.array([stage.before[name] for name in names])
    square = np.einsum("ij,ij->i", table[:, :-1], table[:, :-1])
    reads: list[str | None] = []
    values: list[Floats] = []
    for unit, (row, bias) in enumerate(zip(stage.layers[0].weight, stage.layers[0].bias, strict=True)):
        # The row must be a multiple of one signal's row.
        overlap = table[:, :-1] @ row
        factor = np.divide(overlap, square, out=np.zeros_like(overlap), where=square > 0.0)
        rest = np.abs(row - factor[:, None] * table[:, :-1]).max(axis=1)
        multiples = np.flatnonzero((factor != 0.0) & (rest <= ROUNDING))
        if multiples.size != 1:
            raise ValueError(f"unit {unit} of the stage with {', '.join(stage.after)} does not read exactly one signal")
        (index,) = multiples
        value = np.arange(stage.peaks[names[index]] + 1)
        reads.append(names[index])
        values.append(factor[index] * (value - table[index, -1]) + bias)
    return reads, values


def check_units(units: int) -> None:
    """Raise InputError before arrays are allocated if a layer would have more than ``MAX_UNITS`` units."""
    if units > MAX_UNITS:
        raise InputError(
            f"a layer of the network would have {units:,} units, the limit is {MAX_UNITS:,}; use fewer servers, bits "
            "or copies (--servers, --bits, --copies)"
        )


def layer_of(rows: list[Row]) -> Layer:
    """Creates a layer with one unit per row; a row holds the weights of a unit and, at the end, its bias."""
    table = np.array(rows)
    return Layer(table[:, :-1], table[:, -1])


def combined_row(rows: dict[str, Row], terms: dict[str, int]) -> Row:
    """Return the row (units + 1,) of the sum Σ factor · signal, from the rows of signals and their factors by name."""
    total: Row = np.sum([factor * rows[name] for name, factor in terms.items()], axis=0)
    return total


def substituted_sum(known: dict[str, dict[str, int]], terms: dict[str, int]) -> dict[str, int]:
    """Substitute the integer sums that define signals (``known``) into a sum; all are factors of signals by name."""
    total: dict[str, int] = {}
    for name, factor in terms.items():
        for part, inner in known[name].items():
            total[part] = total.get(part, 0) + factor * inner
    return total
