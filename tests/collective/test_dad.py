"""dAD, edAD and rank-dAD: exact results or the documented approximation, bytes sent, and refused input."""

import re
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from optinc_collective.schemes._dad import Dad, Edad, RankDad, linear_chain, low_rank_factors
from optinc_collective.schemes.linear_rows import split_parameters
from optinc_pdk.errors import InputError

WORLD = 4


class Tied(nn.Module):
    """Model with tied embedding and head, a norm, attention, and a layer that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.norm = nn.LayerNorm(6)
        self.twice = nn.Linear(6, 6)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.bare = nn.Linear(6, 6, bias=False)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.embedding(tokens))
        hidden = self.twice(functional.silu(self.twice(input=hidden)))
        hidden = hidden + self.attention(hidden, hidden, hidden)[0]
        return self.head(self.bare(hidden))


def build(kind: str) -> tuple[nn.Module, torch.Tensor]:
    """A model, equal on all ranks, and a batch of this rank; ranks have 1 to 4 samples."""
    torch.manual_seed(3)
    samples = 1 + dist.get_rank()
    if kind == "tied":
        model: nn.Module = Tied()
        torch.manual_seed(dist.get_rank())
        return model, torch.randint(11, (samples, 5))
    if kind == "chain":
        model = nn.Sequential(
            nn.Flatten(),
            nn.Sequential(nn.Linear(12, 10), nn.ReLU(inplace=True), nn.Linear(10, 9), nn.Tanh()),
            nn.Linear(9, 8),
            nn.Linear(8, 7, bias=False),
            nn.LeakyReLU(0.2),
            nn.Linear(7, 5),
            nn.Sigmoid(),
            nn.Linear(5, 3),
        )
        torch.manual_seed(dist.get_rank())
        return model, torch.randn(samples, 3, 4)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(32, 6), nn.GELU(), nn.Linear(6, 4)
    )
    torch.manual_seed(dist.get_rank())
    return model, torch.randn(samples + 1, 1, 6, 6)


def means(model: nn.Module, batch: torch.Tensor, passes: int) -> dict[str, torch.Tensor]:
    """Mean over ranks of the gradients of several passes of an unwrapped model, by parameter."""
    for _ in range(passes):
        model(batch).pow(2).mean().backward()
    result = {}
    for key, parameter in model.named_parameters():
        result[key] = parameter.grad / WORLD
        dist.all_reduce(result[key])
        parameter.grad = None
    return result


def gradients(name: str, kind: str, passes: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Relative error of the scheme's gradient against the mean, and the gradient itself, by parameter."""
    model, batch = build(kind)
    expected = means(model, batch, passes)
    wrapped = {"dad": Dad, "edad": Edad}[name]().wrap(model)
    with torch.no_grad():
        wrapped(batch)  # an evaluation without gradients is not recorded
    for _ in range(passes):
        wrapped(batch).pow(2).mean().backward()
    result = {key: parameter.grad for key, parameter in model.named_parameters()}
    assert all(gradient is not None for gradient in result.values())
    error = {key: float((result[key] - expected[key]).norm() / expected[key].norm()) for key in expected}
    return error, {key: gradient.flatten().tolist() for key, gradient in result.items()}


@pytest.mark.parametrize(
    ("name", "kind", "passes"),
    [("dad", "chain", 1), ("dad", "tied", 2), ("dad", "convolution", 1), ("edad", "chain", 2)],
)
def test_gradients_are_the_mean_of_all_ranks_and_the_same_everywhere(ranks, name, kind, passes):
    results = ranks.run(gradients, name, kind, passes)
    for error, gradient in results:
        assert max(error.values()) < 2e-6, error
        assert gradient == results[0][1]


def low_rank(rank: int, rows: int) -> tuple[float, float, float, list[float], dict[str, int]]:
    """Gradient of a layer by rank-dAD.

    Returns the relative errors against the mean of the best approximations and against the exact mean, the error of the
    bias, the gradient, and the effective ranks.
    """
    torch.manual_seed(3)
    layer = nn.Linear(20, 15)
    torch.manual_seed(dist.get_rank())
    batch, weights = torch.randn(rows, 20), torch.randn(rows, 15)
    exact = weights.T @ batch
    left, singular, right = torch.linalg.svd(exact, full_matrices=False)
    best = (left[:, :rank] * singular[:rank]) @ right[:rank]
    means = torch.stack([exact, best, weights.sum(0).expand(20, 15).T])
    dist.all_reduce(means)
    means /= WORLD
    scheme = RankDad(rank, iterations=200, tolerance=1e-5)
    wrapped = scheme.wrap(nn.Sequential(layer))
    (wrapped(batch) * weights).sum().backward()
    result = layer.weight.grad
    to_best, to_exact = ((result - mean).norm() / mean.norm() for mean in (means[1], means[0]))
    bias = (layer.bias.grad - means[2][:, 0]).norm()
    return float(to_best), float(to_exact), float(bias), result.flatten().tolist(), scheme.effective_ranks


def test_rank_dad_is_the_mean_of_every_ranks_best_approximation(ranks):
    results = ranks.run(low_rank, 2, 6)
    for to_best, to_exact, bias, gradient, effective in results:
        assert to_best < 1e-2  # converged to the tolerance of the vectors
        assert to_exact > 0.1
        assert bias < 1e-5
        assert gradient == results[0][3]
        assert effective == {"0": 2}


def test_rank_dad_is_exact_at_full_rank_and_stops_at_the_effective_rank(ranks):
    for _, to_exact, _, _, effective in ranks.run(low_rank, 9, 4):
        assert to_exact < 1e-5
        assert effective == {"0": 4}


def traffic(name: str) -> tuple[int, int]:
    """Payload and side bytes of one pass over layers 12 × 10, 10 × 8 (no bias) and 8 × 3 with 6 rows per rank."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 8, bias=False), nn.Tanh(), nn.Linear(8, 4))
    scheme = {"dad": Dad, "edad": Edad, "rank": lambda: RankDad(2)}[name]()
    wrapped = scheme.wrap(model)
    wrapped(torch.randn(2, 3, 12)).pow(2).sum().backward()
    return scheme.traffic.payload, scheme.traffic.side


@pytest.mark.parametrize(
    ("name", "payload", "tensors"),
    [
        ("dad", 3 * 4 * 6 * (12 + 10 + 10 + 8 + 8 + 4), 6),
        ("edad", 3 * 4 * 6 * (12 + 10 + 8 + 4), 4),
        ("rank", 3 * 4 * 2 * (12 + 10 + 10 + 8 + 8 + 4) + 2 * 3 * 4 * (10 + 4) // 4, 6),
    ],
)
def test_bytes_follow_the_formula(ranks, name, payload, tensors):
    assert ranks.run(traffic, name) == [(payload, 3 * 8 * (tensors + 1))] * WORLD


def traffic_with_convolution() -> tuple[int, int]:
    """Payload of one pass of the model with a convolution, and the share of the linear layers' rows."""
    model, batch = build("convolution")
    scheme = Dad()
    scheme.wrap(model)(batch).sum().backward()
    rows = 4 * (2 + 3 + 4 + 5) * (32 + 6 + 6 + 4)
    following = 4 * (2 + (dist.get_rank() + 1) % WORLD) * (32 + 6 + 6 + 4)
    return scheme.traffic.payload, rows - following


def test_parameters_outside_linear_layers_are_averaged_exactly_and_counted(ranks):
    for payload, rows in ranks.run(traffic_with_convolution):
        assert payload == rows + 2 * 3 * (4 * (2 * 9 + 2 + 2 + 2)) // 4


def test_split_names_the_parameters_outside_linear_layers():
    layers, rest = split_parameters(Tied())
    assert [rows.name for rows in layers] == ["twice", "bare"]
    assert set(rest) == {
        "embedding.weight",
        "norm.weight",
        "norm.bias",
        "attention.in_proj_weight",
        "attention.in_proj_bias",
        "attention.out_proj.weight",
        "attention.out_proj.bias",
    }


def clipped() -> list[float]:
    """Norms of the gradients after clipping; asserts that the ranks' parameters stay equal."""
    model, batch = build("convolution")
    scheme = Dad()
    wrapped = scheme.wrap(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
    norms = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = wrapped(batch).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(wrapped.parameters(), 1e-3)
        norms.append(float(nn.utils.get_total_norm([parameter.grad for parameter in wrapped.parameters()])))
        scheme.step(optimizer, loss.item())
    scheme.finish()
    assert scheme.traffic.steps == 3
    state = torch.cat([value.flatten().double() for value in model.state_dict().values()])
    others = [torch.empty_like(state) for _ in range(WORLD)]
    dist.all_gather(others, state)
    assert all(torch.equal(other, state) for other in others)
    return norms


def test_training_with_clipping_keeps_ranks_equal(ranks):
    for norms in ranks.run(clipped):
        assert norms == pytest.approx([1e-3] * 3, rel=1e-2)


def aborted_pass() -> list[float]:
    """Relative errors of the gradients after a pass that was aborted between two layers."""
    model, batch = build("chain")
    expected = means(model, batch, 1)
    Dad().wrap(model)
    hidden = model[1](model[0](batch))
    hidden.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model[2:](hidden).pow(2).mean().backward()
    model.zero_grad()
    model(batch).pow(2).mean().backward()
    return [
        float((parameter.grad - expected[name]).norm() / expected[name].norm())
        for name, parameter in model.named_parameters()
    ]


def test_an_aborted_pass_leaves_no_records(ranks):
    for errors in ranks.run(aborted_pass):
        assert max(errors) < 2e-6


def bad(kind: str) -> None:
    """Give a scheme invalid input of one kind."""
    layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    batch = torch.randn(5, 4)
    if kind == "nothing linear":
        Dad().wrap(nn.Sequential(nn.Conv1d(2, 3, 1), nn.ReLU()))
    elif kind == "rank":
        RankDad(3).wrap(layers)
    elif kind == "chain":
        Edad().wrap(nn.Sequential(nn.Linear(4, 3), nn.GELU(), nn.Linear(3, 2)))
    elif kind == "not finite":
        if dist.get_rank() == 1:
            batch[0] = torch.nan
        Dad().wrap(layers)(batch).sum().backward()
    elif kind == "elsewhere":
        (Dad().wrap(layers)(batch).sum() + layers[2].weight.sum()).backward()
    elif kind == "middle":
        Edad().wrap(layers)
        hidden = layers[1](layers[0](batch))
        (layers[2](hidden).sum() + hidden.pow(2).sum()).backward()
    elif kind == "no gradient":
        layers.add_module("unused", nn.Conv1d(2, 3, 1))
        Dad().wrap(layers)
        layers[2](layers[1](layers[0](batch))).sum().backward()
    elif kind == "parameters":
        Dad().wrap(nn.Linear(4, 3 + dist.get_rank()))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("nothing linear", "Sequential"),
        ("rank", r"rank 3 .* 2, 3 × 2.* 2$"),
        ("chain", "edAD: 1 .*GELU"),
        ("not finite", "rank 1: .*0.weight"),
        ("elsewhere", "2.weight"),
        ("middle", "edAD: the loss"),
        ("no gradient", "unused.weight"),
        ("parameters", r"rank 1 .*weight \(4, 4\)"),
    ],
)
def test_bad_input_is_refused_on_every_rank(ranks, kind, message):
    for fault in ranks.outcomes(bad, kind):
        assert isinstance(fault, InputError), fault
        assert re.search(message, str(fault))


@pytest.mark.parametrize("numbers", [(0, 1, 0.1), (1, 0, 0.1), (1, 1, 1.0)])
def test_rank_dad_refuses_values_out_of_range(numbers):
    with pytest.raises(InputError, match="rank {}, {} iterations, tolerance {}".format(*numbers)):
        RankDad(*numbers)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [((2.5,), "rank = 2.5"), ((2, True), "iterations = True"), ((2, 1, "0.1"), "tolerance = '0.1'")],
)
def test_rank_dad_refuses_values_of_wrong_types(numbers, message):
    with pytest.raises(InputError, match=f"RankDad: {message}"):
        RankDad(*numbers)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Tanh(), nn.Linear(2, 2)), "edAD: 2 "),
        (nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Dropout(0.5)), nn.Linear(2, 2)), "1.0 .*Dropout"),
        (nn.Linear(2, 2), None),
        (Tied(), "the model .*Tied"),
    ],
)
def test_a_chain_has_only_linear_layers_and_activations(model, message):
    if message is None:
        assert linear_chain(model) == ([model], [[]])
    else:
        with pytest.raises(InputError, match=message):
            linear_chain(model)


def factors_of(singular: list[float], rows: int, inputs: int, outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Activations and deltas whose product has these singular values."""
    torch.manual_seed(len(singular))
    k = len(singular)
    mixing = torch.linalg.qr(torch.randn(rows, rows, dtype=torch.float64)).Q[:, :k]
    left = torch.linalg.qr(torch.randn(inputs, k, dtype=torch.float64)).Q
    right = torch.linalg.qr(torch.randn(outputs, k, dtype=torch.float64)).Q
    return mixing @ (left * torch.tensor(singular, dtype=torch.float64)).T, mixing @ right.T


def test_a_gradient_of_low_rank_is_exact_and_its_rank_is_detected() -> None:
    activations, deltas = factors_of([3.0, 1.0, 0.5], rows=12, inputs=20, outputs=15)
    factors = low_rank_factors(activations, deltas, rank=8, iterations=30)
    assert factors.left.shape == (3, 20)
    assert factors.right.shape == (3, 15)
    gradient = activations.T @ deltas
    assert (factors.left.T @ factors.right - gradient).norm() < 1e-6 * gradient.norm()


def test_exact_at_full_rank_after_one_iteration() -> None:
    """Deflation by projection loses nothing between directions that have not converged."""
    activations, deltas = factors_of([3.0, 2.9, 2.8, 2.7], rows=6, inputs=9, outputs=8)
    factors = low_rank_factors(activations, deltas, rank=4, iterations=1, tolerance=0.0)
    gradient = activations.T @ deltas
    assert torch.allclose(factors.left.T @ factors.right, gradient, atol=1e-10)


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_close_to_the_best_approximation_of_that_rank(rank: int) -> None:
    singular = [8.0, 4.0, 2.0, 1.0, 0.5, 0.25]
    activations, deltas = factors_of(singular, rows=30, inputs=16, outputs=24)
    factors = low_rank_factors(activations, deltas, rank=rank)
    gradient = activations.T @ deltas
    best = sum(s * s for s in singular[rank:]) ** 0.5
    error = float((factors.left.T @ factors.right - gradient).norm())
    assert best * (1 - 1e-9) <= error <= 1.001 * best
    assert torch.allclose(factors.right @ factors.right.T, torch.eye(rank, dtype=torch.float64), atol=1e-9)


def test_a_gradient_of_zeros_has_no_direction() -> None:
    factors = low_rank_factors(torch.zeros(5, 4), torch.randn(5, 3), rank=2)
    assert factors.left.shape == (0, 4)
    assert factors.right.shape == (0, 3)


class Largest(TorchDispatchMode):
    """Records the size of the largest tensor created."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            self.elements = max(self.elements, result.numel())
        return result


def test_the_product_is_never_computed() -> None:
    activations, deltas = torch.randn(8, 300), torch.randn(8, 200)
    with Largest() as largest:
        low_rank_factors(activations, deltas, rank=4)
    assert 0 < largest.elements < 300 * 200 / 10
