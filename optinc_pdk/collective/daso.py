"""DASO: gradients within a node at every batch, parameters between nodes every few, beside the computation.

Distributed asynchronous and selective optimisation, arXiv 2104.05588.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.average import average_by
from optinc_pdk.collective.daso_plan import Cycle, Phase, Plan, after_reading
from optinc_pdk.collective.scheme import (
    Scheme,
    communicating,
    ring_bytes,
    same_everywhere,
    same_parameters,
    together,
)
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_type

LOSS_BYTES = 8
"""A reading of the loss is one 64-bit float."""


@dataclass(frozen=True)
class _Sent:
    """Parameters under way.

    Attributes:
        batch: After which they were sent.
        group: Which member of every node sent them.
        wait: S, after how many more batches they are merged.
        sums: Of a member of the group, by type of number: Σ over its nodes once the work is done.
        works: The all-reduces.
    """

    batch: int
    group: int
    wait: int
    sums: list[torch.Tensor]
    works: list[dist.Work]


class Daso(Scheme):
    """DASO on a grid of nodes and their members.

    In every batch the members of a node average their gradients and so stay equal. Between nodes *parameters* travel,
    from one member of every node, its group; groups take turns. In warm-up and cool-down all wait, at every batch,
    for the mean of the nodes: with an optimiser that is linear in the gradient, such as SGD with momentum, this is
    synchronous training. In cycling a group sends every ``skip`` batches and goes on; S batches later each of its P
    members merges what arrived, ``x = (2 S x_local + Σ x_stale) / (2 S + P)``, and hands it to its node.

    Nothing is sent that would arrive after the cycling phase. Buffers, such as running statistics, are a node's own
    until `finish`. The state of the optimiser is always a node's own.

    Attributes:
        cycle: The skip, and what it follows.
    """

    name = "DASO"

    @validate_arguments
    def __init__(self, plan: Plan) -> None:
        super().__init__()
        self._plan = plan
        self.cycle = Cycle(plan.skip)
        self._parameters: dict[str, nn.Parameter] = {}
        self._buffers: list[torch.Tensor] = []
        self._first = self._member = 0
        self._node: dist.ProcessGroup | None = None
        self._across: dist.ProcessGroup | None = None
        self._turn = 0
        self._next = plan.warm_up
        self._sent: _Sent | None = None
        self._losses: list[float] = []

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in `DistributedDataParallel` over this rank's node.

        Raises:
            InputError: The grid is not that of the ranks, ranks have different plans or parameters, or a second model.
        """
        world, rank, plan = dist.get_world_size(), dist.get_rank(), self._plan
        with together():
            if self._node is not None:
                raise InputError("DASO has a model already: make another Daso for this one")
            if plan.nodes * plan.members != world:
                raise InputError(
                    f"DASO: {plan.nodes} nodes × {plan.members} members are {plan.nodes * plan.members} ranks, not the "
                    f"{world} there are; give nodes and members whose product is {world}"
                )
        same_everywhere("DASO's plan", str(plan), "give all ranks one")
        same_parameters(model)
        with communicating("the first rank's parameters"), torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor, 0)
        # every rank has to make every group, in one order
        nodes = [list(range(first, first + plan.members)) for first in range(0, world, plan.members)]
        groups = [dist.new_group(ranks) for ranks in nodes]
        across = [dist.new_group([ranks[member] for ranks in nodes]) for member in range(plan.members)]
        self._member = rank % plan.members
        self._first = rank - self._member
        self._node, self._across = groups[rank // plan.members], across[self._member]
        self._parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
        self._buffers = list(model.buffers())
        # a node that refused gradients by itself would leave the others waiting: `_merge` refuses what became of them
        return average_by(model, self._average_in_node, self._node, checked=False)

    def step(self, optimizer: torch.optim.Optimizer, loss: float) -> None:
        """The optimiser's step, then what this batch's phase asks for.

        Args:
            optimizer: Of the wrapped model's parameters.
            loss: This rank's loss; its mean over ranks and a window of batches decides about the skip.

        Raises:
            InputError: A parameter became NaN or infinite, raised where nodes meet, on all ranks; or the loss is no
                number.
            CommunicationError: A rank was lost.
        """
        validate_type("Daso.step: loss", loss, float | torch.Tensor)
        super().step(optimizer, loss)
        batch = self.traffic.steps - 1
        if self._plan.phase(batch) is Phase.CYCLING:
            self._cycle(batch, loss)
        else:
            self._synchronise(batch)

    def finish(self) -> None:
        """Merge what is still under way; make nodes equal, where training ended in cycling; take rank 0's buffers."""
        batch = self.traffic.steps - 1
        if self._sent is not None:
            self._merge(self._sent, batch)
        if self._plan.phase(batch) is Phase.CYCLING:
            self._synchronise(batch)
        with communicating("the first rank's buffers"):
            for buffer in self._buffers:
                dist.broadcast(buffer, 0)

    def _average_in_node(self, gradients: torch.Tensor) -> None:
        with communicating("gradients of the node", self._node):
            dist.all_reduce(gradients, group=self._node)
        gradients /= self._plan.members
        self.traffic.payload += ring_bytes(gradients.numel() * gradients.element_size(), self._plan.members)

    def _cycle(self, batch: int, loss: float) -> None:
        """Merge what is due, send where it is time, and follow the loss."""
        if self._sent is not None and batch == self._sent.batch + self._sent.wait:
            self._merge(self._sent, batch)
        if batch >= self._next:
            self._next = batch + self.cycle.skip
            if self._plan.phase(batch + self.cycle.wait) is Phase.CYCLING:
                self._sent = self._send(batch)
        self._losses.append(loss)
        if len(self._losses) == self._plan.window:
            self._read_loss()

    def _synchronise(self, batch: int) -> None:
        """Wait for the mean over nodes: sent and merged at once, S = 0."""
        self._merge(self._send(batch), batch)

    def _send(self, batch: int) -> _Sent:
        """Let the group whose turn it is send its parameters; the others only remember that it did."""
        sums: list[torch.Tensor] = []
        works: list[dist.Work] = []
        group = self._turn
        self._turn = (group + 1) % self._plan.members
        if self._member == group:
            sums = _flat(list(self._parameters.values()))
            with communicating("parameters of other nodes", self._across):
                works = [dist.all_reduce(flat, group=self._across, async_op=True) for flat in sums]
            self.traffic.payload += ring_bytes(_bytes(sums), self._plan.nodes)
        return _Sent(batch, group, self.cycle.wait, sums, works)

    def _merge(self, sent: _Sent, batch: int) -> None:
        """Mix what arrived into the parameters, on the group's members, and hand the result to their nodes."""
        self._sent = None
        own = _flat(list(self._parameters.values()))
        if self._member == sent.group:
            with communicating("parameters of other nodes", self._across):
                for work in sent.works:
                    work.wait()
            weight = 2 * (batch - sent.batch)
            own = [
                (weight * local + stale) / (weight + self._plan.nodes)
                for local, stale in zip(own, sent.sums, strict=True)
            ]
            self.traffic.payload += (self._plan.members - 1) * _bytes(own)
        with communicating("parameters of the node", self._node):
            for flat in own:
                dist.broadcast(flat, self._first + sent.group, group=self._node)
        _fill(list(self._parameters.values()), own)
        for name, parameter in self._parameters.items():
            if not torch.isfinite(parameter).all():
                raise InputError(
                    f"DASO: {name} is not finite where nodes met after batch {batch}; lower the learning rate or mend "
                    "the data"
                )

    def _read_loss(self) -> None:
        """Take a reading of the loss, the same on all ranks."""
        world = dist.get_world_size()
        device = next(iter(self._parameters.values())).device
        mean = torch.tensor([sum(self._losses) / len(self._losses)], dtype=torch.float64, device=device)
        with communicating("the loss of other ranks"):
            dist.all_reduce(mean)
        self.traffic.side += ring_bytes(LOSS_BYTES, world)
        self._losses = []
        self.cycle = after_reading(self.cycle, float(mean) / world, self._plan)


def _by_type(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Parameters of one type of number together."""
    kinds = dict.fromkeys(parameter.dtype for parameter in parameters)
    return [[parameter for parameter in parameters if parameter.dtype == kind] for kind in kinds]


def _flat(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """A copy of all parameters, one flat tensor for each type of number."""
    return [torch.cat([parameter.detach().reshape(-1) for parameter in alike]) for alike in _by_type(parameters)]


@torch.no_grad()
def _fill(parameters: list[nn.Parameter], flats: list[torch.Tensor]) -> None:
    """Set parameters from what `_flat` makes."""
    for alike, flat in zip(_by_type(parameters), flats, strict=True):
        pieces = torch.split(flat, [parameter.numel() for parameter in alike])
        for parameter, piece in zip(alike, pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))


def _bytes(flats: list[torch.Tensor]) -> int:
    return sum(flat.numel() * flat.element_size() for flat in flats)
