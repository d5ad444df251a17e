"""Hardware-aware training: a margin loss under the errors that the chip will have.

The loss is mean(max(|output - level| - allowance, 0)²): outputs need not be whole levels, only safely inside
their decision interval, where plain mean squares stall. Every step draws several disturbed copies of the
network, with the matrix error of the gauge (W + ε ‖W‖₂ G/√n at inputs and hidden signals of maximum 1), so
that the gradient sees what the scaling of each signal costs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optinc_pdk.averaging import Score
from optinc_pdk.files import InputError
from optinc_pdk.onn.gauge import lattice_score, tolerance
from optinc_pdk.onn.network import Onn, WeightsError
from optinc_pdk.onn.training.checkpoint import load_checkpoint, save_checkpoint
from optinc_pdk.onn.training.schedule import Progress, Schedule
from optinc_pdk.onn.training.starts import gauge_scaled

if TYPE_CHECKING:
    from optinc_pdk.onn.training.trainer import Trainer

__all__ = ["Progress", "Schedule", "train"]

DRAWS, WORDS = 50, 4000
"""Draws over which a tolerance is judged, and words of each: draws differ more than words."""

EXACT_MARGIN = 0.15
"""Least margin, in levels, of a network that may be called exact."""


def train(
    start: Onn,
    schedule: Schedule,
    seed: int,
    progress: Callable[[Progress], None] | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Onn:
    """Train on from a network; needs PyTorch (the extra `train`).

    Args:
        start: The network to start from, such as `carry_chain` or `random_start`.
        schedule: How to train.
        seed: Seed of all draws.
        progress: Called at every evaluation.
        checkpoint: File that keeps the state at every evaluation; where it exists, the training goes on from
            there, to the same result as without the break.
        device: PyTorch device, "cpu" or "cuda".

    Returns:
        The best network seen, `start` included: a margin of at least 0.15 before none, then the higher
        tolerance to the schedule's matrix error, then the higher margin. Scaled to the gauge, weights in
        float64; where layers are approximated, unscaled and with these layers exactly of blocks.

    Raises:
        InputError: PyTorch or the device is missing, the start has a bias in its last layer or a layer without live
            units, a layer to approximate does not exist, or the checkpoint belongs to another training.
    """
    scaled = _scaled(start, schedule, seed)
    trainer = _trainer(start, schedule, seed, device)
    first = trainer.network() if schedule.approximate else scaled
    best, best_rank, began, spent = first, (False, -1.0, -1.0), 0, 0.0
    if checkpoint is not None and checkpoint.exists():
        best, best_rank, began, spent = load_checkpoint(checkpoint, trainer, start, schedule, seed)
        if _finished(schedule, best_rank):
            return _described(best, start, schedule, seed)
    clock = time.monotonic() - spent
    losses: list[float] = []
    words = WORDS if start.task.lattice_size > WORDS else None
    every = max(1, schedule.steps // schedule.evaluations)
    for step in range(began, schedule.steps + 1):
        if (step % every == 0 or step == schedule.steps) and (step > began or began == 0):
            network = trainer.network() if step else first
            result = lattice_score(network)
            share = tolerance(network, schedule.noise, DRAWS, seed, words) if schedule.noise else result.accuracy
            rank = (result.margin >= EXACT_MARGIN, share, result.margin)
            better = rank > best_rank
            if better:
                best, best_rank = network, rank
            spent = time.monotonic() - clock
            if progress is not None:
                loss = float(np.mean(losses)) if losses else float("nan")
                progress(_report(step, schedule.steps, loss, result, share, better, spent))
            losses = []
            if checkpoint is not None:
                save_checkpoint(checkpoint, trainer, start, schedule, seed, (best, best_rank, step, spent))
            if _finished(schedule, best_rank):
                break
        if step < schedule.steps:
            losses.append(trainer.step(step))
    return _described(best, start, schedule, seed)


def _finished(schedule: Schedule, rank: tuple[bool, float, float]) -> bool:
    """Whether a training that stops early is over."""
    return schedule.stop and rank[0] and rank[1] == 1.0


def _described(best: Onn, start: Onn, schedule: Schedule, seed: int) -> Onn:
    """The best network in the gauge, with a card of how it was trained."""
    import torch

    card = {
        "trained": json.loads(json.dumps(asdict(schedule))),
        "seed": seed,
        "start": start.card or list(start.structure),
        "torch": torch.__version__.split("+")[0],
    }
    if schedule.approximate:
        return replace(best, card=card)
    return replace(best, layers=gauge_scaled(best).layers, factor=(), card=card)


def _report(step: int, steps: int, loss: float, result: Score, share: float, better: bool, seconds: float) -> Progress:
    errors = result.inputs - result.exact
    return Progress(step, steps, loss, result.accuracy, errors, result.margin, share, better, seconds)


def _scaled(start: Onn, schedule: Schedule, seed: int) -> Onn:
    """The start in the gauge; refuses what cannot be trained."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed is {seed}; give a whole number from 0 to 2^63 - 1")
    last = len(start.layers) - 1
    if start.layers[last].bias.any():
        raise InputError(
            f"layers.{last}.bias is not zero: receivers see |field|² and nothing adds a constant to light; start "
            "from a network without it"
        )
    for layer in schedule.approximate:
        if layer > last:
            raise InputError(f"approximate names layer {layer}, but the network has layers 0 to {last}")
    try:
        return gauge_scaled(start)
    except WeightsError as fault:
        raise InputError(
            "the start has a hidden layer in which no unit is ever positive; take another seed, or more units"
        ) from fault


def _trainer(start: Onn, schedule: Schedule, seed: int, device: str) -> Trainer:
    try:
        import torch
    except ImportError as fault:
        raise InputError("training needs PyTorch: pip install 'optinc-pdk[train]'") from fault
    if device.split(":")[0] not in ("cpu", "cuda"):
        raise InputError(f"device {device!r} is not one that is trained on; use cpu or cuda")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as fault:
        raise InputError(f"device {device!r} is not there ({str(fault).splitlines()[0]}); use cpu") from fault
    from optinc_pdk.onn.training.trainer import Trainer

    return Trainer(start, schedule, seed, device)
