"""The decorator ``cell``: a component cache that is separate for every process, and cell names that are short."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, cast

import gdsfactory as gf
from gdsfactory._cell import ComponentFunc
from kfactory.serialization import get_cell_name

from optinc_pdk.cards import DEFAULT_PROCESS, Process
from optinc_pdk.tech import LAYOUT_LOCK, active_process

Arguments = ParamSpec("Arguments")

MAX_NAME_LENGTH = 32
"""Longest cell name that mask shops accept."""


def cell(function: ComponentFunc[Arguments]) -> ComponentFunc[Arguments]:
    """Decorate a cell function as ``gdsfactory.cell`` does, but with a separate cache for every process.

    gdsfactory's caches, by arguments and by cell name, would return the component of another process. The names of
    cells of processes other than the default end in four hexadecimal digits, so that one layout can hold cells of
    several processes. The full process name would make cell names longer than mask shops accept.

    A cell name lists the arguments that differ from their defaults. A name of more than 32 characters ends in a hash.
    kfactory's own setting of that length is not changed, because it would rename the cells of other PDKs.

    Args:
        function: Function that draws the cell with the dimensions of the active process.

    Returns:
        A function of the same arguments that returns the cached component of the active process.
    """
    decorated: dict[tuple[Path, ...], ComponentFunc[Arguments]] = {}

    @wraps(function)
    def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> gf.Component:
        # another thread may have activated another process, until it gives the lock back
        with LAYOUT_LOCK:
            process = active_process()
            # by folder: a changed copy of a process may have the same name
            if process.folders not in decorated:
                basename = f"{function.__name__}{_suffix(process)}"
                decorate = cast(Any, gf.cell)(basename=basename, layout_cache=False, set_name=False)
                decorated[process.folders] = decorate(_named(function, basename))
            return decorated[process.folders](*args, **kwargs)

    return cast(ComponentFunc[Arguments], draw)


def _named(function: Callable[..., gf.Component], basename: str) -> Callable[..., gf.Component]:
    """Return a function that draws a cell and names it after the arguments that differ from their defaults."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}

    @wraps(function)
    def draw(**arguments: Any) -> gf.Component:
        component = function(**arguments)
        given = {name: value for name, value in arguments.items() if value != defaults[name]}
        component.name = get_cell_name(basename, MAX_NAME_LENGTH, **given)
        return component

    return draw


def _suffix(process: Process) -> str:
    if process.name == DEFAULT_PROCESS:
        return ""
    return f"_{hashlib.sha256(process.name.encode()).hexdigest()[:4]}"
