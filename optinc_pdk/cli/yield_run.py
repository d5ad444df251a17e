"""Runs of the command ``yield``: sampled chips as fabricated, and calibrated chips that drift."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.cli.app import progress_counter
from optinc_pdk.cli.drift_options import drift_progress, print_drift
from optinc_pdk.cli.layout_faults import faults_explaining_errors, print_faults

if TYPE_CHECKING:
    from optinc_pdk.cards import Process
    from optinc_pdk.io.chip_files import ChipFiles
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.studies.montecarlo.study import YieldStudy


@dataclass(frozen=True)
class YieldRun:
    """Samples of a chip, and where the results go.

    Attributes:
        files: Files of the chip.
        card: Process as the target uses it.
        work: Parameters of the samples.
        samples: Number of samples.
        directory: Folder of the results.
        faults: Faults of the layout, which the samples do not include.
        as_json: Whether JSON is printed.
    """

    files: ChipFiles
    card: Process
    work: YieldStudy
    samples: int
    directory: Path
    faults: list[LayoutFault]
    as_json: bool

    def drift(self, hours: float) -> None:
        """Let calibrated samples drift, and print the results."""
        from optinc_pdk.studies.drift.drift_run import drift_study, run_drift
        from optinc_pdk.studies.montecarlo.yield_run import header_of

        with faults_explaining_errors(self.as_json) as explained, drift_progress() as progress:
            explained += self.faults
            header, study = header_of(self.files, self.card, self.work), drift_study(self.work)
            numbers = run_drift(study, header, hours, self.samples, self.directory, progress, self.faults)
        self._print(numbers, print_drift)

    def sample(self, scheduler: str | None, workers: int | None, resume: bool, contributions: bool) -> None:
        """Evaluate samples, and print the results.

        Args:
            scheduler: Value of ``--scheduler``.
            workers: Value of ``--workers``.
            resume: Whether an earlier run is continued.
            contributions: Whether single imperfections are evaluated as well.
        """
        from optinc_pdk.studies.montecarlo.executors import open_executor
        from optinc_pdk.studies.montecarlo.yield_run import header_of, run_yield

        with faults_explaining_errors(self.as_json) as explained, _samples() as progress:
            explained += self.faults
            run, header = open_executor(self.work, scheduler, workers), header_of(self.files, self.card, self.work)
            numbers = run_yield(
                self.work, header, self.samples, self.directory, run, resume, progress, contributions, self.faults
            )
        self._print(numbers, _print_summary)

    def _print(self, numbers: Mapping[str, Any], as_text: Callable[[Mapping[str, Any], Path], None]) -> None:
        if self.as_json:
            print(json.dumps(numbers, indent=2))
            return
        as_text(numbers, self.directory / self.files.name)
        print_faults(self.faults)


@contextmanager
def _samples() -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar over the samples; an interruption reports how many are kept."""
    kept = 0
    try:
        with progress_counter(remaining=True) as report:

            def report_samples(done: int, total: int) -> None:
                nonlocal kept
                kept = done
                report("samples", done, total)

            yield report_samples
    except KeyboardInterrupt:
        print(f"optinc: {kept} samples are kept; give --resume as well to continue", file=sys.stderr)
        raise


def _print_summary(numbers: Mapping[str, Any], stem: Path) -> None:
    from optinc_pdk.studies.montecarlo.summary_text import summary_lines
    from optinc_pdk.studies.montecarlo.yield_run import FILES, OPTIONAL_FILES, RECORDS, REPORT

    for line in summary_lines(numbers):
        print(line)
    print("written:")
    for ending in (REPORT, RECORDS, *FILES, *OPTIONAL_FILES):
        path = Path(f"{stem}.{ending}")
        # a run deletes optional files that it does not write
        if path.exists():
            print(path)
