"""Memory that the build of a network's chip needs, estimated from counts before any work starts."""

from __future__ import annotations

from optinc_pdk.networks.network import AveragingNetwork, Network

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


def estimated_memory_gb(onn: AveragingNetwork) -> float:
    """Estimate the peak memory of a build.

    The constants were fitted to the measured peaks in ``results/scenarios.json``; a test compares them.

    Args:
        onn: The network.

    Returns:
        Memory in GB.
    """
    task = onn.task
    combinations = 2 ** (task.bits * task.servers)
    words = combinations if combinations <= COMBINATIONS else 2 * task.lattice_size
    symbols = words * task.servers * task.symbols
    check = SYMBOL_GB * symbols if symbols <= TABLE_SYMBOLS else BATCHES_GB
    return circuit_memory_gb(onn) + check


def circuit_memory_gb(onn: Network) -> float:
    """Estimate the peak memory of a build in GB, without the function check."""
    return BASE_GB + HEATER_GB * 2 * onn.mzis + max(_jacobians_gb(onn))


def _jacobians_gb(onn: Network) -> list[float]:
    """GB of each layer's Jacobian; 0 for layers of blocks, which are fitted without."""
    sizes = []
    for index, method in enumerate(onn.factor):
        shapes = [(len(part.rows), len(part.columns)) for part in onn.layer_parts(index)]
        heaters = sum(rows * (rows - 1) + columns * (columns - 1) + min(rows, columns) for rows, columns in shapes)
        entries = sum(rows for rows, _ in shapes) * sum(columns for _, columns in shapes)
        sizes.append(JACOBIAN_COPIES * 8e-9 * entries * heaters if method == "svd" else 0.0)
    return sizes
