"""Electrical nets: connected metal, labelled pads and bumps, pins of devices, and resistances of wires and vias."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.device_recognition import DevicePlacement, ExtractedDevice
from optinc_pdk.extract.faults import Fault, center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM, Label, MaskLayout, label_positions
from optinc_pdk.extract.polygons import NOT_FOUND, Contours, PolygonIndex, box_array, contours, region_polygons

GROUND_PREFIX = "GND"
PAD = "pad"


@dataclass(frozen=True)
class LabelledPad:
    """A labelled pad.

    Attributes:
        label: Text of its label.
        net: Number of its metal net, see :class:`MetalNets`.
        center: Centre (x, y) in nm; the position of the label if the metal is not exactly one pad.
    """

    label: str
    net: int
    center: tuple[float, float]

    @property
    def device(self) -> ExtractedDevice:
        """The pad as an extracted device without optical ports."""
        return ExtractedDevice(PAD, self.center, np.zeros((0, 2, 2), dtype=np.int64), ())


class MetalNets:
    """Metal nets of a layout: groups of metal shapes that touch on a layer or are connected by vias.

    Every net has a number; -1 stands for "no net".

    Attributes:
        contacts: Merged shapes of the metal that contacts heaters; where vias connect it with heaters, only its parts
            over heaters with a via.
        wires: Merged shapes of the metal of wires and pads; equal to ``contacts`` in a process with one metal.
        faults: One fault for each via that is not completely on both of the layers that it connects.
    """

    def __init__(self, mask: MaskLayout, process: Process) -> None:
        """Merge the metals of a layout and find its nets."""
        stack = process.contact
        regions = [_metal(mask, layer) for layer in stack.metals]
        pieces = [(layer, polygon) for layer, region in enumerate(regions) for polygon in region_polygons(region)]
        corners = box_array(polygon.bbox() for _, polygon in pieces)[:, :2]
        pieces = [pieces[n] for n in _by_corner(corners, [(polygon, layer) for layer, polygon in pieces])]
        self.contacts, self.wires = regions[0], regions[-1]
        self.faults: list[Fault] = []
        if stack.heater_via is not None:
            vias, heater = mask.region(stack.heater_via), mask.region("heater").merged()
            self.faults += _not_all_on(vias, stack.heater_via, {"heater": heater, stack.metals[0]: regions[0]})
            self.contacts = (regions[0] & heater).merged().interacting(vias)
        self._numbers = [
            [n for n, (number, _) in enumerate(pieces) if number == layer] for layer in range(len(regions))
        ]
        self._indexes = [PolygonIndex(pieces[n][1] for n in numbers) for numbers in self._numbers]
        pairs: list[tuple[int, int]] = []
        for layer, name in enumerate(stack.vias):
            pairs += self._join(layer, mask.region(name), regions, stack.layers[2 * layer : 2 * layer + 3])
        self._net = component_labels(len(pieces), *np.array(pairs, dtype=np.int64).reshape(-1, 2).T)
        self._pieces = [polygon for _, polygon in pieces]
        self._via_siemens = self._via_conductance(mask, process) if stack.vias else np.zeros(len(pieces))
        self._wire_area = np.zeros(len(pieces))
        for n in self._numbers[-1]:
            self._wire_area[self._net[n]] += pieces[n][1].area() / NM_PER_UM**2

    def _join(
        self, layer: int, vias: kdb.Region, regions: Sequence[kdb.Region], names: Sequence[str]
    ) -> list[tuple[int, int]]:
        """Return pairs of metal pieces that vias join; add a fault for every via that is not all on both."""
        below, above = regions[layer : layer + 2]
        self.faults += _not_all_on(vias, names[1], {names[0]: below, names[2]: above})
        overlaps = region_polygons((below & above).overlapping(vias))
        at = np.array([inner_point(overlap) for overlap in overlaps], dtype=np.int64).reshape(-1, 2)
        both = zip(self._pieces_at(layer, at).tolist(), self._pieces_at(layer + 1, at).tolist(), strict=True)
        return [pair for pair in both if NOT_FOUND not in pair]

    def _pieces_at(self, layer: int, points: Ints) -> Ints:
        """Return the number (n,) of the metal piece at each point (n, 2), -1 where there is none."""
        local = self._indexes[layer].at(points)
        numbers = np.array([*self._numbers[layer], NOT_FOUND], dtype=np.int64)
        return numbers[local]

    def _nets_at(self, layer: int, points: Ints) -> Ints:
        """Return the net (n,) at each point (n, 2) on one of the metals, -1 where there is none."""
        return np.append(self._net, NOT_FOUND)[self._pieces_at(layer, points)]

    def nets_at(self, points: Ints) -> Ints:
        """Return the net (n,) of the wire or pad at each point (n, 2) in nm, -1 for a point without such metal."""
        return self._nets_at(-1, points)

    def contacts_at(self, points: Ints) -> Ints:
        """Return the net (n,) of the heater contact at each point (n, 2) in nm, -1 for a point without one."""
        return self._nets_at(0, points)

    def _via_conductance(self, mask: MaskLayout, process: Process) -> Floats:
        """Return the conductance in S of the vias on each piece of the lowest metal, infinite if none is stated."""
        conductance = np.zeros(len(self._pieces))
        vias = region_polygons(mask.region(process.contact.vias[0]).merged())
        middles = np.array([inner_point(via) for via in vias], dtype=np.int64).reshape(-1, 2)
        piece = self._pieces_at(0, middles)
        ohm = None if process.contact.via is None else process.contact.via.ohm_um2
        area = np.array([via.area() for via in vias], dtype=np.float64) / NM_PER_UM**2
        np.add.at(conductance, piece[piece >= 0], (area / float(ohm) if ohm else area * np.inf)[piece >= 0])
        return conductance

    def via_ohm(self, points: Ints) -> Floats:
        """Return the resistance (n,) in Ω of the vias of heater contacts to the next metal, given points (n, 2).

        All vias on the metal shape of a contact count as connected in parallel. The resistance is 0 in a process with
        one metal, if the process card states no via resistance, and for a contact without vias.
        """
        if not np.any(self._via_siemens):
            return np.zeros(len(points))
        piece = self._pieces_at(0, points)
        conductance = np.append(self._via_siemens, 0.0)[piece]
        with np.errstate(divide="ignore"):
            return np.where(conductance > 0, 1.0 / conductance, 0.0)

    def pieces(self, layer: int) -> list[tuple[int, kdb.Polygon]]:
        """Return net number and polygon of every merged shape of a metal: 0 for contacts, -1 for wires."""
        return [(int(self._net[n]), self._pieces[n]) for n in self._numbers[layer]]

    def wire_area_um2(self, nets: Ints) -> Floats:
        """Return the total area (n,) in µm² of wires and pads of each net, given its number."""
        return self._wire_area[nets]


def _metal(mask: MaskLayout, layer: str) -> kdb.Region:
    """Return the merged shapes of a metal; shapes that touch in a corner only stay apart, as no current flows there."""
    region = mask.region(layer)
    region.min_coherence = True
    merged = region.merged()
    merged.min_coherence = True
    return merged


def _not_all_on(vias: kdb.Region, name: str, layers: Mapping[str, kdb.Region]) -> list[Fault]:
    """Return a fault for every via of a layer that is not completely on each of several other layers, by name."""
    faults: list[Fault] = []
    for other, shapes in layers.items():
        # comparing with whole wires around corners is slow, so only their parts near vias are used
        near = (shapes & vias.sized(1)).merged()
        text = f"a shape on layer {name} is not all on layer {other}"
        faults += [Fault("via", text, center_um(via.bbox())) for via in region_polygons(vias.merged().not_inside(near))]
    return faults


def _by_corner(corners: Ints, pieces: Sequence[tuple[kdb.Polygon, int]]) -> list[int]:
    """Return the order of metal pieces by the lower left corners (n, 2) of their boxes, then by points and layer."""
    _, place, shared = np.unique(corners, axis=0, return_inverse=True, return_counts=True)
    order: list[int] = np.argsort(place, kind="stable").tolist()
    if np.all(shared == 1):
        return order
    at: list[int] = place.tolist()
    return sorted(order, key=lambda n: (at[n], str(pieces[n][0]), pieces[n][1]))


def inner_point(polygon: kdb.Polygon) -> tuple[int, int]:
    """Return a point inside a polygon: the centre of a box, or of the largest convex part of another polygon."""
    box = polygon.bbox()
    if not polygon.is_box():
        largest = max(polygon.decompose_convex(), key=lambda part: part.area())
        corners = np.array([(p.x, p.y) for p in largest.each_point()])
        x, y = np.rint(corners.mean(axis=0)).astype(int).tolist()
        return x, y
    return box.center().x, box.center().y


def shrunk(metal: kdb.Region, size: int) -> kdb.Region:
    """Return metal shrunk on every side by ``size`` database units.

    Metal narrower than twice the size vanishes. The result is that of ``metal.sized(-size)``, but comes sooner where
    many wires vanish: most of them are left out first, by their bounding boxes and by shrinking by less. KLayout
    shrinks a thin ring by more than its width in a time that grows with the square of its corners.
    """
    metal = metal.with_bbox_min(2 * size, None, False)
    for part in (16, 4):
        metal = metal.interacting(metal.sized(-(size // part)))
    return metal.sized(-size)


def find_pads(metal: MetalNets, labels: Sequence[Label], size_nm: int) -> tuple[list[LabelledPad], list[Fault]]:
    """Find the pads: places where a label lies on metal at least as wide and as high as a pad of side ``size_nm``.

    A label that is not on metal, such as the chip's name, is ignored. Labels are sorted by text, without those on fibre
    couplers.

    Returns:
        The pads, in the order of the labels, and the faults: labels on metal narrower than a pad, labels that occur
        twice, and pads on the same net (unless both are ground pads).
    """
    # 1 nm less, so that metal exactly as wide as a pad is not removed
    shrink = size_nm // 2 - 1
    squares = region_polygons(shrunk(metal.wires, shrink).sized(shrink).merged())
    index = PolygonIndex(squares)
    pads: list[LabelledPad] = []
    faults: list[Fault] = []
    by_net: dict[int, LabelledPad] = {}
    points = label_positions(labels)
    nets, under = metal.nets_at(points).tolist(), index.at(points).tolist()
    boxes = box_array(square.bbox() for square in squares)
    middles = ((boxes[:, :2] + boxes[:, 2:]) / 2).tolist()
    full = np.all(boxes[:, 2:] - boxes[:, :2] == size_nm, axis=1)
    alone = [whole and square.is_box() for whole, square in zip(full.tolist(), squares, strict=True)]
    for label, net, square in zip(labels, nets, under, strict=True):
        if net == NOT_FOUND:
            continue
        if square == NOT_FOUND:
            text = f"label {label.text!r} lies on metal narrower than a pad, {size_nm / NM_PER_UM:g} µm"
            faults.append(Fault("label", text, label.position_um))
            continue
        x, y = middles[square]
        pad = LabelledPad(label.text, net, (x, y) if alone[square] else (label.x, label.y))
        faults += _conflicts(pad, by_net.get(net), pads)
        by_net[net] = pad
        pads.append(pad)
    return pads, faults


def _conflicts(pad: LabelledPad, other: LabelledPad | None, pads: Sequence[LabelledPad]) -> list[Fault]:
    """Return faults for a label that is used twice and for a short circuit with another pad of the net."""
    at = pad.device.position_um
    faults = []
    if pads and pads[-1].label == pad.label:
        x, y = pads[-1].device.position_um
        text = f"pad label {pad.label!r} is used twice, here and at ({x:.3f}, {y:.3f}) µm; give every pad its own label"
        if pads[-1].center == pad.center:
            text = f"pad label {pad.label!r} is used twice on one pad; delete one"
        faults.append(Fault("label", text, at))
    joined = other is not None and (other.label, other.center) != (pad.label, pad.center)
    if other is not None and joined and not (is_ground(pad.label) and is_ground(other.label)):
        x, y = other.device.position_um
        text = f"pads {other.label!r} at ({x:.3f}, {y:.3f}) µm and {pad.label!r} are joined in metal; separate them"
        faults.append(Fault("short", text, at))
    return faults


def is_ground(label: str) -> bool:
    """Return whether a pad label names a ground pad, which means that it starts with ``GND``."""
    return label.startswith(GROUND_PREFIX)


def estimate_wires_ohm(metal: MetalNets, nets: Ints, alone: Bools, process: Process) -> Floats:
    """Estimate the resistance in Ω of each wire that connects one pad to one heater contact, given its net (n,).

    The estimate is sheet resistance × length / width. The length is the area of the net outside pad and contact,
    divided by the nominal width. A corner therefore counts as a full square, about half a square too much, and a part
    that is wider than nominal increases the estimate although it lowers the real resistance. It is NaN where ``alone``
    (n,), whether a net joins exactly one pad and one heater, is false.
    """
    contact = process.device("phase_shifter").size("contact_width_um")
    area_um2 = metal.wire_area_um2(nets) - float(process.pads.size_um) ** 2 - contact**2
    ohm = float(process.metal.sheet_ohm) * np.maximum(area_um2, 0.0) / float(process.metal.wire_width_um) ** 2
    return np.where(alone, ohm, np.nan)


BUMP = "bump"
# Rounding the corners of an octagon to the grid moves each of its sides by less than 1 nm.
_ROUNDING_NM = 1


def check_bumps(mask: MaskLayout, pads: Sequence[LabelledPad], process: Process) -> list[Fault]:
    """Return a fault for every bump opening that is no octagon of the card's size, and every pad without an opening.

    Processes without flip-chip wiring have no bumps.
    """
    if process.pads.wiring != "flipchip":
        return []
    size = round(process.device(BUMP).size("opening_um") * NM_PER_UM)
    openings = region_polygons(mask.region(BUMP).merged())
    text = f"an opening is no octagon {size / NM_PER_UM:g} µm wide, as a bump's is"
    # equal openings are checked once
    corners = box_array(opening.bbox() for opening in openings)[:, :2].tolist()
    at_origin = [opening.moved(-x, -y) for opening, (x, y) in zip(openings, corners, strict=True)]
    distinct = list(dict.fromkeys(at_origin))
    wrong = set(itertools.compress(distinct, ~_octagons(contours(distinct), size)))
    faults = [
        Fault("bump", text, center_um(o.bbox())) for o, shape in zip(openings, at_origin, strict=True) if shape in wrong
    ]
    index = PolygonIndex(openings)
    middles = np.array([(round(x), round(y)) for x, y in (pad.center for pad in pads)], dtype=np.int64).reshape(-1, 2)
    for pad, number in zip(pads, index.at(middles).tolist(), strict=True):
        if number == NOT_FOUND:
            text = f"no opening on the landing of {pad.label!r}"
            faults.append(Fault("bump", text, pad.device.position_um))
    return faults


def _octagons(outline: Contours, size: int) -> Bools:
    """Return (C,) whether each polygon is a regular octagon of width ``size`` across its flats, within rounding."""
    octagon: Bools = np.diff(outline.first) == 8
    edges = outline.first[:-1][octagon][:, np.newaxis] + np.arange(8)
    wide = np.all(np.ptp(outline.points[edges], axis=1) == size, axis=1)
    legs = np.hypot(*np.moveaxis(outline.ends[edges] - outline.points[edges], -1, 0))
    equilateral = np.all(np.abs(np.rint(legs) - size * math.tan(math.pi / 8)) <= 2 * _ROUNDING_NM, axis=1)
    octagon[octagon] = wide & equilateral
    return octagon


def connect_pins(
    placements: Sequence[DevicePlacement], metal: MetalNets, process: Process
) -> tuple[list[tuple[int, ...]], list[Fault]]:
    """Find the metal net at each electrical pin of recognised devices.

    Returns:
        For each device, the numbers of the nets of its pins in the order of ``ports.electrical`` of its card, -1 for
        none. And the faults: one ``pin`` for each pin without metal, and one ``short`` for each pin on the net of an
        earlier pin of its device, so that two joined pins are one fault.
    """
    points = np.array([(pin.x, pin.y) for placement in placements for pin in placement.pins], dtype=np.int64)
    under = iter(metal.nets_at(points.reshape(-1, 2)).tolist())
    connected: list[tuple[int, ...]] = []
    faults: list[Fault] = []
    for placement in placements:
        kind = placement.variant.name
        nets: dict[int, str] = {}
        pin_nets: list[int] = []
        for name, at in zip(process.device(kind).ports.electrical, placement.pins, strict=True):
            net = next(under)
            place = at.x / NM_PER_UM, at.y / NM_PER_UM
            if net == NOT_FOUND:
                faults.append(Fault("pin", f"no metal at pin {name} of a {kind}", place))
            elif net in nets:
                faults.append(Fault("short", f"pins {nets[net]} and {name} of a {kind} are joined in metal", place))
            else:
                nets[net] = name
            pin_nets.append(UNCONNECTED if net == NOT_FOUND else net)
        connected.append(tuple(pin_nets))
    return connected, faults
