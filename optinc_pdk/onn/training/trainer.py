"""One training in PyTorch: parameters, disturbances, losses, the optimizer's step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.onn.network import Factor, Layer, Onn
from optinc_pdk.onn.training.schedule import Schedule
from optinc_pdk.onn.training.starts import balanced, without_small_units

if TYPE_CHECKING:
    from torch import Tensor

SMALL = 1e-2
"""Maximum below which a hidden unit is dropped; trained units are of the order of 1."""

AVERAGE = 2e-3
"""Share of the newest parameters in their running average, which is what is judged and kept."""

SCAN = 100
"""Steps between two looks at the lattice: for the hard points, and for where each unit is largest."""

SCANNED = 2**17
"""Lattice points looked over at a time, drawn at random from a larger lattice."""

POOL = 2048
"""Hard points kept."""


class Trainer:
    """The state of one training: parameters in the gauge at its start, their average, optimizer, generator."""

    def __init__(self, start: Onn, schedule: Schedule, seed: int, device: str) -> None:
        """Take the parameters over and lay the lattice out, or a sample of one that is not enumerable."""
        self.start, self.schedule, self.device = start, schedule, device
        task = start.task
        self.random = torch.Generator(device).manual_seed(seed)
        # Piece by piece: in double precision a large lattice would take three times the memory.
        inputs, levels = [], []
        for points in task.pieces():
            inputs.append(self._tensor(points / task.input_maxima))
            levels.append(self._tensor(task.targets(points)))
        self.inputs, self.levels = torch.cat(inputs), torch.cat(levels)
        self.resolution = self._tensor(task.output_resolution)
        first, *others = start.layers
        layers = (Layer(first.weight * task.input_maxima, first.bias), *others)
        if not schedule.approximate:
            layers = balanced(replace(start, layers=layers, factor=())).layers
        self.weights = [self._tensor(layer.weight).requires_grad_() for layer in layers]
        self.biases = [self._tensor(layer.bias).requires_grad_() for layer in layers]
        # receivers see |field|²: nothing can add a constant to the last layer's output, so its bias is not trained
        self.biases[-1].requires_grad_(False)
        self.optimizer = torch.optim.Adam([*self.weights, *self.biases[:-1]], lr=schedule.rate)
        self.project()
        self.averages = [value.detach().clone() for value in (*self.weights, *self.biases)]
        self.extremes: list[Tensor] = []
        self.hard = torch.zeros(0, dtype=torch.int64, device=device)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(np.array(array), dtype=torch.float32, device=self.device)

    def network(self) -> Onn:
        """The parameters, averaged over the last steps to calm the draws, as a network with raw inputs.

        Approximated layers are projected; without any, units that became next to nothing are left out.
        """
        values = [value.cpu().numpy().astype(np.float64) for value in self.averages]
        weights, biases = values[: len(self.weights)], values[len(self.weights) :]
        factor: list[Factor] = ["svd"] * len(weights)
        for i in self.schedule.approximate:
            factor[i] = ("approx", min(weights[i].shape))
            weights[i] = _projected(weights[i])
        weights[0] = weights[0] / self.start.task.input_maxima
        layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
        onn = replace(self.start, layers=layers, factor=tuple(factor))
        return onn if self.schedule.approximate else without_small_units(onn, SMALL)

    def project(self) -> None:
        """Put every approximated layer onto blocks of a diagonal times a unitary."""
        for i in self.schedule.approximate:
            with torch.no_grad():
                weight = self.weights[i]
                weight.copy_(self._tensor(_projected(weight.cpu().numpy().astype(np.float64))))

    def step(self, step: int) -> float:
        """One optimizer step; returns the loss."""
        schedule = self.schedule
        noise = schedule.noise * min(1.0, step / (schedule.ramp * schedule.steps)) if schedule.ramp else schedule.noise
        if step % SCAN == 0:
            self._scan(noise)
        if schedule.approximate and step % schedule.project == 0:
            self.project()
        cosine = 0.5 * (1.0 + np.cos(np.pi * step / schedule.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = schedule.rate * (0.01 + 0.99 * cosine)
        pick = self._pick()
        signal = self.inputs[pick]
        if schedule.input_noise:
            shift = torch.rand(signal.shape, generator=self.random, device=self.device)
            signal = signal + schedule.input_noise * (2.0 * shift - 1.0)
        outputs = self._forward(signal, self._disturbed_weights(noise, schedule.copies))
        loss = self._loss(outputs, self.levels[pick], step)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([*self.weights, *self.biases[:-1]], 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for average, value in zip(self.averages, (*self.weights, *self.biases), strict=True):
                average.lerp_(value, AVERAGE)
        return float(loss.detach())

    def _pick(self) -> Tensor:
        """(copies, batch) points, the first of every batch from the hard ones."""
        shape = (self.schedule.copies, self.schedule.batch)
        pick = torch.randint(len(self.inputs), shape, generator=self.random, device=self.device)
        hard = round(self.schedule.hard * self.schedule.batch)
        if hard and len(self.hard):
            chosen = torch.randint(len(self.hard), (shape[0], hard), generator=self.random, device=self.device)
            pick[:, :hard] = self.hard[chosen]
        return pick

    def _forward(self, signal: Tensor, weights: list[Tensor]) -> Tensor:
        """Copies of points (copies, points, in) through as many copies of the network."""
        for i, (weight, bias) in enumerate(zip(weights, self.biases, strict=True)):
            signal = torch.baddbmm(bias, signal, weight.transpose(1, 2))
            if i < len(weights) - 1:
                signal = torch.relu(signal)
                if self.schedule.amplitude_noise:
                    size = self.schedule.amplitude_noise * self._maxima(i).detach()
                    draw = torch.randn(signal.shape, generator=self.random, device=self.device)
                    signal = torch.relu(signal + size * draw)
        return signal

    def _loss(self, outputs: Tensor, levels: Tensor, step: int) -> Tensor:
        error = outputs - levels
        if self.schedule.loss == "margin":
            excess = torch.relu(error.abs() * self.resolution - self.schedule.allowance)
            return (excess * excess).mean()
        places = torch.arange(error.shape[-1] - 1, -1, -1, device=self.device)
        if step < self.schedule.first_stage * self.schedule.steps:
            return (2.0**places / 2.0 ** places[0] * error * error).mean()
        word = (4.0**places * error).sum(dim=-1)
        return (word * word).mean()

    def _scan(self, noise: float) -> None:
        """Look for the points that are worst in one disturbed copy, and for those where each unit is largest."""
        with torch.no_grad():
            some = torch.arange(len(self.inputs), device=self.device)
            if len(self.inputs) > SCANNED:
                some = torch.randint(len(self.inputs), (SCANNED,), generator=self.random, device=self.device)
                some = torch.unique(torch.cat([some, self.hard]))
            signal = self.inputs[some]
            self.extremes = [signal[:1]] * (len(self.weights) - 1)
            for i, (weight, bias) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
                signal = torch.relu(signal @ weight.T + bias)
                self.extremes[i] = self.inputs[some[signal.argmax(dim=0)]]
            if self.schedule.hard:
                signal = self._forward(self.inputs[some][None], self._disturbed_weights(noise, 1))[0]
                worst = ((signal - self.levels[some]).abs() * self.resolution).amax(dim=1)
                self.hard = some[worst.topk(min(POOL, len(some))).indices]

    def _disturbed_weights(self, noise: float, copies: int) -> list[Tensor]:
        """Copies of every weight with the errors of the gauge, each of shape (copies, out, in)."""
        if not noise and self.schedule.drive_bits is None:
            return [weight.expand(copies, *weight.shape) for weight in self.weights]
        columns = torch.ones(self.inputs.shape[1], device=self.device)
        disturbed = []
        for i, weight in enumerate(self.weights):
            rows = self._maxima(i) if i < len(self.extremes) else torch.ones(weight.shape[0], device=self.device)
            ratio = columns[None, :] / rows[:, None]
            gauged = weight * ratio
            norm = torch.linalg.matrix_norm(gauged, ord=2)
            size = noise * norm / weight.shape[1] ** 0.5 / ratio
            draw = torch.randn((copies, *weight.shape), generator=self.random, device=self.device)
            rounding = torch.zeros_like(weight)
            if self.schedule.drive_bits is not None:
                # The gradient passes the rounding as if it were not there.
                grid = norm.detach() * 2.0 ** (1 - self.schedule.drive_bits)
                rounding = ((torch.round(gauged / grid) * grid - gauged) / ratio).detach()
            disturbed.append(weight + rounding + size * draw)
            columns = rows
        return disturbed

    def _maxima(self, hidden: int) -> Tensor:
        """Maxima over the lattice of the units of a hidden layer, differentiable in the parameters."""
        signal = self.extremes[hidden]
        for weight, bias in zip(self.weights[:hidden], self.biases[:hidden], strict=False):
            signal = torch.relu(signal @ weight.T + bias)
        own = (signal * self.weights[hidden]).sum(dim=1) + self.biases[hidden]
        # A unit that died has no scale; the gauge drops it, and the floor only keeps the division finite.
        return own.clamp(min=SMALL)


def _projected(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return unitary_diagonal(weight).matrix()
