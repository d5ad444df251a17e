"""Target matrices of a network's layers, and of their parts, from source amplitudes to modulator amplitudes or levels.

A hidden layer that is split into blocks sums their signals electrically, so the light in one block depends on the
heaters of that block only. The last layer sums the light of blocks in one row, which therefore belong together.
Fits of these parts are small, and together much cheaper than a fit of the layer: derivatives take time and memory in
proportion to heaters × detectors × sources. What the blocks of a hidden layer share is the electronics of each row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Floats, Ints
from optinc_pdk.assemble import WeightBlock, layer_blocks
from optinc_pdk.circuit import Board, Labels, Neuron, detector_groups, label_tuple
from optinc_pdk.networks import LayerFactor, Network, NetworkTask, factorise, realised_network


@dataclass(frozen=True)
class RowContribution:
    """Contribution of one block to one row of a layer's optical matrix; called a *piece* elsewhere."""

    block: WeightBlock
    row: int

    def label(self, what: str) -> str:
        """Return the pad label of its local oscillator (``lo``), attenuator (``att``) or trim of the sum (``sum``)."""
        return f"{self.block.bank}_{what}_r{self.row - self.block.first_row}"


@dataclass(frozen=True, eq=False)
class RowElectronics:
    """(rows,) detection coefficients over the weights, and (rows,) weights ρ of the negative detectors."""

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
        """Sum values of the pieces, along an axis, over the pieces of each row."""
        return np.add.reduceat(values, self.starts, axis=axis) if self.split else values

    def weights(self, piece: RowContribution) -> Floats:
        """Return the (J,) target coefficients of a piece: its row of the weight, zero outside its block's columns."""
        inside = np.zeros(self.mesh_weight.shape[1], dtype=bool)
        inside[list(piece.block.columns)] = True
        weight: Floats = np.where(inside[self.column], self.weight[piece.row], 0.0)
        return weight


def layer_targets(
    onn: Network, board: Board, factors: Sequence[LayerFactor] | None = None, swing: float | None = None
) -> tuple[LayerTarget, ...]:
    """Compute the target matrices of all layers of a network on its board.

    Args:
        onn: The network.
        board: Board netlist with the labels of sources and detectors.
        factors: Factorisation of each layer; by default that of :func:`optinc_pdk.networks.factorise`.
        swing: Amplitude that analogue signals reach at most, for that default.

    Raises:
        ValueError: The network or the factors do not match the board, or a layer has no effect.
    """
    onn = realised_network(onn, board.layers)
    _check_board(onn, board)
    factors = factorise(onn, swing=swing) if factors is None else factors
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
    blocks = [None if isinstance(method, str) else method[1] for method in onn.factor]
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
        reading = Counter(column for block in layer_blocks(onn, index + 1) for column in block.columns)
        for column, neuron in enumerate(neuron for neuron in board.neurons if neuron.layer == index):
            if len(label_tuple(neuron.to)) != reading[column]:
                raise ValueError(
                    f"neuron {neuron.label!r} drives {len(label_tuple(neuron.to))} modulators on the board, the "
                    f"network's factorisation has {reading[column]} blocks that read it; give weights and netlist of "
                    "one chip"
                )


def part_targets(targets: Sequence[LayerTarget]) -> tuple[LayerTarget, ...]:
    """Return the targets of the parts of all layers: of each block of hidden layers, of each row of blocks of the last.

    Indices count the returned targets. The electronics of the rows are free, also of rows that several parts share;
    ``with_shared_electronics`` fixes these. Trims of inputs, whose light enters several blocks, belong
    to no part.
    """
    return _of_parts(targets, [layer_parts(target) for target in targets])


def block_targets(targets: Sequence[LayerTarget]) -> tuple[LayerTarget, ...]:
    """Return the targets of all blocks of all layers, also of those whose light is summed.

    Indices and electronics are those of :func:`part_targets`.
    """
    single = [
        [target.blocks] if _shares_places(target) else [(block,) for block in target.blocks] for target in targets
    ]
    return _of_parts(targets, single)


def layer_parts(target: LayerTarget) -> list[tuple[WeightBlock, ...]]:
    """Return the blocks of each part of a layer; independent parts that share their units stay together."""
    if _shares_places(target):
        return [target.blocks]
    if not target.last:
        return [(block,) for block in target.blocks]
    ordered = sorted(target.blocks, key=lambda block: block.place)
    return [tuple(row) for _, row in groupby(ordered, key=lambda block: block.place[0])]


def _shares_places(target: LayerTarget) -> bool:
    return len({block.place for block in target.blocks}) < len(target.blocks)


def _of_parts(
    targets: Sequence[LayerTarget], parts: Sequence[Sequence[Sequence[WeightBlock]]]
) -> tuple[LayerTarget, ...]:
    """Return the targets of given blocks of each layer."""
    found: list[LayerTarget] = []
    for target, of_layer in zip(targets, parts, strict=True):
        each = [target] if len(of_layer) == 1 else [_of_blocks(target, blocks) for blocks in of_layer]
        found += [replace(part, index=len(found) + i) for i, part in enumerate(each)]
    return tuple(found)


def _of_blocks(target: LayerTarget, blocks: Sequence[WeightBlock]) -> LayerTarget:
    rows = np.array(blocks[0].rows)
    columns = np.unique(np.concatenate([np.array(block.columns) for block in blocks]))
    sources = np.flatnonzero(np.isin(target.column, columns))
    # rows are numbered within the part
    local = {block.name: replace(block, rows=range(rows.size)) for block in blocks}
    pieces = [i for i, piece in enumerate(target.pieces) if piece.block.name in local]
    mesh_weight = np.zeros((rows.size, target.mesh_weight.shape[1]))
    mesh_weight[:, columns] = target.mesh_weight[np.ix_(rows, columns)]
    found = tuple(
        RowContribution(local[target.pieces[i].block.name], int(target.pieces[i].row - rows[0])) for i in pieces
    )
    # every server has receivers of its own
    plus = [place for place in range(len(target.plus)) if place % len(target.weight) in rows] if target.last else pieces
    return replace(
        target,
        inputs=tuple(target.inputs[i] for i in sources.tolist()),
        column=target.column[sources],
        share=target.share[sources],
        plus=tuple(target.plus[i] for i in plus),
        minus=() if target.last else tuple(target.minus[i] for i in pieces),
        blocks=tuple(local.values()),
        pieces=found,
        starts=np.searchsorted([piece.row for piece in found], np.arange(rows.size)),
        weight=target.weight[np.ix_(rows, sources)],
        unit_row=np.arange(rows.size),
        row_norm=np.ones(rows.size),
        bias=np.zeros(rows.size),
        illuminated=target.illuminated[sources],
        mesh_weight=mesh_weight,
        whole=False,
        heater_labels="|".join(sorted({f"{name}_" for block in blocks for name in (block.name, block.bank)})),
    )
