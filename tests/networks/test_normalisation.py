"""Normalisation keeps the function and scales the signals to 1; tolerances follow their definition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optinc_pdk.averaging import Averaging, score
from optinc_pdk.networks import (
    AveragingNetwork,
    Layer,
    carry_chain,
    normalise,
)
from optinc_pdk.networks.normalisation import hidden_maxima, optical_layers

TASK = Averaging(4, 4, 2)


def random_network(seed: int) -> AveragingNetwork:
    rng = np.random.default_rng(seed)
    widths = (2, 5, 4, 2)
    layers = [Layer(rng.normal(size=(m, n)), rng.normal(size=m)) for n, m in pairwise(widths)]
    return AveragingNetwork(tuple(layers), TASK)


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_normalisation_keeps_the_function_and_scales_signals_to_one(seed: int) -> None:
    onn = random_network(seed)
    points = TASK.lattice()
    hidden = [np.maximum(points @ onn.layers[0].weight.T + onn.layers[0].bias, 0)]
    hidden.append(np.maximum(hidden[0] @ onn.layers[1].weight.T + onn.layers[1].bias, 0))
    if any(signal.max() == 0 for signal in hidden):
        with pytest.raises(ValueError, match=r"layers\.[01]"):
            normalise(onn)
        return
    normalised = normalise(onn)
    np.testing.assert_allclose(normalised.forward(points), onn.forward(points), atol=1e-9)
    np.testing.assert_array_equal(normalised.scales[0], [3.0, 3.0])
    signal = points / 3.0
    for layer, kept, scale, raw in zip(
        normalised.layers[:-1], normalised.kept, normalised.scales[1:], hidden, strict=True
    ):
        signal = np.maximum(signal @ layer.weight.T + layer.bias, 0.0)
        np.testing.assert_allclose(signal.max(axis=0), 1.0)
        np.testing.assert_allclose(signal * scale, raw[:, kept], atol=1e-9)
        dropped = np.setdiff1d(np.arange(raw.shape[1]), kept)
        assert np.all(raw[:, dropped] <= 1e-9 * raw.max())


def clipped_network(seed: int, task: Averaging = TASK) -> AveragingNetwork:
    """Random clipped network, some of whose units clip and some of which stay below 1."""
    rng = np.random.default_rng(seed)
    widths = (task.groups, 5, 4, task.symbols)
    layers = [Layer(rng.normal(size=(m, n)) / n, rng.normal(size=m)) for n, m in pairwise(widths)]
    return AveragingNetwork(tuple(layers), task, activation="clipped_relu")


@settings(max_examples=40)
@given(st.integers(0, 10_000))
def test_normalisation_of_clipped_networks_keeps_the_function_and_where_units_clip(seed: int) -> None:
    onn = clipped_network(seed)
    points = TASK.lattice()
    before = points @ onn.layers[0].weight.T + onn.layers[0].bias
    hidden = np.clip(before, 0.0, 1.0)
    second = np.clip(hidden @ onn.layers[1].weight.T + onn.layers[1].bias, 0.0, 1.0)
    if hidden.max() == 0.0 or second.max() == 0.0:
        return
    normalised = normalise(onn)
    np.testing.assert_allclose(normalised.forward(points), onn.forward(points), atol=1e-9)
    for scale, kept, raw in zip(normalised.scales[1:], normalised.kept, (hidden, second), strict=True):
        np.testing.assert_allclose(scale, raw[:, kept].max(axis=0))
    assert np.all(normalised.scales[1][before.max(axis=0)[normalised.kept[0]] >= 1.0] == 1.0)


def test_clipped_networks_of_large_lattices_are_never_scaled_beyond_one() -> None:
    task = Averaging(16, 4, 8)
    assert not task.enumerable
    onn = clipped_network(3, task)
    # the first unit reaches its maximum at the corner where its positive weights receive full scale
    weight = onn.layers[0].weight[0]
    corner = np.where(weight > 0.0, task.input_maxima, 0.0)
    top = float(np.clip(weight @ corner + onn.layers[0].bias[0], 0.0, 1.0))
    first, second = hidden_maxima(onn)
    assert first[0] == pytest.approx(top)
    points = np.vstack([task.sample(20_000, np.random.default_rng(0)), corner])
    signal = np.clip(points @ onn.layers[0].weight.T + onn.layers[0].bias, 0.0, 1.0)
    assert np.all(signal.max(axis=0) <= first + 1e-12)
    signal = np.clip(signal @ onn.layers[1].weight.T + onn.layers[1].bias, 0.0, 1.0)
    assert np.all(signal.max(axis=0) <= second + 1e-12)


def test_units_with_proportional_weights_share_a_row_and_its_error() -> None:
    first = Layer(np.array([[1.0, 2.0], [0.5, 1.0], [0.0, 0.0], [2.0, -1.0]]), np.array([0.0, -0.5, 1.0, 0.0]))
    last = Layer(np.array([[1.0, 1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0]]), np.zeros(2))
    normalised = normalise(AveragingNetwork((first, last), TASK, activation="clipped_relu"))
    shared, own = optical_layers(normalised)
    np.testing.assert_array_equal(shared.row, [0, 0, -1, 1])
    np.testing.assert_allclose(np.linalg.norm(shared.matrix, axis=1), 1.0)
    np.testing.assert_allclose(shared.layer().weight, normalised.layers[0].weight, atol=1e-12)
    wrong = shared.with_error(0.1, np.random.default_rng(0))
    np.testing.assert_allclose(wrong.weight[0], wrong.weight[1] * shared.gain[0] / shared.gain[1])
    assert not wrong.weight[2].any() and not np.allclose(wrong.weight[0], normalised.layers[0].weight[0])
    # outputs end in receivers of their own
    np.testing.assert_array_equal(own.row, [0, 1])


def test_dead_units_are_dropped() -> None:
    first = Layer(np.array([[1.0, 0.0], [-1.0, -1.0], [0.0, 1.0]]), np.zeros(3))
    normalised = normalise(AveragingNetwork((first, Layer(np.ones((2, 3)), np.zeros(2))), TASK))
    np.testing.assert_array_equal(normalised.kept[0], [0, 2])
    np.testing.assert_array_equal(normalised.layers[1].weight, 3.0 * np.ones((2, 2)))


def test_networks_with_a_dead_layer_are_refused() -> None:
    onn = AveragingNetwork((Layer(-np.ones((3, 2)), np.zeros(3)), Layer(np.ones((2, 3)), np.zeros(2))), TASK)
    with pytest.raises(ValueError, match=r"layers\.0"):
        normalise(onn)


@pytest.mark.parametrize("task", [TASK, Averaging(8, 4, 4)])
def test_normalised_networks_are_exact_too(task: Averaging) -> None:
    onn = carry_chain(task)
    result = score(normalise(onn).forward(task.lattice()), task.targets(task.lattice()))
    assert result.exact == task.lattice_size
    assert result.margin == pytest.approx(0.5, abs=1e-9)
