"""Public functions are held to their own annotations, so that a wrong type is told by the argument's name."""

from __future__ import annotations

import functools
import inspect
import reprlib
import types
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from optinc_pdk.files import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    Path: "a path",
    np.ndarray: "an array",
    type(None): "None",
}


def held_to_types(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse arguments that are not what a function's annotations say; see `of_type`.

    Raises:
        InputError: Names function, argument, value and what it takes.
    """
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def held(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound = signature.bind(*args, **kwargs)
        hints = _hints(function)
        for argument, value in bound.arguments.items():
            if argument in hints:  # all but a method's self
                bound.arguments[argument] = of_type(f"{name}: {argument}", value, hints[argument])
        return function(*bound.args, **bound.kwargs)

    return held


def hold_fields_to_types(data: Any) -> None:
    """The same for the fields of a dataclass, in its `__post_init__`.

    Raises:
        InputError: Names class, field, value and what it takes.
    """
    hints = _hints(data.__class__)
    for field in fields(data):
        value = of_type(f"{type(data).__name__}: {field.name}", getattr(data, field.name), hints[field.name])
        object.__setattr__(data, field.name, value)  # the class may be frozen


def of_type(name: str, value: Any, hint: Any) -> Any:
    """A value of a type; refuses others, among them a bool where a number belongs and a float where a whole one does.

    Args:
        name: What messages call it.
        value: The value.
        hint: A class, an array (`NDArray[...]`), a tuple of any length (`tuple[int, ...]`, for which a list will do),
            a `Literal`, or a union of such.

    Returns:
        The value; whole numbers of numpy as int, whose arithmetic has no limits.

    Raises:
        InputError: Another type; names value and what it takes.
    """
    takes = list(_members(hint))
    for member in takes:
        if _is(value, member):
            if get_origin(member) is tuple:
                return tuple(of_type(name, each, get_args(member)[0]) for each in value)
            return int(value) if member is int else value
    told = " or ".join(dict.fromkeys(map(_word, takes)))
    raise InputError(f"{name} = {reprlib.repr(value)}: give {told}")


@functools.cache
def _hints(annotated: Hashable) -> dict[str, Any]:
    return get_type_hints(annotated)


def _members(hint: Any) -> Iterator[Any]:
    """The types of a union, or a type alone."""
    if get_origin(hint) in (Union, types.UnionType):
        for member in get_args(hint):
            yield from _members(member)
    else:
        yield hint


def _is(value: Any, member: Any) -> bool:
    kind = get_origin(member) or member
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in get_args(member))
    if kind is tuple:
        return isinstance(value, tuple | list)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return isinstance(value, kind)


def _word(member: Any) -> str:
    kind = get_origin(member) or member
    if kind is Literal:
        return " or ".join(map(str, get_args(member)))
    if kind is tuple:
        return f"a tuple, each of it {_word(get_args(member)[0])}"
    return _WORDS.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
