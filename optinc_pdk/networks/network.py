"""Networks: layers, the task, and the factorisation method of each layer; reading and writing them."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.errors import InputError
from optinc_pdk.factor import svd_mzis, unitary_diagonal_mzis
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import DATA
from optinc_pdk.networks._model_import import sklearn_model, torch_model
from optinc_pdk.networks._steps import FoldedModel
from optinc_pdk.networks.layers import (
    ACTIVATIONS,
    FactorMethod,
    Layer,
    LayerPart,
    WeightsError,
    independent_parts,
    propagate,
    shared_rows,
    single_rows,
)
from optinc_pdk.networks.network_data import KEYS, NetworkData, checked_data, classes, rms_difference
from optinc_pdk.networks.tasks import NetworkTask, VectorTask
from optinc_pdk.networks.weight_files import WeightFile, missing_task, read_weights, states_task, write_weights
from optinc_pdk.options import Activation

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram

NetworkT = TypeVar("NetworkT", bound="Network")


@dataclass(frozen=True, eq=False)
class Network:
    """Multilayer perceptron with an activation after every layer except the last.

    The activation is max(z, 0) ("relu"); or c = min(max(z, 0), 1) ("clipped_relu"), as a modulator limits its
    amplitude; or sin(π c / 2) ("sine"), the field of a modulator that is driven directly.
    :class:`AveragingNetwork` averages words; :class:`optinc_pdk.networks.GeneralNetwork` does anything else.

    Attributes:
        layers: The layers, first to last.
        task: What the network computes.
        factor: For each layer, how its matrix is factored into meshes: "svd"; "rows" for a chain of MZIs for each row;
            or ("approx", block size) for unitary × diagonal blocks. If empty, all layers use "svd".
        card: Origin and measured properties of the network as JSON values: recipe, seed, scores.
        activation: Activation of the hidden layers.
        remarks: What differs from the model that was read, one sentence each; not saved.

    Raises:
        ValueError: The sizes of layers do not match each other or the task, `factor` does not match the layers, or the
            activation is unknown.
    """

    layers: tuple[Layer, ...]
    task: NetworkTask
    factor: tuple[FactorMethod, ...] = ()
    card: dict[str, Any] = field(default_factory=dict)
    activation: Activation = "relu"
    remarks: tuple[str, ...] = ()

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
            if isinstance(how, str):
                continue
            limit = min(layer.outputs, layer.inputs)
            if not 1 <= how[1] <= limit:
                raise ValueError(
                    f"factor.{i} has block = {how[1]}: it must lie within 1 ... {limit} for layer {i} "
                    f"of {layer.outputs} x {layer.inputs}"
                )

    @staticmethod
    def from_torch(module: nn.Module | ExportedProgram, input_range: ArrayLike | None = None) -> GeneralNetwork:
        """Return the general network of a PyTorch module, as it is evaluated.

        The forward function is traced. It is a chain of layers (``nn.Linear``, ``functional.linear``, products with
        parameters) with ReLU, or with clipping to any range (``nn.Hardtanh``, ``nn.ReLU6``, ``torch.clamp``), between
        them. Batch normalisation, and arithmetic with numbers or parameters, become part of the layers. Dropout and new
        shapes, such as ``nn.Flatten``, change nothing. A softmax or argmax at the end is left out. A module in training
        mode is read as in evaluation.

        Args:
            module: The module, compiled or not, or an exported program (``torch.export.export``); its parameters are
                copied.
            input_range: Smallest and largest value of all inputs, (2,), or of each, (2, K); by default that of the data
                with which the chip is built, or -1 to 1.

        Raises:
            InputError: The module computes something else; the message names the step.
        """
        return _imported(torch_model(module), None, input_range)

    @staticmethod
    def from_sklearn(estimator: object, input_range: ArrayLike | None = None) -> GeneralNetwork:
        """Return the general network of a multilayer perceptron of scikit-learn.

        The outputs of a classifier are those before softmax, or before the logistic function of the one output for two
        classes. Its card has the classes, so that labels of data are those of the estimator.

        Args:
            estimator: A fitted ``MLPClassifier`` or ``MLPRegressor`` with the activation ``relu``, or ``identity``,
                which gives one layer.
            input_range: As for :meth:`from_torch`.

        Raises:
            InputError: The estimator is another one, is not fitted, has another activation, or has several labels for
                each sample.
        """
        return _imported(*sklearn_model(estimator), input_range)

    @property
    def structure(self) -> tuple[int, ...]:
        """Numbers of signals from the inputs to the outputs, such as (2, 6, 7, 2)."""
        return (self.layers[0].inputs, *(layer.outputs for layer in self.layers))

    def detector_rows(self, index: int) -> Ints:
        """Return the (out,) row of a layer's optical matrix that each unit reads; -1 for a hidden unit without weights.

        Units of a hidden layer whose weights are equal up to a positive factor read the same detectors: only their
        gains and offsets differ, which are electronic. Rows are numbered part by part (:meth:`layer_parts`). Units of
        the last layer and of layers that are approximated by blocks have a row each, apart from units without weights
        at the end. Layers count from 0.
        """
        return self._optical_layers[index][0]

    def layer_parts(self, index: int) -> tuple[LayerPart, ...]:
        """Return the independent parts of a layer's optical matrix, in the order of its rows.

        A part is a set of rows and columns that share no weight with the others, so that it has meshes of its own, see
        :func:`independent_parts`. A layer that is approximated by blocks counts as one part. Parts of the first layer
        have consecutive columns and parts of the last layer consecutive rows, so that no guides cross. Every column and
        row belongs to a part. Where each row is factored alone, it is a part, and parts may share columns, see
        :func:`single_rows`. Layers count from 0.
        """
        return self._optical_layers[index][1]

    @cached_property
    def _optical_layers(self) -> tuple[tuple[Ints, tuple[LayerPart, ...]], ...]:
        """Rows of the units, and parts, of every layer."""
        last = len(self.layers) - 1
        layers: list[tuple[Ints, tuple[LayerPart, ...]]] = []
        for index, layer in enumerate(self.layers):
            weight, hidden = layer.weight, index < last
            if not isinstance(self.factor[index], str):
                used = 1 + int(np.flatnonzero(weight.any(axis=1)).max(initial=-1)) if hidden else layer.outputs
                rows = np.where(np.arange(layer.outputs) < used, np.arange(layer.outputs), -1)
                layers.append((rows, (LayerPart(range(used), tuple(range(layer.inputs))),)))
                continue
            rows = shared_rows(weight) if hidden else np.arange(layer.outputs)
            first = np.array([np.argmax(rows == row) for row in range(int(rows.max()) + 1)], dtype=np.int64)
            # a hidden layer without any weight has no part
            parts: list[tuple[list[int], tuple[int, ...]]] = []
            if first.size and self.factor[index] == "rows":
                parts = single_rows(weight[first], index == 0)
            elif first.size:
                parts = independent_parts(weight[first], index == 0, not hidden)
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

        Units that read the same detectors count as one row, and independent parts of a layer count separately. A row
        that is factored alone has as many MZIs as columns, the attenuator included.
        """
        return sum(
            unitary_diagonal_mzis(layer.outputs, layer.inputs, how[1])
            if isinstance(how, tuple)
            else sum(
                len(part.columns) if how == "rows" else svd_mzis(len(part.rows), len(part.columns))
                for part in self.layer_parts(index)
            )
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
        """Compute the outputs (..., M) for inputs (..., K) in float64.

        If the network averages words, inputs are averages of groups of symbols, 0 ... 4^g - 1, and outputs are in
        levels.

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
        """Write the network to a .npz file, atomically. Equal networks give equal bytes.

        Examples:
            >>> import optinc_pdk as op
            >>> from optinc_pdk.networks import carry_chain
            >>> carry_chain(op.Averaging(bits=4, servers=4, groups=2)).save("average.npz")
            >>> op.AveragingNetwork.load("average.npz").structure
            (2, 6, 7, 2)

        Raises:
            WeightsError: The name does not end in .npz, or the card is not JSON.
        """
        task, input_range = self.task, getattr(self.task, "input_range", None)
        stated = task if isinstance(task, Averaging) else None
        write_weights(WeightFile(self.layers, stated, self.activation, input_range, self.factor, self.card), Path(path))


@dataclass(frozen=True, eq=False)
class AveragingNetwork(Network):
    """Multilayer perceptron for one averaging task.

    The K inputs are averages of groups of g symbols, 0 ... 4^g - 1 in steps of 1/N. The M outputs are levels 0 ... 3,
    most significant symbol first. Weights include any scaling.

    Examples:
        >>> import numpy as np
        >>> import optinc_pdk as op
        >>> from optinc_pdk.networks import Layer
        >>> layers = (Layer(np.eye(2), np.zeros(2)), Layer(np.eye(2), np.zeros(2)))
        >>> op.AveragingNetwork(layers, op.Averaging(bits=4, servers=4, groups=2)).structure
        (2, 2, 2)

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
        """Reads a network from a weight file: .npz, .safetensors, .onnx, or .pt, .pth, .bin or .ckpt of PyTorch.

        Never unpickles objects: PyTorch's files are read by PyTorch in a process of its own, as tensors alone.

        Examples:
            >>> import optinc_pdk as op
            >>> from optinc_pdk.networks import bundled_weights
            >>> op.AveragingNetwork.load(bundled_weights(bits=4, servers=4)).structure
            (2, 4, 4, 2)

        Args:
            path: The file.
            bits: Bits of a word; needed for files of other packages, which contain no task.
            servers: Number of servers; needed for the same files.
            groups: Number of network inputs; needed for the same files.
            activation: Activation of the hidden layers. .npz and .onnx files state it, and must agree with it. It is
                needed for files of PyTorch, and for .safetensors files whose metadata do not state it.

        Raises:
            WeightsError: The file is missing, damaged or unusable, or its task or activation contradicts the arguments.
        """
        network = load_network(Path(path), bits, servers, groups, activation)
        if isinstance(network, AveragingNetwork):
            return network
        raise missing_task(Path(path), {"bits": bits, "servers": servers, "groups": groups})


@dataclass(frozen=True, eq=False)
class GeneralNetwork(Network):
    """Multilayer perceptron without an averaging task, such as a classifier or a regressor.

    Attributes:
        task: Inputs, outputs and their range. The others are those of :class:`optinc_pdk.networks.Network`.
    """

    task: VectorTask

    @classmethod
    def of_layers(
        cls,
        layers: Sequence[Layer | tuple[ArrayLike, ArrayLike]],
        activation: Activation = "relu",
        input_range: ArrayLike | None = None,
        factor: Sequence[FactorMethod] = (),
        card: dict[str, Any] | None = None,
    ) -> GeneralNetwork:
        """Create a network from its layers.

        Examples:
            >>> import numpy as np
            >>> import optinc_pdk as op
            >>> layers = [(np.eye(3, 2), np.zeros(3)), (np.ones((1, 3)), np.zeros(1))]
            >>> op.GeneralNetwork.of_layers(layers, input_range=(0.0, 1.0)).structure
            (2, 3, 1)

        Args:
            layers: The layers, first to last: each a tuple of weight (outputs, inputs) and bias (outputs,), floats, or
                an :class:`optinc_pdk.networks.Layer`.
            activation: Activation of the hidden layers.
            input_range: Smallest and largest value of all inputs, (2,), or of each, (2, K); by default that of the data
                with which the chip is built, or -1 to 1.
            factor: For each layer, how its matrix is factored; empty for "svd".
            card: Origin and properties of the network as JSON values. ``accuracy`` is the accuracy on data with labels
                that a build requires, ``rms_error`` the error on data with outputs; ``classes`` are the labels of the
                outputs, numbers or texts, by default 0, 1, …

        Raises:
            InputError: The range is no range, or a tuple is no layer.
            ValueError: The layers do not match each other.
        """
        linear = tuple(_layer(f"layers[{i}]", each) for i, each in enumerate(layers))
        if not linear:
            raise ValueError("layers is empty; a network needs at least one layer")
        stated = None if input_range is None else np.asarray(input_range)
        task = VectorTask(linear[0].inputs, linear[-1].outputs, stated)
        return cls(linear, task, tuple(factor), card or {}, activation)

    @classmethod
    def load(cls, path: str | Path, activation: Activation | None = None) -> GeneralNetwork:
        """Read a network from a weight file without an averaging task, as :meth:`AveragingNetwork.load`.

        Args:
            path: The file.
            activation: Activation of the hidden layers, as for :meth:`optinc_pdk.networks.AveragingNetwork.load`.

        Raises:
            WeightsError: The file cannot be used, or contains an averaging task.
        """
        network = load_network(Path(path), activation=activation)
        if not isinstance(network, GeneralNetwork):
            raise WeightsError(f"{path}: contains an averaging task; read it with AveragingNetwork.load")
        return network

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Labels of the classes as the card states them; None if it does not, so that they are 0, 1, ….

        Raises:
            InputError: They are no list of different numbers or texts, one for each class.
        """
        stated = self.card.get("classes")
        if stated is None:
            return None
        count = max(self.task.outputs, 2)
        if (
            not isinstance(stated, list)
            or not all(isinstance(each, int | float | str) for each in stated)
            or len(set(stated)) != len(stated)
            or len(stated) != count
        ):
            raise InputError(
                f"card: classes is {reprlib.repr(stated)}; give a list of {count} different numbers or texts, one for "
                "each class"
            )
        return tuple(stated)

    def with_data(self, data: Floats) -> GeneralNetwork:
        """Return the network with (S, K) inputs over which its chip's signals are scaled and its offsets trimmed.

        Such as those of the training, so that its chip is then checked with inputs that it has never seen. By default,
        a build takes the inputs of the check.

        Raises:
            InputError: A value is beyond the range that the network states.
        """
        return replace(self, task=replace(self.task, data=data))

    def with_accuracy(self, x: ArrayLike, y: Any) -> GeneralNetwork:
        """Return the network with what it reaches on data, in floating point, in its card.

        Of a classifier the card states the accuracy, ``accuracy``, and of a regressor the root-mean-square error of its
        outputs, ``rms_error``, in their unit. Builds with such data then require it, less what ``agreement`` or
        ``tolerance`` allow, also of a file that :meth:`save` wrote: weights that were changed since fail.

        Args:
            x: (S, K) inputs, such as those of a test.
            y: (S,) labels: whole numbers, or the classes that the card states; or (S, M) outputs, or (S,) if the
                network has one output.

        Raises:
            InputError: An array cannot be used, or there is no ``y``.
        """
        data = check_data(x, y, self)
        if data.outputs is not None:
            error = rms_difference(self.forward(data.x), data.outputs)
            return replace(self, card=self.card | {"rms_error": error})
        if data.labels is None:
            raise InputError("y is None, so that there is no accuracy; give labels, or the outputs of the training")
        share = float(np.mean(classes(self.forward(data.x)) == data.labels))
        return replace(self, card=self.card | {"accuracy": share})


def _layer(where: str, given: Layer | tuple[ArrayLike, ArrayLike]) -> Layer:
    """Return a layer, or that of a weight and a bias."""
    if isinstance(given, Layer):
        return given
    weight, bias = given
    try:
        return Layer(weight, bias)  # type: ignore[arg-type]  # checks and converts them
    except ValueError as fault:
        raise InputError(f"{where}: {fault}") from fault


def _imported(model: FoldedModel, card: dict[str, Any] | None, input_range: ArrayLike | None) -> GeneralNetwork:
    """Return the network of a model of another package."""
    try:
        network = GeneralNetwork.of_layers(model.layers, model.activation or "relu", input_range, card=card)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    return replace(network, remarks=model.remarks)


def load_network(
    path: Path,
    bits: int | None = None,
    servers: int | None = None,
    groups: int | None = None,
    activation: Activation | None = None,
) -> AveragingNetwork | GeneralNetwork:
    """Read a network from a weight file (.npz, .safetensors, .onnx, or .pt, .pth, .bin or .ckpt of PyTorch).

    A file without a task is a general network, unless the three numbers of its task are given. Arguments are those of
    :meth:`AveragingNetwork.load`.

    Raises:
        WeightsError: As for :meth:`AveragingNetwork.load`, or some, not all, numbers are given for a file without a
            task.
    """
    found = read_weights(path, {"bits": bits, "servers": servers, "groups": groups}, activation)
    try:
        if found.task is None:
            network = GeneralNetwork.of_layers(
                found.layers, found.activation, found.input_range, found.factor, found.card
            )
            return replace(network, remarks=found.remarks)
        return AveragingNetwork(found.layers, found.task, found.factor, found.card, found.activation, found.remarks)
    except ValueError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


def load_for_task(path: Path, task: Averaging, activation: Activation | None = None) -> AveragingNetwork:
    """Read a network for a known task, with the options for levels of cascades; otherwise as :func:`load_network`.

    Raises:
        WeightsError: As for :meth:`AveragingNetwork.load`, or the file states another task.
    """
    if not states_task(path):
        return replace(AveragingNetwork.load(path, task.bits, task.servers, task.groups, activation), task=task)
    network = AveragingNetwork.load(path, activation=activation)
    if network.task != task:
        raise WeightsError(
            f"{path}: the file states the task {network.task}, not {task}; give its task, or other weights"
        )
    return network


def read_data(path: str | Path, network: GeneralNetwork) -> NetworkData:
    """Read data for a network from a .npz file with ``x``, and possibly ``y``, see :func:`check_data`.

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
    return checked_data(x, y, network.task.inputs, network.task.outputs, network.classes)


def cascade_tasks(bits: int, servers: int, groups: int) -> tuple[Averaging, Averaging]:
    """Return the averaging tasks of the two levels of a cascade of units of N = ``servers``.

    The last output of level 1 includes the remainder, and the lowest input of level 2 has steps of 1/N² instead of 1/N.
    """
    return (
        Averaging(bits, servers, groups, remainder=True),
        Averaging(bits, servers, groups, finer_input=True),
    )


@dataclass(frozen=True, eq=False)
class Cascade:
    """Cascade of two levels for N² servers: N units of level 1 feed one unit of level 2 (arXiv 2603.28290).

    A unit of level 1 adds the fraction that truncation would lose to its last output. The levels are connected by light
    without receivers: level 2 averages the units' fields with their errors. The tasks of the two networks, one for all
    units of level 1 and one for the unit of level 2, are those of :func:`cascade_tasks`.

    Raises:
        ValueError: The tasks do not belong together.
    """

    first: AveragingNetwork
    second: AveragingNetwork

    def __post_init__(self) -> None:
        """Check that the tasks belong together."""
        first, second = self.first.task, self.second.task
        if not first.remainder or first.finer_input:
            raise ValueError(f"first has task {first}: level 1 of a cascade has remainder = true, finer_input = false")
        if not second.finer_input or second.remainder:
            raise ValueError(f"second has task {second}: level 2 of a cascade has finer_input = true and no remainder")
        if replace(first, remainder=False, finer_input=True) != second:
            raise ValueError(f"first averages {first}, second {second}: bits, servers and groups must be equal")

    def average(self, words: ArrayLike) -> Ints:
        """Return the words (...) that the receivers decode for words (..., N, N), the servers of a unit on the last
        axis.
        """
        first, second = self.first.task, self.second.task
        between = self.first.forward(first.preprocess(first.encode(words)))
        outputs = self.second.forward(second.preprocess(between))
        return second.decode(decide(outputs).astype(np.int64))

    def ideal(self, words: ArrayLike) -> Ints:
        """Computes the average over all N² servers, rounded down, shape (...); words as for `average`."""
        task = self.first.task
        values = task.decode(task.encode(words))
        average: Ints = values.sum(axis=(-2, -1)) // task.servers**2
        return average

    def naive(self, words: ArrayLike) -> Ints:
        """Computes the result if both levels round down without a remainder, shape (...); words as for `average`."""
        task = Averaging(self.first.task.bits, self.first.task.servers, self.first.task.groups)
        return task.ideal(task.ideal(words))
