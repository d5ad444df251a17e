"""What design rules, currents, extraction and LVS found: rows for programs and tables, and lines of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table

from optinc_pdk.io.formatting import count_text
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.electrical.electrical_check import Currents, ElectricalResult, densest_ma_per_um
from optinc_pdk.signoff.layout_faults import LayoutFault
from optinc_pdk.signoff.lvs.comparison import LvsResult
from optinc_pdk.signoff.lvs.differences import EXTRACTION, Difference

SHOWN_PLACES = 3
"""Number of places of a violated rule that its line states."""


def drc_rows(results: Sequence[RuleResult]) -> list[dict[str, Any]]:
    """Convert results of design rules to dicts.

    ``boxes_um`` (left, bottom, right, top in µm) and ``notes`` contain the first 10 violations only.
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
    """Convert results of design rules to the rows of a page's table, violated rules first, all as text.

    ``value`` has its unit; ``warning`` says whether the rule is only one; ``state`` is the class of its result:
    ``pass``, ``fail`` or ``none``.
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


LISTED = 5
"""Number of LVS differences in the list of findings."""
SHOWN_FAULTS = 10
"""Number of faults of a layout that a text lists."""


def drc_numbers(drc: DrcResult, electrical: ElectricalResult | None) -> dict[str, Any]:
    """Return the fields of `DrcNumbers`.

    Without a bias, ``electrical`` is None: its rules count as not run. Current density and ground rise are absent then,
    and if the currents cannot be solved.
    """
    checked = drc.all_rules(electrical.rules if electrical else ())
    numbers: dict[str, Any] = {
        "rules": len(checked),
        "violations": drc.violations + (electrical.violations if electrical else 0),
        "not_run": sum(not result.run for result in checked),
    }
    if electrical is not None and electrical.currents is not None:
        numbers["current_ma_per_um"] = round(electrical.current_ma_per_um, 6)
        numbers["ground_rise_mv"] = round(electrical.ground_rise_mv, 6)
    return numbers


def currents_lines(currents: Currents, full: Currents) -> list[str]:
    """Format total current, highest current density and largest ground rise as text: at the bias, and at 2π."""
    lines = []
    for name, one in (("at the bias", currents), ("every heater at 2π", full)):
        line = f"{name}: {one.current_a.sum():.3f} A, at most {densest_ma_per_um(one):.3f} mA/µm"
        if len(one.rise_v):
            worst = int(np.argmax(one.rise_v))
            line += (
                f"; grounds rise by up to {1e3 * one.rise_v[worst]:.1f} mV ({one.wiring.labels[worst]}), "
                f"{1e3 * one.others_v(worst):.1f} of it by other channels"
            )
        lines.append(line)
    return lines


def layout_findings(
    drc: DrcResult, electrical: ElectricalResult | None, faults: Sequence[LayoutFault], match: LvsResult
) -> list[str]:
    """List the findings of the checks of a layout as text, one line each.

    They are rule violations, rules that were not run, faults of the layout, and the first LVS differences that are not
    faults of the layout. ``electrical`` is None without a bias.
    """
    lines: list[str] = []
    for result in drc.all_rules(electrical.rules if electrical else ()):
        if result.violations:
            lines.append(violation_line(result))
        if not result.run:
            lines.append(f"{result.id}: not run, because there is no bias. {result.rule.text}")
    lines += fault_lines(faults)
    differences = [one for one in match.differences if not one.kind.startswith(EXTRACTION)][:LISTED]
    lines += [f"lvs {difference_line(difference)}" for difference in differences]
    if more := match.total_differences - len(differences):
        lines.append(f"lvs: {more} {'more ' * bool(differences)}differences in the .lvs.json file")
    return lines


def fault_lines(faults: Sequence[LayoutFault]) -> list[str]:
    """List the faults of a layout as text: their number, and the first of them; empty if there are none."""
    if not faults:
        return []
    serious = sum(fault.affects_function for fault in faults)
    number = count_text(len(faults), "fault")
    lines = [
        f"layout: {number} that the simulation does not include, of which {serious or 'none'} can affect the function"
    ]
    # those that matter come first
    ordered = sorted(faults, key=lambda fault: not fault.affects_function)
    lines += [f"{'fault' if fault.affects_function else 'warning'} {fault}" for fault in ordered[:SHOWN_FAULTS]]
    if len(faults) > SHOWN_FAULTS:
        lines.append(f"layout: {len(faults) - SHOWN_FAULTS} more faults; the JSON output has all")
    return lines


def lvs_lines(lvs: LvsResult) -> list[str]:
    """Say if nothing agrees, what was not compared because the netlist does not state it, and how lengths agree."""
    parts = [
        text
        for count, text in (
            (len(lvs.unstated), f"the wires of {count_text(len(lvs.unstated), 'heater')}"),
            (lvs.unstated_settings, count_text(lvs.unstated_settings, "setting") + " of couplers"),
            (lvs.unstated_lengths, f"the lengths of {count_text(lvs.unstated_lengths, 'guide')}"),
        )
        if count
    ]
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    not_compared = [f"not stated by the netlist, and not compared: {listed}"] if parts else []
    other = (
        ["no net agrees: this may be the netlist of another circuit"] if lvs.total_differences and not lvs.nets else []
    )
    return other + not_compared + length_lines(lvs)


def length_lines(lvs: LvsResult) -> list[str]:
    """Say for each kind of lengths that LVS compared how many there are, the tolerance and the largest deviation."""
    lines = []
    for each in lvs.lengths:
        low, high = each.tolerance_um
        limits = f"{high * 1e3:.0f} nm" if low == high else f"{low * 1e3:.0f} to {high * 1e3:.0f} nm"
        deviation = f"{each.deviation_um * 1e3:+.1f} nm ({abs(each.deviation_um) * each.rad_per_um:.3f} rad)"
        at = f" at {each.place}" if each.deviation_um else ""
        lines.append(
            f"lengths of {each.count} {each.what}: tolerance {limits} (at most {high * each.rad_per_um:.3f} rad), "
            f"largest deviation {deviation}{at}"
        )
    return lines


def difference_line(difference: Difference) -> str:
    """Format one LVS difference as text: kind, position in µm, message and names on both sides."""
    where = "" if difference.position_um is None else " at ({:.3f}, {:.3f}) µm".format(*difference.position_um)
    sides = " / ".join(side for side in (difference.reference, difference.extracted) if side)
    return f"{difference.kind}{where}: {difference.message}" + (f" [{sides}]" if sides else "")
