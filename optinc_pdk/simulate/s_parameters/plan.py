"""Simulation plan of a circuit, made once and evaluated for every wavelength, bias and sample.

First, every repeated cell is reduced to one block (:mod:`cell_reduction`). Then every group of blocks between which
light travels in both directions is reduced to one block (:mod:`nested_dissection`, :mod:`star_product`). Light passes
the remaining blocks once, in order (:mod:`propagation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Complexes
from optinc_pdk.simulate.circuit_optics import CircuitOptics
from optinc_pdk.simulate.s_parameters.block_assembly import PoolDevices, device_blocks, virtual_ports
from optinc_pdk.simulate.s_parameters.cell_reduction import CellJoin, Entries, join_cells, reduce_cells
from optinc_pdk.simulate.s_parameters.nested_dissection import plan_dissection
from optinc_pdk.simulate.s_parameters.propagation import PropagationPlan, plan_propagation, propagate_light
from optinc_pdk.simulate.s_parameters.star_product import JoinRound, join_blocks


@dataclass(frozen=True, eq=False)
class ScatteringPlan:
    """Order of operations from the S-parameters of the devices to those of the circuit, for any device values.

    Attributes:
        structure: Optical structure of the circuit.
        outs: Labels at which light is detected.
        ins: Labels at which light enters.
        patterns: Component index to (p, p) boolean mask of the device S-parameters that may differ from zero.
        reciprocal: Whether the plan is valid for reciprocal devices only.
        leaves: Devices of the first pools, one entry for each of these pools.
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
    """Plan the simulation of a circuit.

    Args:
        structure: Optical structure of the circuit.
        patterns: Component index to (p, p) boolean mask of the device S-parameters that may differ from zero.
        outs: Labels at which light is detected.
        ins: Labels at which light enters.
        reciprocal: Whether all devices are reciprocal. If so, S-parameters that follow from others by reciprocity are
            copied instead of calculated.

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
    """Calculate the S-parameters of a circuit from those of its devices, following a plan.

    Args:
        plan: The plan.
        devices: S-parameters by component index: row and column to (batch, I or 1) values.
        batch: Number of cases.

    Returns:
        (batch, outs, ins) field amplitudes.

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
