"""Picture of a drift run as PNG: what chips compute against time, with and without correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from optinc_pdk.io.writing import png_bytes

_LOST, _KEPT, _INK = "#d3302f", "#2f6fb0", "#444c54"


@dataclass(frozen=True)
class DriftPanel:
    """What a row of the picture shows.

    Attributes:
        label: Label of the vertical axis.
        factor: Factor from values to its unit.
        limits: Range of the axis; None for that of the values.
        line: Height of a dotted line; None for no line.
        least: Smallest value that is drawn; smaller ones are drawn there.
    """

    label: str
    factor: float = 1.0
    limits: tuple[float, float] | None = None
    line: float | None = None
    least: float = -np.inf


@dataclass(frozen=True)
class DriftTrack:
    """What one chip computes in one scenario, at several times.

    Attributes:
        tracked: Whether the chip is corrected.
        share: Shares of the whole time, ascending, equal for all chips of a scenario.
        values: For each panel, the values at these times; NaN for an unusable chip.
    """

    scenario: str
    tracked: bool
    share: Sequence[float]
    values: Sequence[Sequence[float]]


def drift_png(
    tracks: Sequence[DriftTrack], panels: Sequence[DriftPanel], tracking: str, hours: float, caption: str
) -> bytes:
    """Return a PNG file of :func:`drift_figure`."""
    return png_bytes(drift_figure(tracks, panels, tracking, hours, caption), 120)


def drift_figure(
    tracks: Sequence[DriftTrack], panels: Sequence[DriftPanel], tracking: str, hours: float, caption: str
) -> Figure:
    """Plot the values of all chips against time: one column for each scenario, one row for each panel.

    Lines are means over the chips, areas reach from the worst chip to the best. ``tracking`` is what corrects the
    chips, for the legend.
    """
    names = list(dict.fromkeys(one.scenario for one in tracks))
    figure = Figure(figsize=(4.0 * len(names), 5.2), layout="constrained", facecolor="white")
    axes = figure.subplots(len(panels), len(names), sharex=True, sharey="row", squeeze=False)
    for column, name in enumerate(names):
        for tracked, color, label in ((False, _LOST, f"without {tracking}"), (True, _KEPT, f"with {tracking}")):
            some = [one for one in tracks if one.scenario == name and one.tracked == tracked]
            if not some:
                continue
            time_h = hours * np.array(some[0].share)
            for row, (plot, panel) in enumerate(zip(axes[:, column], panels, strict=True)):
                values = panel.factor * np.maximum([one.values[row] for one in some], panel.least)
                plot.plot(time_h, values.mean(axis=0), color=color, label=label)
                plot.fill_between(time_h, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, linewidth=0)
        axes[0, column].set(title=name)
        axes[-1, column].set(xlabel="hours in service")
        for plot, panel in zip(axes[:, column], panels, strict=True):
            if panel.line is not None:
                plot.axhline(panel.factor * panel.line, color=_INK, linewidth=0.8, linestyle=":")
            if panel.limits is not None:
                plot.set(ylim=panel.limits)
    for plot, panel in zip(axes[:, 0], panels, strict=True):
        plot.set(ylabel=panel.label)
    # outside the axes, so that it hides no curve
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="outside lower center", ncols=len(labels))
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.suptitle(caption, fontsize=8, color=_INK)
    return figure
