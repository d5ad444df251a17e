"""Stages of a closed-form network: consecutive layers, the signals they read and compute, and their functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.onn.network import Layer

MAX_UNITS = 10_000
"""Largest number of units of a layer; its weight matrix then has at most 10^8 entries, 0.8 GB. Chips have hundreds."""
Floats = NDArray[np.float64]
Row = Floats
"""(units + 1,) affine function of a layer's units: a coefficient for each, and a constant at the end."""


@dataclass(frozen=True)
class StageClaim:
    """Claim that a result of a stage equals min(floor(source / divisor), maximum).

    Attributes:
        source: Name of the signal that the stage reads.
        divisor: Positive integer.
        maximum: Upper limit of the result; None for no limit.
    """

    source: str
    divisor: int = 1
    maximum: int | None = None


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
    """

    reads: dict[str, dict[str, int]]
    peaks: dict[str, int]
    before: dict[str, Row]
    layers: tuple[Layer, ...]
    after: dict[str, Row]
    claims: dict[str, StageClaim]


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A closed-form network as a sequence of stages.

    Attributes:
        stages: The stages, in order.
        outputs: For each output, the integer sum of signals of the last stage (factor by name), and its divisor.
        last: The output layer.
    """

    stages: tuple[Stage, ...]
    outputs: tuple[tuple[dict[str, int], int], ...]
    last: Layer

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the network, including the output layer."""
        return (*(layer for stage in self.stages for layer in stage.layers), self.last)


def check_units(units: int) -> None:
    """Check the number of units of a layer before its arrays are allocated.

    Args:
        units: Number of units.

    Raises:
        InputError: There are more than ``MAX_UNITS``.
    """
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
    """Returns the row of the sum Σ factor · signal.

    Args:
        rows: (units + 1,) row of each signal, by name.
        terms: Integer factor of each signal, by name.
    """
    total: Row = np.sum([factor * rows[name] for name, factor in terms.items()], axis=0)
    return total


def substituted_sum(known: dict[str, dict[str, int]], terms: dict[str, int]) -> dict[str, int]:
    """Expresses an integer sum of signals by other signals, by substitution.

    Args:
        known: For each signal, the integer sum that defines it: factor by name.
        terms: Integer factor of each signal in the sum, by name.

    Returns:
        Integer factor of each signal in the resulting sum, by name.
    """
    total: dict[str, int] = {}
    for name, factor in terms.items():
        for part, inner in known[name].items():
            total[part] = total.get(part, 0) + factor * inner
    return total
