"""Validation of arguments and dataclass fields against their type annotations.

:func:`validate_api` checks the arguments of everything that a package exports. Calls from within this project are not
checked: mypy does that, and inner loops stay fast.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import reprlib
import sys
import types
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from numbers import Complex, Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from optinc_pdk.errors import InputError

_P = ParamSpec("_P")
_R = TypeVar("_R")

PROJECT = ("optinc_pdk", "optinc_collective")
"""Packages between which arguments are not checked."""
_WORDS = {
    int: "a whole number",
    float: "a number",
    complex: "a number",
    bool: "True or False",
    str: "text",
    Path: "a path",
    np.ndarray: "an array",
    type(None): "None",
}
_NUMBERS: dict[Any, type] = {int: Integral, float: Real, complex: Complex}
_DTYPE_KINDS = {"i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "b": "b"}
"""Kinds of arrays that are accepted for an annotated kind."""


class _ArrayLike:
    """Stands for `numpy.typing.ArrayLike`, a union of many types."""


class _Unresolved(str):
    """Name of a class that its module imports for type checkers only."""


def validate_arguments(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a function so that its arguments are checked against its annotations, see :func:`validate_type`.

    Raises:
        InputError: An argument has another type; the message states function, argument, value and accepted types.
    """
    return _validated(function, internal=True)


def validate_api(package: str, nan: tuple[str, ...] = ()) -> None:
    """Check the arguments of the functions and classes in a package's `__all__` when other code calls them.

    Numbers and arrays that are not a number (NaN) are refused as well, except in the fields of a dataclass: there they
    stand for results that do not exist.

    Args:
        package: Name of the package; its `__init__` calls this function at its end.
        nan: Names of the functions that accept NaN, or refuse it themselves with a message that says more.
    """
    namespace = vars(sys.modules[package])
    for name in namespace["__all__"]:
        item = namespace[name]
        if inspect.isfunction(item):
            checked = _validated(item, nan=name in nan)
            home = vars(sys.modules[item.__module__])
            # pickle looks a function up in its own module
            if home.get(name) is item:
                home[name] = checked
            namespace[name] = checked
        elif inspect.isclass(item) and item.__module__.startswith(PROJECT) and _has_plain_methods(item):
            _validate_methods(item)


def _has_plain_methods(item: type) -> bool:
    """Whether the constructor of a class is its own `__init__`; pydantic's models check themselves."""
    own = not hasattr(item, "model_fields") and not getattr(item, "_is_protocol", False)
    return own and not issubclass(item, BaseException | tuple)


def _validate_methods(item: type) -> None:
    """Check the arguments of the constructor and of the public methods of a class."""
    for name, member in list(vars(item).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(item, name, _validated(member))
        elif isinstance(member, classmethod | staticmethod) and inspect.isfunction(member.__func__):
            setattr(item, name, type(member)(_validated(member.__func__)))


def _validated(function: Callable[_P, _R], internal: bool = False, nan: bool = False) -> Callable[_P, _R]:
    """Wrap a function with the check of its arguments.

    Args:
        function: The function.
        internal: Whether calls from within this project are checked as well.
        nan: Whether numbers may be NaN, as in constructors.
    """
    if hasattr(function, "validates_arguments"):
        return function
    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")
    nan = nan or function.__qualname__.endswith("__init__")

    @functools.wraps(function)
    def validated(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not internal and _calling_module().startswith(PROJECT):
            return function(*args, **kwargs)
        # arguments that are missing are reported after those that are wrong
        bound = signature.bind_partial(*args, **kwargs)
        hints = annotations_of(function)
        for argument, value in bound.arguments.items():
            if argument not in hints:  # a method's self
                continue
            where, hint, kind = f"{name}: {argument}", hints[argument], signature.parameters[argument].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[argument] = tuple(validate_type(where, each, hint, nan) for each in value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                for key, each in value.items():
                    validate_type(f"{name}: {key}", each, hint, nan)
            else:
                bound.arguments[argument] = validate_type(where, value, hint, nan)
        signature.bind(*args, **kwargs)
        return function(*bound.args, **bound.kwargs)

    validated.validates_arguments = True  # type: ignore[attr-defined]
    return validated


def _calling_module() -> str:
    """Return the name of the module that calls a validated function; ``dataclasses.replace`` counts as its caller."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "dataclasses":
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def validate_fields(data: Any, nan: bool = True) -> None:
    """Check the fields of a dataclass instance against their annotations; for use in `__post_init__`.

    Args:
        data: The instance.
        nan: Whether numbers may be NaN, and entries of sequences are left to others, as in dataclasses of results.

    Raises:
        InputError: A field has another type; the message states class, field, value and accepted types.
    """
    hints = _hints(data.__class__)
    for field in fields(data):
        value = validate_type(f"{type(data).__name__}: {field.name}", getattr(data, field.name), hints[field.name], nan)
        object.__setattr__(data, field.name, value)  # the class may be frozen


def validate_type(name: str, value: Any, hint: Any, nan: bool = True) -> Any:
    """Check a value against a type annotation.

    A bool is not accepted as a number, and a float is not accepted as an integer.

    Args:
        name: Name of the value in messages.
        value: The value.
        hint: A class, an array (`NDArray[...]`), a tuple of any length (`tuple[int, ...]`, which also accepts lists),
            a `Literal`, or a union of these. Other annotations are accepted as far as their class can be checked.
        nan: Whether numbers and entries of arrays may be NaN.

    Returns:
        The value; NumPy integers are converted to int, which cannot overflow, and text to a path where only a path is
        accepted.

    Raises:
        InputError: The value has another type; the message states value and accepted types.
    """
    accepted = list(_members(hint))
    if Path in accepted and isinstance(value, str) and not value:
        raise InputError(f"{name} = '': is an empty path; give a file or folder")
    for member in accepted:
        if _is(value, member):
            _check_value(name, value, nan)
            if get_origin(member) is tuple:
                return _checked_tuple(name, value, get_args(member), nan)
            if not nan:
                _check_entries(name, value, member)
            return int(value) if member is int else value
    if Path in accepted and isinstance(value, str | os.PathLike):
        _check_value(name, value, nan)
        return Path(value)
    if accepted == [_ArrayLike]:
        raise InputError(f"{name} {_array_fault(value)}")
    words = " or ".join(dict.fromkeys(map(_word, accepted)))
    dtype = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
    raise InputError(f"{name} = {reprlib.repr(value)}{dtype}: give {words}")


def _check_entries(name: str, value: Any, hint: Any) -> None:
    """Check the entries of a sequence or a mapping against their annotation."""
    hints = get_args(hint)
    if isinstance(value, Mapping) and len(hints) == 2:
        for key, entry in value.items():
            validate_type(f"{name}: a key", key, hints[0], nan=False)
            validate_type(f"{name}[{reprlib.repr(key)}]", entry, hints[1], nan=False)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(hints) == 1:
        for number, entry in enumerate(value):
            validate_type(f"{name}[{number}]", entry, hints[0], nan=False)


def _checked_tuple(name: str, value: Iterable[Any], hints: tuple[Any, ...], nan: bool) -> tuple[Any, ...]:
    """Check the entries of a tuple: of any length and one type, or of given types."""
    entries = tuple(value)
    if len(hints) == 2 and hints[1] is Ellipsis:
        hints = hints[:1] * len(entries)
    if len(hints) != len(entries):
        raise InputError(f"{name} = {reprlib.repr(value)}: has {len(entries)} entries; give {len(hints)}")
    return tuple(validate_type(name, each, hint, nan) for each, hint in zip(entries, hints, strict=True))


def _check_value(name: str, value: Any, nan: bool) -> None:
    """Check what the type does not say: paths that no file has, numbers beyond double precision, and NaN."""
    if isinstance(value, str | os.PathLike) and "\0" in str(value):
        raise InputError(f"{name} = {reprlib.repr(value)}: has a character NUL, which no path and no name has; drop it")
    if isinstance(value, Real) and not isinstance(value, Integral) and not nan and math.isnan(value):
        raise InputError(f"{name} = nan: give a number")
    if isinstance(value, np.ndarray) and not nan and value.dtype.kind in "fc" and np.isnan(value).any():
        index = [int(i) for i in np.argwhere(np.isnan(value))[0]]
        raise InputError(f"{name}{index} is nan; give a number, or drop the entry")


@functools.cache
def _hints(annotated: Hashable) -> dict[str, Any]:
    """The annotations of a class; one that is imported for type checkers only is compared by the class's name."""
    try:
        return get_type_hints(annotated)
    except NameError:
        classes = reversed(type.mro(annotated)) if isinstance(annotated, type) else ()
        return {
            name: _resolved(hint, vars(sys.modules[one.__module__]))
            for one in classes
            for name, hint in vars(one).get("__annotations__", {}).items()
        }


@functools.cache
def annotations_of(function: Any) -> dict[str, Any]:
    """The annotations of a function; one that is imported for type checkers only is compared by the class's name."""
    try:
        return get_type_hints(function)
    except NameError:
        namespace = inspect.unwrap(function).__globals__
        return {name: _resolved(hint, namespace) for name, hint in function.__annotations__.items()}


def _resolved(hint: Any, namespace: dict[str, Any]) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, namespace)  # an annotation of our own source
    except (NameError, TypeError):
        names = [name.strip() for name in hint.split("|")]
        if all(name.isidentifier() for name in names):
            return Union[tuple(type(None) if name == "None" else _known(name, namespace) for name in names)]  # noqa: UP007
        return Any


def _known(name: str, namespace: dict[str, Any]) -> Any:
    """A class by its name, or a literal type of the name alone."""
    return namespace.get(name) or vars(sys.modules["builtins"]).get(name) or Literal[_Unresolved(name)]


def _members(hint: Any) -> Iterator[Any]:
    """Yield the types of a union, or a single type."""
    if get_origin(hint) in (Union, types.UnionType):
        members = get_args(hint)
        if any(getattr(get_origin(member), "__name__", "") == "_SupportsArray" for member in members):
            yield _ArrayLike
            # what else the union has is not part of ArrayLike
            members = tuple(member for member in members if member is type(None))
        for member in members:
            yield from _members(member)
    else:
        yield hint


def _is(value: Any, member: Any) -> bool:
    kind = get_origin(member) or member
    if kind is Literal:
        return any(_is_literal(value, each) for each in get_args(member))
    if kind is tuple:
        return isinstance(value, tuple | list)
    if kind in (int, float, complex):
        if isinstance(value, bool | np.bool):
            return False
        return isinstance(value, _NUMBERS[kind]) and _within_double(value, kind)
    if kind is bool:
        return isinstance(value, bool | np.bool)
    if kind is np.ndarray:
        return isinstance(value, np.ndarray) and _has_dtype(value, member)
    if kind is _ArrayLike:
        return not _array_fault(value)
    if kind is Callable or kind is types.FunctionType:
        return callable(value)
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    if isinstance(value, str | bytes) and kind not in (str, bytes, object, Any) and inspect.isclass(kind):
        # text is a sequence of texts, which nobody means
        return isinstance(value, kind) and not issubclass(str, kind)
    return isinstance(value, kind) if inspect.isclass(kind) and kind is not Any else True


def _is_literal(value: Any, literal: Any) -> bool:
    if isinstance(literal, _Unresolved):
        return any(base.__name__ == literal for base in type(value).__mro__)
    return type(value) is type(literal) and bool(value == literal)


def _within_double(value: Any, kind: type) -> bool:
    """Whether a whole number is small enough for double precision, where it is taken as a real number."""
    return kind is int or not isinstance(value, Integral) or abs(int(value)) < 2**1023


def _has_dtype(array: Any, hint: Any) -> bool:
    """Whether an array has the annotated kind of numbers, or one that is converted without loss."""
    scalar = get_args(get_args(hint)[1])[0] if get_args(hint) else None
    if not (inspect.isclass(scalar) and issubclass(scalar, np.generic)):
        return True
    try:
        kind = np.dtype(scalar).kind
    except TypeError:  # an abstract class such as np.integer
        return np.issubdtype(array.dtype, scalar)
    return array.dtype.kind in _DTYPE_KINDS.get(kind, kind)


def _array_fault(value: Any) -> str:
    """What keeps a value from being a number, an array of numbers, or nested sequences of one; empty if it is."""
    try:
        dtype = np.asarray(value).dtype
    except ValueError:
        return "has rows of different lengths; make them equal"
    return "" if dtype.kind in "biufc" else f"has dtype {dtype}; give a number, or an array of numbers"


def _word(member: Any) -> str:
    kind = get_origin(member) or member
    if kind is Literal:
        return " or ".join(f"a {each}" if isinstance(each, _Unresolved) else str(each) for each in get_args(member))
    if kind is tuple:
        # of a tuple of different parts the first stands for all
        first = " or ".join(_word(each) for each in _members(get_args(member)[0])) if get_args(member) else ""
        return f"a tuple, each of it {first}" if first else "a tuple"
    if kind is Sequence and get_args(member):
        return f"a list or tuple, each of it {_word(get_args(member)[0])}"
    if kind is _ArrayLike:
        return "a number, or an array of numbers"
    if kind is Callable or not hasattr(kind, "__name__"):
        return "a function" if callable(kind) else str(kind)
    if kind is np.ndarray and get_args(member):
        scalar = get_args(get_args(member)[1])[0]
        return f"an array of {scalar.__name__}" if hasattr(scalar, "__name__") and scalar is not Any else "an array"
    return _WORDS.get(kind) or f"{'an' if kind.__name__[0] in 'AEIOU' else 'a'} {kind.__name__}"
