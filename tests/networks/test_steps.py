"""Models as chains of steps, folded into layers: against the steps themselves, evaluated one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.networks._steps import RELU, Affine, Clamp, LeftOut, Sine, Step, fold
from optinc_pdk.networks.layers import Layer, propagate

INF = float("inf")


def layer(rng: np.random.Generator, outputs: int, inputs: int) -> Layer:
    return Layer(rng.normal(size=(outputs, inputs)), rng.normal(size=outputs))


def evaluated(steps: list[Step], x: Any) -> Any:
    for _, what in steps:
        if isinstance(what, Layer):
            x = x @ what.weight.T + what.bias
        elif isinstance(what, Affine):
            x = x * what.scale + what.shift
        elif isinstance(what, Clamp):
            x = np.minimum(np.maximum(x, what.low), what.high)
        elif isinstance(what, Sine):
            x = np.sin(x)
    return x


def named(*steps: Any) -> list[Step]:
    return [(f"step {i}", each) for i, each in enumerate(steps)]


@pytest.mark.parametrize(
    "clamps",
    [
        (Clamp(0.0, 6.0),),
        (Clamp(-1.0, 1.0),),
        (Clamp(0.5, INF),),
        (Clamp(-INF, 0.25),),
        (RELU, Clamp(-INF, 1.0)),
        (Clamp(-2.0, 3.0), Affine(2.0, -1.0), Clamp(-1.0, 1.5)),
        (Affine(0.2, 0.5), Clamp(0.0, 1.0)),
        (RELU, Affine(-0.5, 0.3)),
        (Clamp(-INF, INF), RELU),
        (Clamp(0.0, 1.0), Affine(0.5 * np.pi), Sine()),
        (Affine(0.5 * np.pi), Clamp(0.0, 0.5 * np.pi), Sine()),
        (Clamp(-1.0, 1.0), Affine(0.25 * np.pi, 0.25 * np.pi), Sine(), Affine(2.0, -1.0)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_steps_between_layers_become_part_of_them(clamps: tuple[Clamp | Affine | Sine, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    normalisation = [Affine(rng.normal(size=5), rng.normal(size=5)) for _ in range(2)]
    steps = named(
        Affine(0.5, 0.1),
        layer(rng, 5, 3),
        normalisation[0],
        *clamps,
        normalisation[1],
        layer(rng, 4, 5),
        *clamps,
        layer(rng, 2, 4),
        Affine(2.0, 1.0),
        LeftOut("Softmax"),
    )
    found, x = fold(steps), rng.normal(size=(50, 3))
    assert [each.weight.shape for each in found.layers] == [(5, 3), (4, 5), (2, 4)]
    assert found.activation is not None and found.remarks == (
        "Softmax at the end is left out: the largest output is the same class without it",
    )
    np.testing.assert_allclose(
        propagate(found.layers, x, found.activation), evaluated(steps, x), rtol=1e-12, atol=1e-12
    )


def test_layers_with_nothing_between_them_are_multiplied() -> None:
    rng = np.random.default_rng(0)
    steps = named(layer(rng, 4, 3), layer(rng, 5, 4), RELU, Affine(2.0), layer(rng, 2, 5), layer(rng, 2, 2))
    found, x = fold(steps), rng.normal(size=(20, 3))
    assert [each.weight.shape for each in found.layers] == [(5, 3), (2, 5)] and len(found.remarks) == 2
    assert found.activation == "relu"
    np.testing.assert_allclose(propagate(found.layers, x), evaluated(steps, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "steps",
    [
        (Sine(),),
        (RELU, Sine()),
        (Clamp(0.0, 1.0), Sine()),
        (Clamp(0.0, 1.0), Affine(np.pi), Sine()),
        (Clamp(0.0, 1.0), Affine(0.5 * np.pi, 0.1), Sine()),
        (Clamp(0.0, 1.0), Affine(0.5 * np.pi), Sine(), Affine(0.5 * np.pi), Sine()),
    ],
)
def test_other_sines_are_refused(steps: tuple[Clamp | Affine | Sine, ...]) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"a sine that is not that of a modulator, sin\(π/2 · clip\(z, 0, 1\)\)"):
        fold(named(layer(rng, 5, 3), *steps, layer(rng, 4, 5)))
    with pytest.raises(InputError, match="a second activation after step 1; put a layer between them"):
        fold(named(layer(rng, 5, 3), Clamp(0.0, 1.0), Affine(0.5 * np.pi), Sine(), RELU, layer(rng, 4, 5)))


def test_a_single_layer_has_no_activation_and_keeps_its_numbers() -> None:
    one = layer(np.random.default_rng(0), 3, 2)
    found = fold(named(one))
    assert found.activation is None and found.remarks == ()
    assert np.array_equal(found.layers[0].weight, one.weight) and np.array_equal(found.layers[0].bias, one.bias)


A, B = Layer(np.ones((2, 2)), np.zeros(2)), Layer(np.ones((2, 2)), np.ones(2))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((), "no layer"),
        ((RELU, A), "step 0: an activation that does not follow a layer"),
        ((A, RELU), "step 1: an activation after the last layer"),
        ((A, Clamp(1.0, 1.0), B), "step 1: limits signals to 1 … 1"),
        ((A, Clamp(0.0, 1.0), Clamp(2.0, 3.0), B), "step 2: makes the signals of step 1 constant"),
        ((A, RELU, Affine(np.ones(2)), RELU, B), "step 3: a second activation after step 1"),
        ((A, RELU, B, Clamp(0.0, 1.0), A), "step 3: the activation is clipped_relu, that of earlier layers is relu"),
        ((A, RELU, Layer(np.ones((2, 3)), np.ones(2))), "step 2: takes 3 signals, and step 0 gives 2"),
        ((A, Affine(np.ones(3))), "step 1: has 3 values for 2 signals"),
        ((A, RELU, Affine(np.ones(3)), B), "step 3: has 3 values for 2 signals"),
        ((A, RELU, Affine(np.ones(2)), Affine(np.ones(3)), B), "step 3: does not fit the step before it"),
        ((A, RELU, LeftOut("Softmax")), "step 2: Softmax does not follow the last layer"),
        ((A, LeftOut("Softmax"), B), "step 2: follows Softmax"),
        ((A, Affine(np.array([np.inf, 1.0]))), "step 1: holds NaN or infinity"),
    ],
)
def test_steps_that_are_no_network_are_refused(steps: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fold(named(*steps))


def test_a_product_of_layers_is_limited() -> None:
    narrow, wide = Layer(np.ones((1, 2**13)), np.ones(1)), Layer(np.ones((2**13, 1)), np.ones(2**13))
    with pytest.raises(InputError, match=r"step 1: the product with step 0.* has 8,192 x 8,192 .* limit is 33,554,432"):
        fold(named(narrow, wide))
