"""Modules in the user's own training loop: errors of a chip in forward passes, projection of weights onto blocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.factor import unitary_diagonal
from optinc_pdk.networks.training.torch_modules import chip_errors, project_blocks

torch = pytest.importorskip("torch", reason="PyTorch is not installed: the extra [train] has it")
nn = torch.nn


def module(*sizes: int) -> Any:
    torch.manual_seed(0)
    parts: list[Any] = []
    for into, out in pairwise(sizes):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*parts[:-1]).double()


def spread(net: Any, x: Any, **errors: float) -> tuple[Any, Any]:
    """Mean and standard deviation of the deviations over 4,000 passes."""
    with torch.no_grad(), chip_errors(net, **errors):
        found = torch.stack([net(x) for _ in range(4000)]).numpy()
    clean = net(x).detach().numpy()
    return (found - clean).mean(axis=0), found.std(axis=0)


def expected_scale(weight: Any, largest: Any) -> Any:
    rows = weight.detach().numpy() * largest
    norm = np.linalg.norm(rows, axis=1)
    return norm * np.linalg.norm(rows / norm[:, np.newaxis], 2)


def test_errors_have_the_stated_size() -> None:
    net, x = module(5, 3), torch.tensor(np.random.default_rng(1).normal(size=(6, 5)) * [1, 2, 0.5, 3, 1])
    largest = np.abs(x.numpy()).max(axis=0)
    scale = expected_scale(net[0].weight, largest)
    mean, deviation = spread(net, x, noise=0.01)
    wanted = 0.01 * scale * np.linalg.norm(x.numpy() / largest, axis=1, keepdims=True) / np.sqrt(5)
    np.testing.assert_allclose(deviation, wanted, rtol=0.06)
    assert np.abs(mean / deviation).max() < 0.08
    _, deviation = spread(net, x, noise=0.0, field_noise=0.02)
    np.testing.assert_allclose(deviation, np.broadcast_to(0.02 * scale, (6, 3)), rtol=0.06)


def test_one_matrix_error_is_that_of_all_samples_and_noise_is_not() -> None:
    net, x = module(4, 2), torch.ones(3, 4, dtype=torch.float64)
    with chip_errors(net, 0.1):
        assert len(np.unique(net(x).detach().numpy(), axis=0)) == 1
    with chip_errors(net, 0.0, 0.1):
        assert len(np.unique(net(x).detach().numpy(), axis=0)) == 3


def test_errors_depend_on_the_seed_alone_and_end_with_the_block() -> None:
    net, x = module(4, 8, 2), torch.linspace(-1.0, 1.0, 8, dtype=torch.float64).reshape(2, 4)
    clean = net(x)
    results = []
    for seed in (0, 0, 1):
        with chip_errors(net, 0.1, seed=seed):
            results.append(net(x))
    assert torch.equal(results[0], results[1]) and not torch.equal(results[0], results[2])
    with pytest.raises(RuntimeError, match="stop"), chip_errors(net, 0.1):
        raise RuntimeError("stop")
    assert torch.equal(net(x), clean)


def test_a_network_trained_under_errors_tolerates_more() -> None:
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.uniform(-1, 1, (400, 2)))
    y = (x[:, 0] * x[:, 1] > 0).long()

    def trained(noise: float) -> float:
        net = module(2, 12, 2)
        optimizer = torch.optim.Adam(net.parameters(), 0.02)
        for step in range(400):
            with chip_errors(net, noise, seed=step):
                loss = nn.functional.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad(), chip_errors(net, 0.1, seed=1):
            return float(np.mean([(net(x).argmax(dim=1) == y).double().mean() for _ in range(200)]))

    assert trained(0.1) > trained(0.0) + 0.02


def test_what_has_no_layer_or_no_error_is_refused() -> None:
    with pytest.raises(InputError, match=r"module is a ReLU without torch\.nn\.Linear"), chip_errors(nn.ReLU(), 0.1):
        pass
    for errors in ({"noise": -0.1}, {"noise": 1.0}, {"noise": 0.0, "field_noise": float("nan")}):
        with (
            pytest.raises(InputError, match=r"must be at least 0 and below 1|give a number"),
            chip_errors(module(2, 2), **errors),
        ):
            pass


torch = pytest.importorskip("torch", reason="torch is an extra")


@pytest.mark.parametrize(("shape", "block"), [((8, 8), 4), ((10, 24), 8), ((5, 7), 3), ((3, 4), 1)])
def test_projected_weights_are_those_that_blocks_approximate(shape, block):
    torch.manual_seed(3)
    layer = torch.nn.Linear(shape[1], shape[0], dtype=torch.float64)
    given = layer.weight.detach().numpy().copy()
    project_blocks(layer, block)
    projected = layer.weight.detach().numpy().copy()
    assert projected == pytest.approx(unitary_diagonal(given, block).matrix(), abs=1e-9)
    # what blocks realise stays as it is
    project_blocks(layer, block)
    assert layer.weight.detach().numpy() == pytest.approx(projected, abs=1e-9)


def test_parts_of_zeros_stay_zero():
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight[:, 2:] = 0.0
    project_blocks(layer, 2)
    assert np.isfinite(layer.weight.detach().numpy()).all() and not layer.weight[:, 2:].any()


@pytest.mark.parametrize("block", [0, 5])
def test_sizes_out_of_range_are_refused(block):
    with pytest.raises(InputError, match=f"block = {block}: give a size from 1 to 4 for a layer of 4 × 6"):
        project_blocks(torch.nn.Linear(6, 4), block)


def test_what_is_no_layer_and_weights_that_are_not_finite_are_refused():
    with pytest.raises(InputError, match=r"layer is a Sequential; give a torch\.nn\.Linear"):
        project_blocks(torch.nn.Sequential(torch.nn.Linear(4, 4)), 2)
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        layer.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match="entries that are not finite"):
        project_blocks(layer, 2)
