"""Marker database of a design-rule check, a `.lyrdb` file for KLayout's marker browser."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import klayout.db as kdb
import klayout.rdb as rdb

from optinc_pdk.cards.rules import Rule
from optinc_pdk.io.writing import saved_bytes, write_atomic
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault

MARKER_UM = 2.0
"""Half the side of the marker of an electrical fault."""


def write_lyrdb(
    result: DrcResult, path: Path, electrical: Sequence[RuleResult] = (), faults: Sequence[LayoutFault] = ()
) -> None:
    """Write the violations of all rules as `.lyrdb`, atomically. Equal results give equal bytes.

    Every rule is a category, also without violations; so is every kind of electrical fault that occurs. A violation
    that every instance of a cell has is one item of that cell, with the number of instances; the cell has a reference
    to one of its placements.

    Args:
        electrical: Results of the electrical rules; rules without one are marked as not run.
        faults: Electrical faults; a fault without a place has a text and no marker.

    Raises:
        OSError: The file cannot be written.
    """
    report = rdb.ReportDatabase("DRC")
    report.generator = "optinc drc"
    report.original_file = result.file
    report.top_cell_name = result.top_cell
    top = report.create_cell(result.top_cell)
    cells = {result.top_cell: top}
    for checked in result.all_rules(electrical):
        rule = checked.rule
        # a dot separates the parts of a category's path; create_category quotes names that contain one
        category = report.create_category(rule.id)
        category.description = description(rule) + ("" if checked.run else "; NOT RUN: give the bias")
        for marker, note in zip_longest(checked.markers, checked.notes) if checked.groups is None else ():
            item = report.create_item(top, category)
            item.add_value(marker)
            if note is not None:
                item.add_value(note)
        for group in checked.groups or ():
            if group.cell not in cells:
                cells[group.cell] = report.create_cell(group.cell)
                cells[group.cell].add_reference(rdb.RdbReference(group.example, top.rdb_id()))
            item = report.create_item(cells[group.cell], category)
            item.add_value(group.marker)
            if group.instances > 1:
                item.add_value(f"{group.instances} instances")
    for kind in sorted({fault.kind for fault in faults}):
        category = report.create_category(f"electrical.{kind}")
        category.description = f"error; {FAULT_KINDS[kind].meaning}"
        for fault in (one for one in faults if one.kind == kind):
            item = report.create_item(top, category)
            item.add_value(fault.text)
            if fault.place_um is not None:
                x, y = fault.place_um
                item.add_value(kdb.DBox(x - MARKER_UM, y - MARKER_UM, x + MARKER_UM, y + MARKER_UM))
    write_atomic(path, saved_bytes(report.save))


def description(rule: Rule) -> str:
    """Return severity, text, limit and source of a rule as one line, as shown in KLayout's marker browser."""
    limit = f"limit {rule.limit}" if rule.limit else ""
    return "; ".join(part for part in (rule.severity, rule.text, limit, f"source: {rule.source}") if part)
