"""YAML files: round trip, and errors for invalid files."""

import datetime
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import given, settings, strategies

from optinc_pdk.errors import InputError
from optinc_pdk.io import yaml_files
from optinc_pdk.io.reading import NETLIST, FileKind
from optinc_pdk.io.yaml_files import MAX_DEPTH, dump_yaml, load_yaml


class UnusableFileError(InputError):
    """The error class that these tests pass."""


def load(folder: Path, text: str | bytes, kind: FileKind = NETLIST) -> dict[str, object]:
    path = folder / "data.yml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_yaml(path, kind, UnusableFileError)


def test_plain_data_is_read_as_written_in_its_order(tmp_path: Path) -> None:
    data = {"z": 1, "a": [1.5, "text", None, True], "m": {"y": -2, "b": 1e-9}, "0": "é"}
    path = tmp_path / "folder" / "data.yml"
    dump_yaml(path, data)
    assert load_yaml(path, NETLIST, UnusableFileError) == data
    assert list(load_yaml(path, NETLIST, UnusableFileError)) == list(data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\na: 2\n", "line 2: .*duplicate key 'a'"),
        ("a: {b: 1, c: {d: 1, d: 1}}", "duplicate key 'd'"),
        ("1: a\n", "line 1: .*the key 1 must be text"),
        ("a:\n  .nan: a\n", "line 2: .*the key nan must be text"),
        ("~: a\n", "the key None must be text"),
        ("a: 1\n<<: {b: 2}\n", "line 2: .*merge"),
        ("a: !!set {b, c}\n", "line 1: .*set"),
        ("a: !!seq b\n", "line 1: .*seq"),
        ("a: !!binary aGVsbG8=\n", "line 1: .*binary"),
        ("a: !!int ''\n", "line 1: .*'' is not a valid number"),
        ("a: !!int " + "1:" * 1000 + "1\n", "line 1: .* is not a valid number"),
        ("a: !!bool x\n", "line 1: .*'x'"),
        ("%YAML 1.1\n---\na: 1\n", "line 1: .*directives"),
        ("".join(f"%TAG !{i}! x\n" for i in range(9)) + "---\na: 1\n", "directives"),
        ("a: &x [1]\nb: *y\n", r"line 2: .*\*y stands for no value"),
        ("a: &x\n  b: *x\n", r"line 2: .*\*x stands for no value"),
        ("a: &x [1]\n? *x\n: 2\n", "must be text"),
        ("a: &x a\n*x : 2\n", "duplicate key 'a'"),
        ("a: " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"nested deeper than {MAX_DEPTH}"),
        ("[" * 300_000, f"nested deeper than {MAX_DEPTH}"),
        ("? [1, 2]\n: 3\n", "must be text"),
        ("a: !!python/object/apply:os.getcwd []", "not valid YAML"),
        ("a: [1, 2", "line 1: not valid YAML"),
        ("a: 1\n---\nb: 2\n", "single document"),
        ("a: 2020-13-45", "line 1: .*'2020-13-45'"),
        ("a: 1\nb: !!timestamp x", "line 2: .*'x'"),
        ("a: 0x_", "line 1: .*'0x_'"),
        ("- 1\n", "is a list"),
        ("", "is empty"),
        ("# a comment\n", "is empty"),
        ("text", "is text"),
        ("7", "is a number"),
        ("a: 1\nb: \x01\n", "line 2: .*not valid YAML"),
        (b"a: \xff\xfe", "not a YAML file.* byte 3.* give a .yml file"),
        (b"\x00\x06\x00\x02", "is a layout file, not YAML; give a .yml file"),
        (b"%SEMI-OASIS\r\n", "is a layout"),
        (b"\x93NUMPY\x01\x00", "not a YAML file.*byte 0"),
    ],
)
def test_invalid_files_are_refused_by_name(text: str | bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match=reason) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "data.yml"))
    assert "; " in str(caught.value), "no remedy"
    assert "<unicode string>" not in str(caught.value)


def test_aliases_are_the_values_of_their_anchors(tmp_path: Path) -> None:
    text = "a: &x [1, &y {b: &z 2}]\nc: {d: *x, e: *y}\nf: [*z, &w 3, *w]\n"
    assert load(tmp_path, text) == yaml.safe_load(text)
    # as PyYAML writes lists that recur
    layer = [1, 0]
    data = {"a": {"layer": layer}, "b": {"layer": layer}}
    assert "*id001" in yaml.safe_dump(data)
    assert load(tmp_path, yaml.safe_dump(data)) == data


def test_a_chain_of_aliases_is_refused_before_it_expands(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    with pytest.raises(UnusableFileError, match=r"line 6: .*aliases stand for more than 100,000 values"):
        load(tmp_path, "\n".join(lines))


def test_aliases_count_to_the_limits_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MAX_REPEATED", 6)
    # a list of two values is three values
    assert load(tmp_path, "a: &x [1, 2]\nb: [*x, *x]\n") == {"a": [1, 2], "b": [[1, 2], [1, 2]]}
    with pytest.raises(UnusableFileError, match=r"line 2: .*more than 6 values"):
        load(tmp_path, "a: &x [1, 2]\nb: [*x, *x, *x]\n")
    # keys are values too, and so is the document
    monkeypatch.setattr(yaml_files, "MAX_VALUES", 13)
    assert "b" in load(tmp_path, "a: &x [1, 2]\nb: [*x, *x]\n")
    monkeypatch.setattr(yaml_files, "MAX_VALUES", 12)
    with pytest.raises(UnusableFileError, match="more than 12 values"):
        load(tmp_path, "a: &x [1, 2]\nb: [*x, *x]\n")


def test_aliases_do_not_nest_deeper_than_the_limit(tmp_path: Path) -> None:
    lines = ["a0: &a0 [1]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, MAX_DEPTH + 5))]
    with pytest.raises(UnusableFileError, match=f"line {MAX_DEPTH}: .*nested deeper than {MAX_DEPTH}"):
        load(tmp_path, "\n".join(lines))
    assert len(load(tmp_path, "\n".join(lines[: MAX_DEPTH - 1]))) == MAX_DEPTH - 1


def test_the_depth_limit_is_inclusive(tmp_path: Path) -> None:
    inside = MAX_DEPTH - 1
    assert "a" in load(tmp_path, "a: " + "[" * inside + "]" * inside)


def test_a_file_too_large_is_not_read(tmp_path: Path) -> None:
    ten = replace(NETLIST, max_bytes=10)
    assert load(tmp_path, "a: 1234567", ten) == {"a": 1234567}
    with pytest.raises(UnusableFileError, match=r"11 bytes, .* 10; "):
        load(tmp_path, "a: 12345678", ten)


@pytest.mark.parametrize(
    "text", ["a: [" + "b, " * 50, "a: [" + "{}, " * 50, "a:\n" + "- [c]\n" * 25, "a: [" + "&x d, " * 50]
)
def test_too_many_values_are_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MAX_VALUES", 50)
    with pytest.raises(UnusableFileError, match=r"line \d+: .*more than 50 values"):
        load(tmp_path, text)


def test_the_limit_of_values_is_inclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MAX_VALUES", 5)
    # the mapping, its key, the list and its values
    assert load(tmp_path, "a: [b, c]") == {"a": ["b", "c"]}


def test_the_largest_netlist_is_within_all_limits() -> None:
    """The paper's network has 41,664 MZIs: a netlist of 25.8 MB with 2.7 million parts, and a bias of 8.9 MB."""
    assert yaml_files.MAX_VALUES > 1.8 * 2.7e6
    assert NETLIST.max_bytes > 2.4 * 25.8e6


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("yes", True),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1:30", 90),
        ("1e-9", "1e-9"),
        ("1.0e-9", 1e-9),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
        ("2020-01-02", datetime.date(2020, 1, 2)),
        ("!!map {}", {}),
    ],
)
def test_scalars_are_read_as_by_pyyaml(text: str, value: object, tmp_path: Path) -> None:
    read = load(tmp_path, f"a: {text}\nb: [{text}, {text}]\n")
    assert (
        read
        == {"a": value, "b": [value, value]}
        == yaml.load(f"a: {text}\nb: [{text}, {text}]\n", Loader=yaml.CSafeLoader)
    )
    assert type(read["a"]) is type(value)


@settings(max_examples=30)
@given(
    strategies.recursive(
        strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | strategies.text(),
        lambda inner: (
            strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.text(), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_plain_data_is_read_as_by_pyyaml(data: object) -> None:
    text = yaml_files.yaml_text({"data": data})
    with TemporaryDirectory() as folder:
        assert repr(load(Path(folder), text)) == repr(yaml.safe_load(text))


def test_numbers_that_are_too_long_are_text(tmp_path: Path) -> None:
    """Python converts numbers in base 60 or 10 in a time quadratic in their length."""
    longest = "1" * yaml_files.MAX_NUMBER
    for value in ("1" + longest, "1:" * 10**6 + "1", "1:" * 10**6 + ".5"):
        assert load(tmp_path, f"a: {value}") == {"a": value}
    assert load(tmp_path, f"a: {longest}") == {"a": int(longest)}


@pytest.mark.parametrize("name", ["missing.yml", "."])
def test_a_path_without_a_file_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableFileError, match="cannot be read"):
        load_yaml(tmp_path / name, NETLIST, UnusableFileError)
