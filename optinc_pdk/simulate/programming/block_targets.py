"""Targets of parts of layers, for fits that treat every part by itself.

A hidden layer that is split into blocks sums their signals electrically, so the light in one block depends on the
heaters of that block only. The last layer sums the light of blocks in one row, which therefore belong together.
Fits of these parts are small, and together much cheaper than a fit of the layer: derivatives take time and memory in
proportion to heaters × detectors × sources. What the blocks of a hidden layer share is the electronics of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice

import numpy as np

from optinc_pdk.assemble import WeightBlock
from optinc_pdk.simulate.programming.detection_jacobian import LinearResponse, row_scales
from optinc_pdk.simulate.programming.targets import LayerTarget, RowContribution, RowElectronics


def part_targets(targets: Sequence[LayerTarget]) -> tuple[LayerTarget, ...]:
    """Return the targets of the parts of all layers: of each block of hidden layers, of each row of blocks of the last.

    Indices count the returned targets. The electronics of the rows are free, also of rows that several parts share, see
    :func:`with_electronics`. Trims of inputs, whose light enters several blocks, belong to no part.
    """
    return _of_parts(targets, [_parts(target) for target in targets])


def block_targets(targets: Sequence[LayerTarget]) -> tuple[LayerTarget, ...]:
    """Return the targets of all blocks of all layers, also of those whose light is summed.

    Indices and electronics are those of :func:`part_targets`.
    """
    single = [
        [target.blocks] if _shares_places(target) else [(block,) for block in target.blocks] for target in targets
    ]
    return _of_parts(targets, single)


def _parts(target: LayerTarget) -> list[tuple[WeightBlock, ...]]:
    """Return the blocks of each part of a layer. Independent parts that share their units stay together."""
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


def with_electronics(
    targets: Sequence[LayerTarget],
    parts: Sequence[LayerTarget],
    detect: Callable[[LayerTarget], LinearResponse],
    share: float = 1.0,
) -> tuple[LayerTarget, ...]:
    """Fix the electronics of rows that several parts share: scale and balance that a setting of the chip has.

    Args:
        targets: Targets of whole layers.
        parts: Targets of :func:`part_targets` of the same layers.
        detect: Returns a hidden layer's detection coefficients, with free electronics.
        share: Scale of the parts' rows, relative to that of the setting.

    Returns:
        The targets of the parts in the same order.
    """
    remaining: Iterator[LayerTarget] = iter(parts)
    found: list[LayerTarget] = []
    for target in targets:
        of_layer = list(islice(remaining, len(_parts(target))))
        if target.split and not target.last:
            seen = detect(target)
            scale = share * np.real(row_scales(seen.coefficient, target))
            rows = [np.array(blocks[0].rows) for blocks in _parts(target)]
            of_layer = [
                replace(part, electronics=RowElectronics(scale[places], seen.balance[places]))
                for part, places in zip(of_layer, rows, strict=True)
            ]
        found += of_layer
    return tuple(found)
