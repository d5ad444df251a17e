"""Files of a cascade: those of both chips, and its own report, which comes last."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.cascade_build.plan import CascadePlan
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.flow import FILE_ENDINGS

if TYPE_CHECKING:
    from optinc_pdk.report.cascade_report import CascadeReport
    from optinc_pdk.signoff.cascade import CascadeResult

REPORT_ENDINGS = (".report.html", ".report.json")


def publish(
    plan: CascadePlan, numbers: dict[str, Any], result: CascadeResult | None, staging: Path, directory: Path
) -> CascadeReport:
    """Move the chips' files into the folder and write the cascade's own; each report comes after its files.

    Args:
        plan: The plan of the build.
        numbers: Fields of the report; its verdict becomes "pass" if nothing failed.
        result: Words through both levels; None if they were not sent.
        staging: Folder with the files of both chips.
        directory: Folder to write, which is created if it is missing.

    Returns:
        The report as written.
    """
    from optinc_pdk.report.cascade_report import CascadeReport, cascade_text
    from optinc_pdk.report.plots import outputs_png

    if not CascadeReport.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    written: dict[str, bytes] = {}
    if result is not None:
        written[f"{plan.name}.cascade.png"] = outputs_png(result.outputs, result.levels.astype(float))
    draft = CascadeReport.model_validate(numbers)
    written[f"{plan.name}.cascade.txt"] = cascade_text(draft).encode()
    files = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
    report = draft.model_copy(update={"files": files})
    directory.mkdir(parents=True, exist_ok=True)
    summary = directory / f"{plan.name}.cascade.json"
    for stale in (summary, directory / f"{plan.name}.cascade.png"):
        stale.unlink(missing_ok=True)
    for chip in plan.chips:
        _move_chip(chip, staging, directory)
    for name, content in written.items():
        write_atomic(directory / name, content)
    write_atomic(summary, report.to_json().encode())
    return report


def _move_chip(chip: str, staging: Path, directory: Path) -> None:
    """Move the files of a chip, its report last; files of an earlier build of this name are deleted."""
    (directory / f"{chip}.report.json").unlink(missing_ok=True)
    for ending in (*FILE_ENDINGS, *REPORT_ENDINGS):
        if (staging / f"{chip}{ending}").exists():
            os.replace(staging / f"{chip}{ending}", directory / f"{chip}{ending}")
        else:
            (directory / f"{chip}{ending}").unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
