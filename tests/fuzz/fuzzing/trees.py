"""Mutations of trees of dicts and lists, as YAML and JSON files contain them."""

from __future__ import annotations

import copy
import json
from datetime import date
from random import Random
from typing import Any

import yaml

Key = Any
Place = tuple[Any, Key]
"""A container and a key or index in it."""

NUMBERS = (
    0, -1, 1, 2, 0.5, -0.0, 1e-320, 1e308, -1e308, 1e16, 4, 64, 255, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**32,
    2**53 + 1, 2**63 - 1,
    2**63, -(2**63) - 1, 2**64, 10**30, 10**400, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip
TEXTS = (
    "", " ", "nan", "null", "true", "1", "-1", "a", "o1", "a b", "a,b", "a,b,c", "a\nb", "\x07", "\x1b[31m",
    "../../etc/passwd", "/dev/zero", "x" * 10_000,
    "é", "\U0001f600", "\u202e", ".", "..", "%s", "{}", "core", "metal", "svd", "approx",
)  # fmt: skip
OTHERS = (None, True, False, [], {}, [[]], [None], {"a": 1}, {"value": 1.0}, [1, 2], [1, 2, 3])


def mutate_tree(rng: Random, data: Any) -> Any:
    """Return a changed copy of a tree."""
    root = {"": copy.deepcopy(data)}
    for _ in range(rng.choice((1, 1, 1, 2, 2, 4))):
        places = list(_places(root))
        _change(rng, *rng.choice(places), places)
    return root[""]


def _places(tree: Any) -> list[Place]:
    found: list[Place] = []
    stack = [tree]
    while stack and len(found) < 20_000:
        each = stack.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each))
        for key in keys:
            found.append((each, key))
            if isinstance(each[key], dict | list):
                stack.append(each[key])
    return found


def _change(rng: Random, parent: Any, key: Key, places: list[Place]) -> None:
    """Change one place of a tree."""
    value, what = parent[key], rng.randrange(12)
    if what in (0, 1, 2):
        parent[key] = odd_value(rng)
    elif what == 3 and isinstance(value, int | float) and not isinstance(value, bool):
        parent[key] = _scaled(rng, value)
    elif what == 4 and key != "":
        del parent[key]
    elif what == 5 and isinstance(parent, dict):
        parent[rng.choice((odd_key(rng), rng.choice(places)[1]))] = copy.deepcopy(value)
    elif what == 6 and isinstance(parent, dict) and key != "":
        parent[odd_key(rng)] = parent.pop(key)
    elif what == 7 and isinstance(parent, list):
        parent[key:key] = [copy.deepcopy(value)] * rng.choice((1, 1, 2, 100))
    elif what == 8:
        other, place = rng.choice(places)
        if place in other if isinstance(other, dict) else place < len(other):
            parent[key] = copy.deepcopy(other[place])
    elif what == 9:
        parent[key] = rng.choice(([value], {"a": value}, [value, value], str(value)[:200]))
    elif isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        parent[key] = value[:at] + rng.choice(TEXTS)[:50] + value[at + rng.randrange(2) :]
    elif isinstance(value, list) and value:
        rng.shuffle(value)
        del value[rng.randrange(len(value) + 1) :]
    else:
        parent[key] = odd_value(rng)


def odd_value(rng: Random) -> Any:
    """A value that most keys do not allow."""
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, NUMBERS, TEXTS, OTHERS))))


def odd_key(rng: Random) -> Any:
    """A key that most mappings do not know."""
    return rng.choice((*TEXTS, 0, 1, -1, 1.5, float("nan"), None, True, date(2001, 1, 1)))


def _scaled(rng: Random, value: float) -> float:
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice((-1, 1, 2, 1000))
    try:
        return value * rng.choice((-1.0, 0.5, 1.001, 2.0, 10.0, 1e-9, 1e9, 1e300))
    except OverflowError:
        return 0


class _Dumper(yaml.CSafeDumper):
    """Dumper that writes no aliases: they are a text mutation."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def yaml_bytes(tree: Any) -> bytes:
    """The tree as YAML."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True).encode("utf-8", "surrogatepass")


def json_bytes(tree: Any) -> bytes:
    """The tree as JSON; NaN and infinity are written as Python does."""
    try:
        return json.dumps(tree).encode()
    except TypeError:  # a date as a key
        return json.dumps(str(tree)).encode()
