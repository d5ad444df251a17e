"""Execution of an `ExchangeSchedule` between processes: every transfer is a point-to-point send between ranks."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist

from optinc_collective.interconnect.schedule import (
    ExchangeSchedule,
    ExchangeStep,
    piece_bounds,
    repetitions,
    wavelength_conflicts,
)
from optinc_collective.schemes.scheme import Traffic, report_lost_rank
from optinc_pdk.errors import InputError


def check_schedule(schedule: ExchangeSchedule, world: int) -> None:
    """Check that a schedule can be executed between a number of ranks, which are the nodes of a ring.

    Args:
        schedule: The schedule.
        world: Number of ranks.

    Raises:
        InputError: The schedule is for another number of nodes or uses in-network units, or two transfers of a step
            share a wavelength on a link in one direction.
    """
    if schedule.nodes != world or schedule.units:
        raise InputError(
            f"{schedule.name}: for {schedule.nodes} nodes and {schedule.units} in-network units, run by {world} "
            f"ranks; give a schedule for {world} nodes without units"
        )
    for number, step in enumerate(schedule.steps):
        for pair in wavelength_conflicts(step, world):
            one, other = (f"{step.source[transfer]} → {step.target[transfer]}" for transfer in pair)
            raise InputError(
                f"{schedule.name}: in step {number} the transfers {one} and {other} both need wavelength "
                f"{step.wavelength[pair[0]]} on one link; give them different wavelengths"
            )


def average_by_schedule(schedule: ExchangeSchedule, buffer: torch.Tensor, traffic: Traffic) -> None:
    """Replace a buffer by its mean over all ranks, by the transfers of a schedule.

    The mean is exact up to the order of the floating-point sum. Data received in a step is added in the order of ranks,
    so that the results of an all-to-all exchange are bitwise equal on its nodes.

    Args:
        schedule: A schedule that `check_schedule` accepts.
        buffer: Tensor of shape (size,), replaced in place.
        traffic: Counter to which the bytes that this rank sends are added.

    Raises:
        CommunicationError: A rank was lost.
    """
    with report_lost_rank(f"a transfer of {schedule.name}"):
        for step, turn in repetitions(schedule):
            _run(step, turn, buffer, traffic)
    buffer /= schedule.nodes


def _run(step: ExchangeStep, turn: int, buffer: torch.Tensor, traffic: Traffic) -> None:
    """Run this rank's part of a step: all sends and receives at once, then add or store the received data."""
    rank = dist.get_rank()
    start, stop = piece_bounds(step, turn, buffer.numel())
    filled = stop > start
    moves = []
    for sent in np.flatnonzero((step.source == rank) & filled):
        piece = buffer[start[sent] : stop[sent]]
        moves.append(dist.P2POp(dist.isend, piece, int(step.target[sent])))
        traffic.payload += piece.numel() * piece.element_size()
    arriving = np.flatnonzero((step.target == rank) & filled)
    arriving = arriving[np.argsort(step.source[arriving], kind="stable")]
    arrivals: list[tuple[int, torch.Tensor, torch.Tensor]] = []
    for received in arriving:
        destination = buffer[start[received] : stop[received]]
        arrivals.append((int(step.source[received]), destination, torch.empty_like(destination)))
    moves += [dist.P2POp(dist.irecv, arrived, source) for source, _, arrived in arrivals]
    for request in dist.batch_isend_irecv(moves) if moves else []:
        request.wait()
    if step.reduce:
        _add(arrivals, rank)
    else:
        for _, destination, arrived in arrivals:
            destination.copy_(arrived)


def _add(arrivals: list[tuple[int, torch.Tensor, torch.Tensor]], rank: int) -> None:
    """Add received data (source, destination, data), sorted by source, to the destinations in the order of ranks."""
    sums: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for source, destination, arrived in arrivals:
        key = int(destination.storage_offset())
        if source < rank:
            sums[key] = (destination, sums[key][1] + arrived if key in sums else arrived)
    for destination, before in sums.values():
        torch.add(before, destination, out=destination)
    for source, destination, arrived in arrivals:
        if source > rank:
            destination += arrived
