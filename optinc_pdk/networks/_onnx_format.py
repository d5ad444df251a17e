"""Reading networks from .onnx files: the nodes of a graph as steps, one after the other.

Nodes that only prepare weights, such as a Transpose, are computed with the stored values. A shape that is computed from
that of the signal has a 0 for the number of samples, as the target of a Reshape does.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import WEIGHTS
from optinc_pdk.networks._onnx_functions import inlined
from optinc_pdk.networks._onnx_tensors import FLOATS, OF_CONSTANTS, OF_SHAPES, VALUE, Array, Constants, attributes
from optinc_pdk.networks._steps import RELU, Affine, Clamp, FoldedModel, LeftOut, Sine, Step, fold
from optinc_pdk.networks.layers import Layer, WeightsError

MOST_NODES = 10_000
MOST_SIGNALS = 2**20
"""Largest number of values of a sample; a layer has at least as many weights."""
STANDARD = ("", "ai.onnx", "ai.onnx.ml")
"""Domains of the nodes that ONNX defines; no name is in two of them."""
ATTRIBUTES: dict[str, dict[str, str]] = {
    "Constant": VALUE,
    # models of opset 6 and before state that C is broadcast, which later ones imply
    "Gemm": {"alpha": "FLOAT", "beta": "FLOAT", "transA": "INT", "transB": "INT", "broadcast": "INT"},
    "Clip": {"min": "FLOAT", "max": "FLOAT"},
    "BatchNormalization": {"epsilon": "FLOAT", "momentum": "FLOAT", "training_mode": "INT"},
    "HardSigmoid": {"alpha": "FLOAT", "beta": "FLOAT"},
    "Scaler": {"offset": "FLOATS", "scale": "FLOATS"},
    "LinearRegressor": {"coefficients": "FLOATS", "intercepts": "FLOATS", "targets": "INT", "post_transform": "STRING"},
    "LinearClassifier": {
        "coefficients": "FLOATS",
        "intercepts": "FLOATS",
        "classlabels_ints": "INTS",
        "classlabels_strings": "STRINGS",
        "multi_class": "INT",
        "post_transform": "STRING",
    },
    "Normalizer": {"norm": "STRING"},
    "Dropout": {"ratio": "FLOAT", "seed": "INT"},
    "Cast": {"to": "INT", "saturate": "INT", "round_mode": "STRING"},
    "CastLike": {"saturate": "INT", "round_mode": "STRING"},
    "Reshape": {"allowzero": "INT"},
    "Shape": {"start": "INT", "end": "INT"},
    "Transpose": {"perm": "INTS"},
    "ArgMax": {"axis": "INT", "keepdims": "INT", "select_last_index": "INT"},
    "TopK": {"axis": "INT", "k": "INT", "largest": "INT", "sorted": "INT"},
    **{kind: {"axis": "INT"} for kind in ("Flatten", "Gather", "Concat", "Softmax", "LogSoftmax")},
    **{kind: {"axes": "INTS"} for kind in ("Squeeze", "Unsqueeze")},
    **{
        kind: {}
        for kind in ("MatMul", "Relu", "Max", "Min", "Add", "Sub", "Mul", "Div", "Identity", "Slice", "Sigmoid", "Sin")
    },
}
"""Nodes that are read, and the types of their attributes, as ``onnx.AttributeProto`` names them."""
LEFT_OUT = ("Softmax", "LogSoftmax", "ArgMax", "TopK", "Sigmoid")
AFTER_THEM = (
    *(*LEFT_OUT, "Normalizer", "ZipMap", "ArrayFeatureExtractor", "Slice"),
    *("Reshape", "Squeeze", "Cast", "Identity"),
)
"""Nodes that make labels and probabilities of the last outputs, as skl2onnx writes them."""
REMEDIES = {
    **dict.fromkeys(("LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Erf", "Tanh", "Softplus"), "train with ReLU"),
    "Sigmoid": "train with ReLU, and leave it out at the end, where the largest output is the same without it",
    "Conv": "use fully connected layers",
    "LayerNormalization": "use batch normalisation, whose statistics are stored",
}


def parse(path: Path, data: bytes) -> FoldedModel:
    """Return layers and activation of the .onnx file ``path`` with the content ``data``.

    Raises:
        WeightsError: The file is damaged, or is no chain of layers with one activation, or the file of its weights
            cannot be used.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        # what leaves the range of numbers becomes infinite, and layers refuse it
        with np.errstate(all="ignore"):
            return fold(_Graph(path, inlined(onnx.load_model_from_string(data)).graph).steps())
    except DecodeError as fault:
        raise WeightsError(f"{path}: is not a valid .onnx model ({fault}); export it again") from fault
    except InputError as fault:
        raise WeightsError(f"{path}: {fault}") from fault


class _Graph:
    """A graph, of which the nodes up to the one that computes ``signal`` have been read.

    ``sample`` is the shape of the signal without the number of samples, None if the file does not state it. ``tail``
    are the results of nodes that are left out, ``last`` the signal that these take, and ``columns`` the probabilities
    that are outputs of their own.
    """

    def __init__(self, path: Path, graph: Any) -> None:
        self.graph = graph
        self.constants = Constants(path, graph.initializer)
        self.tail: set[str] = set()
        self.columns: set[int] = set()
        self.last = ""
        self.layer_bytes = 0
        inputs = [value for value in graph.input if value.name not in self.constants]
        if len(inputs) != 1 or not graph.output:
            raise InputError(f"has {len(inputs)} inputs and {len(graph.output)} outputs; a network has one of each")
        if graph.sparse_initializer or len(graph.node) > MOST_NODES:
            raise InputError(
                f"has {len(graph.sparse_initializer)} sparse weights and {len(graph.node):,} nodes; export it with "
                f"dense weights, and at most {MOST_NODES:,} nodes"
            )
        self.signal = inputs[0].name
        shape = [each.dim_value for each in inputs[0].type.tensor_type.shape.dim]
        self.samples = max(shape[0], 0) if shape else 0
        self.sample: tuple[int, ...] | None = tuple(shape[1:]) if len(shape) > 1 and min(shape[1:]) > 0 else None
        if math.prod(self.sample or ()) > MOST_SIGNALS:
            raise InputError(f"has {math.prod(self.sample or ()):,} inputs, the limit is {MOST_SIGNALS:,}; use fewer")

    def steps(self) -> Iterator[Step]:
        """Yield the steps in the order of the nodes.

        Raises:
            InputError: A node is damaged, computes something else, or is no part of a chain.
        """
        written = {self.signal, *self.constants.tensors}
        for index, node in enumerate(self.graph.node):
            kind = node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"
            where = f"node {index}, {kind} {reprlib.repr(node.name)}"
            if not node.output or not all(node.output[:1]) or not written.isdisjoint(filter(None, node.output)):
                raise InputError(f"{where}, has no output, or one that is there before; export it again")
            written.update(filter(None, node.output))
            names = [name for name in node.input if name]
            unknown = [name for name in names if name not in self.constants]
            if node.output[0] in self.tail:
                continue
            follows = kind in AFTER_THEM and self.tail.issuperset(unknown)
            if self.tail and (follows or (kind in LEFT_OUT and unknown == [self.last])):
                self._check_last(where, kind, node)
                if kind == "Slice" and unknown:
                    self._take_column(where, node)
                self.tail.update(filter(None, node.output))
                continue
            if kind not in ATTRIBUTES:
                raise _refused(where, kind)
            values = attributes(where, node, ATTRIBUTES[kind])
            if kind == "Constant":
                self.constants.add_node(where, node)
            elif kind == "Shape" and unknown == [self.signal] and self.sample is not None:
                self.constants.add_shape(node.output[0], (0, *self.sample)[values.get("start", 0) : values.get("end")])
            elif names and not unknown and kind in (*OF_CONSTANTS, *OF_SHAPES):
                self.constants.compute(where, node, values)
            elif kind == "CastLike" and unknown == [self.signal] != names[:1]:
                self.constants.arrays[node.output[0]] = self.constants.get(where, names[0])
            else:
                if unknown != [self.signal]:
                    others = [name for name in unknown if name != self.signal] or unknown
                    raise InputError(
                        f"{where}: takes {reprlib.repr(others)}, which is not stored, and not {self.signal!r} alone; "
                        "use a chain of nodes that take the signal before them and stored constants"
                    )
                yield from ((where, what) for what in self._steps_of(where, kind, node, values))
                self.signal = node.output[0]
        ends, outputs = self.tail or {self.signal}, [value.name for value in self.graph.output]
        if self.columns and self.columns != set(range(max(2, *(self.sample or ())))):
            raise InputError(f"gives the probabilities {sorted(self.columns)} alone; export the model with all of them")
        if ends.isdisjoint(outputs) or not all(
            name in ends or (self.tail and (name == self.last or name in self.constants)) for name in outputs
        ):
            raise InputError(
                f"the chain of nodes ends in {self.signal!r}, but the outputs are {reprlib.repr(outputs)}; export the "
                "network with the result of its last layer as the output"
            )

    def _steps_of(self, where: str, kind: str, node: Any, values: Mapping[str, Any]) -> list[Any]:
        """Return the steps of a node that takes the signal; none if it leaves the values of a sample as they are."""
        first = node.input[0] == self.signal
        if not first and kind not in ("Add", "Sub", "Mul", "Max", "Min"):
            raise InputError(f"{where}: the signal is not its first input; use a stored matrix or constant behind it")
        if kind in ("Gemm", "MatMul"):
            return [self._layer(where, kind, node, values)]
        if kind in ("Add", "Sub", "Mul", "Div"):
            other = self.constants.get(where, [*node.input, ""][first]).astype(np.float64)
            if kind == "Div" and not np.all(other):
                raise InputError(f"{where}: divides by 0; correct the constant {reprlib.repr(node.input[1])}")
            value = self._spread(where, 1.0 / other if kind == "Div" else other)
            if kind in ("Mul", "Div"):
                return [Affine(value)]
            return [Affine(shift=value) if kind == "Add" else Affine(shift=-value) if first else Affine(-1.0, value)]
        if kind in ("Max", "Min"):
            if len(node.input) != 2:
                raise InputError(f"{where}, has {len(node.input)} inputs; use a signal and a constant, or Clip(0, 1)")
            bound = self._bound(where, node.input[first])
            return [Clamp(bound, math.inf) if kind == "Max" else Clamp(-math.inf, bound)]
        if kind in LEFT_OUT:
            self._check_last(where, kind, node)
            if kind == "Sigmoid":
                self._read_two_classes(where, node)
            ends = node.output[0] in [value.name for value in self.graph.output]
            self.last = self.signal
            self.tail.update(filter(None, node.output))
            return [LeftOut(kind if ends else f"{kind} with what follows")]
        if kind == "Relu":
            return [RELU]
        if kind == "Sin":
            return [Sine()]
        if kind == "Clip":
            names = [*node.input[1:], "", ""]
            limits = {"min": -math.inf, "max": math.inf, **values}
            return [Clamp(*(self._bound(where, name or limits[key]) for key, name in zip(limits, names, strict=False)))]
        if kind == "HardSigmoid":
            return [Affine(values.get("alpha", 0.2), values.get("beta", 0.5)), Clamp(0.0, 1.0)]
        if kind == "Scaler":
            scale, offset = (np.array(values.get(key, ()), dtype=np.float64) for key in ("scale", "offset"))
            if 0 in (scale.size, offset.size):
                raise InputError(f"{where}: has no scale or no offset; export it again")
            scale, shift = np.broadcast_arrays(scale, -offset * scale)
            return [Affine(self._spread(where, scale), self._spread(where, shift))]
        if kind == "BatchNormalization":
            return [self._normalisation(where, node, values)]
        if kind in ("LinearRegressor", "LinearClassifier"):
            return self._linear_model(where, kind, node, values)
        if kind == "Reshape" and self._is_one_column(node):
            self.tail.add(node.output[0])
            return [LeftOut(kind, "it puts the outputs of every sample into one column")]
        self._check_unchanged(where, kind, node, values)
        return []

    def _layer(self, where: str, kind: str, node: Any, values: Mapping[str, Any]) -> Layer:
        """Return the layer alpha A B + beta C of a Gemm, or A B of a MatMul, with A the signal."""
        for key in ("transA", "transB"):
            if values.get(key, 0) not in (0, 1):
                raise InputError(f"{where}: {key} is {values[key]}; it must be 0 or 1")
        names = [name for name in node.input[1:] if name]
        if values.get("transA", 0) or len(names) not in ((1, 2) if kind == "Gemm" else (1,)):
            raise InputError(f"{where}, must multiply the signal by stored weights; export it again")
        weight = self.constants.get(where, names[0])
        if not values.get("transB", 0):
            weight = weight.T
        bias = self.constants.get(where, names[1]) if len(names) > 1 else np.zeros(weight.shape[:1])
        if bias.size == 1:
            bias = np.broadcast_to(bias.reshape(()), weight.shape[:1])
        elif bias.ndim == 2 and len(bias) == 1:
            bias = bias[0]
        return self._checked(where, weight, bias, values)

    def _checked(self, where: str, weight: Array, bias: Array, values: Mapping[str, Any]) -> Layer:
        """Return the layer of a weight and a bias, each times its factor, if it fits the signal."""
        self.layer_bytes += 8 * weight.size
        if self.layer_bytes > WEIGHTS.max_bytes:
            raise InputError(
                f"{where}: the layers up to it have {self.layer_bytes:,} bytes, the limit is {WEIGHTS.max_bytes:,}; "
                "use a smaller network"
            )
        try:
            layer = Layer(weight, bias)
            layer = Layer(layer.weight * values.get("alpha", 1.0), layer.bias * values.get("beta", 1.0))
        except ValueError as fault:
            raise InputError(f"{where}: {fault}") from fault
        if self.sample is not None and (math.prod(self.sample), self.sample[-1:]) != (layer.inputs, (layer.inputs,)):
            raise InputError(
                f"{where}: takes {layer.inputs} signals, and its input is of shape (samples, "
                f"{', '.join(map(str, self.sample))}); correct one of them, or add a Flatten"
            )
        self.sample = (layer.outputs,)
        return layer

    def _linear_model(self, where: str, kind: str, node: Any, values: Mapping[str, Any]) -> list[Any]:
        """Return the steps of a linear model of scikit-learn."""
        labels = values.get("classlabels_ints") or values.get("classlabels_strings") or ()
        count = values.get("targets", 1) if kind == "LinearRegressor" else len(labels)
        after = values.get("post_transform", b"NONE")
        known = (b"NONE",) if kind == "LinearRegressor" else (b"NONE", b"SOFTMAX", b"LOGISTIC")
        weight, bias = (np.array(values.get(key, ()), dtype=np.float64) for key in ("coefficients", "intercepts"))
        least = 1 if kind == "LinearRegressor" else 2
        fits = least <= count <= weight.size and weight.size % count == 0
        if after not in known or not fits or bias.size not in (0, count):
            raise InputError(
                f"{where}: has {weight.size} coefficients and {bias.size} intercepts for {count} outputs, and "
                f"{reprlib.repr(after)} after them; give some for each output, and {known[-1].decode()}"
            )
        layer = self._checked(where, weight.reshape(count, -1), bias if bias.size else np.zeros(count), {})
        if kind == "LinearRegressor":
            return [layer]
        self.tail.update(filter(None, node.output))
        return [layer, LeftOut(f"{after.decode()} of {kind} with what follows")]

    def _is_one_column(self, node: Any) -> bool:
        """Return whether a Reshape of several outputs, as skl2onnx ends regressors, is the output (-1, 1)."""
        target = node.input[1] if len(node.input) == 2 else ""
        return (
            node.output[0] in [value.name for value in self.graph.output]
            and self.layer_bytes > 0
            and math.prod(self.sample or ()) > 1
            and target in self.constants
            and self.constants.get("", target, shape=True).tolist() == [-1, 1]
        )

    def _take_column(self, where: str, node: Any) -> None:
        """Note which probability a Slice takes, of which skl2onnx makes outputs of their own.

        Raises:
            InputError: It is not one of axis 1.
        """
        parts = [self.constants.get(where, name).reshape(-1).tolist() for name in node.input[1:] if name]
        if len(parts) != 3 or len(parts[0]) != 1 or parts[1] != [parts[0][0] + 1] or parts[2] != [1]:
            raise InputError(f"{where}: takes {reprlib.repr(parts)}; use one probability of axis 1")
        self.columns.add(parts[0][0])

    def _normalisation(self, where: str, node: Any, values: Mapping[str, Any]) -> Affine:
        """Return a batch normalisation with stored statistics as an affine step."""
        if values.get("training_mode", 0) or any(node.output[1:]):
            raise InputError(f"{where}: computes statistics, as in training; export the model in evaluation mode")
        if len(node.input) != 5 or not all(node.input):
            raise InputError(f"{where}: has {len(node.input)} inputs, it needs 5; export it again")
        arrays = [self.constants.get(where, name).astype(np.float64) for name in node.input[1:]]
        scale, shift, mean, variance = arrays
        variance = variance + values.get("epsilon", 1e-5)
        if scale.ndim != 1 or len({array.shape for array in arrays}) > 1 or not np.all(variance > 0.0):
            raise InputError(
                f"{where}: its constants have the shapes {reprlib.repr([array.shape for array in arrays])} and the "
                "variances must be positive; give one positive variance for each signal"
            )
        scale = scale / np.sqrt(variance)
        # one value for each channel, which is the first dimension of a sample
        shape = (-1, *(1 for _ in (self.sample or ())[1:]))
        return Affine(*(self._spread(where, each.reshape(shape)) for each in (scale, shift - mean * scale)))

    def _check_unchanged(self, where: str, kind: str, node: Any, values: Mapping[str, Any]) -> None:
        """Check that a node leaves the values of each sample as they are, and note their shape.

        Raises:
            InputError: It changes them, or is not known.
        """
        if kind not in ("Identity", "Cast", "Dropout", "Flatten", "Reshape", "Squeeze"):
            raise _refused(where, kind)
        more = [self.constants.get(where, name, shape=True).reshape(-1).tolist() for name in node.input[1:] if name]
        rank = len(self.sample or ()) + 1
        kept = True
        if kind == "Cast":
            kept = values.get("to") in FLOATS
        elif kind == "Dropout":
            if len(node.input) > 2 and node.input[2] and any(more[-1]):
                raise InputError(f"{where}: drops signals, as in training; export the model in evaluation mode")
        elif kind == "Flatten":
            axis = values.get("axis", 1)
            kept = axis == 1 or (self.sample is not None and axis == 1 - rank)
            self.sample = self.sample and (math.prod(self.sample),)
        elif kind == "Squeeze":
            axes = values.get("axes", more[0] if more else range(1, rank))
            whole = all(isinstance(axis, int) for axis in axes)
            removed = {axis + rank if axis < 0 and self.sample is not None else axis for axis in axes} if whole else {0}
            kept = min(removed, default=1) > 0
            if self.sample is not None:
                kept &= all(axis < rank and (axes == range(1, rank) or self.sample[axis - 1] == 1) for axis in removed)
                self.sample = tuple(n for axis, n in enumerate(self.sample, 1) if axis not in removed or n != 1)
        elif kind == "Reshape":
            kept = len(more) == 1 and self._reshape(
                more[0], node.input[1] in self.constants.shapes or not values.get("allowzero")
            )
        if not kept:
            raise InputError(
                f"{where}: changes more than the shape of each sample ({reprlib.repr(more or dict(values))}); use a "
                "Flatten of each sample, or a Cast to floats"
            )

    def _reshape(self, target: list[Any], copies: bool) -> bool:
        """Note the shape of a sample after a Reshape to a target; return False if it does not keep samples apart.

        With ``copies``, a 0 is the number of samples.
        """
        if not target or not all(isinstance(n, int) for n in target):
            return False
        head, *rest = target
        size = None if self.sample is None else math.prod(self.sample)
        whole = math.prod(n for n in rest if n != -1)
        known = (head == 0 and copies) or head == self.samples != 0
        if not (known or head == -1) or any(n < 1 and n != -1 for n in rest) or rest.count(-1) > known:
            return False
        if -1 in rest and size is not None:
            rest[rest.index(-1)] = size // whole
        self.sample = None if -1 in rest else tuple(rest)
        return size is None or size == math.prod(rest)

    def _check_last(self, where: str, kind: str, node: Any) -> None:
        """Check that a node which is left out computes along the outputs of a sample.

        Raises:
            InputError: It computes along samples, or takes the smallest.
        """
        if kind == "Normalizer" and attributes(where, node, ATTRIBUTES[kind]).get("norm") not in (b"L1", b"L2"):
            raise _refused(where, kind)
        if kind in LEFT_OUT:
            values = {"axis": 0 if kind == "ArgMax" else -1} | attributes(where, node, ATTRIBUTES[kind])
            if values["axis"] not in (1, -1) or not values.get("largest", 1):
                raise InputError(
                    f"{where}: axis is {values['axis']}, or it takes the smallest; use the largest of axis 1"
                )

    def _read_two_classes(self, where: str, node: Any) -> None:
        """Read the probabilities 1 - p and p of two classes, which skl2onnx computes of one output with a Sigmoid.

        Raises:
            InputError: Something else follows the Sigmoid.
        """
        share = node.output[0]
        users = [each for each in self.graph.node if share in each.input]
        if [each.op_type for each in users] != ["Sub", "Concat"] or self.sample != (1,):
            raise _refused(where, node.op_type)
        less, both = users
        axis = attributes(where, both, ATTRIBUTES["Concat"]).get("axis")
        chosen = list(less.input[1:]) == [share] and list(both.input) == [*less.output, share] and axis in (1, -1)
        if not chosen or not np.array_equal(self.constants.get(where, less.input[0]).reshape(-1), [1.0]):
            raise _refused(where, node.op_type)
        self.tail.update(less.output, both.output)

    def _spread(self, where: str, array: Array) -> Floats | float:
        """Return a constant that is broadcast to the signal, as a number or as the values of a sample.

        Raises:
            InputError: It is not broadcast, or differs from sample to sample.
        """
        if array.size == 1:
            return float(array.reshape(-1)[0])
        try:
            # without a known shape, samples are rows
            shape = array.shape[-1:] if self.sample is None else self.sample
            return np.broadcast_to(array, (1, *shape)).reshape(-1)
        except ValueError as fault:
            raise InputError(
                f"{where}: a constant of shape {array.shape} does not fit signals of shape (samples, "
                f"{', '.join(map(str, self.sample or ('n',)))}); give one value for each signal"
            ) from fault

    def _bound(self, where: str, value: Any) -> float:
        """Return the bound of a clamp, given as a number or as the name of a constant."""
        if not isinstance(value, float):
            value = self.constants.get(where, value)
        values = np.unique(np.asarray(value, dtype=np.float64))
        if values.size != 1 or np.isnan(values[0]):
            raise InputError(f"{where}: a bound is {reprlib.repr(values.tolist())}; use one number for all units")
        # exporters write the largest number of a type for no bound
        return float(values[0]) if abs(values[0]) < np.finfo(np.float32).max else float(np.sign(values[0]) * np.inf)


def _refused(where: str, kind: str) -> InputError:
    """Return the error for a node that a chip does not compute."""
    return InputError(
        f"{where}: is not computed by a chip, which has layers (Gemm or MatMul) with Relu or Clip between them; "
        f"{REMEDIES.get(kind, 'replace it, or leave it out')}"
    )
