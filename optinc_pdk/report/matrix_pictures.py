"""Matrices of a chip: diagram of their meshes, heat maps as a picture, and data of the report's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PathCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.path import Path
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.factor import Mesh
from optinc_pdk.io.writing import png_bytes
from optinc_pdk.matrices import MatrixComparison, MatrixFactor
from optinc_pdk.report.rendering import figure_bytes, packed_json
from optinc_pdk.simulate import Programming

TEXT_MODES = 16
"""Modes up to which phases are written."""
MOST_MODES = 256
"""Largest number of modes that are drawn."""
COLOURS = "twilight_shifted"
"""Colours of theta, the same at 0 and 2 pi."""
GUIDE = "#8a939c"
STRAIGHT = 0.2
"""Part of a column before and behind a crossing."""
EASE = 0.3642
"""Place of the control points of a cubic Bézier curve that is close to half a period of a cosine."""
COLUMN_IN, MODE_IN, LARGEST_IN = 0.62, 0.5, 24.0


def mesh_picture(factor: MatrixFactor, name: str, file_format: str) -> bytes:
    """Draw the meshes and attenuators of a matrix in the order in which light passes them; ``svg``, ``pdf`` or ``png``.

    Every MZI is a crossing of two guides in the colour of its internal phase theta. Up to `TEXT_MODES` modes, the phase
    phi on the upper input, the output phases and the transmissions of attenuators are written, in units of pi.

    Raises:
        InputError: The matrix has more than `MOST_MODES` modes.
    """
    modes = max(mesh.modes for mesh in factor.meshes)
    if modes > MOST_MODES:
        raise InputError(f"{name}: has {modes} modes, and a picture shows at most {MOST_MODES}; leave --picture out")
    columns = [int(mesh.column.max(initial=-1)) + 1 for mesh in factor.meshes]
    gap = 1.5 if factor.attenuation is not None else 0.0
    width = sum(columns) + gap + 2.5
    scale = min(1.0, LARGEST_IN / max(COLUMN_IN * width, MODE_IN * modes))
    size = (max(COLUMN_IN * width * scale, 3.5), max(MODE_IN * modes * scale, 1.0) + 1.4)
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    axes = figure.subplots()
    line = 2.2 * max(scale, 0.25)
    text = modes <= TEXT_MODES
    colours = ScalarMappable(Normalize(0.0, 2.0), matplotlib.colormaps[COLOURS])
    start = 0.0
    for number, (mesh, count) in enumerate(zip(factor.meshes, columns, strict=True)):
        _draw_mesh(axes, mesh, start, count, colours, line, text)
        start += count
        if number == 0 and factor.attenuation is not None:
            _draw_attenuators(axes, factor, start, gap, line, text)
            start += gap
    _draw_ends(axes, factor, start, line, text)
    axes.set(xlim=(-1.2, start + 1.3), ylim=(modes - 0.5, -0.7), title=f"{name}: {factor.mzis:,} MZIs, {factor.form}")
    axes.title.set(fontsize=9, wrap=True)
    axes.set_axis_off()
    bar = figure.colorbar(colours, ax=axes, orientation="horizontal", shrink=0.6, aspect=40, pad=0.02)
    written = "\ntext: φ on the upper input of an MZI, and output phases at the right, both / π"
    if factor.attenuation is not None:
        written += "; field transmissions of attenuators in boxes"
    left_out = f"; phases as text: up to {TEXT_MODES} modes only"
    bar.set_label("θ of an MZI / π: 0 cross, 1 bar" + (written if text else left_out), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return figure_bytes(figure, file_format, f"{name}: meshes")


def _draw_mesh(
    axes: Axes, mesh: Mesh, start: float, columns: int, colours: ScalarMappable, line: float, text: bool
) -> None:
    """Draw the guides and crossings of a mesh from column `start`."""
    _draw_guides(axes, idle_runs(mesh, start, columns), line)
    # MZIs of one colour are one path: a file with a line for every MZI is many times as large, and slow to write
    shade = colours.to_rgba(mesh.theta / np.pi)
    found, of_shade = np.unique(shade, axis=0, return_inverse=True)
    paths = [
        _crossings(mesh.row[of_shade == number], start + mesh.column[of_shade == number])
        for number in range(len(found))
    ]
    crossings = PathCollection(paths, facecolors="none", edgecolors=found, linewidths=line)
    axes.add_collection(crossings, autolim=False)
    if text:
        for row, column, phi in zip(mesh.row.tolist(), mesh.column.tolist(), (mesh.phi / np.pi).tolist(), strict=True):
            axes.text(start + column + 0.08, row - 0.1, _pi_text(phi), fontsize=6, ha="left", va="bottom")


def idle_runs(mesh: Mesh, start: float, columns: int) -> list[tuple[float, float, int]]:
    """Return begin, end and mode of the straight guides of a mesh, which pass columns without an MZI on their mode."""
    idle = np.ones((mesh.modes, columns + 2), dtype=bool)
    idle[:, [0, -1]] = False
    idle[mesh.row, mesh.column + 1] = idle[mesh.row + 1, mesh.column + 1] = False
    change = np.diff(idle.astype(np.int8), axis=1)
    (modes, begins), (_, ends) = np.nonzero(change == 1), np.nonzero(change == -1)
    return [
        (start + begin, start + end, mode)
        for mode, begin, end in zip(modes.tolist(), begins.tolist(), ends.tolist(), strict=True)
    ]


def _draw_guides(axes: Axes, guides: Sequence[tuple[float, float, int]], line: float) -> None:
    """Draw straight guides, each from a begin to an end on a mode."""
    ends = np.array([[(begin, mode), (end, mode)] for begin, end, mode in guides], dtype=np.float64).reshape(-1, 2)
    path = Path(ends, np.tile([Path.MOVETO, Path.LINETO], len(guides)))
    axes.add_collection(PathCollection([path], edgecolors=GUIDE, linewidths=0.5 * line), autolim=False)


def _crossings(rows: Ints, left: Floats) -> Path:
    """Return the two curves of every MZI between a row and the one below, (MZIs,) rows and left ends, as one path."""
    bend = 1.0 - 2.0 * STRAIGHT
    x = np.array([0.0, STRAIGHT, STRAIGHT + EASE * bend, 1.0 - STRAIGHT - EASE * bend, 1.0 - STRAIGHT, 1.0])
    down = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
    curve = np.stack([np.stack([x, down], axis=-1), np.stack([x, 1.0 - down], axis=-1)])
    corners = np.stack([left, rows], axis=-1)[:, np.newaxis, np.newaxis, :]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE4, Path.CURVE4, Path.CURVE4, Path.LINETO]
    return Path((corners + curve).reshape(-1, 2), np.tile(codes, 2 * rows.size))


def _draw_attenuators(axes: Axes, factor: MatrixFactor, start: float, gap: float, line: float, text: bool) -> None:
    """Draw the attenuators between two meshes; modes without one end."""
    values = [] if factor.attenuation is None else factor.attenuation.tolist()
    _draw_guides(axes, [(start, start + gap, mode) for mode in range(len(values))], line)
    middle = start + gap / 2
    if not text:
        axes.plot([middle] * len(values), range(len(values)), "s", color=GUIDE, markersize=1.5 * line)
        return
    box = {"boxstyle": "square,pad=0.25", "facecolor": "white", "edgecolor": GUIDE}
    for mode, value in enumerate(values):
        axes.text(middle, mode, f"{value:.3f}", fontsize=6, ha="center", va="center", bbox=box)


def _draw_ends(axes: Axes, factor: MatrixFactor, end: float, line: float, text: bool) -> None:
    """Draw inputs and outputs with their numbers, and the output phases."""
    first, last = factor.meshes[0], factor.meshes[-1]
    _draw_guides(axes, [(-0.6, 0.0, mode) for mode in range(first.modes)], line)
    _draw_guides(axes, [(end, end + 0.7, mode) for mode in range(last.modes)], line)
    if not text:
        return
    for mode in range(first.modes):
        axes.text(-0.7, mode, str(mode), fontsize=8, ha="right", va="center")
    for mode, phase in enumerate((last.output_phase / np.pi).tolist()):
        axes.text(end + 0.05, mode - 0.1, _pi_text(phase), fontsize=6, ha="left", va="bottom")
        axes.text(end + 0.8, mode, str(mode), fontsize=8, ha="left", va="center")


def _pi_text(phase: float) -> str:
    """Return a phase in units of pi as text, below 2.00."""
    return f"{round(phase, 2) % 2.0:.2f}"


WIDTH_IN, HEIGHT_IN = 4.0, 6.0
"""Largest size of a heat map in inches."""


def matrix_png(result: MatrixComparison) -> bytes:
    """Draw the magnitudes of the entries of the target, of the chip, and of their difference as heat maps, as PNG.

    Target and chip have one scale of colours. The difference is in percent of the largest entry of the target; the
    largest error is marked.
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


DIGITS = 4
"""Significant digits of the values on the page."""


@dataclass(frozen=True, eq=False)
class MatrixMap:
    """A matrix of a chip and its target.

    Attributes:
        name: Name of the matrix.
        target: (m, n) target.
        chip: (m, n) matrix as driven, without its free scale; NaN for entries that are not used.
    """

    name: str
    target: NDArray[Any]
    chip: NDArray[Any]

    def to_json(self) -> dict[str, Any]:
        """Return magnitudes of target, chip and difference, row by row; the difference over the largest target."""
        rows, columns = self.target.shape
        largest = float(np.abs(self.target).max()) or 1.0
        error = np.abs(self.chip - self.target) / largest
        return {
            "name": self.name,
            "rows": rows,
            "columns": columns,
            "target": _values(np.abs(self.target)),
            "chip": _values(np.abs(self.chip)),
            "error": _values(error),
        }


def layer_maps(programming: Programming) -> list[MatrixMap]:
    """Return the matrix of each layer of a network, as programmed."""
    return [
        MatrixMap(f"Layer {number}", target, driven) for number, (target, driven) in enumerate(programming.matrices)
    ]


def maps_text(maps: Sequence[MatrixMap]) -> str:
    """Return matrices for the page's script."""
    return packed_json([each.to_json() for each in maps])


def _values(values: Floats) -> list[float | None]:
    """Return values with `DIGITS` significant digits, and None for NaN."""
    return [None if np.isnan(value) else float(f"{value:.{DIGITS}g}") for value in values.ravel().tolist()]
