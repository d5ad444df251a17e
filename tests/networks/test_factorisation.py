"""What a chip realises of a network: outputs without bias or with neurons, and factors with the same function."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import BlockFactor, SvdFactor, svd_mzis
from optinc_pdk.networks import (
    Activation,
    AveragingNetwork,
    FactorMethod,
    Layer,
    WeightsError,
    comparator_network,
    factorise,
    output_notes,
    realised_network,
    with_output_neurons,
    without_output_bias,
)
from optinc_pdk.networks.factorisation import HEADROOM

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


TASK = Averaging(4, 4, 2)


def exact(activation: Activation) -> AveragingNetwork:
    """A network whose levels are within 0 … 3, with an output bias of 0.3 levels."""
    if activation == "clipped_relu":
        onn = comparator_network(TASK)
    else:
        # the inputs pass through
        onn = AveragingNetwork((Layer(np.eye(2), np.zeros(2)), Layer(np.diag([0.9, 0.8]), np.zeros(2))), TASK)
    *hidden, last = onn.layers
    return replace(onn, layers=(*hidden, Layer(0.9 * last.weight, np.full(2, 0.3))), card={})


@pytest.mark.parametrize("activation", ["relu", "clipped_relu"])
def test_the_function_is_the_same_and_the_bias_is_a_neurons(activation: Activation) -> None:
    onn = exact(activation)
    changed = with_output_neurons(onn)
    points = TASK.lattice()
    np.testing.assert_allclose(changed.forward(points), onn.forward(points), atol=1e-12)
    assert changed.structure == (*onn.structure, 2) and changed.activation == activation
    assert not changed.layers[-1].bias.any() and changed.layers[-2].bias.all()


def test_a_remainder_has_its_own_full_scale() -> None:
    task = Averaging(4, 4, 2, remainder=True)
    onn = comparator_network(task)
    changed = with_output_neurons(onn)
    # the last output reaches level 3.75
    np.testing.assert_allclose(np.diag(changed.layers[-1].weight), [3.0, 3.75])
    points = task.lattice()
    np.testing.assert_allclose(changed.forward(points), onn.forward(points), atol=1e-12)


def test_the_added_layer_has_an_attenuator_for_each_symbol() -> None:
    onn = comparator_network(TASK)
    *_, last = factorise(with_output_neurons(onn))
    np.testing.assert_allclose(last.realised, np.eye(2), atol=1e-12)
    # the paper's convention counts an attenuator as an MZI
    assert last.factor.mzis == 2


def test_the_number_of_layers_tells_which_network_a_chip_realises() -> None:
    onn = exact("clipped_relu")
    count = len(onn.layers)
    assert realised_network(onn, count).structure[-2] == onn.structure[-2] + 1  # the bias as a unit
    assert len(realised_network(onn, count + 1).layers) == count + 1
    realised = with_output_neurons(onn)
    assert realised_network(realised, count + 1) is realised
    for wrong in (count - 1, count + 2):
        with pytest.raises(InputError, match=rf"the chip has {wrong} layers, the network {count}"):
            realised_network(onn, wrong)


def test_notes_say_what_is_added() -> None:
    onn = exact("clipped_relu")
    [note] = output_notes(onn, neurons=True)
    assert "2 neurons" in note and "one layer more" in note
    [note] = output_notes(onn, neurons=False)
    assert "constant" in note
    assert output_notes(comparator_network(TASK), neurons=False) == []


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
