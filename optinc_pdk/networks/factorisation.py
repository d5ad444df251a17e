"""Factorisation of a network for the chip: every layer's weights as row gains, attenuators and mesh phases.

This is the only place where weights are decomposed for a chip. The report counts and measures these factors, and
programming starts from their mesh phases and fits the chip to their matrices.

A layer's weight in amplitudes is W = D Q. The electronics' gains make D, one gain per unit; the optics makes Q, whose
rows have norm 1, so that no row receives little light only because its weights are small. Units whose rows of W are
equal up to a positive factor share one row of Q, and one detector
(:meth:`optinc_pdk.networks.AveragingNetwork.detector_rows`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.factor import (
    BlockDiagonalFactor,
    BlockFactor,
    RowsFactor,
    SvdFactor,
    row_factor,
    svd_generic,
    unitary_diagonal,
)
from optinc_pdk.networks.layers import Layer, LayerPart, WeightsError, activate
from optinc_pdk.networks.network import Network, NetworkT
from optinc_pdk.networks.normalisation import DEAD_FRACTION, hidden_maxima, pre_activation_bounds


def without_output_bias(network: NetworkT) -> NetworkT:
    """Return a network with the same function whose last layer has no bias.

    Receivers detect the field of the last layer, to which no electronics can add a constant. The bias therefore becomes
    the column of one more unit of the last hidden layer, which has weights 0 and bias 1. On the chip this unit is a
    modulator with a constant drive; it needs no detector. If the last layer is approximated by blocks, it is factored
    by singular value decomposition instead, as a column of its own has no unitary block.

    The receivers of a general network read its outputs as numbers, and add the bias themselves. It is returned as it
    is, and so is a network without a hidden layer or an output bias.
    """
    if len(network.layers) < 2 or not network.layers[-1].bias.any() or not isinstance(network.task, Averaging):
        return network
    *lower, below, last = network.layers
    constant = Layer(np.vstack([below.weight, np.zeros((1, below.inputs))]), np.append(below.bias, 1.0))
    output = Layer(np.column_stack([last.weight, last.bias]), np.zeros(last.outputs))
    method = network.factor[-1] if isinstance(network.factor[-1], str) else "svd"
    return replace(network, layers=(*lower, constant, output), factor=(*network.factor[:-1], method))


def output_bias_notes(network: Network) -> list[str]:
    """State what :func:`without_output_bias` adds to a network; empty if it adds nothing."""
    if without_output_bias(network) is network:
        return []
    last = len(network.layers) - 1
    method = "" if isinstance(network.factor[last], str) else f"; layers.{last} is factored by svd instead of in blocks"
    note = f"layers.{last - 1} gets one more unit, a constant 1, whose column of layers.{last} is its bias"
    return [note + method]


def with_output_neurons(network: NetworkT) -> NetworkT:
    """Return a network with the same outputs whose last layer is the distribution of its output neurons' light.

    The given last layer becomes a hidden one: a neuron for each output reads it, adds its bias, and sends level / top,
    where top is the largest level of the output. The new last layer multiplies by top. It has one weight for each
    output, so that on the chip it is one attenuator for each symbol, without a mesh, before the splitter trees to the
    servers.

    Raises:
        InputError: It is a general network, whose outputs are signed, and neurons send no negative light.
    """
    task, last = network.task, network.layers[-1]
    if not isinstance(task, Averaging):
        raise InputError("the outputs of a general network are signed, and neurons send none below 0; read its fields")
    top = 4.0 - 1.0 / task.output_resolution
    neurons = Layer(last.weight / top[:, np.newaxis], last.bias / top)
    return replace(
        network,
        layers=(*network.layers[:-1], neurons, Layer(np.diag(top), np.zeros(top.size))),
        factor=(*network.factor, "svd"),
    )


def realised_network(network: NetworkT, layers: int) -> NetworkT:
    """Return the network as a chip with a number of layers (``Board.layers``) computes it.

    If the numbers are equal, the output bias is moved into the layer before; with one layer more, outputs end in
    neurons.

    Raises:
        InputError: The chip has another number of layers.
    """
    if layers not in (len(network.layers), len(network.layers) + 1):
        raise InputError(
            f"the chip has {layers} layers, the network {len(network.layers)}; give weights and netlist of one chip"
        )
    return with_output_neurons(network) if layers > len(network.layers) else without_output_bias(network)


def linked_network(network: NetworkT, neurons: bool) -> NetworkT:
    """Return the network that a chip realises whose outputs end in neurons or not.

    Outputs that are levels of neurons already, see :func:`sends_levels`, get no others.
    """
    return with_output_neurons(network) if neurons and not sends_levels(network) else without_output_bias(network)


def sends_levels(network: Network) -> bool:
    """Return whether every output is the sum of equal bits that no other output reads, so that levels are regenerated.

    Such outputs need no further neurons: the last layer adds the bits in light.
    """
    last = network.layers[-1]
    if network.activation != "clipped_relu" or len(network.layers) < 2 or last.bias.any():
        return False
    used = last.weight != 0.0
    equal = np.all(
        np.where(used, last.weight, last.weight.max(axis=1, keepdims=True)) > (1.0 - CLIPS) * last.weight.max()
    )
    return bool(equal and np.all(used.sum(axis=0) == 1) and np.all(clipping_units(network)[-1]))


def output_notes(network: Network, neurons: bool) -> list[str]:
    """State what outputs that end in neurons, or not, add to a network; empty if nothing."""
    if not neurons or sends_levels(network):
        return output_bias_notes(network)
    last = len(network.layers) - 1
    return [
        f"the outputs of layers.{last} end in {network.task.outputs} neurons, whose modulators send light to the "
        f"servers: one layer more, of {network.task.outputs} attenuators (link: neurons)"
    ]


HEADROOM = 0.98
"""Modulator amplitude of a ReLU network's hidden signal at its maximum over the lattice; the rest is reserve for
imperfections. Clipped networks need none: they use the full scale, at which modulators clip."""
CLIPS = 1e-6
"""Pre-activations beyond 1 by more than this are clipped."""


@dataclass(frozen=True, eq=False)
class LayerFactor:
    """Factorisation of one layer, with signals expressed as modulator amplitudes between 0 and 1.

    The weight in amplitudes is W[u] = row_norm[u] · Q[row[u]] for unit u: the meshes and attenuators realise Q, the
    electronics the gains and the choice of rows.

    Attributes:
        matrix: (rows, in) optical matrix Q; its rows have norm 1, or 0 for units that are never positive. In the last
            layer of level 1 of a cascade, the norms are at most 1.
        row: (out,) row of Q that each unit reads; -1 for a unit without weights, which is constant.
        row_norm: (out,) gain by which the electronics of each unit multiply its row.
        bias: (out,) biases in units of amplitude, which the electronics add.
        illuminated: (in,) whether an input is positive for any point of the lattice.
        swing: (out,) amplitude that each unit reaches at most: 1 for units that clip, and in the last layer.
        factor: Meshes and attenuators; their matrix is Q, or an approximation of Q by blocks. Independent parts of Q
            (:meth:`optinc_pdk.networks.AveragingNetwork.layer_parts`) are factored separately, and so are rows.
    """

    matrix: Floats
    row: Ints
    row_norm: Floats
    bias: Floats
    illuminated: Bools
    swing: Floats
    factor: SvdFactor | BlockDiagonalFactor | RowsFactor | BlockFactor

    @property
    def realised(self) -> Floats:
        """Real part of the matrix of the ideal meshes and attenuators, (rows, in), which homodyne detection reads."""
        return np.asarray(self.factor.matrix().real, dtype=np.float64)

    @property
    def weight(self) -> Floats:
        """Realised weight in amplitudes, (out, in); 0 for inputs that are never positive."""
        rows = np.where(self.row[:, np.newaxis] >= 0, self.realised[self.row], 0.0)
        return np.where(self.illuminated, self.row_norm[:, np.newaxis] * rows, 0.0)

    @property
    def max_error(self) -> float:
        """Largest absolute entry of ``realised`` - Q, relative to the 2-norm of Q."""
        return float(np.abs(self.realised - self.matrix).max() / np.linalg.norm(self.matrix, 2))

    @property
    def relative_error(self) -> float:
        """Frobenius norm of ``realised`` - Q, relative to that of Q."""
        return float(np.linalg.norm(self.realised - self.matrix) / np.linalg.norm(self.matrix))


def factorise(
    network: Network, inputs: Sequence[float] | None = None, swing: float | None = None
) -> tuple[LayerFactor, ...]:
    """Factor every layer of a network for the chip, by the methods in ``network.factor``.

    A hidden signal h is sent with the amplitude h / (its maximum over the lattice), times ``swing``, by default 0.98 in
    ReLU networks. A unit of a clipped network that clips is sent as it is. An input x is sent with the amplitude
    ``inputs`` x / (4^g - 1), or x over its largest magnitude in a general network. All inputs of a layer that is
    approximated by blocks use the same maximum, because this approximation cannot scale columns separately. Null
    vectors of singular value decompositions are random; the seed is the index of the layer, so that equal networks have
    equal factors. The outputs of level 1 of a cascade have equal fields per level, so that errors of all symbols count
    alike at level 2. An output bias is realised as :func:`optinc_pdk.networks.without_output_bias` describes.

    Examples:
        >>> import optinc_pdk as op
        >>> from optinc_pdk.networks import carry_chain, factorise
        >>> factors = factorise(carry_chain(op.Averaging(bits=4, servers=4, groups=2)))
        >>> [factor.matrix.shape for factor in factors]
        [(3, 2), (1, 6), (2, 7)]

    Args:
        network: Network.
        inputs: (K,) amplitude of the value 4^g - 1 of each input, above 0; by default `Averaging.default_amplitude` for
            all. General networks have no such amplitudes.
        swing: Amplitude that analogue signals reach at most, ``activation.analogue_swing`` of a process.

    Returns:
        One factorisation per layer.

    Raises:
        WeightsError: A layer has no effect: its weights, or all signals into or out of it, are 0 over the lattice.
    """
    network = without_output_bias(network)
    scales = _hidden_scales(network)
    tops = _swings(network, swing)
    first = network.task.input_values(inputs)
    factors = []
    for index, (layer, method) in enumerate(zip(network.layers, network.factor, strict=True)):
        above = tops[index] / scales[index] if index < len(scales) else np.ones(layer.outputs)
        below = scales[index - 1] / tops[index - 1] if index else first
        illuminated = np.isfinite(below)
        # the columns of a block are orthogonal only while all of them are there
        dark = 0.0 if isinstance(method, str) else below[illuminated].max(initial=0.0)
        weight = above[:, np.newaxis] * layer.weight * np.where(illuminated, below, dark)
        if not weight[:, illuminated].any():
            raise WeightsError(
                f"layers.{index} has no effect on its signals: no unit of it, or of the layer before, is ever positive "
                "over the lattice, or all its weights are 0; train the network again"
            )
        norm = np.linalg.norm(weight, axis=1)
        if network.task.remainder and index == len(scales):
            norm = np.full_like(norm, norm.max())
        row = network.detector_rows(index)
        matrix = np.zeros((int(row.max()) + 1, layer.inputs))
        # the first unit of each row defines it
        units = np.flatnonzero(norm > 0.0)[::-1]
        matrix[row[units]] = weight[units] / norm[units, np.newaxis]
        factor: SvdFactor | BlockDiagonalFactor | RowsFactor | BlockFactor
        parts = network.layer_parts(index)
        if method == "svd":
            factor = _svd_by_parts(matrix, parts, np.random.default_rng(index))
        elif method == "rows":
            rows = tuple(row_factor(matrix[part.rows[0], part.columns]) for part in parts)
            factor = RowsFactor(rows, tuple(part.columns for part in parts), layer.inputs)
        else:
            factor = unitary_diagonal(matrix, method[1])
        factors.append(LayerFactor(matrix, row, norm, above * layer.bias, illuminated, tops[index], factor))
    return tuple(factors)


def _swings(network: Network, swing: float | None) -> list[Floats]:
    """(out,) largest amplitudes of the units of every layer."""
    if network.activation == "relu":
        hidden = [np.full(layer.outputs, swing or HEADROOM) for layer in network.layers[:-1]]
    elif network.activation == "sine" or swing is None:
        hidden = [np.ones(layer.outputs) for layer in network.layers[:-1]]
    else:
        hidden = [np.where(clips, 1.0, swing) for clips in clipping_units(network)]
    return [*hidden, np.ones(network.layers[-1].outputs)]


def clipping_units(network: Network) -> list[Bools]:
    """Return, for each hidden layer, which of the (units,) need the full scale, because they are no analogue signals.

    They clip at 1, are never between 0 and 1, or are constant. If the lattice cannot be enumerated, units count as
    analogue whose pre-activations are bounded by 1.
    """
    if not network.task.enumerable:
        return [high > 1.0 + CLIPS for _, high in pre_activation_bounds(network)]
    found = [layer.weight.any(axis=1) for layer in network.layers[:-1]]
    inside = [np.zeros(layer.outputs, dtype=np.bool_) for layer in network.layers[:-1]]
    for signal in network.task.batches():
        for layer, analogue, between in zip(network.layers[:-1], found, inside, strict=True):
            signal = signal @ layer.weight.T + layer.bias
            analogue &= (signal <= 1.0 + CLIPS).all(axis=0)
            between |= ((signal > CLIPS) & (signal < 1.0 - CLIPS)).any(axis=0)
            activate(signal, network.activation)
    return [~(analogue & between) for analogue, between in zip(found, inside, strict=True)]


def _svd_by_parts(
    matrix: Floats, parts: Sequence[LayerPart], rng: np.random.Generator
) -> SvdFactor | BlockDiagonalFactor:
    if len(parts) == 1:
        return svd_generic(matrix, rng)
    # a part of dead units transmits nothing, but a factorisation needs a matrix other than 0
    pieces = [matrix[np.ix_(part.rows, part.columns)] for part in parts]
    factors = tuple(svd_generic(piece if piece.any() else np.ones_like(piece), rng) for piece in pieces)
    return BlockDiagonalFactor(
        factors, tuple(part.rows for part in parts), tuple(part.columns for part in parts), matrix.shape
    )


def _hidden_scales(network: Network) -> list[Floats]:
    """Maxima of the hidden signals, per hidden layer; infinite for dead units."""
    scales = []
    for index, top in enumerate(hidden_maxima(network)):
        alive = top > DEAD_FRACTION * top.max()
        shared = top if isinstance(network.factor[index + 1], str) else np.full_like(top, top.max())
        scales.append(np.where(alive, shared, np.inf))
    return scales
