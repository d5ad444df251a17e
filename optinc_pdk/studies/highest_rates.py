"""Highest symbol rate of a chip at an estimated word-error rate: the best receiver, and what limits the rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.simulate.transmission.noise import Noise, noise_choices, rate_limits
from optinc_pdk.studies.error_estimate import ErrorMargins, estimate_errors

ERROR_RATE = 1e-9
"""Accepted word-error rate."""
RAISED = 1.1
"""Ratio of the rate at which limits are compared to the highest rate."""
CHOICE_WORDS = 256
"""Words by which the receiver is chosen, and the highest rate searched before all words confirm it."""
CONFIRMED = 3
"""Receivers between which all words decide."""
GAP_STEP, GAP_STEPS = 1.1, 14
"""Ratio and number of the rates below the highest one that are checked as well, down to about a quarter of it."""
RATE_PRECISION, LIMIT_PRECISION = 1.02, 1.05
"""Ratio of two rates below which the bisection stops, for the highest rate and for those without one of its limits."""


@dataclass(frozen=True)
class RateCount:
    """Words that were counted at the highest symbol rate that an estimate allows, and how many of them were wrong."""

    symbol_rate_bd: float
    words: int
    wrong: int


@dataclass(frozen=True)
class RateLimits:
    """Highest symbol rate of a chip, and what limits it.

    Attributes:
        word_error_rate: Accepted word-error rate, estimated.
        symbol_rate_bd: Highest symbol rate; None if no useful rate is acceptable, or if a count there refutes it.
        highest_bd: Highest rate of the process, beyond which none was tried.
        main_limit: Name of the limit without which a rate higher by ``RAISED`` has the lowest word-error rate; None
            where none makes it acceptable, or the process allows no higher rate.
        layers: Share of the word-error rate at the highest rate, or at the lowest useful one, that arises in each
            hidden layer.
        receivers: Share that arises in the receivers.
        noise: Noise model at that rate, with the receiver that suits the chip best.
        counted: Count at that rate; None if none was made.
    """

    word_error_rate: float
    symbol_rate_bd: float | None
    highest_bd: float
    main_limit: str | None
    layers: tuple[float, ...]
    receivers: float
    noise: Noise
    counted: RateCount | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the limits as JSON-compatible data."""
        return {key: value for key, value in asdict(self).items() if key != "noise"}


def best_noise(margins: ErrorMargins, choices: Sequence[Noise]) -> Noise:
    """Return the noise model of the receiver with which a chip has the lowest estimated word-error rate.

    Every amplifier has a best window of its own. ``CHOICE_WORDS`` words rank the receivers, and all words decide
    between the first ``CONFIRMED``: with a slow amplifier, errors arise from few sequences of words. The choices are of
    one rate, see :func:`optinc_pdk.simulate.transmission.noise.noise_choices`.
    """
    few = margins.first(CHOICE_WORDS)
    ranked = sorted(choices, key=lambda one: _rate(few, one))[:CONFIRMED]
    return ranked[0] if len(margins.wrong) <= CHOICE_WORDS else min(ranked, key=lambda one: _rate(margins, one))


def _rate(margins: ErrorMargins, noise: Noise) -> float:
    return estimate_errors(margins, noise).rate


def find_rate_limits(margins: ErrorMargins, process: Process, laser_w: float | None = None) -> RateLimits:
    """Find the highest symbol rate of a chip at ``ERROR_RATE``, and what limits it most.

    The power launched into every waveguide, in W, is by default the card's.

    Raises:
        InputError: The process has no noise or no budget section, or the power is out of range.
    """
    rate = highest_rate(margins, process, ERROR_RATE, laser_w)
    least, most = rate_limits(process)
    at = least if rate is None else rate
    noise = best_noise(margins, noise_choices(process, laser_w, at))
    estimate = estimate_errors(margins, noise)
    return RateLimits(
        word_error_rate=ERROR_RATE,
        symbol_rate_bd=rate,
        highest_bd=most,
        main_limit=None if RAISED * at > most else _main_limit(margins, noise_choices(process, laser_w, RAISED * at)),
        layers=estimate.layers,
        receivers=estimate.receivers,
        noise=noise,
    )


def _main_limit(margins: ErrorMargins, choices: Sequence[Noise]) -> str | None:
    """Name of the limit without which a chip has the lowest word-error rate; None if this is not acceptable."""
    few, found = margins.first(CHOICE_WORDS), dict[str, float]()
    for name, idealised in IDEALISED.items():
        found[name] = estimate_errors(few, best_noise(few, [idealised(each) for each in choices])).rate
    best = min(found, key=lambda name: found[name])
    return best if found[best] <= ERROR_RATE else None


def rates_without_limits(
    margins: ErrorMargins, process: Process, limits: RateLimits, laser_w: float | None = None
) -> dict[str, float | None]:
    """Find the highest symbol rate in Bd without each limit, by the name of the limit, see ``IDEALISED``.

    It is at least the highest rate with all limits, which :func:`find_rate_limits` found for the same power; None if no
    useful rate is acceptable.
    """
    rate = limits.symbol_rate_bd
    # a chip without an acceptable rate may have one word among all that spoils it
    words = margins if rate is None else margins.first(CHOICE_WORDS)
    return {
        # without filters, which limit noise as well, the rate can be lower
        name: highest_rate(words, process, limits.word_error_rate, laser_w, idealised, rate, LIMIT_PRECISION) or rate
        for name, idealised in IDEALISED.items()
    }


def highest_rate(
    margins: ErrorMargins,
    process: Process,
    word_error_rate: float,
    laser_w: float | None = None,
    idealised: Callable[[Noise], Noise] = lambda noise: noise,
    low_bd: float | None = None,
    precision: float = RATE_PRECISION,
) -> float | None:
    """Find the highest symbol rate at which a chip has an acceptable estimated word-error rate.

    It is found by bisection. The estimate of one receiver rises with the rate, and so does that of the best of all, but
    receivers are ranked by some of the words. Therefore ``GAP_STEPS`` rates below, ``GAP_STEP`` apart, are checked as
    well; if one is not acceptable, the result is the highest rate below it.

    Args:
        margins: Result of :func:`optinc_pdk.studies.error_estimate.error_margins`.
        process: Process of the cards.
        word_error_rate: Accepted word-error rate, 0 … 1.
        laser_w: Power launched into every waveguide, in W; by default the card's.
        idealised: Change of the noise model, such as one of ``IDEALISED``.
        low_bd: Lowest rate that is tried; by default the lowest useful one.
        precision: Ratio of two rates below which the bisection stops.

    Returns:
        Symbols per second, at most the highest rate of the process; None if not even the lowest rate is acceptable.

    Raises:
        InputError: The process has no noise or no budget section, or the power is out of range.
    """

    few = margins.first(CHOICE_WORDS)
    low, high = rate_limits(process)
    low = low if low_bd is None else low_bd
    found = high
    for words in (few, margins) if len(few.wrong) < len(margins.wrong) else (margins,):
        search = _RateSearch(words, few, word_error_rate, lambda rate: noise_choices(process, laser_w, rate), idealised)
        # more words have no higher rate
        if not search.accepts(found):
            if not search.accepts(low):
                return None
            found = search.bisected(low, found, precision)
    return search.gapless(low, found, precision)


class _RateSearch:
    """Search of the highest rate at which any receiver of the cards is acceptable."""

    def __init__(
        self,
        words: ErrorMargins,
        few: ErrorMargins,
        limit: float,
        choices: Callable[[float], Sequence[Noise]],
        idealised: Callable[[Noise], Noise],
    ) -> None:
        self.words, self.few, self.limit, self.choices, self.idealised = words, few, limit, choices, idealised
        # amplifier and window
        self.latest: tuple[float, float] | None = None

    def accepts(self, rate: float) -> bool:
        """Whether a receiver is acceptable at a rate; the one that was at another rate is tried first."""
        found = {(each.receiver_a_per_sqrt_hz, each.shape.window): self.idealised(each) for each in self.choices(rate)}
        if self.latest in found and self._acceptable(found[self.latest]):
            return True
        for receiver in sorted(found, key=lambda one: _rate(self.few, found[one]))[:CONFIRMED]:
            if self._acceptable(found[receiver]):
                self.latest = receiver
                return True
        return False

    def _acceptable(self, noise: Noise) -> bool:
        return _rate(self.words, noise) <= self.limit

    def bisected(self, low: float, high: float, precision: float) -> float:
        """The highest of the rates tried that is acceptable, between one that is and one that is not."""
        while high > precision * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.accepts(middle) else (low, middle)
        return low

    def gapless(self, low: float, found: float, precision: float) -> float:
        """An acceptable rate, or a lower one where one of the rates ``GAP_STEP`` apart below it is not."""
        for rate in [found / GAP_STEP**step for step in range(GAP_STEPS, 0, -1)]:
            if rate > low and not self.accepts(rate):
                return self.bisected(low, rate, precision)
            low = max(low, rate)
        return found


def _instant(noise: Noise) -> Noise:
    """Noise with the same amplifier and window, and no symbol in another's reading."""
    shape = replace(noise.shape, transmitter=math.inf, receiver=math.inf)
    return replace(noise, shape=shape)


IDEALISED: Mapping[str, Callable[[Noise], Noise]] = {
    "amplifiers": lambda noise: noise.only("shot", "intensity", "linewidth", "fibre"),
    "shot noise": lambda noise: noise.only("receiver", "intensity", "linewidth", "fibre"),
    "laser": lambda noise: noise.only("shot", "receiver", "fibre"),
    "fibre phases": lambda noise: noise.only("shot", "receiver", "intensity", "linewidth"),
    "bandwidths": _instant,
}
"""By name of what limits a rate, the noise without it; ``bandwidths`` leaves no symbol in another's reading."""
