"""Differences between a reference circuit and an extracted one, once their devices are matched."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import GridRule
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.extract import Fault
from optinc_pdk.signoff.lvs_match import Ints, Matching, Permutation, Side, match

PHASE_SHIFTER = "phase_shifter"
# A straight guide under a rectangle of metal reads the same from both ends.
SYMMETRIC: Mapping[str, tuple[Permutation, ...]] = {PHASE_SHIFTER: ((0, 1), (1, 0))}
GROUND_PREFIX = "GND"
# A reference's resistances, to what a file's decimals keep of them.
STATED, STATED_TOLERANCE = ("resistance_ohm", "wire_ohm"), 1e-3
# Names told of a group that is at odds.
NAMES = 8


@dataclass(frozen=True)
class Difference:
    """One difference.

    Attributes:
        kind: ``"extraction.<kind of fault>"``, ``"label"``, ``"short"``, ``"open"``, ``"device"``, ``"net"``,
            ``"heater"``, ``"pin"``, ``"parameter"``, ``"arms"`` or ``"lengths"``.
        message: What differs.
        reference: The reference's names, empty where it has nothing like it.
        extracted: The extracted names, empty where there is nothing like it.
        position_um: Where in the layout, None where the layout has nothing near it.
    """

    kind: str
    message: str
    reference: str
    extracted: str
    position_um: tuple[float, float] | None


@dataclass(frozen=True)
class Pair:
    """A flat reference and an extracted circuit with the map between them."""

    ref: Side
    ext: Side
    map: Matching
    process: Process

    @cached_property
    def ref_names(self) -> list[str]:
        """``"instance,port"`` of every port of the reference."""
        return _port_names(self.ref.circuit)

    @cached_property
    def ext_names(self) -> list[str]:
        """``"instance,port"`` of every extracted port."""
        return _port_names(self.ext.circuit)

    @cached_property
    def origin(self) -> Ints:
        """Reference port of each extracted port, -1 where there is none."""
        origin = np.full(int(self.ext.offset[-1]), UNCONNECTED, dtype=np.int64)
        mapped = np.flatnonzero(self.map.port != UNCONNECTED)
        origin[self.map.port[mapped]] = mapped
        return origin

    @cached_property
    def shifters(self) -> list[tuple[int, int]]:
        """Matched phase shifters."""
        found = self.ref.circuit.of_kind(PHASE_SHIFTER).tolist()
        return [(i, int(self.map.device[i])) for i in found if self.map.device[i] != UNCONNECTED]

    @cached_property
    def miswired(self) -> list[tuple[int, int]]:
        """Matched phase shifters whose pads differ; polarity makes no heat."""
        return [(i, j) for i, j in self.shifters if not _same_wiring(self.ref.pads(i), self.ext.pads(j))]

    @cached_property
    def mispinned(self) -> list[tuple[int, int]]:
        """Matched photodiodes and modulators whose pads differ; a heater's ends are alike, their pins are not."""
        mapped = [(i, int(j)) for i, j in enumerate(self.map.device.tolist()) if j != UNCONNECTED]
        kinds = self.ref.circuit.kinds
        light = {kind.name for kind in kinds if kind.optical and kind.electrical and kind.name != PHASE_SHIFTER}
        pinned = [(i, j) for i, j in mapped if self.ref.kind[i] in light]
        return [(i, j) for i, j in pinned if not _in_order(_by_pin(self.ref, i), _by_pin(self.ext, j))]

    def position(self, instance: int) -> tuple[float, float] | None:
        """Position of an extracted instance."""
        if instance == UNCONNECTED:
            return None
        x, y = self.ext.circuit.position_um[instance].tolist()
        return x, y

    def near(self, instance: int) -> tuple[float, float] | None:
        """Position of a reference instance, or of a neighbor where the layout lacks it."""
        ports = range(int(self.ref.offset[instance]), int(self.ref.offset[instance + 1]))
        beyond = [int(self.ref.partner[port]) for port in ports]
        around = [instance, *(int(self.ref.owner[port]) for port in beyond if port != UNCONNECTED)]
        found = (int(self.map.device[i]) for i in around)
        return self.position(next((j for j in found if j != UNCONNECTED), UNCONNECTED))


def pair(
    reference: Circuit, extracted: Circuit, process: Process, symmetry: Mapping[str, Sequence[Permutation]]
) -> Pair:
    """Match two flat circuits; ``symmetry`` holds the devices' symmetries."""
    both = {**symmetry, **SYMMETRIC}
    ref, ext = Side(reference, both), Side(extracted, both)
    return Pair(ref, ext, match(ref, ext), process)


def _port_names(circuit: Circuit) -> list[str]:
    pairs = zip(circuit.instances, circuit.kind.tolist(), strict=True)
    return [f"{name},{port}" for name, kind in pairs for port in circuit.kinds[kind].ports]


def faults(pair: Pair, found: Sequence[Fault]) -> Iterator[Difference]:
    """What the layout has that is no circuit; of what is nearly a device, with the reference's that it stands for."""
    lost = np.flatnonzero(pair.map.device == UNCONNECTED).tolist()
    for fault in found:
        meant = ""
        if fault.device:
            near = [(i, pair.near(i)) for i in lost if pair.ref.kind[i] == fault.device]
            ways = [(math.dist(fault.position_um, at), i) for i, at in near if at is not None]
            meant = pair.ref.circuit.instances[min(ways)[1]] if ways else ""
        yield Difference(f"extraction.{fault.kind}", fault.message, meant, fault.device, fault.position_um)


def labels(pair: Pair) -> Iterator[Difference]:
    """Fibre and pad labels that one side lacks."""
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
            wanted = pair.ref_names[pair.ref.circuit.ports[label]]
            text = f"label {label!r} is on {pair.ext_names[port]}, which is not {wanted}"
            yield Difference("label", text, wanted, pair.ext_names[port], where)


def devices(pair: Pair) -> Iterator[Difference]:
    """Devices that one side lacks."""
    for i in np.flatnonzero(pair.map.device == UNCONNECTED).tolist():
        text = f"{pair.ref.kind[i]} of the reference is not in the layout, or not where its light leads"
        yield Difference("device", text, pair.ref.circuit.instances[i], "", pair.near(i))
    for j in np.flatnonzero(pair.map.back == UNCONNECTED).tolist():
        text = f"{pair.ext.kind[j]} of the layout is not in the reference, or not where its light leads"
        yield Difference("device", text, "", pair.ext.circuit.instances[j], pair.position(j))


def nets(pair: Pair) -> Iterator[Difference]:
    """Optical nets that lead elsewhere, seen from their mapped ends."""
    image, light, leads = pair.map.port, pair.ref.circuit.optical_mask(), pair.ref.partner
    ports = np.flatnonzero((image != UNCONNECTED) & light)
    wanted = np.where(leads != UNCONNECTED, image[leads], UNCONNECTED)[ports]
    found_at = pair.ext.partner[image[ports]]
    same = (found_at == wanted) & ((leads[ports] == UNCONNECTED) == (found_at == UNCONNECTED))
    for p in ports[~same].tolist():
        q, goes = int(image[p]), int(leads[p])
        is_at = int(pair.ext.partner[q])
        to = pair.ref_names[goes] if goes != UNCONNECTED else "nothing"
        found = pair.ext_names[is_at] if is_at != UNCONNECTED else "nothing"
        meant = ""
        if is_at != UNCONNECTED and pair.origin[is_at] != UNCONNECTED:
            meant = f", which is {pair.ref_names[pair.origin[is_at]]}"
        text = f"{pair.ref_names[p]} leads to {to}; in the layout {pair.ext_names[q]} leads to {found}{meant}"
        where = pair.position(int(pair.ext.owner[q]))
        yield Difference("net", text, f"{pair.ref_names[p]} - {to}", f"{pair.ext_names[q]} - {found}", where)


def wires(pair: Pair) -> Iterator[Difference]:
    """Pads that are joined on one side only."""
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
                told = ", ".join(list(groups.values())[:NAMES])
                odd = pair.ext.circuit.ports[list(groups.values())[-1]]
                where = pair.position(int(pair.ext.owner[odd]))
                sides = (told, "") if kind == "open" else ("", told)
                yield Difference(kind, f"pads {told} {text}", *sides, where)


def heaters(pair: Pair) -> Iterator[Difference]:
    """Phase shifters that are tied to other pads."""
    if not pair.miswired:
        return
    owner = {
        labels[0]: i
        for i in pair.ref.circuit.of_kind(PHASE_SHIFTER).tolist()
        for labels in pair.ref.pads(i)
        if len(labels) == 1
    }
    for i, j in pair.miswired:
        wanted, found = pair.ref.pads(i), pair.ext.pads(j)
        text = f"heater is wired to {_told(found)} instead of {_told(wanted)}"
        others = [owner[label] for labels in found for label in labels if owner.get(label, i) != i]
        if others:
            text += f", the pad of {', '.join(pair.ref.circuit.instances[o] for o in others[:NAMES])}"
        names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
        yield Difference("heater", text, *names, pair.position(j))


def pins(pair: Pair) -> Iterator[Difference]:
    """Photodiodes and modulators that are tied to other pads, or the wrong way round."""
    for i, j in pair.mispinned:
        wanted, found = _told(_by_pin(pair.ref, i)), _told(_by_pin(pair.ext, j))
        text = f"{pair.ref.kind[i]} is wired to {found} instead of {wanted}"
        names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
        yield Difference("pin", text, *names, pair.position(j))


def _by_pin(side: Side, instance: int) -> list[tuple[str, ...]]:
    """Pad labels on the net of each electrical port, in the ports' order."""
    return [side.labels.get(net, ()) for net in side.nets(instance)]


def _same_wiring(wanted: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]]) -> bool:
    """Whether nets correspond in one order or the other."""
    return _in_order(wanted, found) or _in_order(wanted, found[::-1])


def _in_order(wanted: Sequence[tuple[str, ...]], found: Sequence[tuple[str, ...]]) -> bool:
    """Whether nets correspond one by one; which pads share a net is told elsewhere."""
    return len(wanted) == len(found) and all(
        a == b or not set(a).isdisjoint(b) for a, b in zip(wanted, found, strict=True)
    )


def _told(pads: Sequence[tuple[str, ...]]) -> str:
    """Nets by their pads, all grounds as one."""
    nets = []
    for names in pads:
        short = sorted({GROUND_PREFIX if name.startswith(GROUND_PREFIX) else name for name in names})
        nets.append("+".join(short[:NAMES]) or "no pad")
    return " and ".join(nets)


def parameters(pair: Pair) -> Iterator[Difference]:
    """Lengths and widths of heaters.

    Heaters are Manhattan and on the grid, so exact: half a grid step is what floating point may cost.
    """
    grid = next(float(rule.value_um) for rule in pair.process.rules if isinstance(rule, GridRule))
    card = pair.process.device(PHASE_SHIFTER)
    for key in ("length_um", "heater_width_um"):
        standard, column = card.size(key), pair.ref.circuit.settings.get(key)
        for i, j in pair.shifters:
            own = np.nan if column is None else float(column[i])
            wanted = standard if math.isnan(own) else own
            found = float(pair.ext.circuit.settings[key][j])
            if abs(found - wanted) > grid / 2:
                text = f"{key} is {found:.3f}, in the reference {wanted:.3f}"
                names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
                yield Difference("parameter", text, *names, pair.position(j))
    # resistances only where the reference states one
    for key in STATED:
        column = pair.ref.circuit.settings.get(key)
        if column is None:
            continue
        for i, j in pair.shifters:
            wanted, found = float(column[i]), float(pair.ext.circuit.settings[key][j])
            if abs(found - wanted) > STATED_TOLERANCE * abs(wanted):
                text = f"{key} is {found:.3f}, in the reference {wanted:.3f}"
                names = pair.ref.circuit.instances[i], pair.ext.circuit.instances[j]
                yield Difference("parameter", text, *names, pair.position(j))


def matched_nets(pair: Pair) -> int:
    """Number of nets, optical and electrical, that are the same on both sides."""
    ends = pair.map.port[pair.ref.circuit.nets]
    ends = ends[np.all(ends != UNCONNECTED, axis=1)]
    light = int(np.sum(pair.ext.partner[ends[:, 0]] == ends[:, 1]))
    wrong: set[int] = set()
    for i, _ in (*pair.miswired, *pair.mispinned):
        wrong |= set(pair.ref.nets(i))
    theirs = set(pair.ext.labels.values())
    return light + sum(names in theirs and net not in wrong for net, names in pair.ref.labels.items())
