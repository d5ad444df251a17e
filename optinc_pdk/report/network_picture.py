"""Picture of the check of a general network: the confusion matrix, and the chip's outputs against its own."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optinc_pdk.io.writing import png_bytes
from optinc_pdk.networks import NetworkComparison

MOST_NUMBERED = 20
"""Largest number of classes whose counts are written into the confusion matrix."""
MOST_POINTS = 20_000
"""Largest number of outputs that are drawn; of more, outputs at equal distances."""


def network_png(found: NetworkComparison) -> bytes:
    """Draw outputs of the chip against those of the network, and with labels the confusion matrix.

    Args:
        found: Outputs of chip and network.

    Returns:
        Content of the PNG file.
    """
    confusion = found.confusion
    count = 1 if confusion is None else 2
    figure = Figure(figsize=(5.2 * count, 4.6), dpi=110, layout="constrained", facecolor="white")
    axes = figure.subplots(1, count, squeeze=False)[0]
    if confusion is not None:
        _draw_confusion(axes[0], confusion)
    _draw_outputs(axes[-1], found)
    return png_bytes(figure)


def _draw_confusion(axes: Axes, confusion: np.ndarray) -> None:
    """Numbers of samples by label and by the class that the chip chooses."""
    axes.imshow(confusion, cmap="Blues", vmin=0)
    axes.set(xlabel="class that the chip chooses", ylabel="label")
    axes.set_title("samples by label and class", fontsize=10)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    if len(confusion) > MOST_NUMBERED:
        return
    for (row, column), number in np.ndenumerate(confusion):
        if number:
            colour = "white" if number > confusion.max() / 2 else "black"
            axes.text(column, row, f"{number}", ha="center", va="center", fontsize=8, color=colour)


def _draw_outputs(axes: Axes, found: NetworkComparison) -> None:
    """Outputs of the chip against those of the network, with the line on which they are equal."""
    step = -(-found.expected.size // MOST_POINTS)
    expected, outputs = found.expected.ravel()[::step], found.outputs.ravel()[::step]
    ends = [min(expected.min(), outputs.min()), max(expected.max(), outputs.max())]
    axes.plot(ends, ends, color="#999999", lw=1.0)
    axes.plot(expected, outputs, ".", ms=3, color="#1f5fa8", alpha=0.6)
    axes.set(xlabel="output of the network", ylabel="output of the chip")
    axes.set_title(f"outputs: deviation {found.worst:.2%} at most, {found.rms:.2%} rms, of the largest", fontsize=10)
