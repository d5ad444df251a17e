"""Files of a cascade: those of both chips, and its own report, which comes last."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from optinc_pdk import build_outputs
from optinc_pdk.cascade_build.plan import CascadePlan
from optinc_pdk.file_sets import StagedFiles
from optinc_pdk.file_writing import write_atomic

if TYPE_CHECKING:
    from optinc_pdk.report.cascade_report import CascadeReport
    from optinc_pdk.signoff.cascade import CascadeResult

ENDINGS = (".cascade.png", ".cascade.txt", ".cascade.json")
"""Endings of the cascade's own files; the last one is its report."""


def own_files(plan: CascadePlan) -> list[str]:
    """Return the names of the cascade's own files, its report last."""
    return [f"{plan.name}{ending}" for ending in ENDINGS]


def publish(
    plan: CascadePlan, numbers: dict[str, Any], result: CascadeResult | None, staged: StagedFiles
) -> CascadeReport:
    """Write the cascade's own files and make them visible together with those of both chips.

    Args:
        plan: The plan of the build.
        numbers: Fields of the report; its verdict becomes "pass" if nothing failed.
        result: Words through both levels; None if they were not sent.
        staged: Files of both chips.

    Returns:
        The report as written.
    """
    from optinc_pdk.report.cascade_report import CascadeReport, cascade_text
    from optinc_pdk.report.plots import outputs_png

    if not CascadeReport.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    picture, text, summary = own_files(plan)
    written: dict[str, bytes] = {}
    if result is not None:
        written[picture] = outputs_png(result.outputs, result.levels.astype(float))
    draft = CascadeReport.model_validate(numbers)
    written[text] = cascade_text(draft).encode()
    files = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
    report = draft.model_copy(update={"files": files})
    for name, content in written.items():
        write_atomic(staged.path(name), content)
    write_atomic(staged.path(summary), report.to_json().encode())
    build_outputs.publish(staged, *plan.chips, reports=[summary], stale=[picture, text])
    return report
