"""Command ``doctor``: what is installed, what is missing, and how to get it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from optinc_pdk.cli.app import app, stage_progress
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.options import Json

if TYPE_CHECKING:
    from optinc_pdk.report.installation import Part


@app.command()
def doctor(as_json: Json = False) -> None:
    """Show what is installed, what is missing, and how to get it: packages, KLayout, fonts, caches, memory.

    Imports every package, so it takes seconds. Exit code 1 if something is missing or unsuitable that commands need.
    """
    from optinc_pdk.report.installation import STEPS, installation_parts

    with stage_progress(STEPS) as report_stage:
        steps = installation_parts(report_stage)
    parts = [part for each in steps.values() for part in each]
    failed = [part.name for part in parts if part.failed]
    if as_json:
        groups = {step: [asdict(part) for part in each] for step, each in steps.items()}
        print(json.dumps({"schema": 1, "passed": not failed} | groups, indent=2))
    else:
        for step, each in steps.items():
            print(f"{step}:")
            for part in each:
                print(_line(part, width=max(len(part.name) for part in parts)))
        absent = [part.name for part in parts if part.status != "ok" and not part.required]
        print(f"required: {'missing or unsuitable: ' + ', '.join(failed) if failed else 'everything is there'}")
        if absent:
            print(f"optional: missing or unsuitable: {', '.join(absent)}")
    raise typer.Exit(FAILED if failed else PASSED)


def _line(part: Part, width: int) -> str:
    status = "" if part.status == "ok" else f"{part.status.upper() if part.required else part.status}: "
    return f"  {part.name:{width}}  {status}{part.found}" + (f" -> {part.remedy}" if part.remedy else "")
