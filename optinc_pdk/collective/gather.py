"""Exact exchanges by hand: tensors of differing lengths around a ring, and the mean of what is left."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.scheme import Traffic, communicating, gather_text, ring_bytes
from optinc_pdk.errors import InputError

FLAG_BYTES = 8
"""A length or a flag is one 64-bit integer."""


def gather_rows(own: Sequence[torch.Tensor], fault: str, traffic: Traffic) -> list[torch.Tensor]:
    """Every rank's rows of every tensor, in the order of ranks, the same on every rank.

    First the lengths go round, with a flag for a rank that cannot go on; then all rows of a rank as one buffer, around
    the ring: in each of N − 1 steps a rank passes on to the next one what it got the step before. So rank n sends
    what all ranks but n + 1 have to say, (N − 1) b bytes where each has b.

    Args:
        own: This rank's tensors (rows, width), in the same order, of the same widths and of one type on all ranks; the
            rows may differ in number.
        fault: What makes this rank's tensors unusable; empty where nothing does.
        traffic: Where the bytes are counted.

    Returns:
        Tensors (all ranks' rows, width).

    Raises:
        InputError: On every rank, where any has a fault.
        CommunicationError: A rank was lost.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    lengths = _lengths([len(tensor) for tensor in own], fault, own[0].device, traffic)
    widths = torch.tensor([tensor.shape[1] for tensor in own])
    blocks = [own[0].new_empty(int((lengths[other] * widths).sum())) for other in range(world)]
    blocks[rank] = torch.cat([tensor.reshape(-1) for tensor in own])
    following, previous = (rank + 1) % world, (rank - 1) % world
    with communicating("activations and deltas"):
        for step in range(world - 1):
            sent, received = blocks[(rank - step) % world], blocks[(rank - step - 1) % world]
            moves = [dist.P2POp(dist.isend, sent, following)] if sent.numel() else []
            moves += [dist.P2POp(dist.irecv, received, previous)] if received.numel() else []
            for request in dist.batch_isend_irecv(moves) if moves else []:
                request.wait()
            traffic.payload += sent.numel() * sent.element_size()
    pieces = [torch.split(block, (lengths[other] * widths).tolist()) for other, block in enumerate(blocks)]
    return [torch.cat([of_rank[k] for of_rank in pieces]).view(-1, int(widths[k])) for k in range(len(own))]


def _lengths(own: list[int], fault: str, device: torch.device, traffic: Traffic) -> torch.Tensor:
    """Every rank's number of rows of every tensor, (ranks, tensors).

    Raises:
        InputError: On every rank, where any has a fault.
    """
    world = dist.get_world_size()
    told = torch.tensor([bool(fault), *own], dtype=torch.int64, device=device)
    heard = [torch.empty_like(told) for _ in range(world)]
    with communicating("numbers of rows"):
        dist.all_gather(heard, told)
    traffic.side += (world - 1) * FLAG_BYTES * len(told)
    table = torch.stack(heard).cpu()
    if table[:, 0].any():
        told_by = {other: text for other, text in enumerate(gather_text(fault)) if text}
        raise InputError("; ".join(f"rank {other}: {text}" for other, text in told_by.items()))
    return table[:, 1:]


def average_exactly(parameters: Sequence[nn.Parameter], traffic: Traffic) -> None:
    """Replace gradients by their mean over all ranks: one all-reduce for each type of number.

    Counted as a ring all-reduce, 2 (N − 1)/N of the bytes.

    Args:
        parameters: Those whose gradients are averaged, in the same order on all ranks; each has one.
        traffic: Where the bytes are counted.

    Raises:
        CommunicationError: A rank was lost.
    """
    world = dist.get_world_size()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for kind in dict.fromkeys(gradient.dtype for gradient in gradients):
        alike = [gradient for gradient in gradients if gradient.dtype == kind]
        flat = torch.cat([gradient.reshape(-1) for gradient in alike])
        with communicating("gradients of the parameters outside linear layers"):
            dist.all_reduce(flat)
        flat /= world
        for gradient, mean in zip(alike, torch.split(flat, [gradient.numel() for gradient in alike]), strict=True):
            gradient.copy_(mean.view_as(gradient))
        traffic.payload += ring_bytes(flat.numel() * flat.element_size(), world)
