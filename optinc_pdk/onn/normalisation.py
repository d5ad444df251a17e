"""Normalisation of a network's signals, and its accuracy under matrix and input errors.

With ReLU every hidden signal may be scaled by a positive factor that the next layer divides out again, so a statement
about matrix errors needs a convention: inputs and hidden signals have the maximum 1 over the lattice, dead units are
removed, biases are electronic and exact. A matrix error ε is W + ε ‖W‖₂ G/√n with G standard normal and n columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging, Score, score
from optinc_pdk.onn.network import Activation, Layer, Onn, WeightsError, activate, propagate

Floats = NDArray[np.float64]

BATCH = 1 << 12
"""Lattice points evaluated at once: their signals fit into the processor's cache."""
DEAD_FRACTION = 1e-9
"""Hidden units whose maximum is below this fraction of their layer's largest are dead: only rounding errors."""


@dataclass(frozen=True, eq=False)
class NormalisedOnn:
    """Network with the same function as an `Onn`, whose inputs and hidden signals have the maximum 1 over the lattice.

    Attributes:
        layers: The layers. They compute outputs in levels from inputs divided by ``scales[0]``.
        scales: Maxima of the original signals over the lattice: (K,) for the inputs, then one array per hidden layer
            for its remaining units.
        kept: For each hidden layer, the indices of the remaining units in the original network.
        task: The averaging task of the original network.
        activation: Activation of the hidden layers.
    """

    layers: tuple[Layer, ...]
    scales: tuple[Floats, ...]
    kept: tuple[NDArray[np.int64], ...]
    task: Averaging
    activation: Activation = "relu"

    def forward(self, inputs: Floats) -> Floats:
        """Compute the outputs of the network for raw inputs, which are normalised here.

        Args:
            inputs: (..., K) averages of the K groups, 0 … 4^g − 1 for groups of g symbols.

        Returns:
            (..., M) output values in levels, one per symbol; they are not rounded.
        """
        return propagate(self.layers, np.asarray(inputs, dtype=np.float64) / self.scales[0], self.activation)


def normalise(onn: Onn) -> NormalisedOnn:
    """Scales inputs and hidden signals of a network to the maximum 1 over the lattice and removes dead units.

    Args:
        onn: The network; it is not changed.

    Returns:
        The network with the same function and normalised signals, and the scales that were divided out.

    Raises:
        WeightsError: All units of a hidden layer are dead, so that the output is constant.
    """
    maxima = hidden_maxima(onn)
    kept = tuple(np.flatnonzero(maximum > DEAD_FRACTION * maximum.max()) for maximum in maxima)
    for i, alive in enumerate(kept):
        if alive.size == 0:
            raise WeightsError(f"layers.{i}: no unit is positive anywhere on the lattice; train the network again")
    scales = (
        onn.task.input_maxima,
        *(maximum[alive] for maximum, alive in zip(maxima, kept, strict=True)),
    )
    rows = (*kept, np.arange(onn.task.symbols))
    columns = (np.arange(onn.task.groups), *kept)
    divisors = (*scales[1:], np.ones(onn.task.symbols))
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)] * scale / divisor[:, None], layer.bias[row] / divisor)
        for layer, row, column, scale, divisor in zip(onn.layers, rows, columns, scales, divisors, strict=True)
    )
    return NormalisedOnn(layers, scales, kept, onn.task, onn.activation)


def hidden_maxima(onn: Onn) -> list[Floats]:
    """Computes the maximum of every hidden signal over the lattice: one (units,) array per hidden layer."""
    maxima = [np.zeros(layer.outputs) for layer in onn.layers[:-1]]
    for signal in onn.task.batches():
        for layer, maximum in zip(onn.layers[:-1], maxima, strict=True):
            signal = activate(signal @ layer.weight.T + layer.bias, onn.activation)
            np.maximum(maximum, signal.max(axis=0), out=maximum)
    return maxima


def lattice_score(onn: Onn) -> Score:
    """Computes accuracy and margin of a network without errors, in float64.

    Evaluates the whole lattice, or a sample of it if it is too large.
    """
    inputs = exact = 0
    margin = 0.5
    for points in onn.task.batches(BATCH):
        piece = score(onn.forward(points), onn.task.targets(points), onn.task.output_resolution)
        inputs, exact, margin = inputs + piece.inputs, exact + piece.exact, min(margin, piece.margin)
    return Score(inputs, exact, exact / inputs, margin)


def matrix_error_accuracy(onn: Onn, epsilon: float, draws: int = 10, seed: int = 0, sample: int | None = None) -> float:
    """Computes the fraction of exact words under random matrix errors of the normalised network.

    Args:
        onn: The network.
        epsilon: Relative matrix error ε: every W becomes W + ε ‖W‖₂ G/√n, G standard normal, n columns.
        draws: Number of networks with random errors.
        seed: Seed of the generator.
        sample: Number of lattice points drawn for each of these networks; the whole lattice by default.

    Returns:
        Fraction of exact words over all lattice points and draws, 0 ... 1.

    Raises:
        ValueError: `epsilon` is negative or `draws` below 1.
    """
    _check("epsilon", epsilon, draws)
    normalised = normalise(onn)
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        layers = tuple(Layer(_with_error(layer.weight, epsilon, rng), layer.bias) for layer in normalised.layers)
        exact = inputs = 0
        for points in onn.task.batches(BATCH) if sample is None else [onn.task.sample(sample, rng)]:
            outputs = propagate(layers, points / normalised.scales[0], onn.activation)
            exact += score(outputs, onn.task.targets(points), onn.task.output_resolution).exact
            inputs += len(points)
        shares.append(exact / inputs)
    return float(np.mean(shares))


def input_error_accuracy(onn: Onn, error: float, draws: int = 10, seed: int = 0) -> float:
    """Computes the fraction of exact words under uniform random errors of the inputs.

    Args:
        onn: The network.
        error: Largest error, as a fraction of the largest value of each input.
        draws: Number of errors per lattice point.
        seed: Seed of the generator.

    Returns:
        Fraction of exact words over all lattice points and draws, 0 ... 1.

    Raises:
        ValueError: `error` is negative or `draws` below 1.
    """
    _check("error", error, draws)
    rng = np.random.default_rng(seed)
    exact = inputs = 0
    for points in onn.task.batches():
        inputs += draws * len(points)
        levels = onn.task.targets(points)
        for _ in range(draws):
            shift = error * onn.task.input_maxima * rng.uniform(-1.0, 1.0, points.shape)
            exact += score(onn.forward(points + shift), levels, onn.task.output_resolution).exact
    return exact / inputs


def _with_error(weight: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    """W + ε ‖W‖₂ G/√n."""
    size = epsilon * float(np.linalg.norm(weight, 2)) / np.sqrt(weight.shape[1])
    perturbed: Floats = weight + size * rng.standard_normal(weight.shape)
    return perturbed


def _check(name: str, value: float, draws: int) -> None:
    if not 0.0 <= value < np.inf:
        raise ValueError(f"{name} = {value} must be a finite number of at least 0")
    if draws < 1:
        raise ValueError(f"draws = {draws} must be at least 1")
