"""Picture of a drift run as PNG: words and margin against time, with and without tracking."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from optinc_pdk.tolerance.drift.service import DriftPoint

_LOST, _KEPT, _INK = "#d3302f", "#2f6fb0", "#444c54"


def drift_png(points: Sequence[DriftPoint], hours: float, caption: str) -> bytes:
    """Plot the share of exact words and the margin of all chips against time, one column for each scenario.

    Lines are means over the chips, areas reach from the worst chip to the best.

    Args:
        points: Words of all chips in time.
        hours: Whole time.
        caption: Caption of the figure.

    Returns:
        Contents of a PNG file.
    """
    names = list(dict.fromkeys(one.scenario for one in points))
    figure = Figure(figsize=(4.0 * len(names), 5.2), layout="constrained", facecolor="white")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    for column, name in enumerate(names):
        words, margins = axes[:, column]
        for tracked, color, label in ((False, _LOST, "without tracking"), (True, _KEPT, "with tracking")):
            some = [one for one in points if one.scenario == name and one.tracked == tracked]
            if not some:
                continue
            at = sorted({one.share for one in some})
            for plot, values in (
                (words, [[100 * one.outcome.accuracy for one in some if one.share == share] for share in at]),
                (margins, [[max(one.outcome.margin, -0.5) for one in some if one.share == share] for share in at]),
            ):
                time_h = hours * np.array(at)
                plot.plot(time_h, [np.mean(row) for row in values], color=color, label=label)
                low, high = [min(row) for row in values], [max(row) for row in values]
                plot.fill_between(time_h, low, high, color=color, alpha=0.2, linewidth=0)
        words.set(title=name, ylim=(-3, 103))
        margins.axhline(0.0, color=_INK, linewidth=0.8, linestyle=":")
        margins.set(xlabel="hours in service", ylim=(-0.52, 0.52))
    axes[0, 0].set(ylabel="exact words / %")
    axes[1, 0].set(ylabel="margin in levels")
    axes[0, 0].legend(frameon=False, loc="lower left")
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.suptitle(caption, fontsize=8, color=_INK)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    return picture.getvalue()
