"""Plots of a build and of a search as PNG: outputs of chips, and a Pareto front."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import decide_steps
from optinc_pdk.io.writing import png_bytes
from optinc_pdk.networks import NetworkComparison

MAX_POINTS = 2**19
"""Largest number of points that a plot of outputs draws."""
_RIGHT, _WRONG, _INK = "#2f6fb0", "#d3302f", "#444c54"


def pareto_front_png(rows: list[tuple[str, int, float, bool]], epsilon: float) -> bytes:
    """Plot the tolerated ε against the number of MZIs as PNG: one point per network, and the Pareto front as a line.

    Rows have name, number of MZIs, tolerated ε, and whether the network is on the front; networks with ε = 0 are not
    drawn. The target ``epsilon`` is a horizontal line.
    """
    figure = Figure(figsize=(8.0, 5.0), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    shown = [row for row in rows if row[2] > 0.0]
    best = np.array(sorted((row[1], row[2]) for row in shown if row[3])).reshape(-1, 2)
    axes.plot(best[:, 0], best[:, 1], color=_RIGHT, linewidth=1.0, drawstyle="steps-post", zorder=1)
    kinds = list(dict.fromkeys(row[0].split(" ")[0] for row in shown))
    for place, kind in enumerate(kinds):
        points = np.array([(row[1], row[2]) for row in shown if row[0].split(" ")[0] == kind])
        axes.scatter(points[:, 0], points[:, 1], s=28, marker="osD^vP*X"[place % 8], label=kind, zorder=2)
    axes.axhline(epsilon, color=_INK, linewidth=0.8, linestyle=":")
    axes.set(
        xscale="log", yscale="log", xlabel="MZIs (weights only)", ylabel="ε at which 99.9 % of the words are exact"
    )
    axes.grid(which="both", linewidth=0.3)
    axes.legend(frameon=False)
    return png_bytes(figure)


def _draw_output(axes: Axes, output: Floats, level: Floats, index: int, resolution: int) -> None:
    error = np.abs(output - level) * resolution
    right = decide_steps(output, resolution) == np.rint(level * resolution)
    # the points of a level are spread sideways by their rank in the table, so that they do not hide each other
    across = level + 0.7 / resolution * (np.arange(level.size) / max(level.size - 1, 1) - 0.5)
    for mask, color in ((right, _RIGHT), (~right, _WRONG)):
        axes.scatter(across[mask], output[mask], s=3, color=color, alpha=0.5, linewidths=0, rasterized=True)
    for threshold in (
        np.arange(np.floor(level.min() * resolution), np.ceil(level.max() * resolution)) + 0.5
    ) / resolution:
        axes.axhline(threshold, color=_INK, linewidth=0.8, linestyle=(0, (5, 4)))
    for ideal in np.unique(np.rint(level * resolution)) / resolution:
        axes.plot([ideal - 0.4 / resolution, ideal + 0.4 / resolution], [ideal, ideal], color=_INK, linewidth=0.6)
    worst = int(np.argmax(error))
    margin = 0.5 - error[worst]
    color = _INK if right.all() else _WRONG
    axes.plot(across[worst], output[worst], "o", ms=9, mfc="none", mec=color, mew=1.2)
    unit = "levels" if resolution == 1 else f"steps of 1/{resolution}"
    axes.set_title(f"output {index}: margin {margin:+.3f} {unit}", fontsize=10, color=color)
    axes.set_xlabel("ideal level")
    axes.set_xticks(np.unique(np.rint(level)))
    axes.spines[["top", "right"]].set_visible(False)


def _drawn_points(error: Floats) -> Ints:
    """Numbers of the points that are drawn, ascending."""
    if error.size <= MAX_POINTS:
        return np.arange(error.size)
    regular = np.arange(0, error.size, -(-2 * error.size // MAX_POINTS))
    return np.union1d(regular, np.argpartition(-error, MAX_POINTS // 2)[: MAX_POINTS // 2])


def outputs_png(outputs: Floats, levels: Floats, resolution: Ints | None = None) -> bytes:
    """Plot every output against its ideal level, with the decision thresholds and the worst point, as PNG.

    The margin is 0.5 − |output − level| · resolution, in decision steps. A symbol that is decided wrongly is red. Of
    more than `MAX_POINTS` points, those with the smallest margins and points at equal distances are drawn.

    Args:
        outputs: (points, M) values at the receivers, in levels, most significant symbol first.
        levels: (points, M) ideal levels, multiples of 1/resolution.
        resolution: (M,) decision steps per level of each output; None for 1.

    Raises:
        ValueError: The shapes differ, are not (points, M), or are empty, or a value is not finite.
    """
    outputs, levels = np.asarray(outputs, np.float64), np.asarray(levels, np.float64)
    if outputs.shape != levels.shape or outputs.ndim != 2 or outputs.size == 0:
        raise ValueError(f"outputs, levels: shapes {outputs.shape}, {levels.shape}; both must be (points, M)")
    if not (np.isfinite(outputs).all() and np.isfinite(levels).all()):
        raise ValueError("outputs, levels: a value is not finite; only finite values can be drawn")
    drawn = _drawn_points(np.max(np.abs(outputs - levels) * (1 if resolution is None else resolution), axis=1))
    outputs, levels = outputs[drawn], levels[drawn]
    columns = min(outputs.shape[1], 4)
    rows = -(-outputs.shape[1] // columns)
    figure = Figure(figsize=(2.4 + 2.4 * max(columns, 2), 3.2 * rows), layout="constrained", facecolor="white")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
    for index, axes in enumerate(grid):
        if index < outputs.shape[1]:
            steps = 1 if resolution is None else int(resolution[index])
            _draw_output(axes, outputs[:, index], levels[:, index], index, steps)
        else:
            axes.set_axis_off()
    for axes in grid[::columns]:
        axes.set_ylabel("output / levels")
    return png_bytes(figure, 150)


MOST_NUMBERED = 20
"""Largest number of classes whose counts are written into the confusion matrix."""
MOST_POINTS = 20_000
"""Largest number of outputs that are drawn; of more, outputs at equal distances."""


def network_png(found: NetworkComparison) -> bytes:
    """Draw outputs of the chip against those of the network, and with labels the confusion matrix, as PNG."""
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
