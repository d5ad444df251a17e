"""Layers, networks and cascades check their arguments, and compute what NumPy computes."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, Layer, carry_chain
from optinc_pdk.networks.network import Cascade, cascade_tasks

TASK = Averaging(4, 4, 2)


def network(*widths: int, factor: tuple = (), task: Averaging = TASK) -> AveragingNetwork:
    rng = np.random.default_rng(7)
    layers = [Layer(rng.normal(size=(m, n)), rng.normal(size=m)) for n, m in pairwise(widths)]
    return AveragingNetwork(tuple(layers), task, factor)


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
        (np.ones((2, 2, 2)), np.ones(2), r"weight.*\(2, 2, 2\)"),
        (np.ones(2), np.ones(2), r"weight.*\(2,\)"),
        (np.ones((2, 0)), np.ones(2), r"weight.*\(2, 0\)"),
        (np.ones((2, 2)), np.ones((2, 1)), r"bias.*\(2, 1\)"),
        (np.ones((2, 2)), np.ones(3), "bias.*3.*weight.*2"),
        (np.ones((2, 2), dtype=int), np.ones(2), "weight.*int64"),
        (np.ones((2, 2), dtype=complex), np.ones(2), "weight.*complex128"),
        (
            np.array([[1.0, np.nan]]),
            np.ones(1),
            r"weight holds NaN .* in 1 of 2 values, the first is weight\[0, 1\]",
        ),
        (np.ones((1, 2)), np.array([np.inf]), "bias.*infinity"),
    ],
)
def test_unusable_layers_are_refused(weight: np.ndarray, bias: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layer(weight, bias)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="layers"):
        AveragingNetwork((), TASK)
    with pytest.raises(ValueError, match=r"layers\.0.*3 outputs.*layers\.1.*4 inputs"):
        AveragingNetwork((network(2, 3, 2).layers[0], network(2, 4, 2).layers[1]), TASK)
    with pytest.raises(ValueError, match=r"layers\.0.*3 inputs.*groups = 2"):
        network(3, 4, 2)
    with pytest.raises(ValueError, match=r"layers\.1.*3 outputs.*bits = 4.*2 symbols"):
        network(2, 4, 3)
    with pytest.raises(ValueError, match=r"factor.*1.*2 layers"):
        network(2, 4, 2, factor=("svd",))
    with pytest.raises(ValueError, match=r"factor\.1.*block = 3.*1 \.\.\. 2"):
        network(2, 4, 2, factor=("svd", ("approx", 3)))
    with pytest.raises(ValueError, match=r"inputs.*\(5, 3\).*\(2,\)"):
        network(2, 4, 2).forward(np.zeros((5, 3)))


def test_import_needs_no_training_and_no_format_library() -> None:
    heavy = "{'torch', 'onnx', 'safetensors', 'scipy'}"
    code = f"import sys, optinc_pdk.networks; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def cascade(bits: int, servers: int, groups: int) -> Cascade:
    first, second = cascade_tasks(bits, servers, groups)
    return Cascade(carry_chain(first), carry_chain(second))


def test_every_combination_of_words_of_four_servers_is_exact() -> None:
    chip = cascade(4, 2, 2)
    words = np.array(list(itertools.product(range(16), repeat=4))).reshape(-1, 2, 2)
    expected = words.sum(axis=(1, 2)) // 4
    np.testing.assert_array_equal(chip.average(words), expected)
    np.testing.assert_array_equal(chip.ideal(words), expected)
    # Truncating twice is wrong where both units lose a half and the sum of their words is odd.
    assert np.mean(chip.naive(words) != expected) == 1 / 8


@pytest.mark.parametrize(("bits", "servers", "groups"), [(8, 4, 4), (8, 4, 2), (8, 3, 4), (16, 4, 8)])
def test_sampled_words_of_larger_cascades_are_exact(bits: int, servers: int, groups: int) -> None:
    chip = cascade(bits, servers, groups)
    words = np.random.default_rng(0).integers(0, 2**bits, (20_000, servers, servers))
    np.testing.assert_array_equal(chip.average(words), words.sum(axis=(1, 2)) // servers**2)


def test_the_ideal_of_the_largest_cascade_is_known() -> None:
    first, second = cascade_tasks(32, 256, 16)
    chip = Cascade(carry_chain(first), carry_chain(second))
    words = np.full((256, 256), 2**32 - 1)
    assert chip.ideal(words) == 2**32 - 1
    words[0, 0] -= 1
    assert chip.ideal(words) == 2**32 - 2


def test_networks_that_form_no_cascade_are_refused() -> None:
    first, second = cascade_tasks(4, 2, 2)
    with pytest.raises(ValueError, match="first has task"):
        Cascade(carry_chain(second), carry_chain(second))
    with pytest.raises(ValueError, match="second has task"):
        Cascade(carry_chain(first), carry_chain(first))
    with pytest.raises(ValueError, match=r"4 bits, 2 servers.*4 bits, 3 servers"):
        Cascade(carry_chain(first), carry_chain(Averaging(4, 3, 2, finer_input=True)))
