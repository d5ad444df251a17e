"""Simulation plan of a circuit, made once and evaluated for every wavelength, bias and sample.

First, every repeated cell is reduced to one block (:mod:`_cell_reduction`). Then every group of blocks between which
light travels in both directions is reduced to one block (:mod:`_nested_dissection`). Light passes the remaining blocks
once, level by level, with equal blocks of a level as one batch. Its waves are stored in slots, which are reused, so
that memory grows with the width of the circuit and not with its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.s_parameters._cell_reduction import CellJoin, Entries, join_cells, reduce_cells
from optinc_pdk.simulate.s_parameters._nested_dissection import JoinRound, join_blocks, plan_dissection
from optinc_pdk.simulate.s_parameters.block_assembly import (
    BlockAssembly,
    KernelPool,
    PoolDevices,
    WaveGraph,
    connected_parts,
    device_blocks,
    find_kernels,
    kernel_levels,
    kernels_between,
    virtual_ports,
    wave_graph,
)

ZERO_SLOT = 0
"""The slot of waves that are always zero."""


@dataclass(frozen=True, eq=False)
class PropagationStep:
    """One batched matrix product: all kernels of one level and one shape.

    Attributes:
        shape: Numbers of rows and columns, r and c, of the kernels.
        start: Index of the first kernel among all kernels of this shape.
        stop: Index after the last kernel.
        reads: (kernels, c) slots of the waves that the kernels read.
        writes: (kernels, r) slots of the waves that the kernels write.
    """

    shape: tuple[int, int]
    start: int
    stop: int
    reads: Ints
    writes: Ints


@dataclass(frozen=True, eq=False)
class PropagationPlan:
    """Plan of the propagation of light through a circuit.

    A slot is a memory location of one wave. A column is one excitation of the circuit.

    Attributes:
        kernels: The kernels, by pool.
        places: For each entry of ``kernels``: indices of its members on paths from inputs to outputs, and their indices
            among all kernels of the same shape.
        counts: Number of kernels by shape.
        steps: Matrix products, in order.
        slots: Number of slots.
        columns: Number of columns; inputs of disconnected parts of the circuit share a column.
        sources: (sources, 3) index of each used input, its slot and its column.
        outputs: (outputs, 2) index of each used output and its slot.
        paths: (paths, 3) row of ``outputs``, index of the input, and column.
        mirrored: (M, 4) output and input of paths that are not calculated, and output and input of the reverse paths
            from which they are copied.
        shape: Numbers of outputs and inputs.
    """

    kernels: tuple[KernelPool, ...]
    places: tuple[tuple[Ints, Ints], ...]
    counts: dict[tuple[int, int], int]
    steps: tuple[PropagationStep, ...]
    slots: int
    columns: int
    sources: Ints
    outputs: Ints
    paths: Ints
    mirrored: Ints
    shape: tuple[int, int]


def plan_propagation(assembly: BlockAssembly, outs: Ints, ins: Ints, reciprocal: bool) -> PropagationPlan:
    """Plan the propagation of light from ports ``ins`` to ports ``outs``; no wave may return to a block that it passed.

    If all blocks are reciprocal, parts of the graph that are the reverse of other parts are not calculated.
    """
    kernels = find_kernels(assembly)
    flow = wave_graph(kernels, assembly.partner.size)
    sinks = assembly.partner.size + outs
    level = kernel_levels(flow, kernels_between(flow, ins, sinks))
    reads, writes = (pairs[level[pairs[:, 0]] >= 0] for pairs in (flow.reads, flow.writes))
    part = connected_parts(flow, reads, writes)
    mirrored = np.zeros((0, 4), dtype=np.int64)
    if reciprocal:
        dropped, mirrored = _reverse_paths(flow, reads, writes, part, outs, ins)
        level[flow.reads[dropped[part[flow.reads[:, 1]]], 0]] = UNCONNECTED
        reads, writes = (pairs[level[pairs[:, 0]] >= 0] for pairs in (flow.reads, flow.writes))
    slot, count = _slots(flow, level, reads, writes, ins, sinks)
    column = _rank(part[ins])
    used_ins = np.flatnonzero(slot[ins] != ZERO_SLOT)
    used_outs = np.flatnonzero(slot[sinks] != ZERO_SLOT)
    connected = part[sinks[used_outs]][:, np.newaxis] == part[ins[used_ins]]
    at, source = np.nonzero(connected)
    placed = _place(kernels, level)
    return PropagationPlan(
        kernels=tuple(kernels),
        places=placed.places,
        counts=placed.counts,
        steps=tuple(_steps(kernels, placed, slot)),
        slots=count,
        columns=int(column[used_ins].max(initial=-1)) + 1,
        sources=np.stack([used_ins, slot[ins[used_ins]], column[used_ins]], axis=1),
        outputs=np.stack([used_outs, slot[sinks[used_outs]]], axis=1),
        paths=np.stack([at, used_ins[source], column[used_ins[source]]], axis=1),
        mirrored=mirrored,
        shape=(outs.size, ins.size),
    )


def _reverse_paths(flow: WaveGraph, reads: Ints, writes: Ints, part: Ints, outs: Ints, ins: Ints) -> tuple[Bools, Ints]:
    """(waves,) mask of parts that are the reverse of parts with a lower number; and their paths, as ``mirrored``."""
    read, written = (np.zeros(flow.waves, dtype=bool) for _ in range(2))
    read[reads[:, 1]] = True
    written[writes[:, 1]] = True
    sinks = flow.waves // 2 + outs
    out, into = np.nonzero(
        (part[sinks][:, np.newaxis] == part[ins]) & written[sinks][:, np.newaxis] & read[ins][np.newaxis]
    )
    place_out, place_in = (np.full(flow.waves // 2, UNCONNECTED, dtype=np.int64) for _ in range(2))
    place_out[outs], place_in[ins] = np.arange(outs.size), np.arange(ins.size)
    back_out, back_into = place_out[ins[into]], place_in[outs[out]]
    own_part = part[ins[into]]
    there = (back_out != UNCONNECTED) & (back_into != UNCONNECTED)
    other = np.where(there, part[ins[back_into]], own_part)
    there &= (other < own_part) & (part[sinks[back_out]] == other) & read[ins[back_into]] & written[sinks[back_out]]
    dropped = np.zeros(flow.waves, dtype=bool)
    dropped[own_part] = True
    dropped[own_part[~there]] = False
    kept = dropped[own_part]
    return dropped, np.stack([out, into, back_out, back_into], axis=1)[kept]


def _rank(part: Ints) -> Ints:
    """Rank of each element among those of its part."""
    order = np.argsort(part, kind="stable")
    count = np.unique(part, return_counts=True)[1]
    rank = np.empty(part.size, dtype=np.int64)
    rank[order] = np.arange(part.size) - np.repeat(np.cumsum(count) - count, count)
    return rank


def _slots(flow: WaveGraph, level: Ints, reads: Ints, writes: Ints, ins: Ints, sinks: Ints) -> tuple[Ints, int]:
    """(waves,) slot of every wave that can be nonzero, and the number of slots."""
    depth = int(level.max(initial=-1)) + 1
    written = np.full(flow.waves, depth, dtype=np.int64)
    last = np.full(flow.waves, -1, dtype=np.int64)
    np.maximum.at(last, reads[:, 1], level[reads[:, 0]])
    written[ins[last[ins] >= 0]] = -1
    written[writes[:, 1]] = level[writes[:, 0]]
    last[writes[:, 1]] = np.maximum(last[writes[:, 1]], level[writes[:, 0]])
    last[sinks] = depth
    slot = np.full(flow.waves, ZERO_SLOT, dtype=np.int64)
    used = np.flatnonzero(written < depth)
    by_written, by_last = used[np.argsort(written[used], kind="stable")], used[np.argsort(last[used], kind="stable")]
    starts = np.searchsorted(written[by_written], np.arange(-1, depth + 1))
    ends = np.searchsorted(last[by_last], np.arange(-1, depth + 1))
    free, count = np.zeros(0, dtype=np.int64), ZERO_SLOT + 1
    for step in range(depth + 1):
        new = by_written[starts[step] : starts[step + 1]]
        reused = min(free.size, new.size)
        slot[new[:reused]] = free[:reused]
        slot[new[reused:]] = count + np.arange(new.size - reused)
        count += new.size - reused
        free = np.sort(np.concatenate([free[reused:], slot[by_last[ends[step] : ends[step + 1]]]]))
    return slot, count


@dataclass(frozen=True, eq=False)
class _Placed:
    """Kernels sorted by level, separately for each shape."""

    places: tuple[tuple[Ints, Ints], ...]
    counts: dict[tuple[int, int], int]
    level: dict[tuple[int, int], Ints]


def _place(kernels: list[KernelPool], level: Ints) -> _Placed:
    shapes = sorted({(each.rows.size, each.cols.size) for each in kernels})
    first = np.cumsum([0, *(each.slot.size for each in kernels)])
    counts, levels = {}, {}
    place = np.empty(level.size, dtype=np.int64)
    for shape in shapes:
        ranges = [
            range(a, b)
            for each, a, b in zip(kernels, first[:-1], first[1:], strict=True)
            if (each.rows.size, each.cols.size) == shape
        ]
        numbers = np.concatenate([np.array(each, dtype=np.int64) for each in ranges])
        numbers = numbers[level[numbers] >= 0]
        order = numbers[np.argsort(level[numbers], kind="stable")]
        place[order] = np.arange(order.size)
        counts[shape], levels[shape] = order.size, level[order]
    places = []
    for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        members = np.flatnonzero(level[a:b] >= 0)
        places.append((members, place[a + members]))
    return _Placed(tuple(places), counts, levels)


def _steps(kernels: list[KernelPool], placed: _Placed, slot: Ints) -> list[PropagationStep]:
    steps: list[tuple[int, PropagationStep]] = []
    for shape, count in placed.counts.items():
        reads, writes = np.empty((count, shape[1]), dtype=np.int64), np.empty((count, shape[0]), dtype=np.int64)
        for each, (members, place) in zip(kernels, placed.places, strict=True):
            if (each.rows.size, each.cols.size) == shape:
                reads[place], writes[place] = slot[each.reads[members]], slot[each.writes[members]]
        level = placed.level[shape]
        borders = [0, *(np.flatnonzero(np.diff(level)) + 1).tolist(), count] if count else []
        for start, stop in pairwise(borders):
            steps.append(
                (int(level[start]), PropagationStep(shape, start, stop, reads[start:stop], writes[start:stop]))
            )
    return [step for _, step in sorted(steps, key=lambda each: each[0])]


def propagate_light(
    transfer: PropagationPlan, cells: Mapping[int, Entries], knots: Mapping[int, Complexes], batch: int
) -> Complexes:
    """Calculate the (batch, outputs, inputs) S-parameters of a circuit by propagating light through its blocks.

    Those of reduced cells and devices are given by pool, row and column, those of knots, (batch, M, r, c), by pool.
    """
    kernels = {shape: np.zeros((batch, count, *shape), dtype=np.complex128) for shape, count in transfer.counts.items()}
    for each, (members, place) in zip(transfer.kernels, transfer.places, strict=True):
        stack = kernels[each.rows.size, each.cols.size]
        if each.pool in knots:
            values = knots[each.pool][:, each.slot[members]]
            stack[:, place] = values[:, :, each.rows[:, np.newaxis], each.cols]
        else:
            for (row, col), value in cells[each.pool].items():
                i, j = np.flatnonzero(each.rows == row), np.flatnonzero(each.cols == col)
                if i.size and j.size:
                    stack[:, place, i[0], j[0]] = value if value.shape[1] == 1 else value[:, each.slot[members]]
    light = np.zeros((batch, transfer.slots, transfer.columns), dtype=np.complex128)
    light[:, transfer.sources[:, 1], transfer.sources[:, 2]] = 1.0
    for step in transfer.steps:
        kernel = kernels[step.shape][:, step.start : step.stop]
        light[:, step.writes] = kernel @ light[:, step.reads]
    s = np.zeros((batch, *transfer.shape), dtype=np.complex128)
    at, into, column = transfer.paths.T
    s[:, transfer.outputs[at, 0], into] = light[:, transfer.outputs[at, 1], column]
    out, into, back_out, back_into = transfer.mirrored.T
    s[:, out, into] = s[:, back_out, back_into]
    return s


@dataclass(frozen=True, eq=False)
class ScatteringPlan:
    """Order of operations from the S-parameters of the devices to those of the circuit, for any device values.

    Attributes:
        structure: Optical structure of the circuit.
        outs: Labels at which light is detected.
        ins: Labels at which light enters.
        patterns: Component index to (p, p) mask of the device S-parameters that may differ from zero.
        reciprocal: Whether the plan is valid for reciprocal devices only.
        leaves: Devices of the first pools.
        shapes: (M, r, c) of every pool: number of blocks, outgoing waves, incoming waves.
        joints: Joins that reduce the cells, in order.
        rounds: Joins within the knots, in order.
        spent: For each of ``joints`` and then of ``rounds``, pools that later operations do not need.
        transfer: Propagation of light through the remaining blocks.
        numbers: Largest number of complex numbers in memory at a time for one case.
    """

    structure: CircuitOptics
    outs: tuple[str, ...]
    ins: tuple[str, ...]
    patterns: Mapping[int, Bools]
    reciprocal: bool
    leaves: tuple[PoolDevices, ...]
    shapes: tuple[tuple[int, int, int], ...]
    joints: tuple[CellJoin, ...]
    rounds: tuple[JoinRound, ...]
    spent: tuple[tuple[int, ...], ...]
    transfer: PropagationPlan
    numbers: int


def plan_circuit(
    structure: CircuitOptics,
    patterns: Mapping[int, Bools],
    outs: tuple[str, ...],
    ins: tuple[str, ...],
    reciprocal: bool = False,
) -> ScatteringPlan:
    """Plan the simulation of a circuit; arguments are the attributes of :class:`ScatteringPlan`.

    If all devices are reciprocal, S-parameters that follow from others by reciprocity are copied instead of calculated.

    Raises:
        NetlistError: The circuit lacks a label.
    """
    detected, sources = structure.label_positions(outs), structure.label_positions(ins)
    assembly, leaves = device_blocks(structure, patterns, detected, sources)
    joints = reduce_cells(assembly)
    rounds = plan_dissection(assembly)
    ports = virtual_ports(structure)
    transfer = plan_propagation(assembly, ports[detected], ports[sources], reciprocal)
    shapes = tuple((pool.rows.shape[0], *pool.pattern.shape[1:]) for pool in assembly.pools)
    spent = _spent(joints, rounds, transfer)
    numbers = _numbers(shapes, len(leaves), joints, rounds, spent, transfer)
    return ScatteringPlan(
        structure,
        outs,
        ins,
        patterns,
        reciprocal,
        tuple(leaves),
        shapes,
        tuple(joints),
        tuple(rounds),
        spent,
        transfer,
        numbers,
    )


def _spent(joints: list[CellJoin], rounds: list[JoinRound], transfer: PropagationPlan) -> tuple[tuple[int, ...], ...]:
    used = [set(joint.pools) for joint in joints]
    used += [{side.pool for each in found.stars for side in (each.a, each.b)} for found in rounds]
    needed = {each.pool for each in transfer.kernels}
    spent: list[tuple[int, ...]] = []
    for pools in reversed(used):
        spent.append(tuple(sorted(pools - needed)))
        needed |= pools
    return tuple(reversed(spent))


def _numbers(
    shapes: tuple[tuple[int, int, int], ...],
    leaves: int,
    joints: list[CellJoin],
    rounds: list[JoinRound],
    spent: tuple[tuple[int, ...], ...],
    transfer: PropagationPlan,
) -> int:
    """Largest number of complex numbers that one case has in memory at a time."""
    size = [int(np.prod(shape)) for shape in shapes]
    written: list[set[int]] = [{joint.target} for joint in joints] + [set(found.shapes) for found in rounds]
    there, most = set(range(leaves)), 0
    for new, old in zip(written, spent, strict=True):
        there |= new
        most = max(most, sum(size[pool] for pool in there))
        there -= set(old)
    light = transfer.slots * transfer.columns + sum(n * r * c for (r, c), n in transfer.counts.items())
    return max(most, sum(size[pool] for pool in there) + light) + 2 * int(np.prod(transfer.shape))


def evaluate(plan: ScatteringPlan, devices: Mapping[int, Entries], batch: int) -> Complexes:
    """Calculate the (batch, outs, ins) S-parameters of a circuit from those of its devices, (batch, I or 1) by entry.

    Raises:
        SingularError: A resonance without loss traps light.
    """
    blocks = {number: _leaf_entries(leaf, devices[leaf.group]) for number, leaf in enumerate(plan.leaves)}
    steps = len(plan.joints)
    for joint, spent in zip(plan.joints, plan.spent[:steps], strict=True):
        entries = join_cells(joint, blocks, plan.shapes)
        _store(blocks, joint, entries, (batch, plan.shapes[joint.target][0]))
        for pool in spent:
            blocks.pop(pool, None)
    knots: dict[int, Complexes] = {}
    for each, spent in zip(plan.rounds, plan.spent[steps:], strict=True):
        for side in (side for found in each.stars for side in (found.a, found.b)):
            if side.pool not in knots:
                knots[side.pool] = _dense(blocks[side.pool], (batch, *plan.shapes[side.pool]))
        knots |= {number: np.empty((batch, *shape), dtype=np.complex128) for number, shape in each.shapes.items()}
        for found in each.stars:
            join_blocks(found, knots, knots[found.target][:, found.start : found.start + found.ports.shape[0]])
        for pool in spent:
            blocks.pop(pool, None)
            knots.pop(pool, None)
    return propagate_light(plan.transfer, blocks, knots, batch)


def _leaf_entries(leaf: PoolDevices, device: Entries) -> Entries:
    entries = {}
    for i, row in enumerate(leaf.rows.tolist()):
        for j, col in enumerate(leaf.cols.tolist()):
            value = device.get((row, col))
            if value is not None:
                entries[i, j] = value if value.shape[1] == 1 else value[:, leaf.members]
    return entries


def _store(blocks: dict[int, Entries], joint: CellJoin, found: Entries, shape: tuple[int, int]) -> None:
    """Write joined blocks to their places in their pool."""
    count = joint.ports.size
    if count == shape[1]:
        blocks[joint.target] = found
        return
    target = blocks.setdefault(joint.target, {})
    for key, value in found.items():
        if key not in target:
            target[key] = np.zeros(shape, dtype=np.complex128)
        target[key][:, joint.start : joint.start + count] = value


def _dense(entries: Entries, shape: tuple[int, ...]) -> Complexes:
    s = np.zeros(shape, dtype=np.complex128)
    for (i, j), value in entries.items():
        s[:, :, i, j] = value
    return s
