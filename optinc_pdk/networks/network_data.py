"""Data with which the chip of a general network is checked: inputs, and labels or outputs."""

from __future__ import annotations

import hashlib
import reprlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.factor.checks import refuse_masked
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import DATA
from optinc_pdk.networks.general_network import GeneralNetwork

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


def read_data(path: str | Path, network: GeneralNetwork) -> NetworkData:
    """Read a data file: a .npz with ``x``, and possibly ``y``.

    Args:
        path: The file.
        network: Network for which the data is.

    Raises:
        InputError: The file cannot be read, or its arrays do not fit the network; the message names file and array.
    """
    path = Path(path)
    if path.suffix.lower() != ".npz":
        raise InputError(f"{path}: a data file is a .npz with x (samples, inputs) and possibly y; save it with savez")
    arrays = read_npz(path, DATA)
    unknown = [key for key in arrays if key not in KEYS]
    if unknown or "x" not in arrays:
        listed = ", ".join(map(repr, list(arrays)[:5])) or "none"
        raise InputError(
            f"{path}: contains the arrays {listed}; a data file has x (samples, inputs), and "
            "possibly y, labels or outputs"
        )
    try:
        return check_data(arrays["x"], arrays.get("y"), network)
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault


def check_data(x: ArrayLike, y: Any, network: GeneralNetwork) -> NetworkData:
    """Check that arrays are data for a network.

    Args:
        x: (S, K) inputs.
        y: (S,) labels, whole numbers or the classes of the network's card; or (S, M) outputs, or (S,) if the network
            has one output; None for neither.
        network: The network.

    Raises:
        InputError: An array is not numeric, empty, not finite, or of another shape, or a label is no class of the
            network; the message names the array, its shape, and what is expected.
    """
    inputs, outputs = network.task.inputs, network.task.outputs
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
    if network.classes is not None and np.ndim(y) == 1:
        y = _numbered(np.asarray(y), network.classes)
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
    if network.classes is not None and (given.dtype.kind in "iu" or _one_hot(given)):
        raise InputError(
            f"y has shape {given.shape} and whole numbers, and the network's card states classes "
            f"{reprlib.repr(list(network.classes))}; give the label of each sample, ({len(points)},), such as the "
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
