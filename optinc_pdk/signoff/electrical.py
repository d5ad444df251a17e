"""Rules of metal under current: its density in wires and grounds, and what it raises the grounds by.

A wire from one pad to one heater carries one current, so it may nowhere be narrower than that current needs. A ground
collects many currents: its metal is solved as a sheet. Of several metals, grounds are solved on that of the wires.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards.rules import CurrentRule, IrDropRule
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import Heater
from optinc_pdk.drive import currents as heater_currents
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.lookup import Finder, plain
from optinc_pdk.files import InputError
from optinc_pdk.signoff.drc import DrcResult, RuleResult
from optinc_pdk.signoff.wiring import Floats, Wiring


@dataclass(frozen=True, eq=False)
class Currents:
    """What flows in a layout with n heaters, and what it raises the grounds by.

    Attributes:
        wiring: The layout's wiring.
        voltage_v: (n,) voltage at each heater's pad, 0 where the bias drives none.
        current_a: (n,) current through each heater, less for what raises its ground.
        rise_v: (n,) voltage of its ground end above the ground pads.
    """

    wiring: Wiring
    voltage_v: Floats
    current_a: Floats
    rise_v: Floats

    @property
    def phase_error_rad(self) -> Floats:
        """(n,) phase that the grounds' rise costs, which a drive that knows of none would miss."""
        power_pi = self.wiring.process.device("phase_shifter").parameter("power_pi_w")
        alone = self.voltage_v / (self.wiring.resistance_ohm + self.wiring.wire_ohm)
        return np.asarray(math.pi * (alone**2 - self.current_a**2) * self.wiring.resistance_ohm / power_pi)

    def others_v(self, heater: int) -> float:
        """What the other heaters' currents raise the ground end of one by."""
        current = self.current_a.copy()
        current[heater] = 0.0
        return float(self.wiring.rise_v(current)[heater])


def bias_currents(wiring: Wiring, bias: Bias) -> Currents:
    """The currents of a bias; its codes count.

    Raises:
        InputError: The bias drives another process, or not just the layout's channels.
    """
    process = wiring.process
    if bias.process != process.name:
        raise InputError(f"the bias drives process {bias.process!r}, not {process.name!r}; give that with --process")
    unknown = sorted(set(bias.labels) - set(wiring.labels))
    if unknown:
        raise InputError(
            f"the bias drives channel {unknown[0]!r}, for which the layout has no heater ({len(unknown)} such "
            "channels); give the bias of this layout"
        )
    lacking = sorted(set(wiring.labels) - {"", *bias.labels})
    if lacking:
        raise InputError(
            f"the bias lacks channel {lacking[0]!r}, for which the layout has a heater ({len(lacking)} such channels); "
            "give the bias of this layout"
        )
    step = float(process.drive.full_scale_v) / (2**bias.dac_bits - 1)
    volts = dict(zip(bias.labels, (bias.code * step).tolist(), strict=True))
    voltage = np.array([volts.get(label, 0.0) for label in wiring.labels])
    heater = Heater(
        power_pi_w=process.device("phase_shifter").parameter("power_pi_w"),
        resistance_ohm=wiring.resistance_ohm,
        wire_ohm=wiring.wire_ohm,
        dac_bits=bias.dac_bits,
        full_scale_v=float(process.drive.full_scale_v),
        rise_v=wiring.rise_v,
    )
    current = heater_currents(heater, voltage)
    return Currents(wiring, voltage, current, wiring.rise_v(current))


def full_currents(wiring: Wiring) -> Currents:
    """The currents with every heater at 2π, which is what layouts size grounds for."""
    power = 2 * wiring.process.device("phase_shifter").parameter("power_pi_w")
    current = np.sqrt(power / wiring.resistance_ohm)
    rise = wiring.rise_v(current)
    return Currents(wiring, current * (wiring.resistance_ohm + wiring.wire_ohm) + rise, current, rise)


class Place(NamedTuple):
    """What metal carries somewhere.

    Attributes:
        polygon: Where, in nm.
        current_ma: The current in mA.
        density: Current per width, in mA/µm.
        net: The name of its net.
    """

    polygon: kdb.Polygon
    current_ma: float
    density: float
    net: str


def check_currents(result: DrcResult, wiring: Wiring, bias: Bias) -> tuple[DrcResult, Currents]:
    """Run the rules on currents, which a check without a bias leaves out.

    Args:
        result: The result of the other rules.
        wiring: The layout's wiring.
        bias: What drives it.

    Returns:
        The result with every rule run, and the currents.

    Raises:
        InputError: The bias drives another process, or a channel that the layout lacks.
    """
    currents = bias_currents(wiring, bias)
    rules = tuple(found if found.run else _judged(found, currents) for found in result.rules)
    return replace(result, rules=rules), currents


def _judged(found: RuleResult, currents: Currents) -> RuleResult:
    rule = found.rule
    if isinstance(rule, CurrentRule):
        faults = list(_too_dense(rule, currents))
    elif isinstance(rule, IrDropRule):
        faults = list(_raised(rule, currents))
    else:
        raise TypeError(f"rule {rule.id!r} of kind {rule.kind!r} is none of currents")
    faults.sort(key=lambda fault: str(fault[0]))
    return replace(
        found,
        markers=tuple(polygon.to_dtype(1 / NM_PER_UM) for polygon, _ in faults),
        notes=tuple(note for _, note in faults),
        run=True,
    )


def _raised(rule: IrDropRule, currents: Currents) -> Iterator[tuple[kdb.Polygon, str]]:
    """Ground ends of heaters that are raised too much."""
    wiring = currents.wiring
    half = round(wiring.process.device("phase_shifter").size("contact_width_um") * NM_PER_UM / 2)
    for i in np.flatnonzero(1e3 * currents.rise_v > rule.value_mv).tolist():
        x, y = wiring.ends_nm[i, 1].tolist()
        note = (
            f"{wiring.labels[i] or 'a heater without channel'}: its ground is raised by {1e3 * currents.rise_v[i]:.1f} "
            f"mV of {currents.voltage_v[i]:.3f} V, {currents.phase_error_rad[i]:.4f} rad; limit {rule.value_mv:g} mV"
        )
        yield kdb.Polygon(kdb.Box(x - half, y - half, x + half, y + half)), note


def _too_dense(rule: CurrentRule, currents: Currents) -> Iterator[tuple[kdb.Polygon, str]]:
    """Metal that carries too much for its width; what touches in one net is one fault."""
    wiring = currents.wiring
    places: list[Place] = []
    for name in rule.layers:
        layer = wiring.process.contact.metals.index(name)
        places += narrow_wires(currents, layer, rule.value_ma_per_um, rule.ignore_angle_deg)
        if name == wiring.process.metal.layer:
            places += [place for place in ground_places(currents) if place.density > rule.value_ma_per_um]
    for net in dict.fromkeys(place.net for place in places):
        here = [place for place in places if place.net == net]
        for one in plain(kdb.Region([place.polygon for place in here]).merged()):
            worst = max(_within(here, one), key=lambda place: place.density)
            note = (
                f"{net}: {worst.density:.3f} mA/um, {worst.current_ma:.3f} mA in "
                f"{worst.current_ma / worst.density:.3f} um; limit {rule.value_ma_per_um:g} mA/um"
            )
            yield one, note


def _within(places: Sequence[Place], polygon: kdb.Polygon) -> list[Place]:
    return [place for place in places if polygon.bbox().touches(place.polygon.bbox())]


def ground_places(currents: Currents) -> list[Place]:
    """Every cut across the grounds' metal."""
    wiring = currents.wiring
    found = []
    for net, sheet in wiring.sheets.items():
        pads = [pad.label for pad in wiring.pads if pad.net == net]
        name = f"ground {pads[0]} of {int(np.sum(wiring.ground == net))} heaters"
        chords = sheet.chords(wiring.voltages(net, currents.current_a))
        current_ma, width_um = 1e3 * chords.current, chords.width / NM_PER_UM
        boxes = np.rint(chords.boxes).astype(np.int64).tolist()
        for box, current, width in zip(boxes, current_ma.tolist(), width_um.tolist(), strict=True):
            found.append(Place(kdb.Polygon(kdb.Box(*box)), current, current / width, name))
    return found


def narrow_wires(currents: Currents, layer: int, most_ma_per_um: float, ignore_angle_deg: float) -> list[Place]:
    """Where wires and contacts are narrower than what their heaters' current needs, grounds of wires left out.

    Args:
        currents: The currents.
        layer: Number of the metal, from the contacts up.
        most_ma_per_um: Most current per width.
        ignore_angle_deg: Edges that form this angle or more do not face each other.
    """
    found = []
    for polygon, current, name in _wires(currents, layer):
        least = math.ceil(current / most_ma_per_um * NM_PER_UM)
        pairs = kdb.Region(polygon).width_check(least, False, kdb.Metrics.Euclidian, ignore_angle_deg)
        for pair in pairs.each():
            density = current / (max(pair.distance(), 1) / NM_PER_UM)
            if density > most_ma_per_um:
                found.append(Place(pair.polygon(1), current, density, name))
    return found


def densest_ma_per_um(currents: Currents) -> float:
    """The most that any wire, contact or ground carries per width, of the metals that have a rule on it."""
    process = currents.wiring.process
    # every wire is narrower than a pad somewhere
    wide = math.ceil(float(process.pads.size_um) * NM_PER_UM)
    densest = max((place.density for place in ground_places(currents)), default=0.0)
    for rule in [rule for rule in process.rules if isinstance(rule, CurrentRule)]:
        for name in rule.layers:
            for polygon, current, _ in _wires(currents, process.contact.metals.index(name)):
                pairs = kdb.Region(polygon).width_check(wide, False, kdb.Metrics.Euclidian, rule.ignore_angle_deg)
                narrowest = min((pair.distance() for pair in pairs.each()), default=wide)
                densest = max(densest, current * NM_PER_UM / max(narrowest, 1))
    return densest


def _wires(currents: Currents, layer: int) -> Iterator[tuple[kdb.Polygon, float, str]]:
    """Pieces of a metal that carry current, grounds of wires left out: with the current in mA and the pad's label."""
    wiring = currents.wiring
    names = dict(zip(wiring.signal.tolist(), wiring.labels, strict=True))
    top = layer == len(wiring.process.contact.metals) - 1
    carried = _carried_ma(currents, layer).tolist()
    for (net, polygon), current in zip(wiring.metal.pieces(layer), carried, strict=True):
        if current > 0 and not (top and net in wiring.sheets):
            yield polygon, current, names.get(net) or "metal without pad"


def _carried_ma(currents: Currents, layer: int) -> Floats:
    """(pieces,) current that enters each piece of a metal: at contacts in the lowest, from its net's heaters above."""
    wiring, pieces = currents.wiring, currents.wiring.metal.pieces(layer)
    both = np.repeat(1e3 * currents.current_a, 2)
    if layer == 0:
        finder = Finder(polygon for _, polygon in pieces)
        here = finder.at(wiring.ends_nm.reshape(-1, 2))
        return np.bincount(here, weights=both, minlength=len(pieces)).astype(np.float64)
    ends = np.stack([wiring.signal, wiring.ground], axis=1).ravel()
    nets = np.array([net for net, _ in pieces], dtype=np.int64)
    total = np.bincount(ends, weights=both, minlength=int(max(nets.max(initial=0), ends.max(initial=0))) + 1)
    return np.asarray(total[nets], dtype=np.float64)
