"""Random initial networks, and operations that scale or prune a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.layers import Layer, activate
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.normalisation import hidden_maxima, normalise
from optinc_pdk.options import Activation

ROW_NORM = 2.0
"""Norm of the rows of random clipped layers: signals spread over most of the linear range."""


def random_network(
    task: Averaging, hidden: Sequence[int], seed: int, activation: Activation = "relu"
) -> AveragingNetwork:
    """Create a network with random weights and hidden layers of given widths.

    ReLU networks use He initialisation for normalised inputs. In clipped and sine networks the rows of a layer are
    orthogonal as far as possible, and the pre-activations are centred at 0.5, so that most units neither clip nor are
    dead.

    Raises:
        ValueError: A hidden width is below 1.
    """
    if any(width < 1 for width in hidden):
        raise ValueError(f"hidden = {tuple(hidden)} must be widths of at least 1")
    rng = np.random.default_rng(seed)
    widths = [task.groups, *hidden, task.symbols]
    create = _he_layer if activation == "relu" else _centred_layer
    layers = [create(rows, columns, rng) for columns, rows in pairwise(widths)]
    # Without training of the output bias there is none: receivers detect |field|².
    layers[-1] = Layer(layers[-1].weight, np.zeros(task.symbols))
    layers[0] = Layer(layers[0].weight / task.input_maxima, layers[0].bias)
    return AveragingNetwork(tuple(layers), task, activation=activation)


def _he_layer(rows: int, columns: int, rng: np.random.Generator) -> Layer:
    weight = rng.standard_normal((rows, columns)) * np.sqrt(2.0 / columns)
    return Layer(weight, rng.uniform(-0.5, 0.5, rows))


def _centred_layer(rows: int, columns: int, rng: np.random.Generator) -> Layer:
    """Rows of norm ROW_NORM, as orthogonal as possible; pre-activations around 0.5 for signals around 0.5."""
    weight = rng.standard_normal((rows, columns))
    if rows <= columns:
        weight = np.linalg.qr(weight.T)[0].T
    weight *= ROW_NORM / np.linalg.norm(weight, axis=1, keepdims=True)
    return Layer(weight, 0.5 - 0.5 * weight.sum(axis=1) + 0.25 * ROW_NORM * rng.uniform(-1.0, 1.0, rows))


def normalise_signals(network: AveragingNetwork) -> AveragingNetwork:
    """Scale the hidden signals of a network to the maximum 1 over the lattice and remove dead units.

    Unlike :func:`optinc_pdk.networks.normalise`, inputs keep their scale and the result is an `AveragingNetwork`, whose
    layers all use the factorisation "svd".
    """
    normalised = normalise(network)
    first, *others = normalised.layers
    layers = (Layer(first.weight / normalised.scales[0], first.bias), *others)
    return replace(network, layers=layers, factor=())


def balance_weights(network: AveragingNetwork, sweeps: int = 20) -> AveragingNetwork:
    """Scale hidden units of a ReLU network so that the norms of incoming weights with bias and of outgoing weights are
    equal.

    The function of the network does not change. Adam changes all weights at the same rate, so they should be of similar
    size. The norms are equal in the limit of many sweeps over all layers.
    """
    weights = [layer.weight.copy() for layer in network.layers]
    biases = [layer.bias.copy() for layer in network.layers]
    for _ in range(sweeps):
        for i in range(len(weights) - 1):
            incoming = np.sqrt((weights[i] ** 2).sum(axis=1) + biases[i] ** 2)
            outgoing = np.sqrt((weights[i + 1] ** 2).sum(axis=0))
            scale = np.sqrt(np.maximum(outgoing, 1e-3) / np.maximum(incoming, 1e-3))
            weights[i] *= scale[:, None]
            biases[i] *= scale
            weights[i + 1] /= scale
    layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    return replace(network, layers=layers)


def prune_units(network: AveragingNetwork, units: int) -> AveragingNetwork:
    """Remove the least important hidden units and add the mean of their signals to the bias of the next layer.

    The importance of a unit is the standard deviation of its signal over the lattice times the relative norm of the
    weights that read it. The output layer has no bias, so for the last hidden layer the rms signal replaces the
    standard deviation, and no mean is added. Every layer keeps at least two units, so fewer may be removed. The result
    has an empty card and the factorisation "svd" for all layers.
    """
    total, square, count = None, None, 0
    for points in network.task.batches():
        signals, signal = [], points
        for layer in network.layers[:-1]:
            signal = activate(signal @ layer.weight.T + layer.bias, network.activation)
            signals.append(signal)
        sums, squares = [part.sum(axis=0) for part in signals], [(part**2).sum(axis=0) for part in signals]
        total = sums if total is None else [one + other for one, other in zip(total, sums, strict=True)]
        square = squares if square is None else [one + other for one, other in zip(square, squares, strict=True)]
        count += len(points)
    means = [part / count for part in total or []]
    spread = [np.sqrt(np.maximum(part / count - mean**2, 0.0)) for part, mean in zip(square or [], means, strict=True)]
    last = len(means) - 1
    spread[last] = np.sqrt(spread[last] ** 2 + means[last] ** 2)
    importance = [
        part * np.linalg.norm(above.weight, axis=0) / np.linalg.norm(above.weight)
        for part, above in zip(spread, network.layers[1:], strict=True)
    ]
    kept = [np.arange(part.size) for part in importance]
    order = sorted((value, i, unit) for i, part in enumerate(importance) for unit, value in enumerate(part))
    for _, i, unit in order:
        if units and kept[i].size > 2:
            kept[i], units = kept[i][kept[i] != unit], units - 1
    layers = list(network.layers)
    for i in range(1, last + 1):
        removed = np.setdiff1d(np.arange(layers[i].inputs), kept[i - 1])
        layers[i] = Layer(layers[i].weight, layers[i].bias + layers[i].weight[:, removed] @ means[i - 1][removed])
    return replace(_with_units(replace(network, layers=tuple(layers)), kept), factor=(), card={})


def without_small_units(network: AveragingNetwork, limit: float) -> AveragingNetwork:
    """Remove the hidden units whose maximum over the lattice is below `limit`, or none if a layer would lose all its
    units.

    Such a unit has almost no effect, but normalisation would scale it up together with the errors of its layer.
    """
    alive = [np.flatnonzero(maximum >= limit) for maximum in hidden_maxima(network)]
    return network if any(units.size == 0 for units in alive) else _with_units(network, alive)


def _with_units(network: AveragingNetwork, kept: Sequence[Ints]) -> AveragingNetwork:
    """Network with only the given units of every hidden layer."""
    rows, columns = [*kept, np.arange(network.task.symbols)], [np.arange(network.task.groups), *kept]
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)], layer.bias[row])
        for layer, row, column in zip(network.layers, rows, columns, strict=True)
    )
    return replace(network, layers=layers)
