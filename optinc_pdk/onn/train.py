"""Hardware-aware training: a margin loss under the matrix and input errors that the chip will have.

The loss is mean(max(|output - level| - allowance, 0)²): outputs need not be whole levels, only safely inside
their decision interval, where plain mean squares stall. Every step draws several disturbed copies of the
network, with the matrix error of the gauge (W + ε ‖W‖₂ G/√n at inputs and hidden signals of maximum 1), so
that the gradient sees what the scaling of each signal costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.onn.gauge import lattice_score, tolerance
from optinc_pdk.onn.network import Layer, Onn
from optinc_pdk.onn.starts import balanced, gauge_scaled, without_small_units

if TYPE_CHECKING:
    from torch import Tensor

Floats = NDArray[np.float64]

SMALL = 1e-2
"""Maximum below which a hidden unit is dropped; trained units are of the order of 1."""

AVERAGE = 2e-3
"""Share of the newest parameters in their running average, which is what is judged and kept."""

DRAWS = (5, 200)
"""Draws over which a tolerance is judged: few of a large lattice, many of a small one."""

EXACT_MARGIN = 0.15
"""Least margin, in levels, of a network that may be called exact."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands, given to the callback at every evaluation.

    Attributes:
        step: Steps done.
        steps: Steps in all.
        loss: Margin loss, averaged since the last evaluation.
        accuracy: Exact words over the lattice, undisturbed, 0 ... 1.
        margin: Margin over the lattice, in levels.
        tolerance: Exact words under the matrix error of the training.
        best: Whether this is the best network so far.
    """

    step: int
    steps: int
    loss: float
    accuracy: float
    margin: float
    tolerance: float
    best: bool


@dataclass(frozen=True)
class Schedule:
    """How to train.

    Attributes:
        steps: Optimizer steps.
        noise: Matrix error ε in the gauge, drawn anew in every step.
        input_noise: Largest uniform input error, as a share of the inputs' full scale.
        rate: Learning rate of Adam at the start; a cosine takes it to a hundredth.
        allowance: Output error in levels that costs nothing.
        batch: Lattice points per disturbed copy.
        copies: Disturbed copies of the network per step.
        evaluations: How often the network is judged, and kept if it is the best.

    Raises:
        ValueError: A number is out of range.
    """

    steps: int
    noise: float
    input_noise: float = 0.0
    rate: float = 3e-3
    allowance: float = 0.2
    batch: int = 256
    copies: int = 8
    evaluations: int = 20

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("steps", "batch", "copies", "evaluations"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("noise", "input_noise"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} = {getattr(self, name)} must lie within 0 ... 1")
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"rate = {self.rate} must lie between 0 and 1")
        if not 0.0 <= self.allowance < 0.5:
            raise ValueError(f"allowance = {self.allowance} must lie within 0 ... 0.5: 0.5 is a wrong decision")


def train(start: Onn, schedule: Schedule, seed: int, progress: Callable[[Progress], None] | None = None) -> Onn:
    """Train on from a network; needs PyTorch (the extra `train`).

    Args:
        start: The network to start from, such as `carry_chain` or `random_start`.
        schedule: How to train.
        seed: Seed of all draws.
        progress: Called at every evaluation.

    Returns:
        The best network seen, `start` included: a margin of at least 0.15 before none, then the higher
        tolerance to the schedule's matrix error, then the higher margin. Scaled to the gauge; weights in
        float64.
    """
    best, best_rank = gauge_scaled(start), (False, -1.0, -1.0)
    trainer = _Trainer(best, schedule, seed)
    losses: list[float] = []
    draws = int(np.clip(50_000 // start.task.lattice_size, *DRAWS))
    every = max(1, schedule.steps // schedule.evaluations)
    for step in range(schedule.steps + 1):
        if step % every == 0 or step == schedule.steps:
            network = trainer.network() if step else best
            result = lattice_score(network)
            share = tolerance(network, schedule.noise, draws=draws, seed=seed)
            rank = (result.margin >= EXACT_MARGIN, share, result.margin)
            better = rank > best_rank
            if better:
                best, best_rank = network, rank
            if progress is not None:
                loss = float(np.mean(losses)) if losses else float("nan")
                report = Progress(step, schedule.steps, loss, result.accuracy, result.margin, share, better)
                progress(report)
            losses = []
        if step < schedule.steps:
            losses.append(trainer.step(step))
    return replace(best, layers=gauge_scaled(best).layers, factor=())


class _Trainer:
    """The state of one training: parameters in the gauge at its start, optimizer, generator."""

    def __init__(self, start: Onn, schedule: Schedule, seed: int) -> None:
        import torch

        self.torch: Any = torch
        self.start, self.schedule = start, schedule
        task = start.task
        self.random = torch.Generator().manual_seed(seed)
        self.inputs = self._tensor(task.lattice() / task.full_scale)
        self.levels = self._tensor(task.targets(task.lattice()))
        first, *others = start.layers
        scaled = replace(start, layers=(Layer(first.weight * task.full_scale, first.bias), *others))
        layers = balanced(scaled).layers
        self.weights = [self._tensor(layer.weight).requires_grad_() for layer in layers]
        self.biases = [self._tensor(layer.bias).requires_grad_() for layer in layers]
        # receivers see |field|²: nothing can add a constant to the last layer's output, so its bias is not trained
        self.biases[-1].requires_grad_(False)
        self.averages = [value.detach().clone() for value in (*self.weights, *self.biases)]
        self.optimizer = torch.optim.Adam([*self.weights, *self.biases[:-1]], lr=schedule.rate)
        self.extremes: list[Tensor] = []

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        tensor: Tensor = self.torch.as_tensor(np.array(array), dtype=self.torch.float32)
        return tensor

    def network(self) -> Onn:
        """The parameters, averaged over the last steps to calm the draws, as a network with raw inputs."""
        values = [value.numpy().astype(np.float64) for value in self.averages]
        weights, biases = values[: len(self.weights)], values[len(self.weights) :]
        weights[0] = weights[0] / self.start.task.full_scale
        layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
        return without_small_units(replace(self.start, layers=layers), SMALL)

    def step(self, step: int) -> float:
        """One optimizer step; returns the loss."""
        torch, schedule = self.torch, self.schedule
        if step % 50 == 0:
            self._find_extremes()
        cosine = 0.5 * (1.0 + np.cos(np.pi * step / schedule.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = schedule.rate * (0.01 + 0.99 * cosine)
        shape = (schedule.copies, schedule.batch)
        pick = torch.randint(len(self.inputs), shape, generator=self.random)
        signal = self.inputs[pick]
        signal = signal + schedule.input_noise * (2.0 * torch.rand(signal.shape, generator=self.random) - 1.0)
        disturbed = self._disturbed_weights()
        for i, (weight, bias) in enumerate(zip(disturbed, self.biases, strict=True)):
            signal = torch.baddbmm(bias, signal, weight.transpose(1, 2))
            if i < len(disturbed) - 1:
                signal = torch.relu(signal)
        excess = torch.relu((signal - self.levels[pick]).abs() - schedule.allowance)
        loss = (excess * excess).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*self.weights, *self.biases[:-1]], 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for average, value in zip(self.averages, (*self.weights, *self.biases), strict=True):
                average.lerp_(value, AVERAGE)
        return float(loss.detach())

    def _find_extremes(self) -> None:
        """The lattice points where its units are largest; they hardly move between updates."""
        torch = self.torch
        self.extremes = []
        with torch.no_grad():
            signal = self.inputs
            for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
                signal = torch.relu(signal @ weight.T + bias)
                self.extremes.append(self.inputs[signal.argmax(dim=0)])

    def _disturbed_weights(self) -> list[Tensor]:
        """Copies of every weight with the matrix error of the gauge, each of shape (copies, out, in)."""
        torch, schedule = self.torch, self.schedule
        columns = torch.ones(self.inputs.shape[1])
        disturbed = []
        for i, weight in enumerate(self.weights):
            rows = self._maxima(i) if i < len(self.extremes) else torch.ones(weight.shape[0])
            ratio = columns[None, :] / rows[:, None]
            norm = torch.linalg.matrix_norm(weight * ratio, ord=2)
            size = schedule.noise * norm / weight.shape[1] ** 0.5 / ratio
            draw = torch.randn((schedule.copies, *weight.shape), generator=self.random)
            disturbed.append(weight + size * draw)
            columns = rows
        return disturbed

    def _maxima(self, hidden: int) -> Tensor:
        """Maxima over the lattice of the units of a hidden layer, differentiable in the parameters."""
        torch = self.torch
        signal = self.extremes[hidden]
        for weight, bias in zip(self.weights[:hidden], self.biases[:hidden], strict=False):
            signal = torch.relu(signal @ weight.T + bias)
        own = (signal * self.weights[hidden]).sum(dim=1) + self.biases[hidden]
        # A unit that died has no scale; the gauge drops it, and the floor only keeps the division finite.
        maxima: Tensor = own.clamp(min=SMALL)
        return maxima
