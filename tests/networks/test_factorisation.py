"""The factorisation of a network: the same function in amplitudes, errors of its own factors, reproducible."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.factor import BlockFactor, SvdFactor, svd_mzis
from optinc_pdk.networks import AveragingNetwork, FactorMethod, Layer, WeightsError, factorise
from optinc_pdk.networks.factorisation import HEADROOM

TASK = Averaging(4, 4, 2)


def random_network(
    widths: tuple[int, ...] = (2, 5, 4, 2), factor: tuple[FactorMethod, ...] = (), seed: int = 0
) -> AveragingNetwork:
    rng = np.random.default_rng(seed)
    layers = [Layer(rng.normal(size=(m, n)), rng.uniform(1.0, 9.0, m)) for n, m in pairwise(widths)]
    return AveragingNetwork(tuple(layers), TASK, factor)


def forward(onn: AveragingNetwork) -> np.ndarray:
    """Outputs over the lattice by the factors, with every signal an amplitude."""
    signal = TASK.lattice() / TASK.input_maxima
    layers = factorise(onn)
    for index, layer in enumerate(layers):
        assert signal.max() <= 1.0 + 1e-12
        signal = signal @ layer.weight.T + layer.bias
        if index < len(layers) - 1:
            signal = np.maximum(signal, 0.0)
            assert signal.max() == pytest.approx(HEADROOM)
    return signal


def test_factors_compute_the_network_with_amplitudes_up_to_one() -> None:
    onn = random_network()
    np.testing.assert_allclose(forward(onn), onn.forward(TASK.lattice()), atol=1e-9)
    for layer in factorise(onn):
        assert isinstance(layer.factor, SvdFactor)
        np.testing.assert_allclose(np.linalg.norm(layer.matrix, axis=1), 1.0)
        # the 2-norm is at least the Frobenius norm divided by the root of the rank
        assert layer.max_error <= np.sqrt(min(layer.matrix.shape)) * layer.relative_error < 1e-14


def test_dead_units_take_no_part() -> None:
    onn = random_network()
    first = onn.layers[0]
    weight, bias = first.weight.copy(), first.bias.copy()
    weight[1], bias[1] = -1.0, -1.0
    onn = replace(onn, layers=(Layer(weight, bias), *onn.layers[1:]))
    np.testing.assert_allclose(forward(onn), onn.forward(TASK.lattice()), atol=1e-9)
    below, above, _ = factorise(onn)
    assert not below.matrix[1].any() and below.row_norm[1] == 0.0
    assert above.illuminated.tolist() == [True, False, True, True, True]
    assert not above.weight[:, 1].any()


def test_blocks_that_are_exact_stay_exact_beside_dead_units() -> None:
    rng = np.random.default_rng(0)
    onn = random_network((2, 4, 4, 2), ("svd", ("approx", 4), ("approx", 2)))
    onn = replace(onn, layers=(*onn.layers[:2], Layer(onn.layers[2].weight, np.zeros(2))))
    orthogonal = np.linalg.qr(rng.normal(size=(4, 4)))[0] * rng.uniform(0.5, 2.0, (4, 1))
    dead = Layer(np.vstack([onn.layers[0].weight[:3], [[-1.0, -1.0]]]), np.array([1.0, 2.0, 3.0, -1.0]))
    onn = replace(onn, layers=(dead, Layer(orthogonal, onn.layers[1].bias), onn.layers[2]))
    middle, last = factorise(onn)[1:]
    assert isinstance(middle.factor, BlockFactor) and middle.factor.block == 4
    assert middle.max_error < 1e-14
    # signals into blocks share one scale
    ratio = middle.weight[:, :3] / onn.layers[1].weight[:, :3]
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[:, :1], ratio.shape))
    assert last.max_error > 1e-3
    np.testing.assert_allclose(last.realised, last.factor.matrix())


def test_the_same_network_has_the_same_factors() -> None:
    for one, two in zip(factorise(random_network()), factorise(random_network()), strict=True):
        assert isinstance(one.factor, SvdFactor) and isinstance(two.factor, SvdFactor)
        assert np.array_equal(one.factor.u.theta, two.factor.u.theta)
        assert np.array_equal(one.factor.v.phi, two.factor.v.phi)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_layer_without_effect_is_refused(scale: float) -> None:
    onn = random_network()
    first = Layer(scale * np.abs(onn.layers[0].weight), -onn.layers[0].bias)
    with pytest.raises(WeightsError, match=r"layers\.0 "):
        factorise(replace(onn, layers=(first, *onn.layers[1:])))


def test_units_with_proportional_weights_share_a_row_of_the_optical_matrix() -> None:
    onn = random_network()
    first = onn.layers[0]
    weight = first.weight.copy()
    weight[2], weight[4], weight[3] = 3.0 * weight[0], 0.0, -weight[1]
    shared = replace(onn, layers=(Layer(weight, first.bias), *onn.layers[1:]))
    np.testing.assert_array_equal(shared.detector_rows(0), [0, 1, 0, 2, -1])
    factor = factorise(shared)[0]
    np.testing.assert_array_equal(factor.row, [0, 1, 0, 2, -1])
    assert factor.matrix.shape == (3, 2)
    np.testing.assert_allclose(forward(shared), shared.forward(TASK.lattice()), atol=1e-9)
    assert onn.mzis - shared.mzis == svd_mzis(5, 2) - svd_mzis(3, 2)


def test_clipped_networks_use_the_full_scale() -> None:
    onn = replace(random_network(), activation="clipped_relu")
    layers = [Layer(0.02 * layer.weight, 0.1 * layer.bias) for layer in onn.layers]
    layers[0] = Layer(np.vstack([layers[0].weight[:4], [[1.0, 1.0]]]), layers[0].bias)
    onn = replace(onn, layers=tuple(layers))
    signal = TASK.lattice() / TASK.input_maxima
    for index, layer in enumerate(factorise(onn)):
        signal = signal @ layer.weight.T + layer.bias
        if index < 2:
            signal = np.clip(signal, 0.0, 1.0)
            np.testing.assert_allclose(signal.max(axis=0), 1.0)
    np.testing.assert_allclose(signal, onn.forward(TASK.lattice()), atol=1e-9)
