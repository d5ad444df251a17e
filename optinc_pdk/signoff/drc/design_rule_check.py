"""Design-rule check (DRC) of a written layout against the geometric rules of its process card.

Electrical rules need the currents of a bias; :mod:`optinc_pdk.signoff.electrical` checks them and has its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import EdgeRule, GridRule, OutlineRule, Rule
from optinc_pdk.extract.layout_reader import check_layers, check_unit, refusing_geometry
from optinc_pdk.signoff.drc import _density as density
from optinc_pdk.signoff.drc import _guide_spacing as guide_spacing
from optinc_pdk.signoff.drc import _photonic_checks as photonic_checks
from optinc_pdk.signoff.drc import _shape_checks as shape_checks
from optinc_pdk.signoff.drc._condensed_checks import CondensedChecks, prepare_condensed
from optinc_pdk.signoff.drc._guide_spacing import with_valid_marks
from optinc_pdk.signoff.drc._violations import Hierarchy, ViolationGroup, group_violations, merged_markers
from optinc_pdk.signoff.drc.design import Design, read_design
from optinc_pdk.validation import validate_api

__all__ = ["CHECKS", "ELECTRICAL_KINDS", "DrcResult", "RuleResult", "check_chip", "run_drc"]

# One function per kind of geometric rule; a kind without a function raises KeyError instead of passing silently.
CHECKS: Mapping[str, Callable[[Design, Any], kdb.Region]] = {
    "width": shape_checks.line,
    "space": shape_checks.line,
    "notch": shape_checks.line,
    "overlap": shape_checks.pair,
    "separation": shape_checks.pair,
    "enclosure": shape_checks.pair,
    "contact_overlap": shape_checks.pair,
    "exclusion": shape_checks.boolean,
    "inside": shape_checks.boolean,
    "area": shape_checks.area,
    "angle": shape_checks.angle,
    "outline": shape_checks.outline,
    "die_size": shape_checks.die_size,
    "edge": shape_checks.edge,
    "facet": photonic_checks.facet,
    "density": density.density,
    "grid": shape_checks.grid,
    "known_layers": shape_checks.file,
    "simple": shape_checks.file,
    "guide_space": guide_spacing.guide_space,
    "bend_radius": photonic_checks.bend_radius,
    "contacts": photonic_checks.contacts,
    "foreign_guide": photonic_checks.foreign_guide,
    "pad_size": photonic_checks.pad_size,
    "pad_pitch": photonic_checks.pad_pitch,
    "fibre_pitch": photonic_checks.fibre_pitch,
}

# Kinds of rules that need the currents of a bias; `electrical.check_electrical` checks them.
ELECTRICAL_KINDS = ("current", "ir_drop")
# Kinds of rules about whole dies.
DIE_KINDS = ("outline", "die_size", "edge", "density")
# Violations of one rule that are marked one by one.
MAX_MARKED = 10_000


@dataclass(frozen=True)
class RuleResult:
    """Violations of one rule.

    Violations that touch are merged into one marker, and more than `MAX_MARKED` into one box.

    Attributes:
        rule: The rule.
        markers: A polygon in µm around each violation, in coordinates of the top cell.
        notes: One text per marker with what was measured there; empty for rules that measure nothing.
        run: Whether the rule was checked; False for an electrical rule without a bias.
        groups: The violations grouped by cell; None where all of them are reported in the top cell.
        found: Number of places that were found before the search ended, where there are more than are marked one by one
            or more than `shape_checks.MAX_PAIRS` pairs of edges; else 0.
    """

    rule: Rule
    markers: tuple[kdb.DPolygon, ...]
    notes: tuple[str, ...] = ()
    run: bool = True
    groups: tuple[ViolationGroup, ...] | None = None
    found: int = 0

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.rule.id

    @property
    def violations(self) -> int:
        """Number of violations, of either severity."""
        return self.found or len(self.markers)

    @property
    def distinct(self) -> int:
        """Number of distinct violations; a violation that all instances of a cell have counts once."""
        return self.found or len(self.markers if self.groups is None else self.groups)

    @cached_property
    def boxes_um(self) -> Floats:
        """(n, 4) left, bottom, right, top of the markers in µm."""
        boxes = [marker.bbox() for marker in self.markers]
        return np.array([(b.left, b.bottom, b.right, b.top) for b in boxes]).reshape(-1, 4)


@dataclass(frozen=True)
class DrcResult:
    """Results of the geometric rules of one layout.

    Attributes:
        file: Name of the layout file.
        top_cell: Name of its top cell.
        rules: One result per geometric rule.
        requested: All rules that the check was given, in their order, electrical rules included.
    """

    file: str
    top_cell: str
    rules: tuple[RuleResult, ...]
    requested: tuple[Rule, ...]

    @property
    def violations(self) -> int:
        """Number of violations of rules of severity error."""
        return sum(result.violations for result in self.rules if result.rule.severity == "error")

    @property
    def warnings(self) -> int:
        """Number of violations of rules of severity warning; they do not make a build fail."""
        return sum(result.violations for result in self.rules if result.rule.severity == "warning")

    @property
    def clean(self) -> bool:
        """Whether no geometric rule of severity error is violated."""
        return self.violations == 0

    def all_rules(self, electrical: Sequence[RuleResult] = ()) -> tuple[RuleResult, ...]:
        """Return the results of all requested rules in the order in which they were requested.

        Args:
            electrical: Results of the electrical rules; electrical rules without a result are marked as not run.
        """
        results = {result.id: result for result in (*self.rules, *electrical)}
        return tuple(results.get(rule.id, RuleResult(rule, (), run=False)) for rule in self.requested)

    def rules_not_run(self, electrical: Sequence[RuleResult] = ()) -> dict[str, tuple[str, ...]]:
        """Return the ids of the rules that were not run, by the reason.

        Args:
            electrical: Results of the electrical rules.
        """
        left = [result.rule for result in self.all_rules(electrical) if not result.run]
        biased = tuple(rule.id for rule in left if rule.kind in ELECTRICAL_KINDS)
        of_dies = tuple(rule.id for rule in left if rule.kind not in ELECTRICAL_KINDS)
        reasons = {"no outline of a die is drawn": of_dies, "they need a bias (optinc drc --bias)": biased}
        return {reason: ids for reason, ids in reasons.items() if ids}


@refusing_geometry
def run_drc(
    gds_path: Path, rules: Sequence[Rule], layers: Mapping[str, tuple[int, int]], threads: int = 2
) -> DrcResult:
    """Check a layout file against geometric design rules.

    Args:
        gds_path: GDS2 or OASIS file with one top cell.
        rules: Rules of the process; the electrical ones among them are not checked here.
        layers: Layers of the process, name to GDS layer and datatype.
        threads: Number of threads for hierarchical operations.

    Returns:
        One result per geometric rule, in the rules' order. Equal files give equal results.

    Raises:
        GdsError: The file cannot be used, as for :func:`optinc_pdk.extract.layout_reader.read_layout`.
    """
    return _check(gds_path, read_design(gds_path, layers, threads), rules)


@refusing_geometry
def check_chip(
    gds_path: Path,
    process: Process,
    threads: int = 2,
    parts: bool = False,
    on_rule: Callable[[str, int, int], None] | None = None,
) -> DrcResult:
    """Check a layout file against the geometric rules of its process, and refuse a layout of another process.

    Unlike :func:`run_drc`, this raises an error if the database unit or the layers are not those of the process.

    Args:
        gds_path: GDS2 or OASIS file with one top cell.
        threads: Number of threads for hierarchical operations.
        parts: Whether a layout that is not empty and has no outline of a die is a part of a chip: rules about whole
            dies are not run.
        on_rule: Called before each rule with its id, the number of rules that are done, and the number of all.

    Returns:
        One result per geometric rule that is run, in the rules' order.

    Raises:
        GdsError: The file cannot be used, has another database unit, or has the layers of another process.
    """
    design = read_design(gds_path, process.gds_layers, threads)
    for rule in process.rules:
        if isinstance(rule, GridRule):
            check_unit(design.layout, rule.value_um, gds_path)
    check_layers(design.layout, process.gds_layers, gds_path)
    outlines = [rule.layers[0] for rule in process.rules if isinstance(rule, OutlineRule)]
    drawn = any(not design.shapes(layer).at_end() for layer in design.layers)
    part = parts and drawn and not any(shape_checks.dies(design, layer) for layer in outlines)
    return _check(gds_path, design, process.rules, DIE_KINDS if part else (), on_rule)


def _check(
    gds_path: Path,
    design: Design,
    rules: Sequence[Rule],
    left_out: Sequence[str] = (),
    on_rule: Callable[[str, int, int], None] | None = None,
) -> DrcResult:
    requested = tuple(rules)
    rules = [rule for rule in rules if rule.kind not in left_out]
    design, checked = with_valid_marks(design, rules)
    condensed = prepare_condensed(design, checked)
    hierarchy = Hierarchy(design.layout, design.top)
    pairs = [pair for pair in zip(rules, checked, strict=True) if pair[0].kind not in ELECTRICAL_KINDS]
    results = []
    for done, (rule, effective) in enumerate(pairs):
        if on_rule is not None:
            on_rule(rule.id, done, len(pairs))
        results.append(_result(design, hierarchy, rule, _violations(design, effective, condensed)))
    return DrcResult(gds_path.name, design.top.name, tuple(results), requested)


def _violations(design: Design, rule: Rule, condensed: CondensedChecks | None) -> kdb.Region:
    check = CHECKS[rule.kind]
    return check(design, rule) if condensed is None else condensed.violations(design, rule, check)


def _result(design: Design, hierarchy: Hierarchy, rule: Rule, violations: kdb.Region) -> RuleResult:
    dbu, found = design.layout.dbu, violations.count()
    found = found if found > shape_checks.MAX_PAIRS else 0
    merged = merged_markers(violations)
    if len(merged) > MAX_MARKED:
        note = f"at least {len(merged):,} violations; this box contains those that were found"
        return RuleResult(rule, (kdb.DPolygon(violations.bbox().to_dtype(dbu)),), notes=(note,), found=len(merged))
    markers = tuple(polygon.to_dtype(dbu) for polygon in merged)
    if isinstance(rule, OutlineRule) and not shape_checks.dies(design, rule.layers[0]):
        return RuleResult(rule, markers, notes=(_missing_outline(design, rule),))
    notes = _stray_layers(design, merged) if merged and rule.kind == "known_layers" else ()
    # shapes of any layer violate the distance from the edge of a die
    layers = () if isinstance(rule, EdgeRule) else tuple(map(design.index, rule.layers))
    return RuleResult(rule, markers, notes, groups=group_violations(hierarchy, merged, layers), found=found)


def _stray_layers(design: Design, violations: Sequence[kdb.Polygon]) -> tuple[str, ...]:
    """Return for each violation the layers of its shapes, which the process does not have, and the remedy."""
    found: dict[kdb.Polygon, list[str]] = {polygon: [] for polygon in violations}
    markers = kdb.Region(list(violations))
    # merging again could change the polygons
    markers.merged_semantics = False
    for info, shapes in shape_checks.stray_shapes(design):
        for polygon in markers.interacting(shapes).each():
            found[polygon].append(f"{info.layer}/{info.datatype}")
    return tuple(
        f"shapes on layer {', '.join(names)}: remove them, or add the layer to process.yml" for names in found.values()
    )


def _missing_outline(design: Design, rule: OutlineRule) -> str:
    """The note for a layout without an outline, which says whether the other layers are empty too."""
    name = rule.layers[0]
    empty = [layer for layer in design.layers if design.shapes(layer).at_end()]
    if len(empty) < len(design.layers):
        return f"nothing on layer {name}: draw an outline for each die"
    return f"the chip is empty: nothing on any layer of the process ({', '.join(empty)})"


validate_api(__name__)
