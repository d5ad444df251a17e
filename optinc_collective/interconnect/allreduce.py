"""Functions that build schedules: ring, hierarchical ring, recursive doubling, binary tree, WRHT, all-gather, OptINC,
SHARP.

WRHT and the step counts of the all-reduces it is compared with: arXiv 2207.10982. OptINC: arXiv 2603.28290. SHARP:
Graham et al., COMHPC 2016.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

import numpy as np

from optinc_collective.interconnect.exchange_schedule import ExchangeSchedule, ExchangeStep, exchange_step
from optinc_pdk.arrays import Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments


@validate_arguments
def ring(nodes: int) -> ExchangeSchedule:
    """Build a ring all-reduce: reduce-scatter, then all-gather, with one piece per node; 2 (nodes − 1) steps.

    Raises:
        InputError: There are fewer than 2 nodes.
    """
    _check_nodes("ring", nodes)
    return ExchangeSchedule("ring", nodes, _rings([np.arange(nodes)[None, :]], closing=1))


@validate_arguments
def hierarchical_ring(nodes: int, group: int) -> ExchangeSchedule:
    """Build a hierarchical ring all-reduce.

    It has three parts: ring all-reduces within groups of consecutive nodes, concurrently; a ring all-reduce over the
    middle nodes of the groups; and one step in which every middle node sends the result to the members of its group,
    with different wavelengths for the members on one side. Within a group, the last member sends to the first in the
    opposite direction, over the links of the group.

    Args:
        nodes: Number of nodes, at least 2.
        group: Number of nodes per group, 1 ... nodes; the last group has the remaining nodes.

    Raises:
        InputError: There are fewer than 2 nodes, or the group size is out of range.
    """
    _check_nodes("hierarchical ring", nodes)
    if not 1 <= group <= nodes:
        raise InputError(f"hierarchical ring: groups of {group} nodes out of {nodes}; give 1 to {nodes}")
    all_nodes = np.arange(nodes)
    whole = nodes // group * group
    groups = [all_nodes[:whole].reshape(-1, group), all_nodes[None, whole:]]
    steps = _rings([members for members in groups if members.shape[1] > 1], closing=-1)
    middles, gather = _gather(all_nodes, group)
    if len(middles) > 1:
        steps += _rings([middles[None, :]], closing=1)
        steps += () if gather is None else (_back(gather),)
    return ExchangeSchedule("hierarchical ring", nodes, steps)


@validate_arguments
def recursive_doubling(nodes: int) -> ExchangeSchedule:
    """Build a recursive-doubling all-reduce: pairs of nodes at distances 1, 2, 4, … exchange and add whole buffers.

    If the number of nodes is not a power of two, it is reduced to one first: in some pairs of neighbours one node sends
    its buffer to the other, which takes part for both and sends back the result in a last step.

    Raises:
        InputError: There are fewer than 2 nodes.
    """
    _check_nodes("recursive doubling", nodes)
    power = 1 << (nodes.bit_length() - 1)
    pairs = 2 * np.arange(nodes - power)
    rank = np.arange(power)
    node = rank + np.minimum(rank, len(pairs))
    fold = (exchange_step(pairs + 1, pairs, reduce=True, direction=-1),) if len(pairs) else ()
    distances = 1 << np.arange(nodes.bit_length() - 1)
    exchanges = tuple(
        exchange_step(
            node,
            node[rank ^ distance],
            reduce=True,
            wavelength=rank % distance,
            direction=np.where(rank & distance, -1, 1),
        )
        for distance in distances
    )
    return ExchangeSchedule("recursive doubling", nodes, fold + exchanges + tuple(map(_back, fold)))


@validate_arguments
def binary_tree(nodes: int) -> ExchangeSchedule:
    """Build a binary-tree all-reduce: whole buffers are added up the tree to node 0, and the sum is sent back down.

    It has 2 ⌈log₂ nodes⌉ steps.

    Raises:
        InputError: There are fewer than 2 nodes.
    """
    _check_nodes("binary tree", nodes)
    distances = 1 << np.arange((nodes - 1).bit_length())
    up = tuple(
        exchange_step(
            np.arange(distance, nodes, 2 * distance),
            np.arange(0, nodes - distance, 2 * distance),
            reduce=True,
            direction=-1,
        )
        for distance in distances
    )
    return ExchangeSchedule("binary tree", nodes, up + tuple(map(_back, up[::-1])))


@validate_arguments
def wrht(nodes: int, wavelengths: int) -> ExchangeSchedule:
    """Build a WRHT all-reduce: the wavelength-reused hierarchical tree of arXiv 2207.10982.

    With w wavelengths in each direction, nodes form groups of 2 w + 1 consecutive nodes. In one step all members of a
    group send whole buffers to its middle node, with the same wavelengths in every group. The middle nodes form groups
    in the same way, until the remaining nodes can exchange all-to-all with w wavelengths. Then the sums are sent back
    along the same paths.

    Raises:
        InputError: There are fewer than 2 nodes or no wavelengths.
    """
    _check_nodes("WRHT", nodes)
    if wavelengths < 1:
        raise InputError(f"WRHT: {wavelengths} wavelengths; give at least 1")
    left = np.arange(nodes)
    up: list[ExchangeStep] = []
    while len(left) > 1 and all_to_all_wavelengths(len(left)) > wavelengths:
        left, gather = _gather(left, 2 * wavelengths + 1)
        up += [] if gather is None else [gather]
    top = [_all_to_all(left)] if len(left) > 1 else []
    return ExchangeSchedule("WRHT", nodes, (*up, *top, *map(_back, reversed(up))))


@validate_arguments
def all_gather(nodes: int) -> ExchangeSchedule:
    """Build a ring all-gather: every node's piece of data is sent to all others, in nodes − 1 steps.

    This is not an all-reduce: the buffer has one piece per node, and piece i is the data of node i. dAD (arXiv
    2102.09631) uses it.

    Raises:
        InputError: There are fewer than 2 nodes.
    """
    _check_nodes("all-gather", nodes)
    source, target, part, parts, direction = _ring_columns(np.arange(nodes)[None, :], 0, closing=1)
    step = exchange_step(
        source,
        target,
        reduce=False,
        part=part,
        parts=parts,
        direction=direction,
        repeat=nodes - 1,
        shift=-1,
    )
    return ExchangeSchedule("all-gather", nodes, (step,))


@validate_arguments
def optinc_star(servers: int) -> ExchangeSchedule:
    """Build an OptINC all-reduce (arXiv 2603.28290): all servers send to one chip, which streams the result to all.

    It counts as one step, because the chip forwards the result while it receives.

    Raises:
        InputError: There are fewer than 2 servers.
    """
    _check_nodes("OptINC", servers)
    all_servers = np.arange(servers)
    up = exchange_step(all_servers, servers, reduce=True)
    down = exchange_step(servers, all_servers, reduce=False, streamed=True)
    return ExchangeSchedule("OptINC", servers, (up, down), units=1, unit="chip")


@validate_arguments
def optinc_cascade(servers: int) -> ExchangeSchedule:
    """Build an all-reduce by an OptINC cascade of two levels (arXiv 2603.28290).

    Level 1 has √servers chips, with √servers servers each; level 2 has one chip, which streams the result to all
    servers. The schedule is one step, because the chips forward data while they receive.

    Raises:
        InputError: The number of servers is below 2 or not a square.
    """
    _check_nodes("OptINC cascade", servers)
    side = isqrt(servers)
    if side * side != servers:
        raise InputError(
            f"OptINC cascade: {servers} servers, but chips of N inputs in two levels take N²; "
            f"give {side * side} or {(side + 1) ** 2}"
        )
    all_servers, chips = np.arange(servers), servers + np.arange(side)
    steps = (
        exchange_step(all_servers, chips[all_servers // side], reduce=True),
        exchange_step(chips, servers + side, reduce=True, streamed=True),
        exchange_step(servers + side, all_servers, reduce=False, streamed=True),
    )
    return ExchangeSchedule("OptINC cascade", servers, steps, units=side + 1, unit="chip")


@validate_arguments
def sharp(servers: int, radix: int) -> ExchangeSchedule:
    """Build an all-reduce by switches that reduce: SHARP, in the streaming form of Graham et al., ISC 2020.

    Consecutive servers are connected to one switch, up to the radix; so are the switches of a level, until one switch
    is left. Every switch adds what it receives from below and sends the sum upwards; the sum of the last one is sent
    back down the tree. The schedule is one step, because switches forward data while they receive.

    Raises:
        InputError: There are fewer than 2 servers, or the radix is below 2.
    """
    _check_nodes("SHARP", servers)
    if radix < 2:
        raise InputError(f"SHARP: switches of radix {radix}; give at least 2")
    up: list[ExchangeStep] = []
    below, following = np.arange(servers), servers
    while len(below) > 1:
        above = following + np.arange(-(-len(below) // radix))
        up.append(exchange_step(below, above[np.arange(len(below)) // radix], reduce=True, streamed=bool(up)))
        below, following = above, following + len(above)
    down = [replace(_back(step), streamed=True) for step in reversed(up)]
    return ExchangeSchedule("SHARP", servers, (*up, *down), units=following - servers, unit="switch")


@validate_arguments
def all_to_all_wavelengths(nodes: int) -> int:
    """Return the number of wavelengths, in each direction, for an all-to-all exchange on a bidirectional ring.

    It is ⌈nodes² / 8⌉ (arXiv 2207.10982).
    """
    return -(-nodes * nodes // 8)


def _check_nodes(name: str, nodes: int) -> None:
    if nodes < 2:
        raise InputError(f"{name}: {nodes} nodes; give at least 2")


def _rings(groups: list[Ints], closing: int) -> tuple[ExchangeStep, ...]:
    """Concurrent ring all-reduces of several sizes; the shorter ones end earlier.

    For every size there is one array (rings, members). The transfers from the last member of a ring to its first have
    the direction ``closing``.
    """
    steps = []
    for reduce in (True, False):
        done = 0
        for until in sorted({members.shape[1] - 1 for members in groups}):
            running = [members for members in groups if members.shape[1] > until]
            columns = [_ring_columns(members, int(not reduce) - done, closing) for members in running]
            source, target, part, parts, direction = np.concatenate(columns, axis=1)
            steps.append(
                exchange_step(
                    source,
                    target,
                    reduce=reduce,
                    part=part,
                    parts=parts,
                    direction=direction,
                    repeat=until - done,
                    shift=-1,
                )
            )
            done = until
    return tuple(steps)


def _ring_columns(members: Ints, ahead: int, closing: int) -> Ints:
    """Transfers in which every ring member sends one piece to the next: source, target, part, parts, direction (5, T).

    The piece has the number of the member in its ring plus ``ahead``.
    """
    size = members.shape[1]
    direction = np.ones(size, np.int64)
    direction[-1] = closing
    rows = (
        members,
        np.roll(members, -1, axis=1),
        (np.arange(size) + ahead) % size,
        size,
        direction,
    )
    return np.stack([np.array(row).ravel() for row in np.broadcast_arrays(*rows)])


def _gather(nodes: Ints, group: int) -> tuple[Ints, ExchangeStep | None]:
    """Middle nodes of groups of consecutive nodes, and the step in which all others send to their middle node."""
    begin = np.arange(len(nodes)) // group * group
    middle = begin + np.minimum(group, len(nodes) - begin) // 2
    offset = np.arange(len(nodes)) - middle
    sends = offset != 0
    if not sends.any():
        return nodes, None
    step = exchange_step(
        nodes[sends],
        nodes[middle[sends]],
        reduce=True,
        wavelength=np.abs(offset[sends]) - 1,
        direction=-np.sign(offset[sends]),
    )
    return nodes[~sends], step


def _back(step: ExchangeStep) -> ExchangeStep:
    """Step with the transfers reversed, in which data replaces that of the targets."""
    return exchange_step(
        step.target,
        step.source,
        reduce=False,
        wavelength=step.wavelength,
        direction=-step.direction,
    )


def _all_to_all(nodes: Ints) -> ExchangeStep:
    """All-to-all exchange on the ring with ⌈n² / 8⌉ wavelengths.

    Two opposite nodes A and B are removed at a time. Nodes x and y on either side of them form a circle
    A → x → B → y → A, which uses one wavelength in one direction; its reverse uses the same wavelength in the other
    direction. A node that has no partner on the other side forms a circle with A → B. Without such a node, A → B and
    B → A form a circle, in the two directions alternately.
    """
    left = list(nodes)
    circles: list[tuple[list[int], int, tuple[int, ...]]] = []
    opposite: list[tuple[int, int]] = []
    count = 0
    while len(left) > 1:
        half = len(left) // 2
        a, right, b, others = left[0], left[1:half], left[half], left[half + 1 :]
        for index, y in enumerate(others):
            x = right[index : index + 1]
            circles.append(([a, *x, b, y], count, (1, -1)))
            count += 1
        if len(left) % 2 == 0:
            opposite.append((a, b))
        left = right + others
    for index, (a, b) in enumerate(opposite):
        circles.append(([a, b], count + index // 2, (1 - 2 * (index % 2),)))
    rows = [
        (circle[place], circle[(place + direction) % len(circle)], wavelength, direction)
        for circle, wavelength, directions in circles
        for direction in directions
        for place in range(len(circle))
    ]
    source, target, wavelength, direction = np.array(rows).T
    return exchange_step(source, target, reduce=True, wavelength=wavelength, direction=direction)
