"""What the light has to do: each layer's matrix from source amplitudes to modulator amplitudes or levels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import Board
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.onn import Onn
from optinc_pdk.onn.gauge import DEAD, hidden_maxima
from optinc_pdk.simulate.network import TOP_LEVEL

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HEADROOM = 0.98
"""Modulator amplitude of a hidden signal at its maximum over the lattice; the rest is for imperfections."""


@dataclass(frozen=True, eq=False)
class Target:
    """One layer between sources and detectors.

    Attributes:
        index: Layer number.
        inputs: Fibre labels of its sources, J of them.
        plus: Fibre labels of the positive detectors, one per row; for the last layer the receivers, one per
            server and row.
        minus: Fibre labels of the negative detectors; empty for the last layer.
        weight: (rows, J) wanted effect of each source's amplitude.
        bias: (rows,) wanted constant.
        lit: (J,) whether a source is ever on.
        mesh_weight: (rows, modes) the same matrix at the mesh's inputs.
        svd: Whether the layer is mesh, attenuators, mesh.
    """

    index: int
    inputs: tuple[str, ...]
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    weight: Floats
    bias: Floats
    lit: Bools
    mesh_weight: Floats
    svd: bool

    @property
    def last(self) -> bool:
        """Whether receivers, not neurons, take its light."""
        return not self.minus


def targets(onn: Onn, board: Board) -> tuple[Target, ...]:
    """The targets of all layers of a network on its board.

    A hidden signal h is sent with amplitude 0.98 h / (its maximum over the lattice), so that gains carry all
    scales. Signals into an approximated layer share one maximum, for the approximation has no freedom per
    column.

    Raises:
        ValueError: The network is not this board's, or its last layer has a bias.
    """
    if np.any(onn.layers[-1].bias):
        raise ValueError(
            f"layers.{len(onn.layers) - 1}.bias is not zero: receivers see |field|² and nothing adds a "
            "constant to a field; give the last hidden layer one more unit with weights 0 and bias 1, "
            "and its column this bias"
        )
    _check_board(onn, board)
    scales = _hidden_scales(onn)
    found = []
    for index, layer in enumerate(onn.layers):
        above = HEADROOM / scales[index] if index < len(scales) else np.ones(layer.outputs)
        below = scales[index - 1] / HEADROOM if index else onn.task.input_maxima
        lit = np.isfinite(below)
        mesh_weight = above[:, np.newaxis] * _matrix(onn, index) * np.where(lit, below, 0.0)
        mine = [neuron for neuron in board.neurons if neuron.layer == index]
        inputs, weight = _sources(board, index, mesh_weight)
        found.append(
            Target(
                index=index,
                inputs=inputs,
                plus=tuple(n.plus for n in mine) or tuple(label for server in board.outputs for label in server),
                minus=tuple(n.minus for n in mine),
                weight=weight,
                bias=above * layer.bias,
                lit=np.tile(lit, len(inputs) // lit.size),
                mesh_weight=mesh_weight,
                svd=onn.factor[index] == "svd",
            )
        )
    return tuple(found)


def _sources(board: Board, index: int, mesh_weight: Floats) -> tuple[tuple[str, ...], Floats]:
    """Labels of a layer's sources, and its matrix from their amplitudes; servers share each average."""
    if index:
        return tuple(neuron.to for neuron in board.neurons if neuron.layer == index - 1), mesh_weight
    servers = len(board.inputs)
    return tuple(label for server in board.inputs for label in server), np.tile(mesh_weight / servers, servers)


def _matrix(onn: Onn, index: int) -> Floats:
    weight, method = onn.layers[index].weight, onn.factor[index]
    return weight if method == "svd" else unitary_diagonal(weight, method[1]).matrix()


def _hidden_scales(onn: Onn) -> list[Floats]:
    """Maxima of the hidden signals; infinite where a unit is dead."""
    scales = []
    for index, top in enumerate(hidden_maxima(onn)):
        alive = top > DEAD * top.max()
        shared = np.full_like(top, top.max()) if onn.factor[index + 1] != "svd" else top
        scales.append(np.where(alive, shared, np.inf))
    return scales


def _check_board(onn: Onn, board: Board) -> None:
    task = onn.task
    if task.full_scale != TOP_LEVEL:
        raise ValueError(f"the task has groups of {task.group_symbols} symbols; a board sends one symbol per input")
    shape = (len(board.inputs), len(board.inputs[0]))
    if shape != (task.servers, task.symbols):
        raise ValueError(f"the board has (servers, symbols) = {shape}, the task ({task.servers}, {task.symbols})")
    for index, layer in enumerate(onn.layers[:-1]):
        count = sum(neuron.layer == index for neuron in board.neurons)
        if count != layer.outputs:
            raise ValueError(f"the board has {count} neurons in layer {index}, the network {layer.outputs}")
