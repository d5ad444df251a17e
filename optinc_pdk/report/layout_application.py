"""The layout of the report's page as an application: what can be chosen, light, markers of checks, and its script."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.faults import center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.report.layout_pictures import COLORS, HOLLOW
from optinc_pdk.report.layout_polygons import LayoutGuides, LayoutShapes, read_shapes
from optinc_pdk.report.pinout import FIBRE, ExtractedNames, Pin, Pinout
from optinc_pdk.report.rendering import packed_json
from optinc_pdk.signoff.drc.design_rule_check import DrcResult, RuleResult
from optinc_pdk.signoff.drc.marker_database import MARKER_UM
from optinc_pdk.signoff.electrical.electrical_check import Currents
from optinc_pdk.signoff.electrical.wiring import wiring_of
from optinc_pdk.signoff.layout_faults import FAULT_KINDS, LayoutFault
from optinc_pdk.signoff.lvs.comparison import Difference, LvsResult
from optinc_pdk.simulate.circuit_optics import CircuitOptics

HEATER = "heater"
INSTANCE = "Netlist instance"
"""Fact of parts that are instances of the circuit, by which the page knows the ends of guides."""
FIBRE_UM = 10.0
"""Side of the square in which a fibre without coupler is drawn, about the mode of a single-mode fibre."""
Box: TypeAlias = tuple[int, int, int, int]


@dataclass(frozen=True)
class LayoutItem:
    """A part of the layout that can be chosen.

    Attributes:
        kind: ``heater``, ``pad``, ``bump``, ``fibre``, or the name of another device.
        name: Name in the netlist, or label.
        box: Left, bottom, right and top in nm.
        facts: Names of quantities, and their values as text.
        values: Numbers by which heaters are coloured: ``power`` in mW, ``density`` of this power in mW/µm², ``phase``
            in rad, ``voltage`` in V, and ``crosstalk``, the phase in rad that all other heaters add.
        instance: Number of the instance in the extracted circuit; None for pads, bumps, and fibres without coupler.
    """

    kind: str
    name: str
    box: Box
    facts: Mapping[str, str]
    values: Mapping[str, float] = field(default_factory=dict)
    instance: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the item as dicts and lists."""
        item: dict[str, Any] = {"kind": self.kind, "name": self.name, "box": list(self.box), "facts": dict(self.facts)}
        return item | ({"values": dict(self.values)} if self.values else {})


def layout_items(
    extraction: Extraction,
    names: ExtractedNames,
    pinout: Pinout,
    process: Process,
    bias: Bias | None = None,
    currents: Currents | None = None,
    crosstalk: Mapping[int, float] | None = None,
) -> tuple[LayoutItem, ...]:
    """Return heaters, then pads, bumps and fibres, then the other devices.

    Bias and currents are None if they are not known. ``crosstalk`` is the phase in rad that all other heaters add to
    each heated guide, by number of its instance.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    boxes = {center_um(placement.box): _corners(placement.box) for placement in extraction.placements}
    couplers = {coupler.label or coupler.fibre_um: coupler for coupler in extraction.fibres}
    pins = []
    for pin in pinout.pins:
        coupler = couplers.get(pin.label or (pin.x_um, pin.y_um)) if pin.kind == FIBRE else None
        place = None if coupler is None else boxes.pop(coupler.position_um, None)
        facts, instance = _pin_facts(pin), None
        if coupler is not None:
            instance = names.instances[coupler.kind, *coupler.position_um]
            facts |= {INSTANCE: names.names[instance]} | _card_loss(process, coupler.kind)
        pins.append(LayoutItem(pin.kind, pin.label, place or _square(pin, process), facts, instance=instance))
    heaters = list(_heaters(extraction, names, process, bias, currents, crosstalk or {}))
    return (*heaters, *pins, *_devices(extraction, names, process, boxes))


def _heaters(
    extraction: Extraction,
    names: ExtractedNames,
    process: Process,
    bias: Bias | None,
    currents: Currents | None,
    crosstalk: Mapping[int, float],
) -> Iterator[LayoutItem]:
    wiring = wiring_of(extraction, process)
    channels = {} if bias is None else {label: i for i, label in enumerate(bias.labels)}
    wired = extraction.heater_wiring
    devices = () if wired is None else wired.devices
    for i, (heater, device, pad) in enumerate(zip(wiring.heaters, devices, wiring.labels, strict=True)):
        instance = names.instances[device.kind, *device.position_um]
        name = names.names[instance]
        facts = {INSTANCE: name, "Pad": pad or "none"}
        values: dict[str, float] = {}
        if bias is not None and (channel := channels.get(pad)) is not None:
            phase, power = float(bias.phase_rad[channel]), 1e3 * float(bias.power_w[channel])
            voltage = float(bias.voltage_v[channel])
            density = power / (heater.active.area() / NM_PER_UM**2)
            numbers = {"power": power, "density": density, "phase": phase, "voltage": voltage}
            if instance in crosstalk:
                numbers["crosstalk"] = crosstalk[instance]
            values = {name: round(value, 6) for name, value in numbers.items()}
            facts["Phase"] = f"{phase:.4f} rad ({phase / math.pi:.4f} π)"
            if instance in crosstalk:
                facts["Thermal crosstalk"] = f"{crosstalk[instance]:.4f} rad of it, from other heaters"
            facts["Power"] = f"{power:.3f} mW, {density:.4f} mW/µm²"
            facts["Voltage"] = f"{voltage:.4f} V, code {int(bias.code[channel]):,}"
            facts["Channel"] = str(channel)
        if currents is not None:
            facts["Current"] = f"{1e3 * float(currents.current_a[i]):.3f} mA"
        facts["Resistance"] = f"{wiring.resistance_ohm[i]:.1f} Ω, wires {wiring.wire_ohm[i]:.1f} Ω"
        facts["Length"] = f"{heater.length_um:.3f} µm"
        guide_db = float(process.guide.loss_db_per_cm) * heater.length_um * 1e-4
        facts["Loss"] = f"{guide_db + process.device(device.kind).parameter('loss_db'):.4f} dB"
        yield LayoutItem(HEATER, name, _corners(heater.active), facts, values, instance)


def _devices(
    extraction: Extraction,
    names: ExtractedNames,
    process: Process,
    boxes: Mapping[tuple[float, float], Box],
) -> Iterator[LayoutItem]:
    """Return the golden devices at the given boxes."""
    for placement in extraction.placements:
        kind, at = placement.variant.name, center_um(placement.box)
        if at in boxes:
            instance = names.instances[kind, *at]
            facts = {INSTANCE: names.names[instance], "Device": kind} | _card_loss(process, kind)
            yield LayoutItem(kind, names.names[instance], boxes[at], facts, instance=instance)


def _card_loss(process: Process, kind: str) -> dict[str, str]:
    """Return the loss that the card of a device states; empty if it states none."""
    parameters = process.device(kind).model.parameters
    return {"Loss": f"{float(parameters['loss_db']):g} dB, of the device's card"} if "loss_db" in parameters else {}


def _pin_facts(pin: Pin) -> dict[str, str]:
    facts = {"Label": pin.label or "none", "Number": str(pin.number)}
    if pin.die is not None:
        facts["Die"] = str(pin.die)
    if pin.function:
        facts["Function"] = " ".join(part for part in (pin.function, pin.signal) if part)
    if pin.array is not None:
        facts["Fibre array"] = f"{pin.array}, place {pin.channel}"
    elif pin.channel is not None:
        facts["Channel"] = str(pin.channel)
    if pin.net:
        facts["Net"] = pin.net
    if pin.connects_to:
        facts["Connects to"] = ", ".join(pin.connects_to)
    if pin.voltage_v is not None:
        facts["Voltage"] = f"{pin.voltage_v:.4f} V" + _at_most(pin.voltage_max_v, "V")
    if pin.current_ma is not None:
        facts["Current"] = f"{pin.current_ma:.3f} mA" + _at_most(pin.current_max_ma, "mA")
    facts["Place"] = f"({pin.x_um:.3f}, {pin.y_um:.3f}) µm"
    return facts


def _at_most(value: float | None, unit: str) -> str:
    return "" if value is None else f", at most {value:.3f} {unit}"


def _square(pin: Pin, process: Process) -> Box:
    """Return the square around a pin."""
    side = FIBRE_UM if pin.kind == FIBRE else float(process.pads.size_um)
    x, y, half = (round(value * NM_PER_UM) for value in (pin.x_um, pin.y_um, side / 2))
    return x - half, y - half, x + half, y + half


def _corners(box: kdb.Box) -> Box:
    return box.left, box.bottom, box.right, box.top


STEP_DB = 0.5
"""Powers are rounded to multiples of this."""
DARK_DB = -100.0
"""Powers below are stated as this: they are reflections of reflections, and rounding errors."""


@dataclass(frozen=True, eq=False)
class LayoutLight:
    """Optical powers in steps of `STEP_DB`, relative to an input of full scale, for B inputs.

    Attributes:
        titles: What each input is.
        guides: (B, guides) power that leaves each guide at its ends.
        items: (B, items) power that enters each item through its optical ports; `DARK_DB` for items without.
        optical: (items,) whether an item has optical ports.
    """

    titles: tuple[str, ...]
    guides: Ints
    items: Ints
    optical: Bools

    def to_json(self) -> dict[str, Any]:
        """Return the powers as dicts and lists; null for items without optical ports."""
        items = [
            [value if optical else None for value, optical in zip(row, self.optical.tolist(), strict=True)]
            for row in self.items.tolist()
        ]
        dark = round(DARK_DB / STEP_DB)
        return {
            "titles": list(self.titles),
            "step_db": STEP_DB,
            "dark": dark,
            "guides": self.guides.tolist(),
            "items": items,
        }


def layout_light(
    titles: tuple[str, ...], powers: Floats, structure: CircuitOptics, items: Sequence[LayoutItem]
) -> LayoutLight:
    """Assign the powers at the ports of a circuit to the guides and items of its layout.

    ``titles`` say what each of the B inputs is; ``powers`` are the (B, ports) powers that enter the devices at every
    port.
    """
    circuit = structure.circuit
    optical = circuit.optical_mask()
    port = np.cumsum(optical) - 1
    # in the order of `layout_guides`
    ends = port[circuit.nets[circuit.net_length_um > 0]]
    owner = np.repeat(np.arange(len(circuit.instances)), np.diff(circuit.offset))[optical]
    entering = np.zeros((len(circuit.instances) + 1, len(titles)))
    np.add.at(entering, owner, powers.T)
    # the last row is that of items that are no instance
    instance = np.array([-1 if item.instance is None else item.instance for item in items], dtype=np.int64)
    lit = np.append(np.bincount(owner, minlength=len(circuit.instances)) > 0, False)
    return LayoutLight(titles, _steps(powers[:, ends].sum(axis=2)), _steps(entering[instance].T), lit[instance])


def _steps(powers: Floats) -> Ints:
    """Return powers in steps of `STEP_DB`, those below `DARK_DB` as that."""
    level_db = 10.0 * np.log10(np.maximum(powers, 10.0 ** (DARK_DB / 10.0)))
    return np.asarray(np.rint(level_db / STEP_DB), dtype=np.int64)


VIOLATIONS, WARNINGS = "Violations of design rules", "Warnings of design rules"
DIFFERENCES = "Differences from the netlist"
FAULTS, LAYOUT_WARNINGS = "Faults", "Warnings of the layout"
CONNECTIONS = ("net", "length")
"""Kinds of differences about what is between two ports."""
MAX_MARKERS = 1000
"""Markers of one check on the page; the marker database has all."""


@dataclass(frozen=True)
class LayoutMarker:
    """A place that a check reports.

    Attributes:
        check: `VIOLATIONS`, `WARNINGS`, `DIFFERENCES`, `FAULTS`, or `LAYOUT_WARNINGS` for faults that do not affect the
            function.
        name: Rule, or kind of difference or fault.
        text: What is wrong.
        box: Left, bottom, right and top in nm.
        guide: Number of the guide that the finding is about, which is marked instead of the box; None for no guide.
    """

    check: str
    name: str
    text: str
    box: tuple[int, int, int, int]
    guide: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the marker as dicts and lists, with its guide or else its box."""
        place = {"box": list(self.box)} if self.guide is None else {"guide": self.guide}
        return {"check": self.check, "name": self.name, "text": self.text, **place}


def layout_markers(
    rules: DrcResult,
    electrical: Sequence[RuleResult],
    lvs: LvsResult | None,
    faults: Sequence[LayoutFault],
    guides: LayoutGuides,
) -> tuple[LayoutMarker, ...]:
    """Return the markers of all checks, at most `MAX_MARKERS` of each; what has no place has no marker.

    ``electrical`` is empty if these rules did not run, and ``lvs`` None if there is no netlist.
    """
    compared = () if lvs is None else lvs.differences
    differences = [_of_difference(each, each.position_um, guides) for each in compared if each.position_um is not None]
    found = [
        LayoutMarker(
            FAULTS if each.affects_function else LAYOUT_WARNINGS,
            each.kind,
            f"{each.text}; {FAULT_KINDS[each.kind].meaning}",
            _around(each.place_um),
        )
        for each in faults
        if each.place_um is not None
    ]
    by_effect = [[each for each in found if each.check == check] for check in (FAULTS, LAYOUT_WARNINGS)]
    violated = [each for each in rules.all_rules(electrical) if each.violations]
    by_check = []
    for severity in ("error", "warning"):
        results = [each for each in violated if each.rule.severity == severity]
        # every violated rule has markers
        by_check.append([marker for each in results for marker in islice(_of_rule(each), MAX_MARKERS // len(results))])
    return tuple(marker for markers in (*by_check, differences, *by_effect) for marker in markers[:MAX_MARKERS])


def _of_rule(result: RuleResult) -> Iterator[LayoutMarker]:
    notes = (*result.notes, *[""] * (len(result.markers) - len(result.notes)))
    check = VIOLATIONS if result.rule.severity == "error" else WARNINGS
    for (left, bottom, right, top), note in zip(result.boxes_um.tolist(), notes, strict=True):
        box = _nm(left), _nm(bottom), _nm(right), _nm(top)
        yield LayoutMarker(check, result.id, result.rule.text + (f"; {note}" if note else ""), box)


def _of_difference(difference: Difference, place_um: tuple[float, float], guides: LayoutGuides) -> LayoutMarker:
    """Return the marker of a difference at a position.

    The position of a difference about a connection is the middle of a device: its marker is the guide in the layout, or
    the port where a guide is missing.
    """
    marker = LayoutMarker(DIFFERENCES, difference.kind, difference.message, _around(place_um))
    port = difference.extracted.partition(" - ")[0]
    if difference.kind not in CONNECTIONS or port not in guides.port_boxes:
        return marker
    if port in guides.of_port:
        return replace(marker, guide=guides.of_port[port])
    left, bottom, right, top = guides.port_boxes[port]
    return replace(marker, box=_around(((left + right) / 2 / NM_PER_UM, (bottom + top) / 2 / NM_PER_UM)))


def _around(place_um: tuple[float, float]) -> tuple[int, int, int, int]:
    x, y = place_um
    return _nm(x - MARKER_UM), _nm(y - MARKER_UM), _nm(x + MARKER_UM), _nm(y + MARKER_UM)


def _nm(um: float) -> int:
    return round(um * NM_PER_UM)


@dataclass(frozen=True, eq=False)
class LayoutData:
    """What the application shows.

    Attributes:
        shapes: Polygons.
        layers: For each layer of `shapes` its title and its colour.
        items: Heaters, pads and other parts that can be chosen.
        guides: Guides that can be chosen.
        markers: Places that checks report.
        dies: Left, bottom, right and top in µm of each die.
        light: Optical powers for a few inputs; None if the function was not checked.
        crosstalk: What the process card states about thermal crosstalk; empty if nothing.
    """

    shapes: LayoutShapes
    layers: tuple[tuple[str, str], ...]
    items: tuple[LayoutItem, ...]
    guides: LayoutGuides
    markers: tuple[LayoutMarker, ...]
    dies: tuple[tuple[float, float, float, float], ...]
    light: LayoutLight | None = None
    crosstalk: str = ""

    def to_text(self) -> str:
        """Return the data for the page's script."""
        data = {
            **self.shapes.to_json(),
            "layers": [
                {"name": name, "title": title, "color": color, "hollow": name in HOLLOW}
                for name, (title, color) in zip(self.shapes.layers, self.layers, strict=True)
            ],
            "items": [item.to_json() for item in self.items],
            "guides": self.guides.to_json(),
            "markers": [marker.to_json() for marker in self.markers],
            "dies": [[round(edge * NM_PER_UM) for edge in die] for die in self.dies],
            "light": None if self.light is None else self.light.to_json(),
            "crosstalk": self.crosstalk,
        }
        return packed_json(data)


def read_process_shapes(gds_path: str | PathLike[str], process: Process) -> LayoutShapes:
    """Read the polygons of a layout on all layers of its process, thin guides and heaters on top.

    Raises:
        ValueError: See :func:`optinc_pdk.report.layout_polygons.read_shapes`.
    """
    parts = _parts(process)
    order = list(COLORS)
    names = sorted(process.layers, key=lambda name: order.index(parts.get(name, name)))
    return read_shapes(gds_path, {name: process.layers[name].gds for name in names})


def layer_titles(shapes: LayoutShapes, process: Process) -> tuple[tuple[str, str], ...]:
    """Return the title and the colour of each layer of a layout."""
    parts = _parts(process)
    return tuple((process.layers[name].text, COLORS[parts.get(name, name)]) for name in shapes.layers)


def crosstalk_text(process: Process) -> str:
    """Return what the process card states about thermal crosstalk, with its source; empty if nothing."""
    if process.imperfections is None:
        return ""
    card = process.imperfections.crosstalk
    law = f"{float(card.share):.3g} of a heater's phase at {float(card.distance_um):g} µm, falling as 1 / distance"
    return f"{law} ({process.sources[card.share.source]})"


def _parts(process: Process) -> Mapping[str, str]:
    """Return the name in `COLORS` of each layer of a process that is not named there: the closest in meaning."""
    parts = {process.metal.layer: "metal", process.grating.layer: "etch70"}
    return parts | {name: "metal" for name in process.layers if name not in COLORS and name not in parts}


def application_parts(data: LayoutData, name: str, show_findings: bool = False) -> dict[str, Any]:
    """Return the variable ``application`` of a page that includes ``layout.html.j2``.

    ``show_findings`` says whether the markers of checks are visible when the page is opened.
    """
    # without bias or powers, there is nothing to choose from
    has_bias, has_light = any(item.values for item in data.items), data.light is not None
    shown = {"name": name, "show_findings": show_findings, "has_bias": has_bias, "has_light": has_light}
    return {"data": data.to_text(), **shown, **_page_parts()}


@cache
def _page_parts() -> Mapping[str, str]:
    """Return what the page needs to show the data: script and style, and those of Leaflet with its licence."""
    vendor, own = Path(__file__).with_name("vendor") / "leaflet", Path(__file__).with_name("templates")
    files = {
        "library_script": vendor / "leaflet.js",
        "library_style": vendor / "leaflet.css",
        "library_licence": vendor / "LICENSE",
        "script": own / "layout.js",
        "tree_script": own / "layout_tree.js",
        "style": own / "layout.css",
        "rules_script": own / "rules.js",
        "matrices_script": own / "matrices.js",
        "eyes_script": own / "eyes.js",
    }
    parts = {part: file.read_text(encoding="utf-8") for part, file in files.items()}
    parts["section_styles"] = "".join(
        (own / name).read_text(encoding="utf-8") for name in ("rules.css", "matrices.css", "eyes.css")
    )
    # there is no source map beside the page
    return parts | {"library_script": parts["library_script"].partition("//# sourceMappingURL=")[0].rstrip()}
