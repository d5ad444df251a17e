"""DASO, distributed asynchronous and selective optimisation (arXiv 2104.05588).

Gradients are averaged within a node at every batch. Parameters are averaged between nodes every few batches,
concurrently with the computation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.bucket_average import wrap_with_bucket_average
from optinc_collective.schemes.daso_plan import DasoCycle, DasoPhase, DasoPlan, update_cycle
from optinc_collective.schemes.scheme import (
    Scheme,
    raise_on_all_ranks,
    report_lost_rank,
    require_equal_on_all_ranks,
    require_equal_parameters,
    ring_bytes,
)
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_type

LOSS_BYTES = 8
"""Size of a loss value in an all-reduce: one 64-bit float."""


@dataclass(frozen=True)
class _Sent:
    """An exchange of parameters in progress.

    Attributes:
        batch: Batch after which they were sent.
        group: Number of the member of every node that sent them.
        wait: S, number of batches until they are merged.
        sums: On a member of the group, one flat tensor per data type: the sum over nodes once the works are complete.
        works: The all-reduces.
    """

    batch: int
    group: int
    wait: int
    sums: list[torch.Tensor]
    works: list[dist.Work]


class Daso(Scheme):
    """Training scheme DASO (arXiv 2104.05588) on a grid of P nodes with several ranks, the members, each.

    At every batch the members of a node average their gradients, so their parameters stay equal. Nodes exchange
    *parameters*. Member m of every node forms group m, and the groups take turns: one group exchanges at a time.

    - **Warm-up and cool-down**: at every batch all ranks wait for the mean of the parameters over nodes. With an
      optimiser that is linear in the gradient, such as SGD with momentum, this is synchronous training.
    - **Cycling**: every ``skip`` batches a group starts an all-reduce of its parameters and does not wait. S batches
      later its members merge the received sum, ``x = (2 S x_local + Σ x_stale) / (2 S + P)``, and broadcast the result
      within their nodes.

    No exchange is started that would end after the cycling phase. Buffers, such as running statistics, differ between
    nodes until `finish`. The state of the optimiser always differs between nodes.

    Attributes:
        cycle: State of the cycling phase: the current skip, and the loss history that determines it.
    """

    name = "DASO"

    @validate_arguments
    def __init__(self, plan: DasoPlan) -> None:
        super().__init__()
        self._plan = plan
        self.cycle = DasoCycle(plan.skip)
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
        """Wrap a model in `DistributedDataParallel` over the ranks of this rank's node.

        Args:
            model: The user's model. Its parameters and buffers are replaced by those of rank 0.

        Returns:
            The wrapped model.

        Raises:
            InputError: The grid does not match the number of ranks, the ranks have different plans or models, or this
                scheme has a model already.
        """
        world, rank, plan = dist.get_world_size(), dist.get_rank(), self._plan
        with raise_on_all_ranks():
            if self._node is not None:
                raise InputError("DASO has a model already: create another Daso for this one")
            if plan.nodes * plan.members != world:
                raise InputError(
                    f"DASO: {plan.nodes} nodes × {plan.members} members are {plan.nodes * plan.members} ranks, but the "
                    f"job has {world}; give nodes and members whose product is {world}"
                )
        require_equal_on_all_ranks("DASO's plan", str(plan), "give all ranks the same plan")
        require_equal_parameters(model)
        with report_lost_rank("the first rank's parameters"), torch.no_grad():
            for tensor in [*model.parameters(), *model.buffers()]:
                dist.broadcast(tensor, 0)
        # every rank must create every group, in the same order
        nodes = [list(range(first, first + plan.members)) for first in range(0, world, plan.members)]
        groups = [dist.new_group(ranks) for ranks in nodes]
        across = [dist.new_group([ranks[member] for ranks in nodes]) for member in range(plan.members)]
        self._member = rank % plan.members
        self._first = rank - self._member
        self._node, self._across = groups[rank // plan.members], across[self._member]
        self._parameters = {name: each for name, each in model.named_parameters() if each.requires_grad}
        self._buffers = list(model.buffers())
        # a node that refused gradients alone would leave the others waiting: `_merge` checks the parameters instead
        return wrap_with_bucket_average(model, self._average_in_node, self._node, checked=False)

    def step(self, optimizer: torch.optim.Optimizer, loss: float) -> None:
        """Call ``optimizer.step()``, then exchange parameters between nodes if the phase of this batch requires it.

        Args:
            optimizer: Optimiser of the wrapped model's parameters.
            loss: This rank's loss. Its mean over ranks and over a window of batches controls the skip.

        Raises:
            InputError: `loss` is not a `float` or tensor; or a parameter is NaN or infinite after an exchange between
                nodes, which every rank then reports.
            CommunicationError: A rank was lost.
        """
        validate_type("Daso.step: loss", loss, float | torch.Tensor)
        super().step(optimizer, loss)
        batch = self.traffic.steps - 1
        if self._plan.phase(batch) is DasoPhase.CYCLING:
            self._cycle(batch, loss)
        else:
            self._synchronise(batch)

    def finish(self) -> None:
        """Complete a pending exchange and make parameters and buffers equal on all ranks.

        If training ended in the cycling phase, the parameters are averaged over nodes. The buffers are replaced by
        those of rank 0.
        """
        batch = self.traffic.steps - 1
        if self._sent is not None:
            self._merge(self._sent, batch)
        if self._plan.phase(batch) is DasoPhase.CYCLING:
            self._synchronise(batch)
        with report_lost_rank("the first rank's buffers"):
            for buffer in self._buffers:
                dist.broadcast(buffer, 0)

    def _average_in_node(self, gradients: torch.Tensor) -> None:
        with report_lost_rank("gradients of the node", self._node):
            dist.all_reduce(gradients, group=self._node)
        gradients /= self._plan.members
        self.traffic.payload += ring_bytes(gradients.numel() * gradients.element_size(), self._plan.members)

    def _cycle(self, batch: int, loss: float) -> None:
        """Merge an exchange that is due, start the next one if it is time, and record the loss."""
        if self._sent is not None and batch == self._sent.batch + self._sent.wait:
            self._merge(self._sent, batch)
        if batch >= self._next:
            self._next = batch + self.cycle.skip
            if self._plan.phase(batch + self.cycle.wait) is DasoPhase.CYCLING:
                self._sent = self._send(batch)
        self._losses.append(loss)
        if len(self._losses) == self._plan.window:
            self._read_loss()

    def _synchronise(self, batch: int) -> None:
        """Average the parameters over nodes and wait for the result: S = 0."""
        self._merge(self._send(batch), batch)

    def _send(self, batch: int) -> _Sent:
        """Start the all-reduce of the current group's parameters; other members only record it."""
        sums: list[torch.Tensor] = []
        works: list[dist.Work] = []
        group = self._turn
        self._turn = (group + 1) % self._plan.members
        if self._member == group:
            sums = _flat(list(self._parameters.values()))
            with report_lost_rank("parameters of other nodes", self._across):
                works = [dist.all_reduce(flat, group=self._across, async_op=True) for flat in sums]
            self.traffic.payload += ring_bytes(_bytes(sums), self._plan.nodes)
        return _Sent(batch, group, self.cycle.wait, sums, works)

    def _merge(self, sent: _Sent, batch: int) -> None:
        """Merge the received sums into the parameters on the group's members; broadcast the result within the nodes."""
        self._sent = None
        merged = _flat(list(self._parameters.values()))
        if self._member == sent.group:
            with report_lost_rank("parameters of other nodes", self._across):
                for work in sent.works:
                    work.wait()
            weight = 2 * (batch - sent.batch)
            merged = [
                (weight * local + stale) / (weight + self._plan.nodes)
                for local, stale in zip(merged, sent.sums, strict=True)
            ]
            self.traffic.payload += (self._plan.members - 1) * _bytes(merged)
        with report_lost_rank("parameters of the node", self._node):
            for flat in merged:
                dist.broadcast(flat, self._first + sent.group, group=self._node)
        _fill(list(self._parameters.values()), merged)
        for name, parameter in self._parameters.items():
            if not torch.isfinite(parameter).all():
                raise InputError(
                    f"DASO: {name} is not finite after the nodes' exchange at batch {batch}; lower the learning rate "
                    "or correct the data"
                )

    def _read_loss(self) -> None:
        """Average the recorded losses over ranks and update the skip, equally on all ranks."""
        world = dist.get_world_size()
        device = next(iter(self._parameters.values())).device
        mean = torch.tensor([sum(self._losses) / len(self._losses)], dtype=torch.float64, device=device)
        with report_lost_rank("the loss of other ranks"):
            dist.all_reduce(mean)
        self.traffic.side += ring_bytes(LOSS_BYTES, world)
        self._losses = []
        self.cycle = update_cycle(self.cycle, float(mean) / world, self._plan)


def _by_type(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Group parameters by data type."""
    kinds = dict.fromkeys(parameter.dtype for parameter in parameters)
    return [[parameter for parameter in parameters if parameter.dtype == kind] for kind in kinds]


def _flat(parameters: list[nn.Parameter]) -> list[torch.Tensor]:
    """Copy all parameters into one flat tensor per data type."""
    return [
        torch.cat([parameter.detach().reshape(-1) for parameter in same_type]) for same_type in _by_type(parameters)
    ]


@torch.no_grad()
def _fill(parameters: list[nn.Parameter], flats: list[torch.Tensor]) -> None:
    """Set parameters from the result of `_flat`."""
    for same_type, flat in zip(_by_type(parameters), flats, strict=True):
        pieces = torch.split(flat, [parameter.numel() for parameter in same_type])
        for parameter, piece in zip(same_type, pieces, strict=True):
            parameter.copy_(piece.view_as(parameter))


def _bytes(flats: list[torch.Tensor]) -> int:
    return sum(flat.numel() * flat.element_size() for flat in flats)
