"""Ring and scheduled all-reduces: sums of torch, exact means, equal bits on all ranks, bytes, and conflicts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_collective.interconnect import allreduce
from optinc_collective.interconnect.exchange_schedule import ExchangeSchedule, repetitions
from optinc_collective.schemes import AllReduce, Ring, ring_all_reduce
from optinc_collective.schemes.exact_all_reduce import Wrht, WrhtState, average_by_schedule, check_schedule, wrht_hook
from optinc_collective.schemes.scheme import Traffic
from optinc_pdk.errors import InputError


def both(size: int, kind: str) -> tuple[np.ndarray, np.ndarray, int]:
    random = torch.Generator().manual_seed(dist.get_rank())
    values = (torch.randn(size, generator=random) * 1000).to(getattr(torch, kind))
    expected = values.clone()
    dist.all_reduce(expected)
    sent = ring_all_reduce(values)
    return values.numpy(), expected.numpy(), sent


@pytest.mark.parametrize("size", [0, 1, 3, 4, 1000, 4099])
def test_ring_gives_the_sums_of_torch(ranks, size):
    results = ranks.run(both, size, "int64")
    for ours, theirs, _ in results:
        assert np.array_equal(ours, theirs)
    # all ranks together send 2(N-1) times the data, in parts that differ by at most one element
    assert sum(sent for *_, sent in results) == 2 * 3 * size * 8
    if size % 4 == 0:
        assert {sent for *_, sent in results} == {2 * 3 * size * 8 // 4}


def test_floats_are_the_same_bits_on_all_ranks(ranks):
    results = ranks.run(both, 4099, "float32")
    for ours, theirs, _ in results:
        assert np.array_equal(ours, results[0][0])
        assert np.allclose(ours, theirs, rtol=1e-5, atol=1e-3)


def trained_by(scheme_name: str) -> tuple[np.ndarray, int, int]:
    torch.manual_seed(1)
    scheme = {"ring": Ring, "torch": AllReduce}[scheme_name]()
    model = scheme.wrap(nn.Linear(30, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 30, generator=random)).square().mean()
        loss.backward()
        scheme.step(optimizer, loss.item())
    scheme.finish()
    return model.module.weight.detach().numpy(), scheme.traffic.payload, scheme.traffic.steps


def test_training_with_the_ring_equals_training_with_torch(ranks):
    by_ring, by_torch = ranks.run(trained_by, "ring"), ranks.run(trained_by, "torch")
    for ours, theirs in zip(by_ring, by_torch, strict=True):
        assert np.allclose(ours[0], theirs[0], rtol=0, atol=1e-6)
        # 124 float32 in 4 parts: every rank sends 6 of them, in each of 3 steps
        assert ours[1] == theirs[1] == 3 * 6 * 31 * 4
        assert ours[2] == 3


WORLD = 4
SIZE = 1003  # not a multiple of the number of ranks

BUILDERS = {
    "ring": lambda: allreduce.ring(WORLD),
    "hierarchical ring": lambda: allreduce.hierarchical_ring(WORLD, 2),
    "doubling": lambda: allreduce.recursive_doubling(WORLD),
    "tree": lambda: allreduce.binary_tree(WORLD),
    "WRHT of 1 wavelength": lambda: allreduce.wrht(WORLD, 1),
    "WRHT of 2 wavelengths": lambda: allreduce.wrht(WORLD, 2),
}


def averaged(builder: str) -> tuple[float, bytes, int]:
    """Relative error of a schedule's mean, its bits, and the number of bytes that this rank sent."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    values = torch.randn(SIZE, generator=generator) * 10.0 ** torch.randint(-4, 4, (SIZE,), generator=generator)
    everyone = [torch.empty(SIZE) for _ in range(WORLD)]
    dist.all_gather(everyone, values)
    exact = torch.stack(everyone).double().mean(0)
    scale = torch.stack(everyone).double().abs().mean(0)
    traffic = Traffic()
    average_by_schedule(BUILDERS[builder](), values, traffic)
    return float(((values - exact).abs() / scale).max()), values.numpy().tobytes(), traffic.payload


@pytest.mark.parametrize("builder", BUILDERS)
def test_the_mean_is_exact_up_to_rounding_and_equal_on_all_ranks(ranks, builder):
    schedule = BUILDERS[builder]()
    check_schedule(schedule, WORLD)
    results = ranks.run(averaged, builder)
    for error, bits, _ in results:
        assert error < WORLD * 2**-24
        assert bits == results[0][1]
    pieces = sum(float((1 / step.parts).sum()) for step, _ in repetitions(schedule))
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


def test_gradients_equal_those_of_torchs_all_reduce(ranks):
    expected = ranks.run(trained, "torch")
    for by in ("scheme", "hook"):
        results = ranks.run(trained, by)
        for (gradient, sent), (exact, _), buffers in zip(results, expected, (1, 3, 1, 1), strict=True):
            assert gradient == pytest.approx(exact, rel=1e-5, abs=1e-7)
            assert gradient == results[0][0]
            assert sent == buffers * 4 * (7 * 5 + 5 + 5 * 3 + 3)


def used_links(schedule: ExchangeSchedule) -> list[set[tuple[int, int, int]]]:
    """(link, direction, wavelength) used by the transfers of every step, counted link by link around the ring."""
    steps = []
    for step in schedule.steps:
        used: list[tuple[int, int, int]] = []
        for source, target, direction, wavelength in zip(
            step.source, step.target, step.direction, step.wavelength, strict=True
        ):
            node = int(source)
            while node != target:
                used.append((min(node, (node + direction) % schedule.nodes), int(direction), int(wavelength)))
                if {node, (node + direction) % schedule.nodes} == {0, schedule.nodes - 1}:
                    used[-1] = (schedule.nodes - 1, int(direction), int(wavelength))
                node = int((node + direction) % schedule.nodes)
        assert len(set(used)) == len(used)
        steps.append(set(used))
    return steps


@pytest.mark.parametrize(("nodes", "wavelengths"), [*itertools.product((3, 4, 7, 12, 30, 100), (1, 2, 5)), (1024, 64)])
def test_no_two_transfers_share_a_wavelength_on_a_link(nodes, wavelengths):
    """Counted link by link, independently of `check`."""
    schedule = allreduce.wrht(nodes, wavelengths)
    for links in used_links(schedule):
        assert max(wavelength for _, _, wavelength in links) < wavelengths
    check_schedule(schedule, nodes)


def test_a_schedule_in_conflict_is_refused():
    schedule = allreduce.wrht(5, 2)
    first = schedule.steps[0]
    same = replace(first, wavelength=np.zeros_like(first.wavelength))
    with pytest.raises(InputError, match=r"step 0 .* . → 2 and . → 2 .*wavelength 0"):
        check_schedule(replace(schedule, steps=(same, *schedule.steps[1:])), 5)


def test_a_schedule_for_another_number_of_nodes_is_refused():
    with pytest.raises(InputError, match=r"5 nodes and 0 in-network units, .* 4 ranks"):
        check_schedule(allreduce.wrht(5, 2), 4)
    with pytest.raises(InputError, match="4 nodes and 1 in-network units"):
        check_schedule(allreduce.optinc_star(4), 4)


def without_wavelength() -> None:
    Wrht(0).wrap(nn.Linear(2, 2))


def test_a_ring_without_wavelengths_is_refused(ranks):
    for fault in ranks.outcomes(without_wavelength):
        assert isinstance(fault, InputError)
        assert "0 wavelengths" in str(fault)


def with_different_wavelengths() -> None:
    Wrht(1 + dist.get_rank() // 3).wrap(nn.Linear(2, 2))


def test_ranks_with_different_wavelengths_are_refused(ranks):
    for fault in ranks.outcomes(with_different_wavelengths):
        assert isinstance(fault, InputError)
        assert "WRHT: rank 0 has 1 wavelengths, rank 3 has 2 wavelengths" in str(fault)
