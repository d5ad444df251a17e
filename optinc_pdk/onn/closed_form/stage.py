"""Stages of a closed-form network: a few layers, the signals they read and hold, and the function they realise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.network import Layer

Floats = NDArray[np.float64]
Row = Floats
"""(units + 1,) affine function of a layer's units: a coefficient for each, and a constant at the end."""


@dataclass(frozen=True)
class StageClaim:
    """Function of one signal that a result of a stage realises: min(floor(source / divisor), maximum)."""

    source: str
    divisor: int = 1
    maximum: int | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """One hidden layer of a closed-form network, or several consecutive ones.

    Attributes:
        reads: Per signal that the stage reads, its integer sum of signals of the previous stage, or of inputs.
        peaks: Largest value of each of these signals.
        before: The same signals as rows over the units of the previous stage.
        layers: The layers of the stage.
        after: The signals of the stage, as rows over the units of its last layer.
        claims: Per signal of `after`, its function of a signal of `before`.
    """

    reads: dict[str, dict[str, int]]
    peaks: dict[str, int]
    before: dict[str, Row]
    layers: tuple[Layer, ...]
    after: dict[str, Row]
    claims: dict[str, StageClaim]


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A closed-form network as stages.

    Attributes:
        stages: The stages, in order.
        outputs: Per output, the integer sum of signals of the last stage, and its divisor.
        last: The output layer.
    """

    stages: tuple[Stage, ...]
    outputs: tuple[tuple[dict[str, int], int], ...]
    last: Layer

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of the network."""
        return (*(layer for stage in self.stages for layer in stage.layers), self.last)


def layer_of(rows: list[Row]) -> Layer:
    """Layer whose units are the given rows over the previous units."""
    table = np.array(rows)
    return Layer(table[:, :-1], table[:, -1])


def combined(rows: dict[str, Row], terms: dict[str, int]) -> Row:
    """Row of an integer sum of signals, from the rows of the signals."""
    total: Row = np.sum([factor * rows[name] for name, factor in terms.items()], axis=0)
    return total


def expanded(known: dict[str, dict[str, int]], terms: dict[str, int]) -> dict[str, int]:
    """Substitutes the sum of each signal, given in `known`, into an integer sum of signals."""
    total: dict[str, int] = {}
    for name, factor in terms.items():
        for part, inner in known[name].items():
            total[part] = total.get(part, 0) + factor * inner
    return total
