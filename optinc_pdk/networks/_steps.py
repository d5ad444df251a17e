"""A model of another package as a chain of steps, and what it is as layers with one activation between them.

Every reader of models (ONNX, PyTorch's modules and files, scikit-learn) yields steps; this module folds them. Steps
between two layers become part of the layers beside them, exactly: an affine step (batch normalisation, an added bias)
is multiplied into a layer, and a clamp with other bounds than those of an activation is the activation of scaled and
shifted signals. For example, ReLU6 is 6 · clip(x / 6, 0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.errors import InputError
from optinc_pdk.networks.layers import Layer
from optinc_pdk.options import UPPER_LIMIT, Activation


@dataclass(frozen=True, eq=False)
class Affine:
    """y = scale · x + shift, element by element; each is a number or an array (n,)."""

    scale: Floats | float = 1.0
    shift: Floats | float = 0.0


@dataclass(frozen=True)
class Clamp:
    """y = min(max(x, low), high); infinite bounds for none."""

    low: float
    high: float


@dataclass(frozen=True)
class Sine:
    """y = sin(x), of signals that a clamp has limited to 0 … π/2."""


@dataclass(frozen=True)
class LeftOut:
    """A last step that is left out: its name, and why; by default because it keeps which output is the largest."""

    name: str
    why: str = ""


SINE_ENDS = 1e-6
"""Largest distance of the arguments of a sine from 0 and π/2, in single precision."""
MOST_WEIGHTS = 2**25
"""Largest number of weights of a product of layers, 256 MiB; the layers themselves may have far fewer."""
RELU = Clamp(0.0, math.inf)
Step = tuple[str, Layer | Affine | Clamp | Sine | LeftOut]
"""Name of a step, for messages, and what it is."""


@dataclass(frozen=True, eq=False)
class FoldedModel:
    """A model as layers.

    Attributes:
        layers: The layers.
        activation: Activation between them; None for a single layer.
        remarks: What differs from the model, one sentence each.
    """

    layers: tuple[Layer, ...]
    activation: Activation | None
    remarks: tuple[str, ...]


def fold(steps: Iterable[Step]) -> FoldedModel:
    """Return layers and activation of the steps of a model.

    Raises:
        InputError: The steps are no chain of layers with one activation; the message begins with the name of a step.
    """
    chain = _Chain()
    for where, what in steps:
        chain.add(where, what)
    return chain.folded()


class _Chain:
    """A model that is folded step by step: ``layers`` up to now, and what follows the last one."""

    def __init__(self) -> None:
        self.layers: list[tuple[Floats, Floats]] = []
        self.where: list[str] = []
        self.activation: Activation | None = None
        self.clamp: Clamp | None = None
        self.clamped_at = ""
        # whether the sine of a modulator follows the clamp
        self.sine = False
        # what the next layer takes is scale · (signal, as transmitted) + shift
        self.after = Affine()
        self.remarks: list[str] = []
        self.left_out = ""

    def add(self, where: str, what: Layer | Affine | Clamp | Sine | LeftOut) -> None:
        """Add a step."""
        if self.left_out:
            raise InputError(
                f"{where}: follows {self.left_out}, which can be left out at the end only; remove one of them"
            )
        if isinstance(what, LeftOut):
            if not self.layers or self.clamp is not None:
                raise InputError(f"{where}: {what.name} does not follow the last layer; remove it")
            self.left_out = what.name
            same = "the sign of the output" if len(self.layers[-1][1]) == 1 else "the largest output"
            why = what.why or f"{same} is the same class without it"
            self.remarks.append(f"{what.name} at the end is left out: {why}")
        elif isinstance(what, Layer):
            self._layer(where, what)
        elif isinstance(what, Affine):
            self._affine(where, what)
        elif isinstance(what, Sine):
            self._sine(where)
        else:
            self._clamp(where, what)

    def _layer(self, where: str, layer: Layer) -> None:
        weight, bias = layer.weight, layer.bias
        if self.layers and self.layers[-1][0].shape[0] != layer.inputs:
            raise InputError(
                f"{where}: takes {layer.inputs} signals, and {self.where[-1]} gives {self.layers[-1][0].shape[0]}; "
                "correct one of them"
            )
        if self.layers and self.clamp is None:
            before = self.layers.pop()
            if weight.shape[0] * before[0].shape[1] > MOST_WEIGHTS:
                raise InputError(
                    f"{where}: the product with {self.where[-1]}, which has no activation after it, has "
                    f"{weight.shape[0]:,} x {before[0].shape[1]:,} weights, the limit is {MOST_WEIGHTS:,}; put an "
                    "activation between them"
                )
            self.remarks.append(
                f"{self.where.pop()} and {where} have no activation between them: they are one layer, the product of "
                "their matrices"
            )
            self.layers.append((weight @ before[0], weight @ before[1] + bias))
        else:
            if self.clamp is not None:
                self._end_activation(self.clamp)
            scale, shift = (_spread(where, value, layer.inputs) for value in (self.after.scale, self.after.shift))
            self.layers.append((weight * scale, weight @ shift + bias))
        self.where.append(where)
        self.clamp, self.after, self.sine = None, Affine(), False

    def _sine(self, where: str) -> None:
        """Add the sine of a modulator, which takes 0 … π/2."""
        ends = () if self.clamp is None or self.sine else (self.clamp.low, self.clamp.high)
        found = [np.asarray(self.after.scale * end + self.after.shift) for end in ends if math.isfinite(end)]
        wanted = zip(found, (0.0, 0.5 * math.pi), strict=False)
        if len(found) < 2 or not all(np.allclose(each, end, atol=SINE_ENDS) for each, end in wanted):
            raise InputError(
                f"{where}: a sine that is not that of a modulator, sin(π/2 · clip(z, 0, 1)); put the clip before it, "
                "for example with optinc_pdk.networks.training.modulator_sine.ModulatorSine"
            )
        self.after, self.sine = Affine(), True

    def _affine(self, where: str, step: Affine) -> None:
        if not (np.isfinite(step.scale).all() and np.isfinite(step.shift).all()):
            raise InputError(f"{where}: holds NaN or infinity; train again, or repair the values")
        if self.layers and self.clamp is None:
            weight, bias = self.layers[-1]
            scale, shift = (_spread(where, value, len(bias)) for value in (step.scale, step.shift))
            self.layers[-1] = weight * scale[:, np.newaxis], bias * scale + shift
        else:
            try:
                self.after = Affine(step.scale * self.after.scale, step.scale * self.after.shift + step.shift)
            except ValueError as fault:
                raise InputError(f"{where}: does not fit the step before it ({fault}); make them equal") from fault

    def _clamp(self, where: str, step: Clamp) -> None:
        if not self.layers:
            raise InputError(f"{where}: an activation that does not follow a layer; remove it")
        if not step.low < step.high:
            raise InputError(
                f"{where}: limits signals to {step.low:g} … {step.high:g}; give a lower and a higher limit"
            )
        low, high = step.low, step.high
        if (low, high) == (-math.inf, math.inf):
            return
        if self.sine:
            raise InputError(f"{where}: a second activation after {self.clamped_at}; put a layer between them")
        if self.clamp is not None:
            scale, shift = np.asarray(self.after.scale), np.asarray(self.after.shift)
            if scale.ndim or shift.ndim or scale <= 0.0:
                raise InputError(f"{where}: a second activation after {self.clamped_at}; put a layer between them")
            low, high = ((bound - float(shift)) / float(scale) for bound in (low, high))
            low, high = (min(max(bound, low), high) for bound in (self.clamp.low, self.clamp.high))
            if not low < high:
                raise InputError(f"{where}: makes the signals of {self.clamped_at} constant; remove one of them")
        self.clamp, self.clamped_at = Clamp(low, high), where

    def _end_activation(self, clamp: Clamp) -> None:
        """Make the clamp after the last layer an activation: scale and shift the signals before it and after it."""
        low, high = clamp.low, clamp.high
        finite = math.isfinite(low) and math.isfinite(high)
        activation: Activation = "sine" if self.sine else "clipped_relu" if finite else "relu"
        if self.activation not in (None, activation):
            raise InputError(
                f"{self.clamped_at}: the activation is {activation}, that of earlier layers is {self.activation}, and "
                "a chip has one for all layers; train with one of them"
            )
        self.activation = activation
        # clip(x, low, high) = origin + unit · activation((x - origin) / unit)
        origin = low if math.isfinite(low) else high
        limit = UPPER_LIMIT[activation]
        unit = (high - low) / limit if finite and limit is not None else 1.0 if math.isfinite(low) else -1.0
        if (origin, unit) != (0.0, 1.0):
            weight, bias = self.layers[-1]
            self.layers[-1] = weight / unit, (bias - origin) / unit
        if (origin, unit) != (0.0, 1.0) and not self.sine:
            self.after = Affine(self.after.scale * unit, self.after.scale * origin + self.after.shift)

    def folded(self) -> FoldedModel:
        """Return the whole model."""
        if not self.layers:
            raise InputError("the model has no layer; give one with two layers or more")
        if self.clamp is not None:
            raise InputError(f"{self.clamped_at}: an activation after the last layer; end with the layer")
        layers = []
        for where, (weight, bias) in zip(self.where, self.layers, strict=True):
            try:
                layers.append(Layer(weight, bias))
            except ValueError as fault:
                raise InputError(f"{where}: {fault}") from fault
        return FoldedModel(tuple(layers), self.activation, tuple(self.remarks))


def _spread(where: str, value: Floats | float, count: int) -> Floats:
    """Return a number, or an array of one for each signal, as the array.

    Raises:
        InputError: The array has another length.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.size not in (1, count):
        raise InputError(f"{where}: has {array.size} values for {count} signals; make them equal")
    return np.broadcast_to(array.reshape(-1), (count,))
