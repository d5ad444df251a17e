"""Cases of one rule side by side in one layout, so that one run checks all of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb

from optinc_pdk.cards.process import Process
from optinc_pdk.cards.rules import Rule
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, run_drc
from optinc_pdk.signoff.electrical.electrical_check import check_electrical
from optinc_pdk.signoff.electrical.wiring import read_wiring
from rule_cases.case import TILTS, Case
from rule_cases.currents import bias_of

# Largest extent of a layout; files of a metre are refused.
REACH_NM = 900_000_000


@dataclass(frozen=True)
class Sheet:
    """One layout with several cases of a rule.

    Attributes:
        cases: Cases in the order of their positions, row by row from the origin.
        layout: With the only top cell `SHEET`.
        pitch: Distance between positions in database units.
        columns: Number of positions in a row.
    """

    cases: tuple[Case, ...]
    layout: kdb.Layout
    pitch: int
    columns: int

    def counts(self, markers: Iterable[kdb.DPolygon]) -> list[int]:
        """Number of violations in each case, from markers in µm."""
        if len(self.cases) == 1:
            return [len(list(markers))]
        count: Counter[int] = Counter()
        for marker in markers:
            at = marker.bbox().center() * (1 / self.layout.dbu)
            count[math.floor(at.x / self.pitch) + self.columns * math.floor(at.y / self.pitch)] += 1
        return [count.pop(number, 0) for number in range(len(self.cases))]


def sheets(cases: Sequence[Case], apart: int) -> list[Sheet]:
    """Arrange all cases of one rule in as few layouts as possible.

    Cells that are rotated by `TILTS` have a layout of their own, because they disable some hierarchical checks.

    Args:
        cases: Cases of one rule.
        apart: Distance between cases in nm.
    """
    groups: list[list[Case]] = [[case] for case in cases if case.global_]
    for tilted in (False, True):
        group = [case for case in cases if not case.global_ and (case.placement in TILTS) is tilted]
        side = max(1, REACH_NM // _pitch(group, apart)) if group else 1
        groups += [group[first : first + side**2] for first in range(0, len(group), side**2)]
    return [_sheet(group, apart) for group in groups]


def _pitch(cases: Sequence[Case], apart: int) -> int:
    """Distance between positions that leaves room for the largest case."""
    boxes = [case.layout.top_cell().bbox() for case in cases]
    return max(max(box.width(), box.height(), 0) for box in boxes) + apart


def _sheet(cases: Sequence[Case], apart: int) -> Sheet:
    boxes = [case.layout.top_cell().bbox() for case in cases]
    pitch = _pitch(cases, apart)
    columns = math.ceil(math.sqrt(len(cases)))
    layout = kdb.Layout()
    layout.dbu = cases[0].layout.dbu
    top = layout.create_cell("SHEET")
    for number, (case, box) in enumerate(zip(cases, boxes, strict=True)):
        cell = layout.create_cell("CASE")
        cell.copy_tree(case.layout.top_cell())
        middle = kdb.Vector(pitch // 2 + pitch * (number % columns), pitch // 2 + pitch * (number // columns))
        top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(middle - (box.center() - kdb.Point()))))
    return Sheet(tuple(cases), layout, pitch, columns)


def count_violations(
    sheet: Sheet, rule: Rule, process: Process, folder: Path, others: Sequence[Rule] = ()
) -> list[int]:
    """Number of violations that a rule reports in each case.

    Args:
        sheet: The layout.
        rule: The rule, possibly with another limit than the cases are drawn for.
        process: Its process; for electrical rules, the case determines the bias of the heaters.
        folder: Where to write the layout.
        others: Further rules that are checked in the same run.
    """
    path = folder / "sheet.gds"
    sheet.layout.write(str(path))
    if rule.kind in ELECTRICAL_KINDS:
        wiring = read_wiring(path, process)
        results = check_electrical([rule], wiring, bias_of(sheet.cases[0], wiring, process)).rules
    else:
        results = run_drc(path, [rule, *others], process.gds_layers).rules
    return sheet.counts(results[0].markers)
