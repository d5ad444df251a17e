"""Reading of input files: only regular files of limited size, without waiting for a writer."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optinc_collective.schemes._chips import table_chip
from optinc_pdk.cards import load_process
from optinc_pdk.circuit.bias import read_bias
from optinc_pdk.circuit.netlist import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.extract.golden_devices import read_golden
from optinc_pdk.extract.layout_reader import read_layout
from optinc_pdk.io.reading import FILE_KINDS, NETLIST, WEIGHTS, FileKind, read_bytes, read_part
from optinc_pdk.models.measured_data import read_measured
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.studies.montecarlo.sample_records import Records

TEN = replace(NETLIST, max_bytes=10)
READERS: dict[str, Callable[[Path], object]] = {
    "weights.npz": AveragingNetwork.load,
    "weights.safetensors": lambda path: AveragingNetwork.load(path, bits=4, servers=4, groups=2),
    "weights.onnx": lambda path: AveragingNetwork.load(path, bits=4, servers=4, groups=2),
    "chip.pic.yml": Circuit.read,
    "chip.bias.yml": read_bias,
    "chip.gds": read_layout,
    "chip.oas": read_layout,
    "chip.function.npz": table_chip,
    "device.s2p": read_measured,
    "device.npz": read_measured,
}


class UnusableFileError(InputError):
    """The error class that these tests pass."""


def refused(path: Path, kind: FileKind = TEN) -> str:
    with pytest.raises(UnusableFileError) as caught:
        read_bytes(path, kind, UnusableFileError)
    message = str(caught.value)
    assert message.startswith(str(path).replace("\0", "\\x00") + ": ")
    assert "; " in message, "no remedy"
    return message


def test_the_limit_is_inclusive_and_stated(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"", b"0123456789"):
        path.write_bytes(content)
        assert read_bytes(path, TEN) == read_bytes(str(path), TEN) == content
    path.write_bytes(b"0123456789a")
    assert "has 11 bytes, the limit of a netlist or bias file is 10; give a .pic.yml" in refused(path)


def test_a_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.data"
    path.write_bytes(bytes(range(200)))
    assert read_part(path, 0, 200) == path.read_bytes()
    assert read_part(path, 150, 50) == bytes(range(150, 200))
    assert read_part(path, 200, 0) == b""
    with pytest.raises(InputError, match=r"a\.data: has 200 bytes, fewer than the 201 that are used"):
        read_part(path, 151, 50)
    with pytest.raises(InputError, match="Is a directory"):
        read_part(tmp_path, 0, 0)


def test_a_sparse_file_is_refused_by_its_size(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    assert "has 1,099,511,627,776 bytes" in refused(path, NETLIST)


def test_a_file_that_states_no_size_is_read_up_to_the_limit() -> None:
    path = Path("/proc/self/maps")
    if not path.exists():
        pytest.skip("there is no /proc here")
    assert path.stat().st_size == 0
    refused(path)
    assert b"python" in read_bytes(path, NETLIST)


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "a pipe has no known end" in refused(path)
    # neither is one with a writer, whose content may have no end
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"a: 1")
    assert "a pipe has no known end" in refused(path)
    os.close(writer)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_devices_are_refused(name: str) -> None:
    assert "a device has no known end" in refused(Path(name))


def test_other_paths_without_a_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Is a directory" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "missing")
    (tmp_path / "dangling").symlink_to("missing")
    assert "No such file" in refused(tmp_path / "dangling")
    (tmp_path / "loop").symlink_to("loop")
    assert "symbolic links" in refused(tmp_path / "loop")
    assert "Not a directory" in refused(Path(__file__) / "below")
    with pytest.raises(UnusableFileError, match=r"zero\\u0000byte: .*null"):
        read_bytes(tmp_path / "zero\0byte", TEN, UnusableFileError)
    assert "too long" in refused(tmp_path / ("n" * 300))
    # a short path, because that of a socket is limited
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        refused(Path("socket"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch(mode=0)
    assert "Permission denied" in refused(path)


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_bytes(tmp_path / "link", TEN) == b"content"


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_what_is_no_regular_file(name: str, tmp_path: Path) -> None:
    path, read = tmp_path / name, READERS[name]
    cases: list[tuple[Callable[[], None], str]] = [
        (lambda: os.mkfifo(path), "a pipe has no known end"),
        (lambda: path.symlink_to("/dev/zero"), "a device has no known end"),
        (lambda: path.symlink_to(name), "symbolic links"),
        (path.mkdir, "Is a directory"),
    ]
    for make, fault in cases:
        make()
        with pytest.raises(InputError, match=f"{re.escape(str(path))}: .*{fault}"):
            read(path)
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("name", READERS)
def test_every_reader_refuses_a_file_beyond_its_limit(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match=r"has 1,099,511,627,776 bytes, the limit of a .* is [0-9,]+; "):
        READERS[name](path)


def test_cards_and_golden_devices_that_are_pipes_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    (folder / "devices").mkdir(parents=True)
    (folder / "golden").mkdir()
    (folder / "process.yml").write_text("schema: 1\nbase: soi220\nname: mine\n")
    os.mkfifo(folder / "golden" / "crossing.json")
    process = load_process(str(folder))
    with pytest.raises(InputError, match=r"crossing\.json: .*a pipe"):
        read_golden(process)
    os.mkfifo(folder / "devices" / "crossing.yml")
    with pytest.raises(InputError, match=r"crossing\.yml: .*a pipe"):
        load_process(f"{folder}/")


def test_finished_samples_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match="limit of a file of finished samples"):
        Records(path, {"a": 1}, resume=True)


def test_commands_refuse_pipes_and_devices_with_exit_code_2(tmp_path: Path) -> None:
    path = tmp_path / "weights.npz"
    os.mkfifo(path)
    script = "import sys; from optinc_pdk.cli import main; main()"
    for arguments in (["factor", str(path)], ["drc", "/dev/zero", "-o", str(tmp_path / "x.lyrdb")]):
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 2, done.stderr
        assert arguments[1] in done.stderr
        assert "has no known end" in done.stderr


def test_kinds_have_distinct_names_and_remedies() -> None:
    assert len({kind.name for kind in FILE_KINDS}) == len(FILE_KINDS)
    assert all(kind.remedy and kind.max_bytes >= 2**20 for kind in FILE_KINDS)
    # the weights of the paper's largest network in float64 are 32 MiB
    assert WEIGHTS.max_bytes >= 8 * 32 * 2**20
    assert np.log2(WEIGHTS.max_bytes) < 31
