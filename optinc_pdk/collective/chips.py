"""What a chip makes of the servers' words, as sums and tables: so it runs at the memory's speed.

Light adds up in the chip, so what it puts out depends on a sum over the servers alone: every server adds a
*code* to an index, and a table over all indices tells what is read. A code is linear in the groups of symbols
of a word, which is what the preprocessing unit P averages (arXiv 2603.28290):

- of the lattice, group k counts the product of the sizes of the groups below it, and the index numbers the
  lattice point;
- of the ideal average, the code is the word itself, and the index divided by N, without its fraction, is read;
- of a chip of which every combination of words is known, a server's word counts 2^(B·s), s its place from the
  last, and the index numbers the combination.

In a cascade, N units of level 1 serve N servers each, and what a unit puts out is again a code, of level 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.averaging.array_checks import as_integers, check_last_axes
from optinc_pdk.collective.errors import ErrorHistogram
from optinc_pdk.errors import InputError
from optinc_pdk.onn import Onn
from optinc_pdk.onn.cascade import Cascade, cascade_tasks
from optinc_pdk.validation import validate_arguments, validate_fields

_Code = TypeVar("_Code", np.int16, np.int32)

MAX_BITS = 16
"""Widest word, that of arXiv 2603.28290: float32 holds every word exactly, and tables hold int16."""

MAX_INDEX = 2**31 - 1
"""Largest index: sums over the servers travel as 32-bit integers."""


@dataclass(frozen=True, eq=False)
class Level:
    """Units of one level, all alike.

    Attributes:
        units: Servers, or units of the level below, that send to one unit.
        size: Number of indices; sums of codes are 0 ... size - 1.
        outputs: Per reader and index, what is read, shape (1 or units, size): of the last level signed averages,
            int16; of a level below codes of the next one, int32. Or None, and the index shifted right by `shift`
            is read: the word, of the last level, or the next level's code.
        shift: Where there is no table, the binary logarithm of what the index is divided by.
        truncation: Steps of a word that dropping a fraction takes off here on average; see `mean_truncation`. Unbiased
            rounding makes up for it, so it has to be told of a table.
    """

    units: int
    size: int
    outputs: NDArray[np.int16] | NDArray[np.int32] | None = None
    shift: int = 0
    truncation: float = 0.0

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True, eq=False)
class Chip:
    """A chip, or a cascade of chips, as the servers see it.

    Attributes:
        bits: Bits of a word.
        places: What one unit of each group of symbols adds to the index, most significant group first,
            int32, shape (1 or servers of a unit, groups).
        levels: One, or the two of a cascade.
        errors: Errors added to what is read, or None.
        source: Where it comes from, for messages.

    Raises:
        InputError: Words too wide, or too many indices; or other types.
    """

    bits: int
    places: NDArray[np.int32]
    levels: tuple[Level, ...]
    errors: ErrorHistogram | None
    source: str

    def __post_init__(self) -> None:
        """Refuse what codes and tables have no room for."""
        validate_fields(self)
        if self.bits > MAX_BITS:
            raise InputError(f"{self.source}: words of {self.bits} bits; the widest are {MAX_BITS} bits: use fewer")
        for level in self.levels:
            if level.size - 1 > MAX_INDEX:
                raise InputError(
                    f"{self.source}: {level.size} sums over the servers; at most {MAX_INDEX} can be told apart: "
                    "use fewer bits or servers"
                )

    @property
    def servers(self) -> int:
        """Number of servers."""
        return int(np.prod([level.units for level in self.levels]))

    @property
    def truncation(self) -> float:
        """Steps that what is read lies below the mean, on average over words of evenly spread sums."""
        return sum(level.truncation for level in self.levels)

    def offset(self, server: int) -> float:
        """Steps that a server adds before rounding, so that what is read is right in the mean: n/N for server n of N.

        In the mean of the servers that is the truncation. As it differs between them, equal gradients are read as the
        nearest step, and gradients of 0 as 0, for not every server rounds them up.
        """
        return 2 * self.truncation * server / max(1, self.servers - 1)

    @property
    def digest(self) -> str:
        """Equal for equal chips."""
        parts = [self.bits, self.places.tobytes(), self.errors]
        for level in self.levels:
            table = b"" if level.outputs is None else level.outputs.tobytes()
            parts += [level.units, level.size, level.shift, level.truncation, hashlib.sha256(table).hexdigest()]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def average(self, words: ArrayLike) -> NDArray[np.int64]:
        """What every server reads, without the histogram's errors; for judging, not for speed.

        Args:
            words: Integers 0 ... 2^bits - 1, shape (..., servers), a unit's servers side by side.

        Returns:
            Words, shape (..., servers).

        Raises:
            InputError: These are no words, or not those of so many servers.
        """
        try:
            values = as_integers("words", words, (1 << self.bits) - 1)
            check_last_axes("words", values, (self.servers,))
        except ValueError as fault:
            raise InputError(f"{self.source}: {fault}") from fault
        counts = values.reshape(*values.shape[:-1], -1, self.levels[0].units)
        codes = (self.groups(counts) * self.places).sum(axis=-1)
        for level in self.levels:
            index = codes.reshape(*values.shape[:-1], -1, level.units).sum(axis=-1)
            codes = read(level, index)
        half = 0 if self.levels[-1].outputs is None else 1 << (self.bits - 1)
        return np.broadcast_to(codes[..., 0, :] + half, values.shape)

    def groups(self, words: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values of the groups of symbols, most significant first, (..., groups) of words (...)."""
        count = self.places.shape[1]
        width = self.bits // count
        shifts = width * np.arange(count - 1, -1, -1)
        values: NDArray[np.int64] = (words[..., None] >> shifts) & ((1 << width) - 1)
        return values


def read(level: Level, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """What readers read at indices (..., units of the level): (..., units of the level, readers)."""
    if level.outputs is None:
        return (index >> level.shift)[..., None]
    return np.moveaxis(level.outputs[:, index], 0, -1).astype(np.int64)


def mean_truncation(task: Averaging) -> float:
    """Steps of a word that dropping the fraction takes off on average: half an output's step less half an input's.

    Of evenly spread sums, every fraction from 0 to the last step of the input is as frequent. A unit that passes its
    remainder on drops nothing; so in a cascade level 2 drops all, (N² - 1)/2N² steps, of one level it is (N - 1)/2N.
    """
    return 0.5 * float(1 / task.output_resolution[-1] - 1 / task.input_resolution[-1])


@validate_arguments
def ideal_chip(bits: int, servers: int, errors: ErrorHistogram | None = None) -> Chip:
    """The ideal average G* = Q((1/N) Σ G_n), without its fraction.

    Args:
        bits: Bits of a word, even, at most 16.
        servers: Number of servers.
        errors: Errors of a real chip, told by value and share; none by default.

    Raises:
        InputError: No such chip.
    """
    task = _task(bits, servers)
    source = f"ideal average of {servers} servers"
    size = servers * ((1 << task.bits) - 1) + 1
    identity = np.ones((1, 1), dtype=np.int32)
    if servers & (servers - 1) == 0:
        level = Level(servers, size, shift=servers.bit_length() - 1, truncation=mean_truncation(task))
        return Chip(bits, identity, (level,), errors, source)
    if size > MAX_INDEX:
        raise InputError(f"servers = {servers} of {bits}-bit words: sums above {MAX_INDEX}; use fewer of them")
    table = task.signed(np.arange(size) // servers).astype(np.int16)[None]
    return Chip(bits, identity, (Level(servers, size, table, truncation=mean_truncation(task)),), errors, source)


@validate_arguments
def ideal_cascade(bits: int, servers: int, errors: ErrorHistogram | None = None) -> Chip:
    """N units of N servers each, whose remainders go on to level 2, for N² servers.

    A unit puts out its average and, as the fraction of its last symbol, the remainder: together its sum in steps
    of 1/N.

    Args:
        bits: Bits of a word, even, at most 16.
        servers: Servers N of a unit, a power of two.
        errors: Errors of a real cascade; none by default.

    Raises:
        InputError: No such cascade.
    """
    top = ideal_chip(bits, servers**2).levels[0]
    if top.outputs is not None:
        raise InputError(f"servers = {servers} of a unit must be a power of two in an ideal cascade")
    below, above = map(mean_truncation, cascade_tasks(bits, servers, 1))
    first = Level(servers, servers * ((1 << bits) - 1) + 1, truncation=below)
    levels = (first, replace(top, units=servers, truncation=above))
    return Chip(bits, np.ones((1, 1), dtype=np.int32), levels, errors, f"ideal cascade of {servers}² servers")


@validate_arguments
def network_chip(onn: Onn, errors: ErrorHistogram | None = None) -> Chip:
    """A network's float forward, decided by the receivers, at every lattice point.

    Args:
        onn: The network, of one level.
        errors: Errors of a real chip; none by default.

    Raises:
        InputError: The network is one level of a cascade, its lattice is too large for a table, or it puts out NaN.
    """
    task = onn.task
    if task.remainder or task.finer_input:
        raise InputError("the network is one level of a cascade: give both levels to network_cascade")
    level = Level(task.servers, task.lattice_size, _signed_words(onn), truncation=mean_truncation(task))
    return Chip(task.bits, lattice_places(task)[None], (level,), errors, f"network of {task.servers} servers")


@validate_arguments
def network_cascade(cascade: Cascade, errors: ErrorHistogram | None = None) -> Chip:
    """Two levels of networks. What level 1 puts out counts at its nearest step of 1/N.

    Between the levels there is no receiver, so what level 1 is off its steps by would go on to level 2; here it does
    not. `Cascade.average` computes with it.

    Args:
        cascade: Both networks.
        errors: Errors of a real cascade; none by default.

    Raises:
        InputError: A lattice is too large for a table, or a network puts out NaN.
    """
    first, second = cascade.first.task, cascade.second.task
    places = lattice_places(second).astype(np.int64)
    shifts = 2 * second.group_symbols * np.arange(second.groups - 1, -1, -1)

    def onward(levels: NDArray[np.float64]) -> NDArray[np.int32]:
        whole = np.floor(levels)
        groups = (first.decode(whole.astype(np.int64))[:, None] >> shifts) & second.full_scale
        rest = np.rint((levels - whole)[:, -1] * first.servers).astype(np.int64)
        groups[:, -1] = groups[:, -1] * first.servers + rest
        return (groups @ places).astype(np.int32)

    codes, outputs = _over_lattice(cascade.first, onward)[None], _signed_words(cascade.second)
    levels = (
        Level(first.servers, first.lattice_size, codes, truncation=mean_truncation(first)),
        Level(second.servers, second.lattice_size, outputs, truncation=mean_truncation(second)),
    )
    return Chip(first.bits, lattice_places(first)[None], levels, errors, f"cascade of {first.servers}² servers")


def lattice_places(task: Averaging) -> NDArray[np.int32]:
    """What a step of every input adds to the number of a lattice point, shape (K,)."""
    if not task.enumerable:
        raise InputError(
            f"the lattice of {task.bits} bits, {task.servers} servers and {task.groups} groups has "
            f"{task.lattice_size:.3g} points, too many for a table; use the ideal average with a histogram of errors"
        )
    sizes = task.input_steps + 1
    return np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int32)


def _signed_words(onn: Onn) -> NDArray[np.int16]:
    """The signed averages that all receivers of a network read, (1, points)."""
    task = onn.task
    return _over_lattice(onn, lambda levels: task.signed(task.decode(levels.astype(np.int64))).astype(np.int16))[None]


def _over_lattice(onn: Onn, seen: Callable[[NDArray[np.float64]], NDArray[_Code]]) -> NDArray[_Code]:
    """What is made of the levels (points, M) that the receivers decide on, over the lattice, (points,)."""
    lattice_places(onn.task)
    pieces = []
    for inputs in onn.task.batches():
        fields = onn.forward(inputs)
        if not np.isfinite(fields).all():
            raise InputError("the network puts out NaN or infinity at some lattice points: train it again")
        pieces.append(seen(decide(fields, onn.task.output_resolution)))
    return np.concatenate(pieces)


def _task(bits: int, servers: int) -> Averaging:
    if bits > MAX_BITS:
        raise InputError(f"bits = {bits}: the widest words are of {MAX_BITS} bits; use {MAX_BITS} or fewer")
    try:
        return Averaging(bits, servers, 1)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
