"""GDS to circuit: light from silicon, current from metal, names from labels; nothing else is believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, Kind
from optinc_pdk.extract.contours import contours
from optinc_pdk.extract.gds import NM_PER_UM, Label, Mask, read_mask
from optinc_pdk.extract.golden import read_golden
from optinc_pdk.extract.guides import Nets, StripRule, trace
from optinc_pdk.extract.heaters import Heater, find_heaters
from optinc_pdk.extract.lookup import Finder, plain
from optinc_pdk.extract.metal import Metal, Pad, find_pads, is_ground, wire_ohm
from optinc_pdk.extract.silicon import (
    Device,
    Fault,
    Placement,
    center_um,
    check_etch,
    check_foreign,
    check_inside,
    place_devices,
)

PHASE_SHIFTER, PAD = "phase_shifter", "pad"


@dataclass(frozen=True)
class Extraction:
    """What a layout is.

    Attributes:
        circuit: Flat circuit with positions and guide lengths; instances are named by kind and position.
        faults: What is no circuit, in the order it was found.
        silicon: Counts: devices by kind, guides, direct joints, and the guides' length in µm.
    """

    circuit: Circuit
    faults: tuple[Fault, ...]
    silicon: Mapping[str, float]


def extract(gds_path: str | Path, process: Process) -> Extraction:
    """Extract the circuit of a written layout from its polygons and labels alone.

    Args:
        gds_path: GDS2 or OASIS file with one top cell and 1 nm database unit.
        process: Gives layers, golden devices and dimensions.

    Returns:
        The circuit and every fault.

    Raises:
        GdsError: The file cannot be used.
        CardError: A golden device cannot be used.
    """
    path = Path(gds_path)
    mask = read_mask(path, process.gds_layers)
    variants = read_golden(process)
    rule = _strip_rule(process)
    core = _silicon(mask)
    metal = Metal(mask)
    outline = contours(plain(core))
    placements = place_devices(outline, variants)
    heaters, faults = find_heaters(mask, metal.region, rule.width)
    taken = kdb.Region([p.core for p in placements] + [kdb.Polygon(h.guide) for h in heaters]).merged()
    left = core - taken
    left.min_coherence = True
    pieces = plain(left)
    remains = contours(pieces)
    # devices lie wholly in silicon exactly when what is left and what is taken add up
    if outline.double_area != remains.double_area + contours(plain(taken)).double_area:
        faults += check_inside(placements, core)
    faults += _check_layers(mask, core, placements)
    faults += check_foreign(placements, pieces)
    labels, fibres, label_faults = _fibres(mask.labels("label"), placements)
    pads, pad_faults = find_pads(metal, labels, round(float(process.pads.size_um) * NM_PER_UM))
    wired, heater_devices, wire_faults = _wire(heaters, metal, pads, process)
    devices = [p.device(process.device(p.variant.name).ports.optical) for p in placements] + heater_devices
    nets = trace(pieces, remains, devices, rule, variants)
    circuit = _circuit(path.stem, process, devices, nets, fibres, pads, wired)
    counts: dict[str, float] = dict(sorted(Counter(device.kind for device in devices).items()))
    counts |= {"guides": int(np.count_nonzero(nets.length_um)), "joints": int(np.sum(nets.length_um == 0))}
    counts["guide_length_um"] = float(np.sum(nets.length_um))
    return Extraction(circuit, (*nets.faults, *faults, *label_faults, *pad_faults, *wire_faults), counts)


def _strip_rule(process: Process) -> StripRule:
    """Guide dimensions; rounding and bodies are what the process's rules say they are."""
    rules = {rule.id: rule for rule in process.rules}
    width, space = rules["core.width"], rules["core.guide_space"]
    return StripRule(
        width=round(float(process.guide.width_um) * NM_PER_UM),
        tolerance=round(width.angled_tolerance_um * NM_PER_UM),
        body=round(space.body_um * NM_PER_UM),
    )


def _silicon(mask: Mask) -> kdb.Region:
    core, holes = mask.region("core").merged(), mask.region("holes")
    return core if holes.is_empty() else core - holes


def _check_layers(mask: Mask, core: kdb.Region, placements: Sequence[Placement]) -> list[Fault]:
    """Etch that is not the gratings', and slab on silicon."""
    faults = check_etch(placements, mask.region("etch70"))
    slab = mask.region("slab")
    if not slab.is_empty():
        faults += [
            Fault("slab", "slab over silicon: the process has no rib devices", center_um(shape.bbox()))
            for shape in (slab & core).each()
        ]
    return faults


def _fibres(
    labels: Sequence[Label], placements: Sequence[Placement]
) -> tuple[list[Label], dict[str, int], list[Fault]]:
    """Labels of fibres to numbers of their devices; also the labels that name no fibre."""
    gratings = [i for i, p in enumerate(placements) if p.variant.etch]
    finder = Finder(placements[i].core for i in gratings)
    others: list[Label] = []
    fibres: dict[str, int] = {}
    faults: list[Fault] = []
    owner: dict[int, str] = {}
    for label in labels:
        found = finder.at(label.x, label.y)
        if found is None:
            others.append(label)
            continue
        device = gratings[found]
        at = (label.x / NM_PER_UM, label.y / NM_PER_UM)
        if label.text in fibres:
            faults.append(Fault("label", f"fibre label {label.text!r} is used twice", at))
        elif device in owner:
            text = f"fibre labels {owner[device]!r} and {label.text!r} lie on one grating coupler"
            faults.append(Fault("label", text, at))
        else:
            fibres[label.text], owner[device] = device, label.text
    return others, fibres, faults


def _wire(
    heaters: Sequence[Heater], metal: Metal, pads: Sequence[Pad], process: Process
) -> tuple[list[tuple[int, int]], list[Device], list[Fault]]:
    """Metal nets of each heater's signal and ground end, the phase shifters, and faults.

    The signal end is the one that is not on ground; o1 is under it, as in the card. Polarity makes no heat.
    """
    card = process.device(PHASE_SHIFTER)
    at = [tuple(metal.net_at(contact.x, contact.y) for contact in heater.contacts) for heater in heaters]
    signals = Counter(pad.net for pad in pads if not is_ground(pad.label))
    grounds = {pad.net for pad in pads if is_ground(pad.label)}
    contacts = Counter(net for pair in at for net in pair)
    wired: list[tuple[int, int]] = []
    devices: list[Device] = []
    faults: list[Fault] = []
    for heater, (first, second) in zip(heaters, at, strict=True):
        if first is None or second is None:
            raise RuntimeError("a heater's contact is metal by construction")
        swap = first in grounds and second not in grounds
        signal, ground = (second, first) if swap else (first, second)
        wired.append((signal, ground))
        devices.append(
            Device(
                PHASE_SHIFTER,
                heater.center,
                heater.edges[::-1] if swap else heater.edges,
                (True, True),
                {
                    "length_um": heater.length_um,
                    "heater_width_um": heater.width_um,
                    "resistance_ohm": card.parameter("sheet_ohm") * heater.length_um / heater.width_um,
                    "wire_ohm": wire_ohm(metal, signal, signals[signal], contacts[signal], process),
                },
            )
        )
        if first == second:
            where = devices[-1].position_um
            faults.append(Fault("short", "both contacts of a heater are joined in metal", where))
    return wired, devices, faults


def _circuit(
    name: str,
    process: Process,
    devices: Sequence[Device],
    nets: Nets,
    fibres: Mapping[str, int],
    pads: Sequence[Pad],
    wired: Sequence[tuple[int, int]],
) -> Circuit:
    """Number everything by kind and position."""
    everything = [*devices, *(_pad_device(pad) for pad in pads)]
    order = sorted(range(len(everything)), key=lambda i: (everything[i].kind, everything[i].center))
    rank = np.argsort(np.array(order, dtype=np.int64)) if order else np.zeros(0, dtype=np.int64)
    used = sorted({device.kind for device in everything})
    cards = {kind: process.device(kind).ports for kind in used}
    kinds = tuple(Kind(kind, cards[kind].optical, cards[kind].electrical) for kind in used)
    kind = np.array([used.index(everything[i].kind) for i in order], dtype=np.int64)
    seen: Counter[str] = Counter()
    names: list[str] = []
    for i in order:
        names.append(f"{everything[i].kind}_{seen[everything[i].kind]}")
        seen[everything[i].kind] += 1
    sizes = np.array([len(k.ports) for k in kinds], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes[kind])]).astype(np.int64)
    # port numbers of the tracer, optical ports of devices in their first order, become the circuit's
    renumber = [
        int(offset[rank[i]]) + port for i, device in enumerate(devices) for port in range(len(device.guided))
    ]
    electrical = np.full(int(offset[-1]), UNCONNECTED, dtype=np.int64)
    heated = [i for i, device in enumerate(devices) if device.kind == PHASE_SHIFTER]
    for i, pair in zip(heated, wired, strict=True):
        start = int(offset[rank[i]]) + len(cards[PHASE_SHIFTER].optical)
        electrical[start : start + 2] = pair
    ports = {}
    for label, i in sorted(fibres.items()):
        ports[label] = int(offset[rank[i]]) + devices[i].guided.index(False)
    for i, pad in enumerate(pads):
        port = int(offset[rank[len(devices) + i]])
        ports.setdefault(pad.label, port)
        electrical[port] = pad.net
    columns = sorted({key for device in everything for key in device.settings})
    return Circuit(
        name=name,
        kinds=kinds,
        instances=tuple(names),
        kind=kind,
        nets=np.array(renumber, dtype=np.int64)[nets.ports].reshape(-1, 2),
        electrical=_compact(electrical),
        ports=ports,
        settings={key: np.array([everything[i].settings.get(key, np.nan) for i in order]) for key in columns},
        net_length_um=nets.length_um,
        position_um=np.array([everything[i].position_um for i in order]).reshape(-1, 2),
    )


def _pad_device(pad: Pad) -> Device:
    return Device(PAD, pad.center, np.zeros((0, 2, 2), dtype=np.int64), ())


def _compact(net: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Net numbers in port order, from 0."""
    result = np.full_like(net, UNCONNECTED)
    seen: dict[int, int] = {}
    for port in np.flatnonzero(net != UNCONNECTED).tolist():
        result[port] = seen.setdefault(int(net[port]), len(seen))
    return result
