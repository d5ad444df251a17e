"""Checks the circuits of examples/circuits, and which check finds which fault in their layouts: ``make circuits``."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from studies import write_study

from circuit_faults.faults import FAULTS
from circuit_faults.judges import Verdict, connects_differently, judge
from circuit_faults.layouts import FOLDER, PROCESS, draw, edited
from circuit_faults.page import PICTURES
from optinc_pdk.report.layout_pictures import layout_png

DOCS = FOLDER.parents[1] / "docs"
PIXELS = 1200


def main() -> None:
    """Draw, edit and check every circuit, and write the results and pictures."""
    # gdsfactory warns of labels of its own PDK
    warnings.simplefilter("ignore")
    circuits: list[list[str]] = []
    rows: list[list[str]] = []
    verdicts: list[Verdict] = []
    for name, faults in FAULTS.items():
        print(name, file=sys.stderr)
        with TemporaryDirectory() as folder:
            drawn = draw(name, Path(folder))
            good = judge(drawn.gds, drawn)
            if not (good.checked.passed and good.comparer.match and good.same_by_ports and good.checked.lvs):
                raise SystemExit(f"{name} does not pass")
            text = (FOLDER / f"{name}.py").read_text()
            title = str(ast.get_docstring(ast.parse(text)))
            lvs = good.checked.lvs
            circuits.append([name, title, str(len(text.splitlines())), str(lvs.devices), str(lvs.nets)])
            if name in PICTURES:
                png = layout_png(drawn.gds, PROCESS.gds_layers, width_px=PIXELS)
                (DOCS / f"circuits_{name}.png").write_bytes(png)
            for fault in faults:
                verdict = judge(edited(drawn, fault.edit, Path(folder)), drawn)
                verdicts.append(verdict)
                rows.append([name, fault.text, *_cells(verdict, good, fault.instance)])
    data = {"circuits": circuits, "faults": rows, "counts": _counts(verdicts)}
    write_study("circuits", data, "make circuits", [PROCESS.name])


def _cells(verdict: Verdict, good: Verdict, instance: str) -> list[str]:
    """Return the cells of a fault's row behind its description."""
    lvs = verdict.checked.lvs
    assert lvs is not None
    rules = [rule.id for rule in verdict.checked.drc.rules if rule.violations and rule.rule.severity == "error"]
    kinds = list(dict.fromkeys(each.kind for each in lvs.differences))[:3]
    named = f" at `{instance}`" if instance else ""
    found = (
        ", ".join(rules[:3]),
        ", ".join(kinds) + named if kinds else "",
        _mark(verdict.simulation_differs(good.checked)),
        _mark(not verdict.comparer.match),
        _mark(not verdict.same_by_ports),
    )
    return [each or "–" for each in found]


def _mark(found: bool) -> str:
    """Return the text of a check that finds a fault or not."""
    return "found" if found else "–"


def _counts(verdicts: list[Verdict]) -> dict[str, int]:
    """Return how many faults each check finds."""
    found = [each.checked.lvs for each in verdicts]
    return {
        "faults": len(verdicts),
        "verify": sum(not each.checked.passed for each in verdicts),
        "lvs": sum(lvs is not None and not lvs.match for lvs in found),
        "rules": sum(not each.checked.drc.clean for each in verdicts),
        "klayout": sum(not each.comparer.match for each in verdicts),
        "apart": sum(
            lvs is not None and each.comparer.match is connects_differently(lvs)
            for each, lvs in zip(verdicts, found, strict=True)
        ),
        "missed_by_ports": sum(each.same_by_ports for each in verdicts),
    }


if __name__ == "__main__":
    main()
