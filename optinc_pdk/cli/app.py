"""The application, its exit codes, and how its commands end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from optinc_pdk.files import InputError

Counter = Callable[[str, int, int | None], None]
"""Called with what is done, how many of it are, and of how many; None where nobody can know."""
BAR_WIDTH = 40
"""Characters of a bar at most."""
PASSED, FAILED, UNUSABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    help="From trained weights to a signed-off photonic chip that computes a quantized average.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run a command; errors become one line and an exit code."""
    try:
        app(standalone_mode=True)
    except InputError as fault:
        print(f"optinc: {fault}", file=sys.stderr)
        sys.exit(UNUSABLE)
    except KeyboardInterrupt:
        print("optinc: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except OSError as fault:
        print(
            f"optinc: {fault.filename or ''}: {fault.strerror}; check the path and its permissions",
            file=sys.stderr,
        )
        sys.exit(UNUSABLE)
    except Exception:
        import traceback

        traceback.print_exc()
        print("optinc: internal error; please report it with the lines above", file=sys.stderr)
        sys.exit(INTERNAL)


def print_table(table: Any) -> None:
    """Print a table of rich; 110 characters wide where stdout is no terminal."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 110).print(table)


@contextmanager
def counter(remaining: bool = False) -> Iterator[Counter]:
    """A bar on stderr that tells what is done; silent where stderr is no terminal.

    Args:
        remaining: Whether to estimate the time that is left.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # the bar gives way to words where the terminal is narrow
    stretch = BarColumn(bar_width=None, table_column=Column(max_width=BAR_WIDTH))
    columns = (TextColumn("{task.description:>14}"), stretch, MofNCompleteColumn(), TimeElapsedColumn())
    left = (TimeRemainingColumn(),) if remaining else ()
    console = Console(stderr=True)
    with Progress(*columns, *left, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def watch(what: str, done: int, total: int | None) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield watch


@contextmanager
def progress(stages: tuple[str, ...]) -> Iterator[Callable[[str], None]]:
    """A bar over the stages on stderr; silent where stderr is no terminal."""
    with counter() as watch:
        yield lambda stage: watch(stage, stages.index(stage), len(stages))
