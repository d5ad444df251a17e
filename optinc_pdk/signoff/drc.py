"""Design-rule check: a written layout against the rules of its process card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import GridRule, OutlineRule, Rule
from optinc_pdk.extract.reading import check_layers, check_unit
from optinc_pdk.signoff import checks, density, photonic_checks
from optinc_pdk.signoff.distinct import Distinct, Hierarchy, distinct
from optinc_pdk.signoff.gds import Design, read_design
from optinc_pdk.signoff.proof import Proof, prepare

__all__ = ["BIASED", "CHECKS", "DrcResult", "RuleResult", "check_chip", "run_drc"]

# One function per kind; a kind without one is a KeyError in the tests, not a rule that silently passes.
CHECKS: Mapping[str, Callable[[Design, Any], kdb.Region]] = {
    "width": checks.line,
    "space": checks.line,
    "notch": checks.line,
    "overlap": checks.pair,
    "separation": checks.pair,
    "enclosure": checks.pair,
    "contact_overlap": checks.pair,
    "exclusion": checks.boolean,
    "inside": checks.boolean,
    "area": checks.area,
    "angle": checks.angle,
    "outline": checks.outline,
    "die_size": checks.die_size,
    "edge": checks.edge,
    "density": density.density,
    "grid": checks.grid,
    "known_layers": checks.file,
    "simple": checks.file,
    "guide_space": photonic_checks.guide_space,
    "bend_radius": photonic_checks.bend_radius,
    "contacts": photonic_checks.contacts,
    "foreign_guide": photonic_checks.foreign_guide,
    "pad_size": photonic_checks.pad_size,
    "pad_pitch": photonic_checks.pad_pitch,
    "fibre_pitch": photonic_checks.fibre_pitch,
}

# Kinds of rules that need a bias; `electrical` checks them.
BIASED = ("current", "ir_drop")


@dataclass(frozen=True)
class RuleResult:
    """What one rule found: a marker, in µm, around each fault; touching faults are one.

    Attributes:
        rule: The rule.
        markers: All its faults, flat.
        notes: What is measured at each marker, where the rule says so; else empty.
        run: Whether it was checked: rules on currents need a bias.
        faults: Each distinct fault once, in the cell that it is in; None where all count as the top cell's.
    """

    rule: Rule
    markers: tuple[kdb.DPolygon, ...]
    notes: tuple[str, ...] = ()
    run: bool = True
    faults: tuple[Distinct, ...] | None = None

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.rule.id

    @property
    def violations(self) -> int:
        """Number of faults, of whatever severity."""
        return len(self.markers)

    @property
    def distinct(self) -> int:
        """Number of faults that differ: what every instance of a cell has counts once."""
        return len(self.markers if self.faults is None else self.faults)

    @cached_property
    def boxes_um(self) -> NDArray[np.float64]:
        """(n, 4) left, bottom, right, top of the markers in µm."""
        boxes = [marker.bbox() for marker in self.markers]
        return np.array([(b.left, b.bottom, b.right, b.top) for b in boxes]).reshape(-1, 4)


@dataclass(frozen=True)
class DrcResult:
    """The results of all rules, in their order."""

    file: str
    top_cell: str
    rules: tuple[RuleResult, ...]

    @property
    def violations(self) -> int:
        """Number of faults against rules of severity error."""
        return sum(result.violations for result in self.rules if result.rule.severity == "error")

    @property
    def warnings(self) -> int:
        """Number of faults against recommendations, which fail no build."""
        return sum(result.violations for result in self.rules if result.rule.severity == "warning")

    @property
    def not_run(self) -> int:
        """Number of rules that were not checked."""
        return sum(not result.run for result in self.rules)

    @property
    def clean(self) -> bool:
        """Whether no rule of severity error that was checked is broken."""
        return self.violations == 0


def run_drc(
    gds_path: Path, rules: Sequence[Rule], layers: Mapping[str, tuple[int, int]], threads: int = 2
) -> DrcResult:
    """Check a layout file.

    Args:
        gds_path: GDS2 or OASIS file with one top cell.
        rules: Rules of the process.
        layers: Layers of the process, name to GDS layer and datatype.
        threads: Threads of hierarchical operations.

    Returns:
        One result per rule, in the rules' order; equal files give equal results. Rules on currents are not run:
        `electrical.check_currents` does that.

    Raises:
        GdsError: The file cannot be used, as for :func:`optinc_pdk.extract.reading.read_layout`.
    """
    return _check(gds_path, read_design(gds_path, layers, threads), rules)


def check_chip(gds_path: Path, process: Process, threads: int = 2) -> DrcResult:
    """Check a layout file that must be of a process: another unit or other layers are no faults but another's layout.

    Raises:
        GdsError: The file cannot be used, has another database unit, or is of another process.
    """
    design = read_design(gds_path, process.gds_layers, threads)
    for rule in process.rules:
        if isinstance(rule, GridRule):
            check_unit(design.layout, rule.value_um, gds_path)
    check_layers(design.layout, process.gds_layers, gds_path)
    return _check(gds_path, design, process.rules)


def _check(gds_path: Path, design: Design, rules: Sequence[Rule]) -> DrcResult:
    proof = prepare(design, rules)
    hierarchy = Hierarchy(design.layout, design.top)
    results = tuple(
        RuleResult(rule, (), run=False)
        if rule.kind in BIASED
        else _result(design, hierarchy, rule, _faults(design, rule, proof))
        for rule in rules
    )
    return DrcResult(gds_path.name, design.top.name, results)


def _faults(design: Design, rule: Rule, proof: Proof | None) -> kdb.Region:
    check = CHECKS[rule.kind]
    return check(design, rule) if proof is None else proof.faults(design, rule, check)


def _result(design: Design, hierarchy: Hierarchy, rule: Rule, faults: kdb.Region) -> RuleResult:
    merged = _merged(faults)
    markers = tuple(polygon.to_dtype(design.layout.dbu) for polygon in merged)
    if isinstance(rule, OutlineRule) and not checks.dies(design, rule.layers[0]):
        return RuleResult(rule, markers, notes=(_no_outline(design, rule),))
    return RuleResult(rule, markers, faults=distinct(hierarchy, merged))


def _no_outline(design: Design, rule: OutlineRule) -> str:
    """Which layers have no shapes, where the outline's has none: all of them in an empty chip."""
    name = rule.layers[0]
    others = [layer for layer in design.layers if design.shapes(layer).at_end()]
    if len(others) < len(design.layers):
        return f"nothing on layer {name}: draw an outline for each die"
    return f"the chip is empty: nothing on any layer of the process ({', '.join(others)})"


def _merged(faults: kdb.Region) -> list[kdb.Polygon]:
    """Faults merged and sorted, so that neither hierarchy nor threads show in the result."""
    faults.flatten()
    return sorted(kdb.Region(list(faults.each())).merged().each())
