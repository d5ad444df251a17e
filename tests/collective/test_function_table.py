"""Tables of extracted chips: errors are read at the right inputs, and invalid files are refused."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from optinc_collective.schemes import ideal_chip, table_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.errors import InputError

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
