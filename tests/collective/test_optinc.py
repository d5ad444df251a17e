"""The OptINC hook on four ranks: averages equal the chip's bit for bit; invalid input is refused on all ranks."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_collective import schemes
from optinc_collective.schemes import (
    AveragingChip,
    ErrorHistogram,
    ideal_cascade,
    ideal_chip,
    network_cascade,
    table_chip,
)
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, regenerating_chain
from optinc_pdk.networks.network import Cascade, cascade_tasks

BLOCK = 32


class Sent(nn.Module):
    """Model whose gradients are the input of forward."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(size // 3))
        self.second = nn.Parameter(torch.zeros(size - size // 3))

    def forward(self, gradients: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.first, self.second]) @ gradients


def averaged(
    chip: AveragingChip | str, gradients: np.ndarray, kind: str = "float32", rounding: str = "nearest"
) -> tuple[np.ndarray, dict]:
    """Gradients of this rank after a backward pass in which rank r has gradients[r], and its traffic."""
    local = torch.from_numpy(gradients[dist.get_rank()]).to(getattr(torch, kind))
    ddp = DistributedDataParallel(Sent(len(local)).to(local.dtype))
    state = schemes.OptincState(ddp, chip, BLOCK, rounding=rounding)
    ddp.register_comm_hook(state, schemes.optinc_hook)
    ddp(local).backward()
    model = ddp.module
    return torch.cat([model.first.grad, model.second.grad]).float().numpy(), vars(state.traffic)


def expected(chip: AveragingChip, gradients: np.ndarray, reader: int = 0, unbiased: bool = False) -> np.ndarray:
    """The same in NumPy: the steps of the paper in double precision."""
    flat = gradients.astype(np.float64)
    result = np.empty(flat.shape[1])
    half = 2 ** (chip.bits - 1)
    offsets = np.arange(len(flat))[:, None] / len(flat) if unbiased else 0.0
    for start in range(0, flat.shape[1], BLOCK):
        block = flat[:, start : start + BLOCK]
        step = 2.0 ** (np.frexp(np.abs(block).max())[1] - (chip.bits - 1))
        words = np.clip(np.rint(block / step + offsets), -half, half - 1).astype(np.int64) + half
        result[start : start + BLOCK] = (chip.average(words.T)[:, reader] - half) * step
    return result.astype(np.float32)


def gradients(size: int = 999, servers: int = 4) -> np.ndarray:
    random = np.random.default_rng(size)
    scale = 10.0 ** random.uniform(-8, 2, size)
    return (random.standard_normal((servers, size)) * scale).astype(np.float32)


@pytest.mark.parametrize("chip", [ideal_chip(8, 4), ideal_chip(16, 4), ideal_chip(4, 4), ideal_cascade(8, 2)])
def test_average_equals_the_chips_average_of_the_words(ranks, chip):
    sent = gradients()
    reference = expected(chip, sent)
    assert np.array_equal(reference, expected(ideal_chip(chip.bits, 4), sent))
    for got, _ in ranks.run(averaged, chip, sent):
        assert np.array_equal(got, reference)


def test_cascade_of_networks(ranks):
    first, second = cascade_tasks(4, 2, 2)
    cascade = Cascade(regenerating_chain(first), regenerating_chain(second))
    sent = gradients()
    chip = network_cascade(cascade)
    reference = expected(chip, sent)
    assert np.array_equal(reference, expected(ideal_chip(4, 4), sent))
    for got, traffic in ranks.run(averaged, chip, sent):
        assert np.array_equal(got, reference)
        assert traffic["payload"] == 500  # 999 words of 4 bits, for any number of levels
        assert traffic["stand_in"] == 2 * 1000  # two all-reduces in groups of 2, of one byte each


def test_error_of_the_average_is_bounded_and_has_the_bias_of_truncation(ranks):
    sent = np.random.default_rng(3).uniform(-0.9, 0.9, (4, 999)).astype(np.float32)
    sent[:, ::BLOCK] = 0.9  # the exponent of every block is 0
    error = (ranks.run(averaged, ideal_chip(8, 4), sent)[0][0] - sent.astype(np.float64).mean(axis=0)) * 128
    assert -1.25 <= error.min() < error.max() <= 0.5
    assert abs(error.mean() + 0.375) < 0.05  # truncated, as in the paper: (N-1)/2N steps too low


@pytest.mark.parametrize("chip", [ideal_chip(8, 4), ideal_cascade(8, 2)])
def test_average_with_unbiased_rounding(ranks, chip):
    sent = gradients()
    sent[:, 40:50] = 0.0
    reference = expected(chip, sent, unbiased=True)
    for got, _ in ranks.run(averaged, chip, sent, "float32", "unbiased"):
        assert np.array_equal(got, reference)
        assert (got[40:50] == 0.0).all()


def test_the_network_and_the_ideal_average_agree_in_unbiased_rounding(ranks, onn_4bit, tmp_path):
    onn_4bit.save(tmp_path / "network.npz")
    reference = expected(ideal_chip(4, 4), gradients(), unbiased=True)
    for got, _ in ranks.run(averaged, str(tmp_path / "network.npz"), gradients(), "float32", "unbiased"):
        assert np.array_equal(got, reference)


def with_rounding(last_rank: str) -> None:
    rounding = last_rank if dist.get_rank() == 3 else "nearest"
    schemes.Optinc(ideal_chip(8, 4), rounding=rounding).wrap(Sent(9))


@pytest.mark.parametrize(
    ("rounding", "message"),
    [("down", "rounding = 'down'.*nearest.*unbiased"), ("unbiased", "rank 0 .*nearest.*rank 3 .*unbiased")],
)
def test_another_rounding_on_one_rank_is_refused_on_all(ranks, rounding, message):
    for fault in ranks.outcomes(with_rounding, rounding):
        assert isinstance(fault, InputError), fault
        assert re.search(message, str(fault))


def test_every_rank_reads_the_words_of_its_receiver(ranks, faulty_table):
    sent = gradients()
    chip = table_chip(faulty_table)
    results = ranks.run(averaged, str(faulty_table), sent)
    for rank, (got, _) in enumerate(results):
        assert np.array_equal(got, expected(chip, sent, reader=rank))
    assert not np.array_equal(results[0][0], expected(ideal_chip(4, 4), sent))


@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_gradients_of_other_data_types(ranks, kind):
    sent = gradients()
    rounded = torch.from_numpy(sent).to(getattr(torch, kind)).float().numpy()
    reference = torch.from_numpy(expected(ideal_chip(8, 4), rounded)).to(getattr(torch, kind)).float().numpy()
    for got, _ in ranks.run(averaged, ideal_chip(8, 4), sent, kind):
        assert np.array_equal(got, reference)


def test_the_lowest_word_of_16_bit_floats_is_finite(ranks):
    sent = np.full((4, 512), -65504.0, dtype=np.float32)  # the word is -128 steps of 512, which is -65536
    for got, _ in ranks.run(averaged, ideal_chip(8, 4), sent, "float16"):
        assert (got == -65504.0).all()


def test_bytes_are_counted(ranks):
    for bits, moved in ((8, 2), (16, 4)):
        for _, traffic in ranks.run(averaged, ideal_chip(bits, 4), gradients(960)):
            assert traffic["payload"] == 960 * bits // 8
            assert traffic["side"] == 45  # 30 exponents, 2·3/4 times
            assert traffic["stand_in"] == 960 * moved * 6 // 4


def test_errors_are_injected_equally_on_all_ranks(ranks):
    sent = np.random.default_rng(4).uniform(-0.5, 0.5, (4, 30_000)).astype(np.float32)
    exact, _ = ranks.run(averaged, ideal_chip(16, 4), sent)[0]
    histogram = ErrorHistogram(0.02, (64, -1), (0.25, 0.75))
    results = ranks.run(averaged, ideal_chip(16, 4, histogram), sent)
    assert all(np.array_equal(got, results[0][0]) for got, _ in results)
    errors = np.rint((results[0][0] - exact) * 2.0**16).astype(int)
    assert set(np.unique(errors)) == {-1, 0, 64}
    assert abs((errors != 0).sum() - 600) < 5 * np.sqrt(600)
    assert abs((errors == 64).sum() - 150) < 5 * np.sqrt(150)


def faults(ranks, *arguments) -> list[str]:
    """Messages of all ranks for an input that all of them refuse."""
    raised = ranks.outcomes(averaged, *arguments)
    assert all(isinstance(fault, InputError) for fault in raised), raised
    return [str(fault) for fault in raised]


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_gradients_that_are_not_finite_are_reported_with_their_parameter(ranks, wrong):
    sent = gradients()
    sent[2, 5] = sent[2, 6] = sent[3, 500] = wrong
    for message in faults(ranks, ideal_chip(8, 4), sent):
        assert "rank 2: first (2 of 333); rank 3: second (1 of 666)" in message


def test_chip_for_another_number_of_servers_is_refused(ranks):
    for message in faults(ranks, ideal_chip(8, 8), gradients()):
        assert re.search("8 servers, .* 4 ranks", message)


def test_a_missing_file_on_one_rank_stops_all(ranks, faulty_table, tmp_path):
    raised = ranks.outcomes(one_has_no_file, str(faulty_table), str(tmp_path / "none.function.npz"))
    assert all(isinstance(fault, InputError) for fault in raised), raised
    assert all("none.function.npz" in str(fault) for fault in raised)
    assert str(raised[0]).startswith("rank 3: ")


def one_has_no_file(good: str, bad: str) -> None:
    schemes.OptincState(DistributedDataParallel(Sent(9)), bad if dist.get_rank() == 3 else good)


def different_chips() -> None:
    chip = ideal_chip(8 if dist.get_rank() else 16, 4)
    schemes.OptincState(DistributedDataParallel(Sent(9)), chip)


def test_ranks_with_different_chips_are_refused(ranks):
    for fault in ranks.outcomes(different_chips):
        assert isinstance(fault, InputError)
        assert re.search("rank 0 has .* 16 bits, .*rank 1 has .* 8 bits", str(fault))


def trained(bits: int) -> tuple[np.ndarray, float, int]:
    torch.manual_seed(0)
    scheme = schemes.Optinc(ideal_chip(bits, 4))
    model = scheme.wrap(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(60):
        inputs = torch.randn(16, 8, generator=random)
        optimizer.zero_grad()
        loss = (model(inputs)[:, 0] - inputs.sum(dim=1)).square().mean()
        loss.backward()
        scheme.step(optimizer, loss.item())
    scheme.finish()
    return model.module[0].weight.detach().numpy(), loss.item(), scheme.traffic.steps


def test_training_over_the_chip_learns_and_keeps_ranks_equal(ranks):
    results = ranks.run(trained, 16)
    for weights, loss, steps in results:
        assert np.array_equal(weights, results[0][0])
        assert loss < 1.0  # 8 at the start
        assert steps == 60


def test_a_file_of_network_weights_is_read_as_a_chip(ranks, onn_4bit: AveragingNetwork, tmp_path: Path):
    onn_4bit.save(tmp_path / "network.npz")
    for got, _ in ranks.run(averaged, str(tmp_path / "network.npz"), gradients()):
        assert np.array_equal(got, expected(ideal_chip(4, 4), gradients()))


class Empty(nn.Module):
    """Model with a parameter without elements and of another data type: its bucket is empty."""

    def __init__(self) -> None:
        super().__init__()
        self.some = nn.Parameter(torch.ones(3))
        self.none = nn.Parameter(torch.empty(0, dtype=torch.float64))

    def forward(self) -> torch.Tensor:
        return self.some.sum() + self.none.sum()


def with_empty_bucket() -> list[float]:
    model = schemes.Optinc(ideal_chip(8, 4)).wrap(Empty())
    model().backward()
    return model.module.some.grad.tolist()


def test_an_empty_bucket_is_accepted(ranks):
    assert ranks.run(with_empty_bucket) == [[1.0] * 3] * 4


def with_block(block: object) -> None:
    schemes.Optinc(ideal_chip(8, 4), block if dist.get_rank() == 2 else 256).wrap(Sent(9))


@pytest.mark.parametrize("block", [0, 2.5])
def test_an_invalid_block_size_is_refused(ranks, block):
    for fault in ranks.outcomes(with_block, block):
        assert isinstance(fault, InputError)
        assert f"block = {block}" in str(fault)
