"""Files of PyTorch, .safetensors and .onnx, load as networks with their activations; invalid ones raise errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, WeightsError, carry_chain
from optinc_pdk.networks.weight_files import NETWORKS

TASK = {"bits": 4, "servers": 4, "groups": 2}


@pytest.fixture
def onn() -> AveragingNetwork:
    return carry_chain(Averaging(4, 4, 2))


@pytest.fixture
def sequential(onn: AveragingNetwork) -> torch.nn.Sequential:
    """The network as a PyTorch module."""
    parts: list[torch.nn.Module] = []
    for layer in onn.layers:
        linear = torch.nn.Linear(layer.inputs, layer.outputs, dtype=torch.float64)
        linear.load_state_dict({"weight": torch.tensor(layer.weight), "bias": torch.tensor(layer.bias)})
        parts += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*parts[:-1])


def assert_same(one: AveragingNetwork, other: AveragingNetwork) -> None:
    assert (one.task, one.structure, one.factor) == (other.task, other.structure, other.factor)
    for layer, expected in zip(one.layers, other.layers, strict=True):
        np.testing.assert_array_equal(layer.weight, expected.weight)
        np.testing.assert_array_equal(layer.bias, expected.bias)


def refused(path: Path, *parts: str, **task: Any) -> None:
    with pytest.raises(WeightsError) as caught:
        AveragingNetwork.load(path, **(task or TASK))
    assert str(caught.value).startswith(str(path))
    for part in parts:
        assert part in str(caught.value)


def test_safetensors_of_torch_load_identically(
    onn: AveragingNetwork, sequential: torch.nn.Sequential, tmp_path: Path
) -> None:
    path = tmp_path / "weights.safetensors"
    save_file(sequential.state_dict(), path)
    assert_same(AveragingNetwork.load(path, **TASK, activation="relu"), onn)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_onnx_of_torch_loads_identically(
    onn: AveragingNetwork, sequential: torch.nn.Sequential, tmp_path: Path
) -> None:
    path = tmp_path / "weights.onnx"
    # The newer exporter needs one more package.
    torch.onnx.export(sequential, (torch.zeros(1, 2, dtype=torch.float64),), str(path), dynamo=False)
    assert_same(AveragingNetwork.load(path, **TASK), onn)


def test_a_task_is_needed_and_must_fit(sequential: torch.nn.Sequential, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file(sequential.state_dict(), path, metadata={"activation": "relu"})
    refused(path, "servers, groups", bits=4)
    refused(path, "2 inputs", "groups = 4", bits=8, servers=4, groups=4)
    refused(path, "bits = 7", bits=7, servers=4, groups=2)


def test_linear_without_bias_has_a_bias_of_zero(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2, bias=False))
    path = tmp_path / "weights.safetensors"
    save_file(model.state_dict(), path)
    first, last = AveragingNetwork.load(path, **TASK, activation="relu").layers
    assert first.bias.any() and not last.bias.any()
    assert np.array_equal(last.weight, model[2].weight.detach().numpy())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_onnx_of_torch_without_bias_loads_identically(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2, bias=False))
    path = tmp_path / "w.onnx"
    torch.onnx.export(model, (torch.zeros(1, 2),), str(path), dynamo=False)
    onn = AveragingNetwork.load(path, 4, 4, 2)
    points = np.random.default_rng(0).uniform(0, 3, (20, 2))
    expected = model(torch.tensor(points, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(onn.forward(points), expected, atol=1e-5)
    assert not onn.layers[1].bias.any()


def test_unusable_safetensors_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    refused(path, "No such file or directory")
    path.write_text("plain text")
    refused(path, ".safetensors")
    weight, bias = np.ones((2, 2)), np.ones(2)
    for arrays, part in (
        ({"0.weight": weight, "0.bias": bias, "1.weight": weight, "1.bias": bias}, "0 → activation → 1"),
        ({"0.bias": bias}, "0: weight is missing"),
        ({"0.weight": weight, "0.bias": bias, "scale": bias}, "scale"),
        ({"0.weight": weight * np.nan, "0.bias": bias}, "NaN"),
        ({"0.weight": np.ones((2, 2), dtype=np.int32), "0.bias": bias}, "I32"),
        ({"0.weight": np.ones((2, 2, 1)), "0.bias": bias}, "(2, 2, 1)"),
        ({}, "0.weight"),
    ):
        save_arrays(arrays, path)
        refused(path, part)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_of_16_to_64_bits_are_read_exactly(kind: torch.dtype, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    weight = torch.tensor([[1.2345, -0.1], [3e-7, 2.75]]).to(kind)
    save_file({"0.weight": weight}, path)
    layer = AveragingNetwork.load(path, **TASK).layers[0]
    np.testing.assert_array_equal(layer.weight, weight.to(torch.float64).numpy())
    assert layer.weight.dtype == layer.bias.dtype == np.float64 and not layer.bias.any()


def test_floats_that_overflow_or_have_8_bits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_file({"0.weight": torch.full((2, 2), torch.inf, dtype=torch.bfloat16)}, path)
    refused(path, "infinity")
    save_file({"0.weight": torch.ones(2, 2, dtype=torch.float8_e4m3fn)}, path)
    refused(path, "0.weight is of type F8_E4M3", "BF16")


WEIGHT = np.array([[1.0, 2.0], [3.0, 4.0]])
BIAS = np.array([5.0, 6.0])


def graph(path: Path, nodes: list[Any], **arrays: np.ndarray) -> Path:
    """Write a model from x to y with the given nodes and constants."""
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [None, 2]) for name in "xy"]
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)), path)
    return path


def test_gemm_attributes_are_applied(tmp_path: Path) -> None:
    path = tmp_path / "weights.onnx"
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=2.0, beta=0.5)
    (layer,) = AveragingNetwork.load(graph(path, [node], w=WEIGHT, b=BIAS), **TASK).layers
    np.testing.assert_array_equal(layer.weight, 2.0 * WEIGHT.T)
    np.testing.assert_array_equal(layer.bias, 0.5 * BIAS)
    node = helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)
    (layer,) = AveragingNetwork.load(graph(path, [node], w=WEIGHT), **TASK).layers
    np.testing.assert_array_equal(layer.weight, WEIGHT)
    np.testing.assert_array_equal(layer.bias, [0.0, 0.0])


def gemm(source: str, target: str, **attributes: Any) -> Any:
    return helper.make_node("Gemm", [source, "w", "b"], [target], **attributes)


@pytest.mark.parametrize(
    ("nodes", "part"),
    [
        (
            lambda: [gemm("x", "h"), helper.make_node("Tanh", ["h"], ["y"])],
            "node 1, Tanh '': is not computed by a chip",
        ),
        (
            lambda: [gemm("x", "h"), helper.make_node("Relu", ["h"], ["y"])],
            "node 1, Relu '': an activation after the last layer",
        ),
        (lambda: [helper.make_node("Relu", ["x"], ["y"])], "node 0, Relu '': an activation that does not follow"),
        (lambda: [gemm("x", "z")], "'y'"),
        (
            lambda: [gemm("x", "h"), helper.make_node("Relu", ["h"], ["r"]), gemm("x", "y")],
            "node 2, Gemm '': takes ['x'], which is not stored, and not 'r' alone",
        ),
        (lambda: [gemm("x", "y", transA=1)], "Gemm"),
        (lambda: [helper.make_node("Gemm", ["x", "x"], ["y"])], "Gemm"),
        (lambda: [], "'y'"),
    ],
)
def test_other_graphs_are_refused(tmp_path: Path, nodes: Callable[[], list[Any]], part: str) -> None:
    refused(graph(tmp_path / "weights.onnx", nodes(), w=WEIGHT, b=BIAS), part)


def test_unusable_onnx_weights_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.onnx"
    refused(graph(path, [gemm("x", "y")], w=WEIGHT * np.inf, b=BIAS), "NaN")
    refused(graph(path, [gemm("x", "y")], w=WEIGHT, b=np.ones(3)), "bias has 3")
    path.write_text("plain text")
    refused(path, ".onnx")
    path.write_bytes(b"")
    refused(path, "0 inputs")
    path.unlink()
    refused(path, "No such file or directory")


def test_weights_in_another_file_are_never_read(tmp_path: Path) -> None:
    path = graph(tmp_path / "weights.onnx", [gemm("x", "y")], w=WEIGHT, b=BIAS)
    model = onnx.load(path)
    onnx.external_data_helper.set_external_data(model.graph.initializer[0], "../secret.bin")
    model.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    path.write_bytes(model.SerializeToString())
    refused(path, "'w'")


def changed(path: Path, change: Callable[[Any], None], *nodes: Any, **arrays: np.ndarray) -> Path:
    """A model of one Gemm, or of other nodes, with a change that the helpers of ONNX would refuse."""
    graph(path, list(nodes) or [gemm("x", "y")], **({"w": WEIGHT, "b": BIAS} | arrays))
    model = onnx.load(path)
    change(model.graph)
    path.write_bytes(model.SerializeToString())
    return path


def set_dims(*dims: int) -> Callable[[Any], None]:
    def change(found: Any) -> None:
        del found.initializer[0].dims[:]
        found.initializer[0].dims.extend(dims)

    return change


def add_twice(found: Any) -> None:
    found.node[0].attribute.extend([helper.make_attribute("alpha", 2.0)] * 2)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda g: g.node[0].attribute.append(helper.make_attribute("alpha", float("nan"))), "alpha is nan"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("alpha", float("inf"))), "alpha is inf"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("beta", float("-inf"))), "beta is -inf"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("alpha", 3e38)), "beyond ±1e+30"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("alpha", 1)), "alpha is not of type FLOAT"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("transB", 2)), "transB is 2; it must be 0 or 1"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("transA", -1)), "transA is -1"),
        (lambda g: g.node[0].attribute.append(helper.make_attribute("gamma", 1.0)), "attribute 'gamma'"),
        (add_twice, "'alpha', which is unknown or twice there"),
        (lambda g: g.node[0].attribute.add(name="alpha", type=1, ref_attr_name="a"), "alpha is not of type FLOAT"),
        (set_dims(-2, 2), "dimensions [-2, 2]"),
        (set_dims(-2, -2), "dimensions [-2, -2]"),
        (set_dims(2, 3), "'w' is damaged"),
        (set_dims(2**40, 2**40), "'w' is damaged"),
        (set_dims(0, 2), "'w' is damaged"),
        (lambda g: g.initializer[0].segment.MergeFrom(onnx.TensorProto.Segment(begin=0, end=1)), "is a segment"),
        (lambda g: setattr(g.initializer[0], "data_type", 2**31 - 1), "element type 2147483647"),
        (lambda g: setattr(g.initializer[0], "data_type", onnx.TensorProto.STRING), "element type 8"),
        (lambda g: setattr(g.initializer[0], "data_type", onnx.TensorProto.COMPLEX64), "element type 14"),
        (lambda g: g.initializer[0].ClearField("raw_data"), "'w' is damaged"),
        (lambda g: g.sparse_initializer.add(), "sparse weights"),
        (lambda g: g.node[0].ClearField("output"), "node 0, Gemm '', has no output"),
        (lambda g: g.node[0].input.append("b"), "must multiply the signal by stored weights"),
        (lambda g: g.node.add(op_type="Identity", output=["i"]), "node 1, Identity ''"),
        (
            lambda g: g.node.add(op_type="Constant", output=["c"]).attribute.add(name="value", type=4),
            "dimensions []|'c'",
        ),
        (lambda g: g.node.add(op_type="Constant", output=["c"]).attribute.add(name="sparse_value"), "'sparse_value'"),
        (lambda g: setattr(g.node[0], "op_type", "x" * 10_000), "characters"),
    ],
)
def test_attributes_and_tensors_that_have_no_meaning_are_refused(
    tmp_path: Path, change: Callable[[Any], None], part: str
) -> None:
    with pytest.raises(WeightsError) as caught:
        AveragingNetwork.load(changed(tmp_path / "weights.onnx", change), **TASK)
    message = str(caught.value)
    assert "weights.onnx" in message and len(message) <= 2000
    assert any(each in message for each in part.split("|")), message


def test_a_bound_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    nodes = [gemm("x", "h"), helper.make_node("Clip", ["h", "high", "high"], ["r"]), gemm("r", "y")]
    path = graph(tmp_path / "weights.onnx", nodes, w=WEIGHT, b=BIAS)
    path.write_bytes(path.read_bytes().replace(b"high", b"\xe8igh"))
    refused(path, "which is not stored")


def test_a_tensor_longer_than_64_bits_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    header = b'{"0.weight":{"dtype":"F64","shape":[9223372036854775807,4],"data_offsets":[0,8]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    refused(path, ".safetensors")


@pytest.mark.parametrize(
    ("metadata", "fault"), [("null", None), ('{"activation":"relu","activation":"x"}', "duplicate")]
)
def test_metadata_without_content_or_with_duplicates(metadata: str, fault: str | None, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    save_arrays({"0.weight": WEIGHT, "0.bias": BIAS}, path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = f'{{"__metadata__":{metadata},'.encode() + data[9 : 8 + size].rstrip()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[8 + size :])
    if fault is None:
        assert AveragingNetwork.load(path, **TASK).activation == "relu"
    else:
        refused(path, ".safetensors")


def test_extended_precision_beyond_double_is_refused(tmp_path: Path) -> None:
    weight = np.array([[1.0, 2.0], [3.0, np.longdouble("1e400")]], dtype=np.longdouble)
    task = np.array('{"bits": 4, "servers": 4, "groups": 2, "remainder": false, "finer_input": false}')
    np.savez(tmp_path / "w.npz", **{"layers.0.weight": weight, "layers.0.bias": BIAS, "task": task})
    refused(tmp_path / "w.npz", "NaN or infinity")
    # bits that are no number in this format
    damaged = bytearray(weight.tobytes())
    damaged[6:10] = b"\x00\x00\xff\x7f"
    odd = np.frombuffer(bytes(damaged), np.longdouble).reshape(2, 2)
    np.savez(tmp_path / "v.npz", **{"layers.0.weight": odd, "layers.0.bias": BIAS, "task": task})
    refused(tmp_path / "v.npz", "NaN or infinity")


def test_a_network_whose_hidden_layer_has_no_weight_is_counted(tmp_path: Path) -> None:
    nodes = [gemm("x", "h"), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Gemm", ["r", "v"], ["y"])]
    path = graph(tmp_path / "weights.onnx", nodes, w=WEIGHT * 0, b=BIAS, v=WEIGHT)
    onn = AveragingNetwork.load(path, **TASK)
    assert onn.layer_parts(0) == () and onn.mzis == AveragingNetwork(onn.layers[1:], onn.task).mzis


def test_a_tensor_of_more_dimensions_than_arrays_have_is_refused(tmp_path: Path) -> None:
    header = b'{"0.weight":{"dtype":"F32","shape":[' + b"1," * 99 + b'1],"data_offsets":[0,4]}}'
    path = tmp_path / "deep.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(WeightsError, match=r"deep\.safetensors: 0\.weight has 100 dimensions, a weight has 2"):
        AveragingNetwork.load(path, 4, 4, 2)


TASK: dict[str, Any] = {"bits": 4, "servers": 4, "groups": 2}


class Clamped(torch.nn.Module):
    """Two linear layers with an activation between them."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first, self.last = torch.nn.Linear(2, 6), torch.nn.Linear(6, 2)
        self.activation = activation
        for value in self.parameters():
            value.data = torch.randn(value.shape, generator=generator)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.activation(self.first(x)))


ONE = torch.ones(())
CLIPPED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "hardtanh": torch.nn.Hardtanh(0.0, 1.0),
    "clamp": lambda z: torch.clamp(z, 0.0, 1.0),
    "relu, clamp": lambda z: torch.clamp(torch.relu(z), max=1.0),
    "relu, minimum": lambda z: torch.minimum(torch.relu(z), ONE),
    "minimum, relu": lambda z: torch.relu(torch.minimum(ONE, z)),
}


def assert_same_function(onn: AveragingNetwork, model: Clamped) -> None:
    points = np.random.default_rng(0).uniform(0, 3, (50, 2))
    expected = model(torch.tensor(points, dtype=torch.float32)).detach().numpy()
    np.testing.assert_allclose(onn.forward(points), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "opset"), [*((name, 17) for name in CLIPPED), ("hardtanh", 9)])
def test_clipped_relu_of_torch_is_recognised(name: str, opset: int, tmp_path: Path) -> None:
    model, path = Clamped(CLIPPED[name]), tmp_path / "w.onnx"
    torch.onnx.export(model, (torch.zeros(1, 2),), str(path), dynamo=False, opset_version=opset)
    onn = AveragingNetwork.load(path, **TASK)
    assert onn.activation == "clipped_relu"
    assert_same_function(onn, model)


@pytest.mark.filterwarnings("ignore")
def test_a_clamp_without_upper_bound_is_relu(tmp_path: Path) -> None:
    model, path = Clamped(lambda z: torch.clamp(z, min=0.0)), tmp_path / "w.onnx"
    torch.onnx.export(model, (torch.zeros(1, 2),), str(path), dynamo=False)
    onn = AveragingNetwork.load(path, **TASK)
    assert onn.activation == "relu"
    assert_same_function(onn, model)


@pytest.mark.filterwarnings("ignore")
def test_a_contradiction_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.onnx"
    torch.onnx.export(Clamped(torch.relu), (torch.zeros(1, 2),), str(path), dynamo=False)
    assert AveragingNetwork.load(path, **TASK, activation="relu").activation == "relu"
    with pytest.raises(WeightsError, match="activation = relu, but clipped_relu"):
        AveragingNetwork.load(path, **TASK, activation="clipped_relu")
    npz = tmp_path / "w.npz"
    AveragingNetwork.load(path, **TASK).save(npz)
    with pytest.raises(WeightsError, match="activation = relu, but clipped_relu"):
        AveragingNetwork.load(npz, activation="clipped_relu")


@pytest.mark.filterwarnings("ignore")
def test_the_trained_network_survives_both_formats_of_pytorch(tmp_path: Path) -> None:
    onn = AveragingNetwork.load(NETWORKS / "average_8bit_4servers_wide.npz")
    assert onn.structure == (4, 32, 32, 32, 32, 4) and onn.layers[-1].bias.any()
    parts: list[torch.nn.Module] = []
    for layer in onn.layers:
        linear = torch.nn.Linear(layer.inputs, layer.outputs, dtype=torch.float64)
        linear.load_state_dict({"weight": torch.tensor(layer.weight), "bias": torch.tensor(layer.bias)})
        parts += [linear, torch.nn.Hardtanh(0.0, 1.0)]
    model = torch.nn.Sequential(*parts[:-1])
    save_file(model.state_dict(), tmp_path / "w.safetensors")
    torch.onnx.export(model, (torch.zeros(1, 4, dtype=torch.float64),), str(tmp_path / "w.onnx"), dynamo=False)
    task = {"bits": 8, "servers": 4, "groups": 4}
    for found in (
        AveragingNetwork.load(tmp_path / "w.onnx", **task),
        AveragingNetwork.load(tmp_path / "w.safetensors", **task, activation="clipped_relu"),
    ):
        assert found.activation == "clipped_relu"
        # units that share a detector still do
        assert found.mzis == onn.mzis
        for layer, expected in zip(found.layers, onn.layers, strict=True):
            np.testing.assert_array_equal(layer.weight, expected.weight)
            np.testing.assert_array_equal(layer.bias, expected.bias)


def test_safetensors_use_the_argument_or_their_metadata(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    hardtanh = torch.nn.Hardtanh(0.0, 1.0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 6), hardtanh, torch.nn.Linear(6, 2))
    save_file(model.state_dict(), path)
    refused(path, "optinc task w.safetensors --bits 4 --servers 4 --groups 2 --activation relu -o w_relu.npz")
    onn = AveragingNetwork.load(path, **TASK, activation="clipped_relu")
    assert onn.activation == "clipped_relu"
    assert onn.layers[-1].bias.any()
    save_file(model.state_dict(), path, metadata={"activation": "clipped_relu"})
    assert AveragingNetwork.load(path, **TASK).activation == "clipped_relu"
    with pytest.raises(WeightsError, match="activation = clipped_relu, but relu"):
        AveragingNetwork.load(path, **TASK, activation="relu")
    save_file(model.state_dict(), path, metadata={"activation": "tanh"})
    with pytest.raises(WeightsError, match=r"'tanh'.*relu, clipped_relu"):
        AveragingNetwork.load(path, **TASK)


def chain(path: Path, *clamps: list[Any], **constants: Any) -> Path:
    """Write a model of linear layers 2 x 2 with the given nodes, from h<i> to r<i>, between them."""
    nodes = [helper.make_node("Gemm", ["x", "w"], ["h0"])]
    for i, between in enumerate(clamps):
        last = i == len(clamps) - 1
        nodes += [*between, helper.make_node("Gemm", [f"r{i}", "w"], ["y" if last else f"h{i + 1}"])]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, [None, 2]) for name in "xy"]
    arrays = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    arrays.append(numpy_helper.from_array(np.eye(2), "w"))
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], arrays)), path)
    return path


def node(kind: str, *inputs: str, index: int = 0, **attributes: Any) -> list[Any]:
    return [helper.make_node(kind, [f"h{index}", *inputs], [f"r{index}"], name=f"act{index}", **attributes)]


@pytest.mark.parametrize(
    ("clamps", "parts"),
    [
        ([node("Clip", min=1.0, max=0.0)], ("node 1", "'act0'", "1 … 0")),
        ([node("Min", "one", "one")], ("3 inputs",)),
        ([node("Clip", "x", "one")], ("'x'", "not stored")),
        ([node("Clip", "two")], ("[0.0, 1.0]",)),
        (
            [node("Relu"), node("Clip", "zero", "one", index=1)],
            ("node 3", "'act1'", "clipped_relu", "relu"),
        ),
    ],
)
def test_other_bounds_are_refused(clamps: list[list[Any]], parts: tuple[str, ...], tmp_path: Path) -> None:
    path = chain(tmp_path / "w.onnx", *clamps, zero=0.0, one=1.0, two=[0.0, 1.0])
    with pytest.raises(WeightsError) as caught:
        AveragingNetwork.load(path, **TASK)
    for part in parts:
        assert part in str(caught.value)


def test_bounds_of_constant_nodes_and_largest_floats(tmp_path: Path) -> None:
    value = numpy_helper.from_array(np.array(0.0), "v")
    between = [helper.make_node("Constant", [], ["low"], value=value), *node("Clip", "low", "most")]
    path = chain(tmp_path / "w.onnx", between, most=np.finfo(np.float32).max)
    assert AveragingNetwork.load(path, **TASK).activation == "relu"


def test_an_unknown_activation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'tanh'.*relu or clipped_relu"):
        AveragingNetwork.load(chain(tmp_path / "w.onnx", node("Relu")), **TASK, activation="tanh")  # type: ignore[arg-type]
