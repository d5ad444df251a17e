"""YAML in and out: C speed, safe, duplicate keys refused, written atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import yaml


class InputError(ValueError):
    """Something that a user gave cannot be used; the message names it, the fault and the mend."""


MAX_BYTES = 64 * 2**20
MAX_DEPTH = 100


class _Loader(yaml.CSafeLoader):
    """Refuses duplicate keys."""

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
    """Refuse what the C composer does not survive or what a small file becomes huge by; our files have neither."""
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
    """The mapping in a YAML file.

    Raises:
        error: Not readable, too large, not YAML, or not a mapping; the message names the file and the fault.
    """
    text = _read_text(path, error)
    try:
        _check_events(text)
        data = yaml.load(text, Loader=_Loader)
    # the last two: what PyYAML's constructors raise at a scalar that only looks like a number or a date
    except (yaml.YAMLError, ValueError, AttributeError) as fault:
        raise error(f"{path}: not valid YAML: {' '.join(str(fault).split())}") from fault
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise error(f"{path}: holds {found}, expected a mapping")
    return data


def _read_text(path: Path, error: type[ValueError]) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise error(f"{path}: {size} bytes, the limit is {MAX_BYTES}; this is not one of our files")
        return path.read_text(encoding="utf-8")
    except OSError as fault:
        raise error(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
    except UnicodeDecodeError as fault:
        raise error(f"{path}: not UTF-8 text at byte {fault.start}; is it a YAML file?") from fault


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def saved_bytes(save: Callable[[str], object]) -> bytes:
    """What is written by something that writes files by their names alone, as KLayout does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "saved")
        save(str(path))
        return path.read_bytes()


WIDTH = 120


def yaml_text(data: dict[str, Any]) -> str:
    """Plain data as YAML, keys in their order, innermost collections on one line."""
    return str(yaml.dump(data, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=WIDTH))


def dump_yaml(path: Path, data: dict[str, Any]) -> None:
    """Write plain data as YAML, keys in their order, innermost collections on one line."""
    write_atomic(path, yaml_text(data).encode("utf-8"))
