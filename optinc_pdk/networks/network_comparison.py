"""Comparison of what a chip computes with what its network computes in floating point.

With labels, a sample agrees if chip and network choose the same class: the largest output, or for one output class 1 if
it is above 0. Without labels, it agrees if every output is within the tolerance, a share of the largest magnitude of
any output of the network over the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import ArgumentError
from optinc_pdk.networks.network_data import NetworkData

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
    """Outputs of a chip and of its network for the same samples.

    Attributes:
        data: The samples.
        limits: What the chip must reach.
        expected: (S, M) outputs of the network in floating point.
        outputs: (S, M) outputs of the chip.
    """

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
