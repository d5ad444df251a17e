"""Parameters of a training, and the progress it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TrainingProgress:
    """State of a training, passed to the callback at every evaluation.

    Attributes:
        step: Number of completed optimiser steps.
        steps: Total number of optimiser steps.
        loss: Mean training loss since the last evaluation; NaN before the first step.
        accuracy: Fraction of lattice points whose word is exact, without errors, 0 ... 1.
        errors: Number of lattice points whose word is wrong, without errors.
        margin: Smallest margin over the lattice, in levels, without errors.
        tolerance: Fraction of exact words under the schedule's random matrix errors and field noise, 0 ... 1.
        best: Whether the network of this evaluation is the best so far.
        seconds: Training time in s, summed over all runs of an interrupted training.
    """

    step: int
    steps: int
    loss: float
    accuracy: float
    errors: int
    margin: float
    tolerance: float
    best: bool
    seconds: float


@dataclass(frozen=True)
class TrainingSchedule:
    """Hyperparameters of a training.

    Attributes:
        steps: Number of optimiser steps.
        noise: Relative matrix error ε of the normalised network, drawn again in every step.
        errors: What a matrix error is: "rows", Q + ε ‖Q‖₂ G/√n for the distinct rows Q of norm 1, which units that
            share them keep sharing; or "weights", W + ε ‖W‖₂ G/√n for all rows of the weights, each of its own.
        input_noise: Half-width of the uniform input error, as a fraction of each input's largest value.
        rate: Initial learning rate of Adam; it falls to a hundredth of this value along a cosine.
        allowance: Output error in levels that the margin loss does not penalise, 0 ... 0.5.
        batch: Number of lattice points per copy of the network and step.
        copies: Number of copies of the network per step, each with its own random errors.
        evaluations: Number of evaluations; the training returns the best network among them.
        loss: "margin", the mean of max(|output - level| - allowance, 0)²; or "paper", the two stages of arXiv
            2603.28290: first the mean squared error of the outputs, weighted by significance, then the mean squared
            error of the word.
        first_stage: Fraction of the steps that use the first stage of the "paper" loss.
        hard: Fraction of every batch that is drawn from the lattice points with the largest errors in the last scan.
        ramp: Fraction of the steps during which the matrix error grows linearly from 0 to `noise`.
        amplitude_noise: Standard deviation of the noise on every hidden signal, as a fraction of its largest value.
        field_noise: Standard deviation σ of the noise on every detected field, drawn for each detector and word: σ ‖Q‖₂
            is added to Q x, for inputs and hidden signals of maximum 1.
        drive_bits: The weights of the normalised network are rounded to 2^drive_bits steps over ±‖W‖₂; None for no
            rounding.
        approximate: Indices of the layers, from 0, that are approximated by blocks of a diagonal times a unitary matrix
            of min(out, in) modes.
        project: Number of steps between projections of these layers onto such blocks; the result is projected too.
        leak: In clipped networks, slope of the gradient just outside the linear range 0 ... 1, where the true gradient
            is 0. It falls to 0 over the first 0.8 of the steps, and with the square of the distance.
        condition: Condition number of every optical matrix Q above which it is penalised; None for no penalty.
        output_bias: Whether the biases of the last layer are trained; otherwise they are 0. On the chip they need
            another hidden unit.
        stop: Whether to end early, once every word is exact under matrix errors and the margin is at least 0.15.

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
    loss: Literal["margin", "paper"] = "margin"
    first_stage: float = 0.5
    hard: float = 0.0
    ramp: float = 0.0
    amplitude_noise: float = 0.0
    drive_bits: int | None = None
    approximate: tuple[int, ...] = ()
    project: int = 200
    stop: bool = False
    errors: Literal["rows", "weights"] = "rows"
    leak: float = 0.3
    condition: float | None = None
    output_bias: bool = False
    field_noise: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges of all numbers."""
        object.__setattr__(self, "approximate", tuple(self.approximate))
        for name in ("steps", "batch", "copies", "evaluations", "project"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("noise", "input_noise", "amplitude_noise", "field_noise"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(
                    f"{name} = {getattr(self, name)} must be at least 0 and below 1, relative to full scale or to the "
                    "norm of a matrix; give such a number, for example 0.003, or 0 to train without it"
                )
        for name in ("first_stage", "hard", "ramp"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} = {getattr(self, name)} is a fraction and must lie within 0 ... 1")
        if not 0.0 < self.rate < 1.0:
            raise ValueError(f"rate = {self.rate} must lie between 0 and 1")
        if not 0.0 <= self.allowance < 0.5:
            raise ValueError(
                f"allowance = {self.allowance} must lie within 0 ... 0.5; an error of 0.5 is a wrong decision"
            )
        if self.loss not in ("margin", "paper"):
            raise ValueError(f"loss = {self.loss!r} must be 'margin' or 'paper'")
        if self.errors not in ("rows", "weights"):
            raise ValueError(f"errors = {self.errors!r} must be 'rows' or 'weights'")
        if not 0.0 <= self.leak <= 1.0:
            raise ValueError(f"leak = {self.leak} must lie within 0 ... 1")
        if self.condition is not None and not 1.0 < self.condition < 1e9:
            raise ValueError(f"condition = {self.condition} must lie between 1 and 1e9")
        if self.condition is not None and self.errors == "weights":
            raise ValueError("condition needs errors = 'rows', because it is the condition number of their matrix")
        if self.field_noise and self.errors == "weights":
            raise ValueError("field_noise needs errors = 'rows', because it is the noise of the detectors of the rows")
        if self.drive_bits is not None and not 2 <= self.drive_bits <= 24:
            raise ValueError(f"drive_bits = {self.drive_bits} must lie within 2 ... 24")
        if any(layer < 0 for layer in self.approximate) or len(set(self.approximate)) < len(self.approximate):
            raise ValueError(f"approximate = {self.approximate} must contain layers from 0 on, each once")
