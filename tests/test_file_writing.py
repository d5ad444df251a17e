"""Writing of files: atomic, whatever fails."""

import os
from pathlib import Path

import pytest

from optinc_pdk.file_writing import saved_bytes, write_atomic


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


@pytest.mark.parametrize("step", ["chmod", "replace"])
def test_a_failed_write_leaves_the_old_file_alone(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.bin"
    write_atomic(path, b"old")

    def fail(*arguments: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_failed_write_names_the_requested_file(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as fault:
        write_atomic(path, b"")
    assert (fault.value.filename, os.listdir(tmp_path)) == (str(path), ["taken"])


def test_an_interrupted_write_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.bin"
    write_atomic(path, b"old")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]
