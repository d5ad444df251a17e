"""Exact averaging by a ring all-reduce over point-to-point sends, and by torch's own all-reduce.

The data is split into N parts, and every rank sends to the next one only. In N-1 steps the parts are passed on and
added up (reduce-scatter), in N-1 more steps the sums are passed on (all-gather). Every step moves one part, so a rank
sends 2(N-1)/N of the data.
"""

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.bucket_average import wrap_with_bucket_average
from optinc_collective.schemes.scheme import Scheme, report_lost_rank, ring_bytes
from optinc_pdk.validation import validate_arguments


@validate_arguments
def ring_all_reduce(values: torch.Tensor, group: dist.ProcessGroup | None = None) -> int:
    """Replace a tensor by its sum over the ranks, by a ring all-reduce. The result is bitwise equal on every rank.

    Args:
        values: Contiguous tensor of shape (n,), with equal shape and data type on all ranks; it is overwritten.
        group: Process group; all ranks by default.

    Returns:
        Number of bytes that this rank sent.

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
