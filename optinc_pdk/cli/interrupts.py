"""Signals that end a command: they unwind it, so that temporary files are removed, and give its exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from optinc_pdk.cli.exit_codes import SIGNALLED

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, kill, and a terminal that is closed."""


class Interrupts:
    """The first signal that was received within :func:`signals_interrupt`.

    Attributes:
        number: Number of the signal; SIGINT if none was received.
        ended: Whether the command has ended; further signals are then ignored.
    """

    def __init__(self) -> None:
        self.number = signal.SIGINT
        self.ended = False

    @property
    def code(self) -> int:
        """Exit code: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
        return SIGNALLED + self.number

    @property
    def message(self) -> str:
        """What ended the command, and what remains of its files."""
        words = "interrupted" if self.number == signal.SIGINT else f"ended by {self.number.name}"
        return f"{words}; every file is complete, or as it was before"

    def receive(self, number: int, _: FrameType | None) -> None:
        """Raise KeyboardInterrupt in the main thread; a handler of signals."""
        if not self.ended:
            self.number = signal.Signals(number)
            raise KeyboardInterrupt


@contextmanager
def signals_interrupt() -> Iterator[Interrupts]:
    """Raise KeyboardInterrupt within a ``with`` block if a signal of ``ENDING`` is received.

    Signals that the caller ignores, as nohup and background jobs of a shell do, remain ignored, and handlers of others
    remain. Only the main thread of a process receives signals; in another one nothing is changed.

    Yields:
        The signal received.
    """
    received, before = Interrupts(), {}
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, received.receive)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
