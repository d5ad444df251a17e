"""River routing: tracks of wires that keep their order between two lines, and optimal positions of their ends."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats, Ints


def river_levels(source: Floats, target: Floats, space: float) -> Ints:
    """Return the number of the track on which each wire of a planar bundle runs sideways (its level).

    Wire i runs straight from ``source[i]`` to its track, along the track, and straight to ``target[i]``. Level 0 lies
    next to the sources. A wire that moves towards its neighbour's source has to turn on a later track than the
    neighbour.

    Args:
        source: (n,) ascending positions.
        target: (n,) ascending positions.
        space: Smallest distance between the centres of two wires.

    Returns:
        (n,) levels, 0 or larger.
    """
    n = len(source)
    levels = np.zeros(n, dtype=np.int64)
    up, down = target > source, target < source
    for i in range(n - 2, -1, -1):
        if up[i] and up[i + 1] and target[i] + space > source[i + 1]:
            levels[i] = levels[i + 1] + 1
    for i in range(1, n):
        if down[i] and down[i - 1] and target[i] - space < source[i - 1]:
            levels[i] = levels[i - 1] + 1
    return levels


def spaced_positions(targets: Floats, space: float, lowest: float, highest: float) -> Floats:
    """Return positions that are at least ``space`` apart and as near to given targets as possible.

    The result minimises the sum of squared distances (isotonic regression by the pool-adjacent-violators algorithm).

    Args:
        targets: (n,) ascending positions.
        space: Smallest distance of neighbouring positions, in the units of the targets.
        lowest: Lower bound of the positions.
        highest: Upper bound of the positions.

    Returns:
        (n,) ascending positions.

    Raises:
        ValueError: The positions do not fit between the bounds.
    """
    n = len(targets)
    if n and (n - 1) * space > highest - lowest + 1e-9:
        raise ValueError(f"{n} pads at {space} µm need {(n - 1) * space:.0f} µm, there are {highest - lowest:.0f} µm")
    shifted = np.asarray(targets, dtype=float) - space * np.arange(n)
    means: list[float] = []
    counts: list[int] = []
    for value in shifted.tolist():
        means.append(value)
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            total = counts[-2] + counts[-1]
            means[-2:] = [(means[-2] * counts[-2] + means[-1] * counts[-1]) / total]
            counts[-2:] = [total]
    fitted = np.repeat(means, counts) if n else np.zeros(0)
    fitted = np.clip(fitted, lowest, highest - space * max(n - 1, 0))
    return np.asarray(fitted + space * np.arange(n), dtype=float)
