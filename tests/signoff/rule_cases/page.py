"""Page of all rules with the results of their tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

HEAD = """# Design rules and their tests

Every rule of every process is tested on generated layouts (`tests/signoff/rule_cases`), as foundries test their rules.

Layouts are drawn at the limit, one step above it and one step below it. They are drawn at 0°, at 45°, at the angles of
3-4-5 and 5-12-13 triangles, and at 7°, 33.3° and 63.1°. All vertices are on the grid, so every distance is known
exactly. Each layout is drawn plain, cut into two cells that meet across the border, as an array of 3 by 2, rotated by
90°, 180° and 270°, and mirrored. Where rounding cannot change the result, it is also drawn as a cell rotated by 45° and
33.3°. Further layouts are arrays whose copies meet each other. The number of violations must be exact. Rules of guides
are tested twice: alone, and on the condensed layout as in a run of all rules.

- *Cases*: the numbers of cases that must pass and that must fail. A *false positive* is a case with more violations
  reported than expected, a *false negative* a case with fewer.
- *Resolution*: the distance between layouts that must fail and layouts that must pass. For slanted edges, layers with a
  tolerance for rounding are checked at their value minus that tolerance. *At worst* names the coarsest case.
- *Limits*: every number of the rule is changed by its smallest step, up and down. The column has the number of changed
  rules for which the result of some case differs.

Electrical rules are tested on a heater with a wire, a ground and two pads, at the current that the limit allows. A step
of ground rise is a millionth of that current.
"""
COLUMNS = (
    "rule",
    "value",
    "text (lengths in µm)",
    "source",
    "severity",
    "cases",
    "false positives",
    "false negatives",
    "resolution",
    "limits",
)


def page(data: Sequence[Mapping[str, Any]]) -> str:
    """The page in Markdown, from the data of the study: the tables of :func:`rule_cases.table.tables`."""
    parts = [HEAD]
    for table in data:
        parts += [
            f"\n## {', '.join(table['processes'])}\n\n",
            "| " + " | ".join(COLUMNS) + " |\n",
            "|---" * len(COLUMNS) + "|\n",
        ]
        parts += ["| " + " | ".join(row) + " |\n" for row in table["rows"]]
    return "".join(parts)
