"""File operations of this process: found by audit hooks and wrappers, counted, and made to fail.

An operation is anything that changes a file or a folder below the watched one, and every ``fsync``. Opening for
writing, renaming, deleting, truncating and making folders raise audit events of Python. ``os.write`` and ``os.fsync``
do not; they are wrapped. A write that neither sees, by a buffered Python file, is refused.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optinc_pdk.cli.interrupts import signals_interrupt

FAULTS = ("kill", "torn", "term", "interrupt", "full", "denied")
"""SIGKILL before an operation; SIGKILL in the middle of a write; SIGTERM; SIGINT; a disk that is full from an operation
on; permissions that are missing from an operation on."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS = {
    "os.rename": "rename",
    "os.remove": "delete",
    "os.mkdir": "mkdir",
    "os.rmdir": "rmdir",
    "os.truncate": "truncate",
    "os.link": "link",
    "os.symlink": "link",
    "os.chmod": "chmod",
}
_NEED_SPACE = ("open", "write", "mkdir", "link")
_NEED_PERMISSION = ("open", "rename", "delete", "mkdir", "rmdir", "link", "chmod")


Step = tuple[Any, ...]
"""An operation: its kind, its path relative to the watched folder, and the new path, the data or the length."""


@dataclass
class Operations:
    """Counter of file operations below a folder, with a fault at one of them.

    Attributes:
        folder: Folder to watch.
        fault: One of ``FAULTS``; empty to count only.
        at: Number of the operation, from 0, at which the fault begins.
        steps: The operations so far.
    """

    folder: Path
    fault: str = ""
    at: int = -1
    steps: list[Step] = field(default_factory=list)
    _active: bool = False

    def install(self) -> None:
        """Watch the operations of this process from now on; this cannot be undone, so a forked process does it."""
        self._write, self._fsync = os.write, os.fsync
        os.write = self._watched_write
        os.fsync = self._watched_fsync
        sys.addaudithook(self._audit)
        self._active = True

    def stop(self) -> None:
        """Let all further operations pass uncounted."""
        self._active = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._active:
            return
        if event == "open":
            path, mode, flags = arguments
            if flags & _WRITING and self._watched(path):
                if mode is not None:
                    raise AssertionError(f"{path}: opened with mode {mode}; its writes are not seen")
                self._step("open", path)
        elif event in _EVENTS:
            folder = arguments[-2] if event == "os.rename" else arguments[-1]
            base = folder if isinstance(folder, int) and folder >= 0 and event != "os.truncate" else None
            if self._watched(arguments[0], base):
                more = [self._relative(arguments[1])] if event == "os.rename" else arguments[1:2]
                self._step(_EVENTS[event], arguments[0], *more, base=base)

    def _watched(self, path: Any, folder: int | None = None) -> bool:
        return not self._relative(path, folder).startswith("..")

    def _relative(self, path: Any, folder: int | None = None) -> str:
        """Path relative to the watched folder; of a descriptor, or relative to an open folder."""
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        path = os.fsdecode(path)
        if folder is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
        return os.path.relpath(path, self.folder)

    def _watched_write(self, descriptor: int, data: Any) -> int:
        if self._active and self._watched(descriptor):
            number = len(self.steps)
            half = bytes(data)[: len(data) // 2]
            if self.fault == "torn" and number == self.at:
                self._write(descriptor, half)
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "full" and number == self.at:
                self._write(descriptor, half)
            self._step("write", descriptor, bytes(data))
        return self._write(descriptor, data)

    def _watched_fsync(self, descriptor: int) -> None:
        if self._active and self._watched(descriptor):
            self._step("fsync", descriptor)
        self._fsync(descriptor)

    def _step(self, kind: str, path: Any, *more: Any, base: int | None = None) -> None:
        """Note an operation, and let it fail if it is the one to fail."""
        number = len(self.steps)
        self.steps.append((kind, self._relative(path, base), *more))
        if self.fault == "full" and number >= self.at and kind in _NEED_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        if self.fault == "denied" and number >= self.at and kind in _NEED_PERMISSION:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        if number == self.at and (number_of := _SIGNALS.get(self.fault)) is not None:
            os.kill(os.getpid(), number_of)


_SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "interrupt": signal.SIGINT}


def applies(fault: str, kind: str) -> bool:
    """Whether a fault at an operation of a kind differs from the same fault at the next operation."""
    kinds = {"torn": ("write",), "full": _NEED_SPACE, "denied": _NEED_PERMISSION}
    return kind in kinds.get(fault, (kind,))


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        killed: Number of the signal that killed it; 0 if it exited.
        code: Its exit code.
        steps: Its file operations; empty if it was killed.
        error: Its exception, as text.
    """

    killed: int
    code: int
    steps: tuple[Step, ...] = ()
    error: str = ""

    @property
    def kinds(self) -> Counter[str]:
        """Number of its file operations by kind."""
        return Counter(step[0] for step in self.steps)


def run_forked(work: Callable[[], None], folder: Path, fault: str = "", at: int = -1) -> Ended:
    """Run work in a forked process with a fault at one of its file operations below a folder."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run(work, Operations(folder, fault, at), writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        data = stream.read()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return Ended(os.WTERMSIG(status), -1)
    steps, error = pickle.loads(data)
    return Ended(0, os.WEXITSTATUS(status), tuple(steps), error)


def _run(work: Callable[[], None], operations: Operations, writer: int) -> None:
    """Run the work as the command line does, report the operations, and exit."""
    code, error = 3, ""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with signals_interrupt() as received:
            operations.install()
            work()
            code = 0
    except KeyboardInterrupt:
        code = received.code
    except OSError as fault:
        code, error = 2, f"{fault.filename}: {fault.strerror}"
    except BaseException as fault:
        error = f"{type(fault).__name__}: {fault}"
    finally:
        operations.stop()
        with os.fdopen(writer, "wb") as stream:
            # what was written matters only where nothing fails
            steps = operations.steps if not operations.fault else []
            stream.write(pickle.dumps((steps, error)))
        os._exit(code)
