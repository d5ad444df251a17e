"""The typer application with its options, progress bars and tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import click
import typer
from typer.core import TyperGroup

from optinc_pdk.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

Counter = Callable[[str, int, int | None], None]
"""Called with the name of the task, how many of its steps are done, and their total; None where it is unknown."""
BAR_WIDTH = 40
"""Largest width of a progress bar, in characters."""
HELP_WIDTH = 110
"""Largest width of help texts, in characters; less in narrow terminals."""

GROUPS = {
    "Chips": ("build", "cascade", "program", "factor", "size", "view"),
    "Sign-off": ("verify", "drc", "lvs", "check", "compare"),
    "Analyses": ("simulate", "spectrum", "noise", "eye", "yield"),
    "Networks": ("task", "synth", "train", "search"),
    "Processes and set-up": ("process", "doctor"),
}
"""Commands by the heading under which the help lists them, in this order."""


class WrappedCommands(TyperGroup):
    """Commands whose summaries are wrapped in the help instead of cut."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every command with its summary."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(self.commands[name])) for name in self.list_commands(ctx)])


class GroupedCommands(TyperGroup):
    """The commands of ``optinc``, which the help lists under the headings of ``GROUPS``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands in the order of ``GROUPS``; shells complete them in this order."""
        return [name for names in GROUPS.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every group with the summaries of its commands, which are wrapped instead of cut."""
        width = max(len(name) for name in self.list_commands(ctx))
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), _summary(self.commands[name])) for name in names])


def _summary(command: click.Command) -> str:
    """Return the first paragraph of a command's help as one line."""
    return " ".join((command.help or "").partition("\n\n")[0].split())


app = typer.Typer(
    help="From a trained network or a matrix to a photonic chip that is signed off; and the same sign-off for circuits "
    "that are drawn by hand: design rules, layout against netlist and simulation.",
    cls=GroupedCommands,
    context_settings={"max_content_width": HELP_WIDTH},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    suggest_commands=False,  # click suggests them already
)


def print_version(asked: bool) -> None:
    """Print the version of the package and exit, if it was asked for."""
    if asked:
        from importlib.metadata import version

        print(f"optinc-pdk {version('optinc-pdk')}")
        raise typer.Exit


@app.callback()
def application(
    version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of ``optinc`` itself; its help is that of ``app``."""


def print_table(table: Any) -> None:
    """Print a rich table on stdout, 110 characters wide if stdout is not a terminal."""
    _console(sys.stdout, None if sys.stdout.isatty() else 110).print(table)


def _console(stream: TextIO, width: int | None = None) -> Console:
    """Return a rich console that shows text of files as it is: without markup, and with escaped control characters."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class PrintableConsole(Console):
        # before the widths of columns are measured
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

        # what reaches the console as rich's own text, such as prints beside a progress bar
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

    # the stream itself would replace the console's own colours
    styled = getattr(stream, "styled", stream)
    return PrintableConsole(file=styled, width=width, markup=False, emoji=False)


@contextmanager
def progress_counter(remaining: bool = False) -> Iterator[Counter]:
    """Show a progress bar on stderr, if stderr is a terminal, within a ``with`` block.

    Args:
        remaining: Whether to show an estimate of the remaining time.

    Yields:
        Function that updates the bar. Its arguments are the task name, the number of steps done, and the total or None.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    # the bar, not the text, becomes shorter where the terminal is narrow
    elastic = BarColumn(bar_width=None, table_column=Column(max_width=BAR_WIDTH))
    columns = (TextColumn("{task.description:>14}", markup=False), elastic, MofNCompleteColumn(), TimeElapsedColumn())
    estimate = (TimeRemainingColumn(),) if remaining else ()
    console = _console(sys.stderr)
    with Progress(*columns, *estimate, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def update(name: str, done: int, total: int | None) -> None:
            bar.update(task, description=printable(name), completed=done, total=total)

        yield update


@dataclass(frozen=True)
class StageReport:
    """Updates of a progress bar over named stages.

    Attributes:
        stages: Names of the stages in order.
        report: Function that updates the bar.
    """

    stages: tuple[str, ...]
    report: Counter

    def __call__(self, stage: str) -> None:
        """Show that a stage begins."""
        self.report(stage, self.stages.index(stage), len(self.stages))

    def within(self, stage: str, done: int, total: int) -> None:
        """Show the number of steps that are done within a long stage, and their total."""
        self.report(stage, done, total)


@contextmanager
def stage_progress(stages: tuple[str, ...]) -> Iterator[StageReport]:
    """Show a progress bar over named stages on stderr, if stderr is a terminal, within a ``with`` block.

    Args:
        stages: Names of the stages in order.

    Yields:
        Object to call with the name of a stage when the stage begins.
    """
    with progress_counter() as report:
        yield StageReport(stages, report)
