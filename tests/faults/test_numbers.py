"""Every numeric option of every command: odd values are refused at once, with the option's name and exit code 2."""

from __future__ import annotations

import sys
from io import StringIO
from pathlib import Path
from unittest import mock

import click
import pytest
import typer

from optinc_pdk.cli import main
from optinc_pdk.cli.commands import app

NUMERIC = ("integer", "integer range", "float", "float range")
ODD = ("", "x", "1e", "nan nan")
TOO_LARGE = (str(10**20), "9" * 400)
UNBOUNDED = ("bits", "servers", "groups", "mzis", "drive_bits")
"""Whole numbers whose limit depends on the task; their functions refuse them, or, for mzis, take all networks."""


def options() -> list[tuple[str, click.Parameter]]:
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return [
        (command, option)
        for command, one in group.commands.items()
        for option in one.params
        if option.type.name in NUMERIC
    ]


OPTIONS = options()


@pytest.mark.full(every=18)
@pytest.mark.parametrize(("command", "option"), OPTIONS, ids=[f"{name} {one.opts[0]}" for name, one in OPTIONS])
def test_odd_numbers_are_refused_by_name(
    command: str, option: click.Parameter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = option.type.name.startswith("integer")
    bounded = whole and option.name not in UNBOUNDED
    for value in (*ODD, *(("nan", "inf", "0.5") if whole else ()), *(TOO_LARGE if bounded else ())):
        errors = StringIO()
        arguments = ["optinc", command, f"{option.opts[0]}={value}"]
        with (
            mock.patch.object(sys, "argv", arguments),
            mock.patch.object(sys, "stderr", errors),
            pytest.raises(SystemExit) as end,
        ):
            main()
        assert end.value.code == 2 and option.opts[0] in errors.getvalue(), (value, errors.getvalue())
    assert list(tmp_path.iterdir()) == []


def test_there_are_tens_of_numeric_options() -> None:
    assert len(OPTIONS) > 40
