"""Data with which the chip of a general network is checked, and the comparison of chip and network over them.

With labels, a sample agrees if chip and network choose the same class: the largest output, or for one output class 1 if
it is above 0. Without labels, it agrees if every output is within the tolerance, a share of the largest magnitude of
any output of the network over the data.
"""

from __future__ import annotations

import hashlib
import reprlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import ArgumentError, InputError
from optinc_pdk.factor.checks import refuse_masked

DataKind = Literal["labels", "outputs", "inputs"]
"""What the data has besides inputs: labels, outputs, or nothing."""
KEYS = ("x", "y")
LARGEST = 1e30
"""Largest magnitude of a value, as of a weight; inputs that are all smaller than its reciprocal are refused too."""


@dataclass(frozen=True, eq=False)
class NetworkData:
    """S samples for a general network of K inputs and M outputs.

    Attributes:
        x: (S, K) inputs.
        labels: (S,) numbers of classes, 0 … M - 1, or 0 and 1 if the network has one output; None if there are none.
        outputs: (S, M) outputs that the network was trained for; None if there are none.
    """

    x: Floats
    labels: Ints | None = None
    outputs: Floats | None = None

    @property
    def kind(self) -> DataKind:
        """What the data has besides inputs."""
        if self.labels is not None:
            return "labels"
        return "inputs" if self.outputs is None else "outputs"

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays, in hexadecimal."""
        found = hashlib.sha256()
        for array in (self.x, self.labels, self.outputs):
            if array is not None:
                found.update(f"{array.dtype.kind} {array.shape}".encode())
                found.update(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes())
        return found.hexdigest()


def checked_data(x: ArrayLike, y: Any, inputs: int, outputs: int, classes: tuple[Any, ...] | None) -> NetworkData:
    """Check that arrays are data for a network of given sizes and classes, see :func:`check_data`."""
    points = _numbers("x", x, f"(samples, {inputs} inputs)")
    if points.ndim != 2 or points.shape[1] != inputs:
        raise InputError(
            f"x has shape {points.shape}, expected (samples, {inputs}): the network has "
            f"{inputs} inputs; give one column for each"
        )
    points = points.astype(np.float64)
    largest = float(np.abs(points).max())
    if 0.0 < largest < 1.0 / LARGEST:
        raise InputError(
            f"x of shape {points.shape} has values up to {largest:.3g} only, expected at least {1.0 / LARGEST:g}; "
            "scale the data and the first layer"
        )
    if y is None:
        return NetworkData(points)
    wanted = f"({len(points)},) labels or ({len(points)}, {outputs}) outputs"
    if classes is not None and np.ndim(y) == 1:
        y = _numbered(np.asarray(y), classes)
    given = _numbers("y", y, wanted)
    if len(given) != len(points):
        raise InputError(
            f"y has shape {given.shape}, expected {wanted}: x has {len(points):,} samples; give one row for each"
        )
    if given.ndim == 1 and given.dtype.kind in "iu":
        return NetworkData(points, labels=_labels(given, outputs))
    if given.ndim == 1 and outputs == 1:
        given = given[:, np.newaxis]
    if given.shape != (len(points), outputs):
        raise InputError(
            f"y has shape {given.shape} and dtype {given.dtype}, expected {wanted}; store labels as whole numbers"
        )
    # rows of one 1 are labels, whose comparison as outputs would say nothing of the classes
    if classes is not None and (given.dtype.kind in "iu" or _one_hot(given)):
        raise InputError(
            f"y has shape {given.shape} and whole numbers, and the network's card states classes "
            f"{reprlib.repr(list(classes))}; give the label of each sample, ({len(points)},), such as the "
            "class of y.argmax(axis=1)"
        )
    return NetworkData(points, outputs=given.astype(np.float64))


def _one_hot(given: NDArray[Any]) -> bool:
    """Whether every row has a single 1, and 0 else."""
    return bool(np.isin(given, (0.0, 1.0)).all() and (given.sum(axis=1) == 1.0).all())


def _numbers(name: str, value: ArrayLike, wanted: str) -> NDArray[Any]:
    """Array of finite real numbers, with one sample or more."""
    try:
        refuse_masked(name, value)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} has rows of different lengths, expected {wanted}") from None
    if array.dtype.kind not in "iuf":
        raise InputError(
            f"{name} has dtype {array.dtype} and shape {array.shape}, expected real numbers of shape {wanted}"
        )
    if array.size == 0 or array.ndim == 0:
        raise InputError(f"{name} has shape {array.shape} and no sample, expected {wanted}")
    wrong = np.argwhere(~np.isfinite(array))
    if wrong.size:
        place = ", ".join(map(str, wrong[0].tolist()))
        raise InputError(
            f"{name}[{place}] of shape {array.shape} is {array[tuple(wrong[0])]}, expected finite numbers; drop or "
            "replace the sample"
        )
    beyond = np.argwhere((array > LARGEST) | (array < -LARGEST)) if array.dtype.kind == "f" else wrong
    if beyond.size:
        place = ", ".join(map(str, beyond[0].tolist()))
        raise InputError(
            f"{name}[{place}] of shape {array.shape} is {array[tuple(beyond[0])]:.3g}, accepted are -{LARGEST:g} … "
            f"{LARGEST:g}; scale the data"
        )
    return array


def _numbered(given: NDArray[Any], classes: tuple[Any, ...]) -> Ints:
    """Labels as the numbers of their classes."""
    numbers = {each: number for number, each in enumerate(classes)}
    values = given.tolist()
    unknown = next((i for i, each in enumerate(values) if each not in numbers), None)
    if unknown is not None:
        raise InputError(
            f"y[{unknown}] of shape {given.shape} is the label {values[unknown]!r}, expected one of the network's "
            f"classes {reprlib.repr(list(classes))}; drop or correct the sample"
        )
    return np.array([numbers[each] for each in values], dtype=np.int64)


def _labels(given: NDArray[Any], outputs: int) -> Ints:
    """Labels as integers; checks that each is a class of the network."""
    classes = max(outputs, 2)
    beyond = np.flatnonzero((given < 0) | (given >= classes))
    if beyond.size:
        raise InputError(
            f"y[{beyond[0]}] of shape {given.shape} is the label {given[beyond[0]]}, expected 0 … {classes - 1}: the "
            f"network has {outputs} output{'s' * (outputs > 1)}; number the classes from 0, or store outputs as floats"
        )
    return given.astype(np.int64)


AGREEMENT = 0.999
"""Smallest accepted share of samples on which chip and network agree."""
TOLERANCE = 0.01
"""Largest accepted deviation of an output without labels, relative to the largest output."""


@dataclass(frozen=True)
class NetworkLimits:
    """What the chip of a general network must reach to pass.

    Attributes:
        agreement: Smallest share of samples on which chip and network agree, above 0 and up to 1.
        tolerance: Largest deviation of an output without labels, relative to the largest output, above 0 and up to 1.
        accuracy: Smallest share of samples for which the chip chooses the label, 0 … 1; None for no limit.
        rms_error: Largest root mean square of the differences of the chip's outputs from those of the data, in their
            unit; None for no limit.

    Raises:
        InputError: A value is out of range.
    """

    agreement: float = AGREEMENT
    tolerance: float = TOLERANCE
    accuracy: float | None = None
    rms_error: float | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("agreement", "tolerance"):
            value = getattr(self, name)
            if not 0.0 < value <= 1.0:
                raise ArgumentError(name, f"is {value:g}; give a share above 0 and at most 1")
        if self.accuracy is not None and not 0.0 <= self.accuracy <= 1.0:
            raise ArgumentError("accuracy", f"is {self.accuracy:g}; give a share of 0 to 1")
        if self.rms_error is not None and not 0.0 <= self.rms_error < np.inf:
            raise ArgumentError("rms_error", f"is {self.rms_error:g}; give a number from 0")


@dataclass(frozen=True, eq=False)
class NetworkComparison:
    """Outputs (S, M) of a chip, and those of its network in floating point (``expected``), for the same samples."""

    data: NetworkData
    limits: NetworkLimits
    expected: Floats
    outputs: Floats

    @cached_property
    def largest(self) -> float:
        """Largest magnitude of an output of the network, to which deviations are relative; 1 if all are 0."""
        return float(np.abs(self.expected).max()) or 1.0

    @cached_property
    def deviations(self) -> Floats:
        """(S,) largest deviation of an output of each sample, relative to the largest output."""
        return np.asarray(np.abs(self.outputs - self.expected).max(axis=1) / self.largest)

    @property
    def worst(self) -> float:
        """Largest deviation."""
        return float(self.deviations.max())

    @property
    def rms(self) -> float:
        """Root mean square of the deviations of all outputs, relative to the largest output."""
        return float(np.sqrt(np.mean((self.outputs - self.expected) ** 2)) / self.largest)

    @cached_property
    def agreeing(self) -> Bools:
        """(S,) whether chip and network agree."""
        if self.data.labels is None:
            return np.asarray(self.deviations <= self.limits.tolerance)
        return np.asarray(classes(self.outputs) == classes(self.expected))

    @property
    def agreement(self) -> float:
        """Share of samples on which chip and network agree."""
        return float(self.agreeing.mean())

    @cached_property
    def decision_margins(self) -> Floats:
        """(S,) difference of the network's two largest outputs, or magnitude of its one output, over the largest."""
        if self.expected.shape[1] == 1:
            return np.asarray(np.abs(self.expected[:, 0]) / self.largest)
        ordered = np.sort(self.expected, axis=1)
        return np.asarray((ordered[:, -1] - ordered[:, -2]) / self.largest)

    @property
    def network_accuracy(self) -> float | None:
        """Share of samples for which the network chooses the label; None without labels."""
        return None if self.data.labels is None else float(np.mean(classes(self.expected) == self.data.labels))

    @property
    def chip_accuracy(self) -> float | None:
        """Share of samples for which the chip chooses the label; None without labels."""
        return None if self.data.labels is None else float(np.mean(classes(self.outputs) == self.data.labels))

    @property
    def constant_accuracy(self) -> float | None:
        """Share of samples of the most frequent label, which a constant answer reaches; None without labels."""
        if self.data.labels is None:
            return None
        return float(np.bincount(self.data.labels).max() / self.data.labels.size)

    @property
    def confusion(self) -> Ints | None:
        """(classes, classes) numbers of samples, by label and by the chip's class; None without labels."""
        if self.data.labels is None:
            return None
        count = max(self.outputs.shape[1], 2)
        flat = np.bincount(self.data.labels * count + classes(self.outputs), minlength=count * count)
        return np.asarray(flat.reshape(count, count), dtype=np.int64)

    def rms_error(self, outputs: Floats) -> float | None:
        """Root mean square of the differences of some outputs from those of the data; None if it has none."""
        return None if self.data.outputs is None else rms_difference(outputs, self.data.outputs)

    @property
    def passed(self) -> bool:
        """Whether agreement, accuracy and rms error are within the limits."""
        accuracy, largest, error = self.limits.accuracy, self.limits.rms_error, self.rms_error(self.outputs)
        reached = accuracy is None or (self.chip_accuracy is not None and self.chip_accuracy >= accuracy)
        near = largest is None or (error is not None and error <= largest)
        return self.agreement >= self.limits.agreement and reached and near


def classes(outputs: Floats) -> Ints:
    """Return the (S,) classes of (S, M) outputs: the largest output; of one output, 1 if it is above 0."""
    if outputs.shape[1] == 1:
        return np.asarray(outputs[:, 0] > 0.0, dtype=np.int64)
    return np.asarray(outputs.argmax(axis=1), dtype=np.int64)


def rms_difference(outputs: Floats, wanted: Floats) -> float:
    """Return the root mean square of the differences of two (S, M) arrays of outputs."""
    return float(np.sqrt(np.mean((outputs - wanted) ** 2)))
