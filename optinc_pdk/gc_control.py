"""Control of Python's garbage collector while a layout creates millions of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# The collector is global: the first of several threads disables it, and the last one enables it again.
_lock = Lock()
_pauses = 0
_enabled_before = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disable cyclic garbage collection in a ``with`` block or, as a decorator, in a function.

    The collector traverses all objects whenever their number has grown by a quarter. It took up to half of the run time
    of a large mesh. Placement, extraction and comparison create no reference cycles, so reference counting frees their
    objects without it.
    """
    global _pauses, _enabled_before
    with _lock:
        if _pauses == 0:
            _enabled_before = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _enabled_before:
                gc.enable()
