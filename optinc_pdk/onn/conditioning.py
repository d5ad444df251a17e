"""Layers that no chip of a process can realise, recognised from their factors before anything is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.onn.factorisation import LayerFactor

Floats = NDArray[np.float64]

RANK_LIMIT = 1e-12
"""Smallest over largest singular value below which rows are linearly dependent."""
DETECTED = 2.0
"""Largest detection coefficient of a layer without loss: twice the product of oscillator and signal, each at most 1."""


def least_gains(factor: LayerFactor) -> Floats:
    """Compute the gains that the units of a layer need on a chip without any loss.

    The optics realise the layer's matrix divided by its 2-norm; the electronics multiply by this norm and by the unit's
    factor on its row.

    Args:
        factor: Factorisation of the layer.

    Returns:
        (units,) gains; 0 for constant units.
    """
    norm = float(np.linalg.norm(factor.matrix, 2))
    read = np.asarray(factor.row) >= 0
    return np.where(read, np.abs(factor.row_norm) * norm / DETECTED, 0.0)


def describe_rows(matrix: Floats) -> str:
    """Return the condition number of a matrix and its two most parallel rows, for messages.

    Args:
        matrix: (rows, columns) matrix of a layer.
    """
    norm = np.linalg.norm(matrix, axis=1)
    used = np.flatnonzero(norm > 0.0)
    if used.size < 2:
        return f"{used.size} row with weights"
    unit = matrix[used] / norm[used, np.newaxis]
    values = np.linalg.svd(unit, compute_uv=False)
    rank = min(unit.shape)
    condition = float("inf") if values[rank - 1] < RANK_LIMIT * values[0] else float(values[0] / values[rank - 1])
    cosine = np.abs(unit @ unit.T)
    np.fill_diagonal(cosine, 0.0)
    if cosine.max() < RANK_LIMIT:
        return "its rows are orthogonal"
    one, other = (int(used[i]) for i in np.unravel_index(int(np.argmax(cosine)), cosine.shape))
    return (
        f"its rows of norm 1 have condition number {condition:.3g}; rows {min(one, other)} and {max(one, other)} are "
        f"the most parallel, with a cosine of {cosine.max():.6g}"
    )


def check_gains(factors: Sequence[LayerFactor], process: Process) -> None:
    """Check that the electronics of a process reach the gains of all hidden layers, on a chip without loss.

    Args:
        factors: Factorisation of each layer.
        process: Process of the cards.

    Raises:
        InputError: A unit needs a gain beyond the card's limit, whatever the chip's loss is.
    """
    limit = float(process.activation.gain_max)
    for index, factor in enumerate(factors[:-1]):
        gains = least_gains(factor)
        unit = int(np.argmax(gains))
        if gains[unit] > limit:
            raise InputError(
                f"layers.{index}: unit {unit} needs a gain of at least {gains[unit]:.4g} even without loss, the card "
                f"allows {limit:g} (activation.gain_max); {describe_rows(factor.matrix)}. Use smaller weights, and "
                "merge rows that are nearly parallel"
            )
