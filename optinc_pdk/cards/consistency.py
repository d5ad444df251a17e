"""Whether a process's cards keep its own rules; asked when the process is loaded, before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.rules import BendRadiusRule, CurrentRule, DieSizeRule
from optinc_pdk.cards.values import Quantity

if TYPE_CHECKING:
    from optinc_pdk.cards.process import Process

# The database unit of everything that is drawn; golden polygons are integers of it.
GRID_UM = 0.001
# One metre; KLayout's 32 bits of nm end at 2.1 m, and wrap around without a word.
LIMIT_UM = 1e6
# Numbers of a process card in µm that are no drawn lengths: heights of layers, a tolerance, and how things vary.
NOT_DRAWN = ("layers.", "guide.length_match_um", "imperfections.")
ROUNDING_UM = 1e-9
# Chords of a 90° bend: fewer are farther from the arc than the grid at the radii of strip guides.
SEGMENTS = 64
# GDS2 holds layers and datatypes in 16 bits.
GDS_MOST = 65535
# Parameters of devices that are widths of their silicon, and gaps in it.
WIDTHS = ("width_um", "taper_width_um", "tip_width_um", "waist_width_um")
GAPS = ("gap_um",)


@dataclass(frozen=True)
class Claim:
    """A parameter, a rule's value, and the least value that it leaves the parameter.

    ``file`` is relative to the process's folders.
    """

    file: str
    key: str
    value: float
    rule: str
    limit: float
    least: float


def check_lengths(values: Iterable[tuple[str, Quantity]], path: Path) -> None:
    """Refuse numbers that cannot be drawn.

    Args:
        values: Keys and numbers of a card; what ends in ``_um`` is a length.
        path: The card.

    Raises:
        CardError: A number below 0, or a length beyond 1 m or off the 1 nm grid.
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
    """Refuse cards that break their own rules; recommendations are none.

    Raises:
        CardError: Names file, parameter, value, limit and rule of the first fault.
    """
    for claims in (_silicon, _heaters, _metals, _vias, _pads, _floorplan):
        for claim in claims(process):
            if claim.value < claim.least - ROUNDING_UM:
                path = next(iter(process.files(claim.file)), process.folder / claim.file)
                raise CardError(
                    f"{path}: {claim.key} is {claim.value:g} µm, rule {claim.rule!r} of {claim.limit:g} µm needs at "
                    f"least {claim.least:g} µm; correct the value or the rule"
                )
    _check_counts(process)
    _check_contacts(process)
    _check_currents(process)
    _check_bump(process)
    _check_dies(process)


def _limits(process: Process, kind: str, *layers: str) -> Iterator[tuple[str, float]]:
    """Ids and values of the rules of a kind whose first layers are these."""
    for rule in process.rules:
        named = rule.kind == kind and rule.layers[: len(layers)] == layers and rule.severity == "error"
        if named and not (isinstance(rule, BendRadiusRule) and rule.inside_second):
            yield rule.id, float(getattr(rule, "value_um", 0.0))


def _card(process: Process, key: str, value: float, kind: str, *layers: str, more: float = 0.0) -> Iterator[Claim]:
    """Claims on a number of the process card, which a rule's value plus ``more`` limits."""
    for rule, least in _limits(process, kind, *layers):
        yield Claim("process.yml", key, float(value), rule, least, least + more)


def _device(process: Process, name: str, key: str, kind: str, *layers: str, more: float = 0.0) -> Iterator[Claim]:
    """Claims on a device's geometry, where the process has the device and the parameter."""
    if name in process.devices and key in process.devices[name].geometry:
        for rule, least in _limits(process, kind, *layers):
            value = process.devices[name].size(key)
            yield Claim(f"devices/{name}.yml", f"geometry.{key}", value, rule, least, least + more)


def _silicon(process: Process) -> Iterator[Claim]:
    yield from _card(process, "guide.width_um", process.guide.width_um, "width", "core")
    yield from _card(process, "guide.radius_um", process.guide.radius_um, "bend_radius", "core")
    for name, device in process.devices.items():
        if device.ports.optical:
            for kind, keys in (("width", WIDTHS), ("space", GAPS)):
                for key in keys:
                    yield from _device(process, name, key, kind, "core")
    etch = process.grating.layer
    yield from _device(process, "grating_coupler", "etch_um", "width", etch)
    if "grating_coupler" in process.devices:
        line = process.device("grating_coupler").size("etch_um")
        yield from _device(process, "grating_coupler", "period_um", "space", etch, more=line)


def _heaters(process: Process) -> Iterator[Claim]:
    name = "phase_shifter"
    yield from _device(process, name, "heater_width_um", "width", "heater")
    yield from _device(process, name, "contact_overlap_um", "contact_overlap", "heater", process.contact.metals[0])
    for metal in process.contact.metals:
        yield from _device(process, name, "contact_width_um", "width", metal)


def _metals(process: Process) -> Iterator[Claim]:
    metal = process.metal
    yield from _card(process, "metal.wire_width_um", metal.wire_width_um, "width", metal.layer)
    yield from _card(process, "metal.space_um", metal.space_um, "space", metal.layer)


def _vias(process: Process) -> Iterator[Claim]:
    via, stack = process.contact.via, process.contact.layers
    if via is None:
        return
    for i in range(1, len(stack), 2):
        yield from _card(process, "contact.via.size_um", via.size_um, "width", stack[i])
        yield from _card(process, "contact.via.space_um", via.space_um, "space", stack[i])
        for metal in (stack[i - 1], stack[i + 1]):
            yield from _card(process, "contact.via.enclosure_um", via.enclosure_um, "enclosure", stack[i], metal)
            # a contact holds a via and what the metals go on beyond it
            around = float(via.size_um + via.enclosure_um)
            yield from _device(process, "phase_shifter", "contact_width_um", "enclosure", stack[i], metal, more=around)


def _pads(process: Process) -> Iterator[Claim]:
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


def _floorplan(process: Process) -> Iterator[Claim]:
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
        yield Claim("process.yml", key, float(mode), rule, least, 2 * least + heater + guide)
    for rule, least in _limits(process, "guide_space", "core"):
        yield Claim("process.yml", key, float(mode), rule, least, 2 * (least + guide))
    yield from _card(process, key, mode, "space", "heater", more=heater)
    for metal in process.contact.metals:
        yield from _card(process, key, mode, "space", metal, more=contact)
    if process.pads.wiring == "flipchip":
        # landings of attenuators lie a mode apart
        yield from _card(process, key, mode, "space", process.metal.layer, more=float(process.pads.size_um))


def _check_currents(process: Process) -> None:
    """Layouts size metal by the card, so it may not allow more current than the rules do."""
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
    """A heater ends within its contact, or it would reach beyond the device."""
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


def _check_counts(process: Process) -> None:
    """What is counted is whole, bends are round, halves of the mode pitch are on the grid, layers differ."""
    path = process.folder / "process.yml"
    for key, value in (("guide.arc_segments", process.guide.arc_segments), ("pads.rows_max", process.pads.rows_max)):
        if not float(value).is_integer():
            raise CardError(f"{path}: {key} is {value:g}; give a whole number")
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
        if not all(0 <= number <= GDS_MOST for number in layer.gds):
            raise CardError(f"{path}: layers.{name}.gds is {list(layer.gds)}; give two numbers from 0 to {GDS_MOST}")
        if layer.gds in used:
            raise CardError(
                f"{path}: layers.{name}.gds is {list(layer.gds)}, as that of {used[layer.gds]!r}; make it another"
            )
        used[layer.gds] = name
    if not process.dies:
        raise CardError(f"{path}: dies is empty; give at least one size")


def _check_bump(process: Process) -> None:
    """Flip-chip wiring has a bump, whose opening lies on a landing as large as the process's pads."""
    flipchip = process.pads.wiring == "flipchip"
    if "bump" not in process.devices:
        if flipchip:
            path = process.folder / "process.yml"
            raise CardError(f"{path}: pads.wiring is flipchip and there is no devices/bump.yml; add the card")
        return
    (path,) = process.files("devices/bump.yml")
    size, opening, pad = (*map(process.device("bump").size, ("size_um", "opening_um")), float(process.pads.size_um))
    if opening > size:
        raise CardError(f"{path}: geometry.opening_um is {opening:g} µm, its landing (size_um) {size:g} µm; correct it")
    if flipchip and size != pad:
        raise CardError(f"{path}: geometry.size_um is {size:g} µm, pads.size_um {pad:g} µm; make them equal")


def _check_dies(process: Process) -> None:
    """Dies are outlines that the rules allow."""
    for rule in process.rules:
        if not isinstance(rule, DieSizeRule):
            continue
        for i, die in enumerate(process.dies):
            size = (float(die.width_um), float(die.height_um))
            fits = size[0] <= rule.reticle_um[0] and size[1] <= rule.reticle_um[1]
            if not (fits if die.own_size else size in rule.dies_um):
                dies = " or ".join(f"{w:g} by {h:g}" for w, h in rule.dies_um)
                raise CardError(
                    f"{process.folder / 'process.yml'}: dies.{i} is {size[0]:g} by {size[1]:g} µm, rule {rule.id!r} "
                    f"allows {dies}, and of a size of its own at most {rule.reticle_um[0]:g} by "
                    f"{rule.reticle_um[1]:g}; correct the die or the rule"
                )


__all__ = ["check_lengths", "check_rules"]
