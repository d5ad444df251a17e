"""Sets of files: visible together, through links too; folders that killed processes left are deleted."""

import os
from pathlib import Path

import pytest

from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import LOCK, STAGING_PREFIX, StagedFiles, write_files
from optinc_pdk.io.writing import write_atomic


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_set(folder: Path, text: bytes, names: tuple[str, ...] = ("a", "b")) -> None:
    write_files({folder / name: text for name in (*names, "report")}, stale=[folder / "b"])


def test_files_replace_those_of_an_earlier_set(tmp_path: Path) -> None:
    write_set(tmp_path / "out", b"one")
    assert contents(tmp_path / "out") == {"a": b"one", "b": b"one", "report": b"one"}
    write_set(tmp_path / "out", b"two", ("a", "sub/c"))
    assert contents(tmp_path / "out") == {"a": b"two", "sub/c": b"two", "report": b"two"}


def test_nothing_is_created_before_the_first_file_and_nothing_remains_without_publishing(tmp_path: Path) -> None:
    with StagedFiles(tmp_path / "new" / "out"):
        assert not (tmp_path / "new").exists()
    with pytest.raises(KeyboardInterrupt), StagedFiles(tmp_path / "new" / "out") as staged:
        write_atomic(staged.path("a"), b"")
        assert staged.names() == ["a"] and not staged.target("a").exists()
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk full") as fault, StagedFiles(tmp_path) as staged:
        raise OSError(28, "disk full", str(staged.path("chip.gds")))
    assert fault.value.filename == str(tmp_path / "chip.gds")
    with pytest.raises(OSError, match="disk full") as fault, StagedFiles(tmp_path) as staged:
        raise OSError(28, "disk full", "elsewhere")
    assert fault.value.filename == "elsewhere"


def test_the_report_is_removed_first_and_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path, b"one")
    states: list[dict[str, bytes]] = []
    for name in ("replace", "unlink", "fsync"):
        original = getattr(os, name)

        def record(*arguments: object, original: object = original, **options: object) -> None:
            original(*arguments, **options)  # type: ignore[operator]
            states.append({path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name[0] != "."})

        monkeypatch.setattr(os, name, record)
    write_set(tmp_path, b"two")
    assert len(states) > 10 and any("report" not in state for state in states)
    assert all(len(set(state.values())) == 1 for state in states if "report" in state)
    assert states[-1] == {"a": b"two", "b": b"two", "report": b"two"}


def test_links_are_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_set(other, b"one")
    out = tmp_path / "out"
    out.mkdir()
    for name in ("a", "report"):
        (out / name).symlink_to(other / name)
    (out / "b").symlink_to(other / "missing")
    write_set(out, b"two")
    assert contents(other) == {"a": b"two", "b": b"one", "report": b"two", "missing": b"two"}
    assert all((out / name).is_symlink() for name in ("a", "b", "report"))
    assert sorted(os.listdir(out)) == ["a", "b", "report"]
    (tmp_path / "link").symlink_to(out)
    write_set(tmp_path / "link", b"three")
    assert contents(other)["report"] == b"three" and (tmp_path / "link").is_symlink()


def test_targets_that_are_no_regular_files_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    write_set(tmp_path, b"one")
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "other").symlink_to("a")
    before = sorted(os.listdir(tmp_path))
    for names, message in ((("sub",), "folder"), (("pipe",), "pipe"), (("null",), "device"), (("a", "other"), "same")):
        with pytest.raises(InputError, match=message):
            write_set(tmp_path, b"two", names)
        assert (tmp_path / "report").read_bytes() == (tmp_path / "a").read_bytes() == b"one"
        assert sorted(os.listdir(tmp_path)) == before


def test_folders_of_killed_processes_are_deleted_and_those_in_use_are_not(tmp_path: Path) -> None:
    for name, has_lock in (("with_lock", True), ("without", False)):
        folder = tmp_path / f"{STAGING_PREFIX}{name}"
        folder.mkdir()
        (folder / "chip.gds").write_bytes(b"")
        if has_lock:
            (folder / LOCK).write_bytes(b"")
    (tmp_path / LOCK).write_bytes(b"")
    with StagedFiles(tmp_path) as staged:
        used = staged.path("a").parent
        write_set(tmp_path, b"one")
        assert {path.name for path in tmp_path.iterdir()} == {"a", "b", "report", used.name}
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "report"]
