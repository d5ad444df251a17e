"""Checks of arguments that every factorisation shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Floats


def as_numbers(name: str, value: ArrayLike) -> NDArray[Any]:
    """Convert an argument to a numeric array of any shape, without copying where possible.

    Raises:
        ValueError: Rows have different lengths, entries are masked, or the values are not numeric.
    """
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; make them equal") from None
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{name} has dtype {array.dtype}; give a numeric array, integer, float or complex")
    return array


def refuse_masked(name: str, value: object) -> None:
    """Raises ValueError if entries of a masked array are masked: their values are those under the mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        masked = np.argwhere(np.ma.getmaskarray(value))
        index, count = masked[0].tolist(), len(masked)
        raise ValueError(f"{name} has {count} masked entries, first {index}; replace them by numbers (filled)")


def check_finite(name: str, array: NDArray[Any]) -> None:
    """Raises ValueError if an entry is not finite; the message states the first such entry and its index."""
    if not np.all(np.isfinite(array)):
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name}{list(index)} is {array[index]}; every entry must be a finite number; replace it")


def as_matrix(name: str, value: ArrayLike, batch: bool = False) -> NDArray[Any]:
    """Convert an argument to a finite, non-empty matrix in double precision, a copy of type float64 or complex128.

    With ``batch``, (batch, rows, columns) is allowed as well as (rows, columns), also with an empty batch.

    Raises:
        ValueError: The value is not numeric, has other dimensions, is empty, or has an entry that is not finite.
    """
    array = as_numbers(name, value)
    if array.ndim != 2 and not (batch and array.ndim == 3):
        or_batch = ", or a batch of them with three" if batch else ""
        raise ValueError(f"{name} has shape {array.shape}; give a matrix with two dimensions{or_batch}")
    if 0 in array.shape[-2:]:
        raise ValueError(f"{name} is empty, shape {array.shape}; give at least one row and one column")
    check_finite(name, array)
    matrix = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name} holds values beyond 1.8e308, the largest number of double precision; rescale it")
    return matrix


def check_passive(name: str, values: Floats, largest: float) -> None:
    """Check that a passive chip can realise singular values or transmissions of any shape.

    ``largest`` corresponds to full transmission: 1 for transmissions, the scale for singular values.

    Raises:
        ValueError: largest is not positive and finite, or a value is outside [0, largest].
    """
    if not 0.0 < largest < np.inf:
        raise ValueError(f"{name} is relative to a scale of {largest}; the scale must be positive and finite")
    wrong = values[~((values >= 0.0) & (values <= largest * (1.0 + 1e-12)))]
    if wrong.size:
        raise ValueError(
            f"{name} holds {wrong.flat[0]:g}; a passive chip realises 0 to {largest:g}, put the rest into the scale"
        )
