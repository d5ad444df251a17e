"""Marker databases that KLayout's browser opens."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import klayout.rdb as rdb

from optinc_pdk.cards.rules import Rule
from optinc_pdk.files import saved_bytes, write_atomic
from optinc_pdk.signoff.drc import DrcResult


def write_lyrdb(result: DrcResult, path: Path) -> None:
    """Write a check's result as `.lyrdb`, atomically: one category per rule, also for rules without a fault.

    A fault that every instance of a cell has is one item of that cell, with the number of instances; the cell says
    where one of them is. Equal results give equal bytes.

    Raises:
        OSError: The file cannot be written.
    """
    report = rdb.ReportDatabase("DRC")
    report.generator = "optinc drc"
    report.original_file = result.file
    report.top_cell_name = result.top_cell
    top = report.create_cell(result.top_cell)
    cells = {result.top_cell: top}
    for found in result.rules:
        rule = found.rule
        # a dot in a category's path is no separator to KLayout where the name is quoted, which it does itself
        category = report.create_category(rule.id)
        category.description = description(rule) + ("" if found.run else "; NOT RUN: give the bias")
        for marker, note in zip_longest(found.markers, found.notes) if found.faults is None else ():
            item = report.create_item(top, category)
            item.add_value(marker)
            if note is not None:
                item.add_value(note)
        for fault in found.faults or ():
            if fault.cell not in cells:
                cells[fault.cell] = report.create_cell(fault.cell)
                cells[fault.cell].add_reference(rdb.RdbReference(fault.example, top.rdb_id()))
            item = report.create_item(cells[fault.cell], category)
            item.add_value(fault.marker)
            if fault.instances > 1:
                item.add_value(f"{fault.instances} instances")
    write_atomic(path, saved_bytes(report.save))


def description(rule: Rule) -> str:
    """What a browser of markers says about a rule."""
    limit = f"limit {rule.limit}" if rule.limit else ""
    return "; ".join(part for part in (rule.severity, rule.text, limit, f"source: {rule.source}") if part)
