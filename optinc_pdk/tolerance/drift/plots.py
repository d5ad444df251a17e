"""Picture of a drift run as PNG: words and margin against time, with and without tracking."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

_LOST, _KEPT, _INK = "#d3302f", "#2f6fb0", "#444c54"


@dataclass(frozen=True)
class DriftTrack:
    """Words of one chip in one scenario, at several times.

    Attributes:
        scenario: Name of the scenario.
        tracked: Whether the chip is tracked.
        share: Shares of the whole time, ascending, equal for all chips of a scenario.
        accuracy: Share of exact inputs at each of them.
        margin: Margin in levels at each of them.
    """

    scenario: str
    tracked: bool
    share: Sequence[float]
    accuracy: Sequence[float]
    margin: Sequence[float]


def drift_png(tracks: Sequence[DriftTrack], hours: float, caption: str) -> bytes:
    """Plot the share of exact words and the margin of all chips against time, one column for each scenario.

    Lines are means over the chips, areas reach from the worst chip to the best.

    Args:
        tracks: Words of all chips in time.
        hours: Whole time.
        caption: Caption of the figure.

    Returns:
        Contents of a PNG file.
    """
    names = list(dict.fromkeys(one.scenario for one in tracks))
    figure = Figure(figsize=(4.0 * len(names), 5.2), layout="constrained", facecolor="white")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", squeeze=False)
    for column, name in enumerate(names):
        words, margins = axes[:, column]
        for tracked, color, label in ((False, _LOST, "without tracking"), (True, _KEPT, "with tracking")):
            some = [one for one in tracks if one.scenario == name and one.tracked == tracked]
            if not some:
                continue
            time_h = hours * np.array(some[0].share)
            accuracy = 100.0 * np.array([one.accuracy for one in some])
            margin = np.maximum([one.margin for one in some], -0.5)
            for plot, values in ((words, accuracy), (margins, margin)):
                plot.plot(time_h, values.mean(axis=0), color=color, label=label)
                plot.fill_between(time_h, values.min(axis=0), values.max(axis=0), color=color, alpha=0.2, linewidth=0)
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
