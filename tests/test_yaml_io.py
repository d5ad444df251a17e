"""YAML files: round trip, and errors for invalid files."""

from pathlib import Path

import pytest

from optinc_pdk import yaml_io
from optinc_pdk.errors import InputError
from optinc_pdk.yaml_io import MAX_DEPTH, dump_yaml, load_yaml


class UnusableFileError(InputError):
    """The error class that these tests pass."""


def load(folder: Path, text: str | bytes) -> dict[str, object]:
    path = folder / "data.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path, UnusableFileError)


def test_plain_data_is_read_as_written_in_its_order(tmp_path: Path) -> None:
    data = {"z": 1, "a": [1.5, "text", None, True], "m": {"y": -2, "b": 1e-9}, "0": "é"}
    path = tmp_path / "folder" / "data.yml"
    dump_yaml(path, data)
    assert load_yaml(path, UnusableFileError) == data
    assert list(load_yaml(path, UnusableFileError)) == list(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2\n", "line 2: .*duplicate key 'a'"),
        ("a: {b: 1, c: {d: 1, d: 1}}", "duplicate key 'd'"),
        ("1: a\n1.0: b\n", "duplicate key"),
        ("a: &x [1]\nb: *x\n", "line 2: .*aliases"),
        ("a: &x\n  b: *x\n", "aliases are not allowed"),
        ("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH}"),
        ("[" * 300_000, f"nested deeper than {MAX_DEPTH}"),
        ("? [1, 2]\n: 3\n", "a key must be text"),
        ("a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("a: [1, 2", "line 1: not valid YAML"),
        ("a: 1\n---\nb: 2\n", "single document"),
        ("a: 2020-13-45", "line 1: .*'2020-13-45'"),
        ("a: 1\nb: !!timestamp x", "line 2: .*'x'"),
        ("a: 0x_", "line 1: .*'0x_'"),
        ("a: " + "1" * 5000, "not valid YAML"),
        ("- 1\n", "is a list"),
        ("", "is empty"),
        ("# a comment\n", "is empty"),
        ("text", "is text"),
        ("7", "is a number"),
        ("a: 1\nb: \x01\n", "line 2: .*not valid YAML"),
        (b"a: \xff\xfe", "not a YAML file.* byte 3.* give a .yml file"),
        (b"\x00\x06\x00\x02", "not a YAML file.*byte 0"),
        (b"\x93NUMPY\x01\x00", "not a YAML file.*byte 0"),
    ],
)
def test_invalid_files_are_refused_by_name(text: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match=reason) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "data.yml"))
    assert "; " in str(caught.value), "no remedy"
    assert "<unicode string>" not in str(caught.value)


def test_a_chain_of_aliases_is_refused_before_it_expands(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(UnusableFileError, match="aliases"):
        load(tmp_path, "\n".join(lines))


def test_the_depth_limit_is_inclusive(tmp_path: Path) -> None:
    inside = MAX_DEPTH - 1
    assert "a" in load(tmp_path, "a: " + "[" * inside + "]" * inside)


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_io, "MAX_BYTES", 10)
    assert load(tmp_path, "a: 1234567") == {"a": 1234567}
    with pytest.raises(UnusableFileError, match=r"11 .* 10"):
        load(tmp_path, "a: 12345678")


@pytest.mark.parametrize("name", ["missing.yml", "."])
def test_a_path_without_a_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match="cannot be read"):
        load_yaml(tmp_path / name, UnusableFileError)
