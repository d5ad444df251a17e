"""Exact averaging: by a ring all-reduce, by torch's own, and by schedules of transfers between ranks such as WRHT.

In the ring, the data is split into N parts, and every rank sends to the next one only. In N-1 steps the parts are
passed on and added up (reduce-scatter), in N-1 more steps the sums are passed on (all-gather).

No `from __future__ import annotations` here: torch compares the annotations of a communication hook with its own types.
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so

from optinc_collective.interconnect.allreduce import wrht
from optinc_collective.interconnect.exchange_schedule import (
    ExchangeSchedule,
    ExchangeStep,
    piece_bounds,
    repetitions,
    wavelength_conflicts,
)
from optinc_collective.schemes.scheme import (
    Scheme,
    Traffic,
    average_bucket,
    completed,
    raise_on_all_ranks,
    report_lost_rank,
    require_equal_on_all_ranks,
    ring_bytes,
    wrap_with_bucket_average,
)
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_type


@validate_arguments
def ring_all_reduce(values: torch.Tensor, group: dist.ProcessGroup | None = None) -> int:
    """Replace a tensor by its sum over the ranks, bitwise equal on every rank, and return the number of bytes sent.

    Args:
        values: Contiguous tensor of shape (n,), with equal shape and data type on all ranks; it is overwritten.
        group: Process group; all ranks by default.

    Raises:
        CommunicationError: A rank was lost.
    """
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    parts = values.tensor_split(world)
    arriving = torch.empty_like(parts[0])
    sent = 0
    for step in range(world - 1):
        here = arriving[: len(parts[(rank - step - 1) % world])]
        sent += _pass_on(parts[(rank - step) % world], here, group)
        parts[(rank - step - 1) % world].add_(here)
    for step in range(world - 1):
        sent += _pass_on(parts[(rank + 1 - step) % world], parts[(rank - step) % world], group)
    return sent


def _pass_on(part: torch.Tensor, arriving: torch.Tensor, group: dist.ProcessGroup | None) -> int:
    """Send a part to the next rank while receiving one from the previous rank; returns the number of bytes sent."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    ranks = range(world) if group is None else dist.get_process_group_ranks(group)
    with report_lost_rank("a part of the ring's data", group):
        operations = [
            dist.P2POp(dist.isend, part, ranks[(rank + 1) % world], group),
            dist.P2POp(dist.irecv, arriving, ranks[(rank - 1) % world], group),
        ]
        # empty parts are not sent; the receiving rank skips them too
        filled = [operation for operation in operations if operation.tensor.numel()]
        for work in dist.batch_isend_irecv(filled) if filled else []:
            work.wait()
    return part.nbytes


class Ring(Scheme):
    """Scheme that averages gradients exactly by a ring all-reduce.

    Args:
        group: Process group; all ranks by default.
    """

    name = "ring"

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.group = group

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model in `DistributedDataParallel`, with a hook that runs `ring_all_reduce`; see `Scheme.wrap`."""

        def average(gradients: torch.Tensor) -> None:
            self.traffic.payload += ring_all_reduce(gradients, self.group)
            gradients.div_(dist.get_world_size(self.group))

        return wrap_with_bucket_average(model, average, self.group)


class AllReduce(Scheme):
    """Scheme that averages gradients exactly by torch's own all-reduce.

    `traffic` counts the bytes of a ring all-reduce, the algorithm of torch's gloo backend.

    Args:
        group: Process group; all ranks by default.
    """

    name = "torch all-reduce"

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.group = group

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model in `DistributedDataParallel` with a hook that calls ``dist.all_reduce``; see `Scheme.wrap`."""

        def average(gradients: torch.Tensor) -> None:
            world = dist.get_world_size(self.group)
            with report_lost_rank("an all-reduce", self.group):
                dist.all_reduce(gradients, group=self.group)
            gradients.div_(world)
            self.traffic.payload += ring_bytes(gradients.nbytes, world)

        return wrap_with_bucket_average(model, average, self.group)


def check_schedule(schedule: ExchangeSchedule, world: int) -> None:
    """Check that a schedule can be executed between a number of ranks, which are the nodes of a ring.

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
    """Replace a buffer, (size,), by its mean over all ranks, by the transfers of a checked schedule.

    The mean is exact up to the order of the floating-point sum. Data received in a step is added in the order of ranks,
    so that the results of an all-to-all exchange are bitwise equal on its nodes.

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


class WrhtState:
    """State of `wrht_hook`: the WRHT schedule for all ranks, as nodes of a bidirectional ring, and the traffic.

    Attributes:
        schedule: The schedule, checked for wavelength conflicts.
        traffic: Count of the bytes that this rank has sent; every transfer is a whole buffer.
    """

    def __init__(self, wavelengths: int, traffic: Traffic | None = None) -> None:
        """Build the schedule for all ranks.

        Args:
            wavelengths: Number of wavelengths of the ring's links, in each direction.
            traffic: Counts the bytes; a new counter by default.

        Raises:
            InputError: Fewer than two ranks, no wavelength, different numbers of wavelengths on the ranks, or transfers
                in conflict; raised on every rank.
        """
        world = dist.get_world_size()
        with raise_on_all_ranks():
            validate_type("traffic", traffic, Traffic | None)
            self.schedule: ExchangeSchedule = wrht(world, wavelengths)
            check_schedule(self.schedule, world)
        # ranks with different schedules would wait for each other or add wrong data
        require_equal_on_all_ranks("WRHT", f"{wavelengths} wavelengths", "give all ranks the same number")
        self.traffic = traffic or Traffic()

    def average(self, gradients: torch.Tensor) -> None:
        """Replace gradients, shape (size,), by their mean over all ranks, in place."""
        average_by_schedule(self.schedule, gradients, self.traffic)


def wrht_hook(state: WrhtState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Communication hook that averages the gradients of a bucket exactly by WRHT, in place.

    It is registered by ``ddp.register_comm_hook(WrhtState(wavelengths), wrht_hook)``.

    Raises:
        InputError: Gradients are NaN, infinite or sparse. Raised on every rank; the message gives the shapes of the
            parameters.
        CommunicationError: A rank was lost.
    """
    average_bucket(bucket, state.average, {})
    return completed(bucket)


class Wrht(Scheme):
    """Scheme that averages gradients exactly by WRHT, the wavelength-reused hierarchical tree (arXiv 2207.10982).

    It takes fewer steps than a ring all-reduce, but every transfer is a whole buffer.
    """

    name = "WRHT"

    def __init__(self, wavelengths: int) -> None:
        """Create the scheme for a number of wavelengths of the ring's links, in each direction."""
        super().__init__()
        self._wavelengths = wavelengths

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap a model in `DistributedDataParallel` with a hook that averages by WRHT; see `Scheme.wrap`.

        Raises:
            InputError: There are fewer than two ranks or no wavelengths, or the ranks have different models or numbers
                of wavelengths.
        """
        return wrap_with_bucket_average(model, WrhtState(self._wavelengths, self.traffic).average)
