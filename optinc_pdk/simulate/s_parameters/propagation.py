"""Propagation of light through blocks that it passes once: level by level, with equal blocks of a level as one batch.

Waves are stored in slots. A slot is reused when its wave is no longer needed, so memory grows with the width of the
circuit and not with its length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from optinc_pdk.arrays import Bools, Complexes, Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.simulate.s_parameters.block_assembly import BlockAssembly
from optinc_pdk.simulate.s_parameters.cell_reduction import Entries
from optinc_pdk.simulate.s_parameters.wave_graph import (
    KernelPool,
    WaveGraph,
    connected_parts,
    find_kernels,
    kernel_levels,
    kernels_between,
    wave_graph,
)

ZERO_SLOT = 0
"""The slot of waves that are always zero."""


@dataclass(frozen=True, eq=False)
class PropagationStep:
    """One batched matrix product: all kernels of one level and one shape.

    Attributes:
        shape: Numbers of rows and columns of the kernels.
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

    A kernel is a dense part of a block's S-matrix, see :class:`wave_graph.KernelPool`. A slot is a memory location of
    one wave. A column is one excitation of the circuit.

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
    """Plan the propagation of light through blocks.

    Args:
        assembly: Blocks of the circuit, such that no wave returns to a block that it has passed.
        outs: (O,) ports at which light is detected.
        ins: (I,) ports at which light enters.
        reciprocal: Whether all blocks are reciprocal. If so, parts of the graph that are the reverse of other parts are
            not calculated.
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
    """(waves,) boolean mask of parts that are the reverse of other parts; and their paths, as ``mirrored``.

    Of two such parts it is the one with the higher number.
    """
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
    """Calculate the S-parameters of a circuit by propagating light through its blocks.

    Args:
        transfer: The plan.
        cells: S-parameters of reduced cells and devices, by pool: row and column to (batch, M or 1) values.
        knots: (batch, M, r, c) S-parameters of reduced knots, by pool.
        batch: Number of cases.

    Returns:
        (batch, outputs, inputs) field amplitudes.
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
