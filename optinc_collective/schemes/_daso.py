"""DASO, distributed asynchronous and selective optimisation (arXiv 2104.05588).

Gradients are averaged within a node at every batch. Parameters are averaged between nodes every few batches,
concurrently with the computation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes.scheme import (
    Scheme,
    broadcast_from_first,
    fill_from_flat,
    flattened,
    raise_on_all_ranks,
    report_lost_rank,
    require_equal_on_all_ranks,
    require_equal_parameters,
    ring_bytes,
    wrap_with_bucket_average,
)
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields, validate_type

LOSS_BYTES = 8
"""Size of a loss value in an all-reduce: one 64-bit float."""


class DasoPhase(Enum):
    """Phase of a DASO run.

    Global synchronisation blocks at every batch in warm-up and cool-down, and is asynchronous in cycling.
    """

    WARM_UP = "warm-up"
    CYCLING = "cycling"
    COOL_DOWN = "cool-down"


@dataclass(frozen=True)
class DasoPlan:
    """Settings of a DASO run: the grid of ranks, the phases, and the definition of a plateau of the loss.

    The defaults of `skip`, `patience` and `threshold` are those of the authors' code, where the window is an epoch.

    Attributes:
        nodes: Number P of nodes.
        members: Number of ranks of a node; rank r is member r mod members of node ⌊r / members⌋.
        warm_up: Number of batches of the warm-up phase.
        cycling: Number of batches of the cycling phase; all later batches are cool-down.
        window: Number of batches over which the loss is averaged before it is compared with the best mean loss.
        skip: Number of batches from one global synchronisation to the next, at the start of cycling and after a reset.
        patience: Number of consecutive windows without improvement that are tolerated; one more is a plateau.
        threshold: Smallest relative decrease from the best mean loss that counts as an improvement, 0 <= threshold < 1.

    Raises:
        InputError: A value is out of range or of the wrong type.
    """

    nodes: int
    members: int
    warm_up: int
    cycling: int
    window: int
    skip: int = 4
    patience: int = 2
    threshold: float = 0.05

    def __post_init__(self) -> None:
        validate_fields(self)
        counts = {"nodes": 1, "members": 1, "warm_up": 0, "cycling": 0, "window": 1, "skip": 1, "patience": 0}
        for name, least in counts.items():
            if getattr(self, name) < least:
                raise InputError(f"DASO: {name} is {getattr(self, name)}; give at least {least}")
        if not 0 <= self.threshold < 1:
            raise InputError(f"DASO: threshold is {self.threshold}; give a number from 0 to below 1")

    def phase(self, batch: int) -> DasoPhase:
        """Return the phase of a batch; batches are numbered from 0."""
        if batch < self.warm_up:
            return DasoPhase.WARM_UP
        return DasoPhase.CYCLING if batch < self.warm_up + self.cycling else DasoPhase.COOL_DOWN


@dataclass(frozen=True)
class DasoCycle:
    """State of the cycling phase: the current skip, and the loss history that determines the next one.

    Attributes:
        skip: Number of batches from one global synchronisation to the next.
        best: Mean loss of the last window that was an improvement; infinite before the first window.
        windows_without_improvement: Number of consecutive windows without improvement since then, or since the last
            change of the skip.
    """

    skip: int
    best: float = math.inf
    windows_without_improvement: int = 0

    @property
    def wait(self) -> int:
        """Number S of batches from sending to merging: a quarter of the skip, at least 1, as in the authors' code."""
        return max(1, self.skip // 4)


def update_cycle(cycle: DasoCycle, loss: float, plan: DasoPlan) -> DasoCycle:
    """Return the state of the cycling phase after a window of batches with this mean loss over all ranks.

    On a plateau of the loss, as the plan defines it, the skip is halved, or reset to ``plan.skip`` if it is 1 already.
    """
    if loss < cycle.best - plan.threshold * abs(cycle.best) or math.isinf(cycle.best):
        return replace(cycle, best=loss, windows_without_improvement=0)
    if cycle.windows_without_improvement < plan.patience:
        return replace(cycle, windows_without_improvement=cycle.windows_without_improvement + 1)
    return replace(cycle, skip=cycle.skip // 2 if cycle.skip > 1 else plan.skip, windows_without_improvement=0)


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

        Its parameters and buffers are replaced by those of rank 0.

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
        broadcast_from_first("parameters", [*model.parameters(), *model.buffers()])
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

        The mean of the loss over ranks and over a window of batches controls the skip.

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
        broadcast_from_first("buffers", self._buffers)

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
            sums = flattened(list(self._parameters.values()))
            with report_lost_rank("parameters of other nodes", self._across):
                works = [dist.all_reduce(flat, group=self._across, async_op=True) for flat in sums]
            self.traffic.payload += ring_bytes(_bytes(sums), self._plan.nodes)
        return _Sent(batch, group, self.cycle.wait, sums, works)

    def _merge(self, sent: _Sent, batch: int) -> None:
        """Merge the received sums into the parameters on the group's members; broadcast the result within the nodes."""
        self._sent = None
        merged = flattened(list(self._parameters.values()))
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
        fill_from_flat(list(self._parameters.values()), merged)
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


def _bytes(flats: list[torch.Tensor]) -> int:
    return sum(flat.numel() * flat.element_size() for flat in flats)
