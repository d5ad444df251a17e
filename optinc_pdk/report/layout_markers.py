"""Places in the layout of the report's page that checks report: design rules, netlist and faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.report.layout_guides import LayoutGuides
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.drc.marker_database import MARKER_UM
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault
from optinc_pdk.signoff.lvs.comparison import Difference, LvsResult

VIOLATIONS, WARNINGS = "Violations of design rules", "Warnings of design rules"
DIFFERENCES = "Differences from the netlist"
FAULTS, LAYOUT_WARNINGS = "Faults", "Warnings of the layout"
CONNECTIONS = ("net", "length")
"""Kinds of differences about what is between two ports."""
MAX_MARKERS = 1000
"""Markers of one check on the page; the marker database has all."""


@dataclass(frozen=True)
class LayoutMarker:
    """A place that a check reports.

    Attributes:
        check: `VIOLATIONS`, `WARNINGS`, `DIFFERENCES`, `FAULTS`, or `LAYOUT_WARNINGS` for faults that do not affect
            the function.
        name: Rule, or kind of difference or fault.
        text: What is wrong.
        box: Left, bottom, right and top in nm.
        guide: Number of the guide that the finding is about, which is marked instead of the box; None for no guide.
    """

    check: str
    name: str
    text: str
    box: tuple[int, int, int, int]
    guide: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the marker as dicts and lists, with its guide or else its box."""
        place = {"box": list(self.box)} if self.guide is None else {"guide": self.guide}
        return {"check": self.check, "name": self.name, "text": self.text, **place}


def layout_markers(
    rules: DrcResult,
    electrical: Sequence[RuleResult],
    lvs: LvsResult | None,
    faults: Sequence[LayoutFault],
    guides: LayoutGuides,
) -> tuple[LayoutMarker, ...]:
    """Return the markers of all checks, at most `MAX_MARKERS` of each.

    Differences and faults without a place have no marker.

    Args:
        rules: Results of the geometric rules.
        electrical: Results of the electrical rules; empty if they did not run.
        lvs: Comparison of layout and netlist; None if there is no netlist.
        faults: Faults of the layout.
        guides: Guides of the layout.
    """
    compared = () if lvs is None else lvs.differences
    differences = [_of_difference(each, each.position_um, guides) for each in compared if each.position_um is not None]
    found = [
        LayoutMarker(
            FAULTS if each.affects_function else LAYOUT_WARNINGS,
            each.kind,
            f"{each.text}; {FAULT_KINDS[each.kind].meaning}",
            _around(each.place_um),
        )
        for each in faults
        if each.place_um is not None
    ]
    by_effect = [[each for each in found if each.check == check] for check in (FAULTS, LAYOUT_WARNINGS)]
    violated = [each for each in rules.all_rules(electrical) if each.violations]
    by_check = []
    for severity in ("error", "warning"):
        results = [each for each in violated if each.rule.severity == severity]
        # every violated rule has markers
        by_check.append([marker for each in results for marker in islice(_of_rule(each), MAX_MARKERS // len(results))])
    return tuple(marker for markers in (*by_check, differences, *by_effect) for marker in markers[:MAX_MARKERS])


def _of_rule(result: RuleResult) -> Iterator[LayoutMarker]:
    notes = (*result.notes, *[""] * (len(result.markers) - len(result.notes)))
    check = VIOLATIONS if result.rule.severity == "error" else WARNINGS
    for (left, bottom, right, top), note in zip(result.boxes_um.tolist(), notes, strict=True):
        box = _nm(left), _nm(bottom), _nm(right), _nm(top)
        yield LayoutMarker(check, result.id, result.rule.text + (f"; {note}" if note else ""), box)


def _of_difference(difference: Difference, place_um: tuple[float, float], guides: LayoutGuides) -> LayoutMarker:
    """Return the marker of a difference at a position.

    The position of a difference about a connection is the middle of a device: its marker is the guide in the layout, or
    the port where a guide is missing.
    """
    marker = LayoutMarker(DIFFERENCES, difference.kind, difference.message, _around(place_um))
    port = difference.extracted.partition(" - ")[0]
    if difference.kind not in CONNECTIONS or port not in guides.port_boxes:
        return marker
    if port in guides.of_port:
        return replace(marker, guide=guides.of_port[port])
    left, bottom, right, top = guides.port_boxes[port]
    return replace(marker, box=_around(((left + right) / 2 / NM_PER_UM, (bottom + top) / 2 / NM_PER_UM)))


def _around(place_um: tuple[float, float]) -> tuple[int, int, int, int]:
    x, y = place_um
    return _nm(x - MARKER_UM), _nm(y - MARKER_UM), _nm(x + MARKER_UM), _nm(y + MARKER_UM)


def _nm(um: float) -> int:
    return round(um * NM_PER_UM)
