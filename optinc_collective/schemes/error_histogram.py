"""Distribution of a chip's word errors, in the form of Table II of arXiv 2603.28290."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_fields


@dataclass(frozen=True)
class ErrorHistogram:
    """Distribution of word errors: the word-error rate, and the share of every error value.

    Attributes:
        rate: Word-error rate, the probability that a word is wrong, 0 ... 1.
        values: Possible errors, word read minus ideal word, in steps of a word; never 0.
        shares: Probability of every value if a word is wrong; the shares add up to 1.
        seed: Seed of the random draws, at least 0; equal on all servers, so that all read the same words.

    Raises:
        InputError: A rate, share or seed is out of range, or the numbers of values and shares differ.
    """

    rate: float
    values: tuple[int, ...]
    shares: tuple[float, ...]
    seed: int = 2603

    def __post_init__(self) -> None:
        """Check the ranges of all values."""
        validate_fields(self)
        if not 0.0 <= self.rate <= 1.0:
            raise InputError(f"rate = {self.rate} of errors must be within 0 ... 1; correct it")
        if len(self.values) != len(self.shares) or not self.values:
            raise InputError(f"{len(self.values)} values of errors and {len(self.shares)} shares: give one of each")
        if 0 in self.values:
            raise InputError("values of errors contain 0, which is not an error: remove it")
        if min(self.shares) < 0.0 or abs(sum(self.shares) - 1.0) > 1e-6:
            raise InputError(f"shares of errors {self.shares} must be positive and add up to 1")
        if self.seed < 0:
            raise InputError(f"seed = {self.seed} of the draws must be at least 0")

    def draw(self, words: int, time: int) -> tuple[Ints, Ints]:
        """Draw at random which words are wrong, and their errors. The result depends on `seed` and `time` only.

        Args:
            words: Number of words.
            time: Sequence number of the draw: equal on all servers, and different for every draw.

        Returns:
            Indices of the wrong words, without repetition, and their errors in steps of a word; both int64, shape
            (wrong words,).
        """
        random = np.random.default_rng((self.seed, time))
        count = random.binomial(words, self.rate)
        where = random.choice(words, count, replace=False, shuffle=False)
        return where, random.choice(np.array(self.values, dtype=np.int64), count, p=self.shares)


def _both(value: int, percent: float) -> dict[int, float]:
    """Shares of an error given as ±value: both signs are equally frequent."""
    return {value: percent / 200, -value: percent / 200}


def _row(accuracy_percent: float, errors: dict[int, float]) -> ErrorHistogram:
    return ErrorHistogram(round(1 - accuracy_percent / 100, 9), tuple(errors), tuple(errors.values()))


TABLE_II = {
    "4-7": _row(99.99986, _both(1, 90) | {-64: 0.1}),
    "4-8": _row(99.99999, {1024: 1.0}),
    "3-6": _row(99.98891, _both(1, 99) | _both(1024, 0.9) | {-4: 0.001}),
    "3-7": _row(99.99936, _both(4, 79.5) | {-16: 0.17, 12: 0.035}),
}
"""Table II of arXiv 2603.28290, 16 bits and 4 servers, by the layers approximated; its row "4-6" has no errors.

The rate is 1 minus the accuracy of the table. For an error given as ±, both signs are assumed to be equally frequent.
"""
