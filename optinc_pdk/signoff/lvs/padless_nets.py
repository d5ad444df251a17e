"""Electrical nets without a pad, which are identified by the devices on them only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.signoff.lvs.device_matching import IndexedCircuit
from optinc_pdk.signoff.lvs.differences import NAMES, PHASE_SHIFTER, Difference, MatchedCircuits

# Reference devices on one net, each with its pin; both ends of a heater count as pin 0.
Members = tuple[tuple[int, int], ...]


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
