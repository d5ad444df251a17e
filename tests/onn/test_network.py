"""Layers and networks refuse what does not fit, and compute what NumPy computes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Layer, Onn

TASK = Averaging(4, 4, 2)


def network(*widths: int, factor: tuple = (), task: Averaging = TASK) -> Onn:
    rng = np.random.default_rng(7)
    layers = [Layer(rng.normal(size=(m, n)), rng.normal(size=m)) for n, m in pairwise(widths)]
    return Onn(tuple(layers), task, factor)


def test_forward_is_a_chain_of_affine_maps_and_relu() -> None:
    onn = network(2, 3, 5, 2)
    assert onn.structure == (2, 3, 5, 2)
    assert onn.factor == ("svd", "svd", "svd")
    points = np.random.default_rng(1).uniform(0, 3, (4, 6, 2))
    outputs = onn.forward(points)
    assert outputs.shape == (4, 6, 2)
    first, second, third = onn.layers
    for index in np.ndindex(4, 6):
        signal = np.clip(first.weight @ points[index] + first.bias, 0, None)
        signal = np.clip(second.weight @ signal + second.bias, 0, None)
        np.testing.assert_allclose(outputs[index], third.weight @ signal + third.bias, rtol=1e-12, atol=1e-12)


def test_arrays_are_float64_copies_that_cannot_be_changed() -> None:
    weight = np.ones((2, 3), dtype=np.float32)
    layer = Layer(weight, np.zeros(2))
    weight[0, 0] = 5.0
    assert layer.weight.dtype == np.float64
    assert layer.weight[0, 0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        layer.weight[0, 0] = 2.0
    with pytest.raises(FrozenInstanceError):
        layer.bias = np.ones(2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        (np.ones((2, 2, 2)), np.ones(2), r"weight has shape \(2, 2, 2\)"),
        (np.ones(2), np.ones(2), r"weight has shape \(2,\)"),
        (np.ones((2, 0)), np.ones(2), r"weight has shape \(2, 0\)"),
        (np.ones((2, 2)), np.ones((2, 1)), r"bias has shape \(2, 1\)"),
        (np.ones((2, 2)), np.ones(3), "bias has 3 values for a weight of 2 rows"),
        (np.ones((2, 2), dtype=int), np.ones(2), "weight holds int64, not floats"),
        (np.ones((2, 2), dtype=complex), np.ones(2), "weight holds complex128, not floats"),
        (np.array([[1.0, np.nan]]), np.ones(1), "weight holds NaN or infinity"),
        (np.ones((1, 2)), np.array([np.inf]), "bias holds NaN or infinity"),
    ],
)
def test_unusable_layers_are_refused(weight: np.ndarray, bias: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layer(weight, bias)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="there is none"):
        Onn((), TASK)
    with pytest.raises(ValueError, match=r"layers.0 has 3 outputs, but layers.1 has 4 inputs"):
        Onn((network(2, 3, 2).layers[0], network(2, 4, 2).layers[1]), TASK)
    with pytest.raises(ValueError, match=r"layers.0 has 3 inputs, but the task has groups = 2"):
        network(3, 4, 2)
    with pytest.raises(ValueError, match=r"layers.1 has 3 outputs, but a word of bits = 4 has 2 symbols"):
        network(2, 4, 3)
    with pytest.raises(ValueError, match="factor has 1 entries for 2 layers"):
        network(2, 4, 2, factor=("svd",))
    with pytest.raises(ValueError, match=r"factor.1 has block = 3: it must lie within 1 ... 2"):
        network(2, 4, 2, factor=("svd", ("approx", 3)))
    with pytest.raises(ValueError, match=r"inputs of shape \(5, 3\) must end in \(2,\)"):
        network(2, 4, 2).forward(np.zeros((5, 3)))


def test_import_needs_no_training_and_no_format_library() -> None:
    heavy = "{'torch', 'onnx', 'safetensors', 'scipy'}"
    code = f"import sys, optinc_pdk.onn; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
