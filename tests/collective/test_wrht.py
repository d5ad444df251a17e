"""Schedules over real sends: the exact mean, the same bits everywhere, bytes, and wavelengths that no two share."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.collective.scheme import Traffic
from optinc_pdk.collective.sends import average_by_sends, check
from optinc_pdk.collective.wrht import Wrht, WrhtState, wrht_hook
from optinc_pdk.errors import InputError
from optinc_pdk.interconnect import allreduce
from optinc_pdk.interconnect.schedule import Schedule, turns

WORLD = 4
SIZE = 1003  # no multiple of the ranks

BUILDERS = {
    "ring": lambda: allreduce.ring(WORLD),
    "hierarchical ring": lambda: allreduce.hierarchical_ring(WORLD, 2),
    "doubling": lambda: allreduce.recursive_doubling(WORLD),
    "tree": lambda: allreduce.binary_tree(WORLD),
    "WRHT of 1 wavelength": lambda: allreduce.wrht(WORLD, 1),
    "WRHT of 2 wavelengths": lambda: allreduce.wrht(WORLD, 2),
}


def averaged(builder: str) -> tuple[float, bytes, int]:
    """How far a schedule's mean is from the exact one, its bits, and the bytes this rank sent."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    values = torch.randn(SIZE, generator=generator) * 10.0 ** torch.randint(-4, 4, (SIZE,), generator=generator)
    everyone = [torch.empty(SIZE) for _ in range(WORLD)]
    dist.all_gather(everyone, values)
    exact = torch.stack(everyone).double().mean(0)
    scale = torch.stack(everyone).double().abs().mean(0)
    traffic = Traffic()
    average_by_sends(BUILDERS[builder](), values, traffic)
    return float(((values - exact).abs() / scale).max()), values.numpy().tobytes(), traffic.payload


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_mean_is_exact_up_to_the_order_of_the_sum_and_the_same_everywhere(ranks, builder):
    schedule = BUILDERS[builder]()
    check(schedule, WORLD)
    results = ranks.run(averaged, builder)
    for error, bits, _ in results:
        assert error < WORLD * 2**-24
        assert bits == results[0][1]
    pieces = sum(float((1 / step.parts).sum()) for step, _ in turns(schedule))
    assert sum(sent for _, _, sent in results) == pytest.approx(4 * SIZE * pieces, abs=4 * WORLD * WORLD)


def test_bytes_of_wrht_are_whole_buffers(ranks):
    """With one wavelength: 0 and 2 send to 1, 1 and 3 exchange, 1 sends to 0 and 2."""
    assert [sent // (4 * SIZE) for _, _, sent in ranks.run(averaged, "WRHT of 1 wavelength")] == [1, 3, 1, 1]
    assert [sent // (4 * SIZE) for _, _, sent in ranks.run(averaged, "WRHT of 2 wavelengths")] == [3] * WORLD


def trained(by: str) -> tuple[list[float], int]:
    """Gradients of a small model by WRHT, and bytes sent."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3))
    torch.manual_seed(dist.get_rank())
    batch = torch.randn(6, 7)
    traffic = Traffic()
    if by == "torch":
        wrapped: nn.Module = DistributedDataParallel(model)
    elif by == "hook":
        state = WrhtState(1)
        traffic = state.traffic
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(state, wrht_hook)
    else:
        scheme = Wrht(1)
        traffic = scheme.traffic
        wrapped = scheme.wrap(model)
    wrapped(batch).pow(2).mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).tolist(), traffic.payload


def test_gradients_are_those_of_torchs_own_all_reduce(ranks):
    wanted = ranks.run(trained, "torch")
    for by in ("scheme", "hook"):
        found = ranks.run(trained, by)
        for (gradient, sent), (exact, _), buffers in zip(found, wanted, (1, 3, 1, 1), strict=True):
            assert gradient == pytest.approx(exact, rel=1e-5, abs=1e-7)
            assert gradient == found[0][0]
            assert sent == buffers * 4 * (7 * 5 + 5 + 5 * 3 + 3)


def taken(schedule: Schedule) -> list[set[tuple[int, int, int]]]:
    """Link by link around the ring: what every step's transfers take, as (link, direction, wavelength)."""
    steps = []
    for step in schedule.steps:
        found: list[tuple[int, int, int]] = []
        for source, target, direction, wavelength in zip(
            step.source, step.target, step.direction, step.wavelength, strict=True
        ):
            node = int(source)
            while node != target:
                found.append((min(node, (node + direction) % schedule.nodes), int(direction), int(wavelength)))
                if {node, (node + direction) % schedule.nodes} == {0, schedule.nodes - 1}:
                    found[-1] = (schedule.nodes - 1, int(direction), int(wavelength))
                node = int((node + direction) % schedule.nodes)
        assert len(set(found)) == len(found)
        steps.append(set(found))
    return steps


@pytest.mark.parametrize(("nodes", "wavelengths"), [*itertools.product((3, 4, 7, 12, 30, 100), (1, 2, 5)), (1024, 64)])
def test_no_two_transfers_share_a_wavelength_on_a_link(nodes, wavelengths):
    """Counted here link by link, without the schedule's own check."""
    schedule = allreduce.wrht(nodes, wavelengths)
    for links in taken(schedule):
        assert max(wavelength for _, _, wavelength in links) < wavelengths
    check(schedule, nodes)


def test_a_schedule_in_conflict_is_refused():
    schedule = allreduce.wrht(5, 2)
    first = schedule.steps[0]
    same = replace(first, wavelength=np.zeros_like(first.wavelength))
    with pytest.raises(InputError, match=r"in step 0 the transfers . → 2 and . → 2 both need wavelength 0 on one link"):
        check(replace(schedule, steps=(same, *schedule.steps[1:])), 5)


def test_a_schedule_of_another_world_is_refused():
    with pytest.raises(InputError, match="made for 5 nodes and 0 in-network units, run by 4 ranks"):
        check(allreduce.wrht(5, 2), 4)
    with pytest.raises(InputError, match="made for 4 nodes and 1 in-network units"):
        check(allreduce.optinc_star(4), 4)


def without_wavelength() -> None:
    Wrht(0).wrap(nn.Linear(2, 2))


def test_a_ring_without_wavelengths_is_refused(ranks):
    for fault in ranks.outcomes(without_wavelength):
        assert isinstance(fault, InputError)
        assert "0 wavelengths" in str(fault)


def with_other_wavelengths() -> None:
    Wrht(1 + dist.get_rank() // 3).wrap(nn.Linear(2, 2))


def test_ranks_with_other_wavelengths_are_refused(ranks):
    for fault in ranks.outcomes(with_other_wavelengths):
        assert isinstance(fault, InputError)
        assert "WRHT: rank 0 has 1 wavelengths, rank 3 has 2 wavelengths" in str(fault)
