"""Python's cycle collector, paused while a layout becomes millions of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the cycle collector, also as a decorator.

    It goes through all objects again each time that their number has grown by a quarter, all of gdsfactory's among
    them, and finds nothing: what placement, extraction and comparison pile up has no cycles, so it is freed as soon as
    it is no longer used. It took up to half of a large mesh's time.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
