"""Option ``--drift`` of the command ``yield``: chips in service instead of chips as calibrated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from click.core import ParameterSource

from optinc_pdk.cli.app import progress_counter
from optinc_pdk.errors import InputError

WITHOUT_EFFECT = {
    "target": "--target",
    "contributions": "--contributions",
    "scheduler": "--scheduler",
    "workers": "--workers",
    "resume": "--resume",
}
"""Parameters of the command that have no effect together with ``--drift``, with their options."""


def check_drift(context: typer.Context, hours: float, calibrate: bool) -> None:
    """Check ``--drift`` and refuse options that have no effect with it.

    Args:
        context: Context of the command.
        hours: Time in service.
        calibrate: Whether samples are calibrated.

    Raises:
        InputError: The time is out of range, samples are not calibrated, or another option has no effect.
    """
    from optinc_pdk.studies.drift.scenarios import check_hours

    check_hours(hours)
    if not calibrate:
        raise InputError("--drift lets calibrated chips drift: add --calibrate and --weights, or leave it out")
    given = [name for name in WITHOUT_EFFECT if context.get_parameter_source(name) == ParameterSource.COMMANDLINE]
    if not context.params["contributions"]:
        # a drift run measures no contributions: --no-contributions states what holds
        given = [name for name in given if name != "contributions"]
    for name in given:
        raise InputError(f"{WITHOUT_EFFECT[name]} has no effect with --drift: leave one of them out")


@contextmanager
def drift_progress() -> Iterator[Any]:
    """Show a progress bar over the runs of the chips."""
    with progress_counter(remaining=True) as report:
        yield lambda done, total: report("drift", done, total)


def print_drift(numbers: Mapping[str, Any], stem: Path) -> None:
    """Print the table of a drift run and the paths of its files."""
    from optinc_pdk.studies.drift.drift_run import PICTURE, REPORT, TABLE, summary_lines

    for line in summary_lines(numbers):
        print(line)
    print("written:")
    for ending in (REPORT, TABLE, PICTURE):
        print(Path(f"{stem}.{ending}"))
