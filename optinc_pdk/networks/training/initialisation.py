"""Random initial networks, and operations that scale or prune a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.network import AveragingNetwork, Layer, activate
from optinc_pdk.networks.normalisation import hidden_maxima, normalise
from optinc_pdk.options import Activation

ROW_NORM = 2.0
"""Norm of the rows of random clipped layers: signals spread over most of the linear range."""

READ = 0.01
"""Weights with which a layer reads the new units of a widened network, relative to the norm of its rows."""


def random_network(
    task: Averaging, hidden: Sequence[int], seed: int, activation: Activation = "relu"
) -> AveragingNetwork:
    """Creates a network with random weights.

    ReLU networks use He initialisation for normalised inputs. In clipped networks the rows of a layer are orthogonal as
    far as possible, and the pre-activations are centred at 0.5, so that most units neither clip nor are dead.

    Args:
        task: The averaging task.
        hidden: Widths of the hidden layers.
        seed: Seed of the generator.
        activation: Activation of the hidden layers.

    Raises:
        ValueError: A width is below 1.
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


def widen(onn: AveragingNetwork, hidden: Sequence[int], seed: int) -> AveragingNetwork:
    """Adds random units to the hidden layers of a clipped network, for training to use.

    The weights of a new unit are orthogonal to those of the others as far as possible, so that the optical matrices are
    well conditioned. The next layer reads new units with weights of `READ` times the norm of each row, in proportion
    for units that share a row, so the function of the network changes slightly.

    Args:
        onn: The network.
        hidden: Widths of the hidden layers, at least those of the network.
        seed: Seed of the generator.

    Raises:
        ValueError: The network is not clipped, or a width is below that of the network.
    """
    present = onn.structure[1:-1]
    if onn.activation != "clipped_relu":
        raise ValueError(f"the network uses {onn.activation}, but only clipped_relu networks can be widened")
    if len(hidden) != len(present) or any(width < least for width, least in zip(hidden, present, strict=True)):
        raise ValueError(f"hidden = {tuple(hidden)} must be at least the widths {present} of the network")
    rng = np.random.default_rng(seed)
    scales = [onn.task.input_maxima, *(np.ones(width) for width in hidden)]
    layers = []
    for i, (layer, scale) in enumerate(zip(onn.layers, scales, strict=True)):
        weight = np.zeros((layer.outputs, len(scale)))
        weight[:, : layer.inputs] = layer.weight * scale[: layer.inputs]
        row = onn.detector_rows(i)
        read = READ * rng.standard_normal((int(row.max()) + 1, len(scale) - layer.inputs)) / np.sqrt(len(scale))
        # the mean of a new signal is about 0.5
        norm = np.where(row >= 0, np.linalg.norm(weight, axis=1), 0.0)
        weight[:, layer.inputs :] = norm[:, np.newaxis] * read[row]
        bias = layer.bias - 0.5 * weight[:, layer.inputs :].sum(axis=1)
        if i < len(hidden):
            new = _orthogonal_rows(weight, hidden[i] - layer.outputs, rng)
            spread = 0.25 * ROW_NORM * rng.uniform(-1.0, 1.0, len(new))
            weight, bias = np.vstack([weight, new]), np.append(bias, 0.5 - 0.5 * new.sum(axis=1) + spread)
        layers.append(Layer(weight / scale, bias))
    return replace(onn, layers=tuple(layers), factor=())


def _orthogonal_rows(weight: Floats, count: int, rng: np.random.Generator) -> Floats:
    """Random rows of norm ROW_NORM, (count, in): orthogonal to those of a matrix while there are directions left."""
    used = np.linalg.svd(weight, full_matrices=False)
    basis = used[2][used[1] > 1e-9 * used[1][0]]
    free = rng.standard_normal((count, weight.shape[1]))
    orthogonal = min(count, weight.shape[1] - len(basis))
    projected = free[:orthogonal] - free[:orthogonal] @ basis.T @ basis
    free[:orthogonal] = np.linalg.qr(projected.T)[0].T if orthogonal else projected
    return np.asarray(ROW_NORM * free / np.linalg.norm(free, axis=1, keepdims=True))


def normalise_signals(onn: AveragingNetwork) -> AveragingNetwork:
    """Scales the hidden signals of a network to the maximum 1 over the lattice and removes dead units.

    Unlike :func:`optinc_pdk.networks.normalisation.normalise`, inputs keep their scale and the result is an
    `AveragingNetwork`. All its layers use the factorisation "svd".
    """
    normalised = normalise(onn)
    first, *others = normalised.layers
    layers = (Layer(first.weight / normalised.scales[0], first.bias), *others)
    return replace(onn, layers=layers, factor=())


def balance_weights(onn: AveragingNetwork, sweeps: int = 20) -> AveragingNetwork:
    """Scales hidden units so that the incoming weights and bias of each have the same norm as its outgoing weights.

    The function of the network, which must be a ReLU network, does not change. Adam changes all weights at the same
    rate, so they should be of similar size. The norms are equal in the limit of many sweeps.

    Args:
        onn: The network.
        sweeps: Number of passes over all layers.
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


def prune_units(onn: AveragingNetwork, units: int) -> AveragingNetwork:
    """Removes the least important hidden units and adds the mean of their signals to the bias of the next layer.

    The importance of a unit is the standard deviation of its signal over the lattice times the relative norm of the
    weights that read it. The output layer has no bias, so for the last hidden layer the rms signal replaces the
    standard deviation, and no mean is added.

    Args:
        onn: The network.
        units: Number of units to remove. Every layer keeps at least two, so fewer may be removed.

    Returns:
        The smaller network, with an empty card and the factorisation "svd" for all layers.
    """
    total, square, count = None, None, 0
    for points in onn.task.batches():
        signals, signal = [], points
        for layer in onn.layers[:-1]:
            signal = activate(signal @ layer.weight.T + layer.bias, onn.activation)
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
        for part, above in zip(spread, onn.layers[1:], strict=True)
    ]
    kept = [np.arange(part.size) for part in importance]
    order = sorted((value, i, unit) for i, part in enumerate(importance) for unit, value in enumerate(part))
    for _, i, unit in order:
        if units and kept[i].size > 2:
            kept[i], units = kept[i][kept[i] != unit], units - 1
    layers = list(onn.layers)
    for i in range(1, last + 1):
        removed = np.setdiff1d(np.arange(layers[i].inputs), kept[i - 1])
        layers[i] = Layer(layers[i].weight, layers[i].bias + layers[i].weight[:, removed] @ means[i - 1][removed])
    return replace(_with_units(replace(onn, layers=tuple(layers)), kept), factor=(), card={})


def without_small_units(onn: AveragingNetwork, limit: float) -> AveragingNetwork:
    """Removes the hidden units whose maximum over the lattice is below `limit`.

    Such a unit has almost no effect, but normalisation would scale it up together with the errors of its layer. Returns
    the network unchanged if a layer would lose all its units.
    """
    alive = [np.flatnonzero(maximum >= limit) for maximum in hidden_maxima(onn)]
    return onn if any(units.size == 0 for units in alive) else _with_units(onn, alive)


def _with_units(onn: AveragingNetwork, kept: Sequence[Ints]) -> AveragingNetwork:
    """Network with only the given units of every hidden layer."""
    rows, columns = [*kept, np.arange(onn.task.symbols)], [np.arange(onn.task.groups), *kept]
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)], layer.bias[row])
        for layer, row, column in zip(onn.layers, rows, columns, strict=True)
    )
    return replace(onn, layers=layers)
