"""YAML in and out: what is refused, and that a file is never half written."""

import os
from pathlib import Path

import pytest

from optinc_pdk import files
from optinc_pdk.files import MAX_DEPTH, InputError, dump_yaml, load_yaml, write_atomic


class RefusalError(InputError):
    """The error that these tests ask for."""


def load(folder: Path, text: str | bytes) -> dict[str, object]:
    path = folder / "data.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path, RefusalError)


def test_plain_data_comes_back_in_its_order(tmp_path: Path) -> None:
    data = {"z": 1, "a": [1.5, "text", None, True], "m": {"y": -2, "b": 1e-9}, "0": "é"}
    path = tmp_path / "folder" / "data.yml"
    dump_yaml(path, data)
    assert load_yaml(path, RefusalError) == data
    assert list(load_yaml(path, RefusalError)) == list(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2\n", "duplicate key 'a'.*line 2"),
        ("a: {b: 1, c: {d: 1, d: 1}}", "duplicate key 'd'"),
        ("1: a\n1.0: b\n", "duplicate key"),
        ("a: &x [1]\nb: *x\n", "aliases are not allowed.*line 2"),
        ("a: &x\n  b: *x\n", "aliases are not allowed"),
        ("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH}"),
        ("[" * 300_000, f"nested deeper than {MAX_DEPTH}"),
        ("? [1, 2]\n: 3\n", "a key must be text"),
        ("a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("a: [1, 2", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "single document"),
        ("a: 2020-13-45", "not valid YAML: month"),
        ("a: !!timestamp x", "not valid YAML"),
        ("a: 0x_", "not valid YAML"),
        ("a: " + "1" * 5000, "not valid YAML"),
        ("- 1\n", "holds a list, expected a mapping"),
        ("", "holds nothing, expected a mapping"),
        (b"a: \xff\xfe", "not UTF-8 text at byte 3"),
        (b"\x93NUMPY\x01\x00", "not UTF-8 text at byte 0"),
    ],
)
def test_what_is_no_card_or_netlist_is_refused_by_name(text: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match=reason) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "data.yml"))


def test_a_chain_of_aliases_is_refused_before_it_grows(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(RefusalError, match="aliases"):
        load(tmp_path, "\n".join(lines))


def test_the_depth_limit_is_no_lower_than_it_says(tmp_path: Path) -> None:
    inside = MAX_DEPTH - 1
    assert "a" in load(tmp_path, "a: " + "[" * inside + "]" * inside)


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_BYTES", 10)
    assert load(tmp_path, "a: 1234567") == {"a": 1234567}
    with pytest.raises(RefusalError, match="11 bytes, the limit is 10"):
        load(tmp_path, "a: 12345678")


@pytest.mark.parametrize("name", ["missing.yml", "."])
def test_a_path_that_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match=r"cannot be read.*check the path"):
        load_yaml(tmp_path / name, RefusalError)


def test_writing_makes_the_folder_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.bin"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(path.parent) == ["file.bin"]


def test_a_written_file_has_the_modes_that_open_gives(tmp_path: Path) -> None:
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
