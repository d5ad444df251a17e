"""All-reduces as data: which node sends which piece to whom, at which wavelength, step by step.

The same arrays are run by the time model, by the collectives over real sends, and by `execute` here, so that a count
of steps or bytes is one of something that ran.

A `Step` is a set of transfers that happen at once: what is sent is what was there before the step. A piece is number
``part`` of ``parts`` equal pieces of the buffer; the whole buffer is piece 0 of 1. A step that happens ``repeat``
times in a row is one `Step` whose pieces move on by ``shift`` every time, so that a ring of 100,000 nodes is two
steps and not 199,998.

On a ring, the link from node i to node i + 1 is number i; direction +1 goes up the numbers, −1 down, each with
wavelengths of its own; 0 is not on a ring. In-network units (OptINC's chips) are nodes after the servers: they start
at zero, and what they add up leaves them in flight: a step that is ``streamed`` passes light on while the step before
it still sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """T concurrent transfers, ``repeat`` times in a row.

    Attributes:
        source: Sending node of every transfer (T,).
        target: Receiving node (T,).
        part: Which piece is sent the first time (T,).
        parts: Of how many equal pieces of the buffer (T,).
        wavelength: Its number, from 0 (T,).
        direction: +1 or −1 around the ring; 0 where there is none (T,).
        reduce: Whether targets add what arrives to what they have, or keep what arrives alone.
        repeat: How often the step happens in a row.
        shift: By how much the piece's number grows from one time to the next, modulo ``parts``.
        streamed: Whether sources pass on in flight what the step before it brings them.
    """

    source: Integers
    target: Integers
    part: Integers
    parts: Integers
    wavelength: Integers
    direction: Integers
    reduce: bool
    repeat: int = 1
    shift: int = 0
    streamed: bool = False

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True)
class Schedule:
    """An all-reduce: after its steps every server has the sum of what all had.

    Attributes:
        name: The scheme's name.
        nodes: Number of servers, numbered from 0.
        steps: What happens, in this order.
        units: Number of in-network units, numbered after the servers.
    """

    name: str
    nodes: int
    steps: tuple[Step, ...]
    units: int = 0

    def __post_init__(self) -> None:
        validate_fields(self)

    @property
    def count(self) -> int:
        """Number of steps that happen one after the other."""
        return sum(step.repeat for step in self.steps if not step.streamed)

    @property
    def sent(self) -> NDArray[np.float64]:
        """How much every server sends, in buffers (nodes,)."""
        total = np.zeros(self.nodes + self.units)
        for step in self.steps:
            np.add.at(total, step.source, step.repeat / step.parts)
        return total[: self.nodes]

    @property
    def parts(self) -> int:
        """The largest number of pieces that a step cuts the buffer into."""
        return max(int(step.parts.max()) for step in self.steps)

    @property
    def wavelengths(self) -> int:
        """How many wavelengths the steps take, in each direction."""
        return max(int(step.wavelength.max()) for step in self.steps) + 1


def transfers(
    source: Any,
    target: Any,
    *,
    reduce: bool,
    part: Any = 0,
    parts: Any = 1,
    wavelength: Any = 0,
    direction: Any = 0,
    repeat: int = 1,
    shift: int = 0,
    streamed: bool = False,
) -> Step:
    """A step from arrays that broadcast against each other."""
    given = np.broadcast_arrays(source, target, part, parts, wavelength, direction)
    first, last, piece, pieces, lane, way = (np.array(column, np.int64).ravel() for column in given)
    return Step(first, last, piece, pieces, lane, way, reduce, repeat, shift, streamed)


def bounds(step: Step, turn: int, size: int) -> tuple[Integers, Integers]:
    """First element of every transfer's piece, and the one after its last, in a buffer of ``size`` elements.

    Pieces are equal up to one element: piece p of P starts at ⌊p size / P⌋.
    """
    part = (step.part + turn * step.shift) % step.parts
    return part * size // step.parts, (part + 1) * size // step.parts


def turns(schedule: Schedule) -> Iterator[tuple[Step, int]]:
    """Every time that a step happens: the step, and how often it has happened before."""
    for step in schedule.steps:
        for turn in range(step.repeat):
            yield step, turn


@validate_arguments
def execute(schedule: Schedule, values: NDArray[Any]) -> NDArray[Any]:
    """Run a schedule on buffers.

    Args:
        schedule: What to run.
        values: The servers' buffers (nodes, size).

    Returns:
        The servers' buffers afterwards (nodes, size).

    Raises:
        InputError: Not one buffer for every server.
    """
    if values.ndim != 2 or len(values) != schedule.nodes:
        raise InputError(f"{schedule.name}: values have shape {values.shape}; give ({schedule.nodes}, size)")
    size = values.shape[1]
    buffers = np.concatenate([values, np.zeros((schedule.units, size), values.dtype)])
    flat = buffers.reshape(-1)
    for step, turn in turns(schedule):
        start, stop = bounds(step, turn, size)
        lengths = stop - start
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        sent = flat[np.repeat(step.source * size + start, lengths) + offset]
        places = np.repeat(step.target * size + start, lengths) + offset
        if step.reduce:
            np.add.at(flat, places, sent)
        else:
            flat[places] = sent
    return buffers[: schedule.nodes]


def hops(step: Step, nodes: int) -> tuple[Integers, Integers]:
    """The links around the ring that every transfer takes: the first one's number, and how many up from there."""
    up = step.direction > 0
    length = np.where(up, step.target - step.source, step.source - step.target) % nodes
    return np.where(up, step.source, step.target), length


def conflicts(step: Step, nodes: int) -> Integers:
    """Pairs of transfers that need one wavelength on one link in one direction at once (C, 2).

    Every transfer that is in conflict with any is in a pair; not every pair is given.
    """
    first, length = hops(step, nodes)
    channel = np.where(step.direction == 0, -1, 2 * step.wavelength + (step.direction > 0))
    order = np.lexsort((first, channel))
    order = order[(channel[order] >= 0) & (length[order] > 0)]
    if not len(order):
        return np.empty((0, 2), np.int64)
    ends = np.flatnonzero(np.diff(channel[order], append=-1))
    begins = np.concatenate([[0], ends[:-1] + 1])
    following = np.arange(1, len(order) + 1)
    following[ends] = begins  # around the ring
    begin = first[order][following]
    begin[ends] += nodes
    found = first[order] + length[order] > begin
    return np.stack([order[found], order[following][found]], axis=1)
