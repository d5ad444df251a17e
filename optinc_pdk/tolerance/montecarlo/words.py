"""Words that a chip's servers read, against the ideal average."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.averaging import error_counts
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.function import Inputs, assignments
from optinc_pdk.simulate import Scattering, transmit
from optinc_pdk.simulate.noise import Noise

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
        margin: min of 0.5 - |output - ideal level| in levels; below 0 where a symbol is missed, or where an output is
            more than half a level above the top one.
        saturated: Modulator amplitudes that were cut to full scale.
        errors: Error of a word, read minus ideal, to the number of words that have it; no zero among them.
        fault: Why the chip could not be used, where it could not; its servers are then taken to see no light.
    """

    inputs: int
    exact: int
    words: int
    wrong: int
    margin: float
    saturated: int
    errors: Mapping[int, int]
    fault: str = ""

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
        plain = {
            key: getattr(self, key) for key in ("inputs", "exact", "words", "wrong", "margin", "saturated", "fault")
        }
        return plain | {"errors": {str(error): count for error, count in self.errors.items()}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Outcome:
        """Inverse of :meth:`to_json`.

        Raises:
            TypeError: Something is missing, unknown or of another type.
            ValueError: A number is out of range.
        """
        found = Outcome(**{**data, "errors": {int(error): count for error, count in dict(data["errors"]).items()}})
        counts = (found.inputs, found.exact, found.words, found.wrong, found.saturated, *found.errors.values())
        if not all(type(count) is int for count in counts) or not isinstance(found.fault, str):
            raise TypeError("a count is no integer, or the fault no text")
        if not (0 <= found.exact <= found.inputs > 0 and 0 <= found.wrong <= found.words > 0 and min(counts) >= 0):
            raise ValueError("counts do not fit each other")
        missed = found.inputs - found.exact
        if found.wrong != sum(found.errors.values()) or not (
            missed <= found.wrong <= missed * (found.words // found.inputs)
        ):
            raise ValueError("errors do not fit the counts")
        if type(found.margin) not in (int, float) or not math.isfinite(found.margin):
            raise ValueError("the margin is not finite")
        return found


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
    words = saturated = 0
    margin, errors = np.inf, Counter[int]()
    for number, symbols in enumerate(assignments(tried, s, board, bias)):
        received = transmit(symbols, s, board, bias, noise=noise, seed=seed + number)
        read, ideal = tried.task.decode(received.levels), tried.ideal[:, np.newaxis]
        right &= (read == ideal).all(axis=1)
        errors.update(error_counts(read, ideal))
        words, saturated = words + read.size, saturated + received.saturated
        margin = min(margin, float(np.min(0.5 - np.abs(received.outputs - tried.levels[:, np.newaxis]))))
    return Outcome(
        inputs=len(tried.ideal),
        exact=int(right.sum()),
        words=words,
        wrong=errors.total(),
        margin=round(margin, DIGITS),
        saturated=saturated,
        errors=dict(sorted(errors.items())),
    )


def no_words(tried: Inputs, board: Board, fault: str) -> Outcome:
    """What the servers of a chip read that cannot be used: nothing but zeros.

    Args:
        tried: The inputs.
        board: What joins the chip's fibres outside.
        fault: Why it cannot be used.
    """
    # on the lattice, every input is tried with two assignments
    each = len(board.outputs) * (1 if tried.exhaustive else 2)
    errors = error_counts(np.zeros_like(tried.ideal), tried.ideal)
    return Outcome(
        inputs=len(tried.ideal),
        exact=int((tried.ideal == 0).sum()),
        words=each * len(tried.ideal),
        wrong=each * sum(errors.values()),
        margin=0.5 - float(tried.levels.max()),
        saturated=0,
        errors={error: each * count for error, count in errors.items()},
        fault=fault,
    )
