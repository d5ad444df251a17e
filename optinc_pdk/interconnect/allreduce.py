"""Builders of the schedules: ring, hierarchical ring, recursive doubling, binary tree, WRHT and OptINC.

WRHT and the step counts of its rivals: arXiv 2207.10982. OptINC: arXiv 2603.28290.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from optinc_pdk.errors import InputError
from optinc_pdk.interconnect.schedule import Integers, Schedule, Step, transfers
from optinc_pdk.validation import validate_arguments


@validate_arguments
def ring(nodes: int) -> Schedule:
    """Ring all-reduce: reduce-scatter and all-gather of as many pieces as nodes, 2 (nodes − 1) steps."""
    _check_nodes("ring", nodes)
    return Schedule("ring", nodes, _rings([np.arange(nodes)[None, :]], closing=1))


@validate_arguments
def hierarchical_ring(nodes: int, group: int) -> Schedule:
    """Ring all-reduces within groups of neighbours, one over the groups' middles, then one step that spreads it.

    Groups have ``group`` nodes, the last one what is left. Within a group, the link that closes the ring runs back
    over the others' fibres. At the end the middles send to all members of their group, each at its own wavelength.
    """
    _check_nodes("hierarchical ring", nodes)
    if not 1 <= group <= nodes:
        raise InputError(f"hierarchical ring: groups of {group} nodes out of {nodes}; give 1 to {nodes}")
    everyone = np.arange(nodes)
    whole = nodes // group * group
    groups = [everyone[:whole].reshape(-1, group), everyone[None, whole:]]
    steps = _rings([members for members in groups if members.shape[1] > 1], closing=-1)
    middles, gather = _gather(everyone, group)
    if len(middles) > 1:
        steps += _rings([middles[None, :]], closing=1)
        steps += () if gather is None else (_back(gather),)
    return Schedule("hierarchical ring", nodes, steps)


@validate_arguments
def recursive_doubling(nodes: int) -> Schedule:
    """Whole buffers exchanged at distances 1, 2, 4, …; beyond a power of two, pairs of neighbours count as one."""
    _check_nodes("recursive doubling", nodes)
    power = 1 << (nodes.bit_length() - 1)
    pairs = 2 * np.arange(nodes - power)
    rank = np.arange(power)
    node = rank + np.minimum(rank, len(pairs))
    fold = (transfers(pairs + 1, pairs, reduce=True, direction=-1),) if len(pairs) else ()
    distances = 1 << np.arange(nodes.bit_length() - 1)
    exchanges = tuple(
        transfers(
            node,
            node[rank ^ distance],
            reduce=True,
            wavelength=rank % distance,
            direction=np.where(rank & distance, -1, 1),
        )
        for distance in distances
    )
    return Schedule("recursive doubling", nodes, fold + exchanges + tuple(map(_back, fold)))


@validate_arguments
def binary_tree(nodes: int) -> Schedule:
    """Whole buffers up a binary tree to node 0 and back down, 2 ⌈log₂ nodes⌉ steps."""
    _check_nodes("binary tree", nodes)
    distances = 1 << np.arange((nodes - 1).bit_length())
    up = tuple(
        transfers(
            np.arange(distance, nodes, 2 * distance),
            np.arange(0, nodes - distance, 2 * distance),
            reduce=True,
            direction=-1,
        )
        for distance in distances
    )
    return Schedule("binary tree", nodes, up + tuple(map(_back, up[::-1])))


@validate_arguments
def wrht(nodes: int, wavelengths: int) -> Schedule:
    """Wavelength-reused hierarchical tree (arXiv 2207.10982).

    Groups of 2 w + 1 consecutive nodes send to their middle at once, the same wavelengths in every group; so do the
    middles, until those that are left can exchange all-to-all with w wavelengths; then all goes back down.
    """
    _check_nodes("WRHT", nodes)
    if wavelengths < 1:
        raise InputError(f"WRHT: {wavelengths} wavelengths; give at least 1")
    left = np.arange(nodes)
    up: list[Step] = []
    while len(left) > 1 and all_to_all_wavelengths(len(left)) > wavelengths:
        left, gather = _gather(left, 2 * wavelengths + 1)
        up += [] if gather is None else [gather]
    top = [_all_to_all(left)] if len(left) > 1 else []
    return Schedule("WRHT", nodes, (*up, *top, *map(_back, reversed(up))))


@validate_arguments
def all_gather(nodes: int) -> Schedule:
    """Every node's own piece to all others around the ring, nodes − 1 steps: what dAD (arXiv 2102.09631) takes.

    No all-reduce: the buffer is as many pieces as nodes, piece i is what node i has to tell.
    """
    _check_nodes("all-gather", nodes)
    source, target, part, parts, direction = _ring_columns(np.arange(nodes)[None, :], 0, closing=1)
    step = transfers(
        source,
        target,
        reduce=False,
        part=part,
        parts=parts,
        direction=direction,
        repeat=nodes - 1,
        shift=-1,
    )
    return Schedule("all-gather", nodes, (step,))


@validate_arguments
def optinc_star(servers: int) -> Schedule:
    """OptINC (arXiv 2603.28290): all send to one chip, which sends the result to all in the same flight: one step."""
    _check_nodes("OptINC", servers)
    everyone = np.arange(servers)
    up = transfers(everyone, servers, reduce=True)
    down = transfers(servers, everyone, reduce=False, streamed=True)
    return Schedule("OptINC", servers, (up, down), units=1)


@validate_arguments
def optinc_cascade(servers: int) -> Schedule:
    """OptINC in two levels: √servers chips for as many servers each, one chip over them, all in one flight.

    Raises:
        InputError: The number of servers is no square.
    """
    _check_nodes("OptINC cascade", servers)
    side = isqrt(servers)
    if side * side != servers:
        raise InputError(
            f"OptINC cascade: {servers} servers, but chips of N inputs in two levels take N²; "
            f"give {side * side} or {(side + 1) ** 2}"
        )
    everyone, chips = np.arange(servers), servers + np.arange(side)
    steps = (
        transfers(everyone, chips[everyone // side], reduce=True),
        transfers(chips, servers + side, reduce=True, streamed=True),
        transfers(servers + side, everyone, reduce=False, streamed=True),
    )
    return Schedule("OptINC cascade", servers, steps, units=side + 1)


@validate_arguments
def all_to_all_wavelengths(nodes: int) -> int:
    """Wavelengths for all-to-all exchange on a bidirectional ring: ⌈nodes² / 8⌉ (arXiv 2207.10982)."""
    return -(-nodes * nodes // 8)


def _check_nodes(name: str, nodes: int) -> None:
    if nodes < 2:
        raise InputError(f"{name}: {nodes} nodes; an all-reduce takes at least 2")


def _rings(groups: list[Integers], closing: int) -> tuple[Step, ...]:
    """Ring all-reduces of several sizes at once: the shorter ones are done earlier.

    Args:
        groups: Members of equally large rings in their order, one array (rings, members) for every size.
        closing: Direction of the transfers from a ring's last member to its first.
    """
    steps = []
    for reduce in (True, False):
        done = 0
        for until in sorted({members.shape[1] - 1 for members in groups}):
            running = [members for members in groups if members.shape[1] > until]
            columns = [_ring_columns(members, int(not reduce) - done, closing) for members in running]
            source, target, part, parts, direction = np.concatenate(columns, axis=1)
            steps.append(
                transfers(
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


def _ring_columns(members: Integers, ahead: int, closing: int) -> Integers:
    """Source, target, part, parts and direction (5, T) where every member sends its own piece plus ``ahead``."""
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


def _gather(nodes: Integers, group: int) -> tuple[Integers, Step | None]:
    """The middles of groups of consecutive nodes, and the step in which all others send to theirs."""
    begin = np.arange(len(nodes)) // group * group
    middle = begin + np.minimum(group, len(nodes) - begin) // 2
    offset = np.arange(len(nodes)) - middle
    sends = offset != 0
    if not sends.any():
        return nodes, None
    step = transfers(
        nodes[sends],
        nodes[middle[sends]],
        reduce=True,
        wavelength=np.abs(offset[sends]) - 1,
        direction=-np.sign(offset[sends]),
    )
    return nodes[~sends], step


def _back(step: Step) -> Step:
    """A step's transfers the other way, copied."""
    return transfers(
        step.target,
        step.source,
        reduce=False,
        wavelength=step.wavelength,
        direction=-step.direction,
    )


def _all_to_all(nodes: Integers) -> Step:
    """All send to all around the ring with ⌈n² / 8⌉ wavelengths.

    Two opposite nodes A and B are taken out at a time. Nodes x and y on either side of them make a circle
    A → x → B → y → A, which one wavelength of one direction holds; its reverse goes the other way round. A node
    that has no partner on the other side makes a circle with A → B. Without such a node, A → B and B → A are a
    circle by themselves, in the two directions in turn.
    """
    left = list(nodes)
    circles: list[tuple[list[int], int, tuple[int, ...]]] = []
    opposite: list[tuple[int, int]] = []
    used = 0
    while len(left) > 1:
        half = len(left) // 2
        a, right, b, others = left[0], left[1:half], left[half], left[half + 1 :]
        for index, y in enumerate(others):
            x = right[index : index + 1]
            circles.append(([a, *x, b, y], used, (1, -1)))
            used += 1
        if len(left) % 2 == 0:
            opposite.append((a, b))
        left = right + others
    for index, (a, b) in enumerate(opposite):
        circles.append(([a, b], used + index // 2, (1 - 2 * (index % 2),)))
    rows = [
        (circle[place], circle[(place + direction) % len(circle)], wavelength, direction)
        for circle, wavelength, directions in circles
        for direction in directions
        for place in range(len(circle))
    ]
    source, target, wavelength, direction = np.array(rows).T
    return transfers(source, target, reduce=True, wavelength=wavelength, direction=direction)
