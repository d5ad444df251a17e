"""What a finished build prints."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from optinc_pdk.cli.app import print_table

if TYPE_CHECKING:
    from optinc_pdk.chip_sign_off import Build


def print_build(result: Build) -> None:
    """Print the summary and the verdict of a build, and its findings on standard error."""
    from optinc_pdk.report.terminal_tables import summary_table

    print_table(summary_table(result.report))
    for line in result.findings:
        print(line, file=sys.stderr)
    print(f"verdict {result.report.verdict}: {result.directory / result.report.name}.report.html")
