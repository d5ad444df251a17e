"""Chips as codes and tables, files of extracted chips, and word errors drawn from a distribution."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_collective.schemes import (
    TABLE_II,
    AveragingChip,
    ErrorHistogram,
    ideal_cascade,
    ideal_chip,
    network_cascade,
    network_chip,
    table_chip,
)
from optinc_collective.schemes._chips import mean_truncation
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.networks.network import Cascade


def network(name: str) -> AveragingNetwork:
    import optinc_pdk.networks

    return AveragingNetwork.load(Path(optinc_pdk.networks.__file__).parent / "bundled" / f"{name}.npz")


def words(chip: AveragingChip, count: int = 2000) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 1 << chip.bits, (count, chip.servers))


CHIPS = {
    "ideal of 4": lambda: ideal_chip(8, 4),
    "ideal of 3": lambda: ideal_chip(16, 3),
    "ideal of 16": lambda: ideal_chip(8, 16),
    "one server": lambda: ideal_chip(8, 1),
    "cascade of 2²": lambda: ideal_cascade(8, 2),
    "cascade of 4²": lambda: ideal_cascade(16, 4),
    "network": lambda: network_chip(network("average_8bit_4servers")),
    "cascade of networks": lambda: network_cascade(
        Cascade(network("cascade_8bit_4servers_level1"), network("cascade_8bit_4servers_level2"))
    ),
}


@pytest.mark.parametrize("name", CHIPS)
def test_truncation_is_the_mean_difference_to_the_mean_of_the_words(name):
    chip = CHIPS[name]()
    sent = words(chip, 40_000)
    lost = sent.mean(axis=1) - chip.average(sent)[:, 0]
    assert abs(lost.mean() - chip.truncation) <= 4 * lost.std() / np.sqrt(len(lost))
    assert chip.truncation == pytest.approx((chip.servers - 1) / (2 * chip.servers))


def test_a_level_that_drops_its_remainder_has_a_larger_truncation():
    first = Averaging(8, 4, 4)
    assert mean_truncation(first) + mean_truncation(replace(first, finer_input=True)) == 0.375 + 0.46875
    assert mean_truncation(replace(first, remainder=True)) == 0.0


@given(bits=st.sampled_from([2, 4, 8, 16]), servers=st.integers(1, 20), data=st.data())
def test_ideal_average(bits, servers, data):
    chip = ideal_chip(bits, servers)
    sent = np.array(data.draw(st.lists(st.integers(0, (1 << bits) - 1), min_size=servers, max_size=servers)))
    assert set(chip.average(sent)) == {int(Averaging(bits, servers, 1).ideal(sent))}


@pytest.mark.parametrize(("bits", "servers"), [(8, 2), (8, 4), (16, 4)])
def test_ideal_cascade_equals_one_level_for_all_servers(bits, servers):
    cascade, one = ideal_cascade(bits, servers), ideal_chip(bits, servers**2)
    assert cascade.servers == one.servers == servers**2
    assert np.array_equal(cascade.average(words(one)), one.average(words(one)))


@pytest.mark.parametrize("name", ["average_4bit_4servers", "average_8bit_4servers", "average_8bit_4servers_relu"])
def test_exact_network_is_the_ideal_average(name):
    onn = network(name)
    chip, ideal = network_chip(onn), ideal_chip(onn.task.bits, onn.task.servers)
    assert np.array_equal(chip.average(words(chip)), ideal.average(words(chip)))


def test_network_chip_reproduces_the_errors_of_its_network():
    onn = network("average_4bit_4servers_relu")
    last = replace(onn.layers[-1], bias=np.add(onn.layers[-1].bias, [0.3, -0.4]))
    shifted = replace(onn, layers=(*onn.layers[:-1], last))
    chip, task = network_chip(shifted), onn.task
    sent = words(chip)
    fields = shifted.forward(task.preprocess(task.encode(sent)))
    expected = task.decode(np.clip(np.rint(np.abs(fields)), 0, 3).astype(np.int64))
    assert np.array_equal(chip.average(sent), np.broadcast_to(expected[:, None], sent.shape))
    assert (expected != task.ideal(sent)).any()


def test_cascade_of_networks_equals_cascade_average():
    cascade = Cascade(network("cascade_8bit_4servers_level1"), network("cascade_8bit_4servers_level2"))
    chip = network_cascade(cascade)
    sent = words(chip)
    assert np.array_equal(chip.average(sent)[:, 0], cascade.average(sent.reshape(-1, 4, 4)))
    assert np.array_equal(chip.average(sent), ideal_chip(8, 16).average(sent))


def test_one_level_of_a_cascade_is_refused():
    with pytest.raises(InputError, match="network_cascade"):
        network_chip(network("cascade_8bit_4servers_level1"))


@pytest.mark.parametrize(
    ("bits", "servers", "message"),
    [
        (18, 4, "bits = 18.*16"),
        (7, 4, "bits = 7"),
        (8, 0, "servers = 0"),
        (16, 40001, "servers = 40001"),
        ("8", 4, "ideal_chip: bits = '8'"),
        (8.0, 4, "ideal_chip: bits = 8.0"),
        (8, True, "ideal_chip: servers = True"),
    ],
)
def test_unsupported_bits_and_servers_are_refused(bits, servers, message):
    with pytest.raises(InputError, match=message):
        ideal_chip(bits, servers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ideal_chip(8, 4, 0.01), "ideal_chip: errors = 0.01: .*ErrorHistogram"),
        (lambda: ideal_cascade(8, 2.0), "ideal_cascade: servers = 2.0"),
        (lambda: network_chip("network.npz"), "network_chip: onn = 'network.npz': .*AveragingNetwork"),
        (lambda: network_cascade(network("average_4bit_4servers")), "network_cascade: cascade = .*: .*Cascade"),
        (lambda: replace(ideal_chip(8, 4), bits=8.0), "bits = 8.0"),
        (lambda: replace(ideal_chip(8, 4), levels=4), "levels = 4: .*tuple"),
        (lambda: ideal_chip(8, 4).average([[0.5] * 4]), "words .*float64"),
        (lambda: ideal_chip(8, 4).average([[0, 1, 2, 256]]), r"words .*0 \.\.\. 255.*0 \.\.\. 256"),
        (lambda: ideal_chip(8, 4).average(7), r"words .*\(\) .*\(4\)"),
    ],
)
def test_values_of_wrong_types_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_lattice_too_large_for_a_table_is_refused():
    onn = network("average_8bit_4servers")
    with pytest.raises(InputError, match="8 bits, 1000 servers and 4 groups"):
        network_chip(replace(onn, task=Averaging(8, 1000, 4)))


def test_digests_of_different_chips_differ():
    chips = [ideal_chip(8, 4), ideal_chip(8, 8), ideal_chip(16, 4), ideal_cascade(8, 2)]
    chips.append(network_chip(network("average_4bit_4servers")))
    assert len({chip.digest for chip in chips}) == len(chips)
    assert ideal_chip(8, 4).digest == chips[0].digest


TASKS = {"combinations": Averaging(4, 4, 2), "lattice": Averaging(8, 4, 4)}


@pytest.mark.parametrize("name", TASKS)
def test_exact_table_is_the_ideal_average(write_table, tmp_path, name):
    task = TASKS[name]
    write_table(tmp_path / "chip.function.npz", task, {})
    chip = table_chip(tmp_path / "chip.function.npz")
    assert (chip.bits, chip.servers) == (task.bits, task.servers)
    sent = np.random.default_rng(0).integers(0, 1 << task.bits, (5000, task.servers))
    assert np.array_equal(chip.average(sent), ideal_chip(task.bits, task.servers).average(sent))


def test_errors_of_combinations_are_separate(write_table, tmp_path):
    task = TASKS["combinations"]
    sent = np.array([[1, 2, 3, 4], [2, 1, 3, 4]])  # one lattice point, two combinations
    number = int(sent[0] @ 16 ** np.arange(3, -1, -1))
    write_table(tmp_path / "chip.function.npz", task, {(0, number, 2): 5})
    read = table_chip(tmp_path / "chip.function.npz").average(sent)
    assert read.tolist() == [[2, 2, 7, 2], [2, 2, 2, 2]]


@pytest.mark.parametrize(("assignment", "error"), [("random", 3), ("worst", 7)])
def test_assignments_of_a_lattice_point_have_separate_errors(write_table, tmp_path, assignment, error):
    task = TASKS["lattice"]
    sent = np.array([[17, 30, 99, 254]])
    steps = np.rint(task.preprocess(task.encode(sent)) * 4).astype(np.int64)
    number = int(steps[0] @ 13 ** np.arange(3, -1, -1))
    write_table(tmp_path / "chip.function.npz", task, {(0, number, 0): 3, (1, number, 0): 7})
    read = table_chip(tmp_path / "chip.function.npz", assignment).average(sent)
    assert read.tolist() == [[100 + error, 100, 100, 100]]


def changed(path: Path, **arrays: np.ndarray | None) -> Path:
    with np.load(path) as archive:
        kept = dict(archive) | arrays
    np.savez(path, **{name: array for name, array in kept.items() if array is not None})
    return path


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"words": None}, "no words"),
        ({"schema": np.array(9)}, "schema 9"),
        ({"symbols": np.zeros((1, 65536, 4, 2))}, "symbols is float64"),
        ({"symbols": np.full((1, 65536, 4, 2), 7, dtype=np.uint8)}, r"within 0 \.\.\. 3"),
        ({"symbols": np.zeros((1, 65536, 4, 2), dtype=np.uint8)}, "inputs"),
        ({"symbols": np.zeros((1, 65536, 4, 3), dtype=np.uint8)}, "65536 inputs"),
        ({"symbols": np.zeros((1, 65536, 2, 2), dtype=np.uint8)}, r"\(1, 65536, 2, 2\) .*\(1, 65536, 4\)"),
        ({"words": np.full((1, 65536, 4), 16)}, r"words .*0 \.\.\. 15"),
    ],
)
def test_invalid_arrays_are_refused(write_table, tmp_path, arrays, message):
    write_table(tmp_path / "chip.function.npz", TASKS["combinations"], {})
    with pytest.raises(InputError, match=f"chip.function.npz: .*{message}"):
        table_chip(changed(tmp_path / "chip.function.npz", **arrays))


@pytest.mark.parametrize("content", [b"", b"schema: 1", b"PK\x03\x04 half an archive", b"\x93NUMPY\x01"])
def test_invalid_files_are_refused(tmp_path, content):
    path = tmp_path / "chip.function.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"chip\.function\.npz"):
        table_chip(path)


def entry(content: bytes) -> bytes:
    """Archive whose arrays all have the same content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in ("schema", "symbols", "ideal", "words"):
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape: str) -> bytes:
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (entry(b"no array"), "'schema.npy' is not a valid"),
        (entry(header("(1125899906842624, 512)")), "which does not fit"),
        # an unknown compression method in the archive's directory
        (
            entry(b"").replace(
                b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63\x00"
            ),
            "compression",
        ),
    ],
)
def test_archives_with_other_content_are_refused(tmp_path, content, message):
    path = tmp_path / "chip.function.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"chip\.function\.npz: .*{message}"):
        table_chip(path)


def test_missing_and_foreign_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.function\.npz"):
        table_chip(tmp_path / "none.function.npz")
    with pytest.raises(InputError, match=r"weights\.safetensors: .*\.function\.npz"):
        table_chip(tmp_path / "weights.safetensors")
    with pytest.raises(InputError, match="assignment = 'best'"):
        table_chip(tmp_path / "none.function.npz", "best")


def test_rate_and_shares_of_drawn_errors():
    histogram = ErrorHistogram(0.01, (1, -64, 1024), (0.7, 0.2, 0.1))
    drawn = [histogram.draw(100_000, time) for time in range(40)]
    errors = np.concatenate([errors for _, errors in drawn])
    expected = 0.01 * 4_000_000
    assert abs(len(errors) - expected) < 5 * np.sqrt(expected)
    for value, share in zip(histogram.values, histogram.shares, strict=True):
        assert abs((errors == value).sum() - share * expected) < 5 * np.sqrt(share * expected)
    where = np.concatenate([where for where, _ in drawn])
    assert abs(where.mean() - 50_000) < 5 * 100_000 / np.sqrt(12 * expected)


def test_draws_are_reproducible_and_differ_between_times():
    histogram = ErrorHistogram(0.1, (1, -1), (0.5, 0.5))
    where, errors = histogram.draw(1000, 3)
    again = histogram.draw(1000, 3)
    assert np.array_equal(where, again[0])
    assert np.array_equal(errors, again[1])
    assert len(set(where)) == len(where)
    assert not np.array_equal(where, histogram.draw(1000, 4)[0])


def test_table_of_the_paper():
    assert TABLE_II["4-7"].rate == pytest.approx(1.4e-6)
    assert dict(zip(TABLE_II["4-7"].values, TABLE_II["4-7"].shares, strict=True)) == {1: 0.45, -1: 0.45, -64: 0.1}
    assert TABLE_II["3-6"].rate == pytest.approx(1.109e-4)
    for row in TABLE_II.values():
        assert sum(row.shares) == pytest.approx(1)


@pytest.mark.parametrize(
    ("rate", "values", "shares", "message"),
    [
        (1.5, (1,), (1.0,), "rate = 1.5"),
        (0.1, (1, 2), (1.0,), "2 values"),
        (0.1, (0,), (1.0,), "values .* 0"),
        (0.1, (1, 2), (0.5, 0.4), r"shares .*\(0\.5, 0\.4\)"),
        ("0.1", (1,), (1.0,), "ErrorHistogram: rate = '0.1'"),
        (0.1, (1.5,), (1.0,), "ErrorHistogram: values = 1.5"),
        (0.1, 1, 1.0, "ErrorHistogram: values = 1: .*tuple"),
    ],
)
def test_invalid_histograms_are_refused(rate, values, shares, message):
    with pytest.raises(InputError, match=message):
        ErrorHistogram(rate, values, shares)
