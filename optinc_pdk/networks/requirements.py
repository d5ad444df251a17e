"""What the chip of a network needs, known before anything is drawn: gains of the electronics and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.factor import BlockFactor
from optinc_pdk.networks.factorisation import LayerFactor
from optinc_pdk.networks.network import AveragingNetwork, Network

RANK_LIMIT = 1e-12
"""Smallest over largest singular value below which rows are linearly dependent."""
DETECTED = 2.0
"""Largest detection coefficient of a layer without loss: twice the product of oscillator and signal, each at most 1."""


@dataclass(frozen=True)
class DetectionLoss:
    """Smallest loss between the sources of a layer and what its detectors read, known before a layout.

    Detectors read the product of a signal and a local oscillator, so the losses of both count: ``columns`` MZIs and
    attenuators in series, and what is outside the meshes, fibres, splitter trees, modulators and mixers.
    """

    columns: int
    column_db: float
    source_db: float
    oscillator_db: float

    @property
    def total_db(self) -> float:
        """Total loss in dB, by which the detection coefficients are below those of a chip without loss."""
        return self.columns * self.column_db + self.source_db + self.oscillator_db


def least_gains(factor: LayerFactor) -> Floats:
    """Compute the (units,) smallest gains that the units of a layer can have on a chip without any loss; 0 for constant
    units.

    A passive mesh transmits no row of a norm above 1. The electronics multiply by the norm of the row and by the unit's
    factor on its row. Where several blocks contribute to a row, each has its own mesh and detectors.
    """
    matrix, parts = factor.realised, factor.factor
    size = parts.block if isinstance(parts, BlockFactor) else matrix.shape[1]
    pieces = [np.linalg.norm(matrix[:, left : left + size], axis=1) for left in range(0, matrix.shape[1], size)]
    row = np.asarray(factor.row)
    return np.where(row >= 0, np.abs(factor.row_norm) * np.max(pieces, axis=0)[row] / DETECTED, 0.0)


def describe_rows(matrix: Floats) -> str:
    """Return the condition number of a layer's (rows, columns) matrix and its two most parallel rows, for messages."""
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


def check_gains(factors: Sequence[LayerFactor], process: Process, losses: Sequence[DetectionLoss]) -> None:
    """Check that the electronics of a process reach the gains of all hidden layers, at the smallest loss of each.

    Raises:
        InputError: A unit needs a gain beyond the card's limit, at the smallest loss or even without loss.
    """
    limit = float(process.activation.gain_max)
    for index, (factor, loss) in enumerate(zip(factors[:-1], losses, strict=True)):
        gains = least_gains(factor)
        unit = int(np.argmax(gains))
        lossless = float(gains[unit])
        if lossless > limit:
            raise InputError(
                f"layers.{index}: unit {unit} needs a gain of at least {lossless:.4g} even without loss, the card "
                f"allows {limit:g} (activation.gain_max); {describe_rows(factor.matrix)}. Use smaller weights, and "
                "merge rows that are nearly parallel"
            )
        needed = lossless * 10.0 ** (loss.total_db / 20.0)
        if needed > limit:
            raise InputError(
                f"layers.{index}: unit {unit} needs a gain of at least {needed:.3g}, the card allows {limit:g} "
                f"(activation.gain_max). Without loss it needs {lossless:.3g}; the chip loses at least "
                f"{loss.total_db:.1f} dB: {loss.columns} MZIs and attenuators in series of {loss.column_db:.3g} dB "
                f"each, {loss.source_db:.1f} dB from source to detector outside them, and {loss.oscillator_db:.1f} dB "
                "of the local oscillator. Use smaller blocks or layers, or a process of lower loss"
            )


BASE_GB = 0.55
"""Interpreter, libraries and a chip of a hundred heaters."""
HEATER_GB = 30e-6
"""Layout, rule check, extraction and programming, per heater."""
SYMBOL_GB = 60e-9
"""Function check with a table of all inputs, per symbol of a word at a fibre."""
TABLE_SYMBOLS = 2**25
"""Largest number of symbols of such a table; larger checks run in batches."""
BATCHES_GB = 0.3
"""Function check in batches."""
COMBINATIONS = 2**20
"""Largest number of combinations of words that are all checked."""
JACOBIAN_COPIES = 3
"""Jacobian of a layer, its normal matrix and their intermediate results, at a time."""


def estimated_memory_gb(network: AveragingNetwork) -> float:
    """Estimate the peak memory of a build in GB.

    The constants were fitted to the measured peaks in ``results/scenarios.json``; a test compares them.
    """
    task = network.task
    combinations = 2 ** (task.bits * task.servers)
    words = combinations if combinations <= COMBINATIONS else 2 * task.lattice_size
    symbols = words * task.servers * task.symbols
    check = SYMBOL_GB * symbols if symbols <= TABLE_SYMBOLS else BATCHES_GB
    return circuit_memory_gb(network) + check


def circuit_memory_gb(network: Network) -> float:
    """Estimate the peak memory of a build in GB, without the function check."""
    return BASE_GB + HEATER_GB * 2 * network.mzis + max(_jacobians_gb(network))


def _jacobians_gb(network: Network) -> list[float]:
    """GB of each layer's Jacobian; 0 for layers of blocks, which are fitted without."""
    sizes = []
    for index, method in enumerate(network.factor):
        shapes = [(len(part.rows), len(part.columns)) for part in network.layer_parts(index)]
        heaters = sum(rows * (rows - 1) + columns * (columns - 1) + min(rows, columns) for rows, columns in shapes)
        if method == "rows":
            heaters = sum(2 * columns - 1 for _, columns in shapes)
        entries = sum(rows for rows, _ in shapes) * sum(columns for _, columns in shapes)
        sizes.append(JACOBIAN_COPIES * 8e-9 * entries * heaters if isinstance(method, str) else 0.0)
    return sizes
