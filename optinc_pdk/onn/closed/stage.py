"""What a few layers of a closed form read, hold and claim: the unit in which it is built, and proved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.network import Layer

Floats = NDArray[np.float64]
Row = Floats
"""An affine function of a layer's units: a coefficient for each, and a constant at the end."""


@dataclass(frozen=True)
class Claim:
    """result = min(floor(source / divisor), most)."""

    source: str
    divisor: int = 1
    most: int | None = None


@dataclass(frozen=True, eq=False)
class Stage:
    """One hidden layer of a closed form, or several in a row.

    Attributes:
        reads: Per signal that it reads, the integer sum of what the stage below holds, or of the inputs.
        peaks: Largest value of each of these signals.
        before: The same signals as rows over the units below.
        layers: Its layers.
        after: What the units of its last layer hold, as rows over them.
        claims: Per row of `after`, what it is of a signal of `before`.
    """

    reads: dict[str, dict[str, int]]
    peaks: dict[str, int]
    before: dict[str, Row]
    layers: tuple[Layer, ...]
    after: dict[str, Row]
    claims: dict[str, Claim]


@dataclass(frozen=True, eq=False)
class Closed:
    """A closed form.

    Attributes:
        stages: Its stages, in order.
        outputs: Per output, the integer sum of what the last stage holds, and its divisor.
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
    """A layer whose units are rows over the units below."""
    table = np.array(rows)
    return Layer(table[:, :-1], table[:, -1])


def combined(rows: dict[str, Row], terms: dict[str, int]) -> Row:
    """The row of an integer sum of signals."""
    total: Row = np.sum([factor * rows[name] for name, factor in terms.items()], axis=0)
    return total


def expanded(known: dict[str, dict[str, int]], terms: dict[str, int]) -> dict[str, int]:
    """An integer sum of signals, in terms of what each of them is a sum of."""
    total: dict[str, int] = {}
    for name, factor in terms.items():
        for part, inner in known[name].items():
            total[part] = total.get(part, 0) + factor * inner
    return total
