"""A schedule of the time model run for real: every transfer a send from rank to rank."""

from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist

from optinc_pdk.collective.scheme import Traffic, communicating
from optinc_pdk.errors import InputError
from optinc_pdk.interconnect.schedule import Schedule, Step, bounds, conflicts, turns


def check(schedule: Schedule, world: int) -> None:
    """Refuse a schedule that these ranks or their ring cannot run.

    Raises:
        InputError: Made for another number of nodes or for in-network units, or two transfers of a step share a
            wavelength on a link in one direction.
    """
    if schedule.nodes != world or schedule.units:
        raise InputError(
            f"{schedule.name}: made for {schedule.nodes} nodes and {schedule.units} in-network units, run by {world} "
            f"ranks; give a schedule of {world} nodes alone"
        )
    for number, step in enumerate(schedule.steps):
        for pair in conflicts(step, world):
            one, other = (f"{step.source[transfer]} → {step.target[transfer]}" for transfer in pair)
            raise InputError(
                f"{schedule.name}: in step {number} the transfers {one} and {other} both need wavelength "
                f"{step.wavelength[pair[0]]} on one link; give them wavelengths of their own"
            )


def average_by_sends(schedule: Schedule, buffer: torch.Tensor, traffic: Traffic) -> None:
    """Replace a flat buffer by its mean over all ranks, by a schedule's transfers.

    The mean is exact up to the order of the floating-point sum. What arrives in a step is added in the order of ranks,
    so that nodes which exchange all-to-all come to the same bits.

    Args:
        schedule: One that `check` has passed.
        buffer: Numbers (size,), replaced in place.
        traffic: Where the bytes that this rank sends are counted.

    Raises:
        CommunicationError: A rank was lost.
    """
    with communicating(f"a transfer of {schedule.name}"):
        for step, turn in turns(schedule):
            _run(step, turn, buffer, traffic)
    buffer /= schedule.nodes


def _run(step: Step, turn: int, buffer: torch.Tensor, traffic: Traffic) -> None:
    """This rank's part in a step: all sends and receives at once, then what arrived is taken in."""
    rank = dist.get_rank()
    start, stop = bounds(step, turn, buffer.numel())
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
        place = buffer[start[received] : stop[received]]
        arrivals.append((int(step.source[received]), place, torch.empty_like(place)))
    moves += [dist.P2POp(dist.irecv, arrived, source) for source, _, arrived in arrivals]
    for request in dist.batch_isend_irecv(moves) if moves else []:
        request.wait()
    if step.reduce:
        _add(arrivals, rank)
    else:
        for _, place, arrived in arrivals:
            place.copy_(arrived)


def _add(arrivals: list[tuple[int, torch.Tensor, torch.Tensor]], rank: int) -> None:
    """Add what arrived (source, place, numbers), sorted by source, and what is in its place in the order of ranks."""
    sums: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for source, place, arrived in arrivals:
        key = int(place.storage_offset())
        if source < rank:
            sums[key] = (place, sums[key][1] + arrived if key in sums else arrived)
    for place, before in sums.values():
        torch.add(before, place, out=place)
    for source, place, arrived in arrivals:
        if source > rank:
            place += arrived
