"""Checks of array arguments of the averaging task."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def as_integers(name: str, values: ArrayLike, limit: int, least: int = 0) -> Integers:
    """Return values as 64-bit integers.

    Raises:
        ValueError: Values are not integers, or not within `least` ... `limit`.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} of type {array.dtype} must be integers")
    if array.size and (array.min() < least or array.max() > limit):
        raise ValueError(f"{name} must lie within {least} ... {limit}, got {array.min()} ... {array.max()}")
    return array.astype(np.int64)


def check_last_axes(name: str, array: NDArray[np.generic], axes: tuple[int, ...]) -> None:
    """Check the shape of an array's last axes.

    Raises:
        ValueError: The shape differs from `axes`.
    """
    if array.shape[-len(axes) :] != axes:
        expected = ", ".join(str(axis) for axis in axes)
        raise ValueError(f"{name} of shape {array.shape} must end in ({expected})")
