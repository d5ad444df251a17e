"""Parameters of a training, and the progress it reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class TrainingProgress:
    """State of a training, passed to the callback at every evaluation.

    Attributes:
        step: Steps done.
        steps: Steps in all.
        loss: Loss, averaged since the last evaluation.
        accuracy: Share of exact words over the lattice without errors, 0 ... 1.
        errors: Number of words of the lattice that are not exact.
        margin: Margin over the lattice, in levels.
        tolerance: Share of exact words under the matrix error of the training, 0 ... 1.
        best: Whether this is the best network so far.
        seconds: Training time, without interruptions.
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
    """Parameters of a training.

    Attributes:
        steps: Number of optimiser steps.
        noise: Matrix error ε of the normalised network, drawn again in every step.
        input_noise: Largest uniform input error, as a fraction of each input's largest value.
        rate: Learning rate of Adam at the start; it decreases to a hundredth along a cosine.
        allowance: Output error in levels that the margin loss ignores.
        batch: Lattice points per copy of the network.
        copies: Copies of the network with random errors per step.
        evaluations: Number of evaluations; the best network of them is the result.
        loss: "margin", the mean of max(|output - level| - allowance, 0)²; or "paper", the two stages of arXiv
            2603.28290: weighted mean squares of the outputs, significant ones more, then mean squares of the word.
        first_stage: Fraction of the steps with the first of the paper's stages.
        hard: Fraction of every batch taken from the points with the largest errors at the last scan of the lattice.
        ramp: Fraction of the steps during which the matrix error grows from 0 to `noise`.
        amplitude_noise: Standard deviation of every hidden signal, as a fraction of its largest value.
        drive_bits: Weights of the normalised network are rounded to 2^drive_bits steps over ±‖W‖₂; None for no
            rounding.
        approximate: Layers that are approximated by blocks of a diagonal times a unitary, of min(out, in) rows.
        project: Steps between projections of these layers; the result is projected too.
        stop: Whether to end as soon as every word is exact, also under errors, with a margin of 0.15.

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

    def __post_init__(self) -> None:
        """Check the ranges of all numbers."""
        object.__setattr__(self, "approximate", tuple(self.approximate))
        for name in ("steps", "batch", "copies", "evaluations", "project"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
        for name in ("noise", "input_noise", "amplitude_noise"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} = {getattr(self, name)} must lie within 0 ... 1")
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
        if self.drive_bits is not None and not 2 <= self.drive_bits <= 24:
            raise ValueError(f"drive_bits = {self.drive_bits} must lie within 2 ... 24")
        if any(layer < 0 for layer in self.approximate) or len(set(self.approximate)) < len(self.approximate):
            raise ValueError(f"approximate = {self.approximate} must contain layers from 0 on, each once")
