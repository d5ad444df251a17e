"""What the chip has to compute: words and PAM4 symbols, the ideal average, the lattice, the score.

B-bit words travel as M = B/2 PAM4 symbols, most significant first. The preprocessing unit P averages groups
of g = M/K consecutive symbols over the N servers, so that input k of the network takes values 0 ... 4^g - 1
in steps of 1/N. All (N (4^g - 1) + 1)^K inputs are the *lattice*: the complete truth table (arXiv
2603.28290).

Two levels of units serve N² servers. Truncating twice would lose fractions, so a unit of level 1 adds its
*remainder* to its last output, which then comes in steps of 1/N, and the unit of level 2 takes the *finer
input*: its last group in steps of 1/N².

Gradients have signs, words have none. A signed number v becomes the word v + 2^(B-1), *offset binary*; the
average of such words is the average of the numbers, rounded towards minus infinity. Two's complement is the same
word with its first bit flipped: averaged as it is, -1 would count as the largest word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_BITS = 32
"""Widest word: as wide as the gradients of any training, and sums over servers stay within 64-bit integers."""

ENUMERABLE = 2**25
"""Lattice points up to which every single one is looked at: more than the paper's largest lattice has."""

SAMPLE = 2**20
"""Points of a larger lattice that stand for all of it."""

MAX_STEPS = 2**32
"""Steps of an input up to which a double, times its resolution, lies within the tolerance of its lattice point."""

STEP_TOLERANCE = 1e-6
"""How far, in steps of 1/N, an input may lie from its lattice point: far above rounding, far below a step."""


@dataclass(frozen=True)
class Averaging:
    """The task of one chip: average words of `bits` bits over `servers` servers, through `groups` inputs.

    Attributes:
        bits: Bits of a word, even.
        servers: Number of servers N, at least 1.
        groups: Number of network inputs K; divides the number of symbols M = bits/2.
        remainder: Level 1 of a cascade: the last output carries the fraction, in steps of 1/N.
        finer_input: Level 2 of a cascade: the last group comes in steps of 1/N².

    Raises:
        ValueError: A number is out of its range.
    """

    bits: int
    servers: int
    groups: int
    remainder: bool = False
    finer_input: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be a task."""
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
                f"an input has {steps} steps, of which {MAX_STEPS} can be told apart in double precision: use more "
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

        With a finer input, a few points near the top are counted that no units produce: the largest word has no
        remainder.
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
            ValueError: A word is no integer or out of range.
        """
        values = _integers("words", words, (1 << self.bits) - 1)
        return (values[..., None] >> (2 * np.arange(self.symbols - 1, -1, -1))) & 3

    def decode(self, symbols: ArrayLike) -> Integers:
        """Join PAM4 symbols to words, the inverse of `encode`.

        Args:
            symbols: Integers 0 ... 3, most significant first, shape (..., M).

        Returns:
            Words, shape (...).

        Raises:
            ValueError: A symbol is no integer, out of range, or their number is not M.
        """
        values = _integers("symbols", symbols, 3)
        _last_axes("symbols", values, (self.symbols,))
        return values @ (4 ** np.arange(self.symbols - 1, -1, -1, dtype=np.int64))

    def preprocess(self, symbols: ArrayLike) -> Floats:
        """What the preprocessing unit P hands to the network: base-4 weighted groups, averaged over the
        servers.

        Args:
            symbols: Fields in level units, shape (..., servers, M); integers 0 ... 3 without imperfections.

        Returns:
            Network inputs, 0 ... 4^g - 1 in steps of 1/N, shape (..., K).

        Raises:
            ValueError: The shape is wrong.
        """
        fields = np.asarray(symbols, dtype=np.float64)
        _last_axes("symbols", fields, (self.servers, self.symbols))
        groups = fields.reshape(*fields.shape[:-1], self.groups, self.group_symbols)
        weights = 4.0 ** np.arange(self.group_symbols - 1, -1, -1)
        mean: Floats = (groups @ weights).sum(axis=-2) / self.servers
        return mean

    def ideal(self, words: ArrayLike) -> Integers:
        """The truncating average G* = Q((1/N) Σ G_n), Q dropping the fraction.

        Args:
            words: Integers 0 ... 2^bits - 1, shape (..., servers).

        Returns:
            Averages, shape (...).

        Raises:
            ValueError: A word is out of range, or the last axis is not the servers.
        """
        values = _integers("words", words, (1 << self.bits) - 1)
        _last_axes("words", values, (self.servers,))
        average: Integers = values.sum(axis=-1) // self.servers
        return average

    def lattice_steps(self, start: int = 0, stop: int | None = None) -> Integers:
        """Lattice points in integer steps of 1/N, in lexicographic order: the last input varies fastest.

        Args:
            start: First point.
            stop: One past the last point; all by default. Large lattices are read in such pieces.

        Returns:
            Steps, from 0 to `input_steps`, shape (points, K).

        Raises:
            ValueError: The lattice has too many points to number them.
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
        """Lattice points as network inputs, `lattice_steps` over `input_resolution`, in the same order.

        Args:
            start: First point.
            stop: One past the last point; all by default.

        Returns:
            Inputs, shape (points, K).

        Raises:
            ValueError: The lattice has too many points to number them.
        """
        points: Floats = self.lattice_steps(start, stop) / self.input_resolution
        return points

    def sample_steps(self, points: int, rng: np.random.Generator) -> Integers:
        """Lattice points drawn at random, each as likely as any other, in steps, shape (points, K)."""
        if points < 0:
            raise ValueError(f"points = {points} must be at least 0")
        return rng.integers(0, self.input_steps + 1, (points, self.groups))

    def sample(self, points: int, rng: np.random.Generator) -> Floats:
        """Lattice points drawn at random as network inputs, shape (points, K)."""
        inputs: Floats = self.sample_steps(points, rng) / self.input_resolution
        return inputs

    @property
    def enumerable(self) -> bool:
        """Whether `pieces` gives every lattice point, or a sample: at most 2^25 points are enumerated."""
        return self.lattice_size <= ENUMERABLE

    def pieces(self, points: int = 1 << 16) -> Iterator[Floats]:
        """The lattice in pieces of at most `points` points, each of shape (points, K).

        Where the lattice is not `enumerable`, these are 2^20 points, the same at every call: its corners in which
        one input, all but one or all are at an end, and random ones. Whoever judges by them has to say so.
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
        for start in range(len(corners), SAMPLE, points):
            yield self.sample(min(points, SAMPLE - start), rng)

    def targets(self, inputs: ArrayLike) -> NDArray[np.int64] | Floats:
        """The levels that the network must put out.

        Args:
            inputs: Lattice points, shape (..., K).

        Returns:
            Symbols of the truncated average, most significant first, shape (..., M): integers, or floats with
            the fraction added to the last one where the task has a remainder.

        Raises:
            ValueError: An input is not on the lattice.
        """
        points = np.asarray(inputs, dtype=np.float64)
        _last_axes("inputs", points, (self.groups,))
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
        """Words of signed numbers, v + 2^(B-1).

        Args:
            values: Integers -2^(B-1) ... 2^(B-1) - 1, any shape.

        Returns:
            Words 0 ... 2^B - 1 of the same shape.

        Raises:
            ValueError: A value is no integer or out of range.
        """
        half = 1 << (self.bits - 1)
        return _integers("values", values, half - 1, -half) + half

    def signed(self, words: ArrayLike) -> Integers:
        """Signed numbers of words in offset binary, the inverse of `offset_binary`; same shape.

        Raises:
            ValueError: A word is no integer or out of range.
        """
        return _integers("words", words, (1 << self.bits) - 1) - (1 << (self.bits - 1))

    def twos_complement(self, words: ArrayLike) -> Integers:
        """Two's complement to offset binary, or back: flips the first bit of words 0 ... 2^B - 1; same shape.

        Raises:
            ValueError: A word is no integer or out of range.
        """
        return _integers("words", words, (1 << self.bits) - 1) ^ (1 << (self.bits - 1))


@dataclass(frozen=True)
class Score:
    """How outputs compare with the ideal levels.

    Attributes:
        inputs: Words compared.
        exact: Words of which every symbol is decided right.
        accuracy: exact / inputs, 0 ... 1.
        margin: min over words and outputs of 0.5 - |output - level|, in levels, or in steps for an output that
            carries a remainder; 0.5 is perfect, below 0 is wrong.
    """

    inputs: int
    exact: int
    accuracy: float
    margin: float


def decide(outputs: ArrayLike, resolution: ArrayLike = 1) -> Floats:
    """The receivers' decision: the nearest level to |output|, for a detector sees |field|².

    Args:
        outputs: Fields in levels, real, any shape.
        resolution: Steps per level, 1 for the four levels 0 ... 3; an array fits the outputs' last axes.

    Returns:
        Multiples of 1/resolution, 0 ... 4 - 1/resolution, of the same shape; NaN stays NaN and so equals no
        level.
    """
    steps = np.asarray(resolution)
    levels = np.abs(np.asarray(outputs, dtype=np.float64)) * steps
    nearest: Floats = np.clip(np.floor(levels + 0.5), 0.0, 4 * steps - 1) / steps
    return nearest


def score(outputs: ArrayLike, levels: ArrayLike, resolution: ArrayLike = 1) -> Score:
    """Compare outputs with the ideal levels.

    Args:
        outputs: Real fields in levels, shape (..., M).
        levels: The ideal symbols, shape (..., M).
        resolution: Steps per level of every output, `Averaging.output_resolution`.

    Returns:
        The score; of no words at all, accuracy and margin are NaN.

    Raises:
        ValueError: The shapes differ.
    """
    fields, ideal = np.asarray(outputs, dtype=np.float64), np.asarray(levels, dtype=np.float64)
    if fields.shape != ideal.shape or fields.ndim < 1:
        raise ValueError(f"outputs of shape {fields.shape} must have the shape of levels, {ideal.shape}")
    steps = np.asarray(resolution)
    right = (np.rint(decide(fields, steps) * steps) == np.rint(ideal * steps)).all(axis=-1)
    if right.size == 0:
        return Score(0, 0, float("nan"), float("nan"))
    exact = int(right.sum())
    margin = float(np.min(0.5 - np.abs(fields - ideal) * steps))
    return Score(right.size, exact, exact / right.size, margin)


def assign_random(task: Averaging, steps: ArrayLike, seed: int) -> Integers:
    """Symbols of the servers, drawn at random, whose average is the given lattice point.

    The servers' shares are drawn one after another, each uniform over what is still possible, then shuffled.

    Args:
        task: The task.
        steps: Lattice points in steps of 1/N, shape (points, K).
        seed: Seed of the generator.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), for `Averaging.preprocess`.

    Raises:
        ValueError: A step is out of range.
    """
    left = _steps(task, steps).copy()
    rng = np.random.default_rng(seed)
    shares = np.empty((left.shape[0], task.servers, task.groups), dtype=np.int64)
    for server in range(task.servers):
        others = (task.servers - 1 - server) * task.full_scale
        shares[:, server] = rng.integers(np.maximum(left - others, 0), np.minimum(left, task.full_scale) + 1)
        left -= shares[:, server]
    return _share_symbols(task, rng.permuted(shares, axis=1))


def assign_worst(task: Averaging, steps: ArrayLike, errors: ArrayLike) -> Integers:
    """Symbols of the servers that average to the given lattice point and suffer most from P's imbalance.

    Maximizes |Σ_s e_s x_s| over the servers' integer shares x_s with the given sum. The sum is linear, so
    filling the servers up in the order of their errors is optimal; of the two ends, the one further from zero
    is taken.

    Args:
        task: The task.
        steps: Lattice points in steps of 1/N, shape (points, K).
        errors: Error e_s of each server's weight, shape (servers,), or (servers, K) where each input has its
            own.

    Returns:
        Symbols 0 ... 3, shape (points, servers, M), for `Averaging.preprocess`.

    Raises:
        ValueError: A step is out of range, or the errors' shape is wrong.
    """
    total = _steps(task, steps)
    weights = np.asarray(errors, dtype=np.float64)
    if weights.shape not in ((task.servers,), (task.servers, task.groups)):
        raise ValueError(
            f"errors of shape {weights.shape} must be one per server, ({task.servers},), "
            f"or per server and input, ({task.servers}, {task.groups})"
        )
    weights = np.broadcast_to(weights.reshape(task.servers, -1), (task.servers, task.groups))
    before = task.full_scale * np.arange(task.servers)[:, None]
    filled = np.clip(total[:, None, :] - before, 0, task.full_scale)
    order = np.argsort(weights, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")[None]
    low = np.take_along_axis(filled, place, axis=1)
    high = np.take_along_axis(filled, task.servers - 1 - place, axis=1)
    take_high = np.abs((weights * high).sum(axis=1)) >= np.abs((weights * low).sum(axis=1))
    return _share_symbols(task, np.where(take_high[:, None, :], high, low))


def _share_symbols(task: Averaging, shares: Integers) -> Integers:
    """Split every server's group values 0 ... 4^g - 1, shape (points, servers, K), into symbols (..., M)."""
    symbols = (shares[..., None] >> (2 * np.arange(task.group_symbols - 1, -1, -1))) & 3
    return symbols.reshape(*shares.shape[:-1], task.symbols)


def _steps(task: Averaging, steps: ArrayLike) -> Integers:
    if task.finer_input:
        raise ValueError("finer_input = true: level 2 of a cascade takes units' outputs, not servers' symbols")
    values = _integers("steps", steps, task.servers * task.full_scale)
    if values.ndim != 2 or values.shape[1] != task.groups:
        raise ValueError(f"steps of shape {values.shape} must be (points, {task.groups})")
    return values


def _integers(name: str, values: ArrayLike, limit: int, least: int = 0) -> Integers:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} of type {array.dtype} must be integers")
    if array.size and (array.min() < least or array.max() > limit):
        raise ValueError(f"{name} must lie within {least} ... {limit}, got {array.min()} ... {array.max()}")
    return array.astype(np.int64)


def _last_axes(name: str, array: NDArray[np.generic], axes: tuple[int, ...]) -> None:
    if array.shape[-len(axes) :] != axes:
        wanted = ", ".join(str(axis) for axis in axes)
        raise ValueError(f"{name} of shape {array.shape} must end in ({wanted})")
