"""Words that a chip's servers read, against the ideal average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.function import Inputs, assignments, inputs_of
from optinc_pdk.simulate import Scattering, transmit
from optinc_pdk.simulate.noise import Noise

__all__ = ["Outcome", "inputs_of", "read_words"]

DIGITS = 9
"""Decimals of a margin that are kept: the last bits of a solution depend on the machine."""


@dataclass(frozen=True)
class Outcome:
    """What the servers of one chip read.

    Attributes:
        inputs: Inputs tried.
        exact: Inputs for which every server reads the ideal word under every assignment of symbols to servers.
        words: Words read by all servers for all inputs and assignments.
        wrong: Those that are not the ideal one.
        margin: min of 0.5 - |output - ideal level| in levels; below 0 where a symbol is missed.
        saturated: Modulator amplitudes that were cut to full scale.
        errors: Error of a word, read minus ideal, to the number of words that have it; no zero among them.
    """

    inputs: int
    exact: int
    words: int
    wrong: int
    margin: float
    saturated: int
    errors: Mapping[int, int]

    @property
    def accuracy(self) -> float:
        """Share of exact inputs."""
        return self.exact / self.inputs

    @property
    def word_error_rate(self) -> float:
        """Share of wrong words."""
        return self.wrong / self.words

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        plain = {key: getattr(self, key) for key in ("inputs", "exact", "words", "wrong", "margin", "saturated")}
        return plain | {"errors": {str(error): count for error, count in self.errors.items()}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        """Inverse of :meth:`to_json`."""
        return Outcome(**{**data, "errors": {int(error): count for error, count in data["errors"].items()}})


def read_words(
    s: Scattering, tried: Inputs, board: Board, bias: Bias, noise: Noise | None = None, seed: int = 0
) -> Outcome:
    """Send every input through a chip and compare what the servers read.

    Args:
        s: S-parameters of the chip.
        tried: The inputs; on the lattice, the worst assignment of this chip comes on top.
        board: What joins its fibres outside.
        bias: Electronics of its neurons and receivers.
        noise: Noise of light and detectors; none where left out.
        seed: Seed of the noise.
    """
    right = np.ones(len(tried.ideal), dtype=bool)
    words = wrong = saturated = 0
    margin, errors = np.inf, np.zeros(0, dtype=np.int64)
    for number, symbols in enumerate(assignments(tried, s, board, bias)):
        received = transmit(symbols, s, board, bias, noise=noise, seed=seed + number)
        error = tried.task.decode(received.levels) - tried.ideal[:, np.newaxis]
        missed = error != 0
        right &= ~missed.any(axis=1)
        words, wrong, saturated = words + error.size, wrong + int(missed.sum()), saturated + received.saturated
        margin = min(margin, float(np.min(0.5 - np.abs(received.outputs - tried.levels[:, np.newaxis]))))
        errors = np.concatenate([errors, error[missed]])
    value, count = np.unique(errors, return_counts=True)
    return Outcome(
        inputs=len(tried.ideal),
        exact=int(right.sum()),
        words=words,
        wrong=wrong,
        margin=round(margin, DIGITS),
        saturated=saturated,
        errors=dict(zip(value.tolist(), count.tolist(), strict=True)),
    )
