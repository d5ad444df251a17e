"""Standard output and error that never interrupt a command: closed, broken, full, or unable to encode a character.

Everything that a command prints passes :class:`PrintableStream`, so that text of files never acts on a terminal.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import select
import sys
from typing import Any, TextIO

from optinc_pdk.cli.exit_codes import SIGNALLED, UNUSABLE
from optinc_pdk.errors import printable

SIGPIPE = 13
"""Number of the signal; Windows has none."""


class SinkStream(io.RawIOBase):
    """Raw stream that writes to another one until this fails; the error is kept, not raised.

    Attributes:
        raw: The stream written to.
        fault: The first error, or None.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__()
        self.raw = raw
        self.fault: OSError | None = None

    def writable(self) -> bool:
        """Whether bytes can be written: always."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes, or drop them after an error."""
        count: int | None = None
        while self.fault is None and count is None:
            try:
                count = self.raw.write(data)
                if count is None:  # a pipe that does not block is full
                    select.select((), (self.raw,), ())
            except OSError as fault:
                self.fault = fault
        return memoryview(data).nbytes if count is None else count

    def fileno(self) -> int:
        """Return the descriptor of the stream written to."""
        return self.raw.fileno()

    def isatty(self) -> bool:
        """Whether the stream written to is a terminal."""
        return self.raw.isatty()


class PrintableStream(io.TextIOWrapper):
    """Text stream that writes characters which are not printable as their escapes, see ``printable``."""

    def write(self, text: str) -> int:
        """Write text; return its number of characters."""
        super().write(printable(text))
        return len(text)

    @property
    def styled(self) -> StyledStream:
        """The stream for text with styles of our own."""
        return StyledStream(self)


class StyledStream:
    """The same stream without replacement of characters, for escape sequences that set colours or move the cursor."""

    def __init__(self, stream: PrintableStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text as it is; return its number of characters."""
        return io.TextIOWrapper.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the stream."""
        return getattr(self._stream, name)


def json_escape(fault: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by ``\\uXXXX``, which JSON reads back; a handler of codec errors."""
    if not isinstance(fault, UnicodeEncodeError):
        raise fault
    return json.dumps(fault.object[fault.start : fault.end])[1:-1], fault.end


def protect_standard_streams() -> None:
    """Replace standard output and error of this process by streams that keep their errors, see :class:`SinkStream`.

    Descriptors that are closed are opened on the null device first; a file that the command opens would otherwise get
    the number of standard output, and prints of libraries would end in it. Streams that were replaced before, such as
    those of tests, are not changed.
    """
    _open_closed_descriptors()
    codecs.register_error("optinc.json_escape", json_escape)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the process ends
        elif stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, protected(stream))


def protected(stream: TextIO) -> TextIO:
    """Return a text stream that writes printable characters to the raw stream of another one and keeps its errors.

    It writes every line at once if the other stream is unbuffered or buffers lines.
    """
    stream.flush()
    raw: Any = stream.buffer
    # with PYTHONUNBUFFERED, streams write through instead of line by line
    by_line = bool(getattr(stream, "line_buffering", False) or getattr(stream, "write_through", False))
    return PrintableStream(
        io.BufferedWriter(SinkStream(getattr(raw, "raw", raw))),
        encoding=stream.encoding,
        errors="optinc.json_escape",
        line_buffering=by_line,
    )


def delivered(code: int) -> int:
    """Flush standard output and return the exit code of the command.

    Args:
        code: Exit code of the work.

    Returns:
        ``code`` if everything was written. 141 without a message if the reader of standard output is gone, as if the
        signal SIGPIPE had ended the command. 2 with a message on standard error if writing failed otherwise.
    """
    sys.stdout.flush()
    sink = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    fault = sink.fault if isinstance(sink, SinkStream) else None
    if fault is None:
        return code
    if fault.errno == errno.EPIPE:
        return SIGNALLED + SIGPIPE
    print(
        f"optinc: standard output: {fault.strerror}; what was printed is not complete: make room, or give another file",
        file=sys.stderr,
    )
    return UNUSABLE


def _open_closed_descriptors() -> None:
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            os.set_inheritable(null, True)
