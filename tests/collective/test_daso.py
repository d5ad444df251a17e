"""DASO: synchronous where it blocks, its merge formula where it does not, the phases, and the bytes."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_pdk.collective.daso import Daso
from optinc_pdk.collective.daso_plan import Cycle, Phase, Plan, after_reading
from optinc_pdk.errors import InputError

WORLD = 4
RATE = 0.05
SIZE = 6 * 3 + 3
BYTES = 4 * SIZE


class Sgd:
    """Gradient descent with momentum, as `torch.optim.SGD`, whose import takes longer than these tests."""

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
    """Every rank's model, all equal, and its batches."""
    models = []
    for _ in range(WORLD):
        torch.manual_seed(1)
        models.append(nn.Sequential(nn.Linear(6, 3), nn.Tanh()))
    torch.manual_seed(2)
    return models, [[torch.randn(4, 6) for _ in range(40)] for _ in range(WORLD)]


def flat(model: nn.Module) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def distributed(plan: Plan, batches: int, finish: bool) -> tuple[list[list[float]], list[tuple[int, int]], int]:
    """This rank's parameters after every batch, its bytes until then, and the last skip."""
    models, data = problem()
    scheme = Daso(plan)
    rank = dist.get_rank()
    model = models[rank]
    if rank:
        nn.init.zeros_(model[0].weight)  # the first rank's count
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


def simulated(plan: Plan, batches: int, events: dict[int, tuple[str, int, int]]) -> list[torch.Tensor]:
    """What the paper says, in one process: all ranks' parameters after every batch (ranks, parameters).

    Args:
        plan: The grid.
        batches: How many.
        events: By batch, what happens after it: "mean", or "merge" of what a group had S batches before.
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


def close(found: list, wanted: list[torch.Tensor]) -> None:
    for rank, (states, _, _) in enumerate(found):
        for batch, (state, reference) in enumerate(zip(states, wanted, strict=False)):
            assert torch.allclose(torch.tensor(state), reference[rank], atol=2e-6), (rank, batch)


def test_warm_up_is_synchronous_training(ranks):
    """With momentum, whose state the nodes keep apart."""
    plan = Plan(nodes=2, members=2, warm_up=8, cycling=0, window=1)
    found = ranks.run(distributed, plan, 12, True)
    close(found, simulated(replace(plan, nodes=1, members=4), 12, {}))
    assert all(states == found[0][0] for states, _, _ in found)


@pytest.mark.parametrize("grid", [(2, 2), (4, 1)])
def test_cycling_merges_what_the_groups_sent_in_turn(ranks, grid):
    """Skip 8, so S = 2: sent after batches 2 and 10, merged after 4 and 12; a third would arrive too late."""
    nodes, members = grid
    plan = Plan(nodes, members, warm_up=2, cycling=17, window=100, skip=8)
    events = {batch: ("mean", batch % members, 0) for batch in (0, 1, 19, 20, 21)}
    events |= {4: ("merge", 0, 2), 12: ("merge", 1 % members, 2)}
    found = ranks.run(distributed, plan, 22, False)
    close(found, simulated(plan, 22, events))
    for node in range(nodes):
        members_of_node = found[node * members : (node + 1) * members]
        assert all(states == members_of_node[0][0] for states, _, _ in members_of_node)
    assert found[0][0][18] != found[-1][0][18]  # nodes differ in cycling, and are equal after it
    assert found[0][0][19] == found[-1][0][19]


def test_bytes_are_those_of_the_phases(ranks):
    """2 × 2: a ring in the node at every batch; the group also a ring between nodes and its copy to the other."""
    plan = Plan(nodes=2, members=2, warm_up=1, cycling=9, window=5, skip=4)
    found = ranks.run(distributed, plan, 10, False)
    for rank, (_, sent, _) in enumerate(found):
        payload, side = zip(*sent, strict=True)
        steps = [after - before for before, after in zip((0, *payload), payload, strict=False)]
        in_node, between, copy = BYTES, BYTES, BYTES
        wanted = [in_node] * 10
        # batch 0 waits; groups 1 and 0 send after batches 1 and 5; merging is one batch later; 9 would be too late
        for batch, group, extra in [
            (0, 0, between + copy),
            (1, 1, between),
            (2, 1, copy),
            (5, 0, between),
            (6, 0, copy),
        ]:
            if rank % 2 == group:
                wanted[batch] += extra
        assert steps == wanted
        assert side[-1] == 2 * 3 * 8 // 4  # the loss, once: nine batches of cycling hold one window


@pytest.mark.parametrize("batches", [5, 6, 8])
def test_an_end_in_the_middle_of_cycling_leaves_ranks_equal(ranks, batches):
    plan = Plan(nodes=2, members=2, warm_up=0, cycling=40, window=100, skip=4)
    found = ranks.run(distributed, plan, batches, True)
    assert found[0][0][-2] != found[2][0][-2]
    assert all(states[-1] == found[0][0][-1] for states, _, _ in found)


def skips(losses: list[list[float]]) -> list[int]:
    """The skip after every batch, where ranks tell these losses; every reading without improvement is a plateau."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(Plan(nodes=2, members=2, warm_up=0, cycling=40, window=2, skip=8, patience=0, threshold=0.1))
    wrapped = scheme.wrap(models[rank])
    optimizer = Sgd(list(models[rank].parameters()))
    found = []
    for batch, loss in enumerate(losses[rank]):
        wrapped(data[rank][batch]).pow(2).mean().backward()
        scheme.step(optimizer, loss)
        found.append(scheme.cycle.skip)
    scheme.finish()
    return found


def test_the_skip_follows_the_loss_of_all_ranks(ranks):
    """The first rank's loss falls by far, but not the mean, which lies at 7.6, 7.5, 4.5, 4.5 and 4.5 in the windows."""
    falling = [1.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    other = [10.0] * 4 + [6.0] * 6
    wanted = [8, 8, 8, 4, 4, 4, 4, 2, 2, 1]
    assert ranks.run(skips, [falling, other, other, other]) == [wanted] * WORLD


def late() -> str:
    """The second node takes part in a synchronisation only once the first has gone on from it."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(Plan(nodes=2, members=2, warm_up=0, cycling=100, window=100, skip=8))
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
    return "went on"


def test_sending_does_not_wait_for_other_nodes(ranks):
    """Ranks that waited would wait for each other until the engine gave up."""
    assert ranks.run(late) == ["went on"] * WORLD


def test_phases_in_their_order():
    plan = Plan(2, 2, warm_up=1, cycling=2, window=1)
    assert [plan.phase(batch) for batch in range(4)] == [
        Phase.WARM_UP,
        Phase.CYCLING,
        Phase.CYCLING,
        Phase.COOL_DOWN,
    ]


def test_the_skip_is_halved_on_plateaus_and_reset_from_one():
    plan = Plan(2, 2, warm_up=0, cycling=100, window=1, skip=4, patience=1, threshold=0.1)
    cycle = Cycle(plan.skip)
    skips = []
    for loss in [1.0, 0.95, 0.92, 0.91, 0.91, 0.85, 0.85, 0.84, 0.84, 0.84]:
        cycle = after_reading(cycle, loss, plan)
        skips.append(cycle.skip)
    #      best stale plateau  stale plateau best  stale plateau
    assert skips == [4, 4, 2, 2, 1, 1, 1, 4, 4, 2]
    assert cycle.best == 0.85


@pytest.mark.parametrize(("skip", "wait"), [(1, 1), (4, 1), (8, 2), (16, 4)])
def test_the_wait_is_a_quarter_of_the_skip(skip, wait):
    assert Cycle(skip).wait == wait


def test_losses_below_zero_improve_downwards():
    plan = Plan(2, 2, warm_up=0, cycling=100, window=1, skip=4, patience=0, threshold=0.1)
    cycle = after_reading(Cycle(4), -1.0, plan)
    assert after_reading(cycle, -1.05, plan).skip == 2
    assert after_reading(cycle, -1.2, plan).best == -1.2


def poisoned() -> None:
    """A batch of the last rank holds a NaN."""
    models, data = problem()
    rank = dist.get_rank()
    scheme = Daso(Plan(nodes=2, members=2, warm_up=1, cycling=100, window=100, skip=4))
    wrapped = scheme.wrap(models[rank])
    optimizer = Sgd(list(models[rank].parameters()))
    data[3][1][0] = torch.nan
    for batch in range(4):
        wrapped(data[rank][batch]).pow(2).mean().backward()
        scheme.step(optimizer, 0.0)


def test_a_parameter_that_is_not_finite_is_named_on_every_rank(ranks):
    for fault in ranks.outcomes(poisoned):
        assert isinstance(fault, InputError), fault
        assert "DASO: 0.weight is not finite where nodes met after batch 2" in str(fault)


def bad(plan: Plan) -> None:
    Daso(replace(plan, skip=4 + (plan.skip == 1 and dist.get_rank() == 3))).wrap(nn.Linear(2, 2))


def test_a_grid_that_is_not_that_of_the_ranks_is_refused(ranks):
    for fault in ranks.outcomes(bad, Plan(3, 2, warm_up=0, cycling=1, window=1)):
        assert isinstance(fault, InputError)
        assert "3 nodes × 2 members are 6 ranks, not the 4 there are" in str(fault)


def test_ranks_with_different_plans_are_refused(ranks):
    for fault in ranks.outcomes(bad, Plan(2, 2, warm_up=0, cycling=1, window=1, skip=1)):
        assert isinstance(fault, InputError)
        assert "DASO's plan: rank 0 has" in str(fault)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"skip": 0}, "skip is 0; give at least 1"),
        ({"members": 0}, "members is 0; give at least 1"),
        ({"warm_up": -1}, "warm_up is -1; give at least 0"),
        ({"skip": 2.5}, "skip = 2.5: give a whole number"),
        ({"window": "20"}, "window = '20': give a whole number"),
        ({"threshold": "0.1"}, "threshold = '0.1': give a number"),
        ({"threshold": 1.0}, "threshold is 1.0; give a number from 0 to below 1"),
    ],
)
def test_numbers_that_are_no_plan_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        replace(Plan(2, 2, warm_up=0, cycling=1, window=1), **change)


def test_what_is_no_plan_is_refused():
    with pytest.raises(InputError, match="Daso: plan = 4: give a Plan"):
        Daso(4)
    scheme = Daso(Plan(2, 2, warm_up=0, cycling=1, window=1))
    with pytest.raises(InputError, match="loss = 'low': give a number or a Tensor"):
        scheme.step(Sgd([]), "low")
