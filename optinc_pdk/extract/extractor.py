"""GDS to circuit: light from silicon, current from metal, names from labels; nothing else is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import CardError, Process
from optinc_pdk.cards.rules import GuideSpaceRule, LineRule
from optinc_pdk.circuit import Circuit
from optinc_pdk.collector import collector_paused
from optinc_pdk.extract.bumps import check_bumps
from optinc_pdk.extract.contours import Contours, contours
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.finding import place_blocks
from optinc_pdk.extract.gds import NM_PER_UM, Label, Mask, label_points, read_mask
from optinc_pdk.extract.golden import Variant, read_golden
from optinc_pdk.extract.guides import Nets, trace
from optinc_pdk.extract.heaters import Heater, Wired, find_heaters, wire
from optinc_pdk.extract.lookup import NOWHERE, Finder, plain
from optinc_pdk.extract.metal import Metal, find_pads
from optinc_pdk.extract.near_misses import near_misses
from optinc_pdk.extract.numbering import number
from optinc_pdk.extract.pins import tie_pins
from optinc_pdk.extract.placed import NO_BLOCKS, Placed
from optinc_pdk.extract.silicon import Device, Placement, place_devices, placed_devices
from optinc_pdk.extract.silicon_checks import check_foreign, check_inside, check_layers
from optinc_pdk.extract.strips import StripRule


@dataclass(frozen=True)
class Extraction:
    """What a layout is.

    Attributes:
        circuit: Flat circuit with positions and guide lengths; instances are named by kind and position.
            Phase shifters have settings ``length_um``, ``heater_width_um``, ``resistance_ohm``, ``wire_ohm``.
        faults: What is no circuit, in the order it was found.
        silicon: Counts: devices by kind, guides, joints of touching devices; and the guides' length in µm.
        wired: Its heaters and pads on their metal, None in one that is not from a layout.
    """

    circuit: Circuit
    faults: tuple[Fault, ...]
    silicon: Mapping[str, float]
    wired: Wired | None = field(default=None, compare=False, repr=False)


@collector_paused()
def extract(gds_path: str | Path, process: Process) -> Extraction:
    """Extract the circuit of a written layout from its polygons and labels alone.

    Args:
        gds_path: GDS2 or OASIS file with one top cell and 1 nm database unit.
        process: Gives layers, golden devices and dimensions.

    Returns:
        The circuit and every fault.

    Raises:
        GdsError: The file cannot be used.
        CardError: A golden device cannot be used, or the rules lack those of guides.
    """
    path = Path(gds_path)
    mask = read_mask(path, process.gds_layers)
    variants, rule = read_golden(process), _strip_rule(process)
    metal = Metal(mask, process)
    heaters, faults = find_heaters(mask, metal.contacts, rule.width)
    # o1, o2 and e1, e2 of a phase shifter depend on which contact is ground, so pads come first
    labels = mask.labels("label")
    silicon = _silicon(mask, heaters, variants, rule)
    placements = silicon.placements
    fibres, others, label_faults = _fibres(labels, placements)
    pads, pad_faults = find_pads(metal, others, round(float(process.pads.size_um) * NM_PER_UM))
    shifters, wired, wire_faults = wire(heaters, metal, pads, process)
    devices = placed_devices(placements, process) + shifters
    nets, silicon_faults = _trace(silicon, devices, rule, variants)
    everything = [*devices, *(pad.device for pad in pads)]
    # a label that is used twice is a fault; the first keeps it
    names = {pad.label: len(devices) + i for i, pad in reversed(list(enumerate(pads)))} | fibres
    tied, pin_faults = tie_pins(placements, metal, process)
    joined = [*tied, *wired, *((pad.net,) for pad in pads)]
    circuit = number(path.stem, process, everything, nets, joined, dict(sorted(names.items())))
    faults = [*nets.faults, *silicon_faults, *faults, *check_layers(mask, silicon.core, placements, process)]
    faults += [*label_faults, *pad_faults, *metal.faults, *wire_faults, *pin_faults]
    faults += check_bumps(mask, pads, process)
    faults += near_misses(mask, [*nets.faults, *silicon_faults], placements, variants, process)
    electrical = Wired(mask, metal, pads, heaters, shifters, wired)
    return Extraction(circuit, tuple(faults), _counts(devices, nets), electrical)


def _strip_rule(process: Process) -> StripRule:
    """Guide dimensions; rounding and bodies are what the process's rules say they are."""
    core = [rule for rule in process.rules if "core" in getattr(rule, "layers", ())]
    widths = [rule for rule in core if isinstance(rule, LineRule) and rule.kind == "width"]
    spaces = [rule for rule in core if isinstance(rule, GuideSpaceRule)]
    if not widths or not spaces:
        raise CardError(f"process {process.name!r}: rules.yml needs a width and a guide_space rule of 'core'")
    return StripRule(
        width=round(float(process.guide.width_um) * NM_PER_UM),
        tolerance=round(widths[0].angled_tolerance_um * NM_PER_UM),
        body=round(spaces[0].body_um * NM_PER_UM),
    )


@dataclass(frozen=True)
class _Silicon:
    """Silicon taken apart.

    Attributes:
        core: What is in no block, merged.
        outline: Its contours.
        loose: Its devices, without phase shifters.
        taken: What of it is devices, merged.
        placements: All devices, without phase shifters, sorted by position.
        placed: Its blocks.
    """

    core: kdb.Region
    outline: Contours
    loose: Sequence[Placement]
    taken: kdb.Region
    placements: Sequence[Placement]
    placed: Placed


def _silicon(mask: Mask, heaters: Sequence[Heater], variants: Sequence[Variant], rule: StripRule) -> _Silicon:
    placed, heated, core = place_blocks(mask, heaters, variants, rule)
    outline = contours(plain(core))
    loose = place_devices(outline, variants)
    if placed.beside(loose):
        # a device's box that reaches into a block: everything flat, as other silicon in it is a fault
        heated, core = list(range(len(heaters))), mask.silicon()
        placed, outline = NO_BLOCKS, contours(plain(core))
        loose = place_devices(outline, variants)
    bodies = [polygon for p in loose for polygon in p.core]
    taken = kdb.Region(bodies + [kdb.Polygon(heaters[i].guide) for i in heated]).merged()
    placements = sorted([*loose, *placed.placements()], key=lambda p: (p.shift.x, p.shift.y, p.variant.name))
    return _Silicon(core, outline, loose, taken, placements, placed)


def _trace(
    silicon: _Silicon, devices: Sequence[Device], rule: StripRule, variants: Sequence[Variant]
) -> tuple[Nets, list[Fault]]:
    """Nets in the silicon that no device takes, and faults around devices."""
    left = silicon.core - silicon.taken
    left.min_coherence = True
    # KLayout's order depends on what else is there
    pieces = sorted(plain(left))
    outline = contours(pieces)
    faults = check_foreign(silicon.loose, pieces)
    # devices lie wholly in silicon exactly when what is left and what is taken add up
    if silicon.outline.double_area != outline.double_area + contours(plain(silicon.taken)).double_area:
        faults += check_inside(silicon.taken, silicon.core)
    nets = trace(pieces, outline, silicon.placed.segments(), devices, rule, variants)
    return nets.joined_by(devices, *silicon.placed.within()), faults


def _fibres(
    labels: Sequence[Label], placements: Sequence[Placement]
) -> tuple[dict[str, int], list[Label], list[Fault]]:
    """Labels of fibres to numbers of their devices, and the labels that name no fibre."""
    couplers = [(i, polygon) for i, p in enumerate(placements) if p.variant.meets_fibre for polygon in p.core]
    finder = Finder(polygon for _, polygon in couplers)
    others: list[Label] = []
    fibres: dict[str, int] = {}
    faults: list[Fault] = []
    owner: dict[int, str] = {}
    for label, found in zip(labels, finder.at(label_points(labels)).tolist(), strict=True):
        if found == NOWHERE:
            others.append(label)
            continue
        device = couplers[found][0]
        if label.text in fibres:
            faults.append(Fault("label", f"fibre label {label.text!r} is used twice", label.position_um))
        elif device in owner:
            kind = placements[device].variant.name.replace("_", " ")
            text = f"fibre labels {owner[device]!r} and {label.text!r} lie on one {kind}"
            faults.append(Fault("label", text, label.position_um))
        else:
            fibres[label.text], owner[device] = device, label.text
    return fibres, others, faults


def _counts(devices: Sequence[Device], nets: Nets) -> dict[str, float]:
    joints = int(np.sum(nets.length_um == 0))
    return {
        **dict(sorted(Counter(device.kind for device in devices).items())),
        "guides": len(nets.length_um) - joints,
        "joints": joints,
        "guide_length_um": float(np.sum(nets.length_um)),
    }
