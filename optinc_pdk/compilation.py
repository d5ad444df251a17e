"""Compilation of loops that are too slow in numpy, by numba.

Import this module, and modules with compiled loops, inside functions only: numba takes a quarter of a second to import.
A loop's first call on a machine compiles it, within seconds. The result is cached beside its file, or in the user's
cache folder where that is read-only; later processes load it within a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator that compiles a kernel at its first call. The order of sums is kept; multiply-add may be fused."""
    return _compiled(function, {"contract"})


def compiled_sums(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator that compiles a kernel like :func:`compiled` but allows reordering of sums for vector units."""
    return _compiled(function, {"contract", "reassoc", "nsz"})


def _compiled(function: Callable[_P, _R], fastmath: set[str]) -> Callable[_P, _R]:
    def compile_lazily(cache: bool) -> Callable[_P, _R]:
        return numba.njit(cache=cache, nogil=True, fastmath=fastmath, error_model="numpy")(function)

    try:
        return compile_lazily(cache=True)
    except RuntimeError:  # neither this folder nor the user's cache can be written
        return compile_lazily(cache=False)
