"""Results of design rules as rows for programs, as lines of text, and as a table for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from optinc_pdk.signoff.drc.design_rule_check import RuleResult

SHOWN_PLACES = 3
"""Number of places of a violated rule that its line states."""


def drc_rows(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """Convert results of design rules to dicts.

    Args:
        results: One result per rule.

    Returns:
        One dict per rule; ``boxes_um`` (left, bottom, right, top in µm) and ``notes`` contain the first 10 violations
        only.
    """
    return [
        {
            "id": found.rule.id,
            "severity": found.rule.severity,
            "violations": found.violations,
            "distinct": found.distinct,
            "text": found.rule.text,
            "boxes_um": np.round(found.boxes_um[:10], 3).tolist(),
            "notes": list(found.notes[:10]),
            "run": found.run,
        }
        for found in results
    ]


def page_rows(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """Convert results of design rules to the rows of a page's table, all as text.

    Args:
        results: One result per rule.

    Returns:
        For each rule ``id``, ``value`` with its unit, ``layers``, ``violations``, ``text``, whether it is only a
        ``warning``, and ``state``, the class of its result: ``pass``, ``fail`` or ``none``. Violated rules come first.
    """
    rows = []
    for found in sorted(results, key=lambda each: not each.violations):
        rule, warning = found.rule, found.rule.severity == "warning"
        state = "none" if not found.run or (warning and found.violations) else "fail" if found.violations else "pass"
        rows.append(
            {
                "id": rule.id,
                "value": rule.limit.replace("um^2", "µm²").replace("um", "µm").replace("deg", "°"),
                "layers": ", ".join(rule.layers),
                "violations": f"{found.violations:,}" if found.run else "not run",
                "text": rule.text,
                "warning": warning,
                "state": state,
            }
        )
    return rows


def violation_line(found: RuleResult) -> str:
    """Describe the violations of a rule in one line: severity, id, number, first places, and the rule's text."""
    corners = np.round(found.boxes_um[:SHOWN_PLACES, :2], 1) + 0.0  # without a sign of zero
    places = ", ".join(f"({x:.1f}, {y:.1f})" for x, y in corners.tolist())
    more = ", …" if found.violations > SHOWN_PLACES else ""
    distinct = f" ({found.distinct} distinct)" if found.distinct < found.violations else ""
    # notes that differ from place to place are measurements, which the marker database lists
    notes = list(dict.fromkeys(found.notes))
    shown = "".join(f"; {note}" for note in notes) if len(notes) <= SHOWN_PLACES else ""
    line = f"{found.rule.severity} {found.id}: {found.violations}{distinct} at {places}{more} µm. {found.rule.text}"
    return line + shown


def rules_table(results: Sequence[RuleResult]) -> Table:
    """Return a table with a row for every rule: number of violations, or that it was not run, and its text."""
    table = Table("rule", "severity", "violations", "text")
    for found in results:
        table.add_row(found.id, found.rule.severity, str(found.violations) if found.run else "not run", found.rule.text)
    return table
