"""The command line, ``optinc``.

This module imports next to nothing: the commands are imported inside :func:`main`, so that an interrupt during their
import is reported like any other. Every command imports what it needs inside its function, after it has checked its
arguments and read the small input files, so that help, usage errors and unusable files are answered at once.
"""

import errno
import sys

from optinc_pdk.cli.exit_codes import INTERNAL, INTERRUPTED, UNUSABLE
from optinc_pdk.cli.signals import signals_clean_up
from optinc_pdk.errors import InputError

__all__ = ["main"]


def main() -> None:
    """Run the command line in ``sys.argv`` and exit; errors are reported on stderr and by the exit code."""
    try:
        from optinc_pdk.cli.commands import app

        with signals_clean_up():
            app(standalone_mode=True)
    except InputError as fault:
        print(f"optinc: {fault}", file=sys.stderr)
        sys.exit(UNUSABLE)
    except KeyboardInterrupt:
        print("optinc: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except SystemExit as end:
        # typer turns an interrupt into an exit without a message
        if end.code == INTERRUPTED:
            print("optinc: interrupted", file=sys.stderr)
        raise
    except OSError as fault:
        full = fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room, or write to another disk" if full else "check the path and its permissions"
        print(f"optinc: {fault.filename or ''}: {fault.strerror}; {remedy}", file=sys.stderr)
        sys.exit(UNUSABLE)
    except Exception:
        import traceback

        traceback.print_exc()
        print("optinc: internal error; please report it with the lines above", file=sys.stderr)
        sys.exit(INTERNAL)
