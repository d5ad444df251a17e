"""Averaging function of a chip, from the servers' words to the words read, as a sum and a table lookup.

The preprocessing unit P of a chip adds fields (arXiv 2603.28290), so the chip's output depends only on a sum over the
servers. Every server contributes a *code*, the sum of the codes is the *index*, and a table maps every index to the
word that is read. A code is a linear combination of the values of a word's groups of symbols; the weights depend on
the chip:

- a chip known on the lattice: the weight of group k is the product of the lattice sizes of the groups below it, and the
  index is the number of the lattice point;
- the ideal average: the code is the word itself, and the index divided by N, rounded down, is read;
- a chip known for every combination of words: the weight of a server's word is 2^(B·s), s its position counted from the
  last server, and the index is the number of the combination.

In a cascade, N units of level 1 serve N servers each. The output of a unit is a code of level 2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_collective.schemes.error_histogram import ErrorHistogram
from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.averaging.array_checks import as_integers, check_last_axes
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.cascade import Cascade, cascade_tasks
from optinc_pdk.validation import validate_arguments, validate_fields

_Code = TypeVar("_Code", np.int16, np.int32)

MAX_BITS = 16
"""Largest word length in bits, that of arXiv 2603.28290: float32 represents every word exactly, tables are int16."""

MAX_INDEX = 2**31 - 1
"""Largest index: sums over the servers are 32-bit integers."""


@dataclass(frozen=True, eq=False)
class ChipLevel:
    """One level of a chip or cascade, which consists of one or more identical units.

    A unit adds the codes of its senders to an index and maps the index to an output; see the module.

    Attributes:
        units: Number of senders per unit. On the first level these are servers, on the second level units of the first.
        size: Number of different indices: the sum of the codes lies in 0 ... size - 1.
        outputs: Table of outputs, shape (1, size) if all receivers of a unit read the same, else (units, size). On the
            last level an entry is the average as a signed word, word - 2^(bits - 1), int16. On a level below it, an
            entry is a code of the next level, int32. If None, the output is the index shifted right by `shift`: the
            unsigned word on the last level, the code of the next level on a level below it.
        shift: Number of bits by which the index is shifted right if there is no table: the index is divided by 2^shift.
        truncation: Mean loss by truncation at this level, in steps of a word; see `mean_truncation`. Unbiased rounding
            compensates for it, so a level with a table needs it too.
    """

    units: int
    size: int
    outputs: NDArray[np.int16] | NDArray[np.int32] | None = None
    shift: int = 0
    truncation: float = 0.0

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True, eq=False)
class AveragingChip:
    """The averaging function of a chip or of a cascade of chips.

    Attributes:
        bits: Number of bits of a word.
        places: Weights of the groups of symbols in a server's code, most significant group first, int32, shape (1,
            groups) if they are equal for all servers, else (servers of a unit, groups). A code is the sum of weight
            times value of the group.
        levels: One level, or the two levels of a cascade, lowest first.
        errors: Distribution of random errors that are added to the words read, or None.
        source: Description of the chip for messages, such as the name of its file.

    Raises:
        InputError: A word has more than `MAX_BITS` bits, an index is larger than `MAX_INDEX`, or a value has the wrong
            type.
    """

    bits: int
    places: NDArray[np.int32]
    levels: tuple[ChipLevel, ...]
    errors: ErrorHistogram | None
    source: str

    def __post_init__(self) -> None:
        """Check types, and that codes and tables are large enough."""
        validate_fields(self)
        if self.bits > MAX_BITS:
            raise InputError(f"{self.source}: words of {self.bits} bits; at most {MAX_BITS} are supported: use fewer")
        for level in self.levels:
            if level.size - 1 > MAX_INDEX:
                raise InputError(
                    f"{self.source}: {level.size} different sums over the servers; at most {MAX_INDEX} are supported: "
                    "use fewer bits or servers"
                )

    @property
    def servers(self) -> int:
        """Number of servers."""
        return int(np.prod([level.units for level in self.levels]))

    @property
    def truncation(self) -> float:
        """Mean loss by truncation, in steps of a word: the exact mean of the words minus the word read.

        The mean is over uniformly distributed sums of words. It is the sum over the levels of `ChipLevel.truncation`.
        """
        return sum(level.truncation for level in self.levels)

    def offset(self, server: int) -> float:
        """Offset that a server adds to its gradients before rounding, so that the average is unbiased.

        For a chip that averages N servers the offset of server n is n/N. In general it is proportional to n, and the
        mean over the servers equals `truncation`. The offsets differ between the servers, so equal gradients on all
        servers are still read as the nearest step, and gradients of 0 as 0: not every server rounds them up.

        Args:
            server: Number n of the server, 0 ... servers - 1.

        Returns:
            The offset in steps of a word.
        """
        return 2 * self.truncation * server / max(1, self.servers - 1)

    @property
    def digest(self) -> str:
        """SHA-256 of word length, weights, levels and errors, as a hexadecimal string; it does not include `source`."""
        parts = [self.bits, self.places.tobytes(), self.errors]
        for level in self.levels:
            table = b"" if level.outputs is None else level.outputs.tobytes()
            parts += [level.units, level.size, level.shift, level.truncation, hashlib.sha256(table).hexdigest()]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def average(self, words: ArrayLike) -> Ints:
        """Compute the average that every server reads for given words, without the random `errors`.

        This is a reference implementation in NumPy. Training uses the faster functions of `collective.codec`.

        Args:
            words: Integers 0 ... 2^bits - 1, shape (..., servers); the servers of a unit are adjacent.

        Returns:
            The word that each server reads, shape (..., servers).

        Raises:
            InputError: The values are not words, or the last axis does not match the number of servers.
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
            codes = read_level(level, index)
        half = 0 if self.levels[-1].outputs is None else 1 << (self.bits - 1)
        return np.broadcast_to(codes[..., 0, :] + half, values.shape)

    def groups(self, words: Ints) -> Ints:
        """Split words into the values of their groups of symbols.

        Args:
            words: Integers 0 ... 2^bits - 1, any shape (...).

        Returns:
            Values of the groups, most significant group first, shape (..., groups).
        """
        count = self.places.shape[1]
        width = self.bits // count
        shifts = width * np.arange(count - 1, -1, -1)
        values: Ints = (words[..., None] >> shifts) & ((1 << width) - 1)
        return values


def read_level(level: ChipLevel, index: Ints) -> Ints:
    """Map the indices of a level to its outputs.

    Args:
        level: The level.
        index: Index of every unit of the level, shape (..., number of units).

    Returns:
        Outputs as `ChipLevel.outputs` defines them, shape (..., number of units, receivers). The number of receivers is
        1 if all receivers of a unit read the same.
    """
    if level.outputs is None:
        return (index >> level.shift)[..., None]
    return np.moveaxis(level.outputs[:, index], 0, -1).astype(np.int64)


def mean_truncation(task: Averaging) -> float:
    """Mean loss by truncation of an averaging task: half an output step minus half an input step.

    The average is truncated to output steps. For uniformly distributed sums all remainders are equally frequent: 0, one
    input step, ..., up to one input step below the output step. A chip without a cascade loses (N - 1)/2N. In a
    cascade, a unit of level 1 passes its remainder on and loses nothing, and level 2 loses (N² - 1)/2N².

    Returns:
        The mean loss in steps of a word.
    """
    return 0.5 * float(1 / task.output_resolution[-1] - 1 / task.input_resolution[-1])


@validate_arguments
def ideal_chip(bits: int, servers: int, errors: ErrorHistogram | None = None) -> AveragingChip:
    """Create a chip that computes the ideal average: the mean of the words, rounded down.

    This is G* = Q((1/N) Σ G_n) of arXiv 2603.28290.

    Args:
        bits: Bits of a word, even, at most 16.
        servers: Number of servers.
        errors: Distribution of random errors that are added to the average, to model a real chip; none by default.

    Raises:
        InputError: The number of bits or servers is not supported.
    """
    task = _task(bits, servers)
    source = f"ideal average of {servers} servers"
    size = servers * ((1 << task.bits) - 1) + 1
    identity = np.ones((1, 1), dtype=np.int32)
    if servers & (servers - 1) == 0:
        level = ChipLevel(servers, size, shift=servers.bit_length() - 1, truncation=mean_truncation(task))
        return AveragingChip(bits, identity, (level,), errors, source)
    if size > MAX_INDEX:
        raise InputError(f"servers = {servers} of {bits}-bit words: sums above {MAX_INDEX}; use fewer servers or bits")
    table = task.signed(np.arange(size) // servers).astype(np.int16)[None]
    return AveragingChip(
        bits, identity, (ChipLevel(servers, size, table, truncation=mean_truncation(task)),), errors, source
    )


@validate_arguments
def ideal_cascade(bits: int, servers: int, errors: ErrorHistogram | None = None) -> AveragingChip:
    """Create an ideal cascade for N² servers: N units of N servers each on level 1, and one unit on level 2.

    A unit of level 1 outputs its average with the remainder of the division, which is the fractional part of the last
    symbol. So level 2 receives the exact sum of the unit's words, in steps of 1/N, and the result is rounded down once.

    Args:
        bits: Bits of a word, even, at most 16.
        servers: Number N of servers of a unit, a power of two.
        errors: Distribution of random errors that are added to the average, to model a real cascade; none by default.

    Raises:
        InputError: The number of bits or servers is not supported.
    """
    top = ideal_chip(bits, servers**2).levels[0]
    if top.outputs is not None:
        raise InputError(f"servers = {servers} of a unit must be a power of two in an ideal cascade")
    below, above = map(mean_truncation, cascade_tasks(bits, servers, 1))
    first = ChipLevel(servers, servers * ((1 << bits) - 1) + 1, truncation=below)
    levels = (first, replace(top, units=servers, truncation=above))
    return AveragingChip(bits, np.ones((1, 1), dtype=np.int32), levels, errors, f"ideal cascade of {servers}² servers")


@validate_arguments
def network_chip(onn: AveragingNetwork, errors: ErrorHistogram | None = None) -> AveragingChip:
    """Create a chip from a network: a table of its decided outputs at every lattice point.

    The forward pass is computed in floating point, and every output is decided to a level, as a receiver does.

    Args:
        onn: Network of a chip that is not part of a cascade.
        errors: Distribution of random errors that are added to the average, to model a real chip; none by default.

    Raises:
        InputError: The network is one level of a cascade, its lattice is too large for a table, or its output is NaN.
    """
    task = onn.task
    if task.remainder or task.finer_input:
        raise InputError("the network is one level of a cascade: give both levels to network_cascade")
    level = ChipLevel(task.servers, task.lattice_size, _signed_words(onn), truncation=mean_truncation(task))
    return AveragingChip(
        task.bits, lattice_index_weights(task)[None], (level,), errors, f"network of {task.servers} servers"
    )


@validate_arguments
def network_cascade(cascade: Cascade, errors: ErrorHistogram | None = None) -> AveragingChip:
    """Create a cascade from the networks of its two levels: a table of outputs for each level.

    The outputs of level 1 are rounded to the nearest step of 1/N. A real cascade has no receiver between the levels, so
    deviations of level 1 reach level 2. This function neglects them; `Cascade.average` includes them.

    Args:
        cascade: Networks of both levels.
        errors: Distribution of random errors that are added to the average, to model a real cascade; none by default.

    Raises:
        InputError: A lattice is too large for a table, or the output of a network is NaN.
    """
    first, second = cascade.first.task, cascade.second.task
    places = lattice_index_weights(second).astype(np.int64)
    shifts = 2 * second.group_symbols * np.arange(second.groups - 1, -1, -1)

    def next_codes(levels: Floats) -> NDArray[np.int32]:
        whole = np.floor(levels)
        groups = (first.decode(whole.astype(np.int64))[:, None] >> shifts) & second.full_scale
        rest = np.rint((levels - whole)[:, -1] * first.servers).astype(np.int64)
        groups[:, -1] = groups[:, -1] * first.servers + rest
        return (groups @ places).astype(np.int32)

    codes, outputs = _over_lattice(cascade.first, next_codes)[None], _signed_words(cascade.second)
    levels = (
        ChipLevel(first.servers, first.lattice_size, codes, truncation=mean_truncation(first)),
        ChipLevel(second.servers, second.lattice_size, outputs, truncation=mean_truncation(second)),
    )
    return AveragingChip(
        first.bits, lattice_index_weights(first)[None], levels, errors, f"cascade of {first.servers}² servers"
    )


def lattice_index_weights(task: Averaging) -> NDArray[np.int32]:
    """Compute the weight of each of the K network inputs in the number of a lattice point.

    Lattice points are numbered in row-major order: the last input changes fastest. The number of a point is the sum of
    weight times input, with inputs in steps.

    Returns:
        The weights, int32, shape (K,).

    Raises:
        InputError: The lattice has too many points for a table.
    """
    if not task.enumerable:
        raise InputError(
            f"the lattice of {task.bits} bits, {task.servers} servers and {task.groups} groups has "
            f"{task.lattice_size:.3g} points, too many for a table; use the ideal average with a histogram of errors"
        )
    sizes = task.input_steps + 1
    return np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int32)


def _signed_words(onn: AveragingNetwork) -> NDArray[np.int16]:
    """Signed averages that the receivers of a network read at all lattice points, (1, points)."""
    task = onn.task
    return _over_lattice(onn, lambda levels: task.signed(task.decode(levels.astype(np.int64))).astype(np.int16))[None]


def _over_lattice(onn: AveragingNetwork, convert: Callable[[Floats], NDArray[_Code]]) -> NDArray[_Code]:
    """Apply a function to the levels (points, M) that the receivers decide on, over the whole lattice, (points,)."""
    lattice_index_weights(onn.task)
    pieces = []
    for inputs in onn.task.batches():
        fields = onn.forward(inputs)
        if not np.isfinite(fields).all():
            raise InputError("the network's output is NaN or infinite at some lattice points: train it again")
        pieces.append(convert(decide(fields, onn.task.output_resolution)))
    return np.concatenate(pieces)


def _task(bits: int, servers: int) -> Averaging:
    if bits > MAX_BITS:
        raise InputError(f"bits = {bits}: words have at most {MAX_BITS} bits; use {MAX_BITS} or fewer")
    try:
        return Averaging(bits, servers, 1)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
