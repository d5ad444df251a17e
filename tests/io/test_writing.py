"""Writing of files: atomic, whatever fails; links are followed; devices and pipes are written in place."""

import csv
import io
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optinc_pdk.errors import InputError, printable
from optinc_pdk.io.writing import QUOTE, csv_text, locked_file, output_target, saved_bytes, write_atomic


def test_saved_bytes_are_what_is_written() -> None:
    assert saved_bytes(lambda path: Path(path).write_bytes(b"content")) == b"content"


def test_writing_creates_the_folder_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.bin"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file.bin"]


def test_a_written_file_has_the_mode_of_open(tmp_path: Path) -> None:
    write_atomic(tmp_path / "atomic", b"")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
@pytest.mark.parametrize("fault", [OSError(28, "disk full"), KeyboardInterrupt()])
def test_a_failed_or_interrupted_write_leaves_the_old_file_alone(
    step: str, fault: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.bin"
    write_atomic(path, b"old")

    def fail(*arguments: object) -> None:
        raise fault

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(fault)) as raised:
        write_atomic(path, b"new")
    assert not isinstance(raised.value, OSError) or raised.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_the_hidden_file_of_a_killed_writer_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".file.bin.new").write_bytes(b"a longer text that was not finished")
    write_atomic(tmp_path / "file.bin", b"new")
    assert (tmp_path / "file.bin").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_writers_of_one_file_wait_for_each_other(tmp_path: Path) -> None:
    path, inside, most = tmp_path / "lock", [], []

    def hold() -> None:
        for _ in range(50):
            with locked_file(path):
                inside.append(None)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 200 and not path.exists()


@pytest.mark.parametrize("present", [True, False])
def test_symbolic_links_are_followed(present: bool, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(other / "file.bin")
    if present:
        (other / "file.bin").write_bytes(b"old")
    write_atomic(tmp_path / "one", b"new")
    assert os.readlink(tmp_path / "one") == "two" and (tmp_path / "two").is_symlink()
    assert not (other / "file.bin").is_symlink() and (other / "file.bin").read_bytes() == b"new"
    assert os.listdir(other) == ["file.bin"]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "to_folder").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        # the path of a socket has at most 108 characters
        folder = os.open(tmp_path, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        before = sorted(os.listdir(tmp_path))
        cases = {"folder": "is a folder", "to_folder": "is a folder", "loop": "links", "socket": "is a socket"}
        for name, message in (cases | {"pipe": "nobody reads"}).items():
            with pytest.raises(InputError, match=f"{name}: .*{message}.*; "):
                write_atomic(tmp_path / name, b"new")
        assert sorted(os.listdir(tmp_path)) == before
    for path in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="cannot be replaced as a whole; give a regular file"):
            output_target(path, in_place=False)


def test_devices_are_written_in_place() -> None:
    before = os.stat("/dev/null")
    write_atomic(Path("/dev/null"), b"content")
    after = os.stat("/dev/null")
    assert (before.st_mode, before.st_rdev, before.st_ino) == (after.st_mode, after.st_rdev, after.st_ino)
    with pytest.raises(OSError, match="No space left") as fault:
        write_atomic(Path("/dev/full"), b"content")
    assert fault.value.filename == "/dev/full"


def test_a_pipe_with_a_reader_is_written_in_place(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    data, found = bytes(range(256)) * 1000, []

    def read() -> None:
        while len(found) < len(data):
            found.extend(os.read(reader, 4096))

    thread = threading.Thread(target=read)
    thread.start()
    write_atomic(path, data)
    thread.join()
    os.close(reader)
    assert bytes(found) == data and path.is_fifo()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_open_files_of_the_process_are_written_in_order(name: str, kind: str, tmp_path: Path) -> None:
    code = (
        "import pathlib; from optinc_pdk.io.writing import write_atomic; print('before');"
        f"write_atomic(pathlib.Path({name!r}), b'data\\n'); print('after')"
    )
    out = tmp_path / "out"
    with out.open("wb") as stream:
        target = subprocess.PIPE if kind == "pipe" else stream
        done = subprocess.run([sys.executable, "-c", code], stdout=target, check=True)
    assert (done.stdout if kind == "pipe" else out.read_bytes()) == b"before\ndata\nafter\n"


CELLS = st.text(max_size=12) | st.sampled_from(
    ["=1+1", "+x", "-x", "@x", "'x", "''=", "\t=x", "\r=x", "-1.5", "+2", "nan"]
)


@given(cells=st.lists(CELLS, min_size=2, max_size=5))
def test_no_cell_of_a_csv_file_is_a_formula_and_every_cell_is_read_back(cells: list[str]) -> None:
    text = csv_text([f"column{n}" for n in range(len(cells))], [cells])
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    for cell, written in zip(cells, row.values(), strict=True):
        assert written.removeprefix(QUOTE) == printable(cell)
        assert is_number(written) or written[:1] not in {"=", "+", "-", "@", "\t", "\r"}


def is_number(text: str) -> bool:
    try:
        return isinstance(float(text), float)
    except ValueError:
        return False


def test_numbers_in_csv_files_stay_numbers() -> None:
    rows = [(-1.5, "-0.250", np.float64(-2.0), np.int64(-3)), (0, "", "1e-05", "-1e+09")]
    assert csv_text("abcd", rows) == "a,b,c,d\n-1.5,-0.250,-2.0,-3\n0,,1e-05,-1e+09\n"
