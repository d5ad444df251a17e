"""Networks without an averaging task: vectors of real numbers in, vectors of real numbers out."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError
from optinc_pdk.networks.network import FactorMethod, Layer, Network
from optinc_pdk.options import Activation

DEFAULT_RANGE = (-1.0, 1.0)
"""Range of inputs that neither the network nor data state."""
RESERVE = 1.25
"""How far hidden ReLU signals may exceed their maxima over the data before a modulator saturates. Our choice."""
RANDOM_POINTS = 4096
"""Number of random inputs where there is no data."""
SEED = 0


@dataclass(frozen=True, eq=False)
class VectorTask:
    """The task of a general network: K real inputs, M real outputs, both of any sign.

    An input x is sent with the field amplitude x / (its largest magnitude), a negative one with the phase π.

    Attributes:
        inputs: Number of inputs K.
        outputs: Number of outputs M.
        input_range: (2, K) smallest and largest value of each input, as the network states it; None if it does not.
        data: (S, K) inputs over which the chip's signals are scaled; None for random inputs within the range.

    Raises:
        InputError: The range is no range, or data is beyond it.
    """

    inputs: int
    outputs: int
    input_range: Floats | None = None
    data: Floats | None = None

    def __post_init__(self) -> None:
        """Check the range, and that data is within it."""
        if self.input_range is None:
            return
        stated = np.asarray(self.input_range)
        if stated.dtype.kind not in "iuf" or stated.shape not in ((2,), (2, self.inputs)):
            raise InputError(
                f"input_range is an array of {stated.dtype} and shape {stated.shape}; give the smallest and the "
                f"largest value, shape (2,), or those of each input, shape (2, {self.inputs})"
            )
        low, high = (np.broadcast_to(row, self.inputs) for row in stated.astype(np.float64))
        if not (np.isfinite(stated).all() and np.all(low < high)):
            raise InputError("input_range has a smallest value that is not below the largest, or no finite one")
        object.__setattr__(self, "input_range", np.array([low, high]))
        if self.data is None:
            return
        beyond = np.argwhere((self.data < low) | (self.data > high))
        if beyond.size:
            row, column = beyond[0].tolist()
            raise InputError(
                f"x[{row}, {column}] is {self.data[row, column]:g}, beyond {low[column]:g} … {high[column]:g}, the "
                "input_range of the network; scale the data as in the training, or state another range"
            )

    def __str__(self) -> str:
        """Describe the task; equal descriptions mean equal tasks."""
        stated = None if self.input_range is None else self.input_range.tolist()
        return f"{self.inputs} inputs, {self.outputs} outputs, range {stated}"

    @property
    def servers(self) -> int:
        """One source sends all inputs."""
        return 1

    @property
    def symbols(self) -> int:
        """Number of input fibres: one for each input."""
        return self.inputs

    @property
    def groups(self) -> int:
        """Number of network inputs."""
        return self.inputs

    @property
    def group_symbols(self) -> int:
        """An input is one symbol."""
        return 1

    @property
    def symbol_shares(self) -> Floats:
        """Share of the symbol in its input, (1,): all of it."""
        return np.ones(1)

    @property
    def receivers(self) -> int:
        """Every output has one receiver."""
        return 1

    @property
    def remainder(self) -> bool:
        """The outputs go to no cascade."""
        return False

    @property
    def enumerable(self) -> bool:
        """Inputs are real numbers, so that no list has all of them."""
        return False

    @property
    def reserve(self) -> float:
        """How far hidden signals may exceed their maxima over the data."""
        return RESERVE

    @cached_property
    def _range(self) -> Floats:
        """(2, K) smallest and largest value of each input."""
        if self.input_range is not None:
            return self.input_range
        if self.data is not None:
            return np.array([self.data.min(axis=0), self.data.max(axis=0)])
        return np.repeat(np.array(DEFAULT_RANGE)[:, np.newaxis], self.inputs, axis=1)

    @property
    def input_minima(self) -> Floats:
        """(K,) smallest value of each input: as stated, or of the data, or -1."""
        return np.asarray(self._range[0])

    @property
    def input_maxima(self) -> Floats:
        """(K,) largest value of each input: as stated, or of the data, or 1."""
        return np.asarray(self._range[1])

    @property
    def default_amplitude(self) -> float:
        """Amplitude of an input at its largest magnitude: 1, the carrier's."""
        return 1.0

    def input_values(self, amplitudes: ArrayLike | None = None) -> Floats:
        """Return the (K,) value of each input that is sent with amplitude 1: its largest magnitude.

        An input that is 0 in all data has the largest value of the others.

        Args:
            amplitudes: None; the amplitudes of levels belong to averaging tasks.

        Raises:
            ValueError: Amplitudes are given.
        """
        if amplitudes is not None:
            raise ValueError("the inputs of a general network are values, not levels; leave the amplitudes out")
        largest: Floats = np.abs(self._range).max(axis=0)
        return np.where(largest > 0.0, largest, largest.max() or 1.0)

    @cached_property
    def points(self) -> Floats:
        """(S, K) inputs over which signals are scaled, and which a check sends: the data, or random ones."""
        if self.data is not None:
            return self.data
        rng = np.random.default_rng(SEED)
        return rng.uniform(self.input_minima, self.input_maxima, (RANDOM_POINTS, self.inputs))

    def batches(self, points: int = 1 << 16) -> Iterator[Floats]:
        """Yield the points, at most so many at a time."""
        for start in range(0, len(self.points), points):
            yield self.points[start : start + points]


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
        """Read a network from a weight file without an averaging task: .npz, .safetensors or .onnx.

        Args:
            path: The file.
            activation: Activation of the hidden layers, as for :meth:`optinc_pdk.networks.AveragingNetwork.load`.

        Raises:
            WeightsError: The file cannot be used, or contains an averaging task.
        """
        from optinc_pdk.networks.network import WeightsError
        from optinc_pdk.networks.weight_files import load_network

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
        from optinc_pdk.networks.network_comparison import classes, rms_difference
        from optinc_pdk.networks.network_data import check_data

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
