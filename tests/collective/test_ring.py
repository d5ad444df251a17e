"""The ring all-reduce against torch's, and its bytes against 2(N-1)/N."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from optinc_collective.schemes import AllReduce, Ring, ring_all_reduce


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


def trained(scheme_name: str) -> tuple[np.ndarray, int, int]:
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
    by_ring, by_torch = ranks.run(trained, "ring"), ranks.run(trained, "torch")
    for ours, theirs in zip(by_ring, by_torch, strict=True):
        assert np.allclose(ours[0], theirs[0], rtol=0, atol=1e-6)
        # 124 float32 in 4 parts: every rank sends 6 of them, in each of 3 steps
        assert ours[1] == theirs[1] == 3 * 6 * 31 * 4
        assert ours[2] == 3
