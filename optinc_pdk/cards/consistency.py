"""Consistency checks of a process's cards against its own design rules, run when the process is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.cards.quantity import CardError, Quantity
from optinc_pdk.cards.rules import BendRadiusRule, CurrentRule, DieSizeRule, EdgeRule, FacetRule, GuideSpaceRule, Rule
from optinc_pdk.cards.technology import GRID_UM

if TYPE_CHECKING:
    from optinc_pdk.cards.process import Process


# One metre; KLayout's 32-bit coordinates in nm end at 2.1 m and overflow silently.
LIMIT_UM = 1e6
# Numbers of a process card in µm that are not drawn: layer heights, a tolerance, and variations.
NOT_DRAWN = ("layers.", "guide.length_match_um", "imperfections.")
ROUNDING_UM = 1e-9
FACET_ROUNDING_UM = 1e-6
# Least chords of a 90° bend: with fewer, the chords of strip guides deviate from the arc by more than the grid.
SEGMENTS = 64
# GDS2 stores layers and datatypes in 16 bits.
GDS_MAX = 65535
# Geometry parameters that are silicon widths, and gaps between silicon.
WIDTHS = ("width_um", "taper_width_um", "tip_width_um", "waist_width_um")
GAPS = ("gap_um",)


@dataclass(frozen=True)
class Minimum:
    """Requirement of a design rule that a parameter of a card must be at least a given length.

    Attributes:
        file: Path of the card relative to the process's folder.
        key: Key of the parameter, such as ``metal.wire_width_um``.
        value: Value of the parameter in µm.
        rule: Id of the design rule.
        limit: Value of the design rule in µm.
        least: Smallest value of the parameter in µm that satisfies the rule; it may include other dimensions.
    """

    file: str
    key: str
    value: float
    rule: str
    limit: float
    least: float


def check_lengths(values: Iterable[tuple[str, Quantity]], path: Path) -> None:
    """Check that the numbers of a card are not negative and that its lengths, keys that end in ``_um``, can be drawn.

    Parameters that are not drawn, such as layer heights and process variations, are not checked.

    Raises:
        CardError: A number is below 0, or a length is 1 m or more or off the 1 nm grid; the message names ``path``.
    """
    for key, value in values:
        if key.startswith(NOT_DRAWN):
            continue
        if value < 0:
            raise CardError(f"{path}: {key}: value {float(value)} must not be below 0; correct the value")
        if not key.endswith("_um"):
            continue
        if value >= LIMIT_UM:
            raise CardError(f"{path}: {key}: value {float(value)} µm is not below {LIMIT_UM:.0f} µm; correct the value")
        if abs(value / GRID_UM - round(value / GRID_UM)) > ROUNDING_UM / GRID_UM:
            raise CardError(f"{path}: {key}: value {float(value)} µm is off the 1 nm grid; round it")


def check_rules(process: Process) -> None:
    """Check that the dimensions in a process's cards satisfy its design rules of severity ``error``.

    Raises:
        CardError: A parameter violates a rule. The message names the file, parameter, value, rule and limit of the
            first violation.
    """
    for requirements in (_silicon, _heaters, _metals, _vias, _pads, _floorplan):
        for each in requirements(process):
            if each.value < each.least - ROUNDING_UM:
                path = next(iter(process.files(each.file)), process.folder / each.file)
                raise CardError(
                    f"{path}: {each.key} is {each.value:g} µm, rule {each.rule!r} of {each.limit:g} µm needs at "
                    f"least {each.least:g} µm; correct the value or the rule"
                )
    _check_guide_widths(process)
    _check_counts(process)
    check_facets(process)
    _check_contacts(process)
    _check_currents(process)
    _check_bump(process)
    _check_dies(process)


def _limits(process: Process, kind: str, *layers: str) -> Iterator[tuple[str, float]]:
    """Yield ids and values of the rules of a kind whose first layers are ``layers``."""
    for rule in process.rules:
        matches = rule.kind == kind and rule.layers[: len(layers)] == layers and rule.severity == "error"
        if matches and not (isinstance(rule, BendRadiusRule) and rule.inside_second):
            yield rule.id, float(getattr(rule, "value_um", 0.0))


def _card(process: Process, key: str, value: float, kind: str, *layers: str, more: float = 0.0) -> Iterator[Minimum]:
    """Yield requirements on a number of the process card: at least a rule's value plus ``more``."""
    for rule, least in _limits(process, kind, *layers):
        yield Minimum("process.yml", key, float(value), rule, least, least + more)


def _device(process: Process, name: str, key: str, kind: str, *layers: str, more: float = 0.0) -> Iterator[Minimum]:
    """Yield requirements on a device's geometry, if the process has the device and the parameter."""
    if name in process.devices and key in process.devices[name].geometry:
        for rule, least in _limits(process, kind, *layers):
            value = process.devices[name].size(key)
            yield Minimum(f"devices/{name}.yml", f"geometry.{key}", value, rule, least, least + more)


def _silicon(process: Process) -> Iterator[Minimum]:
    yield from _card(process, "guide.width_um", process.guide.width_um, "width", "core")
    yield from _card(process, "guide.radius_um", process.guide.radius_um, "bend_radius", "core")
    for name, device in process.devices.items():
        if device.ports.optical:
            for kind, keys in (("width", WIDTHS), ("space", GAPS)):
                for key in keys:
                    yield from _device(process, name, key, kind, "core")
    etch = process.grating.layer
    yield from _device(process, "grating_coupler", "etch_um", "width", etch)
    grating = process.devices.get("grating_coupler")
    if grating is not None and "etch_um" in grating.geometry:
        line = grating.size("etch_um")
        yield from _device(process, "grating_coupler", "period_um", "space", etch, more=line)


def _heaters(process: Process) -> Iterator[Minimum]:
    name = "phase_shifter"
    yield from _device(process, name, "heater_width_um", "width", "heater")
    yield from _device(process, name, "contact_overlap_um", "contact_overlap", "heater", process.contact.metals[0])
    for metal in process.contact.metals:
        yield from _device(process, name, "contact_width_um", "width", metal)


def _metals(process: Process) -> Iterator[Minimum]:
    metal = process.metal
    yield from _card(process, "metal.wire_width_um", metal.wire_width_um, "width", metal.layer)
    yield from _card(process, "metal.space_um", metal.space_um, "space", metal.layer)


def _vias(process: Process) -> Iterator[Minimum]:
    via, stack = process.contact.via, process.contact.layers
    if via is None:
        return
    for i in range(1, len(stack), 2):
        yield from _card(process, "contact.via.size_um", via.size_um, "width", stack[i])
        yield from _card(process, "contact.via.space_um", via.space_um, "space", stack[i])
        for metal in (stack[i - 1], stack[i + 1]):
            yield from _card(process, "contact.via.enclosure_um", via.enclosure_um, "enclosure", stack[i], metal)
            # a contact holds a via and the metal's enclosure of it
            around = float(via.size_um + via.enclosure_um)
            yield from _device(process, "phase_shifter", "contact_width_um", "enclosure", stack[i], metal, more=around)


def _pads(process: Process) -> Iterator[Minimum]:
    pads, metal = process.pads, process.metal.layer
    size = float(pads.size_um)
    yield from _card(process, "pads.size_um", size, "pad_size", metal)
    yield from _device(process, "pad", "size_um", "pad_size", metal)
    for layer in (metal, "bump"):
        yield from _card(process, "pads.pitch_um", pads.pitch_um, "pad_pitch", layer)
    yield from _device(process, "bump", "opening_um", "width", "bump")
    yield from _card(process, "pads.pitch_um", pads.pitch_um, "space", metal, more=size)
    if "bump" in process.devices:
        opening = process.device("bump").size("opening_um")
        yield from _card(process, "pads.pitch_um", pads.pitch_um, "space", "bump", more=opening)


def _floorplan(process: Process) -> Iterator[Minimum]:
    plan = process.floorplan
    yield from _card(process, "floorplan.fibre_pitch_um", plan.fibre_pitch_um, "fibre_pitch", process.grating.layer)
    yield from _card(process, "floorplan.keepout_um", plan.keepout_um, "edge")
    yield from _card(process, "floorplan.guide_space_um", plan.guide_space_um, "guide_space", "core")
    if "phase_shifter" not in process.devices:
        return
    # an attenuator's arms are half a mode apart, a column's heaters and contacts a mode
    shifter, guide, mode = process.device("phase_shifter"), float(process.guide.width_um), plan.mode_pitch_um
    heater, contact = shifter.size("heater_width_um"), shifter.size("contact_width_um")
    key, first = "floorplan.mode_pitch_um", process.contact.metals[0]
    for rule, least in _limits(process, "foreign_guide", "heater", first, "core"):
        yield Minimum("process.yml", key, float(mode), rule, least, 2 * least + heater + guide)
    for rule, least in _limits(process, "guide_space", "core"):
        yield Minimum("process.yml", key, float(mode), rule, least, 2 * (least + guide))
    yield from _card(process, key, mode, "space", "heater", more=heater)
    for metal in process.contact.metals:
        yield from _card(process, key, mode, "space", metal, more=contact)
    if process.pads.wiring == "flipchip":
        # landings of attenuators lie a mode apart
        yield from _card(process, key, mode, "space", process.metal.layer, more=float(process.pads.size_um))


def _check_currents(process: Process) -> None:
    """Check that the card allows no more current than the rules, since layouts size metal by the card."""
    metal = process.metal
    for rule in process.rules:
        if not isinstance(rule, CurrentRule) or rule.severity != "error" or metal.layer not in rule.layers:
            continue
        if metal.current_ma_per_um > rule.value_ma_per_um:
            raise CardError(
                f"{process.folder / 'process.yml'}: metal.current_ma_per_um is {metal.current_ma_per_um:g} mA/µm, rule "
                f"{rule.id!r} allows {rule.value_ma_per_um:g}; correct the value or the rule"
            )


def _check_contacts(process: Process) -> None:
    """Check that a heater ends within its contact and so within the device."""
    if "phase_shifter" not in process.devices:
        return
    shifter = process.device("phase_shifter")
    overlap, width = shifter.size("contact_overlap_um"), shifter.size("contact_width_um")
    if overlap > width:
        (path,) = process.files("devices/phase_shifter.yml")
        raise CardError(
            f"{path}: geometry.contact_overlap_um is {overlap:g} µm, the contact is {width:g} µm wide "
            "(contact_width_um); correct one of them"
        )


def _check_guide_widths(process: Process) -> None:
    """Check that rules that know the width of guides state the width with which guides are drawn."""
    drawn = float(process.guide.width_um)
    for rule in process.rules:
        for key in ("coupled_width_um", "guide_width_um"):
            width = getattr(rule, key, None)
            if width is not None and abs(width - drawn) > ROUNDING_UM:
                path = next(iter(process.files("rules.yml")), process.folder / "rules.yml")
                raise CardError(
                    f"{path}: {rule.id}: {key} is {width:g} µm, but guides are {drawn:g} µm wide (guide.width_um of "
                    "process.yml); make them equal"
                )


def _check_counts(process: Process) -> None:
    """Check that bends are round, quarters of the mode pitch are on the grid, and layers differ."""
    path = process.folder / "process.yml"
    if process.guide.arc_segments < SEGMENTS:
        raise CardError(
            f"{path}: guide.arc_segments is {process.guide.arc_segments:g}, a 90° bend takes at least {SEGMENTS} "
            "chords; correct the value"
        )
    pitch = float(process.floorplan.mode_pitch_um) / GRID_UM
    if round(pitch) % 4:
        raise CardError(
            f"{path}: floorplan.mode_pitch_um is {process.floorplan.mode_pitch_um:g} µm; arms lie at "
            "its quarters, so give a multiple of 4 nm"
        )
    used: dict[tuple[int, int], str] = {}
    for name, layer in process.layers.items():
        if not all(0 <= number <= GDS_MAX for number in layer.gds):
            raise CardError(f"{path}: layers.{name}.gds is {list(layer.gds)}; give two numbers from 0 to {GDS_MAX}")
        if layer.gds in used:
            raise CardError(
                f"{path}: layers.{name}.gds is {list(layer.gds)}, like {used[layer.gds]!r}; change one of them"
            )
        used[layer.gds] = name
    if not process.dies:
        raise CardError(f"{path}: dies is empty; give at least one size")


def _check_bump(process: Process) -> None:
    """Check that flip-chip wiring has a bump whose opening fits its landing, and a landing of the pads' size."""
    flipchip = process.pads.wiring == "flipchip"
    if "bump" not in process.devices:
        if flipchip:
            path = process.folder / "process.yml"
            raise CardError(f"{path}: pads.wiring is flipchip, but devices/bump.yml is missing; add the card")
        return
    (path,) = process.files("devices/bump.yml")
    size, opening, pad = (*map(process.device("bump").size, ("size_um", "opening_um")), float(process.pads.size_um))
    if opening > size:
        raise CardError(f"{path}: geometry.opening_um is {opening:g} µm, its landing (size_um) {size:g} µm; correct it")
    if flipchip and size != pad:
        raise CardError(f"{path}: geometry.size_um is {size:g} µm, pads.size_um {pad:g} µm; make them equal")


def _check_dies(process: Process) -> None:
    """Check that the rules allow every die size."""
    for rule in process.rules:
        if not isinstance(rule, DieSizeRule):
            continue
        for i, die in enumerate(process.dies):
            size = (float(die.width_um), float(die.height_um))
            largest = rule.reticle_um
            fits = largest is not None and size[0] <= largest[0] and size[1] <= largest[1]
            if not (fits if die.own_size else size in rule.dies_um):
                dies = " or ".join(f"{w:g} by {h:g}" for w, h in rule.dies_um)
                own = "no own_size" if largest is None else f"for own_size at most {largest[0]:g} by {largest[1]:g}"
                raise CardError(
                    f"{process.folder / 'process.yml'}: dies.{i} is {size[0]:g} by {size[1]:g} µm, rule {rule.id!r} "
                    f"allows {dies}, and {own}; correct the die or the rule"
                )


def check_facets(process: Process) -> None:
    """Check that silicon at the edge of a die is checked, and that the rules allow a card's edge couplers.

    Raises:
        CardError: A layer is exempt from the keep-out and no rule checks it; or edge couplers have no rule, or violate
            it. The message names the file, key, value, rule and limit.
    """
    facets = [rule for rule in process.rules if isinstance(rule, FacetRule)]
    checked = {rule.layers[0] for rule in facets}
    for rule in process.rules:
        if isinstance(rule, EdgeRule) and (left_out := set(rule.layers[1:]) - checked):
            raise CardError(
                f"{process.folder / 'rules.yml'}: rule {rule.id!r} leaves out layer {left_out.pop()!r}, and no rule of "
                "kind facet checks it; add one, or remove the layer"
            )
    if process.fibres.coupler == "edge_coupler":
        _check_couplers(process, facets)


def _check_couplers(process: Process, facets: Sequence[FacetRule]) -> None:
    path = process.folder / "process.yml"
    if not facets:
        raise CardError(
            f"{path}: fibres.coupler is edge_coupler, and no rule of kind facet allows silicon at the edge of a die; "
            "add one to rules.yml, or take grating_coupler"
        )
    facet, pitch = float(process.fibres.facet_um or 0.0), float(process.floorplan.fibre_pitch_um)
    for rule in facets:
        if not rule.value_um - FACET_ROUNDING_UM <= facet <= rule.most_um + FACET_ROUNDING_UM:
            raise CardError(
                f"{path}: fibres.facet_um is {facet:g} µm, rule {rule.id!r} needs {rule.value_um:g} to "
                f"{rule.most_um:g} µm; correct the value or the rule"
            )
        if pitch < rule.pitch_um - FACET_ROUNDING_UM:
            raise CardError(
                f"{path}: floorplan.fibre_pitch_um is {pitch:g} µm, rule {rule.id!r} needs at least "
                f"{rule.pitch_um:g} µm; correct the value or the rule"
            )


# Corners on the 1 nm grid, and chords within 1 nm of the arc, move the middle of three points of an arc by up to 2 nm
# against the others.
ARC_ROUNDING_UM = 0.002
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

    The result is the same object if the lengths of the rule suffice.
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
    return edge - 1 / (1 / edge + 2 * ARC_ROUNDING_UM / arm**2)


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

        ``outer`` is the radius of the arm's outer side in µm.
        """
        missing = space - self.ports_um
        if missing <= 0:
            return 0.0
        # where the straight arm is r + space from the middle of the other's arc, which is r + ports below it
        return self.beyond_um + LEAD_UM + math.sqrt(missing * (2 * outer + space + self.ports_um))

    def bends(self, edge: float, arm: float, tolerance: float) -> bool:
        """Return whether the end of the taper, with or without a bend behind it, measures as a bend that is too tight.

        ``edge`` is the smallest radius of a guide's concave side, ``arm`` the distance of the points by which radii are
        measured, and ``tolerance`` that of a radius measured with this arm, in µm.
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
