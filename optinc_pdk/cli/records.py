"""Records of options as parameters of commands: ``options: BuildOptions`` becomes one option for each field."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from optinc_pdk.options import unchecked


def with_records(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command so that every parameter that is a record, see `optinc_pdk.options.record`, is an option group.

    The command is called with the records, which are made of the options that the user gives. Types and limits are
    checked where options are read, not again in the record.
    """
    groups: dict[str, tuple[type, list[Field[Any]]]] = {}
    parameters: list[inspect.Parameter] = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        if is_dataclass(hint := hints[name]) and isinstance(hint, type):
            groups[name] = (hint, list(_shown(hint)))
            parameters += [_parameter(hint, field) for field in groups[name][1]]
        else:
            parameters.append(parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, (group, described) in groups.items():
            values = {field.name: given.pop(field.name) for field in described}
            for field in described:
                if parse := field.metadata.get("parse"):
                    values[field.name] = parse(values[field.name])
            given[name] = unchecked(group, values)
        command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _shown(group: type) -> Iterator[Field[Any]]:
    """Yield the fields of a record that the command line takes: those of the class before those of its bases."""
    owned = {field.name: field for field in fields(group) if not field.metadata.get("hidden")}
    for one in group.__mro__:
        for name in vars(one).get("__annotations__", {}):
            if name in owned:
                yield owned.pop(name)


def _parameter(group: type, field: Field[Any]) -> inspect.Parameter:
    """Return the parameter of a field, as typer reads it."""
    shown = dict(field.metadata)
    del shown["python"]  # for docstrings
    text, given, parse = shown.pop("text"), shown.pop("given", None), shown.pop("parse", None)
    flag, argument = shown.pop("flag", f"--{field.name.replace('_', '-')}"), shown.pop("argument", False)
    default = inspect.Parameter.empty if field.default is MISSING else "" if parse else field.default
    kind = _type(group, field) if given is None else given | None if default is None else given
    if kind in (Path, Path | None):
        shown.setdefault("callback", named_file)
    if field.name == "process":
        shown["autocompletion"] = completed_processes
    made = typer.Argument(help=text, **shown) if argument else typer.Option(flag, help=text, **shown)
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made]
    )


def _type(group: type, field: Field[Any]) -> Any:
    """Return the type of a field, as the module of its class names it."""
    owner = next(one for one in group.__mro__ if field.name in vars(one).get("__annotations__", {}))
    return eval(str(field.type), vars(sys.modules[owner.__module__]))  # an annotation of our own source


def named_file(path: Path | None) -> Path | None:
    """Return the path of an input file, or None if it is not given.

    Raises:
        typer.BadParameter: It is empty; as a path it would be the current folder.
    """
    if path is not None and not path.name:
        raise typer.BadParameter("empty path; give the file")
    return path


def completed_processes(incomplete: str) -> list[str]:
    """Return the names of bundled processes that a shell can complete; it completes folders by itself."""
    from optinc_pdk.cards.loader import process_names

    return [name for name in process_names() if name.startswith(incomplete)]
