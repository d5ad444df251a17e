"""The averaging task: words and PAM4 symbols, the ideal average, the lattice of inputs.

B-bit words are sent as M = B/2 PAM4 symbols, most significant first. The preprocessing unit P averages groups
of g = M/K consecutive symbols over the N servers, so that input k of the network takes values 0 ... 4^g - 1
in steps of 1/N. All (N (4^g - 1) + 1)^K inputs are the *lattice*: the complete truth table (arXiv
2603.28290).

A cascade of two levels of units serves N² servers. Truncating twice would lose fractions, so a unit of level 1 adds
its *remainder* to its last output, which is then in steps of 1/N, and the unit of level 2 takes the *finer input*: its
last group in steps of 1/N².

Words are unsigned. A signed number v becomes the word v + 2^(B-1), *offset binary*; the
average of such words is the average of the numbers, rounded towards minus infinity. Two's complement is the same
word with its first bit inverted; averaged without conversion, -1 would be the largest word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.averaging.array_checks import Floats, Integers, as_integers, check_last_axes

MAX_BITS = 32
"""Largest word size: that of 32-bit gradients. Sums over servers fit 64-bit integers."""

MAX_ENUMERATED = 2**25
"""Largest lattice that is enumerated completely, in points; the paper's largest is smaller."""

SAMPLE_POINTS = 2**20
"""Number of sampled points of a larger lattice."""

MAX_STEPS = 2**32
"""Largest number of steps of an input; with more, rounding errors of a double exceed `STEP_TOLERANCE`."""

STEP_TOLERANCE = 1e-6
"""Tolerance of an input's distance from its lattice point, in steps of 1/N."""


@dataclass(frozen=True)
class Averaging:
    """The task of one chip: average words of `bits` bits over `servers` servers, with `groups` network inputs.

    Attributes:
        bits: Bits of a word, even.
        servers: Number of servers N, at least 1.
        groups: Number of network inputs K; divides the number of symbols M = bits/2.
        remainder: Level 1 of a cascade: the last output carries the fraction, in steps of 1/N.
        finer_input: Level 2 of a cascade: the last group is in steps of 1/N².

    Raises:
        ValueError: A number is out of its range.
    """

    bits: int
    servers: int
    groups: int
    remainder: bool = False
    finer_input: bool = False

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name in ("bits", "servers", "groups"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ValueError(f"{name} = {value!r} must be an integer")
            object.__setattr__(self, name, int(value))
        for name in ("remainder", "finer_input"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} = {getattr(self, name)!r} must be true or false")
        if self.bits < 2 or self.bits > MAX_BITS or self.bits % 2:
            raise ValueError(
                f"bits = {self.bits} must be even and within 2 ... {MAX_BITS}: a PAM4 symbol carries 2 bits"
            )
        if self.servers < 1:
            raise ValueError(f"servers = {self.servers} must be at least 1")
        # Sums of the words of a cascade's N² servers are formed in 64-bit integers.
        limit = 1 << ((62 - self.bits) // 2)
        if self.servers > limit:
            raise ValueError(f"servers = {self.servers} must be at most {limit} for words of {self.bits} bits")
        if self.groups < 1 or self.symbols % self.groups:
            allowed = [k for k in range(1, self.symbols + 1) if self.symbols % k == 0]
            raise ValueError(
                f"groups = {self.groups} must divide the {self.symbols} symbols of a {self.bits}-bit word: {allowed}"
            )
        steps = int(self.input_steps.max())
        if steps > MAX_STEPS:
            raise ValueError(
                f"an input has {steps} steps, the limit in double precision is {MAX_STEPS}: use more "
                "groups or fewer servers"
            )

    @property
    def symbols(self) -> int:
        """PAM4 symbols of a word, M = bits/2."""
        return self.bits // 2

    @property
    def group_symbols(self) -> int:
        """Symbols of a group, g = M/K."""
        return self.symbols // self.groups

    @property
    def full_scale(self) -> int:
        """Largest value of a network input, 4^g - 1."""
        return int(4**self.group_symbols) - 1

    @property
    def input_resolution(self) -> Integers:
        """Steps per unit of every input, shape (K,): N, or N² for a finer last one."""
        resolution = np.full(self.groups, self.servers, dtype=np.int64)
        if self.finer_input:
            resolution[-1] *= self.servers
        return resolution

    @property
    def input_steps(self) -> Integers:
        """Largest value of every input in its own steps, shape (K,)."""
        steps = self.input_resolution * self.full_scale
        if self.finer_input:
            # Each of the N units that feed it may add N - 1 of its own steps of 1/N.
            steps[-1] += self.servers * (self.servers - 1)
        return steps

    @property
    def input_maxima(self) -> Floats:
        """Largest value of every input, shape (K,)."""
        maxima: Floats = self.input_steps / self.input_resolution
        return maxima

    @property
    def output_resolution(self) -> Integers:
        """Steps per level of every output, shape (M,): 1, or those of the remainder for the last one."""
        resolution = np.ones(self.symbols, dtype=np.int64)
        if self.remainder:
            resolution[-1] = self.input_resolution[-1]
        return resolution

    @property
    def lattice_size(self) -> int:
        """Number of distinct network inputs, (N (4^g - 1) + 1)^K where no input is finer.

        With a finer input, the count includes a few points near the maximum that no units produce, since the largest
        word has no remainder.
        """
        size = 1
        for steps in self.input_steps.tolist():
            size *= steps + 1
        return size

    def encode(self, words: ArrayLike) -> Integers:
        """Split words into PAM4 symbols.

        Args:
            words: Integers 0 ... 2^bits - 1, shape (...).

        Returns:
            Symbols 0 ... 3, most significant first, shape (..., M).

        Raises:
            ValueError: A word is not an integer, or out of range.
        """
        values = as_integers("words", words, (1 << self.bits) - 1)
        return (values[..., None] >> (2 * np.arange(self.symbols - 1, -1, -1))) & 3

    def decode(self, symbols: ArrayLike) -> Integers:
        """Join PAM4 symbols to words, the inverse of `encode`.

        Args:
            symbols: Integers 0 ... 3, most significant first, shape (..., M).

        Returns:
            Words, shape (...).

        Raises:
            ValueError: A symbol is not an integer, out of range, or their number is not M.
        """
        values = as_integers("symbols", symbols, 3)
        check_last_axes("symbols", values, (self.symbols,))
        return values @ (4 ** np.arange(self.symbols - 1, -1, -1, dtype=np.int64))

    def preprocess(self, symbols: ArrayLike) -> Floats:
        """Return the network inputs of the preprocessing unit P: base-4 weighted groups, averaged over the servers.

        Args:
            symbols: Fields in level units, shape (..., servers, M); integers 0 ... 3 without imperfections.

        Returns:
            Network inputs, 0 ... 4^g - 1 in steps of 1/N, shape (..., K).

        Raises:
            ValueError: The shape is wrong.
        """
        fields = np.asarray(symbols, dtype=np.float64)
        check_last_axes("symbols", fields, (self.servers, self.symbols))
        groups = fields.reshape(*fields.shape[:-1], self.groups, self.group_symbols)
        weights = 4.0 ** np.arange(self.group_symbols - 1, -1, -1)
        mean: Floats = (groups @ weights).sum(axis=-2) / self.servers
        return mean

    def ideal(self, words: ArrayLike) -> Integers:
        """Return the truncated average G* = Q((1/N) Σ G_n), where Q drops the fraction.

        Args:
            words: Integers 0 ... 2^bits - 1, shape (..., servers).

        Returns:
            Averages, shape (...).

        Raises:
            ValueError: A word is out of range, or the last axis is not the servers.
        """
        values = as_integers("words", words, (1 << self.bits) - 1)
        check_last_axes("words", values, (self.servers,))
        average: Integers = values.sum(axis=-1) // self.servers
        return average

    def lattice_steps(self, start: int = 0, stop: int | None = None) -> Integers:
        """Return lattice points in integer steps of 1/N, in lexicographic order: the last input varies fastest.

        Args:
            start: First point.
            stop: One past the last point; all by default.

        Returns:
            Steps, from 0 to `input_steps`, shape (points, K).

        Raises:
            ValueError: The lattice has too many points for 64-bit indices.
        """
        size = self.lattice_size
        if start < 0:
            raise ValueError(f"start = {start} must be at least 0")
        if size > np.iinfo(np.int64).max:
            raise ValueError(f"the lattice has {size:.3g} points, too many to enumerate; use sample_steps")
        return self._steps_at(np.arange(start, size if stop is None else min(stop, size)))

    def _steps_at(self, index: Integers) -> Integers:
        values = self.input_steps + 1
        place = np.append(np.cumprod(values[:0:-1])[::-1], 1)
        steps: Integers = index[:, None] // place % values
        return steps

    def lattice(self, start: int = 0, stop: int | None = None) -> Floats:
        """Return lattice points as network inputs, `lattice_steps` over `input_resolution`, in the same order.

        Args:
            start: First point.
            stop: One past the last point; all by default.

        Returns:
            Inputs, shape (points, K).

        Raises:
            ValueError: The lattice has too many points for 64-bit indices.
        """
        points: Floats = self.lattice_steps(start, stop) / self.input_resolution
        return points

    def sample_steps(self, points: int, rng: np.random.Generator) -> Integers:
        """Draw lattice points uniformly, in steps; shape (points, K)."""
        if points < 0:
            raise ValueError(f"points = {points} must be at least 0")
        return rng.integers(0, self.input_steps + 1, (points, self.groups))

    def sample(self, points: int, rng: np.random.Generator) -> Floats:
        """Draw lattice points uniformly, as network inputs; shape (points, K)."""
        inputs: Floats = self.sample_steps(points, rng) / self.input_resolution
        return inputs

    @property
    def enumerable(self) -> bool:
        """Whether `pieces` yields every lattice point, at most 2^25, or a sample."""
        return self.lattice_size <= MAX_ENUMERATED

    def batches(self, points: int = 1 << 16) -> Iterator[Floats]:
        """Yield the lattice as network inputs in arrays of shape (at most `points`, K).

        A lattice that is not `enumerable` is sampled by 2^20 points, the same at every call: the corners in which one
        input, all but one or all are at their maximum, and random points. Reports must state that they are a sample.
        """
        if points < 1:
            raise ValueError(f"points = {points} must be at least 1")
        if self.enumerable:
            for start in range(0, self.lattice_size, points):
                yield self.lattice(start, start + points)
            return
        one = np.eye(self.groups, dtype=np.int64)
        corners = np.vstack([np.zeros((1, self.groups), dtype=np.int64), one, 1 - one, np.ones_like(one[:1])])
        yield corners * self.input_maxima
        rng = np.random.default_rng(0)
        for start in range(len(corners), SAMPLE_POINTS, points):
            yield self.sample(min(points, SAMPLE_POINTS - start), rng)

    def targets(self, inputs: ArrayLike) -> NDArray[np.int64] | Floats:
        """Return the ideal output levels of the network.

        Args:
            inputs: Lattice points, shape (..., K).

        Returns:
            Symbols of the truncated average, most significant first, shape (..., M): integers, or floats with
            the fraction added to the last one where the task has a remainder.

        Raises:
            ValueError: An input is not on the lattice.
        """
        points = np.asarray(inputs, dtype=np.float64)
        check_last_axes("inputs", points, (self.groups,))
        scaled = points * self.input_resolution
        steps = np.rint(scaled)
        if not np.all(np.abs(scaled - steps) <= STEP_TOLERANCE):
            raise ValueError(
                f"inputs must be multiples of 1/{self.servers}"
                + (f", the last of 1/{self.servers**2}" if self.finer_input else "")
                + ": take them from lattice() or preprocess()"
            )
        if steps.size and (np.any(steps < 0) or np.any(steps > self.input_steps)):
            raise ValueError(
                f"inputs must lie within 0 ... {self.input_maxima.max():g}, got {points.min():g} ... {points.max():g}"
            )
        finest = self.input_resolution[-1]
        base = 4**self.group_symbols
        place = base ** np.arange(self.groups - 1, -1, -1, dtype=np.int64) * (finest // self.input_resolution)
        words, rest = np.divmod(steps.astype(np.int64) @ place, finest)
        symbols = self.encode(words)
        if not self.remainder:
            return symbols
        levels = symbols.astype(np.float64)
        levels[..., -1] += rest / finest
        return levels

    def offset_binary(self, values: ArrayLike) -> Integers:
        """Return the words of signed numbers, v + 2^(B-1).

        Args:
            values: Integers -2^(B-1) ... 2^(B-1) - 1, any shape.

        Returns:
            Words 0 ... 2^B - 1 of the same shape.

        Raises:
            ValueError: A value is not an integer, or out of range.
        """
        half = 1 << (self.bits - 1)
        return as_integers("values", values, half - 1, -half) + half

    def signed(self, words: ArrayLike) -> Integers:
        """Return the signed numbers of words in offset binary, the inverse of `offset_binary`; same shape.

        Raises:
            ValueError: A word is not an integer, or out of range.
        """
        return as_integers("words", words, (1 << self.bits) - 1) - (1 << (self.bits - 1))

    def twos_complement(self, words: ArrayLike) -> Integers:
        """Convert two's complement to offset binary or back: inverts the first bit of words 0 ... 2^B - 1; same shape.

        Raises:
            ValueError: A word is not an integer, or out of range.
        """
        return as_integers("words", words, (1 << self.bits) - 1) ^ (1 << (self.bits - 1))
