"""Groups of commands in the help of ``optinc``, and the list of commands with complete summaries."""

from __future__ import annotations

import click
from typer.core import TyperGroup

GROUPS = {
    "Chips": ("build", "cascade", "program", "factor", "size", "view"),
    "Sign-off": ("verify", "drc", "lvs", "check", "compare"),
    "Analyses": ("simulate", "spectrum", "noise", "eye", "yield"),
    "Networks": ("task", "synth", "train", "search"),
    "Processes and set-up": ("process", "doctor"),
}
"""Commands by the heading under which the help lists them, in this order."""


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
