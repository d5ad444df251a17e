"""Diagram of the meshes of a matrix: guides, MZIs as crossings in the colour of theta, and phases as text."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.factor import Mesh
from optinc_pdk.matrices import MatrixFactor
from optinc_pdk.report.figure_files import figure_bytes

TEXT_MODES = 16
"""Modes up to which phases are written."""
MOST_MODES = 256
"""Largest number of modes that are drawn."""
COLOURS = "twilight_shifted"
"""Colours of theta, the same at 0 and 2 pi."""
GUIDE = "#8a939c"
STRAIGHT = 0.2
"""Part of a column before and behind a crossing."""
POINTS = 12
"""Points of a curve of a crossing."""
COLUMN_IN, MODE_IN, LARGEST_IN = 0.62, 0.5, 24.0

Floats = NDArray[np.float64]


def mesh_picture(factor: MatrixFactor, name: str, file_format: str) -> bytes:
    """Draw the meshes and attenuators of a matrix in the order in which light passes them, from left to right.

    Every MZI is a crossing of two guides in the colour of its internal phase theta. Up to `TEXT_MODES` modes, the phase
    phi on the upper input, the output phases and the transmissions of attenuators are written, in units of pi.

    Args:
        factor: Factors of the matrix.
        name: Name of the matrix, for the title.
        file_format: ``svg``, ``pdf`` or ``png``.

    Returns:
        Content of the file.

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
    bar.set_label("θ of an MZI / π: 0 cross, 1 bar" + (written if text else ""), fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return figure_bytes(figure, file_format, f"{name}: meshes")


def _draw_mesh(
    axes: Axes, mesh: Mesh, start: float, columns: int, colours: ScalarMappable, line: float, text: bool
) -> None:
    """Draw the guides and crossings of a mesh from column `start`."""
    crossed = np.zeros((columns, mesh.modes), dtype=bool)
    crossed[mesh.column, mesh.row] = crossed[mesh.column, mesh.row + 1] = True
    straight = [[(start + column, mode), (start + column + 1, mode)] for column, mode in np.argwhere(~crossed).tolist()]
    axes.add_collection(LineCollection(straight, colors=GUIDE, linewidths=0.5 * line))
    shares = mesh.theta / np.pi
    curves = [
        curve for row, column in zip(mesh.row, mesh.column, strict=True) for curve in _crossing(row, start + column)
    ]
    axes.add_collection(LineCollection(curves, colors=colours.to_rgba(np.repeat(shares, 2)), linewidths=line))
    if text:
        for row, column, phi in zip(mesh.row.tolist(), mesh.column.tolist(), (mesh.phi / np.pi).tolist(), strict=True):
            axes.text(start + column + 0.08, row - 0.1, _pi_text(phi), fontsize=6, ha="left", va="bottom")


def _crossing(row: int, left: float) -> Iterator[Floats]:
    """Yield the two curves of an MZI between a row and the one below."""
    share = np.linspace(0.0, 1.0, POINTS)
    x = np.concatenate([[left], left + STRAIGHT + (1.0 - 2.0 * STRAIGHT) * share, [left + 1.0]])
    bend = np.concatenate([[0.0], (1.0 - np.cos(np.pi * share)) / 2.0, [1.0]])
    yield np.column_stack([x, row + bend])
    yield np.column_stack([x, row + 1.0 - bend])


def _draw_attenuators(axes: Axes, factor: MatrixFactor, start: float, gap: float, line: float, text: bool) -> None:
    """Draw the attenuators between two meshes; modes without one end."""
    values = [] if factor.attenuation is None else factor.attenuation.tolist()
    for mode, value in enumerate(values):
        axes.plot([start, start + gap], [mode, mode], color=GUIDE, linewidth=0.5 * line, zorder=1)
        box = {"boxstyle": "square,pad=0.25", "facecolor": "white", "edgecolor": GUIDE}
        if text:
            axes.text(start + gap / 2, mode, f"{value:.3f}", fontsize=6, ha="center", va="center", bbox=box)
        else:
            axes.plot(start + gap / 2, mode, "s", color=GUIDE, markersize=1.5 * line)


def _draw_ends(axes: Axes, factor: MatrixFactor, end: float, line: float, text: bool) -> None:
    """Draw inputs and outputs with their numbers, and the output phases."""
    first, last = factor.meshes[0], factor.meshes[-1]
    for mode in range(first.modes):
        axes.plot([-0.6, 0.0], [mode, mode], color=GUIDE, linewidth=0.5 * line)
        if text:
            axes.text(-0.7, mode, str(mode), fontsize=8, ha="right", va="center")
    for mode, phase in enumerate((last.output_phase / np.pi).tolist()):
        axes.plot([end, end + 0.7], [mode, mode], color=GUIDE, linewidth=0.5 * line)
        if text:
            axes.text(end + 0.05, mode - 0.1, _pi_text(phase), fontsize=6, ha="left", va="bottom")
            axes.text(end + 0.8, mode, str(mode), fontsize=8, ha="left", va="center")


def _pi_text(phase: float) -> str:
    """Return a phase in units of pi as text, below 2.00."""
    return f"{round(phase, 2) % 2.0:.2f}"
