"""Exact exchanges for distributed auto-differentiation: all-gather of tensors of different lengths, and all-reduce."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.scheme import Traffic, gather_text, report_lost_rank, ring_bytes
from optinc_pdk.errors import InputError

FLAG_BYTES = 8
"""Size of a length or a flag: one 64-bit integer."""


def gather_rows(local: Sequence[torch.Tensor], fault: str, traffic: Traffic) -> list[torch.Tensor]:
    """All-gather of several tensors whose numbers of rows differ between ranks.

    First the ranks exchange the numbers of rows, and a flag that is set on a rank with a fault. Then the rows of every
    rank are passed around a ring as one buffer: in each of N − 1 steps a rank sends the buffer that it received in the
    step before. So rank n sends the buffers of all ranks except n + 1: (N − 1) b bytes if every rank has b bytes.

    Args:
        local: This rank's tensors, shape (rows, width) each. Order, widths and data type are equal on all ranks; the
            numbers of rows may differ.
        fault: Description of why this rank's tensors cannot be used; empty if they can.
        traffic: Counter to which the bytes sent are added: rows as `payload`, numbers of rows and flag as `side`.

    Returns:
        One tensor for every tensor in `local`, shape (rows of all ranks, width), with the ranks in order; equal on
        every rank.

    Raises:
        InputError: On every rank, if any rank has a fault.
        CommunicationError: A rank was lost.
    """
    rank, world = dist.get_rank(), dist.get_world_size()
    lengths = _lengths([len(tensor) for tensor in local], fault, local[0].device, traffic)
    widths = torch.tensor([tensor.shape[1] for tensor in local])
    blocks = [local[0].new_empty(int((lengths[other] * widths).sum())) for other in range(world)]
    blocks[rank] = torch.cat([tensor.reshape(-1) for tensor in local])
    following, previous = (rank + 1) % world, (rank - 1) % world
    with report_lost_rank("activations and deltas"):
        for step in range(world - 1):
            sent, received = blocks[(rank - step) % world], blocks[(rank - step - 1) % world]
            moves = [dist.P2POp(dist.isend, sent, following)] if sent.numel() else []
            moves += [dist.P2POp(dist.irecv, received, previous)] if received.numel() else []
            for request in dist.batch_isend_irecv(moves) if moves else []:
                request.wait()
            traffic.payload += sent.numel() * sent.element_size()
    pieces = [torch.split(block, (lengths[other] * widths).tolist()) for other, block in enumerate(blocks)]
    return [torch.cat([of_rank[k] for of_rank in pieces]).view(-1, int(widths[k])) for k in range(len(local))]


def _lengths(local: list[int], fault: str, device: torch.device, traffic: Traffic) -> torch.Tensor:
    """Number of rows of every tensor on every rank, (ranks, tensors).

    Raises:
        InputError: On every rank, if any rank has a fault.
    """
    world = dist.get_world_size()
    message = torch.tensor([bool(fault), *local], dtype=torch.int64, device=device)
    received = [torch.empty_like(message) for _ in range(world)]
    with report_lost_rank("numbers of rows"):
        dist.all_gather(received, message)
    traffic.side += (world - 1) * FLAG_BYTES * len(message)
    table = torch.stack(received).cpu()
    if table[:, 0].any():
        faults = {other: text for other, text in enumerate(gather_text(fault)) if text}
        raise InputError("; ".join(f"rank {other}: {text}" for other, text in faults.items()))
    return table[:, 1:]


def average_exactly(parameters: Sequence[nn.Parameter], traffic: Traffic) -> None:
    """Replace the gradients of parameters by their mean over all ranks, with one all-reduce per data type.

    Args:
        parameters: Parameters whose gradients are averaged, in the same order on all ranks. Each has a gradient.
        traffic: Counter to which the bytes of a ring all-reduce are added, 2 (N − 1)/N of the data for N ranks.

    Raises:
        CommunicationError: A rank was lost.
    """
    world = dist.get_world_size()
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for kind in dict.fromkeys(gradient.dtype for gradient in gradients):
        same_type = [gradient for gradient in gradients if gradient.dtype == kind]
        flat = torch.cat([gradient.reshape(-1) for gradient in same_type])
        with report_lost_rank("gradients of the parameters outside linear layers"):
            dist.all_reduce(flat)
        flat /= world
        for gradient, mean in zip(
            same_type, torch.split(flat, [gradient.numel() for gradient in same_type]), strict=True
        ):
            gradient.copy_(mean.view_as(gradient))
        traffic.payload += ring_bytes(flat.numel() * flat.element_size(), world)
