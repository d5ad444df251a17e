"""Fixed point with shared exponents: round trip, bound, and one result of both ways of computing it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from optinc_pdk.collective import Chip, codec, ideal_chip, network_chip
from optinc_pdk.collective.codec import block_exponents, code_type, decode, encode, steps

LARGEST = float(np.nextafter(np.float32(2.0**127), np.float32(0)))
floats = st.floats(-LARGEST, LARGEST, width=32)
gradients = arrays.arrays(np.float32, st.integers(1, 70), elements=floats)


def round_trip(values: np.ndarray, bits: int, block: int, servers: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What servers that all send the same read, and every value's step."""
    chip, sent = ideal_chip(bits, servers), torch.from_numpy(values)
    step, inverse = steps(block_exponents(sent, block), bits)
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
    # only the topmost half step of positive numbers has no word of its own
    top = read.astype(np.float64) == (2.0 ** (bits - 1) - 1) * step.astype(np.float64)
    assert (error <= np.where(top, 1.0, 0.5) * step.astype(np.float64)).all()


@given(values=gradients, bits=st.sampled_from([4, 8, 16]), block=st.integers(1, 80))
def test_what_was_rounded_once_stays(values, bits, block):
    once, _ = round_trip(values, bits, block)
    exponents = block_exponents(torch.from_numpy(once), block)
    if torch.equal(exponents, block_exponents(torch.from_numpy(values), block)):
        assert np.array_equal(round_trip(once, bits, block)[0], once)


@given(values=gradients, bits=st.sampled_from([4, 8, 16]), servers=st.sampled_from([4, 8, 16]))
def test_average_of_equal_gradients_is_themselves(values, bits, servers):
    assert np.array_equal(round_trip(values, bits, 16, servers)[0], round_trip(values, bits, 16)[0])


def test_steps_are_exact_to_the_ends_of_float32():
    for bits in (2, 8, 16):
        step, inverse = steps(torch.arange(codec.TOO_LARGE, dtype=torch.uint8), bits)
        assert (step.double() * inverse.double() == 1).all()
        read, _ = round_trip(np.array([LARGEST, -LARGEST, 1e-45, 0.0], dtype=np.float32), bits, 1)
        assert np.isfinite(read).all()
        assert read[3] == 0.0


def on_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CPU tensors take the way of other devices."""
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)


@pytest.mark.parametrize("block", [1, 32, 1000])
def test_both_ways_of_computing_give_the_same_bits(monkeypatch, block, onn_4bit):
    values = torch.randn(777, generator=torch.Generator().manual_seed(2)) * 1e-3
    values[5:40] = 0.0
    chips = [ideal_chip(8, 4), ideal_chip(16, 4), ideal_chip(8, 3), network_chip(onn_4bit)]
    compiled = [computed(chip, values, block) for chip in chips]
    on_torch(monkeypatch)
    for chip, (exponents, codes, read) in zip(chips, compiled, strict=True):
        theirs = computed(chip, values, block)
        assert torch.equal(theirs[0], exponents)
        assert torch.equal(theirs[1], codes)
        assert torch.equal(theirs[2], read)


def computed(chip: Chip, values: torch.Tensor, block: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    exponents = block_exponents(values, block)
    step, inverse = steps(exponents, chip.bits)
    codes = torch.zeros(len(values), dtype=torch.int32)
    encode(values, inverse, block, chip.bits, chip.places[0], codes)
    level = chip.levels[0]
    table = None if level.outputs is None else torch.from_numpy(level.outputs[0])
    read = torch.empty_like(values)
    decode(codes * chip.servers, step, block, chip.bits, level, table, read)
    return exponents, codes, read


def test_codes_are_as_narrow_as_their_sums():
    cpu = torch.device("cpu")
    kinds = {(4, 4): torch.uint8, (8, 4): torch.uint16, (8, 16): torch.uint16, (16, 4): torch.int32}
    for (bits, servers), kind in kinds.items():
        level = ideal_chip(bits, servers).levels[0]
        assert code_type(level, cpu) == kind
        assert level.size - 1 <= torch.iinfo(kind).max


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 2.0**127])
def test_what_has_no_word_shows_in_the_exponent(wrong):
    values = torch.zeros(100)
    values[3], values[70] = LARGEST, wrong
    exponents = block_exponents(values, 32)
    assert (exponents >= codec.TOO_LARGE).tolist() == [False, False, True, False]
