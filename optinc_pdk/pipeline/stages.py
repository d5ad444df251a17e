"""The stages of a build, in order; their clock; and what a build returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optinc_pdk.report.schema import Report

STAGES = (
    "read",
    "factor",
    "assemble",
    "layout",
    "drc",
    "extract",
    "lvs",
    "program",
    "currents",
    "function",
    "rate",
    "pinout",
    "report",
)


@dataclass(frozen=True, eq=False)
class Build:
    """A finished build.

    Attributes:
        report: Content of ``report.json``: results of all checks and numbers of the chip.
        directory: Folder of the chip's files.
        findings: Failed checks and remarks, one line each.
    """

    report: Report
    directory: Path
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed, and every budget of the process holds or was accepted by name."""
        return self.report.verdict == "pass"


@dataclass
class Clock:
    """Measures the seconds of each stage and reports its begin."""

    on_stage: Callable[[str], None] | None
    on_progress: Callable[[str, int, int], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage within a ``with`` block."""
        if self.on_stage is not None:
            self.on_stage(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)

    def steps(self, stage: str, done: int, total: int) -> None:
        """Report the progress within a long stage."""
        if self.on_progress is not None:
            self.on_progress(stage, done, total)
