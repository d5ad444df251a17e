"""Activations of .onnx and .safetensors files: recognised from the graph or the metadata, others are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.torch import save_file

from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, WeightsError
from optinc_pdk.networks.weight_files import NETWORKS

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
    assert AveragingNetwork.load(path, **TASK).activation == "relu"
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
        ([node("Clip", min=0.0, max=6.0)], ("node 1", "'act0'", "0 ... 6", "Clip(0, 1)", "by 1/6")),
        ([node("Clip", min=-1.0, max=1.0)], ("-1 ... 1",)),
        ([node("Clip", max=1.0)], ("-inf ... 1",)),
        ([node("Min", "one", "one")], ("3 inputs",)),
        ([node("Clip", "x", "one")], ("min", "'x'", "not stored")),
        ([node("Clip", "two")], ("min", "[0.0, 1.0]")),
        (
            [node("Relu"), node("Clip", "zero", "one", index=1)],
            ("node 3", "'act1'", "clipped_relu (bounds 0 ... 1)", "relu"),
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
