"""The decorator of our cells: each is drawn once per process, whichever PDK was active before."""

from __future__ import annotations

import hashlib
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, cast

import gdsfactory as gf
from gdsfactory._cell import ComponentFunc

from optinc_pdk.cards import DEFAULT_PROCESS
from optinc_pdk.tech import active_process

Arguments = ParamSpec("Arguments")


def cell(function: ComponentFunc[Arguments]) -> ComponentFunc[Arguments]:
    """gdsfactory's ``cell`` for every process apart.

    Its caches, by arguments and by the cell's name, would return another process's component. Cells of other processes
    than the default one bear a mark of their process, so that those of several may be in one layout; its name would
    make theirs longer than mask shops take.
    """
    drawn: dict[tuple[Path, ...], ComponentFunc[Arguments]] = {}

    @wraps(function)
    def draw(*args: Arguments.args, **kwargs: Arguments.kwargs) -> gf.Component:
        process = active_process()
        # by folder: a changed copy of a process may have kept its name
        if process.folders not in drawn:
            mark = (
                "" if process.name == DEFAULT_PROCESS else f"_{hashlib.sha256(process.name.encode()).hexdigest()[:4]}"
            )
            decorate = cast(Any, gf.cell)(basename=f"{function.__name__}{mark}", layout_cache=False)
            drawn[process.folders] = decorate(function)
        return drawn[process.folders](*args, **kwargs)

    return cast(ComponentFunc[Arguments], draw)
