"""The command line, ``optinc``.

This module imports next to nothing: the commands are imported inside :func:`main`, so that an interrupt during their
import is reported like any other. Every command imports what it needs inside its function, after it has checked its
arguments and read the small input files, so that help, usage errors and unusable files are answered at once.
"""

import errno
import gc
import sys

from optinc_pdk.cli.exit_codes import INTERNAL, INTERRUPTED, UNUSABLE
from optinc_pdk.cli.interrupts import signals_interrupt
from optinc_pdk.cli.standard_streams import delivered, protect_standard_streams
from optinc_pdk.errors import ArgumentError, InputError

__all__ = ["main"]

GARBAGE_COLLECTION = (200_000, 30, 30)
"""Thresholds of Python's garbage collector. Commands keep millions of objects until they end; with the default, a
collection every 700 new objects, these are searched again and again."""


def main() -> None:
    """Run the command line in ``sys.argv`` and exit; errors are reported on stderr and by the exit code."""
    protect_standard_streams()
    gc.set_threshold(*GARBAGE_COLLECTION)
    with signals_interrupt() as received:
        try:
            code = delivered(_run())
        except KeyboardInterrupt:
            received.ended = True
            print(f"optinc: {received.message}", file=sys.stderr)
            code = received.code
    sys.exit(code)


def _run() -> int:
    """Run the command and return its exit code.

    Raises:
        KeyboardInterrupt: A signal ended the command.
    """
    try:
        from optinc_pdk.cli.commands import app

        app(prog_name="optinc", standalone_mode=True)
    except ArgumentError as fault:
        return _refused(fault.option_message)
    except InputError as fault:
        return _refused(str(fault))
    except SystemExit as end:
        # typer turns an interrupt into this exit code without a message
        if end.code == INTERRUPTED:
            raise KeyboardInterrupt from end
        return int(end.code or 0)
    except MemoryError as fault:
        return _refused(f"out of memory ({fault}); use a machine with more memory, or smaller numbers")
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room, or write to another disk" if full else "check the path and its permissions"
        where = f"{fault.filename}: " if fault.filename else ""
        return _refused(f"{where}{fault.strerror or fault}; {remedy}")
    except Exception:
        import traceback

        traceback.print_exc()
        print("optinc: internal error; please report it with the lines above", file=sys.stderr)
        return INTERNAL
    return 0


def _refused(reason: str) -> int:
    print(f"optinc: {reason}", file=sys.stderr)
    return UNUSABLE
