"""Plots of a yield run as PNG: yield curves of words and of other quantities, losses by imperfection, tolerances."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from optinc_pdk.io.writing import png_bytes
from optinc_pdk.studies.montecarlo.study import MAX_OCTAVE, MIN_OCTAVE
from optinc_pdk.studies.outcomes import CheckOutcome, Quantity, WordOutcome, values_of

_COLORS = ("#2f6fb0", "#d98c21", "#3a9a5f", "#8c6bb1")
_LOST, _GAINED, _INK = "#d3302f", "#3a9a5f", "#444c54"
ERRORS_SHOWN = 16
"""Largest number of bars in the error histogram."""
SHOWN = 2
"""Largest number of quantities in their plot."""
SPREAD = 30.0
"""Ratio of the largest to the smallest value from which an axis of a quantity is logarithmic."""


def yield_png(stages: Mapping[str, Sequence[WordOutcome]], target: float, caption: str) -> bytes:
    """Plot cumulative shares of the samples of each stage against the number of inexact inputs and the margin."""
    figure = Figure(figsize=(10.0, 4.2), layout="constrained", facecolor="white")
    words, margins = figure.subplots(1, 2, sharey=True)
    inputs = next(iter(stages.values()))[0].inputs
    for color, (name, outcomes) in zip(itertools.cycle(_COLORS), stages.items(), strict=False):
        _staircase(words, [outcome.inputs - outcome.exact for outcome in outcomes], color, name)
        _staircase(margins, [-outcome.margin for outcome in outcomes], color, name)
    words.axvline((1.0 - target) * inputs, color=_INK, linewidth=0.8, linestyle=":")
    words.set_xscale("symlog", linthresh=1.0)
    words.set(xlim=(-0.5, 1.3 * inputs), ylim=(-0.02, 1.02))
    words.set(xlabel=f"inputs of {inputs:,} that are not exact, at most", ylabel="share of the samples")
    margins.axvline(0.0, color=_INK, linewidth=0.8, linestyle=":")
    worst = -min(outcome.margin for outcomes in stages.values() for outcome in outcomes)
    margins.set_xscale("symlog", linthresh=1.0)
    margins.set(xlim=(-0.55, max(0.1, 1.3 * worst)), xlabel="margin in levels, at least")
    margins.set_xticks([tick for tick in (-0.5, 0.0, 0.5, 1.0, 10.0, 100.0) if tick <= max(0.1, 1.3 * worst)])
    margins.xaxis.set_major_formatter(lambda value, _: f"{0.0 - value:g}")
    if len(stages) > 1:
        words.legend(frameon=False)
    return _png(figure, (words, margins), caption)


def _staircase(axes: Axes, values: Sequence[float], color: str, name: str) -> None:
    ordered = np.sort(np.asarray(values, dtype=float))
    share = np.arange(1, ordered.size + 1) / ordered.size
    # extend the curve beyond both edges of the plot
    across = np.concatenate([[-1e9], ordered, [1e9]])
    axes.plot(across, np.concatenate([[0.0], share, [1.0]]), drawstyle="steps-post", color=color, label=name)


def quantities_png(quantities: Sequence[Quantity], stages: Mapping[str, Sequence[CheckOutcome]], caption: str) -> bytes:
    """Plot, for the first quantities, the share of all samples of each stage that are at least as good as a value.

    Limits are drawn as lines; unusable samples are never good.
    """
    shown = quantities[:SHOWN]
    figure = Figure(figsize=(5.0 * len(shown), 4.2), layout="constrained", facecolor="white")
    all_axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for axes, quantity in zip(all_axes, shown, strict=True):
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
        axes.legend(frameon=False, fontsize=8)
    return _png(figure, all_axes, caption)


def waterfall_png(contributions: Sequence[Mapping[str, Any]], lost: tuple[str, str], caption: str) -> bytes:
    """Plot what is lost with each imperfection alone, without it, and with all imperfections up to it.

    ``contributions`` is the result of :func:`optinc_pdk.studies.montecarlo.yield_run.kind_numbers`; ``lost`` the name
    of what is lost in it, and the label of its axis, in %.
    """
    names = [row["imperfection"] for row in contributions]
    alone, without, upto = (
        100 * np.array([row[study][lost[0]] for row in contributions]) for study in ("alone", "without", "upto")
    )
    figure = Figure(figsize=(12.0, 4.4), layout="constrained", facecolor="white")
    steps, parts = figure.subplots(1, 2, sharey=True)
    before = np.concatenate([[0.0], upto[:-1]])
    colors = [_LOST if more else _GAINED for more in upto >= before]
    steps.bar(names, np.abs(upto - before), bottom=np.minimum(upto, before), color=colors)
    steps.bar("all", upto[-1], color=_INK)
    steps.set(ylabel=lost[1], title="one after another")
    place = np.arange(len(names))
    parts.bar(place - 0.2, alone, 0.4, color=_LOST, label="each alone")
    parts.bar(place + 0.2, without, 0.4, color=_COLORS[0], label="all but it")
    parts.axhline(upto[-1], color=_INK, linewidth=0.8, linestyle=":", label="all")
    parts.set_xticks(place, names)
    parts.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for axes in (steps, parts):
        axes.tick_params(axis="x", labelrotation=60)
    return _png(figure, (steps, parts), caption)


def errors_png(stages: Mapping[str, Mapping[int, int]], caption: str) -> bytes:
    """Plot the distribution of word errors, read minus ideal: for each stage the number of words by their error."""
    figure = Figure(figsize=(8.0, 4.0), layout="constrained", facecolor="white")
    axes = figure.subplots()
    total = {name: sum(errors.values()) for name, errors in stages.items()}
    weight = {
        value: max(errors.get(value, 0) / total[name] for name, errors in stages.items() if total[name])
        for errors_ in stages.values()
        for value in errors_
    }
    values = sorted(sorted(weight, key=lambda value: (-weight[value], abs(value)))[:ERRORS_SHOWN])
    place, width = np.arange(len(values)), 0.8 / max(len(stages), 1)
    for index, (name, errors) in enumerate(stages.items()):
        share = [100 * errors.get(value, 0) / max(total[name], 1) for value in values]
        label = f"{name}: {total[name]:,} wrong words"
        axes.bar(place + (index + 0.5) * width - 0.4, share, width, color=_COLORS[index % len(_COLORS)], label=label)
    axes.set_xticks(place, [f"{value:+d}" for value in values])
    axes.set(xlabel="word read − ideal word", ylabel="share of the wrong words / %")
    axes.legend(frameon=False)
    return _png(figure, (axes,), caption)


def tolerance_png(factors: Mapping[str, Sequence[float | None]], goal: float, caption: str) -> bytes:
    """Plot the share of samples that reach the target against the factor on one imperfection alone, and the goal as a
    line.

    ``factors`` are the largest ones that each sample tolerates; None if it tolerates all factors tried.
    """
    figure = Figure(figsize=(8.0, 4.6), layout="constrained", facecolor="white")
    axes = figure.subplots()
    least, most = 2.0**MIN_OCTAVE, 2.0**MAX_OCTAVE
    for index, (kind, sample_factors) in enumerate(factors.items()):
        # samples that tolerate every factor tried stay above the curve's right end
        ordered = np.sort([max(factor, least) for factor in sample_factors if factor is not None])
        across = np.concatenate([[least], ordered, [most]])
        down = 1.0 - np.minimum(np.arange(ordered.size + 2), ordered.size) / len(sample_factors)
        style = ("-", "--", ":")[index // 6 % 3]
        axes.plot(across, down, drawstyle="steps-post", label=kind, linestyle=style, color=f"C{index % 6}")
    axes.axhline(goal, color=_INK, linewidth=0.8, linestyle=":")
    axes.axvline(1.0, color=_INK, linewidth=0.8, linestyle=":")
    axes.set_xscale("log", base=2)
    axes.set(xlim=(least, most), ylim=(-0.02, 1.02))
    axes.set(xlabel="multiple of the run's amount of one imperfection alone", ylabel="share of samples at the target")
    axes.legend(frameon=False, fontsize=8, ncols=2)
    return _png(figure, (axes,), caption)


def _png(figure: Figure, all_axes: Sequence[Axes], caption: str) -> bytes:
    figure.suptitle(caption, fontsize=8, color=_INK)
    for axes in all_axes:
        axes.spines[["top", "right"]].set_visible(False)
    return png_bytes(figure, 120)
