"""Loss curves of the trainings."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import schemes

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

WINDOW = 20
"""Number of steps over which a curve is averaged; at most all steps of the training."""
CHIPS = (
    "ring",
    "optinc-16",
    "optinc-8",
    "optinc-extracted",
    "optinc-8-unbiased",
    "optinc-extracted-unbiased",
    "optinc-imperfect",
    "optinc-table2",
)
RIVALS = ("ring", "torch", "wrht", "daso", "dad", "edad", "rank-dad")
LOSS_MARGIN = 0.02


def read_losses(path: Path) -> Floats:
    """Read the losses of a log, (steps,).

    Raises:
        InputError: The file cannot be read or is not such a log.
    """
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            return np.array([float(row["loss"]) for row in csv.DictReader(stream)])
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror}); delete its result and train again") from fault
    except (ValueError, KeyError, TypeError, csv.Error) as fault:
        raise InputError(f"{path}: not a log of a training ({fault}); delete its result and train again") from fault


def curves(losses: Mapping[str, Floats], title: str, path: Path) -> None:
    """Plot the losses of a network's trainings: with the chips, their difference from the ring, and the other schemes.

    Args:
        losses: Losses by scheme, (steps,), equally many for all; must include the ring.
        title: Title of the figure.
        path: File of the figure.
    """
    window = min(WINDOW, len(losses["ring"]))
    smooth = {scheme: np.convolve(each, np.full(window, 1 / window), "valid") for scheme, each in losses.items()}
    figure, (chips, apart, rivals) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    _draw(chips, smooth, CHIPS, window)
    chips.set(title="over the chip", ylabel=f"training loss, mean of {window} steps")
    away = {scheme: each - smooth["ring"] for scheme, each in smooth.items()}
    _draw(apart, away, CHIPS, window)
    margin = apart.axhspan(-LOSS_MARGIN, LOSS_MARGIN, color="0.92", label=f"± {LOSS_MARGIN}", zorder=0)
    apart.set(title="minus the ring's", ylim=(-0.1, 0.1))
    _draw(rivals, smooth, RIVALS, window)
    rivals.set(title="rivals")
    for axes in (chips, apart, rivals):
        axes.set_xlabel("step")
        # the middle plot has the curves of the left one and no space for its legend
        axes.legend(handles=[margin] if axes is apart else None, fontsize="x-small")
        axes.grid(alpha=0.3)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw(axes: Axes, curves: Mapping[str, Floats], selected: Sequence[str], window: int) -> None:
    """Plot the selected curves that exist, with decreasing line width, so that covered curves stay visible."""
    shown = [scheme for scheme in selected if scheme in curves]
    names = list(schemes.ENTRIES)
    for position, scheme in enumerate(shown):
        steps = np.arange(len(curves[scheme])) + window
        width = 3.5 - 2.7 * position / max(1, len(shown) - 1)
        number = names.index(scheme)
        color = matplotlib.colormaps["tab20"](2 * number % 20 + number // 10)
        axes.plot(steps, curves[scheme], color=color, linewidth=width, label=schemes.ENTRIES[scheme].title)
