"""Reading and writing of YAML files with libyaml; only plain data, without duplicate keys and aliases, is accepted."""

from __future__ import annotations

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
    """Safe loader that refuses duplicate keys."""

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


def load_yaml(path: Path, error: type[ValueError]) -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: The file.
        error: Class of the exception to raise.

    Returns:
        The mapping.

    Raises:
        error: The file is unreadable, too large, not YAML, or not a mapping; the message states the file and the fault.
    """
    text = _read_text(path, error)
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_Loader)
    # PyYAML's constructors raise the last two for scalars that are nearly a number or a date
    except (yaml.YAMLError, ValueError, AttributeError) as fault:
        raise error(f"{path}: not valid YAML: {' '.join(str(fault).split())}") from fault
    if not isinstance(data, dict):
        content = "nothing" if data is None else f"a {type(data).__name__}"
        raise error(f"{path}: holds {content}, expected a mapping")
    return data


def _read_text(path: Path, error: type[ValueError]) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(f"{path}: {size} bytes, the limit is {MAX_BYTES}; give a smaller file")
        return path.read_text(encoding="utf-8")
    except OSError as fault:
        raise error(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    except UnicodeDecodeError as fault:
        raise error(f"{path}: not UTF-8 text at byte {fault.start}; is it a YAML file?") from fault


def yaml_text(data: dict[str, Any]) -> str:
    """Return plain data as YAML text, with keys in their order and innermost collections on one line."""
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=WIDTH))


def dump_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write plain data to a YAML file atomically, in the format of :func:`yaml_text`."""
    write_atomic(path, yaml_text(data).encode("utf-8"))
