"""Faults of a simulated layout in the output of a command: text, JSON and exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.signoff.layout_faults import LayoutFault


@contextmanager
def faults_explaining_errors(as_json: bool) -> Iterator[list[LayoutFault]]:
    """Report the faults of a layout if they are the reason why it cannot be simulated.

    Args:
        as_json: Whether the command prints JSON.

    Yields:
        List to which the command adds the faults as soon as it knows them.

    Raises:
        InputError: As raised inside the ``with`` block, if no fault can affect the function.
        typer.Exit: With exit code 1 if one can; the faults and the error were printed.
    """
    faults: list[LayoutFault] = []
    try:
        yield faults
    except InputError as error:
        from optinc_pdk.signoff.layout_faults import affect_function

        if not affect_function(faults):
            raise
        if as_json:
            print(json.dumps({"schema": 1, "not_computed": str(error)} | faults_json(faults), indent=2))
        else:
            print(f"not computed: {error}")
            print_faults(faults)
        raise typer.Exit(FAILED) from error


def faults_json(faults: Sequence[LayoutFault]) -> dict[str, object]:
    """Return the entry ``faults`` of a command's JSON."""
    return {"faults": [fault.to_json() for fault in faults]}


def print_faults(faults: Sequence[LayoutFault]) -> None:
    """Print the faults of a layout, the first ones by place."""
    from optinc_pdk.report.sign_off_results import fault_lines

    for line in fault_lines(faults):
        print(line)


def exit_code(passed: bool, faults: Sequence[LayoutFault]) -> int:
    """Return the exit code of a command that simulated a layout.

    Args:
        passed: Whether its own checks passed.
        faults: Faults of the layout.
    """
    from optinc_pdk.signoff.layout_faults import affect_function

    return PASSED if passed and not affect_function(faults) else FAILED
