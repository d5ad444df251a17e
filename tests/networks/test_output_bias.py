"""Output biases as a constant hidden unit: the same function, no bias left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import Activation, AveragingNetwork, FactorMethod, Layer, without_output_bias

TASK = Averaging(4, 4, 2)


def network(factor: tuple[FactorMethod, ...] = (), activation: Activation = "relu") -> AveragingNetwork:
    rng = np.random.default_rng(3)
    sizes = ((4, 2), (4, 4), (2, 4))
    layers = tuple(Layer(rng.normal(size=size), rng.normal(size=size[0])) for size in sizes)
    return AveragingNetwork(layers, TASK, factor, activation=activation)


@pytest.mark.parametrize("activation", ["relu", "clipped_relu"])
@pytest.mark.parametrize("factor", [(), ("svd", ("approx", 4), ("approx", 2))])
def test_the_function_is_the_same_without_an_output_bias(
    factor: tuple[FactorMethod, ...], activation: Activation
) -> None:
    onn = network(factor, activation)
    changed = without_output_bias(onn)
    assert onn.layers[-1].bias.any() and not changed.layers[-1].bias.any()
    assert changed.structure == (2, 4, 5, 2) and changed.factor[-1] == "svd"
    assert changed.factor[:-1] == onn.factor[:-1]
    assert changed.detector_rows(1)[-1] == -1 and (changed.detector_rows(1)[:-1] >= 0).all()
    points = TASK.lattice()
    np.testing.assert_allclose(changed.forward(points), onn.forward(points), atol=1e-12)
    assert without_output_bias(changed) is changed


def test_networks_without_hidden_layer_or_without_bias_are_not_changed() -> None:
    onn = network()
    bare = replace(onn, layers=(*onn.layers[:2], Layer(onn.layers[2].weight, np.zeros(2))))
    assert without_output_bias(bare) is bare
    single = AveragingNetwork((Layer(np.eye(2), np.ones(2)),), TASK)
    assert without_output_bias(single) is single
