"""ONNX models as exporters write them: outputs equal those of ONNX's reference; what no chip computes is refused.

The graphs are those that the stated versions write, built here because the exporters are not required.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from optinc_pdk.networks import WeightsError
from optinc_pdk.networks import _onnx_format as onnx_format
from optinc_pdk.networks._steps import FoldedModel
from optinc_pdk.networks.layers import propagate
from optinc_pdk.networks.network import load_network

RNG = np.random.default_rng(0)
W, B, V, C = (RNG.normal(size=shape) for shape in ((6, 4), 6, (3, 6), 3))
SCALE, SHIFT, MEAN, VARIANCE = RNG.normal(size=6), RNG.normal(size=6), RNG.normal(size=6), RNG.uniform(0.5, 2.0, size=6)
STORED = {"w": W, "b": B, "v": V, "c": C, "wt": W.T, "vt": V.T, "b1": B[np.newaxis], "c1": C[np.newaxis]}
STORED |= {"scale": SCALE, "shift": SHIFT, "mean": MEAN, "var": VARIANCE}


def node(kind: str, inputs: str, output: str, **attributes: Any) -> Any:
    """A node; inputs are separated by spaces, and "-" is one that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(kind, names, output.split(), **attributes)


def write(
    path: Path,
    nodes: Sequence[Any],
    shape: Sequence[Any] = ("n", 4),
    opset: int = 20,
    ends: str = "y",
    functions: Sequence[Any] = (),
    **stored: Any,
) -> Path:
    """Write a model from x to y, or other outputs, with the constants that its nodes use."""
    used = {name for each in nodes for name in each.input}
    arrays = {name: np.asarray(value) for name, value in (STORED | stored).items() if name in used}
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, shape)],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, None) for name in ends.split()],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    domains = {"": opset, "ai.onnx.ml": 3} | {each.domain: 1 for each in functions}
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*each) for each in domains.items()], functions=functions
    )
    onnx.save(model, path)
    return path


def parsed(path: Path) -> FoldedModel:
    return onnx_format.parse(path, path.read_bytes())


def assert_equal_outputs(path: Path, sample: Sequence[int] = (4,), last: str = "y", samples: int = 9) -> FoldedModel:
    """Compare a file with ONNX's reference, up to the signal ``last``."""
    found, x = parsed(path), np.random.default_rng(1).normal(size=(samples, *sample))
    outputs = propagate(found.layers, x.reshape(samples, -1), found.activation or "relu")
    model = onnx.load(path)
    at = next(i for i, each in enumerate(model.graph.node) if last in each.output)
    del model.graph.node[at + 1 :]
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info(last, TensorProto.DOUBLE, None))
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(outputs, expected.reshape(outputs.shape), rtol=1e-6, atol=1e-6)
    return found


def refused(path: Path, *parts: str) -> None:
    with pytest.raises(WeightsError) as caught:
        parsed(path)
    message = str(caught.value)
    assert message.startswith(str(path)) and len(message) <= 2000
    for part in parts:
        assert part in message, message


FIRST = node("Gemm", "x w b", "h", transB=1)
LAST = node("Gemm", "r v c", "y", transB=1)
LAST_LOGITS = node("Gemm", "r v c", "l", transB=1)
RELU = node("Relu", "h", "r")
NORM = "scale shift mean var"


def constant(name: str, value: Any) -> Any:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value), name))


MODELS: dict[str, tuple[Sequence[Any], dict[str, Any], str]] = {
    # torch.onnx.export of PyTorch 2.13 with dynamo=True, optimised
    "torch": (
        [node("Reshape", "x k", "i", allowzero=1), FIRST, node("Max", "h zero", "r"), LAST],
        {"k": [-1, 4]},
        "relu",
    ),
    # the same with optimize=False, of x.view(x.size(0), -1), x @ w.T + b, clamp(relu(x), max=1), and flatten
    "torch unoptimised": (
        [
            node("Shape", "x", "s", start=0, end=1),
            node("Squeeze", "s", "s0"),
            helper.make_node("Constant", [], ["m1"], value_ints=[-1]),
            node("Reshape", "s0 m1", "s1", allowzero=0),
            helper.make_node("Constant", [], ["m2"], value_ints=[-1]),
            node("Concat", "s1 m2", "k", axis=0),
            node("Reshape", "x k", "i", allowzero=1),
            node("Transpose", "w", "p", perm=[1, 0]),
            node("MatMul", "i p", "m"),
            node("Add", "m b", "h"),
            node("Relu", "h", "a"),
            constant("one", 1),
            node("Cast", "one", "o", to=TensorProto.FLOAT),
            node("CastLike", "o a", "limit"),
            node("Min", "a limit", "r"),
            LAST,
        ],
        {},
        "clipped_relu",
    ),
    # torch.onnx.export of PyTorch 2.13 with dynamo=False and a dynamic number of samples
    "torchscript": (
        [
            node("Shape", "x", "s"),
            constant("zeroth", 0),
            node("Gather", "s zeroth", "s0", axis=0),
            constant("axes", [0]),
            node("Unsqueeze", "s0 axes", "s1"),
            constant("rest", [-1]),
            node("Concat", "s1 rest", "k", axis=0),
            node("Reshape", "x k", "i", allowzero=0),
            constant("half", 0.5),
            node("Sub", "i half", "j"),
            constant("two", 2.0),
            node("Div", "j two", "d"),
            node("Gemm", "d w b", "g", transB=1),
            node("BatchNormalization", f"g {NORM}", "h", epsilon=1e-5, momentum=0.9, training_mode=0),
            RELU,
            node("Dropout", "r", "q"),
            node("BatchNormalization", f"q {NORM}", "z"),
            node("Gemm", "z v c", "y", transB=1),
        ],
        {},
        "relu",
    ),
    # tf2onnx 1.17 of Keras 3.15: Rescaling, Flatten, Dense, BatchNormalization, ReLU(max_value=1), Dense
    "keras": (
        [
            node("Mul", "x half", "e"),
            node("Add", "e zero", "f"),
            node("Reshape", "f k", "i"),
            node("MatMul", "i wt", "m"),
            node("Mul", "m scale", "l"),
            node("Add", "l shift", "h"),
            node("Relu", "h", "a"),
            node("Min", "a one", "u"),
            node("Max", "u zero", "r"),
            node("MatMul", "r vt", "o"),
            node("Add", "o c", "y"),
        ],
        {"k": [-1, 4], "half": 0.5, "one": 1.0},
        "clipped_relu",
    ),
    # skl2onnx 1.20 of make_pipeline(MinMaxScaler(), MLPRegressor())
    "skl2onnx regressor": (
        [
            node("Cast", "x", "e", to=TensorProto.DOUBLE),
            node("Mul", "e factor", "f"),
            node("Add", "f offset", "i"),
            node("MatMul", "i wt", "m"),
            node("Add", "m b1", "h"),
            RELU,
            node("MatMul", "r vt", "o"),
            node("Add", "o c1", "l"),
            node("Reshape", "l k", "y"),
        ],
        {
            "factor": RNG.normal(size=4),
            "offset": RNG.normal(size=4),
            "vt": V[:1].T,
            "c1": C[np.newaxis, :1],
            "k": [-1, 1],
        },
        "relu",
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_exporters_have_the_outputs_of_the_reference(name: str, tmp_path: Path) -> None:
    nodes, stored, activation = MODELS[name]
    sample = (4,) if "skl" in name else (2, 2)
    if name in ("torch", "torch unoptimised"):
        nodes = [node("Gemm", "i w b", "h", transB=1) if each is FIRST else each for each in nodes]
    path = write(tmp_path / "w.onnx", nodes, ["n", *sample], zero=0.0, **stored)
    found = assert_equal_outputs(path, sample)
    assert found.activation == activation and found.remarks == ()


@pytest.mark.parametrize(
    ("between", "opset", "activation"),
    [
        ([node("Clip", "h", "r", min=0.0, max=6.0)], 9, "clipped_relu"),
        ([node("Clip", "h low high", "r")], 25, "clipped_relu"),
        ([node("Clip", "h - high", "r")], 13, "relu"),
        ([node("Clip", "h low", "r")], 11, "relu"),
        ([node("HardSigmoid", "h", "r", alpha=0.25)], 20, "clipped_relu"),
        ([node("Relu", "h", "a"), node("Sub", "high a", "r")], 20, "relu"),
        ([node("Mul", "mean h", "a"), node("Relu", "a", "o"), node("Div", "o var", "r")], 20, "relu"),
        ([node("BatchNormalization", f"h {NORM}", "a", epsilon=0.1), node("Relu", "a", "r")], 15, "relu"),
        ([node("Relu", "h", "a"), node("Dropout", "a ratio off", "r m")], 13, "relu"),
        ([node("Relu", "h", "a"), node("Identity", "a", "o"), node("Flatten", "o", "r", axis=-1)], 13, "relu"),
    ],
)
def test_nodes_between_layers(between: list[Any], opset: int, activation: str, tmp_path: Path) -> None:
    numbers = {"low": -0.5, "high": 1.5, "ratio": 0.5, "off": False}
    path = write(tmp_path / "w.onnx", [FIRST, *between, LAST], opset=opset, **numbers)
    assert assert_equal_outputs(path).activation == activation


@pytest.mark.parametrize("bias", [np.float64(0.5), np.array([0.5]), np.array([[0.5]]), C, C[np.newaxis]])
@pytest.mark.parametrize("linear", ["Gemm", "MatMul", "reversed"])
def test_a_bias_is_broadcast(bias: np.ndarray, linear: str, tmp_path: Path) -> None:
    last = {
        "Gemm": [node("Gemm", "r v k", "y", transB=1, alpha=2.0, beta=3.0)],
        "MatMul": [node("MatMul", "r vt", "o"), node("Add", "o k", "y")],
        "reversed": [node("MatMul", "r vt", "o"), node("Add", "k o", "y")],
    }[linear]
    assert_equal_outputs(write(tmp_path / "w.onnx", [FIRST, RELU, *last], k=bias))


@pytest.mark.parametrize(
    ("leading", "shape", "opset"),
    [
        ([node("Flatten", "x", "i")], ("n", 1, 2, 2), 13),
        ([node("Flatten", "x", "i", axis=-3)], ("n", 1, 2, 2), 13),
        ([node("Squeeze", "x", "i", axes=[1, 3])], ("n", 1, 4, 1), 9),
        ([node("Squeeze", "x axes", "i")], ("n", 1, 4, 1), 13),
        ([node("Squeeze", "x", "i")], ("n", 1, 4, 1), 13),
        ([node("Reshape", "x copied", "i")], ("n", 2, 2), 13),
        ([node("Reshape", "x fixed", "i")], (9, 2, 2), 13),
        # the mean and deviation of each channel of a picture
        ([node("Sub", "x each", "e"), node("Div", "e each", "f"), node("Flatten", "f", "i")], ("n", 2, 1, 2), 13),
        ([node("BatchNormalization", "x one one two two", "e"), node("Flatten", "e", "i")], ("n", 2, 1, 2), 15),
    ],
)
def test_samples_of_several_dimensions(leading: list[Any], shape: Any, opset: int, tmp_path: Path) -> None:
    stored = {"axes": [-1, 1], "copied": [0, -1], "fixed": [9, 4], "each": [[[0.5]], [[2.0]]], "one": [1.0, 3.0]}
    nodes = [*leading, node("Gemm", "i w b", "h", transB=1), RELU, LAST]
    path = write(tmp_path / "w.onnx", nodes, shape, opset, **stored, two=[2.0, 4.0])
    assert_equal_outputs(path, shape[1:])


@pytest.mark.parametrize(
    "last", [node("Softmax", "l", "y"), node("LogSoftmax", "l", "y", axis=1), node("ArgMax", "l", "y", axis=1)]
)
def test_what_does_not_change_the_largest_output_is_left_out(last: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "w.onnx", [FIRST, RELU, node("Gemm", "r v c", "l", transB=1), last])
    found = assert_equal_outputs(path, last="l")
    assert len(found.remarks) == 1 and found.remarks[0].startswith(f"{last.op_type} at the end is left out")
    assert load_network(path).remarks == found.remarks


SKL_LABELS = [
    node("ArgMax", "p", "a", axis=1),
    node("ArrayFeatureExtractor", "labels a", "f", domain="ai.onnx.ml"),
    node("Reshape", "f k", "l1"),
]


def test_labels_and_probabilities_of_skl2onnx(tmp_path: Path) -> None:
    # skl2onnx 1.20 of make_pipeline(StandardScaler(), MLPClassifier()), with labels that are texts
    nodes = [
        node("Scaler", "x", "s", domain="ai.onnx.ml", offset=[0.5, 1.0, -1.0, 0.25], scale=[1.0, 2.0, 0.5, 4.0]),
        node("Cast", "s", "i", to=TensorProto.DOUBLE),
        node("Gemm", "i w b", "h", transB=1),
        RELU,
        node("MatMul", "r vt", "o"),
        node("Add", "o c1", "l"),
        node("Softmax", "l", "p"),
        *SKL_LABELS,
        node("ZipMap", "p", "z", domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"]),
    ]
    path = write(tmp_path / "w.onnx", nodes, ends="l1 z", labels=np.array(["a", "b", "c"], dtype=object), k=[-1])
    assert assert_equal_outputs(path, last="l").remarks[0].startswith("Softmax with what follows")


COLUMNS = {
    f"from{i}": [node("Slice", f"p at{i} at{i + 1} at1", f"s{i}"), node("Reshape", f"s{i} k", f"i{i}")]
    for i in range(3)
}


@pytest.mark.parametrize("missing", ["", "from0", "from2"])
def test_probabilities_as_columns(missing: str, tmp_path: Path) -> None:
    # skl2onnx 1.20 of MLPClassifier with options={"zipmap": "columns"}
    columns = [each for name, nodes in COLUMNS.items() if name != missing for each in nodes]
    nodes = [FIRST, RELU, node("Gemm", "r v c", "l", transB=1), node("Softmax", "l", "p"), *SKL_LABELS, *columns]
    ends = " ".join(["l1", *(each.output[0] for each in columns if each.op_type == "Reshape")])
    path = write(tmp_path / "w.onnx", nodes, ends=ends, labels=[0, 1, 2], k=[-1], **{f"at{i}": [i] for i in range(4)})
    if missing:
        refused(path, "probabilities", "alone")
    else:
        assert_equal_outputs(path, last="l")


def test_a_slice_of_several_probabilities_is_refused(tmp_path: Path) -> None:
    nodes = [FIRST, RELU, LAST_LOGITS, node("Softmax", "l", "p"), node("Slice", "p zero two one", "y")]
    refused(write(tmp_path / "w.onnx", nodes, zero=[0], one=[1], two=[2]), "node 4, Slice", "one probability")


def test_several_outputs_of_a_regressor_of_skl2onnx(tmp_path: Path) -> None:
    # skl2onnx 1.20 of MLPRegressor, which writes the outputs of all samples below one another
    nodes = [FIRST, RELU, LAST_LOGITS, node("Reshape", "l k", "y")]
    found = assert_equal_outputs(write(tmp_path / "w.onnx", nodes, k=[-1, 1]))
    assert found.layers[-1].outputs == 3 and found.remarks[0].startswith("Reshape at the end is left out: it puts")
    # in the middle, samples and signals would be mixed
    nodes = [FIRST, node("Reshape", "h k", "r"), LAST]
    refused(write(tmp_path / "w.onnx", nodes, k=[-1, 1]), "node 1, Reshape", "changes more")


LINEAR = {"coefficients": W[:3].reshape(-1).tolist(), "intercepts": C.tolist()}


@pytest.mark.parametrize("scaled", [False, True])
def test_linear_models_of_skl2onnx(scaled: bool, tmp_path: Path) -> None:
    # skl2onnx 1.20 of LinearRegression and LogisticRegression, in single and double precision
    first = [node("Scaler", "x", "i", domain="ai.onnx.ml", offset=[0.5], scale=[2.0])] if scaled else []
    x = "i" if scaled else "x"
    weight, bias = np.float32(W[:3] * (2.0 if scaled else 1.0)), C - (W[:3].sum(axis=1) if scaled else 0.0)
    regressor = node("LinearRegressor", x, "y", domain="ai.onnx.ml", targets=3, **LINEAR)
    classifier = node(
        "LinearClassifier",
        x,
        "label t",
        domain="ai.onnx.ml",
        classlabels_strings=["a", "b", "c"],
        post_transform="SOFTMAX",
        **LINEAR,
    )
    normaliser = node("Normalizer", "t", "p", domain="ai.onnx.ml", norm="L1")
    for nodes, ends in (
        ([regressor], "y"),
        ([classifier, normaliser, node("Cast", "label", "n", to=TensorProto.STRING)], "n p"),
    ):
        (layer,) = parsed(write(tmp_path / "w.onnx", [*first, *nodes], ends=ends)).layers
        np.testing.assert_allclose(layer.weight, weight, rtol=1e-6)
        np.testing.assert_allclose(layer.bias, bias, rtol=1e-6)
    # the label and the probabilities both take the last outputs, which may be an output as well
    nodes = [FIRST, RELU, LAST_LOGITS, node("ArgMax", "l", "a", axis=1), node("Softmax", "l", "p")]
    assert_equal_outputs(write(tmp_path / "w.onnx", nodes, ends="a p l"), last="l")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("LinearRegressor", {"targets": 5}),
        ("LinearRegressor", {"targets": 2**40}),
        ("LinearRegressor", {"targets": 3, "post_transform": "SOFTMAX"}),
        ("LinearRegressor", {"targets": 3, "intercepts": [1.0]}),
        ("LinearRegressor", {"targets": 0}),
        ("LinearClassifier", {"classlabels_ints": [0], "intercepts": [1.0]}),
        ("LinearClassifier", {}),
        ("LinearClassifier", {"classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX_ZERO"}),
    ],
)
def test_linear_models_that_are_damaged(kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    nodes = [node(kind, "x", "y", domain="ai.onnx.ml", **(LINEAR | changes))]
    refused(write(tmp_path / "w.onnx", nodes), f"node 0, {kind}", "coefficients")


def test_the_largest_of_what_follows_a_linear_model_is_kept(tmp_path: Path) -> None:
    # a row over its largest entry, which is negative, has its smallest first
    classifier = node("LinearClassifier", "x", "l t", domain="ai.onnx.ml", classlabels_ints=[0, 1, 2], **LINEAR)
    nodes = [classifier, node("Normalizer", "t", "y", domain="ai.onnx.ml", norm="MAX")]
    refused(write(tmp_path / "w.onnx", nodes, ends="l y"), "node 1, Normalizer")


@pytest.mark.parametrize("fault", ["", "Sub", "Concat", "width"])
def test_two_classes_of_skl2onnx_are_one_output(fault: str, tmp_path: Path) -> None:
    # skl2onnx 1.20 of MLPClassifier with two classes
    nodes = [
        FIRST,
        RELU,
        node("Gemm", "r v c" if fault == "width" else "r v1", "l", transB=1),
        node("Sigmoid", "l", "s"),
        node("Sub", "half s" if fault == "Sub" else "one s", "t"),
        node("Concat", "s t" if fault == "Concat" else "t s", "p", axis=1),
        *SKL_LABELS,
    ]
    path = write(tmp_path / "w.onnx", nodes, ends="l1 p", labels=[0, 1], k=[-1], one=1.0, half=0.5, v1=V[:1])
    if fault:
        refused(path, "node 3, Sigmoid", "leave it out")
    else:
        assert assert_equal_outputs(path, last="l").layers[-1].outputs == 1


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
@pytest.mark.parametrize("raw", [True, False])
def test_floats_of_16_to_64_bits_are_read_exactly(kind: int, raw: bool, tmp_path: Path) -> None:
    values = [[1.5, -0.25], [3.0, 2.0**-8]]
    path = write(tmp_path / "w.onnx", [node("MatMul", "x k", "y")], ("n", 2), k=np.zeros((2, 2)))
    model = onnx.load(path)
    # without raw bytes, numbers of 16 bits are in int32_data
    tensor = helper.make_tensor("k", kind, [2, 2], [n for row in values for n in row])
    if raw:
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor), "k")
    assert tensor.data_type == kind and tensor.HasField("raw_data") == raw
    model.graph.initializer[0].CopyFrom(tensor)
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(parsed(path).layers[0].weight, np.array(values).T)


def test_constants_among_the_inputs_and_constants_of_constants(tmp_path: Path) -> None:
    nodes = [
        node("Identity", "flat", "f"),
        node("Reshape", "f k", "g"),
        node("Reshape", "g same", "e"),
        node("Unsqueeze", "e", "u", axes=[0]),
        node("Squeeze", "u", "s", axes=[0]),
        node("Cast", "s", "d", to=TensorProto.DOUBLE),
        node("Gemm", "x d b", "h", transB=1),
        RELU,
        LAST,
    ]
    # a 0 copies the dimension
    path = write(tmp_path / "w.onnx", nodes, opset=9, flat=W.reshape(-1).astype(np.float32), k=[6, -1], same=[0, 4])
    model = onnx.load(path)
    model.ir_version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in model.graph.initializer
    )
    path.write_bytes(model.SerializeToString())
    assert_equal_outputs(path)


def external(path: Path) -> Path:
    """Write a model with its weights in a file beside it, as torch.onnx.export does with dynamo=True."""
    write(path, [FIRST, RELU, LAST])
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.onnx.data", size_threshold=100)
    return path


def test_weights_beside_the_model(tmp_path: Path) -> None:
    path = external(tmp_path / "w.onnx")
    assert (tmp_path / "w.onnx.data").stat().st_size >= (W.size + V.size) * 8
    np.testing.assert_array_equal(parsed(path).layers[1].weight, V)
    assert_equal_outputs(path)


def set_entry(key: str, value: str) -> Callable[[Any], None]:
    def change(tensor: Any) -> None:
        entries = {each.key: each.value for each in tensor.external_data} | {key: value}
        del tensor.external_data[:]
        for name, text in entries.items():
            tensor.external_data.add(key=name, value=text)

    return change


def set_dims(tensor: Any) -> None:
    tensor.dims[:] = [2**20, 2**20]
    set_entry("length", str(2**43))(tensor)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (set_entry("location", ""), ("'w'", "''", "out of the folder")),
        (set_entry("location", "."), ("'.'", "out of the folder")),
        (set_entry("location", "/etc/passwd"), ("'/etc/passwd'", "out of the folder")),
        (set_entry("location", "../w.onnx.data"), ("'../w.onnx.data'", "out of the folder")),
        (set_entry("location", "a/../../w.onnx.data"), ("out of the folder",)),
        (set_entry("location", "C:w.onnx.data"), ("out of the folder",)),
        (set_entry("location", "a\0b"), ("out of the folder",)),
        (set_entry("location", "link"), ("'link'", "out of the folder")),
        (set_entry("location", "none.data"), ("'none.data'", "No such file")),
        (set_entry("location", "folder"), ("'folder'", "Is a directory")),
        (set_entry("location", "pipe"), ("'pipe'", "a pipe has no known end")),
        (set_entry("length", "184"), ("'184'", "192 bytes")),
        (set_entry("length", "x"), ("'x'", "192 bytes")),
        (set_entry("length", "9" * 10_000), ("192 bytes",)),
        (set_entry("offset", "-1"), ("'-1'",)),
        (set_entry("offset", "100000"), ("100,192", "write it again")),
        (set_entry("offset", str(2**63)), ("write it again",)),
        (set_dims, ("8,796,093,022,208 bytes", "the limit is 268,435,456")),
        (lambda tensor: tensor.ClearField("external_data"), ("''", "out of the folder")),
    ],
)
def test_files_of_weights_that_cannot_be_used(change: Any, parts: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "inside" / "folder").mkdir(parents=True)
    path = external(tmp_path / "inside" / "w.onnx")
    os.mkfifo(path.parent / "pipe")
    (tmp_path / "outside").write_bytes(bytes(1000))
    (path.parent / "link").symlink_to(tmp_path / "outside")
    model = onnx.load(path, load_external_data=False)
    change(next(each for each in model.graph.initializer if each.name == "w"))
    path.write_bytes(model.SerializeToString())
    refused(path, *parts)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    path = external(tmp_path / "w.onnx")
    (tmp_path / "w.onnx.data").rename(tmp_path / "blob")
    (tmp_path / "w.onnx.data").symlink_to("blob")
    np.testing.assert_array_equal(parsed(path).layers[0].weight, W)


@pytest.mark.parametrize(
    ("between", "part"),
    [
        ([node("LeakyRelu", "h", "r", alpha=0.0)], "node 1, LeakyRelu '': is not computed by a chip|train with ReLU"),
        ([node("PRelu", "h scale", "r")], "PRelu"),
        ([node("Gelu", "h", "r")], "Gelu"),
        ([node("Sigmoid", "h", "r")], "Sigmoid"),
        ([node("LayerNormalization", "h scale", "r")], "LayerNormalization|batch normalisation"),
        ([node("Conv", "h scale", "r")], "Conv|fully connected"),
        ([node("Relu", "h", "r", domain="com.microsoft")], "node 1, com.microsoft.Relu"),
        ([node("Relu", "h", "a"), node("Add", "a h", "r")], "node 2, Add '': takes ['h'], which is not stored"),
        ([node("Mul", "h h", "r")], "which is not stored"),
        ([node("Dropout", "h ratio on", "r")], "as in training"),
        ([node("BatchNormalization", f"h {NORM}", "r", training_mode=1)], "as in training"),
        ([node("BatchNormalization", f"h {NORM}", "r m v1")], "as in training"),
        ([node("BatchNormalization", "h scale shift mean low", "r")], "positive variance"),
        ([node("Cast", "h", "r", to=TensorProto.INT64)], "Cast|to"),
        ([node("Reshape", "h merged", "r")], "Reshape|[-1, 3]"),
        ([node("Reshape", "h whole", "r")], "Reshape|[-1, 0]"),
        ([node("Flatten", "h", "r", axis=0)], "Flatten|'axis': 0"),
        ([node("Squeeze", "h", "r", axes=[0])], "Squeeze|[0]"),
        ([node("Squeeze", "h ratio", "r")], "Squeeze|[[0.5]]"),
        ([node("Transpose", "h", "r", perm=[1, 0])], "Transpose"),
        ([node("Div", "low h", "r")], "Div"),
        ([node("Add", "- h", "r")], "Add"),
        ([node("MatMul", "w h", "r")], "MatMul"),
        ([node("Div", "h zeros", "r")], "divides by 0"),
        ([node("Add", "h c", "r")], "(3,) does not fit"),
        ([node("Shape", "h", "s"), node("Mul", "h s", "r")], "the number of samples"),
        ([node("Softmax", "h", "r")], "Gemm '': follows Softmax"),
        ([node("Clip", "h h", "r")], "Clip"),
        ([node("Scaler", "h", "r", domain="ai.onnx.ml", scale=[1.0])], "no offset"),
    ],
)
def test_nodes_that_no_chip_computes_are_refused_by_name(between: list[Any], part: str, tmp_path: Path) -> None:
    numbers = {"low": np.full(6, -1.0), "zeros": np.zeros(6), "merged": [-1, 3], "whole": [-1, 0]}
    path = write(tmp_path / "w.onnx", [FIRST, *between, LAST], ratio=0.5, on=True, **numbers)
    refused(path, *part.split("|"))


@pytest.mark.parametrize(
    ("last", "ends", "part"),
    [
        (node("ArgMax", "l", "y"), "y", "axis is 0"),
        (node("Softmax", "l", "y", axis=0), "y", "axis is 0"),
        (node("TopK", "l k", "y i", largest=0), "y", "the smallest"),
        (node("Identity", "l", "y"), "y h", "['y', 'h']"),
        (node("Identity", "l", "y"), "l", "ends in 'y'"),
    ],
)
def test_other_ends_are_refused(last: Any, ends: str, part: str, tmp_path: Path) -> None:
    nodes = [FIRST, RELU, node("Gemm", "r v c", "l", transB=1), last]
    refused(write(tmp_path / "w.onnx", nodes, ends=ends, k=[1]), part)


def test_sizes_are_limited(tmp_path: Path) -> None:
    many = [FIRST, *(node("Identity", f"h{i}" if i else "h", f"h{i + 1}") for i in range(10_000))]
    refused(write(tmp_path / "w.onnx", many), "10,001 nodes", "10,000")
    refused(write(tmp_path / "w.onnx", [FIRST], ("n", 2**20, 4)), "4,194,304 inputs", "1,048,576")
    refused(write(tmp_path / "w.onnx", [FIRST], ("n", 3)), "takes 4 signals", "(samples, 3)")
    wide = np.ones((1, 2**13))
    nodes = [node("Gemm", "x a", "h", transB=1), node("Gemm", "h a", "y")]
    refused(write(tmp_path / "w.onnx", nodes, ("n", 2**13), a=wide), "8,192 x 8,192", "33,554,432")
    shapes = [
        node("Concat", "k k", "k0", axis=0),
        *(node("Concat", f"k{i} k{i}", f"k{i + 1}", axis=0) for i in range(40)),
    ]
    refused(write(tmp_path / "w.onnx", shapes, k=[1, 2]), "Concat", "more than 64")
    casts = [node("Cast", "k", f"k{i}", to=TensorProto.FLOAT) for i in range(40)]
    refused(write(tmp_path / "w.onnx", casts, k=np.zeros(2**21)), "the limit is 268,435,456")
    square = [node("Gemm", f"{'h' + str(i) if i else 'x'} k", f"h{i + 1}") for i in range(20)]
    path = write(tmp_path / "w.onnx", square, ("n", 2**11), k=np.zeros((2**11, 2**11), dtype=np.float16))
    refused(path, "301,989,888 bytes", "the limit is 268,435,456")


def function(name: str, *nodes: Any) -> Any:
    return helper.make_function(
        "local", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    )


def test_functions_of_a_model_are_put_in_place(tmp_path: Path) -> None:
    """The dynamo exporters of PyTorch 2.1 to 2.5 write functions, and later ones put them in place."""
    relu6 = function("relu6", constant("l", 0.0), constant("u", 6.0), node("Clip", "x l u", "y"))
    outer = function("outer", node("relu6", "x", "y", domain="local"))
    nodes = [FIRST, node("outer", "h", "r", domain="local"), LAST]
    path = write(tmp_path / "w.onnx", nodes, functions=[relu6, outer])
    assert assert_equal_outputs(path).activation == "clipped_relu"


def test_functions_that_grow_without_limit_are_refused(tmp_path: Path) -> None:
    doubled = [
        function(f"f{i}", node(f"f{i + 1}", "x", "m", domain="local"), node(f"f{i + 1}", "m", "y", domain="local"))
        for i in range(18)
    ]
    nodes = [FIRST, node("f0", "h", "r", domain="local"), LAST]
    refused(write(tmp_path / "w.onnx", nodes, functions=[*doubled, function("f18", node("Relu", "x", "y"))]), "262,144")
    circle = function("f0", node("f0", "x", "y", domain="local"))
    refused(write(tmp_path / "w.onnx", nodes, functions=[circle]), "more than 20 functions")
    twice = function("f0", node("Relu", "x", "y"))
    refused(write(tmp_path / "w.onnx", nodes, functions=[twice, twice]), "cannot be put in place")
    long = node("f0", "h", "r", domain="local", name="n" * 5000)
    refused(write(tmp_path / "w.onnx", [FIRST, long, LAST], functions=[circle]), "2,048 bytes")


@pytest.mark.parametrize("activation", ["clipped_relu", "sine"])
@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.filterwarnings("ignore")
def test_the_exporters_of_pytorch(dynamo: bool, activation: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra [train] has it")
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript, which this exporter needs, is not installed")
    sine = importlib.import_module("optinc_pdk.networks.training.modulator_sine").ModulatorSine
    torch.manual_seed(0)
    parts = [
        torch.nn.Flatten(),
        torch.nn.Linear(64, 30),
        torch.nn.BatchNorm1d(30),
        sine() if activation == "sine" else torch.nn.ReLU6(),
        torch.nn.Dropout(),
    ]
    module = torch.nn.Sequential(*parts, torch.nn.Linear(30, 3), torch.nn.Softmax(1)).double().eval()
    x, path = torch.rand(9, 1, 8, 8, dtype=torch.float64), tmp_path / "w.onnx"
    torch.onnx.export(module, (x,), str(path), dynamo=dynamo, verbose=False)
    found = parsed(path)
    assert len(found.remarks) == 1 and found.activation == activation
    outputs = propagate(found.layers, x.reshape(9, -1).numpy(), found.activation)
    np.testing.assert_allclose(outputs, module[:-1](x).detach().numpy(), rtol=1e-6, atol=1e-6)
