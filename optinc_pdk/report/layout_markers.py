"""Places in the layout of the report's page that checks report: design rules, netlist and faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.drc.marker_database import MARKER_UM
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault
from optinc_pdk.signoff.lvs.comparison import LvsResult

VIOLATIONS, WARNINGS = "Violations of design rules", "Warnings of design rules"
DIFFERENCES, FAULTS = "Differences from the netlist", "Faults"
MAX_MARKERS = 1000
"""Markers of one check on the page; the marker database has all."""


@dataclass(frozen=True)
class LayoutMarker:
    """A place that a check reports.

    Attributes:
        check: `VIOLATIONS`, `WARNINGS`, `DIFFERENCES` or `FAULTS`.
        name: Rule, or kind of difference or fault.
        text: What is wrong.
        box: Left, bottom, right and top in nm.
    """

    check: str
    name: str
    text: str
    box: tuple[int, int, int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the marker as dicts and lists."""
        return {"check": self.check, "name": self.name, "text": self.text, "box": list(self.box)}


def layout_markers(
    rules: DrcResult, electrical: Sequence[RuleResult], lvs: LvsResult, faults: Sequence[LayoutFault]
) -> tuple[LayoutMarker, ...]:
    """Return the markers of all checks, at most `MAX_MARKERS` of each.

    Differences and faults without a place have no marker.

    Args:
        rules: Results of the geometric rules.
        electrical: Results of the electrical rules; empty if they did not run.
        lvs: Comparison of layout and netlist.
        faults: Faults of the layout.
    """
    differences = [
        LayoutMarker(DIFFERENCES, each.kind, each.message, _around(each.position_um))
        for each in lvs.differences
        if each.position_um is not None
    ]
    found = [
        LayoutMarker(FAULTS, each.kind, f"{each.text}; {FAULT_KINDS[each.kind].meaning}", _around(each.place_um))
        for each in faults
        if each.place_um is not None
    ]
    of_rules = list(_of_rules(rules.all_rules(electrical)))
    by_check = [[each for each in of_rules if each.check == check] for check in (VIOLATIONS, WARNINGS)]
    return tuple(marker for markers in (*by_check, differences, found) for marker in markers[:MAX_MARKERS])


def _of_rules(results: Sequence[RuleResult]) -> Iterator[LayoutMarker]:
    for result in results:
        notes = (*result.notes, *[""] * (len(result.markers) - len(result.notes)))
        for (left, bottom, right, top), note in zip(result.boxes_um.tolist(), notes, strict=True):
            box = _nm(left), _nm(bottom), _nm(right), _nm(top)
            check = VIOLATIONS if result.rule.severity == "error" else WARNINGS
            yield LayoutMarker(check, result.id, result.rule.text + (f"; {note}" if note else ""), box)


def _around(place_um: tuple[float, float]) -> tuple[int, int, int, int]:
    x, y = place_um
    return _nm(x - MARKER_UM), _nm(y - MARKER_UM), _nm(x + MARKER_UM), _nm(y + MARKER_UM)


def _nm(um: float) -> int:
    return round(um * NM_PER_UM)
