"""The command line, ``optinc``.

This module imports next to nothing: the commands are imported inside :func:`main`, so that an interrupt during their
import is reported like any other. Every command imports what it needs inside its function, after it has checked its
arguments and read the small input files, so that help, usage errors and unusable files are answered at once.
"""

import errno
import gc
import os
import sys

from optinc_pdk.cli.exit_codes import INTERNAL, INTERRUPTED, UNUSABLE
from optinc_pdk.cli.interrupts import Interrupts, run_supervised, signals_interrupt
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
            code = run_supervised(lambda: delivered(_run(received)), received)
        except KeyboardInterrupt:
            received.ended = True
            print(f"optinc: {received.message}", file=sys.stderr, flush=True)
            code = received.code
            if received.forked:
                # threads that still compute, and the exit handlers of libraries, would outlast the grace period
                os._exit(code)
    sys.exit(code)


def _run(received: Interrupts) -> int:
    """Run the command and return its exit code.

    Raises:
        KeyboardInterrupt: A signal ended the command.
    """
    try:
        _check_arguments()
        with received.unwrapped():
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
    except Exception as fault:
        import traceback

        if package := _unloadable_package(fault):
            return _refused(
                f"the package {package} cannot be loaded ({fault}); check what it reads{_variables_of(package)}, or "
                "reinstall it: optinc doctor examines every package"
            )
        traceback.print_exc()
        print("optinc: internal error; please report it with the lines above", file=sys.stderr)
        return INTERNAL
    return 0


def _check_arguments() -> None:
    """Check that the arguments are text; bytes that are not UTF-8 would be in names inside the files written.

    Raises:
        InputError: An argument is not text.
    """
    for argument in sys.argv[1:]:
        try:
            argument.encode()
        except UnicodeEncodeError as fault:
            raise InputError(f"{argument}: the argument is not valid UTF-8; rename the file or folder") from fault


def _unloadable_package(fault: Exception) -> str:
    """Name of the package of others during whose import an error was raised; empty if there is none."""
    trace = fault.__traceback__
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if trace.tb_frame.f_code.co_name == "<module>" and package not in ("__main__", "optinc_pdk"):
            return package
        trace = trace.tb_next
    return ""


def _variables_of(package: str) -> str:
    """The variables of the environment that a package reads, as part of a message."""
    prefix = "MPL" if package == "matplotlib" else f"{package.upper()}_"
    found = sorted(name for name in os.environ if name.startswith(prefix))
    return f", such as {', '.join(found)} of the environment" if found else ""


def _refused(reason: str) -> int:
    print(f"optinc: {reason}", file=sys.stderr)
    return UNUSABLE
