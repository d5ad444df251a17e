"""Hints that a layout was drawn for another process than the one of the command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.cards import Process


@contextmanager
def errors_hinting_at_process(gds: Path, process: Process) -> Iterator[None]:
    """Add to an error the process that the layout's layers match better.

    Errors of the layout itself are raised as they are: they name the process, or the layout cannot be read.

    Raises:
        InputError: As raised inside the ``with`` block, with the hint.
    """
    try:
        yield
    except InputError as error:
        # before slow imports
        if not gds.is_file():
            raise

        from optinc_pdk.extract import GdsError

        if isinstance(error, GdsError):
            raise
        if hint := _hint(gds, process):
            raise InputError(f"{error}; {gds}: {hint}") from error
        raise


def hint_at_process(passed: bool, gds: Path, process: Process) -> None:
    """Warn that a layout which failed matches another process better.

    Args:
        passed: Whether the layout passed; then there is no warning.
        gds: Layout file.
        process: Process of the command.
    """
    if not passed and (hint := _hint(gds, process)):
        print(f"optinc: {gds}: {hint}", file=sys.stderr)


def _hint(gds: Path, process: Process) -> str:
    """Return the hint; empty if there is no reason for it, or if the layout cannot be read."""
    from optinc_pdk.extract import GdsError
    from optinc_pdk.signoff.lvs.input_consistency import process_hint

    try:
        return process_hint(gds, process)
    except GdsError:
        return ""
