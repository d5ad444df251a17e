"""Where a training starts, and changes of a network's scaling that leave its function as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

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


def pruned(onn: Onn, units: int) -> Onn:
    """The network without the hidden units that matter least; the next layer keeps their mean.

    A unit matters as much as the spread of its signal over the lattice times the weights that read it. Units of
    the last hidden layer leave no mean behind: nothing could add it to light.

    Args:
        onn: The network.
        units: Units to leave out; every layer keeps at least two.
    """
    total, square, count = None, None, 0
    for points in onn.task.pieces():
        signals, signal = [], points
        for layer in onn.layers[:-1]:
            signal = np.maximum(signal @ layer.weight.T + layer.bias, 0.0)
            signals.append(signal)
        sums, squares = [part.sum(axis=0) for part in signals], [(part**2).sum(axis=0) for part in signals]
        total = sums if total is None else [one + other for one, other in zip(total, sums, strict=True)]
        square = squares if square is None else [one + other for one, other in zip(square, squares, strict=True)]
        count += len(points)
    means = [part / count for part in total or []]
    spread = [np.sqrt(np.maximum(part / count - mean**2, 0.0)) for part, mean in zip(square or [], means, strict=True)]
    last = len(means) - 1
    spread[last] = np.sqrt(spread[last] ** 2 + means[last] ** 2)
    worth = [
        part * np.linalg.norm(above.weight, axis=0) / np.linalg.norm(above.weight)
        for part, above in zip(spread, onn.layers[1:], strict=True)
    ]
    kept = [np.arange(part.size) for part in worth]
    order = sorted((value, i, unit) for i, part in enumerate(worth) for unit, value in enumerate(part))
    for _, i, unit in order:
        if units and kept[i].size > 2:
            kept[i], units = kept[i][kept[i] != unit], units - 1
    layers = list(onn.layers)
    for i in range(1, last + 1):
        gone = np.setdiff1d(np.arange(layers[i].inputs), kept[i - 1])
        layers[i] = Layer(layers[i].weight, layers[i].bias + layers[i].weight[:, gone] @ means[i - 1][gone])
    return replace(_with_units(replace(onn, layers=tuple(layers)), kept), factor=(), card={})


def without_small_units(onn: Onn, limit: float) -> Onn:
    """The network without the hidden units whose maximum over the lattice is below `limit`.

    The gauge would scale such a unit up and with it the errors of its layer, for next to no effect.
    """
    alive = [np.flatnonzero(top >= limit) for top in hidden_maxima(onn)]
    return onn if any(units.size == 0 for units in alive) else _with_units(onn, alive)


def _with_units(onn: Onn, kept: Sequence[NDArray[np.int64]]) -> Onn:
    """The network with some units only of every hidden layer."""
    rows, columns = [*kept, np.arange(onn.task.symbols)], [np.arange(onn.task.groups), *kept]
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)], layer.bias[row])
        for layer, row, column in zip(onn.layers, rows, columns, strict=True)
    )
    return replace(onn, layers=layers)
