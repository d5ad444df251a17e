"""Wiring of a written layout: its heaters, the pads that drive them, the metal of their grounds, and its faults."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import klayout.db as kdb
import numpy as np
from scipy.sparse import coo_array, csr_array

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import Bias
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.extract import Extraction
from optinc_pdk.extract.faults import Fault, center_um
from optinc_pdk.extract.layout_reader import refusing_geometry
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout, read_mask_layout
from optinc_pdk.extract.metal_nets import BUMP, LabelledPad, MetalNets, is_ground
from optinc_pdk.extract.phase_shifters import DrawnHeaters, ExtractedHeater, HeaterWiring
from optinc_pdk.extract.polygons import PolygonIndex, region_polygons
from optinc_pdk.signoff.electrical._resistive_sheet import ResistiveSheet
from optinc_pdk.signoff.layout_faults import LayoutFault, layout_faults_of

Point = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Wiring:
    """Wiring of a layout with n heaters.

    Attributes:
        mask: Polygons and labels of the layout.
        process: Process of the layout.
        metal: Nets of the layout's metal.
        pads: Labelled pads.
        heaters: The n heaters.
        labels: For each heater, label of the first pad that drives it; empty for a heater without a pad.
        signal: (n,) net of each heater's signal end.
        ground: (n,) net of each heater's ground end.
        resistance_ohm: (n,) resistance of each heater in Ω.
        wire_ohm: (n,) resistance in Ω of each heater's wire; 0 unless the wire leads from one pad to this heater only.
        faults: Faults of heaters, pads, labels on metal, vias, wires and bumps.
    """

    mask: MaskLayout
    process: Process
    metal: MetalNets
    pads: Sequence[LabelledPad]
    heaters: Sequence[ExtractedHeater]
    labels: tuple[str, ...]
    signal: Ints
    ground: Ints
    resistance_ohm: Floats
    wire_ohm: Floats
    faults: Sequence[Fault]

    @cached_property
    def ends_nm(self) -> Ints:
        """(n, 2, 2) x and y in nm of the contact at each heater's signal end, then at its ground end."""
        ends = np.array([(end.x, end.y) for heater in self.heaters for end in heater.contacts], dtype=np.int64)
        ends = ends.reshape(-1, 2, 2)
        swapped = self.metal.contacts_at(ends[:, 0]) != self.signal
        return np.where(swapped[:, np.newaxis, np.newaxis], ends[:, ::-1], ends)

    @cached_property
    def entries(self) -> tuple[Ints, Ints]:
        """(k, 2) points in nm where current enters the metal of the grounds, and (k,) the heater it comes from."""
        heaters = np.arange(len(self.heaters))
        stack = self.process.contact
        if not stack.vias:
            return self.ends_nm[:, 1], heaters
        # current enters through the topmost vias that lie over a contact
        vias = [via.bbox().center() for via in region_polygons(self.mask.region(stack.vias[-1]).merged())]
        middles = np.array([(via.x, via.y) for via in vias], dtype=np.int64).reshape(-1, 2)
        finder = PolygonIndex(polygon for _, polygon in self.metal.pieces(-2))
        over, contact = finder.at(middles), finder.at(self.ends_nm[:, 1])
        order = np.argsort(over, kind="stable")
        first, last = (np.searchsorted(over[order], contact, side) for side in ("left", "right"))
        count = last - first
        via = np.repeat(first, count) + np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        return middles[order[via]], np.repeat(heaters, count)

    @cached_property
    def sheets(self) -> Mapping[int, ResistiveSheet]:
        """Resistive sheet of each ground, by net number.

        A sheet is held at 0 V at its labelled pads and, on a flip chip, at every bump.

        Raises:
            RangeError: The metal of a ground has too many corners.
        """
        grounds = sorted({pad.net for pad in self.pads if is_ground(pad.label)})
        sinks: dict[int, list[kdb.Box]] = {net: [] for net in grounds}
        half = round(float(self.process.pads.size_um) * NM_PER_UM / 2)
        for pad in self.pads:
            x, y = (round(place) for place in pad.center)
            sinks.get(pad.net, []).append(kdb.Box(x - half, y - half, x + half, y + half))
        if self.process.pads.wiring == "flipchip":
            bumps = [bump.bbox() for bump in region_polygons(self.mask.region(BUMP).merged())]
            middles = np.array([(b.center().x, b.center().y) for b in bumps], dtype=np.int64).reshape(-1, 2)
            for bump, net in zip(bumps, self.metal.nets_at(middles).tolist(), strict=True):
                sinks.get(net, []).append(bump)
        shapes: dict[int, list[kdb.Polygon]] = {net: [] for net in grounds}
        for net, polygon in self.metal.pieces(-1):
            shapes.get(net, []).append(polygon)
        ohm = float(self.process.metal.sheet_ohm)
        sheets = {}
        for net in grounds:
            try:
                sheets[net] = ResistiveSheet.of(shapes[net], sinks[net], ohm)
            except RangeError as fault:
                label = next(pad.label for pad in self.pads if pad.net == net)
                raise RangeError(f"ground {label}: {fault}") from fault
        return sheets

    @cached_property
    def _inflow(self) -> Mapping[int, tuple[Ints, csr_array]]:
        """Where currents enter, by net of the ground: (cells, 2) column and row, and (cells, n) shares of heaters."""
        points, heater = self.entries
        count = np.bincount(heater, minlength=len(self.heaters))
        inflow = {}
        for net, sheet in self.sheets.items():
            here = self.ground[heater] == net
            cells, part = sheet.entries(points[here])
            found, cell = np.unique(cells @ np.array([sheet.share.shape[1], 1]), return_inverse=True)
            entered = np.broadcast_to(heater[here], part.shape)
            share = coo_array(
                ((part / count[entered]).ravel(), (cell.ravel(), entered.ravel())), (len(found), len(self.heaters))
            )
            inflow[net] = np.stack(np.divmod(found, sheet.share.shape[1]), axis=1), share.tocsr()
        return inflow

    def voltages(self, net: int, current_a: Floats) -> Floats:
        """Compute the voltages on the sheet of a ground.

        Args:
            net: Net number of the ground.
            current_a: (n,) current of each heater in A.

        Returns:
            (columns, rows) voltages in V of the cells of the sheet.
        """
        cells, share = self._inflow[net]
        return self.sheets[net].voltages(cells, share @ current_a)

    def rise_v(self, current_a: Floats) -> Floats:
        """Compute the ground rise of every heater.

        Args:
            current_a: (n,) current of each heater in A.

        Returns:
            (n,) voltage in V of each heater's ground end above the ground pads: the mean over the cells that its
            current enters, weighted by their shares.
        """
        rise = np.zeros(len(self.heaters))
        for net, (cells, share) in self._inflow.items():
            rise += share.T @ self.voltages(net, current_a)[tuple(cells.T)]
        return rise

    @property
    def common_ground(self) -> SharedGround:
        """Ground rise as a function of heater currents, both by channel label instead of by heater."""
        first = {label: i for i, label in reversed(list(enumerate(self.labels))) if label}
        labels, place = tuple(first), np.array(list(first.values()), dtype=np.int64)

        def rise(current_a: Floats) -> Floats:
            of_heaters = np.zeros(len(self.heaters))
            of_heaters[place] = current_a
            return self.rise_v(of_heaters)[place]

        return SharedGround(labels, rise)


@refusing_geometry
def read_wiring(gds_path: str | Path, process: Process) -> Wiring:
    """Read the wiring of a layout file, from its polygons and labels only.

    Raises:
        GdsError: The file cannot be used.
    """
    mask = read_mask_layout(gds_path, process.gds_layers)
    return _wiring(DrawnHeaters.of(mask, process).wired(mask.labels("label"), process), process)


def wiring_of(extraction: Extraction, process: Process) -> Wiring:
    """Return the wiring of a layout that is already extracted, without reading the layout again.

    Args:
        extraction: Result of the extraction.

    Raises:
        ValueError: The extraction has no metal, because it was not made from a layout.
    """
    if extraction.heater_wiring is None:
        raise ValueError(f"{extraction.circuit.name}: this extraction has no metal; extract the layout with extract()")
    return _wiring(extraction.heater_wiring, process)


def _wiring(wired: HeaterWiring, process: Process) -> Wiring:
    driven = {pad.net: pad.label for pad in reversed(wired.pads) if not is_ground(pad.label)}
    nets = np.array(wired.ends, dtype=np.int64).reshape(-1, 2)
    columns = [[device.settings[key] for device in wired.devices] for key in ("resistance_ohm", "wire_ohm")]
    resistance, wires = (np.array(column, dtype=np.float64) for column in columns)
    return Wiring(
        mask=wired.mask,
        process=process,
        metal=wired.metal,
        pads=wired.pads,
        heaters=wired.heaters,
        labels=tuple(driven.get(net, "") for net in nets[:, 0].tolist()),
        signal=nets[:, 0],
        ground=nets[:, 1],
        resistance_ohm=resistance,
        wire_ohm=np.nan_to_num(wires, nan=0.0),
        faults=wired.faults,
    )


def wiring_faults(wiring: Wiring, bias: Bias) -> tuple[LayoutFault, ...]:
    """List what is wrong with the wiring of a layout, alone and for the channels of a bias.

    Args:
        wiring: Wiring of the layout.
        bias: Bias of its heaters.

    Returns:
        Faults of heaters, pads, labels, vias and wires; then heaters that no pad or no ground drives, pads that drive
        several heaters, channels without a heater, and heaters without a channel.
    """
    return (*layout_faults_of(wiring.faults), *connection_faults(wiring, bias))


def connection_faults(wiring: Wiring, bias: Bias) -> tuple[LayoutFault, ...]:
    """List the faults of :func:`wiring_faults` that are not faults of the extraction."""
    return (*_undriven(wiring), *_shared(wiring), *_channels(wiring, bias))


def _undriven(wiring: Wiring) -> Iterator[LayoutFault]:
    """Heaters whose signal end is on no labelled pad, or whose ground end is on no ground pad."""
    grounds = {pad.net for pad in wiring.pads if is_ground(pad.label)}
    signal, ground = wiring.signal.tolist(), wiring.ground.tolist()
    open_signal = [i for i, label in enumerate(wiring.labels) if not label and signal[i] != ground[i]]
    open_ground = [i for i, net in enumerate(ground) if net not in grounds and signal[i] != net]
    pads = _pads_without_label(wiring, {signal[i] for i in open_signal} | {ground[i] for i in open_ground})
    for i in open_signal:
        yield _open(wiring, i, "no labelled pad drives this heater", "label it", pads.get(signal[i]))
    for i in open_ground:
        name = wiring.labels[i] or "a heater without channel"
        text = f"the heater of {name} is connected to no ground pad"
        yield _open(wiring, i, text, "label it as a ground, GND…", pads.get(ground[i]))


def _open(wiring: Wiring, heater: int, text: str, label: str, pad: Point | None) -> LayoutFault:
    if pad is not None:
        text = f"{text}: its pad at ({pad[0]:.3f}, {pad[1]:.3f}) µm has no label; {label}"
        return LayoutFault("pad_without_label", text, _place(wiring, heater))
    return LayoutFault("open_wire", f"{text}: its wire is cut, or leads to no pad; connect it", _place(wiring, heater))


def _pads_without_label(wiring: Wiring, nets: Collection[int]) -> dict[int, Point]:
    """Centre in µm of metal as wide as a pad, without a label, on each of some nets that has such metal."""
    if not nets:
        return {}
    # 1 nm less, so that metal exactly as wide as a pad is not removed
    shrink = round(float(wiring.process.pads.size_um) * NM_PER_UM) // 2 - 1
    found: dict[int, Point] = {}
    labelled = {pad.net for pad in wiring.pads}
    for net, polygon in wiring.metal.pieces(-1):
        if net in nets and net not in labelled and net not in found:
            for square in region_polygons(kdb.Region(polygon).sized(-shrink).sized(shrink)):
                found[net] = center_um(square.bbox())
    return found


def _shared(wiring: Wiring) -> Iterator[LayoutFault]:
    """Pads that drive more than one heater."""
    heaters: dict[str, list[int]] = defaultdict(list)
    for i, label in enumerate(wiring.labels):
        if label:
            heaters[label].append(i)
    for label, several in heaters.items():
        if len(several) > 1:
            places = ", ".join("({:.3f}, {:.3f})".format(*_place(wiring, i)) for i in several[:3])
            text = f"channel {label!r} drives {len(several)} heaters, at {places} µm; give each a pad of its own"
            yield LayoutFault("shared_wire", text, _place(wiring, several[0]))


def _channels(wiring: Wiring, bias: Bias) -> Iterator[LayoutFault]:
    """Channels of the bias without a heater, and heaters whose pad is no channel of the bias."""
    pads = {pad.label: pad for pad in wiring.pads}
    for label in sorted(set(bias.labels) - set(wiring.labels)):
        at = pads[label].device.position_um if label in pads else None
        reason = "its pad is connected to no heater" if label in pads else "no pad has this label"
        text = f"the bias drives channel {label!r}, but {reason}; repair the layout, or give the bias of this layout"
        yield LayoutFault("channel_without_heater", text, at)
    for label in sorted(set(wiring.labels) - {"", *bias.labels}):
        text = f"the bias lacks channel {label!r}, whose pad drives a heater; give the bias of this layout"
        yield LayoutFault("heater_without_channel", text, _place(wiring, wiring.labels.index(label)))


def _place(wiring: Wiring, heater: int) -> Point:
    """Centre of a heater in µm."""
    x, y = np.mean(wiring.ends_nm[heater], axis=0).tolist()
    return x / NM_PER_UM, y / NM_PER_UM
