"""Layers of networks: weights and biases, activations, and the structure of optical matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.factor import find_structure
from optinc_pdk.factor.checks import refuse_masked
from optinc_pdk.options import UPPER_LIMIT, Activation

FactorMethod = Literal["svd", "rows"] | tuple[Literal["approx"], int]
LARGEST = 1e30
"""Largest magnitude of a weight or bias; squares of larger ones would leave the range of double precision."""
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)
SMALLEST_MESH = 3
"""Smallest number of modes of a mesh with modes that are not at its edge."""
SAME_ROW = 1e-9
"""Largest difference of entries at which two rows of norm 1 count as equal."""


class WeightsError(InputError):
    """Error: weights cannot be used. The message states the file, the fault and the remedy."""


class UnstatedActivationError(WeightsError):
    """Error: a file of several layers does not state the activation between them."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear layer, y = W x + b.

    Examples:
        >>> import numpy as np
        >>> from optinc_pdk.networks import Layer
        >>> Layer(np.eye(3, 2), np.zeros(3)).outputs
        3

    Attributes:
        weight: W, shape (out, in), float64, read-only.
        bias: b, shape (out,), float64, read-only.

    Raises:
        ValueError: The arrays are not real floats up to ``LARGEST``, or their shapes do not match.
    """

    weight: Floats
    bias: Floats

    def __post_init__(self) -> None:
        """Check the arrays and keep read-only copies of them."""
        for name, dimensions, shape in (("weight", 2, "(out, in)"), ("bias", 1, "(out,)")):
            refuse_masked(name, getattr(self, name))
            array = np.asarray(getattr(self, name))
            if array.dtype.kind != "f":
                raise ValueError(f"{name} holds {array.dtype}, not floats: store it as float64")
            if array.ndim != dimensions or 0 in array.shape:
                raise ValueError(f"{name} has shape {array.shape}, not {shape} with sizes of at least 1")
            # extended precision may exceed the range of double precision, or hold bits that are no number
            with np.errstate(over="ignore", invalid="ignore"):
                copy = array.astype(np.float64, order="C")
            wrong = np.argwhere(~np.isfinite(copy))
            if wrong.size:
                place = ", ".join(map(str, wrong[0].tolist()))
                raise ValueError(
                    f"{name} holds NaN or infinity in {len(wrong):,} of {copy.size:,} values, the first is "
                    f"{name}[{place}]: train again, or repair the values"
                )
            if np.abs(copy).max() > LARGEST:
                raise ValueError(f"{name} holds {copy.flat[np.abs(copy).argmax()]:.3g}, beyond ±{LARGEST:g}: scale it")
            copy.setflags(write=False)
            object.__setattr__(self, name, copy)
        if self.weight.shape[0] != self.bias.shape[0]:
            raise ValueError(
                f"bias has {self.bias.shape[0]} values for a weight of {self.weight.shape[0]} rows: make them equal"
            )

    @property
    def outputs(self) -> int:
        """Number of outputs, which is the number of rows of the weight."""
        return int(self.weight.shape[0])

    @property
    def inputs(self) -> int:
        """Number of inputs, which is the number of columns of the weight."""
        return int(self.weight.shape[1])


def activate(signal: Floats, activation: Activation) -> Floats:
    """Apply an activation to pre-activations z in place, and return them.

    It is max(z, 0) for "relu", c = min(max(z, 0), 1) for "clipped_relu", and sin(π c / 2) for "sine".
    """
    np.clip(signal, 0.0, UPPER_LIMIT[activation], out=signal)
    if activation == "sine":
        np.sin(0.5 * np.pi * signal, out=signal)
    return signal


def propagate(layers: Sequence[Layer], points: Floats, activation: Activation = "relu") -> Floats:
    """Computes the outputs (..., out) of consecutive layers for inputs ``points`` (..., in).

    The activation is applied after every layer except the last.
    """
    signal = points
    for i, layer in enumerate(layers):
        signal = signal @ layer.weight.T
        signal += layer.bias
        if i < len(layers) - 1:
            activate(signal, activation)
    return signal


@dataclass(frozen=True)
class LayerPart:
    """Independent part of a layer's optical matrix.

    Attributes:
        rows: Its rows of the optical matrix.
        columns: Its columns, ascending.
    """

    rows: range
    columns: tuple[int, ...]


def shared_rows(weight: Floats) -> Ints:
    """Return the (out,) numbers, by first occurrence, of rows that count as one because they differ by a positive
    factor.

    Rows of zeros have -1.
    """
    norm = np.linalg.norm(weight, axis=1)
    used = np.flatnonzero(norm > 0.0)
    numbers = np.full(len(weight), -1, dtype=np.int64)
    unit = weight[used] / norm[used, np.newaxis]
    first: list[int] = []
    for i, row in zip(used.tolist(), unit, strict=True):
        same = np.flatnonzero(np.abs(unit[first] - row).max(axis=1) <= SAME_ROW) if first else np.zeros(0, np.int64)
        if not same.size:
            first.append(int(np.searchsorted(used, i)))
        numbers[i] = same[0] if same.size else len(first) - 1
    return numbers


def independent_parts(
    matrix: Floats, consecutive_columns: bool, consecutive_rows: bool
) -> list[tuple[list[int], tuple[int, ...]]]:
    """Divide a matrix into parts whose rows and columns share no non-zero entry with other parts.

    Where the columns, or the rows, of every part must be consecutive, parts between them are merged. Parts that are
    smaller than the largest one, but have rows or columns in their middle, are merged with it, because their meshes
    could not be made equally long by dummy MZIs.

    Returns:
        Rows and columns of each part, both ascending; parts are in the order of their first columns if these are
        consecutive, otherwise of their first rows. A row or column of zeros belongs to the part next to it.
    """
    found = find_structure(matrix)
    if not found.parts:
        return [(list(range(found.shape[0])), tuple(range(found.shape[1])))]
    row, column = (np.full(size, -1, dtype=np.int64) for size in found.shape)
    for number, part in enumerate(found.parts):
        row[part.rows], column[part.columns] = number, number
    row, column = row[_nearest(row >= 0)], column[_nearest(column >= 0)]
    merging = True
    while merging:
        before = int(np.unique(row).size)
        for asked, order in ((consecutive_columns, column), (consecutive_rows, row)):
            if asked:
                merged = _merged(order)
                row, column = merged[row], merged[column]
        for order in (column, row):
            merged = _without_padding(order, len(found.parts))
            row, column = merged[row], merged[column]
        merging = np.unique(row).size < before
    order = column if consecutive_columns else row
    return [
        (np.flatnonzero(row == part).tolist(), tuple(np.flatnonzero(column == part).tolist()))
        for part in dict.fromkeys(order.tolist())
    ]


def single_rows(matrix: Floats, first: bool) -> list[tuple[list[int], tuple[int, ...]]]:
    """Divide a matrix into its rows, each with the columns in which it is not zero.

    A column of zeros belongs to the first row, and a row of zeros has the first column. In the ``first`` layer, whose
    inputs are copied by splitters, every row has all columns unless no column is shared; rows are then in the order of
    their columns, which are consecutive.
    """
    used = matrix != 0.0
    used[0] |= ~used.any(axis=0)
    used[~used.any(axis=1), 0] = True
    order = np.arange(len(used))
    if first:
        order = np.argsort(used.argmax(axis=1), kind="stable")
        if not np.array_equal(np.nonzero(used[order])[1], np.arange(used.shape[1])):
            used[:], order = True, np.arange(len(used))
    return [([row], tuple(np.flatnonzero(used[row]).tolist())) for row in order.tolist()]


def _nearest(used: Bools) -> Ints:
    """For every entry, the last used entry up to it; for entries before the first used one, that one."""
    last = np.maximum.accumulate(np.where(used, np.arange(used.size), -1))
    return np.where(last < 0, int(used.argmax()), last)


def _without_padding(label: Ints, count: int) -> Ints:
    """New label of each of ``count`` labels: that of the largest part for parts of 3 or more modes that are smaller.

    On the chip all parts of a layer are as long as the largest one, and only modes at the edge of a part have space for
    the dummy MZIs that make them so.
    """
    sizes = np.bincount(label, minlength=count)
    return np.where((sizes >= SMALLEST_MESH) & (sizes < sizes.max()), sizes.argmax(), np.arange(count))


def _merged(label: Ints) -> Ints:
    """New label of every label, equal for labels whose ranges of positions overlap."""
    new = np.arange(label.max() + 1)
    end, current = -1, -1
    for position, each in enumerate(label.tolist()):
        if position > end:
            current = each
        new[each] = current
        end = max(end, int(np.flatnonzero(label == each)[-1]))
    return new
