"""One training in PyTorch: parameters, random errors, losses, optimiser steps.

Units whose weights are equal up to a positive factor read one row of the optical matrix. The parameters are the rows
and the factors of the units, so that training keeps the sharing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks.layers import FactorMethod, Layer, shared_rows
from optinc_pdk.networks.network import AveragingNetwork
from optinc_pdk.networks.training.initialisation import balance_weights, without_small_units
from optinc_pdk.networks.training.schedule import TrainingSchedule
from optinc_pdk.options import UPPER_LIMIT

if TYPE_CHECKING:
    from torch import Tensor


def leaky_clip(signal: Tensor, leak: float) -> Tensor:
    """Clip a signal to 0 ... 1, with a gradient outside this range as well, so that units there keep learning.

    The slope of the gradient just outside the range is ``leak``, 0 for the true gradient; at a distance d it is leak /
    (1 + d)².
    """
    clipped: Tensor = _LeakyClip.apply(signal, leak)  # type: ignore[no-untyped-call]
    return clipped


class _LeakyClip(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, signal: Tensor, leak: float) -> Tensor:
        context.save_for_backward(signal)
        context.leak = leak
        return signal.clamp(0.0, 1.0)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (signal,) = context.saved_tensors
        distance = (signal - signal.clamp(0.0, 1.0)).abs()
        slope = torch.where(distance > 0.0, context.leak / (1.0 + distance) ** 2, 1.0)
        return gradients[0] * slope, None


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

TINY = 1e-12
"""Least norm or singular value by which is divided."""

LEAKING = 0.8
"""Share of the steps over which the surrogate gradient of clipped units falls to 0."""

PENALTY, PENALTY_RAMP = 1e-3, (0.3, 0.6)
"""Weight of the squared logarithms by which condition numbers exceed their limit, and the shares of the steps between
which it grows from 0: early, it would keep the training from finding a network."""


class Trainer:
    """State of one training: parameters, their running average, optimiser and random generator.

    The start is a normalised network. The weights of the first layer are multiplied by the largest value of each input,
    so inputs range from 0 to 1.
    """

    def __init__(self, start: AveragingNetwork, schedule: TrainingSchedule, seed: int, device: str) -> None:
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
        self.clipped, self.sine = UPPER_LIMIT[start.activation] is not None, start.activation == "sine"
        if not schedule.approximate and not self.clipped:
            layers = balance_weights(replace(start, layers=layers, factor=())).layers
        self.rows = [self._rows(i, layer) for i, layer in enumerate(layers)]
        self.weights, self.factors = [], []
        for layer, row in zip(layers, self.rows, strict=True):
            weight, factor = _split(layer.weight, row)
            self.weights.append(self._tensor(weight).requires_grad_())
            self.factors.append(self._tensor(factor).requires_grad_(len(row) > len(weight)))
            if self.factors[-1].requires_grad:
                # constant units stay without weights
                self.factors[-1].register_hook(partial(torch.mul, self._tensor(row >= 0)))  # type: ignore[no-untyped-call]
        self.readers = [torch.as_tensor(row, device=device) for row in self.rows]
        self.biases = [self._tensor(layer.bias).requires_grad_() for layer in layers]
        self.biases[-1].requires_grad_(schedule.output_bias)
        self.parameters = [*self.weights, *self.biases, *self.factors]
        self.trained = [value for value in self.parameters if value.requires_grad]
        self.optimizer = torch.optim.Adam(self.trained, lr=schedule.rate)
        self.project()
        self.averages = [value.detach().clone() for value in self.parameters]
        self.extremes: list[Tensor] = []
        self.hard = torch.zeros(0, dtype=torch.int64, device=device)
        self.leak = 0.0

    def _rows(self, index: int, layer: Layer) -> Ints:
        """(out,) row of each unit: shared in hidden layers, where errors are those of rows; -1 for constant units."""
        last = index == len(self.start.layers) - 1
        if last or self.schedule.errors == "weights" or index in self.schedule.approximate:
            return np.arange(layer.outputs)
        return shared_rows(layer.weight)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.as_tensor(np.array(array), dtype=torch.float32, device=self.device)

    def network(self) -> AveragingNetwork:
        """Returns the network with the running average of the parameters, for inputs that are not normalised.

        The average over the last steps reduces the noise of the parameters. Approximated layers are projected onto
        blocks; if there are none, hidden units with almost no signal are removed.
        """
        values = [value.cpu().numpy().astype(np.float64) for value in self.averages]
        count = len(self.weights)
        biases = values[count : 2 * count]
        weights = [
            factor[:, np.newaxis] * weight[row]
            for weight, factor, row in zip(values[:count], values[2 * count :], self.rows, strict=True)
        ]
        factor: list[FactorMethod] = ["svd"] * len(weights)
        for i in self.schedule.approximate:
            factor[i] = ("approx", min(weights[i].shape))
            weights[i] = _projected(weights[i])
        weights[0] = weights[0] / self.start.task.input_maxima
        layers = tuple(Layer(weight, bias) for weight, bias in zip(weights, biases, strict=True))
        network = replace(self.start, layers=layers, factor=tuple(factor))
        return network if self.schedule.approximate else without_small_units(network, SMALL)

    def project(self) -> None:
        """Projects every approximated layer, in place, onto blocks of a diagonal times a unitary matrix."""
        for i in self.schedule.approximate:
            with torch.no_grad():
                weight = self.weights[i]
                weight.copy_(self._tensor(_projected(weight.cpu().numpy().astype(np.float64))))

    def step(self, step: int) -> float:
        """Perform one optimiser step, whose index from 0 determines matrix error and learning rate, and return its
        loss.
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
        self.leak = schedule.leak * max(0.0, 1.0 - step / (LEAKING * schedule.steps))
        indices = self._draw_indices()
        signal = self.inputs[indices]
        if schedule.input_noise:
            shift = torch.rand(signal.shape, generator=self.random, device=self.device)
            signal = signal + schedule.input_noise * (2.0 * shift - 1.0)
        outputs = self._forward(signal, self._perturbed_weights(noise, schedule.copies))
        loss = self._loss(outputs, self.levels[indices], step)
        if schedule.condition is not None:
            loss = loss + self._penalty(schedule.condition, step)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for average, value in zip(self.averages, self.parameters, strict=True):
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
        scales = self._noise_scales() if self.schedule.field_noise else []
        for i, (weight, bias) in enumerate(zip(weights, self.biases, strict=True)):
            signal = torch.baddbmm(bias, signal, weight.transpose(1, 2))
            if scales:
                fields = torch.randn(
                    (*signal.shape[:2], len(self.weights[i])), generator=self.random, device=self.device
                )
                signal = signal + scales[i] * fields[..., self.readers[i]]
            if i < len(weights) - 1:
                signal = self._activate(signal)
                if self.schedule.amplitude_noise:
                    size = self.schedule.amplitude_noise * self._maxima(i, self._unit_weights()).detach()
                    draw = torch.randn(signal.shape, generator=self.random, device=self.device)
                    signal = self._activate(signal + size * draw)
        return signal

    def _activate(self, signal: Tensor) -> Tensor:
        if not self.clipped:
            return torch.relu(signal)
        limited = leaky_clip(signal, self.leak)
        return torch.sin(0.5 * torch.pi * limited) if self.sine else limited

    def _unit_weights(self) -> list[Tensor]:
        """Weight of every layer, (out, in): the rows of its units times their factors."""
        return [
            weight if self.schedule.errors == "weights" else factor[:, None] * weight[reader]
            for weight, factor, reader in zip(self.weights, self.factors, self.readers, strict=True)
        ]

    def _penalty(self, limit: float, step: int) -> Tensor:
        """Penalty of the singular values of every Q that are too small for a condition number."""
        start, end = PENALTY_RAMP
        weight = PENALTY * min(1.0, max(0.0, (step / self.schedule.steps - start) / (end - start)))
        total = torch.zeros((), device=self.device)
        for rows in self.weights:
            values = torch.linalg.svdvals(rows / rows.norm(dim=1, keepdim=True).clamp(min=TINY))
            excess = torch.relu(torch.log(values[0] / values.clamp(min=TINY)) - float(np.log(limit)))
            total = total + (excess * excess).sum()
        return weight * total

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
            for i, (weight, bias) in enumerate(zip(self._unit_weights()[:-1], self.biases[:-1], strict=True)):
                signal = self._activate(signal @ weight.T + bias)
                self.extremes[i] = self.inputs[points[signal.argmax(dim=0)]]
            if self.schedule.hard:
                signal = self._forward(self.inputs[points][None], self._perturbed_weights(noise, 1))[0]
                error = ((signal - self.levels[points]).abs() * self.resolution).amax(dim=1)
                self.hard = points[error.topk(min(POOL, len(points))).indices]

    def _perturbed_weights(self, noise: float, copies: int) -> list[Tensor]:
        """Copies of every weight with matrix errors and rounding, each of shape (copies, out, in)."""
        weights = self._unit_weights()
        if not noise and self.schedule.drive_bits is None:
            return [weight.expand(copies, *weight.shape) for weight in weights]
        columns = torch.ones(self.inputs.shape[1], device=self.device)
        perturbed = []
        for i, weight in enumerate(weights):
            maxima = self._maxima(i, weights) if i < len(self.extremes) else torch.ones(len(weight), device=self.device)
            ratio = columns[None, :] / maxima[:, None]
            if self.schedule.errors == "weights":
                perturbed.append(weight + self._errors(weight * ratio, noise, copies) / ratio)
            else:
                # Q by its rows: columns are scaled, the scale of a row is electronic
                rows = self.weights[i] * columns
                norm = rows.norm(dim=1, keepdim=True).clamp(min=TINY)
                errors = self._errors(rows / norm, noise, copies) * norm / columns
                perturbed.append(weight + self.factors[i][:, None] * errors[:, self.readers[i]])
            columns = maxima
        return perturbed

    def _noise_scales(self) -> list[Tensor]:
        """For each layer, (out,) standard deviation of the pre-activations because of the field noise."""
        weights = self._unit_weights()
        columns = torch.ones(self.inputs.shape[1], device=self.device)
        scales = []
        for i, factor in enumerate(self.factors):
            rows = self.weights[i] * columns
            norm = rows.norm(dim=1).clamp(min=TINY)
            spread = self.schedule.field_noise * torch.linalg.matrix_norm(rows / norm[:, None], ord=2)
            scales.append(spread * factor.abs() * norm[self.readers[i]])
            if i < len(self.extremes):
                columns = self._maxima(i, weights)
        return scales

    def _errors(self, matrix: Tensor, noise: float, copies: int) -> Tensor:
        """(copies, m, n) random matrix errors and rounding errors of a matrix (m, n)."""
        norm = torch.linalg.matrix_norm(matrix, ord=2)
        size = noise * norm / matrix.shape[1] ** 0.5
        draw = torch.randn((copies, *matrix.shape), generator=self.random, device=self.device)
        rounding = torch.zeros_like(matrix)
        if self.schedule.drive_bits is not None:
            # Straight-through estimator: the gradient ignores the rounding.
            grid = norm.detach() * 2.0 ** (1 - self.schedule.drive_bits)
            rounding = (torch.round(matrix / grid) * grid - matrix).detach()
        perturbation: Tensor = rounding + size * draw
        return perturbation

    def _maxima(self, hidden: int, weights: list[Tensor]) -> Tensor:
        """Maxima over the lattice of the units of a hidden layer, differentiable in the parameters."""
        signal = self.extremes[hidden]
        for weight, bias in zip(weights[:hidden], self.biases[:hidden], strict=False):
            signal = self._activate(signal @ weight.T + bias)
        maxima = (signal * weights[hidden]).sum(dim=1) + self.biases[hidden]
        # A dead unit has no scale and is removed by the normalisation; the limit keeps the division finite.
        return maxima.clamp(min=SMALL, max=1.0 if self.clipped else None)


def _split(weight: Floats, row: Ints) -> tuple[Floats, Floats]:
    """Rows (rows, in) and factors (out,) of a weight: the row of a unit is that of the first unit that reads it."""
    rows = np.zeros((int(row.max()) + 1, weight.shape[1]))
    units = np.flatnonzero(row >= 0)[::-1]
    rows[row[units]] = weight[units]
    factor = np.zeros(len(row))
    factor[units] = np.linalg.norm(weight[units], axis=1) / np.linalg.norm(rows[row[units]], axis=1).clip(min=TINY)
    return rows, factor


def _projected(weight: Floats) -> Floats:
    return unitary_diagonal(weight).matrix()
