"""Counts, losses and errors of the factors of networks and matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from optinc_pdk.assemble import chain_slots, check_weights, mesh_depth, mesh_slots, rectangular_slots
from optinc_pdk.factor import BlockFactor, RowsFactor, SvdFactor, dense_mzis, factor_by_parts
from optinc_pdk.matrices import MatrixFactor, MatrixTarget
from optinc_pdk.networks import LayerFactor, Network, factorise


def factor_rows(
    onn: Network, splitter_db: float = 0.0, on_layer: Callable[[str, int, int], None] | None = None
) -> list[dict[str, Any]]:
    """Factor the layers of a network; returns counts, losses and errors of the factors as one dict per layer.

    ``shape`` and ``method``. Numbers of MZIs: ``mzis`` by the paper's convention (arXiv 2603.28290); ``mzis_on_chip``
    including dummies and attenuators; ``mzis_needed``, the smallest sufficient number; ``mzis_saved``, how many fewer
    these are than the paper's; ``mzis_saved_by_structure``, how many fewer than for a dense matrix of this shape.
    ``phase_shifters``. ``tree_splitters``, the splitters and combiners that join blocks, and ``tree_loss_db``, their
    loss in dB. Errors relative to the optical matrices: ``relative_error`` of the layer, ``block_errors`` of the blocks
    and ``worst_block_error`` are Frobenius norms over the norm of the matrix; ``error`` is the largest error of an
    entry over the matrix's 2-norm.

    Args:
        onn: Network.
        splitter_db: Excess loss of a 1x2 splitter in dB, from its card.
        on_layer: Called before each layer is counted with its name, how many are done, and how many there are.

    Raises:
        InputError: A matrix is zero, or an entry is outside the range that light can represent.
    """
    check_weights(onn)
    layers, rows = factorise(onn), []
    for index, layer in enumerate(layers):
        if on_layer is not None:
            on_layer(f"layer {index}", index, len(layers))
        rows.append(_factor_row(index, layer, splitter_db))
    return rows


def _factor_row(index: int, layer: LayerFactor, splitter_db: float) -> dict[str, Any]:
    out, into = layer.matrix.shape
    factor = layer.factor
    meshes: tuple[int, ...] = ()
    joined, loss, padding = 0, 0.0, 0
    slots = []
    if isinstance(factor, RowsFactor):
        method, attenuators = "rows", out
        slots = [slot for columns in factor.columns for slot in chain_slots(len(columns))]
        # the gain of the electronics takes the place of the attenuators
        needed, saved = factor.mzis - attenuators, dense_mzis(out, into) - factor.mzis + attenuators
        blocks = np.array([layer.relative_error])
    elif not isinstance(factor, BlockFactor):
        parts = (factor,) if isinstance(factor, SvdFactor) else factor.parts
        sizes = [(part.v.modes, part.u.modes) for part in parts]
        method, attenuators = "svd", sum(map(min, sizes))
        meshes = tuple(modes for size in sizes for modes in size)
        # dummies make all parts as long as the longest one
        padding = sum(
            modes * (max(map(mesh_depth, side)) - mesh_depth(modes))
            for side in zip(*sizes, strict=True)
            for modes in side
        )
        thrifty = factor_by_parts(layer.matrix)
        needed, saved = thrifty.mzis, thrifty.mzis_saved_by_structure
        blocks = np.array([layer.relative_error])
    else:
        size = factor.block
        method, meshes = f"approx {size}", (size,) * len(factor.unitary)
        # the chip has one mesh for each block
        attenuators = out * -(-into // size)
        blocks = factor.block_error
        needed, saved = int(factor.needed_mzis.sum()), factor.mzis_saved_by_structure
        trees = factor.trees(splitter_db)
        joined, loss = trees.splitters + trees.combiners, trees.loss_db
    slots += [slot for modes in meshes for slot in rectangular_slots(modes)]
    active = sum(not slot.dummy for slot in slots)
    return {
        "layer": index,
        "shape": [out, into],
        "method": method,
        "mzis": factor.mzis,
        "mzis_on_chip": len(slots) + attenuators + padding,
        "mzis_needed": needed,
        "mzis_saved": factor.mzis - needed,
        "mzis_saved_by_structure": saved,
        "phase_shifters": 2 * active + attenuators,
        "tree_splitters": joined,
        "tree_loss_db": loss,
        "error": layer.max_error,
        "relative_error": layer.relative_error,
        "block_errors": blocks.tolist(),
        "worst_block_error": float(blocks.max()),
    }


def matrix_factor_row(target: MatrixTarget, factor: MatrixFactor) -> dict[str, Any]:
    """Return counts, scale, attenuations and error of the factors of a matrix.

    ``shape`` (outputs, inputs), ``form``, ``mzis`` of meshes and attenuators, ``mzis_on_chip`` with dummies,
    ``phase_shifters`` with those of the outputs, ``scale``, the largest singular value, by which an ideal passive chip
    divides the matrix, ``attenuations`` of the field, and ``error``, the largest error of an entry over the matrix's
    2-norm.
    """
    slots = sum(len(mesh_slots(mesh.modes, mesh.row.tolist(), mesh.column.tolist())) for mesh in factor.meshes)
    outputs = target.outputs if target.read == "field" else 0
    active = sum(int(mesh.row.size) for mesh in factor.meshes)
    return {
        "shape": [target.outputs, target.inputs],
        "form": factor.form,
        "mzis": factor.mzis,
        "mzis_on_chip": slots + factor.attenuators,
        "phase_shifters": 2 * active + factor.attenuators + outputs,
        "scale": factor.scale,
        "attenuations": [] if factor.attenuation is None else factor.attenuation.tolist(),
        "error": float(np.abs(factor.matrix() - target.matrix).max()) / target.norm,
    }
