"""The decorator ``cell``: a component cache that is separate for every process."""

from __future__ import annotations

import hashlib
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, cast

import gdsfactory as gf
from gdsfactory._cell import ComponentFunc

from optinc_pdk.cards import DEFAULT_PROCESS, Process
from optinc_pdk.tech import LAYOUT_LOCK, active_process

Arguments = ParamSpec("Arguments")


def cell(function: ComponentFunc[Arguments]) -> ComponentFunc[Arguments]:
    """Decorate a cell function as ``gdsfactory.cell`` does, but with a separate cache for every process.

    gdsfactory's caches, by arguments and by cell name, would return the component of another process. The names of
    cells of processes other than the default end in four hexadecimal digits, so that one layout can hold cells of
    several processes. The full process name would make cell names longer than mask shops accept.

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
                decorate = cast(Any, gf.cell)(basename=f"{function.__name__}{_suffix(process)}", layout_cache=False)
                decorated[process.folders] = decorate(function)
            return decorated[process.folders](*args, **kwargs)

    return cast(ComponentFunc[Arguments], draw)


def _suffix(process: Process) -> str:
    if process.name == DEFAULT_PROCESS:
        return ""
    return f"_{hashlib.sha256(process.name.encode()).hexdigest()[:4]}"
