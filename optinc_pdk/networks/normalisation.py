"""Normalisation of a network's signals, and its accuracy under matrix and input errors.

With ReLU every hidden signal may be scaled by a positive factor that the next layer divides out again, so a statement
about matrix errors needs a convention: inputs and hidden signals have the maximum 1 over the lattice, and dead units
are removed. This is for training, search and tolerances: a build scales signals in `optinc_pdk.networks.factorise`.
Units of a clipped network that clip keep their scale, because 1 is where they clip. The optics realises Q, the distinct
rows of the normalised weights, scaled to norm 1; row gains and biases are electronic and exact. A matrix error ε is Q +
ε ‖Q‖₂ G/√n with G standard normal and n columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks.layers import FactorMethod, Layer, WeightsError, activate, propagate, shared_rows
from optinc_pdk.networks.network import AveragingNetwork, Network
from optinc_pdk.options import UPPER_LIMIT, Activation

BATCH = 1 << 12
"""Lattice points evaluated at once: their signals fit into the processor's cache."""
LEAST_SHARE = 0.01
"""Smallest maximum of a hidden signal of a general network, relative to the width of its pre-activation's range."""
DEAD_FRACTION = 1e-9
"""Hidden units whose maximum is below this fraction of their layer's largest are dead: only rounding errors."""


@dataclass(frozen=True, eq=False)
class NormalisedNetwork:
    """Network with the same function as an `AveragingNetwork`, whose inputs and hidden signals have the maximum 1 over
    the lattice.

    Attributes:
        layers: The layers. They compute outputs in levels from inputs divided by ``scales[0]``.
        scales: Maxima of the original signals over the lattice: (K,) for the inputs, then one array per hidden layer
            for its remaining units.
        kept: For each hidden layer, the indices of the remaining units in the original network.
        task: The averaging task of the original network.
        activation: Activation of the hidden layers.
        factor: For each layer, how its matrix is factored; if empty, all layers use "svd".
    """

    layers: tuple[Layer, ...]
    scales: tuple[Floats, ...]
    kept: tuple[Ints, ...]
    task: Averaging
    activation: Activation = "relu"
    factor: tuple[FactorMethod, ...] = ()

    def forward(self, inputs: Floats) -> Floats:
        """Compute the outputs (..., M) in levels, not rounded, for raw inputs (..., K), which are normalised here."""
        return propagate(self.layers, np.asarray(inputs, dtype=np.float64) / self.scales[0], self.activation)


@dataclass(frozen=True, eq=False)
class OpticalLayer:
    """One layer of a normalised network as optics and electronics: W[u] = gain[u] · Q[row[u]].

    Attributes:
        matrix: Q, (rows, in); its rows are distinct and have norm 1.
        row: (out,) row that each unit reads; -1 for units without weights.
        gain: (out,) gain of each unit; 0 for units without weights.
        bias: (out,) bias of each unit.
    """

    matrix: Floats
    row: Ints
    gain: Floats
    bias: Floats

    @property
    def norm(self) -> float:
        """‖Q‖₂, by which Q is divided on the chip, because passive optics has no gain."""
        return float(np.linalg.norm(self.matrix, 2))

    def layer(self, matrix: Floats | None = None) -> Layer:
        """Return the layer's weights and biases, by default with Q, or with another (rows, in) matrix, such as one with
        errors.
        """
        rows = (self.matrix if matrix is None else matrix)[self.row]
        return Layer(self.gain[:, np.newaxis] * rows, self.bias)

    def with_error(self, epsilon: float, rng: np.random.Generator) -> Layer:
        """Return the layer with the random matrix error Q + ε ‖Q‖₂ G/√n."""
        size = epsilon * self.norm / np.sqrt(self.matrix.shape[1])
        return self.layer(self.matrix + size * rng.standard_normal(self.matrix.shape))


def optical_layers(normalised: NormalisedNetwork) -> tuple[OpticalLayer, ...]:
    """Split the layers of a normalised network into optical matrices with rows of norm 1 and electronics.

    Hidden units whose weights are equal up to a positive factor read the same row, except in layers that are
    approximated by blocks.
    """
    last = len(normalised.layers) - 1
    result = []
    for i, layer in enumerate(normalised.layers):
        gain = np.linalg.norm(layer.weight, axis=1)
        shared = i < last and (not normalised.factor or isinstance(normalised.factor[i], str))
        row = shared_rows(layer.weight) if shared else np.arange(layer.outputs)
        matrix = np.zeros((int(row.max()) + 1, layer.inputs))
        units = np.flatnonzero(gain > 0.0)[::-1]  # the first unit of each row defines it
        matrix[row[units]] = layer.weight[units] / gain[units, np.newaxis]
        result.append(OpticalLayer(matrix, row, gain, layer.bias))
    return tuple(result)


def normalise(network: AveragingNetwork) -> NormalisedNetwork:
    """Scale inputs and hidden signals of a network to the maximum 1 over the lattice and remove dead units.

    Raises:
        WeightsError: All units of a hidden layer are dead, so that the output is constant.
    """
    maxima = hidden_maxima(network)
    kept = tuple(np.flatnonzero(maximum > DEAD_FRACTION * maximum.max()) for maximum in maxima)
    for i, alive in enumerate(kept):
        if alive.size == 0:
            raise WeightsError(f"layers.{i}: no unit is positive anywhere on the lattice; train the network again")
    scales = (
        network.task.input_maxima,
        *(maximum[alive] for maximum, alive in zip(maxima, kept, strict=True)),
    )
    rows = (*kept, np.arange(network.task.symbols))
    columns = (np.arange(network.task.groups), *kept)
    divisors = (*scales[1:], np.ones(network.task.symbols))
    layers = tuple(
        Layer(layer.weight[np.ix_(row, column)] * scale / divisor[:, None], layer.bias[row] / divisor)
        for layer, row, column, scale, divisor in zip(network.layers, rows, columns, scales, divisors, strict=True)
    )
    return NormalisedNetwork(layers, scales, kept, network.task, network.activation, network.factor)


def hidden_maxima(network: Network) -> list[Floats]:
    """Compute the maximum of every hidden signal over the lattice: one (units,) array per hidden layer.

    Where the lattice cannot be enumerated, the maxima of a clipped network are upper bounds by interval arithmetic, so
    that no signal is ever scaled beyond 1, where it would clip. Those of a ReLU network are maxima of a sample. A
    general network adds its reserve to them, up to the upper bounds. Units that are 0 over the sample count with
    the bounds, and those that are hardly ever positive with `LEAST_SHARE` of the range of their pre-activations, so
    that they need no huge gains.
    """
    if network.activation == "sine":
        return [(high > 0.0).astype(np.float64) for _, high in pre_activation_bounds(network)]
    if UPPER_LIMIT[network.activation] is not None and not network.task.enumerable:
        return [activate(high, network.activation) for _, high in pre_activation_bounds(network)]
    maxima = [np.zeros(layer.outputs) for layer in network.layers[:-1]]
    for signal in network.task.batches():
        for layer, maximum in zip(network.layers[:-1], maxima, strict=True):
            signal = activate(signal @ layer.weight.T + layer.bias, network.activation)
            np.maximum(maximum, signal.max(axis=0), out=maximum)
    if network.task.reserve == 1.0:
        return maxima
    reserve = network.task.reserve
    return [
        np.maximum(np.where(maximum > 0.0, np.minimum(reserve * maximum, bound), bound), LEAST_SHARE * (high - low))
        for maximum, (low, high) in zip(maxima, pre_activation_bounds(network), strict=True)
        for bound in [activate(high.copy(), network.activation)]
    ]


def pre_activation_bounds(network: Network) -> list[tuple[Floats, Floats]]:
    """Return, for each hidden layer, (units,) least and largest pre-activations for all inputs within their ranges."""
    low, high = network.task.input_minima, network.task.input_maxima
    bounds = []
    for layer in network.layers[:-1]:
        positive, negative = np.maximum(layer.weight, 0.0), np.minimum(layer.weight, 0.0)
        low, high = (positive @ a + negative @ b + layer.bias for a, b in ((low, high), (high, low)))
        bounds.append((low, high))
        low, high = (activate(each.copy(), network.activation) for each in (low, high))
    return bounds
