"""Lengths in design rules that follow from bend radii: a card states the least, larger bends need more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optinc_pdk.cards.rules import BendRadiusRule, GuideSpaceRule, Rule

if TYPE_CHECKING:
    from optinc_pdk.cards.process import Process

# Corners on the 1 nm grid, and chords within 1 nm of the arc, move the middle of three points of an arc by up to 2 nm
# against the others.
ROUNDING_UM = 0.002
# Devices of the package whose arms leave side by side, at the ends of tapers.
SPLITTERS = ("mmi1x2", "mmi2x2")
# Least length in µm of the straight guide between a device and a bend in a bundle of guides.
LEAD_UM = 0.5
SPLITTER_SIZES = {"gap_um", "taper_width_um", "taper_length_um"}


def with_radius_lengths(rule: Rule, process: Process) -> Rule:
    """Return a rule with the lengths that the bend radius requires, and a text that states them.

    - Guide space: an arm of a splitter parts from another one with the bend radius of guides, so the rule begins no
      nearer to the body than arms of this radius can have its space. Rules whose space the ports have do not change.
    - Bend radius: rounding to the grid changes a measured radius by more, the larger it is; and where the end of a
      splitter's taper measures as a bend of a smaller radius, the rule begins behind it.

    Args:
        rule: Rule as in the card.
        process: Process with its guides and devices.

    Returns:
        The rule; the same object if its lengths suffice.
    """
    tapers = list(_tapers(process, rule.body_um)) if isinstance(rule, GuideSpaceRule | BendRadiusRule) else []
    if isinstance(rule, GuideSpaceRule):
        outer = float(process.guide.radius_um + process.guide.width_um / 2)
        least = float(math.ceil(max((taper.parted_um(outer, rule.value_um) for taper in tapers), default=0.0)))
        if least <= rule.exempt_um:
            return rule
        text = f"{rule.text} (here within {least:g} µm of a body, where arms of the process's bend radius have parted)"
        return rule.model_copy(update={"exempt_um": least, "text": text})
    # the package's splitters are strips
    if isinstance(rule, BendRadiusRule) and not rule.inside_second:
        edge = rule.value_um - rule.guide_width_um / 2
        if edge <= 0:
            return rule
        arms = tuple((arm, max(tolerance, _rounding_um(edge, arm))) for arm, tolerance in rule.arms_um)
        ends = [taper.beyond_um + arm for taper in tapers for arm, error in arms if taper.bends(edge, arm, error)]
        least = max(rule.exempt_um, float(math.ceil(max(ends, default=0.0))))
        if (least, arms) == (rule.exempt_um, rule.arms_um):
            return rule
        stated = ", ".join(f"to {tolerance:.2g} µm over {2 * arm:g} µm" for arm, tolerance in arms)
        text = f"{rule.text} (here measured {stated} of guide, {least:g} µm or more from a body wider than a guide)"
        return rule.model_copy(update={"arms_um": arms, "exempt_um": least, "text": text})
    return rule


def _rounding_um(edge: float, arm: float) -> float:
    """Return the change in µm by rounding of a radius ``edge`` that is measured with points at the distance ``arm``."""
    # the middle point of an arc of radius r is a²/2r away from the line through the others
    return edge - 1 / (1 / edge + 2 * ROUNDING_UM / arm**2)


@dataclass(frozen=True)
class _Taper:
    """Tapers of a splitter, between its body and its ports.

    Attributes:
        beyond_um: Distance of the ports from the body, which is silicon wider than a guide.
        ports_um: Space of the guides at two ports side by side.
        slope: Angle in rad of a taper's sides.
    """

    beyond_um: float
    ports_um: float
    slope: float

    def parted_um(self, outer: float, space: float) -> float:
        """Return the distance in µm from the body at which an arm can have a space from another that goes straight on.

        Args:
            outer: Radius of the arm's outer side in µm.
            space: Space in µm.
        """
        missing = space - self.ports_um
        if missing <= 0:
            return 0.0
        # where the straight arm is r + space from the middle of the other's arc, which is r + ports below it
        return self.beyond_um + LEAD_UM + math.sqrt(missing * (2 * outer + space + self.ports_um))

    def bends(self, edge: float, arm: float, tolerance: float) -> bool:
        """Return whether the end of the taper, with or without a bend behind it, measures as a bend that is too tight.

        Args:
            edge: Smallest radius of a guide's concave side in µm.
            arm: Distance in µm of the points by which radii are measured.
            tolerance: Tolerance in µm of a radius measured with this arm.
        """
        # at the share 1 - u of an arm behind the end, the taper adds the curvature slope · u / a, and the straight
        # before the bend takes u² / 2r
        if tolerance >= edge:
            return False
        share = min(edge * self.slope / arm, 1.0)
        excess = max(self.slope * share / arm - share**2 / (2 * edge), self.slope / arm - 1 / edge)
        return excess > 1 / (edge - tolerance) - 1 / edge


def _tapers(process: Process, body_um: float) -> Iterator[_Taper]:
    """Yield the tapers of a process's splitters; a body is wider than twice ``body_um``."""
    width = float(process.guide.width_um)
    for name in SPLITTERS:
        device = process.devices.get(name)
        if device is None or not device.geometry.keys() >= SPLITTER_SIZES:
            continue
        length, wide = device.size("taper_length_um"), device.size("taper_width_um")
        slope = max(wide - width, 0.0) / 2 / length if length else 0.0
        beyond = min((body_um - width / 2) / slope, length) if slope else length
        yield _Taper(beyond, device.size("gap_um") + wide - width, slope)
