"""What can be chosen in the layout of the report's page: heaters, other devices, pads, bumps and fibres."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import klayout.db as kdb

from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.faults import center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.report.extracted_names import ExtractedNames
from optinc_pdk.report.pins import FIBRE, Pin, Pinout
from optinc_pdk.signoff.electrical.electrical_check import Currents
from optinc_pdk.signoff.electrical.wiring import wiring_of

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

    Args:
        extraction: Result of the extraction.
        names: Names of its instances.
        pinout: Its pinout.
        process: Process.
        bias: Bias; None if there is none.
        currents: Voltages and currents at the bias; None if they are not known.
        crosstalk: Phase in rad that all other heaters add to each heated guide, by number of its instance; None if it
            is not known.

    Raises:
        ValueError: The extraction was not made from a layout.
    """
    boxes = {center_um(placement.box): _edges(placement.box) for placement in extraction.placements}
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
        yield LayoutItem(HEATER, name, _edges(heater.active), facts, values, instance)


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


def _edges(box: kdb.Box) -> Box:
    return box.left, box.bottom, box.right, box.top
