"""All-reduces as data: which node sends which piece to which node, at which wavelength, step by step.

The time model, the collectives between processes and `execute` use the same arrays, so the steps and bytes counted are
those of an executed schedule.

An `ExchangeStep` is a set of concurrent transfers, which send the data present before the step. A piece is number
``part`` of ``parts`` equal pieces of the buffer; the whole buffer is piece 0 of 1. A step that is repeated ``repeat``
times is one `ExchangeStep` whose piece numbers grow by ``shift`` each time, so a ring of 100,000 nodes has two objects
instead of 199,998.

On a ring, link i connects node i to node i + 1. Direction +1 is towards higher numbers, −1 towards lower ones, and each
direction has its own wavelengths; direction 0 means that the transfer is not on a ring. In-network units (OptINC's
chips, or switches that reduce) are nodes numbered after the servers. Their buffers start at zero, and they forward sums
without storing them: a ``streamed`` step forwards data while the step before it still sends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields


@dataclass(frozen=True)
class ExchangeStep:
    """Step of a schedule: T concurrent transfers, executed ``repeat`` times.

    All arrays have shape (T,) and one entry for every transfer.

    Attributes:
        source: Number of the sending node.
        target: Number of the receiving node.
        part: Number of the piece of the buffer that is sent in the first repetition, 0 ... parts - 1.
        parts: Number of equal pieces into which the buffer is divided.
        wavelength: Number of the wavelength, from 0.
        direction: +1 towards higher node numbers around the ring, −1 towards lower ones; 0 if not on a ring.
        reduce: If True, targets add the received data to their own; if False, the received data replaces it.
        repeat: Number of executions of the step, at least 1.
        shift: Increment of the piece number from one repetition to the next, modulo ``parts``.
        streamed: Whether sources forward the data of the preceding step while they still receive it.
    """

    source: Ints
    target: Ints
    part: Ints
    parts: Ints
    wavelength: Ints
    direction: Ints
    reduce: bool
    repeat: int = 1
    shift: int = 0
    streamed: bool = False

    def __post_init__(self) -> None:
        validate_fields(self)


@dataclass(frozen=True)
class ExchangeSchedule:
    """Schedule of an all-reduce: after its steps every server has the sum over all servers.

    The schedule of an all-gather is the exception: after its steps every server has the pieces of all servers.

    Attributes:
        name: Name of the scheme.
        nodes: Number of servers, which are nodes 0 ... nodes - 1.
        steps: The steps in order.
        units: Number of in-network units, which are numbered after the servers.
        unit: What the units are: "chip" (OptINC), "switch" (SHARP), or "" without units.
    """

    name: str
    nodes: int
    steps: tuple[ExchangeStep, ...]
    units: int = 0
    unit: str = ""

    def __post_init__(self) -> None:
        validate_fields(self)

    @property
    def count(self) -> int:
        """Number of consecutive steps. Every repetition counts; streamed steps do not, as they overlap with others."""
        return sum(step.repeat for step in self.steps if not step.streamed)

    @property
    def sent(self) -> Floats:
        """Amount of data that every server sends, as a multiple of the size of its buffer, shape (nodes,)."""
        total = np.zeros(self.nodes + self.units)
        for step in self.steps:
            np.add.at(total, step.source, step.repeat / step.parts)
        return total[: self.nodes]

    @property
    def parts(self) -> int:
        """Largest number of pieces into which any step divides the buffer."""
        return max(int(step.parts.max()) for step in self.steps)

    @property
    def wavelengths(self) -> int:
        """Number of wavelengths that the schedule needs in each direction."""
        return max(int(step.wavelength.max()) for step in self.steps) + 1


def exchange_step(
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
) -> ExchangeStep:
    """Create an `ExchangeStep` from scalars and arrays, which are broadcast against each other."""
    columns = np.broadcast_arrays(source, target, part, parts, wavelength, direction)
    source, target, part, parts, wavelength, direction = (np.array(column, np.int64).ravel() for column in columns)
    return ExchangeStep(source, target, part, parts, wavelength, direction, reduce, repeat, shift, streamed)


def piece_bounds(step: ExchangeStep, turn: int, size: int) -> tuple[Ints, Ints]:
    """Compute the first element, and that after the last, of the piece that every transfer sends, (T,) each.

    The sizes of pieces differ by at most one element: piece p of P starts at element ⌊p size / P⌋.

    Args:
        step: The step, with T transfers.
        turn: Number of the repetition, from 0.
        size: Number of elements of the buffer.
    """
    part = (step.part + turn * step.shift) % step.parts
    return part * size // step.parts, (part + 1) * size // step.parts


def repetitions(schedule: ExchangeSchedule) -> Iterator[tuple[ExchangeStep, int]]:
    """Iterate over all repetitions of all steps in order; yields the step and the number of the repetition, from 0."""
    for step in schedule.steps:
        for turn in range(step.repeat):
            yield step, turn


@validate_arguments
def execute(schedule: ExchangeSchedule, values: NDArray[Any]) -> NDArray[Any]:
    """Execute a schedule on the servers' buffers, (nodes, size), in memory, to test or demonstrate it.

    Raises:
        InputError: The shape of `values` does not match the number of nodes.
    """
    if values.ndim != 2 or len(values) != schedule.nodes:
        raise InputError(f"{schedule.name}: values have shape {values.shape}; give ({schedule.nodes}, size)")
    size = values.shape[1]
    buffers = np.concatenate([values, np.zeros((schedule.units, size), values.dtype)])
    flat = buffers.reshape(-1)
    for step, turn in repetitions(schedule):
        start, stop = piece_bounds(step, turn, size)
        lengths = stop - start
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        sent = flat[np.repeat(step.source * size + start, lengths) + offset]
        received_at = np.repeat(step.target * size + start, lengths) + offset
        if step.reduce:
            np.add.at(flat, received_at, sent)
        else:
            flat[received_at] = sent
    return buffers[: schedule.nodes]


def ring_links(step: ExchangeStep, nodes: int) -> tuple[Ints, Ints]:
    """Return the first link, in ascending order around the ring, and the number of links of every transfer, (T,) each.

    Link i connects node i to node i + 1.
    """
    up = step.direction > 0
    length = np.where(up, step.target - step.source, step.source - step.target) % nodes
    return np.where(up, step.source, step.target), length


def wavelength_conflicts(step: ExchangeStep, nodes: int) -> Ints:
    """Find transfers of a step that use the same wavelength on the same link of a ring in the same direction.

    Transfers that are not on a ring have no conflicts.

    Returns:
        Pairs of numbers of conflicting transfers, shape (C, 2). Not every conflicting pair is listed.
    """
    first, length = ring_links(step, nodes)
    channel = np.where(step.direction == 0, -1, 2 * step.wavelength + (step.direction > 0))
    order = np.lexsort((first, channel))
    order = order[(channel[order] >= 0) & (length[order] > 0)]
    if not len(order):
        return np.empty((0, 2), np.int64)
    ends = np.flatnonzero(np.diff(channel[order], append=-1))
    begins = np.concatenate([[0], ends[:-1] + 1])
    following = np.arange(1, len(order) + 1)
    following[ends] = begins  # the last is followed by the first, around the ring
    begin = first[order][following]
    begin[ends] += nodes
    overlap = first[order] + length[order] > begin
    return np.stack([order[overlap], order[following][overlap]], axis=1)
