"""Block floating point codec: round trip, error bound, and equality of both implementations."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from optinc_collective.schemes import AveragingChip, ideal_cascade, ideal_chip, network_chip
from optinc_collective.schemes import _codec as codec
from optinc_collective.schemes._codec import block_exponents, block_steps, code_type, decode, encode

LARGEST = float(np.nextafter(np.float32(2.0**127), np.float32(0)))
floats = st.floats(-LARGEST, LARGEST, width=32)
gradients = arrays.arrays(np.float32, st.integers(1, 70), elements=floats)


def round_trip(values: np.ndarray, bits: int, block: int, servers: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Values read if all servers send the same values, and the step of every value."""
    chip, sent = ideal_chip(bits, servers), torch.from_numpy(values)
    step, inverse = block_steps(block_exponents(sent, block), bits)
    level = chip.levels[0]
    codes = torch.zeros(len(values), dtype=code_type(level, sent.device))
    encode(sent, inverse, block, bits, chip.places[0], codes)
    out = torch.empty_like(sent)
    total = torch.from_numpy(codes.numpy() * codes.numpy().dtype.type(servers))
    decode(total, step, block, bits, level, None, out)
    return out.numpy(), np.repeat(step.numpy(), block)[: len(values)]


@given(values=gradients, bits=st.sampled_from([2, 4, 8, 16]), block=st.integers(1, 80))
def test_error_is_at_most_half_a_step(values, bits, block):
    read, step = round_trip(values, bits, block)
    error = np.abs(read.astype(np.float64) - values)
    # values in the topmost half step are clipped to the largest word
    top = read.astype(np.float64) == (2.0 ** (bits - 1) - 1) * step.astype(np.float64)
    assert (error <= np.where(top, 1.0, 0.5) * step.astype(np.float64)).all()


@given(values=gradients, bits=st.sampled_from([4, 8, 16]), block=st.integers(1, 80))
def test_rounding_is_idempotent(values, bits, block):
    once, _ = round_trip(values, bits, block)
    exponents = block_exponents(torch.from_numpy(once), block)
    if torch.equal(exponents, block_exponents(torch.from_numpy(values), block)):
        assert np.array_equal(round_trip(once, bits, block)[0], once)


@given(values=gradients, bits=st.sampled_from([4, 8, 16]), servers=st.sampled_from([4, 8, 16]))
def test_average_of_equal_gradients_is_the_rounded_gradient(values, bits, servers):
    assert np.array_equal(round_trip(values, bits, 16, servers)[0], round_trip(values, bits, 16)[0])


def test_steps_are_exact_over_the_whole_range_of_float32():
    for bits in (2, 8, 16):
        step, inverse = block_steps(torch.arange(codec.TOO_LARGE, dtype=torch.uint8), bits)
        assert (step.double() * inverse.double() == 1).all()
        read, _ = round_trip(np.array([LARGEST, -LARGEST, 1e-45, 0.0], dtype=np.float32), bits, 1)
        assert np.isfinite(read).all()
        assert read[3] == 0.0


def on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the codec use torch's operations for CPU tensors, as on other devices."""
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)


@pytest.mark.parametrize("block", [1, 32, 1000])
def test_both_implementations_give_the_same_bits(monkeypatch, block, onn_4bit):
    values = torch.randn(777, generator=torch.Generator().manual_seed(2)) * 1e-3
    values[5:40] = 0.0
    chips = [ideal_chip(8, 4), ideal_chip(16, 4), ideal_chip(8, 3), network_chip(onn_4bit)]
    offsets = [0.0, *(chip.offset(2) for chip in chips)]
    values[40:60] = (
        torch.arange(-10, 10) * 2.0**-15
    )  # many lie halfway between steps, with and without an offset of 1/2
    compiled = [computed(chip, values, block, offset) for chip in chips for offset in offsets]
    on_torch(monkeypatch)
    pairs = [(chip, offset) for chip in chips for offset in offsets]
    for (chip, offset), (exponents, codes, read) in zip(pairs, compiled, strict=True):
        by_torch = computed(chip, values, block, offset)
        assert torch.equal(by_torch[0], exponents)
        assert torch.equal(by_torch[1], codes)
        assert torch.equal(by_torch[2], read)


def computed(
    chip: AveragingChip, values: torch.Tensor, block: int, offset: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    exponents = block_exponents(values, block)
    step, inverse = block_steps(exponents, chip.bits)
    codes = torch.zeros(len(values), dtype=torch.int32)
    encode(values, inverse, block, chip.bits, chip.places[0], codes, offset)
    level = chip.levels[0]
    table = None if level.outputs is None else torch.from_numpy(level.outputs[0])
    read = torch.empty_like(values)
    decode(codes * chip.servers, step, block, chip.bits, level, table, read)
    return exponents, codes, read


def read_by(chip: AveragingChip, sent: np.ndarray, unbiased: bool) -> np.ndarray:
    """Values read, in steps, for gradients in steps (servers, n) that form one block with full scale."""
    gradients_of_servers = sent.astype(np.float32)
    gradients_of_servers[:, 0] = 2.0 ** (chip.bits - 1) - 1  # so that the block's step is 1
    values = torch.from_numpy(gradients_of_servers)
    step, inverse = block_steps(block_exponents(values.abs().amax(dim=0), values.shape[1]), chip.bits)
    assert step.tolist() == [1.0]
    total = torch.zeros(values.shape[1], dtype=torch.int32)
    for number, server in enumerate(values):
        codes = torch.empty(len(server), dtype=torch.int32)
        offset = chip.offset(number) if unbiased else 0.0
        encode(server.contiguous(), inverse, len(server), chip.bits, chip.places[0], codes, offset)
        total += codes
    *below, top = chip.levels
    assert not any(
        level.outputs is not None or level.shift for level in below
    )  # then the cascade adds up like one level
    table = None if top.outputs is None else torch.from_numpy(top.outputs[0])
    out = torch.empty(values.shape[1])
    decode(total, step, len(out), chip.bits, top, table, out)
    return out.numpy()[1:]


def uniform_gradients(bits: int, servers: int, count: int) -> np.ndarray:
    """Gradients in steps, (servers, count), uniform over the remainders of a step; none is clipped."""
    width = (2 ** (bits - 1) - 1) // servers * servers
    assert width
    return np.random.default_rng(bits + servers).uniform(-width, width, (servers, count))


@pytest.mark.parametrize(
    "chip",
    [
        *(ideal_chip(bits, 2) for bits in (4, 6, 8, 10, 12, 14, 16)),
        *(ideal_chip(8, servers) for servers in (1, 3, 4, 8, 16)),
        ideal_chip(16, 4),
        ideal_chip(16, 16),
        ideal_cascade(8, 2),
        ideal_cascade(8, 4),
        ideal_cascade(16, 4),
    ],
    ids=lambda chip: f"{chip.bits} bits, {chip.source}",
)
def test_unbiased_rounding_has_no_bias_and_nearest_is_low_by_the_truncation(chip):
    sent = uniform_gradients(chip.bits, chip.servers, 20_000)
    mean = sent.mean(axis=0)[1:]
    for unbiased, bias in ((False, -(chip.servers - 1) / (2 * chip.servers)), (True, 0.0)):
        error = read_by(chip, sent, unbiased) - mean
        assert abs(error.mean() - bias) < 4 * error.std() / np.sqrt(len(error))


@given(
    bits=st.sampled_from([2, 4, 6, 8, 10, 12, 14, 16]),
    servers=st.sampled_from([1, 2, 3, 4, 8, 16, 64]),
    values=arrays.arrays(np.float32, 9, elements=st.floats(-1, 1, width=32)),
)
def test_unbiased_rounding_reads_equal_gradients_as_the_nearest_step(bits, servers, values):
    """So zeros stay zeros; the largest and the smallest gradient have the last and the first word."""
    chip, half = ideal_chip(bits, servers), 2 ** (bits - 1)
    largest = np.nextafter(np.float32(half), np.float32(0))
    sent = np.tile(np.concatenate([[0, 0.0, -0.0, largest, -largest], values]), (servers, 1))
    read = read_by(chip, sent, True)
    assert read[:4].tolist() == [0.0, 0.0, half - 1, -half]
    assert (np.abs(read[4:] - values.astype(np.float64)) <= 0.5).all()


def test_codes_are_as_narrow_as_their_sums():
    cpu = torch.device("cpu")
    kinds = {(4, 4): torch.uint8, (8, 4): torch.uint16, (8, 16): torch.uint16, (16, 4): torch.int32}
    for (bits, servers), kind in kinds.items():
        level = ideal_chip(bits, servers).levels[0]
        assert code_type(level, cpu) == kind
        assert level.size - 1 <= torch.iinfo(kind).max


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.0**127])
def test_values_that_cannot_be_encoded_are_detected_by_the_exponent(wrong):
    values = torch.zeros(100)
    values[3], values[70] = LARGEST, wrong
    exponents = block_exponents(values, 32)
    assert (exponents >= codec.TOO_LARGE).tolist() == [False, False, True, False]
