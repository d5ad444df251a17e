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

The random errors of a chip are drawn from a distribution in the form of Table II of arXiv 2603.28290.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.averaging.task import as_integers, check_last_axes
from optinc_pdk.errors import InputError
from optinc_pdk.io.npz_files import read_npz
from optinc_pdk.io.reading import FUNCTION_TABLE
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.network import Cascade, cascade_tasks
from optinc_pdk.validation import validate_arguments, validate_fields

_Code = TypeVar("_Code", np.int16, np.int32)

MAX_BITS = 16
"""Largest word length in bits, that of arXiv 2603.28290: float32 represents every word exactly, tables are int16."""

MAX_INDEX = 2**31 - 1
"""Largest index: sums over the servers are 32-bit integers."""
SCHEMA = 1
_ARRAYS = {"symbols": ("u", 4), "ideal": ("i", 1), "words": ("i", 3)}
"""Kind and number of dimensions of the arrays that are read."""


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
        """Offset that server n adds to its gradients before rounding, in steps of a word, for an unbiased average.

        For a chip that averages N servers the offset of server n is n/N. In general it is proportional to n, and the
        mean over the servers equals `truncation`. The offsets differ between the servers, so equal gradients on all
        servers are still read as the nearest step, and gradients of 0 as 0: not every server rounds them up.
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
        """Compute the words that the servers read for given words, both (..., servers), without the random `errors`.

        The servers of a unit are adjacent. This is a reference implementation in NumPy; training uses the faster
        functions of `optinc_collective.schemes._codec`.

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
        """Split words, (...), into the values of their groups of symbols, (..., groups), most significant first."""
        count = self.places.shape[1]
        width = self.bits // count
        shifts = width * np.arange(count - 1, -1, -1)
        values: Ints = (words[..., None] >> shifts) & ((1 << width) - 1)
        return values


def read_level(level: ChipLevel, index: Ints) -> Ints:
    """Map the indices of a level, (..., units), to its outputs as `ChipLevel.outputs` defines them.

    Their shape is (..., units, receivers). The number of receivers is 1 if all receivers of a unit read the same.
    """
    if level.outputs is None:
        return (index >> level.shift)[..., None]
    return np.moveaxis(level.outputs[:, index], 0, -1).astype(np.int64)


def mean_truncation(task: Averaging) -> float:
    """Mean loss by truncation, in steps of a word: half an output step minus half an input step.

    The average is truncated to output steps. For uniformly distributed sums all remainders are equally frequent: 0, one
    input step, ..., up to one input step below the output step. A chip without a cascade loses (N - 1)/2N. In a
    cascade, a unit of level 1 passes its remainder on and loses nothing, and level 2 loses (N² - 1)/2N².
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
    """Compute the weights, int32, (K,), of the K network inputs in the number of a lattice point.

    Lattice points are numbered in row-major order: the last input changes fastest. The number of a point is the sum of
    weight times input, with inputs in steps.

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


@validate_arguments
def table_chip(
    path: str | Path, assignment: Literal["random", "worst"] = "random", errors: ErrorHistogram | None = None
) -> AveragingChip:
    """Create a chip from the simulated function of its extracted layout, including all its word errors.

    Every server reads the words of its own receiver. If receivers differ, the gradients of the ranks differ too.

    A file with every combination of the servers' words reproduces the layout's function exactly. In a file with lattice
    points, every point was simulated with two assignments of symbols to servers. The words of one of the two are then
    used for all assignments with the same average.

    Args:
        path: Path of the `.function.npz`.
        assignment: Which of the two assignments is used for a table of lattice points: "random", symbols drawn at
            random, or "worst", the symbols that are worst for this chip. A table of all combinations has only one.
        errors: Distribution of additional random errors; none by default.

    Raises:
        InputError: The file is missing or damaged, or it is not such a table.
    """
    file = Path(path)
    arrays = _read(file)
    symbols, words = arrays["symbols"], arrays["words"]
    if "inputs" in arrays and int(arrays["inputs"]) != symbols.shape[1]:
        raise InputError(
            f"{file}: has rows of {symbols.shape[1]:,} of the {int(arrays['inputs']):,} inputs that were checked, not "
            "of all; if the chip passed, use its weight file, which gives the same words"
        )
    tried, inputs, servers, count = symbols.shape
    if words.shape != (tried, inputs, servers) or arrays["ideal"].shape != (inputs,) or tried not in (1, 2):
        raise InputError(
            f"{file}: arrays of shapes {symbols.shape} and {words.shape} do not match; write it again with optinc check"
        )
    task, places = _numbering(file, servers, count, inputs)
    which = tried - 1 if assignment == "worst" else 0
    read, sent = words[which], task.decode(symbols[which].astype(np.int64))
    width = task.bits // places.shape[1]
    groups = (sent[..., None] >> (width * np.arange(places.shape[1] - 1, -1, -1))) & ((1 << width) - 1)
    index = (groups * places).sum(axis=(1, 2))
    if not np.array_equal(index, np.arange(inputs)) or not np.array_equal(task.ideal(sent), arrays["ideal"]):
        raise InputError(f"{file}: its inputs are not in order; write it again with optinc check")
    if read.min() < 0 or read.max() >= 1 << task.bits:
        raise InputError(
            f"{file}: words must lie within 0 ... {(1 << task.bits) - 1}; write it again with optinc check"
        )
    outputs = task.signed(read).astype(np.int16).T
    if (outputs == outputs[0]).all():
        outputs = outputs[:1]
    level = ChipLevel(servers, inputs, np.ascontiguousarray(outputs), truncation=mean_truncation(task))
    return AveragingChip(task.bits, places, (level,), errors, file.name)


def _numbering(file: Path, servers: int, symbols: int, inputs: int) -> tuple[Averaging, NDArray[np.int32]]:
    """Averaging task of a table, and the weights of the groups of symbols in the number of an input."""
    try:
        task = Averaging(2 * symbols, servers, 1)
        if inputs == 4 ** (symbols * servers):
            word = np.int64(4) ** (symbols * np.arange(servers - 1, -1, -1, dtype=np.int64))
            return task, word.astype(np.int32)[:, None]
        for groups in range(1, symbols + 1):
            if symbols % groups == 0:
                task = Averaging(2 * symbols, servers, groups)
                if task.lattice_size == inputs:
                    return task, lattice_index_weights(task)[None]
    except ValueError as fault:
        raise InputError(f"{file}: {fault}") from fault
    raise InputError(
        f"{file}: {inputs} inputs are neither all words of {servers} servers with {symbols} symbols nor a lattice "
        "of them; write it again with optinc check"
    )


def _read(file: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays. Sizes are checked before unpacking; nothing is unpickled."""
    if file.suffix.lower() != ".npz":
        raise InputError(f"{file}: a chip's table is a .function.npz, as optinc build and optinc check write it")
    found = read_npz(file, FUNCTION_TABLE, only={"schema", "inputs", *_ARRAYS})
    missing = {"schema", *_ARRAYS} - set(found)
    if missing:
        raise InputError(f"{file}: no {', '.join(sorted(missing))}; is it a .function.npz of optinc check?")
    schema = found["schema"]
    if schema.shape != () or schema.dtype.kind not in "iu" or schema != SCHEMA:
        raise InputError(f"{file}: schema {schema}; this version reads schema {SCHEMA}")
    arrays: dict[str, NDArray[np.generic]] = {name: found[name] for name in _ARRAYS}
    if "inputs" in found:
        inputs = found["inputs"]
        if inputs.shape != () or inputs.dtype.kind != "i":
            raise InputError(f"{file}: inputs is not a number; write it again with optinc check")
        arrays["inputs"] = inputs
    for name, (kind, dimensions) in _ARRAYS.items():
        array = arrays[name]
        if array.dtype.kind != kind or array.ndim != dimensions or not array.size:
            raise InputError(
                f"{file}: {name} is {array.dtype} of shape {array.shape}; write it again with optinc check"
            )
    if arrays["symbols"].max() > 3:
        raise InputError(f"{file}: symbols must lie within 0 ... 3; write it again with optinc check")
    return arrays
