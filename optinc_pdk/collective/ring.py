"""Ring all-reduce over point-to-point sends, exact, and torch's own beside it.

Every rank sends to the next one only. In N-1 steps the parts of the data go round and are added up (reduce-scatter), in
N-1 more the sums go round (all-gather); each step moves one part of N, so a rank sends 2(N-1)/N of the data.
"""

import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.average import average_by
from optinc_pdk.collective.scheme import Scheme, communicating, ring_bytes
from optinc_pdk.validation import validate_arguments


@validate_arguments
def ring_all_reduce(values: torch.Tensor, group: dist.ProcessGroup | None = None) -> int:
    """Add up a tensor over the ranks, in place; every rank gets the same bits.

    Args:
        values: Flat and contiguous, of equal shape and type on all ranks.
        group: The ranks; all by default.

    Returns:
        Bytes that this rank sent.

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
    """Send a part to the next rank while another comes from the one before; returns the bytes sent."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    ranks = range(world) if group is None else dist.get_process_group_ranks(group)
    with communicating("a part of the ring's data", group):
        ways = [
            dist.P2POp(dist.isend, part, ranks[(rank + 1) % world], group),
            dist.P2POp(dist.irecv, arriving, ranks[(rank - 1) % world], group),
        ]
        # an empty part is not sent: its neighbour knows it as well
        filled = [way for way in ways if way.tensor.numel()]
        for work in dist.batch_isend_irecv(filled) if filled else []:
            work.wait()
    return part.nbytes


class Ring(Scheme):
    """Gradients averaged over a ring, exactly.

    Args:
        group: The ranks; all by default.
    """

    name = "ring"

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.group = group

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in `DistributedDataParallel`, averaged over the ring; see `Scheme.wrap`."""

        def average(gradients: torch.Tensor) -> None:
            self.traffic.payload += ring_all_reduce(gradients, self.group)
            gradients.div_(dist.get_world_size(self.group))

        return average_by(model, average, self.group)


class AllReduce(Scheme):
    """Gradients averaged by the engine's own all-reduce; its bytes are those of a ring, which gloo runs.

    Args:
        group: The ranks; all by default.
    """

    name = "torch all-reduce"

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        super().__init__()
        self.group = group

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in `DistributedDataParallel`, averaged by `all_reduce`; see `Scheme.wrap`."""

        def average(gradients: torch.Tensor) -> None:
            world = dist.get_world_size(self.group)
            with communicating("an all-reduce", self.group):
                dist.all_reduce(gradients, group=self.group)
            gradients.div_(world)
            self.traffic.payload += ring_bytes(gradients.nbytes, world)

        return average_by(model, average, self.group)
