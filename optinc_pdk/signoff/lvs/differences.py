"""Differences between a reference circuit and an extracted circuit whose devices are matched."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import GridRule
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract import Fault
from optinc_pdk.signoff.lvs._device_matching import IndexedCircuit, Matching, Permutation, match

PHASE_SHIFTER = "phase_shifter"
# A phase shifter is symmetric: a straight guide under a rectangular heater.
SYMMETRIC: Mapping[str, tuple[Permutation, ...]] = {PHASE_SHIFTER: ((0, 1), (1, 0))}
GROUND_PREFIX = "GND"
# Resistances that a reference may state, and their relative tolerance, which covers the rounding in files.
STATED, STATED_TOLERANCE = ("resistance_ohm", "wire_ohm"), 1e-3
EXTRACTION = "extraction."
"""Prefix of the kinds of differences that are faults of the extraction."""
SAME_PLACE_UM = 2.0
"""Distance of two positions of one device; damage moves the middle of its silicon."""
# Number of names of a group that a message lists.
NAMES = 8
# Reference devices on one net, each with its pin; both ends of a heater count as pin 0.
Members = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Difference:
    """One difference between layout and reference.

    Attributes:
        kind: ``"extraction.<kind of fault>"``, ``"label"``, ``"guide_width"``, ``"open_guide"``, ``"short"``,
            ``"open"``, ``"device"``, ``"net"``, ``"heater"``, ``"pin"``, ``"parameter"``, ``"gap"``,
            ``"coupled_length"``, ``"path_difference"``, ``"guide_length"``, ``"length"``, ``"arms"`` or ``"lengths"``.
        message: Description of the difference.
        reference: Names in the reference; empty if it has no counterpart.
        extracted: Names in the extracted circuit; empty if it has no counterpart.
        position_um: Position in the layout; None if no extracted device is near.
    """

    kind: str
    message: str
    reference: str
    extracted: str
    position_um: tuple[float, float] | None


@dataclass(frozen=True)
class MatchedCircuits:
    """A flat reference circuit and a flat extracted circuit, with the map between them.

    Attributes:
        ref: Reference circuit.
        ext: Extracted circuit.
        map: Map from the reference to the extracted circuit.
        process: Process of both.
    """

    ref: IndexedCircuit
    ext: IndexedCircuit
    map: Matching
    process: Process

    @cached_property
    def ref_names(self) -> list[str]:
        """Names of all ports of the reference, as ``"instance,port"``."""
        return _port_names(self.ref.circuit)

    @cached_property
    def ext_names(self) -> list[str]:
        """Names of all ports of the extracted circuit, as ``"instance,port"``."""
        return _port_names(self.ext.circuit)

    @cached_property
    def origin(self) -> Ints:
        """(extracted ports,) reference port of each extracted port, -1 if there is none."""
        origin = np.full(int(self.ext.offset[-1]), UNCONNECTED, dtype=np.int64)
        mapped = np.flatnonzero(self.map.port != UNCONNECTED)
        origin[self.map.port[mapped]] = mapped
        return origin

    @cached_property
    def shifters(self) -> list[tuple[int, int]]:
        """Pairs (reference instance, extracted instance) of all matched phase shifters."""
        instances = self.ref.circuit.instances_of(PHASE_SHIFTER).tolist()
        return [(i, int(self.map.device[i])) for i in instances if self.map.device[i] != UNCONNECTED]

    @cached_property
    def unstated(self) -> frozenset[int]:
        """Phase shifters of a drawn reference with neither end on a net: its netlist does not state their wires.

        gdsfactory draws electrical routes as polygons, which are missing in the netlists that it writes.
        """
        if not self.ref.circuit.net_length_um.size:
            return frozenset()
        return frozenset(i for i, _ in self.shifters if set(self.ref.nets(i)) == {UNCONNECTED})

    @cached_property
    def miswired(self) -> list[tuple[int, int]]:
        """Pairs of matched phase shifters whose pads differ; swapped ends count as equal, as polarity has no effect."""
        stated = [(i, j) for i, j in self.shifters if i not in self.unstated]
        return [(i, j) for i, j in stated if not _same_wiring(self.ref.pads(i), self.ext.pads(j))]

    @cached_property
    def mispinned(self) -> list[tuple[int, int]]:
        """Pairs of matched photodiodes and modulators whose pads differ; their pins cannot be swapped."""
        mapped = [(i, int(j)) for i, j in enumerate(self.map.device.tolist()) if j != UNCONNECTED]
        kinds = self.ref.circuit.kinds
        electro_optic = {kind.name for kind in kinds if kind.optical and kind.electrical and kind.name != PHASE_SHIFTER}
        pinned = [(i, j) for i, j in mapped if self.ref.kind[i] in electro_optic]
        return [(i, j) for i, j in pinned if not _in_order(_by_pin(self.ref, i), _by_pin(self.ext, j))]

    def position(self, instance: int) -> tuple[float, float] | None:
        """Return the position of an extracted instance in µm; None for instance -1."""
        if instance == UNCONNECTED:
            return None
        x, y = self.ext.circuit.position_um[instance].tolist()
        return x, y

    @cached_property
    def placements(self) -> Floats:
        """(reference instances, 2) positions in µm that the netlist states, NaN where it states none."""
        stated, count = self.ref.circuit.position_um, len(self.ref.kind)
        return stated if len(stated) else np.full((count, 2), np.nan)

    def placed_at(self, position: tuple[float, float] | None) -> str:
        """Return the name of the instance that the netlist places at a position; empty if there is none."""
        if position is None or not len(self.placements):
            return ""
        distance = np.hypot(*(self.placements - position).T)
        distance[np.isnan(distance)] = np.inf
        nearest = int(np.argmin(distance))
        return self.ref.circuit.instances[nearest] if distance[nearest] <= SAME_PLACE_UM else ""

    def near(self, instance: int) -> tuple[float, float] | None:
        """Return where a reference instance is in the layout, or where it should be.

        Returns:
            x and y in µm of its extracted counterpart, else of its placement in the netlist, else of the counterpart of
            one of its neighbours; None if there is none of these.
        """
        x, y = self.placements[instance].tolist()
        if self.map.device[instance] == UNCONNECTED and not math.isnan(x):
            return x, y
        ports = range(int(self.ref.offset[instance]), int(self.ref.offset[instance + 1]))
        beyond = [int(self.ref.partner[port]) for port in ports]
        around = [instance, *(int(self.ref.owner[port]) for port in beyond if port != UNCONNECTED)]
        candidates = (int(self.map.device[i]) for i in around)
        return self.position(next((j for j in candidates if j != UNCONNECTED), UNCONNECTED))


def match_circuits(
    reference: Circuit, extracted: Circuit, process: Process, symmetry: Mapping[str, Sequence[Permutation]]
) -> MatchedCircuits:
    """Match the devices of a flat reference circuit and a flat extracted circuit.

    Args:
        symmetry: By device name, the permutations of optical ports that map the device onto itself.
    """
    both = {**symmetry, **SYMMETRIC}
    ref, ext = IndexedCircuit(reference, both), IndexedCircuit(extracted, both)
    return MatchedCircuits(ref, ext, match(ref, ext), process)


def _port_names(circuit: Circuit) -> list[str]:
    pairs = zip(circuit.instances, circuit.kind.tolist(), strict=True)
    return [f"{name},{port}" for name, kind in pairs for port in circuit.kinds[kind].ports]


def extraction_faults(pair: MatchedCircuits, faults: Sequence[Fault]) -> Iterator[Difference]:
    """Yield a difference for each shape or label of the layout that extraction could not assign to the circuit.

    If a shape is almost a device, the difference names the nearest unmatched reference instance of that device, else
    the instance that the netlist places there.
    """
    unmatched = np.flatnonzero(pair.map.device == UNCONNECTED).tolist()
    for fault in faults:
        nearest = ""
        if fault.device:
            near = [(i, pair.near(i)) for i in unmatched if pair.ref.kind[i] == fault.device]
            distances = [(math.dist(fault.position_um, at), i) for i, at in near if at is not None]
            nearest = pair.ref.circuit.instances[min(distances)[1]] if distances else ""
        nearest = nearest or pair.placed_at(fault.position_um)
        yield Difference(f"{EXTRACTION}{fault.kind}", fault.message, nearest, fault.device, fault.position_um)


def labels(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each label of a fibre or pad that one circuit lacks, or that is on different ports."""
    for label, port in pair.ref.circuit.ports.items():
        if label not in pair.ext.circuit.ports:
            text = f"label {label!r} is not in the layout"
            yield Difference("label", text, pair.ref_names[port], "", pair.near(int(pair.ref.owner[port])))
    for label, port in pair.ext.circuit.ports.items():
        where = pair.position(int(pair.ext.owner[port]))
        if label not in pair.ref.circuit.ports:
            text = f"label {label!r} is not in the reference"
            yield Difference("label", text, "", pair.ext_names[port], where)
        elif pair.origin[port] != pair.ref.circuit.ports[label]:
            expected = pair.ref_names[pair.ref.circuit.ports[label]]
            text = f"label {label!r} is on {pair.ext_names[port]}, which is not {expected}"
            yield Difference("label", text, expected, pair.ext_names[port], where)


def devices(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each device of one circuit that has no counterpart in the other."""
    for i in np.flatnonzero(pair.map.device == UNCONNECTED).tolist():
        text = f"{pair.ref.kind[i]} of the reference is not in the layout, or is connected differently there"
        yield Difference("device", text, pair.ref.circuit.instances[i], "", pair.near(i))
    for j in np.flatnonzero(pair.map.back == UNCONNECTED).tolist():
        text = f"{pair.ext.kind[j]} of the layout is not in the reference, or is connected differently there"
        where = pair.position(j)
        if name := pair.placed_at(where):
            text += f"; the netlist places {name!r} here"
        yield Difference("device", text, name, pair.ext.circuit.instances[j], where)


def nets(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each matched optical port that is connected to another port than in the reference."""
    image, light, leads = pair.map.port, pair.ref.circuit.optical_mask(), pair.ref.partner
    ports = np.flatnonzero((image != UNCONNECTED) & light)
    expected = np.where(leads != UNCONNECTED, image[leads], UNCONNECTED)[ports]
    actual = pair.ext.partner[image[ports]]
    same = (actual == expected) & ((leads[ports] == UNCONNECTED) == (actual == UNCONNECTED))
    for p in ports[~same].tolist():
        q, reference_end = int(image[p]), int(leads[p])
        layout_end = int(pair.ext.partner[q])
        to = pair.ref_names[reference_end] if reference_end != UNCONNECTED else "nothing"
        found = pair.ext_names[layout_end] if layout_end != UNCONNECTED else "nothing"
        same_as = ""
        if layout_end != UNCONNECTED and pair.origin[layout_end] != UNCONNECTED:
            same_as = f", which is {pair.ref_names[pair.origin[layout_end]]}"
        text = f"{pair.ref_names[p]} leads to {to}; in the layout {pair.ext_names[q]} leads to {found}{same_as}"
        where = pair.position(int(pair.ext.owner[q]))
        yield Difference("net", text, f"{pair.ref_names[p]} - {to}", f"{pair.ext_names[q]} - {found}", where)


def wires(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each net of one circuit whose pads are on several nets in the other (open or short)."""
    for here, there, kind, text in (
        (pair.ref, pair.ext, "open", "are joined in the reference, not in the layout"),
        (pair.ext, pair.ref, "short", "are joined in the layout, not in the reference"),
    ):
        home = {label: net for net, names in there.labels.items() for label in names}
        for names in here.labels.values():
            groups: dict[int, str] = {}
            for label in names:
                if label in home:
                    groups.setdefault(home[label], label)
            if len(groups) > 1:
                listed = ", ".join(list(groups.values())[:NAMES])
                odd = pair.ext.circuit.ports[list(groups.values())[-1]]
                where = pair.position(int(pair.ext.owner[odd]))
                sides = (listed, "") if kind == "open" else ("", listed)
                yield Difference(kind, f"pads {listed} {text}", *sides, where)


def heaters(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each matched phase shifter that is wired to other pads than in the reference."""
    if not pair.miswired:
        return
    owner = {
        labels[0]: i
        for i in pair.ref.circuit.instances_of(PHASE_SHIFTER).tolist()
        for labels in pair.ref.pads(i)
        if len(labels) == 1
    }
    for i, j in pair.miswired:
        expected, found = pair.ref.pads(i), pair.ext.pads(j)
        text = f"heater is wired to {_pad_names(found)} instead of {_pad_names(expected)}"
        others = [owner[label] for labels in found for label in labels if owner.get(label, i) != i]
        if others:
            text += f", the pad of {', '.join(pair.ref.circuit.instances[o] for o in others[:NAMES])}"
        names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
        yield Difference("heater", text, *names, pair.position(j))


def pins(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each matched photodiode or modulator that is wired to other pads, or with swapped pins."""
    for i, j in pair.mispinned:
        expected, found = _pad_names(_by_pin(pair.ref, i)), _pad_names(_by_pin(pair.ext, j))
        text = f"{pair.ref.kind[i]} is wired to {found} instead of {expected}"
        names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
        yield Difference("pin", text, *names, pair.position(j))


def _by_pin(side: IndexedCircuit, instance: int) -> list[tuple[str, ...]]:
    """Pad labels on the net of each electrical port, in the ports' order."""
    return [side.labels.get(net, ()) for net in side.nets(instance)]


def _same_wiring(expected: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]]) -> bool:
    """Whether nets correspond in one order or the other."""
    return _in_order(expected, found) or _in_order(expected, found[::-1])


def _in_order(expected: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]]) -> bool:
    """Whether nets share a pad label one by one; ``wires`` reports pads that are on different nets."""
    return len(expected) == len(found) and all(
        a == b or not set(a).isdisjoint(b) for a, b in zip(expected, found, strict=True)
    )


def _pad_names(pads: Sequence[tuple[str, ...]]) -> str:
    """Names of nets by their pads, with all grounds under one name."""
    nets = []
    for names in pads:
        short = sorted({GROUND_PREFIX if name.startswith(GROUND_PREFIX) else name for name in names})
        nets.append("+".join(short[:NAMES]) or "no pad")
    return " and ".join(nets)


def grid_um(process: Process) -> float:
    """Return the step of a process's grid in µm."""
    return next(float(rule.value_um) for rule in process.rules if isinstance(rule, GridRule))


def parameters(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each heater with another length, width or resistance than in the reference.

    If the reference states no length or width, those of the device card apply; resistances are compared only if the
    reference states them. Heaters have edges parallel to the axes and on the grid, so lengths are exact; half a grid
    step covers rounding.
    """
    half_step = grid_um(pair.process) / 2
    card = pair.process.device(PHASE_SHIFTER)
    for key in ("length_um", "heater_width_um"):
        standard, column = card.size(key), pair.ref.circuit.settings.get(key)
        for i, j in pair.shifters:
            stated = np.nan if column is None else float(column[i])
            expected = standard if math.isnan(stated) else stated
            found = float(pair.ext.circuit.settings[key][j])
            if abs(found - expected) > half_step:
                text = f"{key} is {found:.3f}, in the reference {expected:.3f}"
                names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
                yield Difference("parameter", text, *names, pair.position(j))
    for key in STATED:
        column = pair.ref.circuit.settings.get(key)
        if column is None:
            continue
        for i, j in pair.shifters:
            expected, found = float(column[i]), float(pair.ext.circuit.settings[key][j])
            if abs(found - expected) > STATED_TOLERANCE * abs(expected):
                text = f"{key} is {found:.3f}, in the reference {expected:.3f}"
                names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
                yield Difference("parameter", text, *names, pair.position(j))


def matched_nets(pair: MatchedCircuits) -> int:
    """Count the nets, optical and electrical, that are the same in both circuits."""
    ends = pair.map.port[pair.ref.circuit.nets]
    ends = ends[np.all(ends != UNCONNECTED, axis=1)]
    light = int(np.sum(pair.ext.partner[ends[:, 0]] == ends[:, 1]))
    wrong: set[int] = set()
    for i, _ in (*pair.miswired, *pair.mispinned):
        wrong |= set(pair.ref.nets(i))
    extracted = set(pair.ext.labels.values())
    return light + sum(names in extracted and net not in wrong for net, names in pair.ref.labels.items())


def nets_without_pad(pair: MatchedCircuits) -> Iterator[Difference]:
    """Yield a difference for each net without a pad that joins other devices than in the reference.

    Both circuits have the same nets, up to swapped heater ends, if and only if every set of devices is joined by the
    same number of nets in both.
    """
    # devices wired to other pads are reported by other checks
    reported = {i for i, _ in (*pair.miswired, *pair.mispinned)} | pair.unstated
    here = np.where(pair.map.device == UNCONNECTED, UNCONNECTED, np.arange(len(pair.ref.kind)))
    expected = _nets(pair.ref, here, reported)
    found = _nets(pair.ext, pair.map.back, reported)
    for missing, kind, first, second in (
        (expected - found, "open", "reference", "layout"),
        (found - expected, "short", "layout", "reference"),
    ):
        for members in sorted(missing.elements()):
            names = ", ".join(_name(pair.ref, *member) for member in members[:NAMES])
            text = f"metal without a pad joins {names} in the {first}; no net of the {second} joins exactly these"
            sides = (names, "") if kind == "open" else ("", names)
            yield Difference(kind, text, *sides, pair.position(int(pair.map.device[members[-1][0]])))


def _nets(side: IndexedCircuit, origin: Ints, reported: set[int]) -> Counter[Members]:
    """Number of nets without a pad by the devices that they join.

    Args:
        side: Circuit.
        origin: Reference instance of each of its instances, -1 if there is none.
        reported: Reference instances whose nets are left out.
    """
    net = side.circuit.electrical
    ports = np.flatnonzero((net != UNCONNECTED) & ~np.isin(net, list(side.labels)))
    order = ports[np.argsort(net[ports], kind="stable")]
    nets: Counter[Members] = Counter()
    for members in np.split(order, np.flatnonzero(np.diff(net[order])) + 1):
        here = [side.local(port) for port in members.tolist()]
        devices = [int(origin[i]) for i, _ in here]
        # a device that the other side does not have is reported by another check
        if len(here) > 1 and UNCONNECTED not in devices and reported.isdisjoint(devices):
            pins = [0 if side.kind[i] == PHASE_SHIFTER else pin for i, pin in here]
            nets[tuple(sorted(zip(devices, pins, strict=True)))] += 1
    return nets


def _name(side: IndexedCircuit, instance: int, pin: int) -> str:
    name = side.circuit.instances[instance]
    if side.kind[instance] == PHASE_SHIFTER:
        return name
    return f"{name},{side.circuit.kinds[side.circuit.kind[instance]].ports[pin]}"
