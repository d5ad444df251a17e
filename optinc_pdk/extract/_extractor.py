"""Extraction of a circuit from a layout file, without cell names, ports or other metadata of the layout.

Optical connections follow from silicon, electrical ones from metal, names of fibres and pads from labels. Cell names,
ports and metadata are not used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import CardError, Process
from optinc_pdk.cards.rules import GuideSpaceRule, LineRule
from optinc_pdk.circuit import UNCONNECTED, Circuit, ComponentType
from optinc_pdk.extract._blocks import NO_BLOCKS, PlacedBlocks, find_blocks
from optinc_pdk.extract._guide_strips import StripRule
from optinc_pdk.extract._guide_tracing import OpticalNets, trace_guides
from optinc_pdk.extract._layer_checks import check_layers, check_tips
from optinc_pdk.extract._lookalikes import find_near_misses
from optinc_pdk.extract._silicon_checks import check_foreign, check_inside, check_separation
from optinc_pdk.extract.device_recognition import (
    DevicePlacement,
    ExtractedDevice,
    FibreCoupler,
    devices_from_placements,
    fibre_couplers,
    find_fibre_labels,
    match_devices,
)
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.golden_devices import GoldenVariant, read_golden
from optinc_pdk.extract.guide_couplers import GuideCouplers, coupler_marks, find_couplers
from optinc_pdk.extract.layout_reader import refusing_geometry
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, MaskLayout, label_positions, read_mask_layout
from optinc_pdk.extract.metal_nets import MetalNets, connect_pins
from optinc_pdk.extract.phase_shifters import DrawnHeaters, ExtractedHeater, HeaterWiring
from optinc_pdk.extract.polygons import NOT_FOUND, Contours, contours, region_polygons
from optinc_pdk.gc_control import gc_paused


@dataclass(frozen=True)
class Extraction:
    """Result of an extraction.

    Attributes:
        circuit: Flat circuit with positions and guide lengths. Instances are numbered by component type and position.
            Phase shifters have the settings ``length_um``, ``heater_width_um``, ``resistance_ohm`` and ``wire_ohm``;
            couplers of any gap and length those of ``cards.device_models.SETTINGS``.
        faults: Parts of the layout that cannot be part of a circuit.
        silicon: Number of devices by type; ``guides``, the number of guides; ``joints``, the number of nets where two
            devices touch; and ``guide_length_um``, the total length of guides in µm.
        heater_wiring: Heaters and pads with their metal nets; None if the circuit was not extracted from a layout.
        fibres: Fibre couplers, labelled or not.
        placements: Golden devices where they were recognised, sorted by position.
        couplers: Couplers of any gap and length; None if the circuit was not extracted from a layout.
        unused_labels: Labels on no fibre coupler and no metal, which name nothing. Names of dies do not count: texts in
            the lower margin of an outline.
        top_cell: Name of the layout's top cell; empty if the circuit was not extracted from a layout.
    """

    circuit: Circuit
    faults: tuple[Fault, ...]
    silicon: Mapping[str, float]
    heater_wiring: HeaterWiring | None = field(default=None, compare=False, repr=False)
    fibres: tuple[FibreCoupler, ...] = field(default=(), compare=False, repr=False)
    placements: tuple[DevicePlacement, ...] = field(default=(), compare=False, repr=False)
    couplers: GuideCouplers | None = field(default=None, compare=False, repr=False)
    unused_labels: tuple[Label, ...] = field(default=(), compare=False, repr=False)
    top_cell: str = field(default="", compare=False, repr=False)


@refusing_geometry
@gc_paused()
def extract(
    gds_path: str | Path,
    process: Process,
    more_labels: Callable[[Sequence[Label], Sequence[kdb.Box]], Sequence[Label]] | None = None,
) -> Extraction:
    """Extract the circuit of a layout file from its polygons and labels.

    Examples:
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.extract import extract
        >>> extract("out/mine.gds", load_process("soi220")).faults
        ()

    Args:
        gds_path: GDS2 or OASIS file with one top cell and a database unit of 1 nm.
        process: Process of the layout; states layers, golden devices and dimensions.
        more_labels: Function from the labels of the layout and the boxes of its fibre couplers to labels that name
            further fibre couplers and pads; None for no further labels.

    Raises:
        GdsError: The file cannot be read or is not a layout of this process.
        CardError: There are no golden files, one is not valid, or ``rules.yml`` lacks the rules for the width and
            spacing of guides.
    """
    path = Path(gds_path)
    variants, rule = read_golden(process), _strip_rule(process)
    mask = read_mask_layout(path, process.gds_layers)
    drawn = DrawnHeaters.of(mask, process)
    silicon = _silicon(mask, drawn.heaters, variants, rule, process)
    placements = silicon.placements
    labels = mask.labels("label")
    if more_labels is not None:
        boxes = [placement.box for placement in placements if placement.variant.fibre is not None]
        labels = sorted([*labels, *more_labels(labels, boxes)], key=lambda label: (label.text, label.x, label.y))
    fibre_devices, other_labels, fibre_faults = find_fibre_labels(labels, placements)
    # the port numbers of a phase shifter depend on which contact is ground, so pads are found before guides are traced
    wiring = drawn.wired(other_labels, process)
    pads = wiring.pads
    couplers = silicon.couplers
    devices = [*devices_from_placements(placements, process), *wiring.devices, *couplers.devices]
    nets, silicon_faults = _trace(silicon, devices, rule, variants)
    silicon_faults += check_separation(nets, devices, placements, silicon.outline, silicon.placed.edges_near, rule)
    all_devices = [*devices, *(pad.device for pad in pads)]
    # a label that is used twice is a fault; it stays with the first device
    names = {pad.label: len(devices) + i for i, pad in reversed(list(enumerate(pads)))} | fibre_devices
    pin_nets, pin_faults = connect_pins(placements, wiring.metal, process)
    metal_nets = [*pin_nets, *wiring.ends, *(() for _ in couplers.devices), *((pad.net,) for pad in pads)]
    circuit = build_circuit(path.stem, process, all_devices, nets, metal_nets, dict(sorted(names.items())))
    faults = [*nets.faults, *silicon_faults, *wiring.faults, *fibre_faults, *pin_faults]
    faults += [*couplers.faults, *check_layers(mask, placements, silicon.marks, process)]
    faults += check_tips(mask, placements, process)
    faults += find_near_misses(mask, [*nets.faults, *silicon_faults], placements, variants, process)
    couplers_to_fibres = fibre_couplers(placements, fibre_devices)
    return Extraction(
        circuit,
        tuple(faults),
        _counts(devices, nets),
        wiring,
        couplers_to_fibres,
        tuple(placements),
        couplers,
        tuple(_unused(other_labels, wiring.metal, mask, process)),
        mask.top.name,
    )


def _strip_rule(process: Process) -> StripRule:
    """Return the dimensions of guides in nm, from the guide's card and the process's rules."""
    core = [rule for rule in process.rules if "core" in getattr(rule, "layers", ())]
    widths = [rule for rule in core if isinstance(rule, LineRule) and rule.kind == "width"]
    spaces = [rule for rule in core if isinstance(rule, GuideSpaceRule)]
    if not widths or not spaces:
        raise CardError(f"process {process.name!r}: rules.yml lacks a width or a guide_space rule of 'core'; add both")
    return StripRule(
        width=round(float(process.guide.width_um) * NM_PER_UM),
        tolerance=round(widths[0].angled_tolerance_um * NM_PER_UM),
        body=round(spaces[0].body_um * NM_PER_UM),
        space=round(max(rule.value_um for rule in spaces) * NM_PER_UM),
        arm_space=round(min(rule.value_um for rule in spaces) * NM_PER_UM),
        joined=round(max(rule.exempt_um for rule in spaces) * NM_PER_UM),
        opposite_deg=max(rule.ignore_angle_deg for rule in spaces),
    )


@dataclass(frozen=True)
class _Silicon:
    """The silicon of a layout, divided into blocks and the rest.

    Attributes:
        core: Merged silicon outside blocks.
        outline: Contours of ``core``.
        loose: Devices outside blocks, without phase shifters.
        taken: Merged silicon of the devices outside blocks.
        placements: All golden devices, sorted by position.
        marks: Marks of couplers of any gap and length, or that belong to no device.
        couplers: Couplers of any gap and length.
        placed: Placed blocks.
    """

    core: kdb.Region
    outline: Contours
    loose: Sequence[DevicePlacement]
    taken: kdb.Region
    placements: Sequence[DevicePlacement]
    marks: Sequence[kdb.Polygon]
    couplers: GuideCouplers
    placed: PlacedBlocks


def _silicon(
    mask: MaskLayout,
    heaters: Sequence[ExtractedHeater],
    variants: Sequence[GoldenVariant],
    rule: StripRule,
    process: Process,
) -> _Silicon:
    """Find blocks and devices."""
    marks = coupler_marks(mask, variants, process)
    placed, heated, core = find_blocks(mask, heaters, variants, rule, marks)
    outline = contours(region_polygons(core))
    loose = match_devices(outline, variants)
    if placed.overlap_surroundings(loose, rule.space):
        # silicon of a block that is too close to a device is a fault, which only extraction without blocks reports
        heated, core = list(range(len(heaters))), mask.silicon()
        placed, outline = NO_BLOCKS, contours(region_polygons(core))
        loose = match_devices(outline, variants)
    bodies = [polygon for p in loose for polygon in p.core]
    taken = kdb.Region(bodies + [kdb.Polygon(heaters[i].guide) for i in heated]).merged()
    couplers = find_couplers(marks, core, taken, rule, process)
    if couplers.silicon:
        taken = (taken + kdb.Region(list(couplers.silicon))).merged()
    placements = sorted([*loose, *placed.placements()], key=lambda p: (p.shift.x, p.shift.y, p.variant.name))
    return _Silicon(core, outline, loose, taken, placements, marks, couplers, placed)


def _trace(
    silicon: _Silicon, devices: Sequence[ExtractedDevice], rule: StripRule, variants: Sequence[GoldenVariant]
) -> tuple[OpticalNets, list[Fault]]:
    """Return the nets in the silicon outside devices, and the faults around devices."""
    rest = silicon.core - silicon.taken
    rest.min_coherence = True
    # sorted, because KLayout's order of polygons depends on other shapes
    pieces = sorted(region_polygons(rest))
    outline = contours(pieces)
    taken = region_polygons(silicon.taken)
    faults = check_foreign(silicon.loose, [*pieces, *taken], rule)
    # devices lie completely in silicon exactly if the areas of the rest and of the devices add up to the whole area
    if silicon.outline.double_area != outline.double_area + contours(taken).double_area:
        faults += check_inside(silicon.taken, silicon.core)
    nets = trace_guides(pieces, outline, silicon.placed.outgoing_guides(), devices, rule, variants)
    return nets.joined_by(devices, silicon.placed.inner_guides()), faults


def _unused(labels: Sequence[Label], metal: MetalNets, mask: MaskLayout, process: Process) -> Iterator[Label]:
    """Yield the labels on no metal, without those in the lower margin of an outline, where the name of a die is."""
    keepout = round(float(process.floorplan.keepout_um) * NM_PER_UM)
    outlines = region_polygons(mask.region("outline")) if "outline" in mask.layers else []
    dies = [outline.bbox() for outline in outlines]
    margins = [kdb.Box(die.left, die.bottom, die.right, die.bottom + keepout) for die in dies]
    for label, net in zip(labels, metal.nets_at(label_positions(labels)).tolist(), strict=True):
        if net == NOT_FOUND and not any(margin.contains(kdb.Point(label.x, label.y)) for margin in margins):
            yield label


def _counts(devices: Sequence[ExtractedDevice], nets: OpticalNets) -> dict[str, float]:
    """Count devices by type, guides and joints, and sum the lengths of guides in µm."""
    joints = int(np.sum(nets.length_um == 0))
    return {
        **dict(sorted(Counter(device.kind for device in devices).items())),
        "guides": len(nets.length_um) - joints,
        "joints": joints,
        "guide_length_um": float(np.sum(nets.length_um)),
    }


def build_circuit(
    name: str,
    process: Process,
    devices: Sequence[ExtractedDevice],
    nets: OpticalNets,
    metal: Sequence[tuple[int, ...]],
    labels: Mapping[str, int],
) -> Circuit:
    """Build a flat circuit; its instances are ordered by component type, x and y, and named by type and number.

    Args:
        name: Circuit name.
        process: Process whose cards state the ports of each device.
        devices: Devices in any order.
        nets: Optical nets. Their port numbers count the optical ports of ``devices``, device by device.
        metal: For each device, the number of the metal net of each electrical port, -1 for none.
        labels: Label to the index in ``devices`` of the device that carries it: a fibre coupler or a pad.
    """
    order = sorted(range(len(devices)), key=lambda i: (devices[i].kind, devices[i].center))
    kinds, kind = _kinds([devices[i].kind for i in order], process)
    sizes = np.array([len(k.ports) for k in kinds], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes[kind])]).astype(np.int64)
    start = np.empty(len(order), dtype=np.int64)
    start[order] = offset[:-1]
    port = [int(start[i]) + local for i, device in enumerate(devices) for local in range(len(device.guided))]
    electrical = np.full(int(offset[-1]), UNCONNECTED, dtype=np.int64)
    ports: dict[str, int] = {}
    for i, wired in enumerate(metal):
        first = int(start[i]) + len(devices[i].guided)
        electrical[first : first + len(wired)] = wired
    for label, i in labels.items():
        local = devices[i].guided.index(False) if devices[i].guided else 0
        ports[label] = int(start[i]) + local
    columns = sorted({key for device in devices for key in device.settings})
    return Circuit(
        name=name,
        kinds=kinds,
        instances=_names([devices[i].kind for i in order]),
        kind=kind,
        nets=np.array(port, dtype=np.int64)[nets.ports].reshape(-1, 2),
        electrical=_compact(electrical),
        ports=ports,
        settings={key: np.array([devices[i].settings.get(key, np.nan) for i in order]) for key in columns},
        net_length_um=nets.length_um,
        position_um=np.array([devices[i].position_um for i in order]).reshape(-1, 2),
    )


def _kinds(names: Sequence[str], process: Process) -> tuple[tuple[ComponentType, ...], Ints]:
    """Return the component types in use, and the number of each instance's type."""
    used = sorted(set(names))
    cards = [process.device(name).ports for name in used]
    kinds = tuple(ComponentType(name, card.optical, card.electrical) for name, card in zip(used, cards, strict=True))
    return kinds, np.array([used.index(name) for name in names], dtype=np.int64)


def _names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Name instances by component type and number from 0."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for kind in kinds:
        names.append(f"{kind}_{seen[kind]}")
        seen[kind] += 1
    return tuple(names)


def _compact(net: Ints) -> Ints:
    """Renumber nets from 0 in the order of their ports."""
    result = np.full_like(net, UNCONNECTED)
    seen: dict[int, int] = {}
    for port in np.flatnonzero(net != UNCONNECTED).tolist():
        result[port] = seen.setdefault(int(net[port]), len(seen))
    return result
