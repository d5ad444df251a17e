"""What every factorisation refuses at its door."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def as_matrix(name: str, value: ArrayLike) -> NDArray[Any]:
    """The argument as a finite, non-empty matrix in double precision.

    Args:
        name: The argument's name, for messages.
        value: (rows, columns), of integers, floats or complex numbers.

    Returns:
        A float64 copy for real input, a complex128 copy for complex input.

    Raises:
        ValueError: Not numeric, not two-dimensional, empty, or not finite.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise ValueError(f"{name} has dtype {array.dtype}; give a numeric array, integer, float or complex")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; give a matrix with two dimensions")
    if array.size == 0:
        raise ValueError(f"{name} is empty, shape {array.shape}; give at least one row and one column")
    if not np.all(np.isfinite(array)):
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(
            f"{name}[{row}, {column}] is {array[row, column]}; every entry must be finite, replace or drop it"
        )
    matrix = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    if not np.all(np.isfinite(matrix)):
        raise ValueError(f"{name} holds values beyond double precision's 1.8e308; rescale it")
    return matrix
