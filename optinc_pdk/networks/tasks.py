"""The task of networks that do not average words, with what chips need to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError

DEFAULT_RANGE = (-1.0, 1.0)
"""Range of inputs that neither the network nor data state."""
RESERVE = 1.25
"""How far hidden ReLU signals may exceed their maxima over the data before a modulator saturates. Our choice."""
RANDOM_POINTS = 4096
"""Number of random inputs where there is no data."""
SEED = 0


@dataclass(frozen=True, eq=False)
class VectorTask:
    """The task of a general network: K real inputs, M real outputs, both of any sign.

    An input x is sent with the field amplitude x / (its largest magnitude), a negative one with the phase π.

    Attributes:
        inputs: Number of inputs K.
        outputs: Number of outputs M.
        input_range: (2, K) smallest and largest value of each input, as the network states it; None if it does not.
        data: (S, K) inputs over which the chip's signals are scaled; None for random inputs within the range.

    Raises:
        InputError: The range is no range, or data is beyond it.
    """

    inputs: int
    outputs: int
    input_range: Floats | None = None
    data: Floats | None = None

    servers: ClassVar[int] = 1
    """One source sends all inputs."""
    group_symbols: ClassVar[int] = 1
    """An input is one symbol."""
    receivers: ClassVar[int] = 1
    """Every output has one receiver."""
    remainder: ClassVar[bool] = False
    """The outputs go to no cascade."""
    enumerable: ClassVar[bool] = False
    """Inputs are real numbers, so that no list has all of them."""
    reserve: ClassVar[float] = RESERVE
    """How far hidden signals may exceed their maxima over the data."""
    default_amplitude: ClassVar[float] = 1.0
    """Amplitude of an input at its largest magnitude: the carrier's."""

    def __post_init__(self) -> None:
        """Check the range, and that data is within it."""
        if self.input_range is None:
            return
        stated = np.asarray(self.input_range)
        if stated.dtype.kind not in "iuf" or stated.shape not in ((2,), (2, self.inputs)):
            raise InputError(
                f"input_range is an array of {stated.dtype} and shape {stated.shape}; give the smallest and the "
                f"largest value, shape (2,), or those of each input, shape (2, {self.inputs})"
            )
        low, high = (np.broadcast_to(row, self.inputs) for row in stated.astype(np.float64))
        if not (np.isfinite(stated).all() and np.all(low < high)):
            raise InputError("input_range has a smallest value that is not below the largest, or no finite one")
        object.__setattr__(self, "input_range", np.array([low, high]))
        if self.data is None:
            return
        beyond = np.argwhere((self.data < low) | (self.data > high))
        if beyond.size:
            row, column = beyond[0].tolist()
            raise InputError(
                f"x[{row}, {column}] is {self.data[row, column]:g}, beyond {low[column]:g} … {high[column]:g}, the "
                "input_range of the network; scale the data as in the training, or state another range"
            )

    def __str__(self) -> str:
        """Describe the task; equal descriptions mean equal tasks."""
        stated = None if self.input_range is None else self.input_range.tolist()
        return f"{self.inputs} inputs, {self.outputs} outputs, range {stated}"

    @property
    def symbols(self) -> int:
        """Number of input fibres: one for each input."""
        return self.inputs

    @property
    def groups(self) -> int:
        """Number of network inputs."""
        return self.inputs

    @property
    def symbol_shares(self) -> Floats:
        """Share of the symbol in its input, (1,): all of it."""
        return np.ones(1)

    @cached_property
    def _range(self) -> Floats:
        """(2, K) smallest and largest value of each input."""
        if self.input_range is not None:
            return self.input_range
        if self.data is not None:
            return np.array([self.data.min(axis=0), self.data.max(axis=0)])
        return np.repeat(np.array(DEFAULT_RANGE)[:, np.newaxis], self.inputs, axis=1)

    @property
    def input_minima(self) -> Floats:
        """(K,) smallest value of each input: as stated, or of the data, or -1."""
        return np.asarray(self._range[0])

    @property
    def input_maxima(self) -> Floats:
        """(K,) largest value of each input: as stated, or of the data, or 1."""
        return np.asarray(self._range[1])

    def input_values(self, amplitudes: ArrayLike | None = None) -> Floats:
        """Return the (K,) value of each input that is sent with amplitude 1: its largest magnitude.

        An input that is 0 in all data has the largest value of the others. ``amplitudes`` belong to averaging tasks.

        Raises:
            ValueError: Amplitudes are given.
        """
        if amplitudes is not None:
            raise ValueError("the inputs of a general network are values, not levels; leave the amplitudes out")
        largest: Floats = np.abs(self._range).max(axis=0)
        return np.where(largest > 0.0, largest, largest.max() or 1.0)

    @cached_property
    def points(self) -> Floats:
        """(S, K) inputs over which signals are scaled, and which a check sends: the data, or random ones."""
        if self.data is not None:
            return self.data
        rng = np.random.default_rng(SEED)
        return rng.uniform(self.input_minima, self.input_maxima, (RANDOM_POINTS, self.inputs))

    def batches(self, points: int = 1 << 16) -> Iterator[Floats]:
        """Yield the points, at most so many at a time."""
        for start in range(0, len(self.points), points):
            yield self.points[start : start + points]


NetworkTask: TypeAlias = Averaging | VectorTask
"""Task of a network. N servers send M symbols each, which form K inputs; a general network has one server."""
