"""Where a training starts, and changes of a network's scaling that leave its function as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn.gauge import gauge, hidden_maxima
from optinc_pdk.onn.network import Layer, Onn


def random_start(task: Averaging, hidden: Sequence[int], seed: int) -> Onn:
    """A network with random weights (He's initialization), in the gauge of the inputs.

    Args:
        task: The task.
        hidden: Widths of the hidden layers.
        seed: Seed of the generator.

    Raises:
        ValueError: A width is below 1.
    """
    if any(width < 1 for width in hidden):
        raise ValueError(f"hidden = {tuple(hidden)} must be widths of at least 1")
    rng = np.random.default_rng(seed)
    widths = [task.groups, *hidden, task.symbols]
    layers = []
    for columns, rows in pairwise(widths):
        weight = rng.standard_normal((rows, columns)) * np.sqrt(2.0 / columns)
        layers.append(Layer(weight, rng.uniform(-0.5, 0.5, rows)))
    # Receivers see |field|², so the last layer has no bias.
    layers[-1] = Layer(layers[-1].weight, np.zeros(task.symbols))
    layers[0] = Layer(layers[0].weight / task.input_maxima, layers[0].bias)
    return Onn(tuple(layers), task)


def gauge_scaled(onn: Onn) -> Onn:
    """The same function with hidden signals of maximum 1 over the lattice, without dead units; raw inputs."""
    gauged = gauge(onn)
    first, *others = gauged.layers
    layers = (Layer(first.weight / gauged.scales[0], first.bias), *others)
    return replace(onn, layers=layers, factor=())


def balanced(onn: Onn, sweeps: int = 20) -> Onn:
    """The same function with every hidden unit's incoming and outgoing weights of equal norm.

    Adam moves all weights at one rate, so they should be of one size.
    """
    weights = [layer.weight.copy() for layer in onn.layers]
    biases = [layer.bias.copy() for layer in onn.layers]
    for _ in range(sweeps):
        for i in range(len(weights) - 1):
            incoming = np.sqrt((weights[i] ** 2).sum(axis=1) + biases[i] ** 2)
            outgoing = np.sqrt((weights[i + 1] ** 2).sum(axis=0))
            scale = np.sqrt(np.maximum(outgoing, 1e-3) / np.maximum(incoming, 1e-3))
            weights[i] *= scale[:, None]
            biases[i] *= scale
            weights[i + 1] /= scale
    layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    return replace(onn, layers=layers)


def without_small_units(onn: Onn, limit: float) -> Onn:
    """The network without the hidden units whose maximum over the lattice is below `limit`.

    The gauge would scale such a unit up and with it the errors of its layer, for next to no effect.
    """
    alive = [np.flatnonzero(top >= limit) for top in hidden_maxima(onn)]
    rows = [*alive, np.arange(onn.task.symbols)]
    columns = [np.arange(onn.task.groups), *alive]
    if any(units.size == 0 for units in alive):
        return onn
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)], layer.bias[row])
        for layer, row, column in zip(onn.layers, rows, columns, strict=True)
    )
    return replace(onn, layers=layers)
