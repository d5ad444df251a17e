"""The application, its exit codes, and how its commands end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from optinc_pdk.files import InputError

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
def progress(stages: tuple[str, ...]) -> Iterator[Callable[[str], None]]:
    """A bar over the stages on stderr; silent where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(stages))

        def watch(stage: str) -> None:
            bar.update(task, description=stage, completed=stages.index(stage))

        yield watch
