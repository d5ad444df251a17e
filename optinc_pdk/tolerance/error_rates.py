"""Word-error rate against symbol rate: Monte-Carlo counts with noise, and a Gaussian estimate."""

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
from optinc_pdk.averaging.word_score import word_error_rate
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import FunctionInputs, check_board, function_inputs, symbol_assignments
from optinc_pdk.simulate import Scattering, transmit
from optinc_pdk.simulate.transmission.noise import Noise, noise_of
from optinc_pdk.simulate.transmission.noise_propagation import output_spread
from optinc_pdk.simulate.transmission.reception import TOP_LEVEL
from optinc_pdk.tolerance.montecarlo.summary import wilson_interval
from optinc_pdk.tolerance.montecarlo.word_statistics import read_words

Floats = NDArray[np.float64]

MOST_RATES = 101
MOST_ASSIGNMENTS = 2
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class RatePoint:
    """Word errors at one symbol rate.

    Attributes:
        symbol_rate_bd: Symbols per second.
        integration_s: Integration time of each reading.
        sent: Number of transmissions through the chip.
        words: Number of words read by all servers together.
        wrong: Number of these words that differ from the ideal average.
        low: Lower end of the 95 % confidence interval of the word-error rate; the transmissions are the trials.
        high: Upper end of this interval.
        gaussian_estimate: First-order estimate of the word-error rate with Gaussian noise; not a count.
        errors: Number of wrong words by their error, read minus ideal.
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
        """Share of wrong words, 0 … 1."""
        return word_error_rate(self.wrong, self.words)


@dataclass(frozen=True)
class NoiseCurve:
    """Word-error rates of one chip against the symbol rate.

    Attributes:
        laser_w: Optical power launched into every waveguide, in W.
        seed: Seed of the noise.
        noise: Noise model at each symbol rate.
        points: Results at each symbol rate, ascending.
    """

    laser_w: float
    seed: int
    noise: tuple[Noise, ...]
    points: tuple[RatePoint, ...]

    def to_json(self) -> dict[str, Any]:
        """Return assumptions and results as JSON-compatible data."""
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
    on_rate: Callable[[float], None] | None = None,
) -> NoiseCurve:
    """Count word errors with noise at several symbol rates, with the same random numbers at each rate.

    Args:
        s: S-parameters of the chip.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers.
        task: Task of the chip.
        process: Process of the cards.
        symbol_rates_bd: Symbols per second.
        laser_w: Optical power launched into every waveguide, in W; by default the card's.
        passes: Number of times that every input is sent.
        seed: Seed of the noise.
        on_rate: Called with each rate before it is evaluated.

    Raises:
        InputError: A power, rate, seed or number of passes is out of range, or the board is for another task.
    """
    check_board(board, task)
    if passes < 1 or seed < 0:
        raise InputError(f"passes {passes}, seed {seed}: give at least 1 pass and a seed of at least 0")
    noises = tuple(noise_of(process, laser_w, rate) for rate in sorted(set(symbol_rates_bd)))
    if not noises:
        raise InputError("no symbol rate given; give at least one")
    inputs = function_inputs(task)
    points = []
    for noise in noises:
        if on_rate is not None:
            on_rate(noise.symbol_rate_bd)
        points.append(_point(s, inputs, board, bias, noise, passes, seed))
    return NoiseCurve(noises[0].laser_w, seed, noises, tuple(points))


def _point(
    s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise, passes: int, seed: int
) -> RatePoint:
    errors: Counter[int] = Counter()
    words = wrong = 0
    for number in range(passes):
        # every assignment of symbols to servers has its own seed
        outcome = read_words(s, inputs, board, bias, noise, (seed * passes + number) * MOST_ASSIGNMENTS)
        words, wrong = words + outcome.words, wrong + outcome.wrong
        errors.update(outcome.errors)
    sent = words // len(board.outputs)
    # the servers' words of one transmission share the noise of the hidden layers, so transmissions are the trials
    low, high = wilson_interval(wrong / words, sent)
    return RatePoint(
        symbol_rate_bd=noise.symbol_rate_bd,
        integration_s=noise.integration_s,
        sent=sent,
        words=words,
        wrong=wrong,
        low=low,
        high=high,
        gaussian_estimate=gaussian_error_rate(s, inputs, board, bias, noise),
        errors=dict(sorted(errors.items())),
    )


def gaussian_error_rate(s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, noise: Noise) -> float:
    """Estimate the word-error rate for small Gaussian noise from the distance of each output to its thresholds.

    The estimate is of first order: noise does not shift the mean of an output, and its distribution is Gaussian.

    Args:
        s: S-parameters of the chip.
        inputs: The inputs.
        board: Board netlist that joins the chip's fibres.
        bias: Electronics of its neurons and receivers.
        noise: Noise of lasers and detectors.

    Returns:
        Mean probability, over inputs and servers, that a word is wrong.
    """
    scale = np.array([[bias.outputs[label] for label in row] for row in board.outputs])
    rates = []
    for symbols in symbol_assignments(inputs, s, board, bias):
        outputs = transmit(symbols, s, board, bias).outputs
        spread = output_spread(symbols, s, board, bias, noise)
        error_probability = _symbol_error_probability(
            outputs, spread, inputs.levels[:, np.newaxis], scale, noise, inputs.task.output_resolution
        )
        # probability of a wrong word from those of its symbols; logarithms keep precision far below 1
        rates.append(float(np.mean(-np.expm1(np.log1p(-np.minimum(error_probability, 1.0 - 1e-12)).sum(axis=2)))))
    return float(np.mean(rates))


def _symbol_error_probability(
    outputs: Floats,
    spread: Floats,
    level: NDArray[np.int64] | Floats,
    scale: Floats,
    noise: Noise,
    resolution: NDArray[np.int64],
) -> Floats:
    """Return (B, receivers, M) probabilities that a symbol is decided wrongly."""
    half = 0.5 / resolution
    up, down = np.asarray(level + half), np.asarray(np.abs(level - half), dtype=np.float64)
    too_high = ndtr(-(up - outputs) / _sigma(outputs, up, spread, scale, noise))
    # a receiver detects the squared field, so a field may also cross the threshold beyond zero
    too_high += ndtr(-(up + outputs) / np.maximum(spread, TINY))
    too_low = ndtr(-(outputs - down) / _sigma(outputs, down, spread, scale, noise))
    return np.where(up < TOP_LEVEL + 1 - half, too_high, 0.0) + np.where(level > 0, too_low, 0.0)


def _sigma(outputs: Floats, threshold: Floats, spread: Floats, scale: Floats, noise: Noise) -> Floats:
    """Return the standard deviation in levels with which an output y reaches a threshold t.

    The receiver's noise is one of the square, whose distance to the threshold is t² - y²; divided by t + y it is one
    in levels.
    """
    receiver_sigma = scale**2 * np.sqrt(noise.variance((outputs / scale) ** 2)) / (threshold + outputs)
    return np.maximum(np.hypot(spread, receiver_sigma), TINY)


def parse_rates(text: str | None, process: Process) -> list[float]:
    """Parse symbol rates: ``"1e6"``, ``"1e6,1e7"`` or ``"1e5:1e9:17"`` (first, last, count; logarithmic spacing).

    Args:
        text: The rates; by default 13 rates from the smallest to the largest of the card's budget.
        process: Process of the cards.

    Raises:
        InputError: The text has another form, or the rates are not above 0, too many, or above the card's limit.
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
    """Return the rates of a list or series; empty if the text is neither."""
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
