"""Picture of a matrix: magnitudes of target, chip and difference, entry by entry."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from optinc_pdk.io.writing import png_bytes
from optinc_pdk.matrices import MatrixComparison

WIDTH_IN, HEIGHT_IN = 4.0, 6.0
"""Largest size of a heat map in inches."""


def matrix_png(result: MatrixComparison) -> bytes:
    """Draw the magnitudes of the entries of the target, of the chip, and of their difference as heat maps.

    Target and chip have one scale of colours. The difference is in percent of the largest entry of the target; the
    largest error is marked.

    Args:
        result: The chip's matrix and its target.

    Returns:
        Content of the PNG file.
    """
    target, chip = result.target.matrix, result.matrix
    largest = float(np.abs(target).max())
    top = max(largest, float(np.abs(chip).max()))
    rows, columns = target.shape
    cell = min(WIDTH_IN / columns, HEIGHT_IN / rows)
    size = (3.0 * (cell * columns + 1.6), max(cell * rows, 1.0) + 1.0)
    figure = Figure(figsize=size, dpi=110, layout="constrained", facecolor="white")
    parts = (
        ("|target|", np.abs(target), top, "viridis"),
        ("|chip|, without its common scale", np.abs(chip), top, "viridis"),
        ("|chip - target| / % of the largest entry", 100.0 * np.abs(chip - target) / largest, None, "magma"),
    )
    for axes, (title, values, most, colours) in zip(figure.subplots(1, 3), parts, strict=True):
        image = axes.imshow(values, cmap=colours, vmin=0.0, vmax=most, interpolation="nearest")
        axes.set_title(title, fontsize=10)
        axes.set(xlabel="input", ylabel="output")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.yaxis.get_major_locator().set_params(integer=True)
        figure.colorbar(image, ax=axes, shrink=0.85)
    row, column = result.worst_entry
    axes.plot(column, row, "o", ms=9, mfc="none", mec="#30c0ff", mew=1.6)
    return png_bytes(figure)
