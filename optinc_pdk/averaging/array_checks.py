"""Checks of array arguments of the averaging task."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Ints


def as_integers(name: str, values: ArrayLike, limit: int, least: int = 0) -> Ints:
    """Convert integer values to int64 after checking their range.

    Args:
        name: Name of the argument, for messages.
        values: Ints, any shape.
        limit: Largest value allowed.
        least: Smallest value allowed.

    Returns:
        Values as int64, of the same shape.

    Raises:
        ValueError: The values are not of an integer type, or one is outside `least` ... `limit`.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} of type {array.dtype} must be integers")
    if array.size and (array.min() < least or array.max() > limit):
        raise ValueError(f"{name} must lie within {least} ... {limit}, got {array.min()} ... {array.max()}")
    return array.astype(np.int64)


def check_last_axes(name: str, array: NDArray[np.generic], axes: tuple[int, ...]) -> None:
    """Check that the shape of an array ends in given lengths.

    Args:
        name: Name of the argument, for the message.
        array: Array.
        axes: Required lengths of the last axes.

    Raises:
        ValueError: The last lengths of the shape are not `axes`.
    """
    if array.shape[-len(axes) :] != axes:
        expected = ", ".join(str(axis) for axis in axes)
        raise ValueError(f"{name} of shape {array.shape} must end in ({expected})")
