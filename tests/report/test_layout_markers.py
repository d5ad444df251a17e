"""Markers of the report's page: every place that a check reports, with its text."""

from dataclasses import replace

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import load_process
from optinc_pdk.report.layout_markers import (
    DIFFERENCES,
    FAULTS,
    MAX_MARKERS,
    VIOLATIONS,
    WARNINGS,
    LayoutMarker,
    layout_markers,
)
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault
from optinc_pdk.signoff.lvs.comparison import LvsResult
from optinc_pdk.signoff.lvs.differences import Difference

NOTHING = np.zeros(0, dtype=np.int64)


def lvs_with(*differences: Difference) -> LvsResult:
    return LvsResult(not differences, 0, 0, differences, len(differences), NOTHING, NOTHING)


def test_places_of_all_checks_become_markers() -> None:
    error, warning = (
        next(rule for rule in load_process().rules if rule.severity == severity) for severity in ("error", "warning")
    )
    square = kdb.DPolygon(kdb.DBox(1.0, 2.0, 3.5, 4.0))
    rules = DrcResult("made.gds", "made", (RuleResult(error, (square,), ("0.1 µm",)),), (error, warning))
    lvs = lvs_with(
        Difference("open", "is cut", "a", "", (10.0, 20.0)), Difference("label", "is missing", "b", "", None)
    )
    faults = [LayoutFault("dangling", "one end", (5.0, 6.0)), LayoutFault("label", "nowhere")]
    found = layout_markers(rules, (RuleResult(warning, (square,)),), lvs, faults)
    assert found == (
        LayoutMarker(VIOLATIONS, error.id, f"{error.text}; 0.1 µm", (1000, 2000, 3500, 4000)),
        LayoutMarker(WARNINGS, warning.id, warning.text, (1000, 2000, 3500, 4000)),
        LayoutMarker(DIFFERENCES, "open", "is cut", (8000, 18000, 12000, 22000)),
        LayoutMarker(FAULTS, "dangling", f"one end; {FAULT_KINDS['dangling'].meaning}", (3000, 4000, 7000, 8000)),
    )
    assert found[0].to_json()["box"] == [1000, 2000, 3500, 4000]


def test_each_check_has_a_limit_of_its_own() -> None:
    rule = next(rule for rule in load_process().rules if rule.severity == "error")
    squares = tuple(kdb.DPolygon(kdb.DBox(i, 0, i + 0.5, 1)) for i in range(MAX_MARKERS + 5))
    rules = DrcResult("made.gds", "made", (RuleResult(rule, squares),), (rule,))
    faults = [replace(LayoutFault("stray", "silicon", (0.0, 0.0)), place_um=(float(i), 0.0)) for i in range(3)]
    found = layout_markers(rules, (), lvs_with(), faults)
    assert [marker.check for marker in found] == [VIOLATIONS] * MAX_MARKERS + [FAULTS] * 3
