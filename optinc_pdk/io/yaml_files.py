"""Reading and writing of YAML files with libyaml: plain data only, with text as keys and few aliases."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from optinc_pdk.gc_control import gc_paused
from optinc_pdk.io.reading import GDS, OASIS, FileKind, read_bytes
from optinc_pdk.io.writing import write_atomic

MAX_DEPTH = 100
# The netlist of 41,664 MZIs has 2.7 million.
MAX_VALUES = 5_000_000
# Aliases let a small file stand for very many values: a netlist that PyYAML writes repeats a few lists of settings.
MAX_REPEATED = 100_000
# Longest number or date, because converting takes a time quadratic in the length; longer plain values are text.
MAX_NUMBER = 64
WIDTH = 120
"""Characters after which PyYAML folds a line."""

# Lines that configure the parser, before a document. libyaml compares each with all before it.
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_TEXT = f"{_TAG}str"
_SCALARS = {
    f"{_TAG}{name}": yaml.SafeLoader.yaml_constructors[f"{_TAG}{name}"]
    for name in ("null", "bool", "int", "float", "timestamp", "str")
}
_COLLECTIONS = (None, "!", f"{_TAG}map", f"{_TAG}seq")


class _Scalars:
    """Conversion of scalars to text, numbers, dates, booleans and None; plain ones, which recur, are converted once."""

    def __init__(self) -> None:
        self._constructor = yaml.constructor.SafeConstructor()
        self._resolve: Callable[..., str] = yaml.resolver.Resolver().resolve
        self._plain: dict[str, Any] = {}

    def value(self, event: yaml.ScalarEvent) -> Any:
        """Return the value of a scalar."""
        text = event.value
        if not event.implicit[0]:
            return text if event.tag is None else self._converted(event)
        if text not in self._plain:
            self._plain[text] = self._converted(event)
        return self._plain[text]

    def _converted(self, event: yaml.ScalarEvent) -> Any:
        tag, text = event.tag, event.value
        if tag in (None, "!"):
            tag = _TEXT if len(text) > MAX_NUMBER else self._resolve(yaml.ScalarNode, text, event.implicit)
        if tag not in _SCALARS:
            raise _fault(f"the tag {reprlib.repr(tag)} is not allowed", event.start_mark)
        try:
            if tag != _TEXT and len(text) > MAX_NUMBER:
                raise ValueError(f"longer than {MAX_NUMBER} characters")
            return _SCALARS[tag](self._constructor, yaml.ScalarNode(tag, text))
        # raised for scalars that are nearly a number or a date
        except (ValueError, AttributeError, LookupError, OverflowError) as fault:
            raise _fault(f"{reprlib.repr(text)} is not a valid number or date", event.start_mark) from fault


@dataclass(frozen=True)
class _Anchored:
    """A value with an anchor: the value, the number of values in it, and the number of its levels of collections."""

    value: Any
    count: int = 1
    depth: int = 0


class _Anchors:
    """Values with anchors, and the number of values that aliases stand for."""

    def __init__(self) -> None:
        self._known: dict[str, _Anchored] = {}
        # the anchor of each open collection with the number of values before it, and the levels in it so far
        self._open: list[tuple[str | None, int]] = [(None, 0)]
        self._depths = [0]
        self._repeated = 0

    def add(self, anchor: str, value: Any) -> None:
        """Add a scalar."""
        self._known[anchor] = _Anchored(value)

    def begin(self, anchor: str | None, values: int) -> None:
        """Begin a collection behind a number of values."""
        self._open.append((anchor, values))
        self._depths.append(0)

    def end(self, value: Any, values: int) -> None:
        """End the last collection that began."""
        (anchor, before), depth = self._open.pop(), self._depths.pop() + 1
        self._depths[-1] = max(self._depths[-1], depth)
        if anchor is not None:
            self._known[anchor] = _Anchored(value, values + 1 - before, depth)

    def alias(self, event: yaml.AliasEvent) -> _Anchored:
        """Return what an alias stands for: a value that was complete before it."""
        same = self._known.get(event.anchor or "")
        if same is None:
            raise _fault(f"the alias *{event.anchor} stands for no value before it", event.start_mark)
        if len(self._open) - 1 + same.depth > MAX_DEPTH:
            raise _fault(f"nested deeper than {MAX_DEPTH}", event.start_mark)
        self._repeated += same.count
        if self._repeated > MAX_REPEATED:
            raise _fault(f"aliases stand for more than {MAX_REPEATED:,} values", event.start_mark)
        self._depths[-1] = max(self._depths[-1], same.depth)
        return same


@gc_paused()
def _parse(text: str) -> Any:
    """Return the data of a YAML document, built while libyaml parses it, so that nothing beyond a limit is parsed.

    An alias is the value of its anchor itself, so that it takes no memory; the values that it stands for count to the
    limits of aliases and of the file.
    """
    if (directive := _DIRECTIVE.search(text)) is not None:
        line = text.count("\n", 0, directive.start())
        raise _fault("directives are not allowed", yaml.Mark("", 0, line, 0, "", 0))
    scalars = _Scalars()
    # the collections that contain the next value, below a list for the document itself, and the key of that value
    document: list[Any] = []
    stack: list[Any] = [document]
    keys: list[str | None] = [None]
    anchors = _Anchors()
    values = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent):
            value = scalars.value(event)
            if event.anchor is not None:
                anchors.add(event.anchor, value)
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag not in _COLLECTIONS:
                raise _fault(f"the tag {reprlib.repr(event.tag)} is not allowed", event.start_mark)
            if len(stack) > MAX_DEPTH:
                raise _fault(f"nested deeper than {MAX_DEPTH}", event.start_mark)
            stack.append({} if isinstance(event, yaml.MappingStartEvent) else [])
            keys.append(None)
            anchors.begin(event.anchor, values)
            continue
        elif isinstance(event, yaml.CollectionEndEvent):
            value = stack.pop()
            keys.pop()
            anchors.end(value, values)
        elif isinstance(event, yaml.AliasEvent):
            same = anchors.alias(event)
            value, values = same.value, values + same.count - 1
        elif isinstance(event, yaml.DocumentStartEvent) and document:
            raise _fault("expected a single document", event.start_mark)
        else:
            continue
        values += 1
        if values > MAX_VALUES:
            raise _fault(f"more than {MAX_VALUES:,} values", event.start_mark)
        parent, key = stack[-1], keys[-1]
        if type(parent) is list:
            parent.append(value)
        elif key is None:
            keys[-1] = _key(value, parent, event)
        else:
            parent[key] = value
            keys[-1] = None
    return document[0] if document else None


def _key(key: Any, mapping: dict[str, Any], event: yaml.Event) -> str:
    """Return a key after checking that it is text and new; integers as keys could be chosen to have equal hashes."""
    if not isinstance(key, str):
        raise _fault(f"the key {reprlib.repr(key)} must be text, put it in quotes", event.start_mark)
    if key in mapping:
        raise _fault(f"duplicate key {key!r}", event.start_mark)
    return key


def _fault(message: str, mark: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, message, mark)


def load_yaml(path: Path, kind: FileKind, error: type[ValueError], expected: str = "a .yml file") -> dict[str, Any]:
    """Read a YAML file whose top level is a mapping.

    Args:
        path: The file.
        kind: Kind of the file, which limits its size.
        error: Class of the exception to raise.
        expected: Kind of file that is expected, such as "a .pic.yml file"; the message names it if the file is no text.

    Returns:
        The mapping.

    Raises:
        error: The file is unreadable, too large, empty, not YAML, or not a mapping; it is nested deeper than
            ``MAX_DEPTH`` or has more than ``MAX_VALUES`` values, aliases of more than ``MAX_REPEATED`` values, or a key
            that is not text. The message states the file, the line, the fault and the remedy.
    """
    text = _decoded(path, read_bytes(path, kind, error), error, expected)
    try:
        data = _parse(text)
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
        if "nesting depth" in problem:
            # the parser looks ahead, and has a limit of its own
            problem = f"nested deeper than {MAX_DEPTH}"
        # a fault at the end of the text is located behind its last line
        line = min(mark.line + 1, len(text.splitlines())) if mark else 1
        return f"line {line}: not valid YAML: {problem}"
    if isinstance(fault, yaml.reader.ReaderError):
        line = text.count("\n", 0, fault.position) + 1
        return f"line {line}: not valid YAML: character {fault.character!r}: {fault.reason}"
    return f"not valid YAML: {' '.join(str(fault).split())}"


def _decoded(path: Path, data: bytes, error: type[ValueError], expected: str) -> str:
    """Return the text of a file."""
    if data.startswith((GDS, OASIS)):
        raise error(f"{path}: is a layout file, not YAML; give {expected}")
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
