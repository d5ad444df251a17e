"""Signals that end a command: they unwind it, so that temporary files are removed, and give its exit code.

Python handles a signal between two of its instructions. KLayout, LAPACK and compiled loops run for minutes without one,
and no other thread of Python runs meanwhile. So the work is done in a forked process. The first process waits for it,
passes signals on, and kills it if it has not ended shortly after. Files are complete, or as they were before, even then
(:mod:`optinc_pdk.io.file_sets`).
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from optinc_pdk.cli.exit_codes import SIGNALLED

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Ctrl-C, kill, and a terminal that is closed."""
GRACE_S = 0.5
"""Time after a signal in which a command may end by itself, in s."""
REPEATED_S = 1.0
"""Time within which a second signal is the first one again, in s: terminals and timeout(1) send it to the process and
to its group, and it must not interrupt the removal of temporary files."""
_SHOW_CURSOR = "\x1b[?25h"


class Interrupts:
    """The first signal that was received within :func:`signals_interrupt`.

    Attributes:
        number: Number of the signal; SIGINT if none was received.
        ended: Whether the command has ended; further signals are then ignored.
        forked: Whether this process is the one that :func:`run_supervised` has forked.
    """

    def __init__(self) -> None:
        self.number = signal.SIGINT
        self.ended = False
        self.forked = False
        self._raised = False
        self._received_s = -REPEATED_S

    @property
    def code(self) -> int:
        """Exit code: 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP."""
        return SIGNALLED + self.number

    @property
    def message(self) -> str:
        """What ended the command, and what remains of its files."""
        words = "interrupted" if self.number == signal.SIGINT else f"ended by {self.number.name}"
        return f"{words}; every file is complete, or as it was before"

    @contextmanager
    def unwrapped(self) -> Iterator[None]:
        """Raise KeyboardInterrupt for an error within a ``with`` block that a library has made of it.

        Raises:
            KeyboardInterrupt: A signal was received before an error was raised.
        """
        try:
            yield
        except Exception as fault:
            if self._raised:
                raise KeyboardInterrupt from fault
            raise

    def receive(self, number: int, _: FrameType | None) -> None:
        """Raise KeyboardInterrupt in the main thread; a handler of signals."""
        now = time.monotonic()
        if not self.ended and now - self._received_s >= REPEATED_S:
            self.number, self._received_s, self._raised = signal.Signals(number), now, True
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


def run_supervised(work: Callable[[], int], received: Interrupts) -> int:
    """Run a command in a forked process, which a signal of ``ENDING`` ends in any case.

    In processes that have loaded more than the command line, such as those of tests, it runs in this one.

    Args:
        work: The command, which returns its exit code and lets KeyboardInterrupt pass.
        received: The signal received within :func:`signals_interrupt`.

    Returns:
        Exit code of the command.

    Raises:
        KeyboardInterrupt: A signal ended the command; ``received`` states which.
    """
    if not _can_fork():
        return work()
    ending = {number for number in ENDING if signal.getsignal(number) == received.receive}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ending | {signal.SIGCHLD})
    alive, lifeline = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(lifeline)
        _end_with_parent(alive)
        received.forked = True
        sys.unraisablehook = _report_unraisable
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return work()
    os.close(alive)
    status, number = _wait(worker, ending)
    if os.WIFEXITED(status):
        # this interpreter has nothing to clean up
        os._exit(os.WEXITSTATUS(status))
    if number:
        received.number = number
        if sys.stderr.isatty():
            print(_SHOW_CURSOR, end="", file=sys.stderr)
        raise KeyboardInterrupt
    # a crash, or the system was out of memory: this process ends in the same way
    crash = os.WTERMSIG(status)
    if crash != signal.SIGKILL:
        signal.signal(crash, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {crash})
    os.kill(os.getpid(), crash)
    return SIGNALLED + crash


def _can_fork() -> bool:
    """Whether this process is a command that has loaded nothing yet: a fork has no threads, and no capture of tests."""
    is_own = threading.current_thread() is threading.main_thread() and "numpy" not in sys.modules
    return is_own and hasattr(signal, "sigtimedwait")


def _report_unraisable(fault: sys.UnraisableHookArgs) -> None:
    """Report an error that a library could not pass on; an interrupt ends the command without it."""
    if fault.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(fault)


def _end_with_parent(alive: int) -> None:
    """Let the system end this process when the other end of a pipe is closed, also while it runs no Python."""
    fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
    # SIGIO, which ends a process
    fcntl.fcntl(alive, fcntl.F_SETFL, os.O_ASYNC)


def _wait(worker: int, ending: set[signal.Signals]) -> tuple[int, signal.Signals | None]:
    """Wait for a process, and pass a signal on to it; kill it if it has not ended `GRACE_S` later.

    Returns:
        Status of the process, and the signal.
    """
    number, deadline = None, 0.0
    while True:
        event: signal.struct_siginfo | None
        if number is None:
            event = signal.sigwaitinfo(ending | {signal.SIGCHLD})
        else:
            event = signal.sigtimedwait({signal.SIGCHLD}, max(0.0, deadline - time.monotonic()))
        if event is None:
            os.kill(worker, signal.SIGKILL)
            return os.waitpid(worker, 0)[1], number
        if event.si_signo != signal.SIGCHLD:
            number, deadline = signal.Signals(event.si_signo), time.monotonic() + GRACE_S
            os.kill(worker, number)
            continue
        # the process may have been stopped or continued
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            return status, number
