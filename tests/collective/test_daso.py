"""DASO: synchronous training in blocking phases, the merge formula in cycling, the phases, bytes and refused input."""

import re
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes._daso import Daso, DasoCycle, DasoPhase, DasoPlan, update_cycle
from optinc_pdk.errors import InputError

WORLD = 4
RATE = 0.05
SIZE = 6 * 3 + 3
BYTES = 4 * SIZE


class Sgd:
    """Gradient descent with momentum, as `torch.optim.SGD`, whose import takes longer than these tests run."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.parameters = parameters
        self.momenta = [torch.zeros_like(parameter) for parameter in parameters]

    @torch.no_grad()
    def step(self) -> None:
        for parameter, momentum in zip(self.parameters, self.momenta, strict=True):
            momentum.mul_(0.9).add_(parameter.grad)
            parameter.sub_(RATE * momentum)
            parameter.grad = None


def problem() -> tuple[list[nn.Module], list[list[torch.Tensor]]]:
    """Model of every rank, all equal, and its batches."""
    models = []
    for _ in range(WORLD):
        torch.manual_seed(1)
        models.append(nn.Sequential(nn.Linear(6, 3), nn.Tanh()))
    torch.manual_seed(2)
    return models, [[torch.randn(4, 6) for _ in range(40)] for _ in range(WORLD)]


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def distributed(plan: DasoPlan, batches: int, finish: bool) -> tuple[list[list[float]], list[tuple[int, int]], int]:
    """Parameters of this rank after every batch, its bytes (payload, side) so far, and the last skip."""
    models, data = problem()
    scheme = Daso(plan)
    rank = dist.get_rank()
    model = models[rank]
    if rank:
        nn.init.zeros_(model[0].weight)  # replaced by the first rank's
    wrapped = scheme.wrap(model)
    optimizer = Sgd(list(model.parameters()))
    states, sent = [], []
    for batch in range(batches):
        loss = wrapped(data[rank][batch]).sub(0.5).pow(2).mean()
        loss.backward()
        scheme.step(optimizer, loss.item())
        states.append(flat(model).tolist())
        sent.append((scheme.traffic.payload, scheme.traffic.side))
    if finish:
        scheme.finish()
        states.append(flat(model).tolist())
    return states, sent, scheme.cycle.skip


def simulated(plan: DasoPlan, batches: int, events: dict[int, tuple[str, int, int]]) -> list[torch.Tensor]:
    """DASO as the paper defines it, in one process: parameters of all ranks after every batch (ranks, parameters).

    Args:
        plan: The grid.
        batches: Number of batches.
        events: Exchange after a batch, (kind, group, S): "mean", or "merge" with the group's parameters S batches
            earlier.
    """
    models, data = problem()
    optimizers = [Sgd(list(model.parameters())) for model in models]
    history: list[torch.Tensor] = []
    for batch in range(batches):
        for model, batches_of_rank in zip(models, data, strict=True):
            model(batches_of_rank[batch]).sub(0.5).pow(2).mean().backward()
        for node in range(plan.nodes):
            ranks = range(node * plan.members, (node + 1) * plan.members)
            for same in zip(*(models[rank].parameters() for rank in ranks), strict=True):
                mean = torch.stack([parameter.grad for parameter in same]).mean(0)
                for parameter in same:
                    parameter.grad = mean.clone()
        for optimizer in optimizers:
            optimizer.step()
        local = torch.stack([flat(model) for model in models])
        kind, group, wait = events.get(batch, ("", 0, 0))
        if kind:
            ranks = torch.arange(plan.nodes) * plan.members + group
            stale = local[ranks].sum(0) if kind == "mean" else history[batch - wait][ranks].sum(0)
            merged = (2 * wait * local[ranks] + stale) / (2 * wait + plan.nodes)
            local = merged.repeat_interleave(plan.members, 0)
        for model, values in zip(models, local, strict=True):
            nn.utils.vector_to_parameters(values.clone(), model.parameters())
        history.append(local)
    return history


def assert_close(results: list, expected: list[torch.Tensor]) -> None:
    for rank, (states, _, _) in enumerate(results):
        for batch, (state, reference) in enumerate(zip(states, expected, strict=False)):
            assert torch.allclose(torch.tensor(state), reference[rank], atol=2e-6), (rank, batch)


def test_warm_up_is_synchronous_training(ranks):
    """Also with momentum, whose state is separate in every node."""
    plan = DasoPlan(nodes=2, members=2, warm_up=8, cycling=0, window=1)
    results = ranks.run(distributed, plan, 12, True)
    assert_close(results, simulated(replace(plan, nodes=1, members=4), 12, {}))
    assert all(states == results[0][0] for states, _, _ in results)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_cycling_merges_what_the_groups_sent_in_turn(ranks, grid):
    """Skip 8, so S = 2: sent after batches 2 and 10, merged after 4 and 12; a third exchange would end too late."""
    nodes, members = grid
    plan = DasoPlan(nodes, members, warm_up=2, cycling=17, window=100, skip=8)
    events = {batch: ("mean", batch % members, 0) for batch in (0, 1, 19, 20, 21)}
    events |= {4: ("merge", 0, 2), 12: ("merge", 1 % members, 2)}
    results = ranks.run(distributed, plan, 22, False)
    assert_close(results, simulated(plan, 22, events))
    for node in range(nodes):
        members_of_node = results[node * members : (node + 1) * members]
        assert all(states == members_of_node[0][0] for states, _, _ in members_of_node)
    assert results[0][0][18] != results[-1][0][18]  # nodes differ in cycling and are equal after it
    assert results[0][0][19] == results[-1][0][19]


def test_bytes_of_the_phases(ranks):
    """2 × 2 ranks: a ring in the node at every batch; the group adds a ring between nodes and a copy in the node."""
    plan = DasoPlan(nodes=2, members=2, warm_up=1, cycling=9, window=5, skip=4)
    results = ranks.run(distributed, plan, 10, False)
    for rank, (_, sent, _) in enumerate(results):
        payload, side = zip(*sent, strict=True)
        steps = [after - before for before, after in zip((0, *payload), payload, strict=False)]
        in_node, between, copy = BYTES, BYTES, BYTES
        expected = [in_node] * 10
        # batch 0 blocks; groups 1 and 0 send after batches 1 and 5 and merge one batch later; 9 would be too late
        for batch, group, extra in [
            (0, 0, between + copy),
            (1, 1, between),
            (2, 1, copy),
            (5, 0, between),
            (6, 0, copy),
        ]:
            if rank % 2 == group:
                expected[batch] += extra
        assert steps == expected
        assert side[-1] == 2 * 3 * 8 // 4  # the loss once: nine batches of cycling contain one window


@pytest.mark.parametrize("batches", [5, 6, 8])
def test_finish_during_cycling_makes_ranks_equal(ranks, batches):
    plan = DasoPlan(nodes=2, members=2, warm_up=0, cycling=40, window=100, skip=4)
    results = ranks.run(distributed, plan, batches, True)
    assert results[0][0][-2] != results[2][0][-2]
    assert all(states[-1] == results[0][0][-1] for states, _, _ in results)


def skips(losses: list[list[float]]) -> list[int]:
    """Skip after every batch, given the losses of the ranks; every window without improvement is a plateau."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(DasoPlan(nodes=2, members=2, warm_up=0, cycling=40, window=2, skip=8, patience=0, threshold=0.1))
    wrapped = scheme.wrap(models[rank])
    optimizer = Sgd(list(models[rank].parameters()))
    skip_after = []
    for batch, loss in enumerate(losses[rank]):
        wrapped(data[rank][batch]).pow(2).mean().backward()
        scheme.step(optimizer, loss)
        skip_after.append(scheme.cycle.skip)
    scheme.finish()
    return skip_after


def test_the_skip_follows_the_loss_of_all_ranks(ranks):
    """The first rank's loss falls much more than the mean, which is 7.6, 7.5, 4.5, 4.5 and 4.5 in the windows."""
    falling = [1.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    other = [10.0] * 4 + [6.0] * 6
    expected = [8, 8, 8, 4, 4, 4, 4, 2, 2, 1]
    assert ranks.run(skips, [falling, other, other, other]) == [expected] * WORLD


def late_node() -> str:
    """The second node joins a synchronisation only after the first has continued."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(DasoPlan(nodes=2, members=2, warm_up=0, cycling=100, window=100, skip=8))
    wrapped = scheme.wrap(models[rank])
    optimizer = Sgd(list(models[rank].parameters()))
    token = torch.zeros(1)
    for batch in range(3):
        wrapped(data[rank][batch]).pow(2).mean().backward()
        if batch == 0 and rank >= 2:
            dist.recv(token, rank - 2)
        scheme.step(optimizer, 0.0)
        if batch == 0 and rank < 2:
            dist.send(token, rank + 2)
    scheme.finish()
    return "continued"


def test_sending_does_not_wait_for_other_nodes(ranks):
    """If sending waited, both nodes would wait for each other until the timeout."""
    assert ranks.run(late_node) == ["continued"] * WORLD


def test_order_of_the_phases():
    plan = DasoPlan(2, 2, warm_up=1, cycling=2, window=1)
    assert [plan.phase(batch) for batch in range(4)] == [
        DasoPhase.WARM_UP,
        DasoPhase.CYCLING,
        DasoPhase.CYCLING,
        DasoPhase.COOL_DOWN,
    ]


def test_the_skip_is_halved_on_plateaus_and_reset_from_one():
    plan = DasoPlan(2, 2, warm_up=0, cycling=100, window=1, skip=4, patience=1, threshold=0.1)
    cycle = DasoCycle(plan.skip)
    skips = []
    for loss in [1.0, 0.95, 0.92, 0.91, 0.91, 0.85, 0.85, 0.84, 0.84, 0.84]:
        cycle = update_cycle(cycle, loss, plan)
        skips.append(cycle.skip)
    #      best stale plateau  stale plateau best  stale plateau
    assert skips == [4, 4, 2, 2, 1, 1, 1, 4, 4, 2]
    assert cycle.best == 0.85


@pytest.mark.parametrize(("skip", "wait"), [(1, 1), (4, 1), (8, 2), (16, 4)])
def test_the_wait_is_a_quarter_of_the_skip(skip, wait):
    assert DasoCycle(skip).wait == wait


def test_negative_losses_improve_downwards():
    plan = DasoPlan(2, 2, warm_up=0, cycling=100, window=1, skip=4, patience=0, threshold=0.1)
    cycle = update_cycle(DasoCycle(4), -1.0, plan)
    assert update_cycle(cycle, -1.05, plan).skip == 2
    assert update_cycle(cycle, -1.2, plan).best == -1.2


def train_with_nan() -> None:
    """A batch of the last rank contains NaN."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(DasoPlan(nodes=2, members=2, warm_up=1, cycling=100, window=100, skip=4))
    wrapped = scheme.wrap(models[rank])
    optimizer = Sgd(list(models[rank].parameters()))
    data[3][1][0] = torch.nan
    for batch in range(4):
        wrapped(data[rank][batch]).pow(2).mean().backward()
        scheme.step(optimizer, 0.0)


def test_a_parameter_that_is_not_finite_is_named_on_every_rank(ranks):
    for fault in ranks.outcomes(train_with_nan):
        assert isinstance(fault, InputError), fault
        assert re.search(r"DASO: 0\.weight .*batch 2;", str(fault))


def wrap_with(plan: DasoPlan) -> None:
    Daso(replace(plan, skip=4 + (plan.skip == 1 and dist.get_rank() == 3))).wrap(nn.Linear(2, 2))


def test_a_grid_of_another_number_of_ranks_is_refused(ranks):
    for fault in ranks.outcomes(wrap_with, DasoPlan(3, 2, warm_up=0, cycling=1, window=1)):
        assert isinstance(fault, InputError)
        assert re.search("3 nodes × 2 members are 6 ranks.* 4;", str(fault))


def test_ranks_with_different_plans_are_refused(ranks):
    for fault in ranks.outcomes(wrap_with, DasoPlan(2, 2, warm_up=0, cycling=1, window=1, skip=1)):
        assert isinstance(fault, InputError)
        assert re.search("plan: rank 0 .*skip=4.*rank 3 .*skip=5", str(fault))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"skip": 0}, "skip is 0.* 1"),
        ({"members": 0}, "members is 0.* 1"),
        ({"warm_up": -1}, "warm_up is -1.* 0"),
        ({"skip": 2.5}, "skip = 2.5"),
        ({"window": "20"}, "window = '20'"),
        ({"threshold": "0.1"}, "threshold = '0.1'"),
        ({"threshold": 1.0}, "threshold is 1.0.* 0 .* 1"),
    ],
)
def test_plans_with_values_out_of_range_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        replace(DasoPlan(2, 2, warm_up=0, cycling=1, window=1), **change)


def test_values_of_wrong_types_are_refused():
    with pytest.raises(InputError, match="Daso: plan = 4"):
        Daso(4)
    scheme = Daso(DasoPlan(2, 2, warm_up=0, cycling=1, window=1))
    with pytest.raises(InputError, match="loss = 'low'"):
        scheme.step(Sgd([]), "low")
