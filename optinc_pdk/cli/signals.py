"""Signals that end the command line: hidden files are deleted before the process ends."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_clean_up() -> Iterator[None]:
    """Within the ``with`` block, SIGTERM and SIGHUP raise SystemExit; by default, they end the process at once."""
    replaced = {}
    # Python delivers signals to the main thread only
    if threading.current_thread() is threading.main_thread():
        defaults = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
        replaced = {number: signal.signal(number, end_by_signal) for number in defaults}
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def end_by_signal(number: int, frame: FrameType | None) -> None:
    """Raise SystemExit with the exit code that shells report for a signal."""
    print(f"optinc: ended by {signal.Signals(number).name}", file=sys.stderr)
    sys.exit(128 + number)
