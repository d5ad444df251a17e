"""Markers of the report's page: every place that a check reports, with its text."""

from dataclasses import replace

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import load_process
from optinc_pdk.report.layout_guides import LayoutGuides
from optinc_pdk.report.layout_markers import (
    DIFFERENCES,
    FAULTS,
    LAYOUT_WARNINGS,
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
GUIDES = LayoutGuides(
    (("a,o1", "b,o1"),),
    (10.0,),
    (0.1,),
    (),
    NOTHING,
    np.zeros((0, 4), dtype=np.int64),
    {"mmi1x2_0,o1": 0, "mmi1x2_1,o1": 0},
    {"mmi1x2_0,o1": (0, 0, 0, 450), "mmi1x2_1,o1": (50, 0, 50, 450), "mmi1x2_1,o2": (100, 0, 100, 450)},
)


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
    faults = [
        LayoutFault("unused_label", "names nothing", (0.0, 0.0)),
        LayoutFault("dangling", "one end", (5.0, 6.0)),
        LayoutFault("label", "nowhere"),
    ]
    found = layout_markers(rules, (RuleResult(warning, (square,)),), lvs, faults, GUIDES)
    assert found == (
        LayoutMarker(VIOLATIONS, error.id, f"{error.text}; 0.1 µm", (1000, 2000, 3500, 4000)),
        LayoutMarker(WARNINGS, warning.id, warning.text, (1000, 2000, 3500, 4000)),
        LayoutMarker(DIFFERENCES, "open", "is cut", (8000, 18000, 12000, 22000)),
        LayoutMarker(FAULTS, "dangling", f"one end; {FAULT_KINDS['dangling'].meaning}", (3000, 4000, 7000, 8000)),
        LayoutMarker(
            LAYOUT_WARNINGS,
            "unused_label",
            f"names nothing; {FAULT_KINDS['unused_label'].meaning}",
            (-2000, -2000, 2000, 2000),
        ),
    )
    assert found[0].to_json()["box"] == [1000, 2000, 3500, 4000]


def test_each_check_has_a_limit_of_its_own() -> None:
    rule = next(rule for rule in load_process().rules if rule.severity == "error")
    squares = tuple(kdb.DPolygon(kdb.DBox(i, 0, i + 0.5, 1)) for i in range(MAX_MARKERS + 5))
    rules = DrcResult("made.gds", "made", (RuleResult(rule, squares),), (rule,))
    faults = [replace(LayoutFault("stray", "silicon", (0.0, 0.0)), place_um=(float(i), 0.0)) for i in range(3)]
    found = layout_markers(rules, (), lvs_with(), faults, GUIDES)
    assert [marker.check for marker in found] == [VIOLATIONS] * MAX_MARKERS + [FAULTS] * 3


def test_differences_about_connections_are_marked_at_the_guide_or_at_the_port() -> None:
    middle = (20.0, 30.0)
    lvs = lvs_with(
        Difference("length", "is long", "a,o1 - b,o1", "mmi1x2_0,o1 - mmi1x2_1,o1", middle),
        Difference("net", "leads to nothing", "b,o2 - c,o1", "mmi1x2_1,o2 - nothing", middle),
        Difference("gap", "is wide", "a", "mmi1x2_0", middle),
    )
    guide, port, device = layout_markers(DrcResult("", "", (), ()), (), lvs, (), GUIDES)
    assert guide.to_json() == {"check": DIFFERENCES, "name": "length", "text": "is long", "guide": 0}
    assert port.to_json()["box"] == [-1900, -1775, 2100, 2225]
    assert device.to_json()["box"] == [18000, 28000, 22000, 32000]


def test_a_layout_without_netlist_has_faults_only() -> None:
    faults = [LayoutFault("dangling", "one end", (5.0, 6.0))]
    (marker,) = layout_markers(DrcResult("", "", (), ()), (), None, faults, GUIDES)
    assert (marker.check, marker.box) == (FAULTS, (3000, 4000, 7000, 8000))


def test_every_violated_rule_has_markers() -> None:
    first, second = [rule for rule in load_process().rules if rule.severity == "error"][:2]
    squares = tuple(kdb.DPolygon(kdb.DBox(i, 0, i + 0.5, 1)) for i in range(MAX_MARKERS + 5))
    rules = DrcResult(
        "made.gds", "made", (RuleResult(first, squares), RuleResult(second, squares[:3])), (first, second)
    )
    names = [marker.name for marker in layout_markers(rules, (), None, (), GUIDES)]
    assert (names.count(first.id), names.count(second.id)) == (MAX_MARKERS // 2, 3)
