"""Layers and networks: weights and biases, the task, and the factorisation method of each layer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import svd_mzis, unitary_diagonal_mzis
from optinc_pdk.factor.checks import refuse_masked
from optinc_pdk.networks.layer_parts import LayerPart, independent_parts, shared_rows
from optinc_pdk.networks.network_task import NetworkTask
from optinc_pdk.options import Activation

if TYPE_CHECKING:
    from torch import nn

    from optinc_pdk.networks.general_network import GeneralNetwork

FactorMethod = Literal["svd"] | tuple[Literal["approx"], int]
LARGEST = 1e30
"""Largest magnitude of a weight or bias; squares of larger ones would leave the range of double precision."""
ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)


NetworkT = TypeVar("NetworkT", bound="Network")


class WeightsError(InputError):
    """Error: weights cannot be used. The message states the file, the fault and the remedy."""


@dataclass(frozen=True, eq=False)
class Layer:
    """One linear layer, y = W x + b.

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


@dataclass(frozen=True, eq=False)
class Network:
    """Multilayer perceptron with an activation after every layer except the last.

    The activation is max(z, 0) ("relu"), or min(max(z, 0), 1) ("clipped_relu"), as a modulator limits its amplitude.
    :class:`AveragingNetwork` averages words; :class:`optinc_pdk.networks.GeneralNetwork` does anything else.

    Attributes:
        layers: The layers, first to last.
        task: What the network computes.
        factor: For each layer, how its matrix is factored into meshes: "svd", or ("approx", block size) for unitary ×
            diagonal blocks. If empty, all layers use "svd".
        card: Origin and measured properties of the network as JSON values: recipe, seed, scores.
        activation: Activation of the hidden layers.

    Raises:
        ValueError: The sizes of layers do not match each other or the task, `factor` does not match the layers, or the
            activation is unknown.
    """

    layers: tuple[Layer, ...]
    task: NetworkTask
    factor: tuple[FactorMethod, ...] = ()
    card: dict[str, Any] = field(default_factory=dict)
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        """Check that layers, task and factor match, and that the activation is known."""
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}; use one of {', '.join(ACTIVATIONS)}")
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "factor", tuple(self.factor) or ("svd",) * len(self.layers))
        if not self.layers:
            raise ValueError("layers is empty; a network needs at least one layer")
        for i, (below, above) in enumerate(zip(self.layers, self.layers[1:], strict=False)):
            if below.outputs != above.inputs:
                raise ValueError(
                    f"layers.{i} has {below.outputs} outputs, but layers.{i + 1} has {above.inputs} inputs: "
                    "make them equal"
                )
        self._check_task()
        self._check_factor()

    def _check_task(self) -> None:
        """Check that the sizes of the first and the last layer are those of the task."""
        for what, size, stated in (
            ("inputs", self.layers[0].inputs, self.task.groups),
            ("outputs", self.layers[-1].outputs, self.task.outputs),
        ):
            if size != stated:
                raise ValueError(f"the layers have {size} {what}, but the task has {stated}: correct one of them")

    def _check_factor(self) -> None:
        if len(self.factor) != len(self.layers):
            raise ValueError(f"factor has {len(self.factor)} entries for {len(self.layers)} layers: give one per layer")
        for i, (how, layer) in enumerate(zip(self.factor, self.layers, strict=True)):
            if how == "svd":
                continue
            limit = min(layer.outputs, layer.inputs)
            if not 1 <= how[1] <= limit:
                raise ValueError(
                    f"factor.{i} has block = {how[1]}: it must lie within 1 ... {limit} for layer {i} "
                    f"of {layer.outputs} x {layer.inputs}"
                )

    @staticmethod
    def from_torch(module: nn.Module, input_range: ArrayLike | None = None) -> GeneralNetwork:
        """Return the general network of a PyTorch module, as it is evaluated.

        The forward function is traced. It may have layers (``nn.Linear``) with ReLU, or with clipping to 0 … 1
        (``nn.Hardtanh(0, 1)``, ``torch.clamp(x, 0, 1)``), between them; ``nn.Flatten``, ``nn.Identity`` and
        ``nn.Dropout`` change nothing.

        Args:
            module: The module; its parameters are copied.
            input_range: Smallest and largest value of all inputs, (2,), or of each, (2, K); by default that of the data
                with which the chip is built, or -1 to 1.

        Raises:
            InputError: The module computes something else; the message names the step.
        """
        from optinc_pdk.networks.torch_modules import torch_network

        return torch_network(module, input_range)

    @staticmethod
    def from_sklearn(estimator: object, input_range: ArrayLike | None = None) -> GeneralNetwork:
        """Return the general network of a multilayer perceptron of scikit-learn.

        The outputs of a classifier are those before softmax, or before the logistic function of the one output for two
        classes. Its card has the classes, so that labels of data are those of the estimator.

        Args:
            estimator: A fitted ``MLPClassifier`` or ``MLPRegressor`` with ``activation="relu"``.
            input_range: As for :meth:`from_torch`.

        Raises:
            InputError: The estimator is another one, is not fitted, has another activation, or has several labels for
                each sample.
        """
        from optinc_pdk.networks.sklearn_estimators import sklearn_network

        return sklearn_network(estimator, input_range)

    @property
    def structure(self) -> tuple[int, ...]:
        """Numbers of signals from the inputs to the outputs, such as (2, 6, 7, 2)."""
        return (self.layers[0].inputs, *(layer.outputs for layer in self.layers))

    def detector_rows(self, index: int) -> Ints:
        """Assign the units of a layer to rows of its optical matrix.

        Units of a hidden layer whose weights are equal up to a positive factor read the same detectors: only their
        gains and offsets differ, which are electronic. Rows are numbered part by part (:meth:`layer_parts`). Units of
        the last layer and of layers that are approximated by blocks have a row each, apart from units without weights
        at the end.

        Args:
            index: Number of the layer, from 0.

        Returns:
            (out,) number of each unit's row; -1 for a hidden unit whose weights are all 0, which needs no detector.
        """
        return self._optical_layers[index][0]

    def layer_parts(self, index: int) -> tuple[LayerPart, ...]:
        """Return the independent parts of a layer's optical matrix, in the order of its rows.

        A part is a set of rows and columns that share no weight with the others, so that it has meshes of its own, see
        :func:`independent_parts`. A layer that is approximated by blocks counts as one part. Parts of the first layer
        have consecutive columns and parts of the last layer consecutive rows, so that no guides cross.

        Args:
            index: Number of the layer, from 0.

        Returns:
            Parts; every column and every row belongs to one of them.
        """
        return self._optical_layers[index][1]

    @cached_property
    def _optical_layers(self) -> tuple[tuple[Ints, tuple[LayerPart, ...]], ...]:
        """Rows of the units, and parts, of every layer."""
        last = len(self.layers) - 1
        layers: list[tuple[Ints, tuple[LayerPart, ...]]] = []
        for index, layer in enumerate(self.layers):
            weight, hidden = layer.weight, index < last
            if self.factor[index] != "svd":
                used = 1 + int(np.flatnonzero(weight.any(axis=1)).max(initial=-1)) if hidden else layer.outputs
                rows = np.where(np.arange(layer.outputs) < used, np.arange(layer.outputs), -1)
                layers.append((rows, (LayerPart(range(used), tuple(range(layer.inputs))),)))
                continue
            rows = shared_rows(weight) if hidden else np.arange(layer.outputs)
            first = np.array([np.argmax(rows == row) for row in range(int(rows.max()) + 1)], dtype=np.int64)
            # a hidden layer without any weight has no part
            parts = independent_parts(weight[first], index == 0, not hidden) if first.size else []
            number = np.empty(first.size, dtype=np.int64)
            start = 0
            found = []
            for members, columns in parts:
                number[members] = np.arange(start, start + len(members))
                found.append(LayerPart(range(start, start + len(members)), columns))
                start += len(members)
            layers.append((np.where(rows >= 0, number[rows], -1) if first.size else rows, tuple(found)))
        return tuple(layers)

    @property
    def mzis(self) -> int:
        """Number of MZIs of all weights by the convention of arXiv 2603.28290, with each layer's factorisation.

        Units that read the same detectors count as one row, and independent parts of a layer count separately.
        """
        return sum(
            sum(svd_mzis(len(part.rows), len(part.columns)) for part in self.layer_parts(index))
            if how == "svd"
            else unitary_diagonal_mzis(layer.outputs, layer.inputs, how[1])
            for index, (layer, how) in enumerate(zip(self.layers, self.factor, strict=True))
        )

    @property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of weights, biases, activation and task: equal networks have equal digests."""
        found = hashlib.sha256(f"{self.activation} {self.task}".encode())
        for layer in self.layers:
            found.update(f"{layer.weight.shape}".encode())
            found.update(np.ascontiguousarray(layer.weight, dtype="<f8").tobytes())
            found.update(np.ascontiguousarray(layer.bias, dtype="<f8").tobytes())
        return found.hexdigest()

    def forward(self, inputs: ArrayLike) -> Floats:
        """Computes the outputs in float64.

        Args:
            inputs: (..., K) inputs of the network; averages of groups of symbols, 0 ... 4^g - 1, if it averages words.

        Returns:
            (..., M) outputs, in levels if it averages words.

        Raises:
            ValueError: The last axis is not K, or the inputs are complex.
        """
        if np.iscomplexobj(inputs):
            raise ValueError("inputs are complex; a network reads real numbers")
        points = np.asarray(inputs, dtype=np.float64)
        if points.ndim < 1 or points.shape[-1] != self.structure[0]:
            raise ValueError(f"inputs of shape {points.shape} must end in ({self.structure[0]},)")
        return propagate(self.layers, points, self.activation)

    def save(self, path: str | Path) -> None:
        """Writes the network to a .npz file, atomically. Equal networks give equal bytes.

        Args:
            path: The file, ending in .npz.

        Raises:
            WeightsError: The name does not end in .npz, or the card is not JSON.
        """
        from optinc_pdk.networks.npz_format import save

        save(self, Path(path))


@dataclass(frozen=True, eq=False)
class AveragingNetwork(Network):
    """Multilayer perceptron for one averaging task.

    The K inputs are averages of groups of g symbols, 0 ... 4^g - 1 in steps of 1/N. The M outputs are levels 0 ... 3,
    most significant symbol first. Weights include any scaling.

    Attributes:
        task: The averaging task that the network computes. The others are those of :class:`Network`.
    """

    task: Averaging

    def _check_task(self) -> None:
        task, first, last = self.task, self.layers[0], self.layers[-1]
        if first.inputs != task.groups:
            raise ValueError(
                f"layers.0 has {first.inputs} inputs, but the task has groups = {task.groups}: correct one of them"
            )
        if last.outputs != task.symbols:
            raise ValueError(
                f"layers.{len(self.layers) - 1} has {last.outputs} outputs, but a word of bits = {task.bits} "
                f"has {task.symbols} symbols: correct one of them"
            )

    @classmethod
    def load(
        cls,
        path: str | Path,
        bits: int | None = None,
        servers: int | None = None,
        groups: int | None = None,
        activation: Activation | None = None,
    ) -> AveragingNetwork:
        """Reads a network from a weight file: .npz, .safetensors or .onnx. Never unpickles objects.

        Args:
            path: The file.
            bits: Bits of a word; needed for .safetensors and .onnx files, which contain no task.
            servers: Number of servers; needed for the same files.
            groups: Number of network inputs; needed for the same files.
            activation: Activation of the hidden layers. .npz and .onnx files state it, and must agree with it;
                .safetensors files state it at most in their metadata, and are read with "relu" by default.

        Raises:
            WeightsError: The file is missing, damaged or unusable, or its task or activation contradicts the arguments.
        """
        from optinc_pdk.networks.weight_files import load

        return load(Path(path), bits, servers, groups, activation)


def activate(signal: Floats, activation: Activation) -> Floats:
    """Apply an activation in place.

    Args:
        signal: Pre-activations of any shape; overwritten.
        activation: "relu" for max(z, 0), "clipped_relu" for min(max(z, 0), 1).

    Returns:
        ``signal``.
    """
    return np.clip(signal, 0.0, 1.0 if activation == "clipped_relu" else None, out=signal)


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
