"""Reading and writing of YAML files with libyaml; only plain data, without duplicate keys and aliases, is accepted."""

from __future__ import annotations

import reprlib
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from optinc_pdk.file_writing import write_atomic

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 100
WIDTH = 120
"""Characters after which PyYAML folds a line."""


class _Loader(yaml.CSafeLoader):
    """Safe loader that refuses duplicate keys, and reports the line of every scalar that it cannot convert."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        # raised for scalars that are nearly a number or a date
        except (ValueError, AttributeError) as fault:
            value = reprlib.repr(getattr(node, "value", ""))
            raise _fault(f"{value} is not a valid number or date", node.start_mark) from fault

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise _fault("a key must be text", key_node.start_mark)
            if key in seen:
                raise _fault(f"duplicate key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _check_events(text: str) -> None:
    """Refuse deep nesting, which crashes the C composer, and aliases, which let a small file expand without limit."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _fault("aliases are not allowed", event.start_mark)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _fault(f"nested deeper than {MAX_DEPTH}", event.start_mark)


def _fault(message: str, mark: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, mark)


def load_yaml(path: Path, error: type[ValueError], expected: str = "a .yml file") -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: The file.
        error: Class of the exception to raise.
        expected: Kind of file that is expected, such as "a .pic.yml file"; the message names it if the file is no text.

    Returns:
        The mapping.

    Raises:
        error: The file is unreadable, too large, empty, not YAML, or not a mapping; the message states the file, the
            line, the fault and the remedy.
    """
    text = _read_text(path, error, expected)
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as fault:
        raise error(f"{path}: {_located(fault, text)}; correct the YAML there") from fault
    if data is None:
        raise error(f"{path}: the file is empty; write it again")
    if not isinstance(data, dict):
        raise error(f"{path}: is {_KINDS.get(type(data), 'one value')}, expected key: value pairs; correct it")
    return data


_KINDS = {list: "a list", str: "text", int: "a number", float: "a number"}


def _located(fault: yaml.YAMLError, text: str) -> str:
    """Describe a fault with its line."""
    if isinstance(fault, yaml.MarkedYAMLError):
        mark = fault.problem_mark or fault.context_mark
        problem = ", ".join(filter(None, (fault.context, fault.problem)))
        # a fault at the end of the text is located behind its last line
        line = min(mark.line + 1, len(text.splitlines())) if mark else 1
        return f"line {line}: not valid YAML: {problem}"
    if isinstance(fault, yaml.reader.ReaderError):
        line = text.count("\n", 0, fault.position) + 1
        return f"line {line}: not valid YAML: character {fault.character!r}: {fault.reason}"
    return f"not valid YAML: {' '.join(str(fault).split())}"


def _read_text(path: Path, error: type[ValueError], expected: str) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(f"{path}: {size} bytes, the limit is {MAX_BYTES}; give a smaller file")
        data = path.read_bytes()
    except OSError as fault:
        raise error(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise error(f"{path}: is not a YAML file (no UTF-8 text at byte {fault.start}); give {expected}") from fault
    if "\0" in text:
        raise error(f"{path}: is not a YAML file (byte {data.index(0)} is zero); give {expected}")
    return text


def yaml_text(data: dict[str, Any]) -> str:
    """Return plain data as YAML text, with keys in their order and innermost collections on one line."""
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=WIDTH))


def dump_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write plain data to a YAML file atomically, in the format of :func:`yaml_text`."""
    write_atomic(path, yaml_text(data).encode("utf-8"))
