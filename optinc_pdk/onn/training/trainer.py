"""One training in PyTorch: parameters, random errors, losses, optimiser steps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.onn.network import FactorMethod, Layer, Onn
from optinc_pdk.onn.training.initialisation import balance_weights, without_small_units
from optinc_pdk.onn.training.schedule import TrainingSchedule

if TYPE_CHECKING:
    from torch import Tensor

SMALL = 1e-2
"""Maximum below which a hidden unit is removed; trained units are of the order of 1."""

AVERAGE = 2e-3
"""Weight of the newest parameters in their running average, which is evaluated and returned."""

SCAN = 100
"""Steps between two scans of the lattice for the hard points and for the maximum of each unit."""

SCANNED = 2**17
"""Largest number of lattice points in a scan; they are drawn at random from a larger lattice."""

POOL = 2048
"""Number of hard points that are stored."""


class Trainer:
    """State of one training: parameters, their running average, optimiser and random generator.

    The weights of the first layer are multiplied by the largest value of each input, so inputs range from 0 to 1.

    Args:
        start: Initial network, normalised.
        schedule: Parameters of the training.
        seed: Seed of all random numbers.
        device: PyTorch device, "cpu" or "cuda".
    """

    def __init__(self, start: Onn, schedule: TrainingSchedule, seed: int, device: str) -> None:
        """Copy the parameters and create the lattice, or a sample of a lattice that cannot be enumerated."""
        self.start, self.schedule, self.device = start, schedule, device
        task = start.task
        self.random = torch.Generator(device).manual_seed(seed)
        # Piece by piece: in double precision a large lattice would take three times the memory.
        inputs, levels = [], []
        for points in task.batches():
            inputs.append(self._tensor(points / task.input_maxima))
            levels.append(self._tensor(task.targets(points)))
        self.inputs, self.levels = torch.cat(inputs), torch.cat(levels)
        self.resolution = self._tensor(task.output_resolution)
        first, *others = start.layers
        layers = (Layer(first.weight * task.input_maxima, first.bias), *others)
        if not schedule.approximate:
            layers = balance_weights(replace(start, layers=layers, factor=())).layers
        self.weights = [self._tensor(layer.weight).requires_grad_() for layer in layers]
        self.biases = [self._tensor(layer.bias).requires_grad_() for layer in layers]
        # Receivers detect |field|², so the last layer has no bias to train.
        self.biases[-1].requires_grad_(False)
        self.optimizer = torch.optim.Adam([*self.weights, *self.biases[:-1]], lr=schedule.rate)
        self.project()
        self.averages = [value.detach().clone() for value in (*self.weights, *self.biases)]
        self.extremes: list[Tensor] = []
        self.hard = torch.zeros(0, dtype=torch.int64, device=device)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(np.array(array), dtype=torch.float32, device=self.device)

    def network(self) -> Onn:
        """Returns the network with the running average of the parameters, for inputs that are not normalised.

        The average over the last steps reduces the noise of the parameters. Approximated layers are projected onto
        blocks; if there are none, hidden units with almost no signal are removed.
        """
        values = [value.cpu().numpy().astype(np.float64) for value in self.averages]
        weights, biases = values[: len(self.weights)], values[len(self.weights) :]
        factor: list[FactorMethod] = ["svd"] * len(weights)
        for i in self.schedule.approximate:
            factor[i] = ("approx", min(weights[i].shape))
            weights[i] = _projected(weights[i])
        weights[0] = weights[0] / self.start.task.input_maxima
        layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
        onn = replace(self.start, layers=layers, factor=tuple(factor))
        return onn if self.schedule.approximate else without_small_units(onn, SMALL)

    def project(self) -> None:
        """Projects every approximated layer, in place, onto blocks of a diagonal times a unitary matrix."""
        for i in self.schedule.approximate:
            with torch.no_grad():
                weight = self.weights[i]
                weight.copy_(self._tensor(_projected(weight.cpu().numpy().astype(np.float64))))

    def step(self, step: int) -> float:
        """Performs one optimiser step and returns its loss.

        Args:
            step: Index of the step, from 0; it determines matrix error and learning rate.
        """
        schedule = self.schedule
        noise = schedule.noise * min(1.0, step / (schedule.ramp * schedule.steps)) if schedule.ramp else schedule.noise
        if step % SCAN == 0:
            self._scan(noise)
        if schedule.approximate and step % schedule.project == 0:
            self.project()
        cosine = 0.5 * (1.0 + np.cos(np.pi * step / schedule.steps))
        for group in self.optimizer.param_groups:
            group["lr"] = schedule.rate * (0.01 + 0.99 * cosine)
        indices = self._draw_indices()
        signal = self.inputs[indices]
        if schedule.input_noise:
            shift = torch.rand(signal.shape, generator=self.random, device=self.device)
            signal = signal + schedule.input_noise * (2.0 * shift - 1.0)
        outputs = self._forward(signal, self._perturbed_weights(noise, schedule.copies))
        loss = self._loss(outputs, self.levels[indices], step)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([*self.weights, *self.biases[:-1]], 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for average, value in zip(self.averages, (*self.weights, *self.biases), strict=True):
                average.lerp_(value, AVERAGE)
        return float(loss.detach())

    def _draw_indices(self) -> Tensor:
        """(copies, batch) indices of lattice points, the first of every batch from the hard ones."""
        shape = (self.schedule.copies, self.schedule.batch)
        indices = torch.randint(len(self.inputs), shape, generator=self.random, device=self.device)
        hard = round(self.schedule.hard * self.schedule.batch)
        if hard and len(self.hard):
            chosen = torch.randint(len(self.hard), (shape[0], hard), generator=self.random, device=self.device)
            indices[:, :hard] = self.hard[chosen]
        return indices

    def _forward(self, signal: Tensor, weights: list[Tensor]) -> Tensor:
        """Outputs (copies, points, out) of as many copies of the network, for inputs (copies, points, in)."""
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
        """Loss of the schedule for outputs and target levels, both (copies, points, out)."""
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
        """Finds the points with the largest errors in one copy with random errors, and the maximum of each unit."""
        with torch.no_grad():
            points = torch.arange(len(self.inputs), device=self.device)
            if len(self.inputs) > SCANNED:
                points = torch.randint(len(self.inputs), (SCANNED,), generator=self.random, device=self.device)
                points = torch.unique(torch.cat([points, self.hard]))
            signal = self.inputs[points]
            self.extremes = [signal[:1]] * (len(self.weights) - 1)
            for i, (weight, bias) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
                signal = torch.relu(signal @ weight.T + bias)
                self.extremes[i] = self.inputs[points[signal.argmax(dim=0)]]
            if self.schedule.hard:
                signal = self._forward(self.inputs[points][None], self._perturbed_weights(noise, 1))[0]
                error = ((signal - self.levels[points]).abs() * self.resolution).amax(dim=1)
                self.hard = points[error.topk(min(POOL, len(points))).indices]

    def _perturbed_weights(self, noise: float, copies: int) -> list[Tensor]:
        """Copies of every weight with matrix errors and rounding, each of shape (copies, out, in)."""
        if not noise and self.schedule.drive_bits is None:
            return [weight.expand(copies, *weight.shape) for weight in self.weights]
        columns = torch.ones(self.inputs.shape[1], device=self.device)
        perturbed = []
        for i, weight in enumerate(self.weights):
            rows = self._maxima(i) if i < len(self.extremes) else torch.ones(weight.shape[0], device=self.device)
            ratio = columns[None, :] / rows[:, None]
            normalised = weight * ratio
            norm = torch.linalg.matrix_norm(normalised, ord=2)
            size = noise * norm / weight.shape[1] ** 0.5 / ratio
            draw = torch.randn((copies, *weight.shape), generator=self.random, device=self.device)
            rounding = torch.zeros_like(weight)
            if self.schedule.drive_bits is not None:
                # Straight-through estimator: the gradient ignores the rounding.
                grid = norm.detach() * 2.0 ** (1 - self.schedule.drive_bits)
                rounding = ((torch.round(normalised / grid) * grid - normalised) / ratio).detach()
            perturbed.append(weight + rounding + size * draw)
            columns = rows
        return perturbed

    def _maxima(self, hidden: int) -> Tensor:
        """Maxima over the lattice of the units of a hidden layer, differentiable in the parameters."""
        signal = self.extremes[hidden]
        for weight, bias in zip(self.weights[:hidden], self.biases[:hidden], strict=False):
            signal = torch.relu(signal @ weight.T + bias)
        maxima = (signal * self.weights[hidden]).sum(dim=1) + self.biases[hidden]
        # A dead unit has no scale and is removed by the normalisation; the limit keeps the division finite.
        return maxima.clamp(min=SMALL)


def _projected(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return unitary_diagonal(weight).matrix()
