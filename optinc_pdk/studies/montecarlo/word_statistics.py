"""Statistics of the words that the servers of one chip read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import error_counts
from optinc_pdk.averaging.word_score import WordScore, score_outputs
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.signoff.function import FunctionInputs, symbol_assignments
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.detection import network_of
from optinc_pdk.simulate.transmission.noise import Noise
from optinc_pdk.simulate.transmission.reception import ReceivedBatch, receive_batches
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors

DIGITS = 9
"""Decimals of a margin that are kept: the last bits of a solution depend on the machine."""
ORDER_SEED = 2604
PLAIN = ("inputs", "exact", "words", "wrong", "margin", "saturated", "fault", "estimated_word_error_rate")
"""Attributes of an outcome that JSON holds as they are."""
MAX_MARGIN = 1e30
MAX_COUNT = 2**53
"""Largest magnitude of a margin and largest count in a file; summaries add them up in double precision."""


@dataclass(frozen=True)
class WordOutcome(WordScore):
    """Score of the words that the servers of one chip read.

    It extends :class:`optinc_pdk.averaging.word_score.WordScore` by:

    Attributes:
        saturated: Number of modulator amplitudes that were clipped to full scale.
        fault: Why the chip is unusable; empty if it is usable. The servers of an unusable chip read zeros only.
        estimated_word_error_rate: Estimate for the noise with which words were read, which reaches far below what can
            be counted; see :mod:`optinc_pdk.studies.error_estimate`. None if there was no noise.
    """

    saturated: int
    fault: str = ""
    estimated_word_error_rate: float | None = None

    @property
    def form(self) -> tuple[int, int]:
        """Numbers of inputs and of words, which are equal for all samples of a run."""
        return self.inputs, self.words

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON-compatible data."""
        plain = {key: getattr(self, key) for key in PLAIN}
        return plain | {"errors": {str(error): count for error, count in self.errors.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WordOutcome:
        """Build an outcome from the data of :meth:`to_json`.

        Raises:
            TypeError: A key is missing or unknown, or a value has the wrong type.
            ValueError: A number is out of range, or the counts contradict each other.
        """
        outcome = cls(**{**data, "errors": {int(error): count for error, count in dict(data["errors"]).items()}})
        counts = (
            outcome.inputs,
            outcome.exact,
            outcome.words,
            outcome.wrong,
            outcome.saturated,
            *outcome.errors.values(),
        )
        if not all(type(count) is int for count in counts) or not isinstance(outcome.fault, str):
            raise TypeError("a count is not an integer, or the fault is not a string")
        if (
            not (
                0 <= outcome.exact <= outcome.inputs > 0
                and 0 <= outcome.wrong <= outcome.words > 0
                and min(counts) >= 0
            )
            or max(counts) > MAX_COUNT
        ):
            raise ValueError("the counts contradict each other")
        inexact = outcome.inputs - outcome.exact
        if outcome.wrong != sum(outcome.errors.values()) or not (
            inexact <= outcome.wrong <= inexact * (outcome.words // outcome.inputs)
        ):
            raise ValueError("the errors contradict the counts")
        # compared instead of converted: an integer may be too large for a float
        if type(outcome.margin) not in (int, float) or not abs(outcome.margin) <= MAX_MARGIN:
            raise ValueError("the margin is not finite")
        rate = outcome.estimated_word_error_rate
        if rate is not None and (type(rate) not in (int, float) or not 0.0 <= rate <= 1.0):
            raise ValueError("the estimated word-error rate is not a probability")
        return outcome


def read_words(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise | None = None, seed: int = 0
) -> WordOutcome:
    """Send every input through a chip and score the words that the servers read.

    Args:
        s: S-parameters of the chip.
        inputs: The inputs. For a lattice, the assignment of symbols to servers that is worst for this chip is tried as
            well.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers.
        noise: Noise of lasers and detectors; None for no noise.
        seed: Seed of the noise for the first assignment; each further assignment uses the next higher seed.
    """
    saturated = 0

    def outputs() -> Iterator[tuple[slice | Ints, Floats]]:
        nonlocal saturated
        for words, batch in _received(s, inputs, board, bias, noise, seed):
            saturated += batch.saturated()
            yield words, batch.outputs

    score = score_outputs(outputs(), inputs.task, inputs.ideal, inputs.levels)
    return WordOutcome(**asdict(replace(score, margin=round(score.margin, DIGITS))), saturated=saturated)


def reads_every_word(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise | None = None, seed: int = 0
) -> bool:
    """Return whether the servers read every word correctly; arguments as for :func:`read_words`.

    It ends at the first batch with a wrong word.
    """
    return all(
        score_outputs([(slice(None), batch.outputs)], inputs.task, inputs.ideal[words], inputs.levels[words]).wrong == 0
        for words, batch in _received(s, inputs, board, bias, noise, seed)
    )


def _received(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise | None, seed: int
) -> Iterator[tuple[slice | Ints, ReceivedBatch]]:
    """Yield the words and what they cause, of all batches of all assignments."""
    network = network_of(s, board, bias, 0)
    for number, symbols in enumerate(symbol_assignments(inputs, s, board, bias)):
        if noise is None or noise.shape.negligible:
            for batch in receive_batches(symbols, network, board, bias, noise=noise, seed=seed + number):
                yield batch.words, batch
            continue
        # symbols run into each other, and words in use come in random order
        order = np.random.default_rng((ORDER_SEED, seed + number)).permutation(len(symbols))
        sent = symbols[order]
        for batch in receive_batches(sent, network, board, bias, noise=noise, seed=seed + number):
            yield order[batch.words], batch


def estimated_error_rate(s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise) -> float:
    """Estimate the word-error rate of a chip, see :mod:`optinc_pdk.studies.error_estimate`.

    Args:
        s: S-parameters of the chip.
        inputs: The inputs, of which a part is drawn at random.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers.
        noise: Noise of lasers and detectors.
    """
    return min(estimate_errors(error_margins(s, inputs, board, bias), noise).rate, 1.0)


def unusable_outcome(inputs: FunctionInputs, board: Board, fault: str, noise: Noise | None = None) -> WordOutcome:
    """Return the outcome of an unusable chip, whose servers read zeros for every input.

    Args:
        inputs: The inputs.
        board: Board netlist that joins the chip's fibres.
        fault: Why the chip is unusable.
        noise: Noise with which words would be read; None for no noise.
    """
    each = len(board.outputs) * inputs.assignments
    errors = error_counts(-inputs.ideal)
    wrong = sum(errors.values())
    return WordOutcome(
        inputs=len(inputs.ideal),
        exact=int((inputs.ideal == 0).sum()),
        words=each * len(inputs.ideal),
        wrong=each * wrong,
        margin=0.5 - float((inputs.levels * inputs.task.output_resolution).max()),
        saturated=0,
        errors={error: each * count for error, count in errors.items()},
        fault=fault,
        # the words are certain, so their share is no estimate but stands for one
        estimated_word_error_rate=None if noise is None else wrong / len(inputs.ideal),
    )
