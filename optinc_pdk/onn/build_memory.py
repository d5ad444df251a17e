"""Memory that the build of a network's chip needs, estimated from counts before any work starts."""

from __future__ import annotations

from optinc_pdk.onn.network import Onn

BASE_GB = 0.55
"""Interpreter, libraries and a chip of a hundred heaters."""
HEATER_GB = 20e-6
"""Layout, rule check and extraction, per heater."""
SYMBOL_GB = 60e-9
"""Function check, per symbol of a word at a fibre."""
MOST_WORDS = 2**20
"""Words of the function check that are in memory at a time; each is checked with two assignments to the servers."""
JACOBIAN_COPIES = 3
"""Jacobian of a layer, its normal matrix and their intermediate results, at a time."""


def estimated_memory_gb(onn: Onn) -> float:
    """Estimate the peak memory of a build.

    The constants are fits to measured peaks of builds, see ``benchmarks/README.md``; tests compare them with builds.

    Args:
        onn: The network.

    Returns:
        Memory in GB.
    """
    task = onn.task
    points = min(task.lattice_size, MOST_WORDS)
    symbols = 2 * points * task.servers * task.symbols
    return BASE_GB + HEATER_GB * 2 * onn.mzis + SYMBOL_GB * symbols + max(_jacobians_gb(onn), default=0.0)


def _jacobians_gb(onn: Onn) -> list[float]:
    """GB of each layer that is fitted with its Jacobian: those with singular values; blocks are fitted without."""
    sizes = []
    for index, layer in enumerate(onn.layers):
        if onn.factor[index] == "svd":
            rows, columns = layer.weight.shape
            heaters = rows * (rows - 1) + columns * (columns - 1) + min(rows, columns)
            sizes.append(JACOBIAN_COPIES * 8e-9 * rows * columns * heaters)
    return sizes
