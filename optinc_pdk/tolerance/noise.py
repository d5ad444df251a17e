"""Word-error rate against symbol rate: words read with noise, and what a Gaussian would make of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.files import InputError
from optinc_pdk.signoff.function import Inputs, assignments, inputs_of, refuse_other_board
from optinc_pdk.simulate import Scattering, transmit
from optinc_pdk.simulate.network import TOP_LEVEL
from optinc_pdk.simulate.noise import Noise, noise_of
from optinc_pdk.simulate.spread import output_spread
from optinc_pdk.tolerance.montecarlo.summary import interval
from optinc_pdk.tolerance.montecarlo.words import read_words

Floats = NDArray[np.float64]

MOST_RATES = 101
MOST_ASSIGNMENTS = 2
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class RatePoint:
    """Words read at one symbol rate.

    Attributes:
        symbol_rate_bd: Symbols per second.
        integration_s: Time that each reading is integrated over.
        sent: How often words were sent through the chip.
        words: Words that all servers read.
        wrong: Those that are not the ideal average.
        low: Lower end of the 95 % interval of the word-error rate.
        high: Its upper end.
        gaussian_estimate: Word-error rate if Gaussian noise crossed the margins, to first order; not a count.
        errors: Error of a word, read minus ideal, to the number of words that have it.
    """

    symbol_rate_bd: float
    integration_s: float
    sent: int
    words: int
    wrong: int
    low: float
    high: float
    gaussian_estimate: float
    errors: Mapping[int, int]

    @property
    def word_error_rate(self) -> float:
        """Share of wrong words."""
        return self.wrong / self.words


@dataclass(frozen=True)
class NoiseCurve:
    """Word-error rates of one chip.

    Attributes:
        laser_w: Light launched into every guide.
        seed: Seed of the noise.
        noise: All noise at each rate.
        points: What was read at each rate, rising.
    """

    laser_w: float
    seed: int
    noise: tuple[Noise, ...]
    points: tuple[RatePoint, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data: what was assumed and read."""
        rows = []
        for noise, point in zip(self.noise, self.points, strict=True):
            errors = {str(error): count for error, count in point.errors.items()}
            rows.append(asdict(point) | {"word_error_rate": point.word_error_rate, "errors": errors})
            rows[-1]["noise"] = asdict(noise)
        return {"laser_w": self.laser_w, "seed": self.seed, "points": rows}


def word_error_curve(
    s: Scattering,
    board: Board,
    bias: Bias,
    task: Averaging,
    process: Process,
    symbol_rates_bd: Sequence[float],
    laser_w: float | None = None,
    passes: int = 1,
    seed: int = 0,
    watch: Callable[[float], None] | None = None,
) -> NoiseCurve:
    """Read every input with noise at some symbol rates; the draws of the noise are the same at each.

    Args:
        s: S-parameters of the chip.
        board: What joins its fibres outside.
        bias: Electronics of its neurons and receivers.
        task: What the chip is to compute.
        process: Process of the cards.
        symbol_rates_bd: Symbols per second.
        laser_w: Light launched into every guide; the card's where left out.
        passes: How often every input is sent.
        seed: Seed of the noise.
        watch: Called with each rate as it begins.

    Raises:
        InputError: A power, rate, seed or number of passes that cannot be, or a task that is not the chip's.
    """
    refuse_other_board(board, task)
    if passes < 1 or seed < 0:
        raise InputError(f"passes {passes}, seed {seed}: give at least 1 pass and a seed of at least 0")
    noises = tuple(noise_of(process, laser_w, rate) for rate in sorted(set(symbol_rates_bd)))
    if not noises:
        raise InputError("there is no symbol rate; give one at least")
    tried = inputs_of(task)
    points = []
    for noise in noises:
        if watch is not None:
            watch(noise.symbol_rate_bd)
        points.append(_point(s, tried, board, bias, noise, passes, seed))
    return NoiseCurve(noises[0].laser_w, seed, noises, tuple(points))


def _point(s: Scattering, tried: Inputs, board: Board, bias: Bias, noise: Noise, passes: int, seed: int) -> RatePoint:
    errors: Counter[int] = Counter()
    words = wrong = 0
    for number in range(passes):
        # a seed for each assignment of symbols to servers
        outcome = read_words(s, tried, board, bias, noise, (seed * passes + number) * MOST_ASSIGNMENTS)
        words, wrong = words + outcome.words, wrong + outcome.wrong
        errors.update(outcome.errors)
    sent = words // len(board.outputs)
    # servers' words of one sending share the noise of the hidden layers: sendings are the trials, not words
    low, high = interval(wrong / words, sent)
    return RatePoint(
        symbol_rate_bd=noise.symbol_rate_bd,
        integration_s=noise.integration_s,
        sent=sent,
        words=words,
        wrong=wrong,
        low=low,
        high=high,
        gaussian_estimate=gaussian_error_rate(s, tried, board, bias, noise),
        errors=dict(sorted(errors.items())),
    )


def gaussian_error_rate(s: Scattering, tried: Inputs, board: Board, bias: Bias, noise: Noise) -> float:
    """Word-error rate from every output's distance to its thresholds, if noise were Gaussian and small.

    To first order: noise neither moves the mean of an output, nor does it have tails of its own.
    """
    scale = np.array([[bias.outputs[label] for label in row] for row in board.outputs])
    rates = []
    for symbols in assignments(tried, s, board, bias):
        outputs = transmit(symbols, s, board, bias).outputs
        spread = output_spread(symbols, s, board, bias, noise)
        missed = _missed(outputs, spread, tried.levels[:, np.newaxis], scale, noise)
        # of a word, from those of its symbols; a sum of logarithms keeps what is far below 1
        rates.append(float(np.mean(-np.expm1(np.log1p(-np.minimum(missed, 1.0 - 1e-12)).sum(axis=2)))))
    return float(np.mean(rates))


def _missed(outputs: Floats, spread: Floats, level: NDArray[np.int64], scale: Floats, noise: Noise) -> Floats:
    """(B, servers, M) probability that a symbol is not read as it should be."""
    up, down = np.asarray(level + 0.5), np.asarray(np.abs(level - 0.5), dtype=np.float64)
    above = ndtr(-(up - outputs) / _sigma(outputs, up, spread, scale, noise))
    # a receiver sees the field's square, so a field may also cross on the other side of zero
    above += ndtr(-(up + outputs) / np.maximum(spread, TINY))
    below = ndtr(-(outputs - down) / _sigma(outputs, down, spread, scale, noise))
    return np.where(level < TOP_LEVEL, above, 0.0) + np.where(level > 0, below, 0.0)


def _sigma(outputs: Floats, threshold: Floats, spread: Floats, scale: Floats, noise: Noise) -> Floats:
    """Standard deviation of an output on its way to a threshold, in levels.

    A receiver's own noise is that of the square, t² - y² away from the threshold: so it counts over t + y.
    """
    own = scale**2 * np.sqrt(noise.variance((outputs / scale) ** 2)) / (threshold + outputs)
    return np.maximum(np.hypot(spread, own), TINY)


def parse_rates(text: str | None, process: Process) -> list[float]:
    """Symbol rates from ``"1e6"``, ``"1e6,1e7"`` or ``"1e5:1e9:17"`` (first, last, number; evenly on a logarithm).

    Args:
        text: The rates; where left out, 13 from the least useful rate of the card's budget to its largest.
        process: Process of the cards.

    Raises:
        InputError: Not of that form, not above 0, too many, or beyond the card's limit.
    """
    noise_of(process)
    budget = process.budget
    if text is None and budget is not None and budget.symbol_rate_max_bd is not None:
        text = f"{float(budget.symbol_rate_min_bd)}:{float(budget.symbol_rate_max_bd)}:13"
    rates = _rates(text or "")
    if not 0 < len(rates) <= MOST_RATES:
        raise InputError(
            f"symbol rates {text!r}: give symbols per second as 1e6, as 1e6,1e7 or as 1e5:1e9:17, at most "
            f"{MOST_RATES} of them"
        )
    for rate in rates:
        noise_of(process, None, rate)
    return rates


def _rates(text: str) -> list[float]:
    """None where the text is no list and no series."""
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        first, last, number = (
            convert(part) for convert, part in zip((float, float, int), text.split(":"), strict=True)
        )
        if not (min(first, last) > 0.0 and max(first, last) < math.inf):
            return [first, last]
        if number == 1 and first != last:
            return []
        return list(np.geomspace(first, last, min(int(number), MOST_RATES + 1)).tolist())
    except (ValueError, OverflowError):
        return []
