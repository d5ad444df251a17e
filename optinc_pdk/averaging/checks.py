"""Arrays of the task, and the refusal of those that are none."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def integers(name: str, values: ArrayLike, limit: int, least: int = 0) -> Integers:
    """Values as 64-bit integers; refuses other numbers, and what is not within `least` ... `limit`."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} of type {array.dtype} must be integers")
    if array.size and (array.min() < least or array.max() > limit):
        raise ValueError(f"{name} must lie within {least} ... {limit}, got {array.min()} ... {array.max()}")
    return array.astype(np.int64)


def last_axes(name: str, array: NDArray[np.generic], axes: tuple[int, ...]) -> None:
    """Refuse an array whose last axes have another shape."""
    if array.shape[-len(axes) :] != axes:
        wanted = ", ".join(str(axis) for axis in axes)
        raise ValueError(f"{name} of shape {array.shape} must end in ({wanted})")
