"""Plot of sampled chips that are compared with a target: cumulative shares of the samples against each quantity."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from optinc_pdk.io.writing import png_bytes
from optinc_pdk.studies.montecarlo.check_outcome import CheckOutcome, Quantity, values_of

_COLORS = ("#2f6fb0", "#d98c21", "#3a9a5f", "#8c6bb1")
_INK = "#444c54"
SHOWN = 2
"""Largest number of quantities in the plot."""
SPREAD = 30.0
"""Ratio of the largest to the smallest value from which an axis is logarithmic."""


def quantities_png(quantities: Sequence[Quantity], stages: Mapping[str, Sequence[CheckOutcome]], caption: str) -> bytes:
    """Plot, for the first quantities, the share of all samples that are at least as good as a value.

    Args:
        quantities: The quantities; limits are drawn as lines.
        stages: Name of the stage to the outcomes of all samples; unusable ones are never good.
        caption: Caption of the figure.

    Returns:
        Contents of a PNG file.
    """
    shown = quantities[:SHOWN]
    figure = Figure(figsize=(5.0 * len(shown), 4.2), layout="constrained", facecolor="white")
    figure.suptitle(caption, fontsize=8, color=_INK)
    for axes, quantity in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        everything = [quantity.factor * values_of(quantity, outcomes) for outcomes in stages.values()]
        for color, values, (name, outcomes) in zip(itertools.cycle(_COLORS), everything, stages.items(), strict=False):
            ordered = np.sort(values) if quantity.rising else np.sort(values)[::-1]
            share = np.arange(1, ordered.size + 1) / len(outcomes)
            axes.plot(ordered, share, drawstyle="steps-post", marker=".", markersize=3.0, color=color, label=name)
        positive = np.concatenate(everything)
        if positive.size and positive.min() > 0.0 and positive.max() > SPREAD * positive.min():
            axes.set_xscale("log")
        if quantity.limit is not None:
            axes.axvline(quantity.factor * quantity.limit, color=_INK, linewidth=0.8, linestyle=":", label="limit")
        unit = f" / {quantity.unit}" if quantity.unit else ""
        bound = "at most" if quantity.rising else "at least"
        axes.set(ylim=(-0.02, 1.02), xlabel=f"{quantity.text}{unit}, {bound}", ylabel="share of the samples")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    return png_bytes(figure, 120)
