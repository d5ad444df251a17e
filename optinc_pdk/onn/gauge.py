"""The gauge in which tolerances are stated, and the tolerances.

ReLU lets every hidden signal be scaled by a positive factor that the next layer divides out again, so a
statement about matrix errors needs a convention: inputs and hidden signals have the maximum 1 over the
lattice, dead units are dropped, biases are electronic and exact. A matrix error ε is W + ε ‖W‖₂ G/√n with G
standard normal and n columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.averaging import Averaging, Score, score
from optinc_pdk.onn.network import Layer, Onn, WeightsError, propagate

Floats = NDArray[np.float64]

DEAD = 1e-9
"""A hidden unit whose maximum is below this share of its layer's largest is rounding, not a signal."""


@dataclass(frozen=True, eq=False)
class Gauge:
    """A network equivalent to an `Onn`, with inputs and hidden signals of maximum 1 over the lattice.

    Attributes:
        layers: Layers that take inputs / scales[0] and put out levels.
        scales: Maxima over the lattice: of the K inputs, then of the kept units of each hidden layer.
        kept: Per hidden layer, the indices of the units of the original network that are alive.
        task: The task, unchanged.
    """

    layers: tuple[Layer, ...]
    scales: tuple[Floats, ...]
    kept: tuple[NDArray[np.int64], ...]
    task: Averaging

    def forward(self, inputs: Floats) -> Floats:
        """Outputs in levels, shape (..., M), for raw inputs 0 ... 4^g - 1 of shape (..., K)."""
        return propagate(self.layers, np.asarray(inputs, dtype=np.float64) / self.scales[0])


def gauge(onn: Onn) -> Gauge:
    """Scale inputs and hidden signals to at most 1 over the lattice and drop dead units.

    Args:
        onn: The network; it is not changed, and its function stays what it is.

    Returns:
        The equivalent network with the scales that were divided out.

    Raises:
        WeightsError: All units of a hidden layer are dead, so that the output is constant.
    """
    maxima = hidden_maxima(onn)
    kept = tuple(np.flatnonzero(top > DEAD * top.max()) for top in maxima)
    for i, alive in enumerate(kept):
        if alive.size == 0:
            raise WeightsError(f"layers.{i}: no unit is ever positive over the lattice; train the network again")
    scales = (
        onn.task.input_maxima,
        *(top[alive] for top, alive in zip(maxima, kept, strict=True)),
    )
    rows = (*kept, np.arange(onn.task.symbols))
    columns = (np.arange(onn.task.groups), *kept)
    divisors = (*scales[1:], np.ones(onn.task.symbols))
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)] * scale / divisor[:, None], layer.bias[row] / divisor)
        for layer, row, column, scale, divisor in zip(onn.layers, rows, columns, scales, divisors, strict=True)
    )
    return Gauge(layers, scales, kept, onn.task)


def hidden_maxima(onn: Onn) -> list[Floats]:
    """Maximum over the lattice of every hidden unit, per hidden layer."""
    maxima = [np.zeros(layer.outputs) for layer in onn.layers[:-1]]
    for signal in onn.task.pieces():
        for layer, top in zip(onn.layers[:-1], maxima, strict=True):
            signal = np.maximum(signal @ layer.weight.T + layer.bias, 0.0)
            np.maximum(top, signal.max(axis=0), out=top)
    return maxima


def lattice_score(onn: Onn) -> Score:
    """Score of the undisturbed network in float64 over the lattice's pieces: all of it where it is enumerable."""
    inputs = exact = 0
    margin = 0.5
    for points in onn.task.pieces():
        piece = score(onn.forward(points), onn.task.targets(points), onn.task.output_resolution)
        inputs, exact, margin = inputs + piece.inputs, exact + piece.exact, min(margin, piece.margin)
    return Score(inputs, exact, exact / inputs, margin)


def tolerance(onn: Onn, epsilon: float, draws: int = 10, seed: int = 0, sample: int | None = None) -> float:
    """Share of exact words under random matrix errors, in the gauge.

    Args:
        onn: The network.
        epsilon: Relative matrix error ε, in every layer W + ε ‖W‖₂ G/√n.
        draws: Number of disturbed networks.
        seed: Seed of the generator.
        sample: Lattice points drawn for every disturbed network; all of them by default.

    Returns:
        Exact words over lattice points and draws, 0 ... 1.

    Raises:
        ValueError: `epsilon` is negative or `draws` below 1.
    """
    _check("epsilon", epsilon, draws)
    gauged = gauge(onn)
    rng = np.random.default_rng(seed)
    shares = []
    for _ in range(draws):
        layers = tuple(Layer(_disturbed(layer.weight, epsilon, rng), layer.bias) for layer in gauged.layers)
        exact = inputs = 0
        for points in onn.task.pieces() if sample is None else [onn.task.sample(sample, rng)]:
            outputs = propagate(layers, points / gauged.scales[0])
            exact += score(outputs, onn.task.targets(points), onn.task.output_resolution).exact
            inputs += len(points)
        shares.append(exact / inputs)
    return float(np.mean(shares))


def input_tolerance(onn: Onn, error: float, draws: int = 10, seed: int = 0) -> float:
    """Share of exact words when every input is off by a uniform error.

    Args:
        onn: The network.
        error: Largest error as a share of the largest value of each input.
        draws: Number of errors per lattice point.
        seed: Seed of the generator.

    Returns:
        Exact words over all lattice points and draws, 0 ... 1.

    Raises:
        ValueError: `error` is negative or `draws` below 1.
    """
    _check("error", error, draws)
    rng = np.random.default_rng(seed)
    exact = inputs = 0
    for points in onn.task.pieces():
        inputs += draws * len(points)
        levels = onn.task.targets(points)
        for _ in range(draws):
            shift = error * onn.task.input_maxima * rng.uniform(-1.0, 1.0, points.shape)
            exact += score(onn.forward(points + shift), levels, onn.task.output_resolution).exact
    return exact / inputs


def _disturbed(weight: Floats, epsilon: float, rng: np.random.Generator) -> Floats:
    size = epsilon * float(np.linalg.norm(weight, 2)) / np.sqrt(weight.shape[1])
    disturbed: Floats = weight + size * rng.standard_normal(weight.shape)
    return disturbed


def _check(name: str, value: float, draws: int) -> None:
    if not 0.0 <= value < np.inf:
        raise ValueError(f"{name} = {value} must be a finite number of at least 0")
    if draws < 1:
        raise ValueError(f"draws = {draws} must be at least 1")
