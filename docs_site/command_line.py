"""The reference page of the command line, from the program itself."""

from __future__ import annotations

import click
import typer.main

from optinc_pdk.cli.commands import app

HEAD = """# Command line

Every command with its arguments and options, generated from the program. What the commands do and how they belong
together is described in [commands](../commands.md).
"""


def page() -> str:
    """Return the page as Markdown."""
    group = typer.main.get_command(app)
    context = click.Context(group, info_name="optinc")
    return HEAD + "".join(_sections(group, context))


def _sections(command: click.Command, context: click.Context) -> list[str]:
    """Return the section of a command, and those of its commands."""
    sections = [_section(command, context)]
    if hasattr(command, "list_commands"):
        for name in command.list_commands(context):
            one = command.get_command(context, name)
            sections += _sections(one, click.Context(one, info_name=name, parent=context))
    return sections


def _section(command: click.Command, context: click.Context) -> str:
    """Return the section of one command."""
    text = [f"\n## {context.command_path}\n", command.help or ""]
    text.append(f"\n```\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n")
    rows = [_row(parameter, context) for parameter in command.get_params(context)]
    if rows:
        text.append("\n| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(text)


def _row(parameter: click.Parameter, context: click.Context) -> str:
    """Return the row of an argument or option."""
    record = parameter.get_help_record(context)
    name, help_text = record or (parameter.human_readable_name, getattr(parameter, "help", "") or "")
    return f"| `{name.strip()}` | {' '.join(help_text.split())} |"
