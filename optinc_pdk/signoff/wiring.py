"""The electrical side of a written layout: heaters, the pads that drive them, and the metal of their grounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.cards import Process
from optinc_pdk.drive import Ground
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.bumps import BUMP
from optinc_pdk.extract.gds import NM_PER_UM, Mask, read_mask
from optinc_pdk.extract.heaters import Heater, Wired, find_heaters, wire
from optinc_pdk.extract.lookup import Finder, plain
from optinc_pdk.extract.metal import Metal, Pad, find_pads, is_ground
from optinc_pdk.signoff.sheets import Sheet

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Wiring:
    """The wiring of a layout with n heaters.

    Attributes:
        mask: Layout.
        process: Its process.
        metal: Its metal.
        pads: Labelled pads.
        heaters: (n) heaters.
        labels: (n) label of the first pad that drives each, empty where none does.
        signal: (n,) nets of their signal ends.
        ground: (n,) nets of their ground ends.
        resistance_ohm: (n,) their resistances.
        wire_ohm: (n,) resistance of each one's own wire; 0 for wires that are not from one pad to one heater.
    """

    mask: Mask
    process: Process
    metal: Metal
    pads: Sequence[Pad]
    heaters: Sequence[Heater]
    labels: tuple[str, ...]
    signal: Ints
    ground: Ints
    resistance_ohm: Floats
    wire_ohm: Floats

    @cached_property
    def ends_nm(self) -> Ints:
        """(n, 2, 2) middles of the contacts of signal end and ground end."""
        ends = np.array([(end.x, end.y) for heater in self.heaters for end in heater.contacts], dtype=np.int64)
        ends = ends.reshape(-1, 2, 2)
        turned = self.metal.contacts_at(ends[:, 0]) != self.signal
        return np.where(turned[:, np.newaxis, np.newaxis], ends[:, ::-1], ends)

    @cached_property
    def entries(self) -> tuple[Ints, Ints]:
        """(k, 2) points where current enters the ground's metal of wires, and (k,) the heaters that it comes from."""
        heaters = np.arange(len(self.heaters))
        stack = self.process.contact
        if not stack.vias:
            return self.ends_nm[:, 1], heaters
        # current comes up where the topmost vias lie over a contact
        vias = [via.bbox().center() for via in plain(self.mask.region(stack.vias[-1]).merged())]
        middles = np.array([(via.x, via.y) for via in vias], dtype=np.int64).reshape(-1, 2)
        finder = Finder(polygon for _, polygon in self.metal.pieces(-2))
        over, contact = finder.at(middles), finder.at(self.ends_nm[:, 1])
        order = np.argsort(over, kind="stable")
        first, last = (np.searchsorted(over[order], contact, side) for side in ("left", "right"))
        count = last - first
        via = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return middles[order[via]], np.repeat(heaters, count)

    @cached_property
    def sheets(self) -> Mapping[int, Sheet]:
        """The metal of the grounds by net, held at 0 V at labelled pads and, with bumps, at every one of them."""
        grounds = sorted({pad.net for pad in self.pads if is_ground(pad.label)})
        sinks: dict[int, list[kdb.Box]] = {net: [] for net in grounds}
        half = round(float(self.process.pads.size_um) * NM_PER_UM / 2)
        for pad in self.pads:
            x, y = (round(place) for place in pad.center)
            sinks.get(pad.net, []).append(kdb.Box(x - half, y - half, x + half, y + half))
        if self.process.pads.wiring == "flipchip":
            bumps = [bump.bbox() for bump in plain(self.mask.region(BUMP).merged())]
            middles = np.array([(b.center().x, b.center().y) for b in bumps], dtype=np.int64).reshape(-1, 2)
            for bump, net in zip(bumps, self.metal.nets_at(middles).tolist(), strict=True):
                sinks.get(net, []).append(bump)
        shapes: dict[int, list[kdb.Polygon]] = {net: [] for net in grounds}
        for net, polygon in self.metal.pieces(-1):
            shapes.get(net, []).append(polygon)
        ohm = float(self.process.metal.sheet_ohm)
        return {net: Sheet.of(shapes[net], sinks[net], ohm) for net in grounds}

    def voltages(self, net: int, current_a: Floats) -> Floats:
        """Voltages of the cells of a ground's sheet for currents (n,) of the heaters."""
        points, heater = self.entries
        here = self.ground[heater] == net
        share = 1.0 / np.bincount(heater, minlength=len(self.heaters))[heater]
        sheet = self.sheets[net]
        return sheet.voltages(sheet.cells(points[here]), (current_a[heater] * share)[here])

    def rise_v(self, current_a: Floats) -> Floats:
        """(n,) voltage of every heater's ground end above the ground pads, for currents (n,) of the heaters."""
        points, heater = self.entries
        total, count = np.zeros(len(self.heaters)), np.bincount(heater, minlength=len(self.heaters))
        for net, sheet in self.sheets.items():
            here = self.ground[heater] == net
            voltage = self.voltages(net, current_a)
            np.add.at(total, heater[here], voltage[*sheet.cells(points[here]).T])
        return total / np.maximum(count, 1)

    @property
    def common(self) -> Ground:
        """What the heaters' currents raise their grounds by, by channel."""
        first = {label: i for i, label in reversed(list(enumerate(self.labels))) if label}
        labels, place = tuple(first), np.array(list(first.values()), dtype=np.int64)

        def rise(current_a: Floats) -> Floats:
            every = np.zeros(len(self.heaters))
            every[place] = current_a
            return self.rise_v(every)[place]

        return Ground(labels, rise)


def read_wiring(gds_path: str | Path, process: Process) -> Wiring:
    """Read the wiring of a written layout from its polygons and labels alone.

    Raises:
        GdsError: The file cannot be used.
    """
    mask = read_mask(gds_path, process.gds_layers)
    metal = Metal(mask, process)
    heaters, _ = find_heaters(mask, metal.contacts, round(float(process.guide.width_um) * NM_PER_UM))
    pads, _ = find_pads(metal, mask.labels("label"), round(float(process.pads.size_um) * NM_PER_UM))
    devices, ends, _ = wire(heaters, metal, pads, process)
    return _wiring(Wired(mask, metal, pads, heaters, devices, ends), process)


def wiring_of(extraction: Extraction, process: Process) -> Wiring:
    """The wiring of an extracted layout, without reading the layout again.

    Raises:
        ValueError: The extraction is not from a layout.
    """
    if extraction.wired is None:
        raise ValueError(f"{extraction.circuit.name}: this extraction has no metal; extract the layout with extract()")
    return _wiring(extraction.wired, process)


def _wiring(found: Wired, process: Process) -> Wiring:
    driven = {pad.net: pad.label for pad in reversed(found.pads) if not is_ground(pad.label)}
    nets = np.array(found.ends, dtype=np.int64).reshape(-1, 2)
    columns = [[device.settings[key] for device in found.devices] for key in ("resistance_ohm", "wire_ohm")]
    resistance, wires = (np.array(column, dtype=np.float64) for column in columns)
    return Wiring(
        mask=found.mask,
        process=process,
        metal=found.metal,
        pads=found.pads,
        heaters=found.heaters,
        labels=tuple(driven.get(net, "") for net in nets[:, 0].tolist()),
        signal=nets[:, 0],
        ground=nets[:, 1],
        resistance_ohm=resistance,
        wire_ohm=np.nan_to_num(wires, nan=0.0),
    )
