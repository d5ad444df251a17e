"""Outputs of a chip against the symbol rate, with noise: wrong words, or the comparison with a matrix or a network.

Wrong words are counted and estimated, with the receiver that suits the chip best, and the highest rate is found. Other
chips have the quietest amplifier and window that suit any chip (`noise_of`). All rates have the same random numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from optinc_pdk.averaging import Averaging
from optinc_pdk.averaging.score import word_error_rate
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias, Board
from optinc_pdk.errors import InputError
from optinc_pdk.signoff.function import FunctionInputs, check_board, function_inputs
from optinc_pdk.simulate import Scattering
from optinc_pdk.simulate.transmission.noise import Noise, check_oscillator_power, noise_choices, noise_of, rate_limits
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import ErrorEstimate, error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import RateCount, RateLimits, best_noise, find_rate_limits, rates_without_limits
from optinc_pdk.studies.noisy_outputs import NoisyMatrix, NoisyNetwork, operating_noise
from optinc_pdk.studies.outcomes import Quantity, wilson_interval

MOST_RATES = 101
MOST_ASSIGNMENTS = 2
COUNTED = 1_000_000
"""Words that are counted at the highest symbol rate."""
COUNT_SEED = 1 << 20


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
        gaussian_estimate: Estimate of the word-error rate with Gaussian noise, see
            :mod:`optinc_pdk.studies.error_estimate`; not a count.
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
        oscillator_w: Optical power launched into each fibre that leads to local oscillators, in W.
        seed: Seed of the noise.
        noise: Noise model at each symbol rate, with the receiver that suits the chip best.
        points: Results at each symbol rate, ascending.
        limits: Highest symbol rate, and what limits it.
        without: Highest symbol rate without each limit, by its name.
    """

    laser_w: float
    oscillator_w: float
    seed: int
    noise: tuple[Noise, ...]
    points: tuple[RatePoint, ...]
    limits: RateLimits
    without: Mapping[str, float | None]

    def to_json(self) -> dict[str, Any]:
        """Return assumptions and results as JSON-compatible data."""
        rows, limits = [], self.limits.to_json() | {"without": dict(self.without)}
        for noise, point in zip(self.noise, self.points, strict=True):
            errors = {str(error): count for error, count in point.errors.items()}
            rows.append(asdict(point) | {"word_error_rate": point.word_error_rate, "errors": errors})
            rows[-1]["noise"] = noise.to_json()
        light = {"laser_w": self.laser_w, "oscillator_w": self.oscillator_w}
        return light | {"seed": self.seed, "points": rows, "limits": limits}


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
    on_rate: Callable[[float | None], None] | None = None,
) -> NoiseCurve:
    """Count word errors with noise at several symbol rates, estimate them, and find the highest rate.

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
        on_rate: Called with each rate before it is evaluated, and with None before the highest rate is searched.

    Raises:
        InputError: A power, rate, seed or number of passes is out of range, or the board is for another task.
    """
    check_board(board, task)
    if passes < 1 or seed < 0:
        raise InputError(f"passes {passes}, seed {seed}: give at least 1 pass and a seed of at least 0")
    choices = [noise_choices(process, laser_w, rate) for rate in sorted(set(symbol_rates_bd))]
    oscillator_w = check_oscillator_power(process, laser_w, board.oscillator_power)
    if not choices:
        raise InputError("no symbol rate given; give at least one")
    inputs = function_inputs(task)
    margins = error_margins(s, inputs, board, bias)
    points, noises = [], []
    for each in choices:
        if on_rate is not None:
            on_rate(each[0].symbol_rate_bd)
        noises.append(best_noise(margins, each))
        points.append(_point(s, inputs, board, bias, noises[-1], estimate_errors(margins, noises[-1]), passes, seed))
    if on_rate is not None:
        on_rate(None)
    limits = confirmed_limits(find_rate_limits(margins, process, laser_w), s, inputs, board, bias, COUNTED)
    without = rates_without_limits(margins, process, limits, laser_w)
    return NoiseCurve(noises[0].laser_w, oscillator_w, seed, tuple(noises), tuple(points), limits, without)


def confirmed_limits(
    limits: RateLimits, s: Scattering, inputs: FunctionInputs, board: Board, bias: Bias, least: int
) -> RateLimits:
    """Count words at the highest symbol rate of an estimate; if any is wrong, the rate is refuted and becomes None.

    Args:
        limits: The estimated limits.
        s: S-parameters of the chip.
        inputs: Inputs. Some are chosen at random, and sent until the servers have read ``least`` words.
        board: Board of the chip.
        bias: Electronics of its neurons and receivers.
        least: Least number of words that the servers read.
    """
    if limits.symbol_rate_bd is None:
        return limits
    sent = min(-(-least // (len(board.outputs) * inputs.assignments)), len(inputs.ideal))
    rows = np.random.default_rng(COUNT_SEED).permutation(len(inputs.ideal))[:sent]
    chosen = inputs.rows(rows)
    words = wrong = number = 0
    while words < least:
        outcome = read_words(s, chosen, board, bias, limits.noise, COUNT_SEED + number * MOST_ASSIGNMENTS)
        words, wrong, number = words + outcome.words, wrong + outcome.wrong, number + 1
    counted = RateCount(limits.symbol_rate_bd, words, wrong)
    return replace(limits, symbol_rate_bd=None if wrong else limits.symbol_rate_bd, counted=counted)


def _point(
    s: Scattering,
    inputs: FunctionInputs,
    board: Board,
    bias: Bias,
    noise: Noise,
    estimate: ErrorEstimate,
    passes: int,
    seed: int,
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
        gaussian_estimate=estimate.rate,
        errors=dict(sorted(errors.items())),
    )


def parse_rates(text: str | None, process: Process) -> list[float]:
    """Parse symbol rates: ``"1e6"``, ``"1e6,1e7"`` or ``"1e5:1e9:17"`` (first, last, count; logarithmic spacing).

    Without text, there are 13 rates from the lowest useful to the highest possible one of the process.

    Raises:
        InputError: The text has another form, or the rates are not above 0, too many, or beyond every bandwidth.
    """
    if text is None:
        low, high = rate_limits(process)
        return [float(rate) for rate in np.geomspace(low, high, 13)]
    rates = _rates(text)
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


@dataclass(frozen=True)
class NoisyPoint:
    """Comparison at one symbol rate: whether the chip keeps all limits, and the quantities by key."""

    symbol_rate_bd: float
    integration_s: float
    passed: bool
    values: Mapping[str, float]


@dataclass(frozen=True)
class CheckedCurve:
    """Comparison of a chip's outputs with its target against the symbol rate.

    Attributes:
        laser_w: Optical power launched into every guide, in W.
        receiver_oscillator_w: Power of the local oscillator at a coherent receiver, in W; None for photodiodes.
        seed: Seed of the noise.
        sent: Number of vectors sent at every rate.
        quantities: Quantities of the comparison.
        noise: Noise model at each symbol rate.
        points: Results at each symbol rate, ascending.
    """

    laser_w: float
    receiver_oscillator_w: float | None
    seed: int
    sent: int
    quantities: tuple[Quantity, ...]
    noise: tuple[Noise, ...]
    points: tuple[NoisyPoint, ...]

    @property
    def limited(self) -> bool:
        """Whether a quantity has a limit."""
        return any(quantity.limit is not None for quantity in self.quantities)

    @property
    def highest_bd(self) -> float | None:
        """Highest of the rates up to which all keep the limits; None for none, or without limits."""
        found = None
        for point in self.points if self.limited else ():
            if not point.passed:
                break
            found = point.symbol_rate_bd
        return found

    def to_json(self) -> dict[str, Any]:
        """Return assumptions and results as JSON-compatible data."""
        rows = [
            {"symbol_rate_bd": point.symbol_rate_bd, "integration_s": point.integration_s}
            | ({"passed": point.passed} if self.limited else {})
            | dict(point.values)
            | {"noise": noise.to_json()}
            for noise, point in zip(self.noise, self.points, strict=True)
        ]
        return {
            "laser_w": self.laser_w,
            "receiver_oscillator_w": self.receiver_oscillator_w,
            "seed": self.seed,
            "sent": self.sent,
            "limits": {one.key: one.limit for one in self.quantities if one.limit is not None},
            "points": rows,
            "highest_bd": self.highest_bd,
        }


def checked_noise_curve(
    outputs: NoisyNetwork | NoisyMatrix,
    process: Process,
    symbol_rates_bd: Sequence[float],
    laser_w: float | None = None,
    passes: int = 1,
    seed: int = 0,
    on_rate: Callable[[float], None] | None = None,
) -> CheckedCurve:
    """Compare a chip's outputs with its target at several symbol rates; other arguments as of :func:`word_error_curve`.

    Raises:
        InputError: A power, rate, seed or number of passes is out of range.
    """
    if passes < 1 or seed < 0 or not len(symbol_rates_bd):
        raise InputError(
            f"{len(symbol_rates_bd)} symbol rates, passes {passes}, seed {seed}: give at least 1 rate, 1 pass and a "
            "seed of at least 0"
        )
    noises = [operating_noise(process, laser_w, rate) for rate in sorted(set(symbol_rates_bd))]
    points = []
    for noise in noises:
        if on_rate is not None:
            on_rate(noise.symbol_rate_bd)
        found = outputs.measured(noise, passes, seed)
        points.append(NoisyPoint(noise.symbol_rate_bd, noise.integration_s, *found))
    return CheckedCurve(
        laser_w=noises[0].laser_w,
        receiver_oscillator_w=noises[0].oscillator_w if outputs.coherent else None,
        seed=seed,
        sent=passes * outputs.sent,
        quantities=outputs.quantities,
        noise=tuple(noises),
        points=tuple(points),
    )
