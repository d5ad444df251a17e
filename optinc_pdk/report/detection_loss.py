"""Smallest loss between the sources of every hidden layer and its detectors, from the cards alone, before a layout.

Guides between the cells are not included, so a drawn chip loses more.
"""

from __future__ import annotations

import math
from collections import Counter

from optinc_pdk.assemble import WeightBlock, layer_blocks
from optinc_pdk.assemble.preprocessing import preprocessing_loss_db
from optinc_pdk.cards import Process
from optinc_pdk.networks import Network
from optinc_pdk.networks.conditioning import DetectionLoss
from optinc_pdk.report.chip_size import layer_columns, layer_shapes, mzi_loss_db


def detection_losses(onn: Network, process: Process) -> tuple[DetectionLoss, ...]:
    """Compute the smallest loss of every hidden layer, which determines the gains of its neurons.

    The local oscillators of every bank of mixers have a fibre of their own, as on chips of several dies. On one die,
    the carrier is divided further.

    Args:
        onn: Network with all layers of the chip, see :func:`optinc_pdk.networks.linked_network`.
        process: Process of the cards.

    Returns:
        One loss for each layer but the last.
    """
    column_db = mzi_loss_db(process)
    result = []
    for index in range(len(onn.layers) - 1):
        columns = layer_columns(layer_shapes(onn, index), onn.factor[index])
        blocks = layer_blocks(onn, index)
        signal_db = _modulated_db(blocks, process) if index else _received_db(onn, blocks, process)
        mixer_db = _loss_db(process, "mmi2x2")
        if process.activation.realisation == "offchip":
            mixer_db += _loss_db(process, process.fibres.coupler)
        rows = Counter[str]()
        for block in blocks:
            rows[block.bank] += len(block.rows)
        oscillator_db = _loss_db(process, process.fibres.coupler) + _tree_db(min(rows.values()), process)
        result.append(DetectionLoss(columns, column_db, signal_db + mixer_db, oscillator_db + mixer_db))
    return tuple(result)


def _loss_db(process: Process, device: str) -> float:
    return process.device(device).parameter("loss_db")


def _tree_db(leaves: int, process: Process) -> float:
    """Loss in dB from the root of a splitter tree to the leaf that receives most light."""
    return (leaves.bit_length() - 1) * (10.0 * math.log10(2.0) + _loss_db(process, "mmi1x2"))


def _received_db(onn: Network, blocks: tuple[WeightBlock, ...], process: Process) -> float:
    """Loss in dB from the servers' fibres to the first layer's meshes; fields of all servers add up."""
    copies = 1 + max(block.place[0] for block in blocks)
    share = float(onn.task.symbol_shares[0]) / onn.task.servers
    sum_db = preprocessing_loss_db(onn.task, process)[0] + 20.0 * math.log10(share)
    return _loss_db(process, process.fibres.coupler) + sum_db + _tree_db(copies, process)


def _modulated_db(blocks: tuple[WeightBlock, ...], process: Process) -> float:
    """Loss in dB from the fibres of a hidden layer's light to its meshes.

    Modulators on the chip share one fibre for each bank; the tree has a power of two of leaves.
    """
    if process.activation.realisation == "offchip":
        return _loss_db(process, process.fibres.coupler)
    columns = Counter[str]()
    for block in blocks:
        columns[block.bank] += len(block.columns)
    leaves = 1 << (min(columns.values()) - 1).bit_length()
    return _loss_db(process, process.fibres.coupler) + _tree_db(leaves, process) + _loss_db(process, "modulator")
