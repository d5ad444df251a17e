"""Target matrices of a network's layers, from source amplitudes to modulator amplitudes or output levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.assemble import WeightBlock, layer_blocks
from optinc_pdk.circuit import Board, Labels, Neuron, detector_groups, label_tuple
from optinc_pdk.networks import LayerFactor, Network, NetworkTask, factorise, realised_network


@dataclass(frozen=True)
class RowContribution:
    """Contribution of one block to one row of a layer's optical matrix; called a *piece* elsewhere.

    Attributes:
        block: The block.
        row: Index of the row in the whole layer.
    """

    block: WeightBlock
    row: int

    def label(self, what: str) -> str:
        """Return the pad label of one of this contribution's heaters.

        Args:
            what: ``lo`` for the heater of the local oscillator, ``sum`` for the phase shifter in front of the sum of
                blocks.
        """
        return f"{self.block.bank}_{what}_r{self.row - self.block.first_row}"


@dataclass(frozen=True, eq=False)
class RowElectronics:
    """Electronics of a layer's rows.

    Attributes:
        scale: (rows,) detection coefficients over the weights.
        balance: (rows,) weights ρ of the negative detectors.
    """

    scale: Floats
    balance: Floats


@dataclass(frozen=True, eq=False)
class LayerTarget:
    """Matrix that one layer has to realise between its J sources and its detectors, and the units that read its rows.

    A piece is the contribution of one block to one row. A row has several pieces if the matrix is split into blocks.
    Several units may read one row; they differ in gain and bias.

    Attributes:
        index: Index of the layer.
        inputs: (J,) labels of each source; a source that drives several modulators has one label for each.
        column: (J,) column of the mesh's matrix that each source enters.
        share: (J,) share of each source in that column's input: 1 behind neurons; in the first layer, the weight of a
            symbol in its group, divided by the number of servers.
        plus: Labels of the positive detectors, one for each piece; in the last layer of the receivers, one for each
            server and row.
        minus: Labels of the negative detectors, one for each piece; empty in the last layer.
        blocks: Blocks of the matrix.
        pieces: Contributions of the blocks to the rows, sorted by row.
        starts: (rows,) index of each row's first piece.
        weight: (rows, J) target coefficient of each source's amplitude: the realised optical matrix Q.
        unit_row: (units,) row that each unit reads; -1 for a constant unit without detectors.
        row_norm: (units,) factor of each unit on its row.
        bias: (units,) target constant of each unit.
        illuminated: (J,) whether each source is ever on.
        mesh_weight: (rows, modes) the same matrix at the inputs of the mesh. In the first layer, all servers and the
            symbols of a group share them.
        factor: Factorisation that defines the matrix.
        heater_labels: Regular expression that the pad labels of its heaters begin with.
        whole: Whether it is that of a whole layer, not of a part whose sources other parts use, too.
        electronics: Electronics of its rows, which also read rows of other targets; None if they may be adjusted to it.
    """

    index: int
    inputs: tuple[tuple[str, ...], ...]
    column: Ints
    share: Floats
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    blocks: tuple[WeightBlock, ...]
    pieces: tuple[RowContribution, ...]
    starts: Ints
    weight: Floats
    unit_row: Ints
    row_norm: Floats
    bias: Floats
    illuminated: Bools
    mesh_weight: Floats
    factor: LayerFactor
    heater_labels: str
    whole: bool = True
    electronics: RowElectronics | None = None

    @property
    def last(self) -> bool:
        """Whether this is the last layer, with receivers in place of neurons."""
        return not self.minus

    @property
    def unit_weight(self) -> Floats:
        """(units, J) target coefficients of the units: their factors times their rows; 0 for constant units."""
        weight: Floats = self.row_norm[:, np.newaxis] * self.by_unit(self.weight)
        return weight

    @property
    def first_unit(self) -> Ints:
        """(rows,) first unit that reads each row."""
        return np.array([np.argmax(self.unit_row == row) for row in range(len(self.weight))], dtype=np.int64)

    def by_unit(self, values: Complexes | Floats) -> Any:
        """Return values of the rows, along axis 0, for every unit that reads them; 0 for constant units."""
        read = (self.unit_row >= 0).reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(read, values[self.unit_row], 0.0)

    @property
    def split(self) -> bool:
        """Whether any row has more than one piece."""
        return len(self.pieces) > self.starts.size

    @property
    def owner(self) -> Ints:
        """(pieces,) index of the row that each piece belongs to."""
        return np.array([piece.row for piece in self.pieces], dtype=np.int64)

    def by_row(self, values: Complexes | Floats, axis: int = 0) -> Any:
        """Sum values of the pieces over the pieces of each row.

        Args:
            values: Values of any shape with one entry for each piece along ``axis``.
            axis: Axis of the pieces.

        Returns:
            The sums, with one entry for each row along ``axis``.
        """
        return np.add.reduceat(values, self.starts, axis=axis) if self.split else values

    def weights(self, piece: RowContribution) -> Floats:
        """Return the (J,) target coefficients of a piece: its row of the weight, zero outside its block's columns."""
        inside = np.zeros(self.mesh_weight.shape[1], dtype=bool)
        inside[list(piece.block.columns)] = True
        weight: Floats = np.where(inside[self.column], self.weight[piece.row], 0.0)
        return weight


def layer_targets(onn: Network, board: Board, factors: Sequence[LayerFactor] | None = None) -> tuple[LayerTarget, ...]:
    """Compute the target matrices of all layers of a network on its board.

    Args:
        onn: The network.
        board: Board netlist with the labels of sources and detectors.
        factors: Factorisation of each layer; by default that of :func:`optinc_pdk.networks.factorise`.

    Returns:
        The target of each layer.

    Raises:
        ValueError: The network or the factors do not match the board, or a layer has no effect.
    """
    onn = realised_network(onn, board.layers)
    _check_board(onn, board)
    factors = factorise(onn) if factors is None else factors
    _check_factors(onn, factors)
    return tuple(_target(onn, board, index, factor) for index, factor in enumerate(factors))


def _target(onn: Network, board: Board, index: int, factor: LayerFactor) -> LayerTarget:
    rows = len(factor.matrix)
    neurons = [neuron for neuron in board.neurons if neuron.layer == index]
    detectors = _detectors(neurons, factor.row)
    mesh_weight = np.where(factor.illuminated, factor.realised, 0.0)
    inputs, column, share = _sources(onn.task, board, index)
    blocks = layer_blocks(onn, index)
    pieces = tuple(RowContribution(block, row) for row in range(rows) for block in blocks if row in block.rows)
    if neurons:
        _check_detectors(detectors, pieces)
    return LayerTarget(
        index=index,
        inputs=inputs,
        column=column,
        share=share,
        plus=_flat(n.plus for n in detectors) or _flat(board.outputs),
        minus=_flat(n.minus for n in detectors),
        blocks=blocks,
        pieces=pieces,
        starts=np.searchsorted([piece.row for piece in pieces], np.arange(rows)),
        weight=mesh_weight[:, column] * share,
        unit_row=factor.row,
        row_norm=factor.row_norm,
        bias=factor.bias,
        illuminated=factor.illuminated[column],
        mesh_weight=mesh_weight,
        factor=factor,
        # trims of the preprocessing unit belong to the first layer
        heater_labels=rf"l{index}[_bc]" + ("" if index else "|trim_"),
    )


def _flat(names: Iterable[Labels]) -> tuple[str, ...]:
    return tuple(label for each in names for label in label_tuple(each))


def _sources(task: NetworkTask, board: Board, index: int) -> tuple[tuple[tuple[str, ...], ...], Ints, Floats]:
    """Labels of a layer's J sources, (J,) columns that they enter, and (J,) their shares of the columns' inputs."""
    if index:
        to = tuple(label_tuple(neuron.to) for neuron in board.neurons if neuron.layer == index - 1)
        return to, np.arange(len(to)), np.ones(len(to))
    column = np.repeat(np.arange(task.groups), task.group_symbols)
    share = np.tile(task.symbol_shares / task.servers, task.groups)
    inputs = tuple((label,) for server in board.inputs for label in server)
    return inputs, np.tile(column, task.servers), np.tile(share, task.servers)


def _detectors(neurons: Sequence[Neuron], unit_row: Ints) -> list[Neuron]:
    """First neuron of each row of a layer; checks that neurons share detectors as the network's units share rows."""
    members, groups = detector_groups(neurons)
    row_of_group: dict[int, int] = {}
    for neuron, group, row in zip(neurons, groups, unit_row.tolist() if neurons else [], strict=True):
        if row_of_group.setdefault(group, row) != row or (group < 0) != (row < 0):
            raise ValueError(
                f"neuron {neuron.label!r} does not share its detectors on the board as its unit shares weights in the "
                "network; give weights and netlist of one chip"
            )
    if len(set(row_of_group.values())) < len(row_of_group):
        raise ValueError(
            "neurons of proportional weights have different detectors on the board; give weights and netlist of one "
            "chip"
        )
    group_of_row = {row: group for group, row in row_of_group.items() if row >= 0}
    return [members[group_of_row[row]] for row in sorted(group_of_row)]


def _check_detectors(detectors: Sequence[Neuron], pieces: Sequence[RowContribution]) -> None:
    for row, neuron in enumerate(detectors):
        pieces_of_row = sum(piece.row == row for piece in pieces)
        if len(label_tuple(neuron.plus)) != pieces_of_row:
            raise ValueError(
                f"neuron {neuron.label!r} has {len(label_tuple(neuron.plus))} pairs of detectors on the board, the "
                f"network's factorisation gives it {pieces_of_row}; give weights and netlist of one chip"
            )


def _check_factors(onn: Network, factors: Sequence[LayerFactor]) -> None:
    shapes = [(int(onn.detector_rows(i).max()) + 1, layer.inputs) for i, layer in enumerate(onn.layers)]
    blocks = [None if method == "svd" else method[1] for method in onn.factor]
    given = [factor.matrix.shape for factor in factors]
    given_blocks = [getattr(factor.factor, "block", None) for factor in factors]
    if (shapes, blocks) != (given, given_blocks):
        raise ValueError(
            f"the factors have shapes {given} and blocks {given_blocks}, the network {shapes} and {blocks}; give the "
            "factors of this network"
        )


def _check_board(onn: Network, board: Board) -> None:
    task = onn.task
    shape = (len(board.inputs), len(board.inputs[0]))
    if shape != (task.servers, task.symbols):
        raise ValueError(f"the board has (servers, symbols) = {shape}, the task ({task.servers}, {task.symbols})")
    for index, layer in enumerate(onn.layers[:-1]):
        count = sum(neuron.layer == index for neuron in board.neurons)
        if count != layer.outputs:
            raise ValueError(f"the board has {count} neurons in layer {index}, the network {layer.outputs}")
        copies = {block.place[0] for block in layer_blocks(onn, index + 1)}
        for neuron in board.neurons:
            if neuron.layer == index and len(label_tuple(neuron.to)) != len(copies):
                raise ValueError(
                    f"neuron {neuron.label!r} drives {len(label_tuple(neuron.to))} modulators on the board, the "
                    f"network's factorisation has {len(copies)} rows of blocks; give weights and netlist of one chip"
                )
