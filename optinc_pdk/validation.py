"""Validation of arguments and dataclass fields against their type annotations."""

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

from optinc_pdk.errors import InputError

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


def validate_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that its arguments are checked against its annotations, see :func:`validate_type`.

    Raises:
        InputError: An argument has another type; the message states function, argument, value and accepted types.
    """
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def validated(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound = signature.bind(*args, **kwargs)
        hints = _hints(function)
        for argument, value in bound.arguments.items():
            if argument in hints:  # all but a method's self
                bound.arguments[argument] = validate_type(f"{name}: {argument}", value, hints[argument])
        return function(*bound.args, **bound.kwargs)

    return validated


def validate_fields(data: Any) -> None:
    """Check the fields of a dataclass instance against their annotations; for use in `__post_init__`.

    Raises:
        InputError: A field has another type; the message states class, field, value and accepted types.
    """
    hints = _hints(data.__class__)
    for field in fields(data):
        value = validate_type(f"{type(data).__name__}: {field.name}", getattr(data, field.name), hints[field.name])
        object.__setattr__(data, field.name, value)  # the class may be frozen


def validate_type(name: str, value: Any, hint: Any) -> Any:
    """Check a value against a type annotation.

    A bool is not accepted as a number, and a float is not accepted as an integer.

    Args:
        name: Name of the value in messages.
        value: The value.
        hint: A class, an array (`NDArray[...]`), a tuple of any length (`tuple[int, ...]`, which also accepts lists),
            a `Literal`, or a union of these.

    Returns:
        The value; NumPy integers are converted to int, which cannot overflow.

    Raises:
        InputError: The value has another type; the message states value and accepted types.
    """
    accepted = list(_members(hint))
    for member in accepted:
        if _is(value, member):
            if get_origin(member) is tuple:
                return tuple(validate_type(name, each, get_args(member)[0]) for each in value)
            return int(value) if member is int else value
    words = " or ".join(dict.fromkeys(map(_word, accepted)))
    raise InputError(f"{name} = {reprlib.repr(value)}: give {words}")


@functools.cache
def _hints(annotated: Hashable) -> dict[str, Any]:
    return get_type_hints(annotated)


def _members(hint: Any) -> Iterator[Any]:
    """Yield the types of a union, or a single type."""
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
