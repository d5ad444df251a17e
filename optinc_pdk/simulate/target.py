"""What the light has to do: each layer's matrix from source amplitudes to modulator amplitudes or levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.assemble import Block, layer_blocks
from optinc_pdk.circuit import Board, Labels, Neuron, labels
from optinc_pdk.factor import BlockFactor, unitary_diagonal
from optinc_pdk.onn import Onn
from optinc_pdk.onn.gauge import DEAD, hidden_maxima
from optinc_pdk.simulate.network import TOP_LEVEL

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

HEADROOM = 0.98
"""Modulator amplitude of a hidden signal at its maximum over the lattice; the rest is for imperfections."""


@dataclass(frozen=True)
class Piece:
    """What one block contributes to one row of a layer.

    Attributes:
        block: The block.
        row: The row, counted in the whole layer.
    """

    block: Block
    row: int

    def label(self, what: str) -> str:
        """Label of the piece's heater, ``lo`` or ``sum``."""
        return f"{self.block.name}_{what}_r{self.row - self.block.rows.start}"


@dataclass(frozen=True, eq=False)
class Target:
    """One layer between sources and detectors.

    Attributes:
        index: Layer number.
        inputs: Labels of its sources, J of them; one that drives several modulators has as many.
        plus: Labels of the positive detectors, one per piece; for the last layer the receivers, one per server and
            row.
        minus: Labels of the negative detectors; empty for the last layer.
        blocks: The blocks of its matrix.
        pieces: What the blocks contribute to the rows, row by row.
        starts: (rows,) number of each row's first piece.
        weight: (rows, J) wanted effect of each source's amplitude.
        bias: (rows,) wanted constant.
        lit: (J,) whether a source is ever on.
        mesh_weight: (rows, modes) the same matrix at the mesh's inputs.
        factor: Its matrix as square blocks; None where it is mesh, attenuators, mesh.
    """

    index: int
    inputs: tuple[tuple[str, ...], ...]
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    blocks: tuple[Block, ...]
    pieces: tuple[Piece, ...]
    starts: Ints
    weight: Floats
    bias: Floats
    lit: Bools
    mesh_weight: Floats
    factor: BlockFactor | None

    @property
    def last(self) -> bool:
        """Whether receivers, not neurons, take its light."""
        return not self.minus

    @property
    def split(self) -> bool:
        """Whether rows have more than one piece."""
        return len(self.pieces) > self.starts.size

    @property
    def owner(self) -> Ints:
        """(pieces,) row of each piece."""
        return np.array([piece.row for piece in self.pieces], dtype=np.int64)

    def by_row(self, values: Complexes | Floats, axis: int = 0) -> Any:
        """Sums over the pieces of each row."""
        return np.add.reduceat(values, self.starts, axis=axis) if self.split else values

    def weights(self, piece: Piece) -> Floats:
        """(J,) what a piece has to do with each source's amplitude."""
        mine = np.zeros(self.mesh_weight.shape[1], dtype=bool)
        mine[piece.block.columns] = True
        weight: Floats = np.where(np.tile(mine, self.weight.shape[1] // mine.size), self.weight[piece.row], 0.0)
        return weight


def targets(onn: Onn, board: Board) -> tuple[Target, ...]:
    """The targets of all layers of a network on its board.

    A hidden signal h is sent with amplitude 0.98 h / (its maximum over the lattice), so that gains carry all
    scales. Signals into an approximated layer share one maximum, for the approximation has no freedom per
    column.

    Raises:
        ValueError: The network is not this board's, its last layer has a bias, or a layer does nothing.
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
        factor = None if (method := onn.factor[index]) == "svd" else unitary_diagonal(layer.weight, method[1])
        matrix = layer.weight if factor is None else factor.matrix()
        mesh_weight = above[:, np.newaxis] * matrix * np.where(lit, below, 0.0)
        if not mesh_weight.any():
            raise ValueError(
                f"layers.{index} makes nothing of its signals: no unit of it, or of the layer before, is ever positive "
                "over the lattice, or all its weights are 0; train the network again"
            )
        mine = [neuron for neuron in board.neurons if neuron.layer == index]
        inputs, weight = _sources(board, index, mesh_weight)
        blocks = layer_blocks(onn, index)
        pieces = tuple(Piece(block, row) for row in range(layer.outputs) for block in blocks if row in block.rows)
        _check_detectors(mine, pieces)
        found.append(
            Target(
                index=index,
                inputs=inputs,
                plus=_flat(n.plus for n in mine) or _flat(board.outputs),
                minus=_flat(n.minus for n in mine),
                blocks=blocks,
                pieces=pieces,
                starts=np.searchsorted([piece.row for piece in pieces], np.arange(layer.outputs)),
                weight=weight,
                bias=above * layer.bias,
                lit=np.tile(lit, len(inputs) // lit.size),
                mesh_weight=mesh_weight,
                factor=factor,
            )
        )
    return tuple(found)


def _flat(names: Iterable[Labels]) -> tuple[str, ...]:
    return tuple(label for each in names for label in labels(each))


def _sources(board: Board, index: int, mesh_weight: Floats) -> tuple[tuple[tuple[str, ...], ...], Floats]:
    """Labels of a layer's sources, and its matrix from their amplitudes; servers share each average."""
    if index:
        return tuple(labels(neuron.to) for neuron in board.neurons if neuron.layer == index - 1), mesh_weight
    servers = len(board.inputs)
    return tuple((label,) for server in board.inputs for label in server), np.tile(mesh_weight / servers, servers)


def _check_detectors(neurons: list[Neuron], pieces: tuple[Piece, ...]) -> None:
    for row, neuron in enumerate(neurons):
        wanted = sum(piece.row == row for piece in pieces)
        if len(labels(neuron.plus)) != wanted:
            raise ValueError(
                f"neuron {neuron.label!r} has {len(labels(neuron.plus))} pairs of detectors on the board, the "
                f"network's factorisation gives it {wanted}; give weights and netlist of one chip"
            )


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
        copies = {block.place[0] for block in layer_blocks(onn, index + 1)}
        for neuron in board.neurons:
            if neuron.layer == index and len(labels(neuron.to)) != len(copies):
                raise ValueError(
                    f"neuron {neuron.label!r} drives {len(labels(neuron.to))} modulators on the board, the network's "
                    f"factorisation has {len(copies)} rows of blocks; give weights and netlist of one chip"
                )
