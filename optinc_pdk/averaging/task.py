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

from optinc_pdk.arrays import Floats, Ints


def as_integers(name: str, values: ArrayLike, limit: int, least: int = 0) -> Ints:
    """Convert integer values of any shape to int64.

    Raises:
        ValueError: The values are not of an integer type, or one is outside `least` ... `limit`; `name` is in the
            message.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} of type {array.dtype} must be integers")
    if array.size and (array.min() < least or array.max() > limit):
        raise ValueError(f"{name} must lie within {least} ... {limit}, got {array.min()} ... {array.max()}")
    return array.astype(np.int64)


def check_last_axes(name: str, array: NDArray[np.generic], axes: tuple[int, ...]) -> None:
    """Raise ValueError, with `name` in its message, if the shape of an array does not end in the lengths `axes`."""
    if array.shape[-len(axes) :] != axes:
        expected = ", ".join(str(axis) for axis in axes)
        raise ValueError(f"{name} of shape {array.shape} must end in ({expected})")


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
    """The averaging task of one chip: it averages words of `bits` bits over `servers` servers.

    Examples:
        >>> import optinc_pdk as op
        >>> op.Averaging(bits=4, servers=4, groups=2).symbols
        2

    Attributes:
        bits: Bits of a word B, even, 2 ... 32.
        servers: Number of servers N, at least 1.
        groups: Number of network inputs K; it divides the number of symbols M = bits/2.
        remainder: True for level 1 of a cascade: the last output also carries the fraction of the average, in steps of
            1/N.
        finer_input: True for level 2 of a cascade: the last network input is in steps of 1/N².

    Raises:
        ValueError: A value is out of range.
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
                f"groups = {self.groups} must divide the {self.symbols} symbols of a word of {self.bits} bits: "
                f"{allowed}"
            )
        steps = int(self.input_steps.max())
        if steps > MAX_STEPS:
            raise ValueError(
                f"an input has {steps} steps, the limit in double precision is {MAX_STEPS}: use more "
                "groups or fewer servers"
            )

    @staticmethod
    def of(
        bits: int, servers: int, groups: int | None = None, remainder: bool = False, finer_input: bool = False
    ) -> Averaging:
        """Return the task of these values, with one network input for each symbol if ``groups`` is None.

        Raises:
            ValueError: A value is out of range.
        """
        if groups is None:
            # bits of another type are refused first
            groups = bits // 2 if isinstance(bits, int) else 1
        return Averaging(bits, servers, groups, remainder, finer_input)

    def __str__(self) -> str:
        """Return the task in words, such as "4 bits, 4 servers, 2 groups, no cascade option"."""
        flags = " and ".join(name for name in ("remainder", "finer_input") if getattr(self, name))
        return f"{self.bits} bits, {self.servers} servers, {self.groups} groups, {flags or 'no cascade option'}"

    @property
    def symbols(self) -> int:
        """Number of PAM4 symbols of a word, M = bits/2."""
        return self.bits // 2

    @property
    def outputs(self) -> int:
        """Number of outputs of the network: one for each symbol."""
        return self.symbols

    @property
    def receivers(self) -> int:
        """Number of receivers of each output: one for each server, or one at level 2 of the cascade."""
        return 1 if self.remainder else self.servers

    @property
    def group_symbols(self) -> int:
        """Number of symbols of a group, g = M/K."""
        return self.symbols // self.groups

    @property
    def full_scale(self) -> int:
        """Largest value of a group of symbols, 4^g - 1."""
        return int(4**self.group_symbols) - 1

    @property
    def symbol_shares(self) -> Floats:
        """Share of each symbol in its group's value at full scale, shape (g,): 3 · 4^(g-1-j) / (4^g - 1); sum 1.

        The weights are 4^(g-1), … 4, 1.
        """
        weights = 4.0 ** np.arange(self.group_symbols - 1, -1, -1)
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    @property
    def input_resolution(self) -> Ints:
        """Number of lattice steps per unit of each network input, shape (K,): N, or N² for a finer last input."""
        resolution = np.full(self.groups, self.servers, dtype=np.int64)
        if self.finer_input:
            resolution[-1] *= self.servers
        return resolution

    @property
    def input_steps(self) -> Ints:
        """Largest value of each network input in lattice steps, shape (K,)."""
        steps = self.input_resolution * self.full_scale
        if self.finer_input:
            # Each of the N units that feed it may add N - 1 of its own steps of 1/N.
            steps[-1] += self.servers * (self.servers - 1)
        return steps

    @property
    def input_maxima(self) -> Floats:
        """Largest value of each network input, shape (K,); `full_scale` except for a finer last input."""
        maxima: Floats = self.input_steps / self.input_resolution
        return maxima

    @property
    def input_minima(self) -> Floats:
        """Smallest value of each network input, shape (K,): 0."""
        return np.zeros(self.groups)

    @property
    def reserve(self) -> float:
        """How far hidden signals may exceed their maxima over `batches`: not at all, as these stand for all inputs."""
        return 1.0

    @property
    def default_amplitude(self) -> float:
        """Amplitude of the largest group of symbols with which the largest value of any input has amplitude 1.

        It is below 1 only for level 2 of a cascade, whose last input exceeds a group of symbols.
        """
        return float(self.full_scale / self.input_maxima.max())

    def input_values(self, amplitudes: ArrayLike | None = None) -> Floats:
        """Return the (K,) value of each network input whose fibres have amplitude 1.

        ``amplitudes`` is the (K,) amplitude of the value 4^g - 1 of each input; by default `default_amplitude` for all.
        """
        sent = self.default_amplitude if amplitudes is None else np.asarray(amplitudes, dtype=np.float64)
        values: Floats = self.full_scale / np.broadcast_to(sent, self.groups)
        return values

    @property
    def output_resolution(self) -> Ints:
        """Number of decision steps per level of each output, shape (M,).

        It is 1, except for a last output that carries a remainder, where it is the resolution of the last input.
        """
        resolution = np.ones(self.symbols, dtype=np.int64)
        if self.remainder:
            resolution[-1] = self.input_resolution[-1]
        return resolution

    @property
    def step_places(self) -> Ints:
        """(M,) weight of a decision step of each output in an average, in steps of the last output."""
        finest = int(self.output_resolution[-1])
        places: Ints = 4 ** np.arange(self.symbols - 1, -1, -1, dtype=np.int64) * (finest // self.output_resolution)
        return places

    @property
    def lattice_size(self) -> int:
        """Number of lattice points, the distinct network inputs: (N (4^g - 1) + 1)^K without `finer_input`.

        With `finer_input`, the count includes a few points near the maximum that level 1 of the cascade cannot produce,
        because the average of largest words has no remainder.
        """
        size = 1
        for steps in self.input_steps.tolist():
            size *= steps + 1
        return size

    def encode(self, words: ArrayLike) -> Ints:
        """Split words 0 ... 2^bits - 1, (...), into PAM4 symbols 0 ... 3, (..., M), most significant first.

        Raises:
            ValueError: A word is not an integer, or is out of range.
        """
        values = as_integers("words", words, (1 << self.bits) - 1)
        return (values[..., None] >> (2 * np.arange(self.symbols - 1, -1, -1))) & 3

    def decode(self, symbols: ArrayLike) -> Ints:
        """Combine PAM4 symbols, (..., M), into words; the inverse of `encode`.

        Raises:
            ValueError: A symbol is not an integer or is out of range, or the last axis does not have length M.
        """
        values = as_integers("symbols", symbols, 3)
        check_last_axes("symbols", values, (self.symbols,))
        return values @ (4 ** np.arange(self.symbols - 1, -1, -1, dtype=np.int64))

    def combine_steps(self, steps: ArrayLike) -> Ints:
        """Combine decided outputs (..., M), integer steps of 1/`output_resolution`, into averages in steps of the last
        output.

        Without a remainder, these are the words, as from `decode`. With one, they include the fraction of the average
        and count steps of 1/N.

        Raises:
            ValueError: A value is not an integer or is out of range, or the last axis does not have length M.
        """
        values = as_integers("steps", steps, 4 * int(self.output_resolution[-1]) - 1)
        check_last_axes("steps", values, (self.symbols,))
        # a product of integer arrays runs over the short last axis
        averages = np.zeros(values.shape[:-1], dtype=np.int64)
        for symbol, weight in zip(np.moveaxis(values, -1, 0), self.step_places.tolist(), strict=True):
            averages += weight * symbol
        return averages

    def combine_levels(self, levels: ArrayLike) -> Ints:
        """Combine output levels, shape (..., M) as from `targets`, into averages in steps as `combine_steps`."""
        return self.combine_steps(np.rint(np.asarray(levels) * self.output_resolution).astype(np.int64))

    def output_levels(self, averages: ArrayLike) -> Ints | Floats:
        """Return the output levels (..., M) of averages in steps of the last output; the inverse of `combine_levels`.

        Most significant first; floats if the task has a remainder.

        Raises:
            ValueError: An average is not an integer or is out of range.
        """
        finest = int(self.output_resolution[-1])
        words, rest = np.divmod(as_integers("averages", averages, finest * (1 << self.bits) - 1), finest)
        symbols = self.encode(words)
        if not self.remainder:
            return symbols
        levels = symbols.astype(np.float64)
        levels[..., -1] += rest / finest
        return levels

    def preprocess(self, symbols: ArrayLike) -> Floats:
        """Return the network inputs that the preprocessing unit P forms from the servers' symbols.

        Each is the value of a group of g symbols in base 4, averaged over the servers.

        Args:
            symbols: (..., servers, M) fields in levels; integers 0 ... 3 without imperfections.

        Returns:
            (..., K) inputs within 0 ... 4^g - 1; multiples of 1/N for integer symbols.

        Raises:
            ValueError: The last two axes are not (servers, M).
        """
        fields = np.asarray(symbols, dtype=np.float64)
        check_last_axes("symbols", fields, (self.servers, self.symbols))
        groups = fields.reshape(*fields.shape[:-1], self.groups, self.group_symbols)
        weights = 4.0 ** np.arange(self.group_symbols - 1, -1, -1)
        mean: Floats = (groups @ weights).sum(axis=-2) / self.servers
        return mean

    def ideal(self, words: ArrayLike) -> Ints:
        """Return the ideal average G* = Q((1/N) Σ G_n) of words (..., servers), where Q rounds down (arXiv 2603.28290).

        Raises:
            ValueError: A word is not an integer or is out of range, or the last axis is not the servers.
        """
        values = as_integers("words", words, (1 << self.bits) - 1)
        check_last_axes("words", values, (self.servers,))
        average: Ints = values.sum(axis=-1) // self.servers
        return average

    def lattice_steps(self, start: int = 0, stop: int | None = None) -> Ints:
        """Return lattice points ``start`` to ``stop``, by default all, in lexicographic order: the last input varies
        fastest.

        They are (points, K) integer steps, 0 ... `input_steps`; `input_resolution` steps are one unit.

        Raises:
            ValueError: `start` is negative, the range has more than 2^25 points, or the lattice has too many points for
                64-bit indices.
        """
        size = self.lattice_size
        if start < 0:
            raise ValueError(f"start = {start} must be at least 0")
        if size > np.iinfo(np.int64).max:
            raise ValueError(f"the lattice has {size:.3g} points, too many to enumerate; use sample_steps")
        stop = size if stop is None else min(stop, size)
        if stop - start > MAX_ENUMERATED:
            raise ValueError(
                f"the range has {stop - start:,} points, at most {MAX_ENUMERATED:,} are returned; give start and stop, "
                f"or use sample_steps"
            )
        return self._steps_at(np.arange(start, stop))

    def _steps_at(self, index: Ints) -> Ints:
        values = self.input_steps + 1
        place = np.append(np.cumprod(values[:0:-1])[::-1], 1)
        steps: Ints = index[:, None] // place % values
        return steps

    def lattice(self, start: int = 0, stop: int | None = None) -> Floats:
        """Return a range of lattice points as (points, K) network inputs, see `lattice_steps`.

        Examples:
            >>> import optinc_pdk as op
            >>> op.Averaging(bits=4, servers=4, groups=2).lattice().shape
            (169, 2)
        """
        points: Floats = self.lattice_steps(start, stop) / self.input_resolution
        return points

    def sample_steps(self, points: int, rng: np.random.Generator) -> Ints:
        """Draw (points, K) lattice points uniformly at random, in integer steps 0 ... `input_steps`.

        Raises:
            ValueError: The number of points is negative.
        """
        if points < 0:
            raise ValueError(f"points = {points} must be at least 0")
        return rng.integers(0, self.input_steps + 1, (points, self.groups))

    def sample(self, points: int, rng: np.random.Generator) -> Floats:
        """Draw lattice points uniformly at random as (points, K) network inputs, see `sample_steps`."""
        inputs: Floats = self.sample_steps(points, rng) / self.input_resolution
        return inputs

    @property
    def enumerable(self) -> bool:
        """True if the lattice has at most 2^25 points, so that `batches` yields all of them and not a sample."""
        return self.lattice_size <= MAX_ENUMERATED

    def batches(self, points: int = 1 << 16) -> Iterator[Floats]:
        """Yield the lattice, or a sample of a large one, as network inputs in batches of at most (`points`, K).

        A lattice that is not `enumerable` is represented by a sample of 2^20 points that is the same at every call: a
        first batch of 2K + 2 special points (the point 0, and the points in which one input, all but one or all inputs
        are at their maximum), then random points. Reports must state that they are based on a sample.

        Raises:
            ValueError: `points` is below 1.
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

    def targets(self, inputs: ArrayLike) -> Ints | Floats:
        """Return the ideal output levels (..., M) for lattice points (..., K), most significant first.

        They are the integer symbols of the ideal average. If the task has a remainder, they are floats, and the last
        one includes the fraction of the average.

        Raises:
            ValueError: An input is not on the lattice, or the last axis does not have length K.
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
        averages = steps.astype(np.int64) @ place
        return self.output_levels(averages if self.remainder else averages // finest)

    def offset_binary(self, values: ArrayLike) -> Ints:
        """Convert signed integers -2^(B-1) ... 2^(B-1) - 1 of any shape to words in offset binary, v + 2^(B-1).

        Raises:
            ValueError: A value is not an integer, or is out of range.
        """
        half = 1 << (self.bits - 1)
        return as_integers("values", values, half - 1, -half) + half

    def signed(self, words: ArrayLike) -> Ints:
        """Convert words in offset binary to signed integers; the inverse of `offset_binary`.

        Raises:
            ValueError: A word is not an integer, or is out of range.
        """
        return as_integers("words", words, (1 << self.bits) - 1) - (1 << (self.bits - 1))

    def twos_complement(self, words: ArrayLike) -> Ints:
        """Convert words from two's complement to offset binary or back, by inverting the most significant bit.

        Raises:
            ValueError: A word is not an integer, or is out of range.
        """
        return as_integers("words", words, (1 << self.bits) - 1) ^ (1 << (self.bits - 1))
