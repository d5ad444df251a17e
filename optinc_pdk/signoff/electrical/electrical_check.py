"""Electrical check: current density in wires and grounds, and the voltage rise of the grounds, for a bias.

A wire from one pad to one heater carries one current, so no part of it may be narrower than that current needs. A
ground collects many currents: its metal is solved as a resistive sheet. In a process with several metals, grounds are
solved on the metal of the wires.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards.rules import CurrentRule, IrDropRule, Rule
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import HeaterArray, RangeError, heater_currents
from optinc_pdk.errors import InputError
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.polygons import PolygonIndex, region_polygons
from optinc_pdk.signoff.drc._shape_checks import narrow_places
from optinc_pdk.signoff.drc.design_rule_check import ELECTRICAL_KINDS, RuleResult
from optinc_pdk.signoff.electrical.wiring import Wiring, wiring_faults
from optinc_pdk.signoff.layout_faults import LayoutFault

# More places of one net than this are one violation, in the box around them.
MAX_PLACES = 10_000


@dataclass(frozen=True, eq=False)
class Currents:
    """Voltages and currents of a layout with n heaters.

    Attributes:
        wiring: Wiring of the layout.
        voltage_v: (n,) voltage in V at each heater's pad; 0 for heaters that the bias does not drive.
        current_a: (n,) current in A through each heater, with its ground rise taken into account.
        rise_v: (n,) voltage in V of each heater's ground end above the ground pads.
    """

    wiring: Wiring
    voltage_v: Floats
    current_a: Floats
    rise_v: Floats

    @property
    def phase_error_rad(self) -> Floats:
        """(n,) phase in rad that each heater loses to ground rise if the drive does not compensate for it."""
        power_pi = self.wiring.process.device("phase_shifter").parameter("power_pi_w")
        without_rise = self.voltage_v / (self.wiring.resistance_ohm + self.wiring.wire_ohm)
        return np.asarray(math.pi * (without_rise**2 - self.current_a**2) * self.wiring.resistance_ohm / power_pi)

    def others_v(self, heater: int) -> float:
        """Return the ground rise of a heater, in V, that is due to the currents of all other heaters."""
        current = self.current_a.copy()
        current[heater] = 0.0
        return float(self.wiring.rise_v(current)[heater])


@dataclass(frozen=True, eq=False)
class ElectricalResult:
    """Results of the electrical rules of one layout at one bias.

    Attributes:
        rules: One result per electrical rule; empty if the currents could not be solved.
        currents: Voltages and currents that were checked; None if they could not be solved.
        faults: Faults of heaters, pads, labels and wires, and channels that do not belong to the layout.
    """

    rules: tuple[RuleResult, ...]
    currents: Currents | None
    faults: tuple[LayoutFault, ...]

    @property
    def violations(self) -> int:
        """Number of violations of rules of severity error."""
        return sum(result.violations for result in self.rules if result.rule.severity == "error")

    @cached_property
    def current_ma_per_um(self) -> float:
        """Highest current density in any wire, contact or ground, in mA per µm of width."""
        return 0.0 if self.currents is None else densest_ma_per_um(self.currents)

    @property
    def ground_rise_mv(self) -> float:
        """Highest ground rise of any heater in mV; 0 without heaters."""
        return 0.0 if self.currents is None else 1e3 * float(self.currents.rise_v.max(initial=0.0))


def bias_currents(wiring: Wiring, bias: Bias) -> Currents:
    """Compute the voltages and currents that result from the DAC codes of a bias.

    Phases, powers and voltages that the bias also states are not used. Channels without a heater are ignored, and
    heaters without a channel are at 0 V; :func:`wiring_faults` reports both.

    Args:
        wiring: Wiring of the layout.
        bias: Bias of its heaters.

    Raises:
        InputError: The bias is of another process.
        RangeError: The currents do not converge, because the grounds are as resistive as the heaters.
    """
    process = wiring.process
    if bias.process != process.name:
        raise InputError(f"the bias is of process {bias.process!r}, not {process.name!r}; give that one with --process")
    step = float(process.drive.full_scale_v) / (2**bias.dac_bits - 1)
    volts = dict(zip(bias.labels, (bias.code * step).tolist(), strict=True))
    voltage = np.array([volts.get(label, 0.0) for label in wiring.labels])
    heater = HeaterArray(
        power_pi_w=process.device("phase_shifter").parameter("power_pi_w"),
        resistance_ohm=wiring.resistance_ohm,
        wire_ohm=wiring.wire_ohm,
        dac_bits=bias.dac_bits,
        full_scale_v=float(process.drive.full_scale_v),
        rise_v=None if process.drive.holds == "power" else wiring.rise_v,
    )
    current = heater_currents(heater, voltage)
    rise = wiring.rise_v(current)
    if process.drive.holds == "power":
        # the drive raises the voltage of a pad until the power is that of the code
        voltage = np.where(current > 0.0, voltage + rise, 0.0)
    return Currents(wiring, voltage, current, rise)


def full_currents(wiring: Wiring) -> Currents:
    """Compute voltages and currents with every heater at a phase of 2π, for which layouts size their grounds."""
    power = 2 * wiring.process.device("phase_shifter").parameter("power_pi_w")
    current = np.sqrt(power / wiring.resistance_ohm)
    rise = wiring.rise_v(current)
    return Currents(wiring, current * (wiring.resistance_ohm + wiring.wire_ohm) + rise, current, rise)


class CurrentDensity(NamedTuple):
    """Current density at one place of the metal.

    Attributes:
        polygon: Outline of the place, in nm.
        current_ma: Current in mA.
        density: Current over the width of the metal, in mA/µm.
        net: Name of the net.
    """

    polygon: kdb.Polygon
    current_ma: float
    density: float
    net: str


def check_electrical(rules: Sequence[Rule], wiring: Wiring, bias: Bias) -> ElectricalResult:
    """Check the electrical rules of a process at a bias.

    Args:
        rules: Rules of the process; the geometric ones among them are ignored.
        wiring: Wiring of the layout.
        bias: Bias of its heaters.

    Raises:
        InputError: The bias is of another process.
    """
    faults = wiring_faults(wiring, bias)
    try:
        currents = bias_currents(wiring, bias)
    except RangeError as fault:
        return ElectricalResult((), None, (*faults, LayoutFault("not_solved", str(fault))))
    checked = tuple(_check(rule, currents) for rule in rules if rule.kind in ELECTRICAL_KINDS)
    return ElectricalResult(checked, currents, faults)


def _check(rule: Rule, currents: Currents) -> RuleResult:
    """Violations of one electrical rule; they are sorted, so that equal layouts give equal results."""
    if isinstance(rule, CurrentRule):
        violations = list(_too_dense(rule, currents))
    elif isinstance(rule, IrDropRule):
        violations = list(_raised(rule, currents))
    else:
        raise TypeError(f"rule {rule.id!r} of kind {rule.kind!r} is not an electrical rule")
    violations.sort(key=lambda violation: str(violation[0]))
    return RuleResult(
        rule,
        markers=tuple(polygon.to_dtype(1 / NM_PER_UM) for polygon, _ in violations),
        notes=tuple(note for _, note in violations),
    )


def _raised(rule: IrDropRule, currents: Currents) -> Iterator[tuple[kdb.Polygon, str]]:
    """Ground ends of heaters whose ground rise exceeds the limit, each with a note."""
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
    """Metal whose current density exceeds the limit, with a note; places of one net that touch are one violation."""
    wiring = currents.wiring
    places: list[CurrentDensity] = []
    for name in rule.layers:
        layer = wiring.process.contact.metals.index(name)
        places += narrow_wires(currents, layer, rule.value_ma_per_um, rule.ignore_angle_deg)
        if name == wiring.process.metal.layer:
            places += [place for place in ground_densities(currents) if place.density > rule.value_ma_per_um]
    for net in dict.fromkeys(place.net for place in places):
        here = [place for place in places if place.net == net]
        if len(here) > MAX_PLACES:
            worst = max(here, key=lambda place: place.density)
            bounds = sum((place.polygon.bbox() for place in here), kdb.Box())
            here = [worst._replace(polygon=kdb.Polygon(bounds))]
        for one in region_polygons(kdb.Region([place.polygon for place in here]).merged()):
            worst = max(_within(here, one), key=lambda place: place.density)
            note = (
                f"{net}: {worst.density:.3f} mA/um, {worst.current_ma:.3f} mA in "
                f"{worst.current_ma / worst.density:.3f} um; limit {rule.value_ma_per_um:g} mA/um"
            )
            yield one, note


def _within(places: Sequence[CurrentDensity], polygon: kdb.Polygon) -> list[CurrentDensity]:
    return [place for place in places if polygon.bbox().touches(place.polygon.bbox())]


def ground_densities(currents: Currents) -> list[CurrentDensity]:
    """Compute the current density at every straight cut across the metal of the grounds."""
    wiring = currents.wiring
    densities = []
    for net, sheet in wiring.sheets.items():
        pads = [pad.label for pad in wiring.pads if pad.net == net]
        name = f"ground {pads[0]} of {int(np.sum(wiring.ground == net))} heaters"
        cuts = sheet.cuts(wiring.voltages(net, currents.current_a))
        current_ma, width_um = 1e3 * cuts.current, cuts.width / NM_PER_UM
        boxes = np.rint(cuts.boxes).astype(np.int64).tolist()
        for box, current, width in zip(boxes, current_ma.tolist(), width_um.tolist(), strict=True):
            densities.append(CurrentDensity(kdb.Polygon(kdb.Box(*box)), current, current / width, name))
    return densities


def narrow_wires(
    currents: Currents, layer: int, limit_ma_per_um: float, ignore_angle_deg: float
) -> list[CurrentDensity]:
    """Find places of one metal where wires and contacts are too narrow for the current that they carry.

    A polygon gives one place for each pair of opposite edges. Grounds on the highest metal are left out: their current
    differs along the net (see :func:`ground_densities`). Grounds on lower metals are included.

    Args:
        currents: Voltages and currents of the layout.
        layer: Number of the metal layer, from 0 for the lowest one, which touches the heaters.
        limit_ma_per_um: Highest allowed current over width, in mA/µm.
        ignore_angle_deg: Two edges at this angle or a larger one do not count as opposite sides of a wire.
    """
    densities = []
    for polygon, current, name in _wires(currents, layer):
        least = math.ceil(current / limit_ma_per_um * NM_PER_UM)
        for pair in narrow_places(polygon, least, ignore_angle_deg).each():
            density = current / (max(pair.distance(), 1) / NM_PER_UM)
            if density > limit_ma_per_um:
                densities.append(CurrentDensity(pair.polygon(1), current, density, name))
    return densities


def densest_ma_per_um(currents: Currents) -> float:
    """Return the highest current density in any wire, contact or ground, in mA per µm of width.

    Only metals for which the process has a current rule are included.
    """
    process = currents.wiring.process
    # every wire has a place that is narrower than a pad
    wide = math.ceil(float(process.pads.size_um) * NM_PER_UM)
    densest = max((place.density for place in ground_densities(currents)), default=0.0)
    for rule in [rule for rule in process.rules if isinstance(rule, CurrentRule)]:
        for name in rule.layers:
            for polygon, current, _ in _wires(currents, process.contact.metals.index(name)):
                densest = max(densest, current * NM_PER_UM / _narrowest(polygon, wide, rule.ignore_angle_deg))
    return densest


def _narrowest(polygon: kdb.Polygon, wide: int, ignore_angle_deg: float) -> int:
    """Least width of a polygon in nm, from 1 to ``wide``."""
    # most polygons have a place that a small distance finds, and the number of pairs grows with the distance
    for part in (64, 16, 4, 1):
        pairs = narrow_places(polygon, wide // part, ignore_angle_deg)
        if pairs.count():
            return max(min(pair.distance() for pair in pairs.each()), 1)
    return wide


def _wires(currents: Currents, layer: int) -> Iterator[tuple[kdb.Polygon, float, str]]:
    """Polygons of a metal that carry current, without the grounds, each with its current in mA and its pad's label."""
    wiring = currents.wiring
    names = dict(zip(wiring.signal.tolist(), wiring.labels, strict=True))
    top = layer == len(wiring.process.contact.metals) - 1
    carried = _carried_ma(currents, layer).tolist()
    for (net, polygon), current in zip(wiring.metal.pieces(layer), carried, strict=True):
        if current > 0 and not (top and net in wiring.sheets):
            yield polygon, current, names.get(net) or "metal without pad"


def _carried_ma(currents: Currents, layer: int) -> Floats:
    """(polygons,) current in mA that enters each polygon of a metal.

    In the lowest metal it enters at the heaters' contacts; in metals above, it is that of all heaters on the net.
    """
    wiring, pieces = currents.wiring, currents.wiring.metal.pieces(layer)
    both = np.repeat(1e3 * currents.current_a, 2)
    if layer == 0:
        finder = PolygonIndex(polygon for _, polygon in pieces)
        here = finder.at(wiring.ends_nm.reshape(-1, 2))
        return np.bincount(here, weights=both, minlength=len(pieces)).astype(np.float64)
    ends = np.stack([wiring.signal, wiring.ground], axis=1).ravel()
    nets = np.array([net for net, _ in pieces], dtype=np.int64)
    total = np.bincount(ends, weights=both, minlength=int(max(nets.max(initial=0), ends.max(initial=0))) + 1)
    return np.asarray(total[nets], dtype=np.float64)
