"""Metal without any pad: nets known by the devices on them alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.signoff.lvs_checks import NAMES, PHASE_SHIFTER, Difference, Pair
from optinc_pdk.signoff.lvs_match import Ints, Side

# Devices of the reference on one net, each with its pin; a heater's ends are alike.
Members = tuple[tuple[int, int], ...]


def padless(pair: Pair) -> Iterator[Difference]:
    """Metal without a pad that joins other devices than in the reference.

    Nets correspond one to one, heaters turned around or not, exactly when as many nets of each side have the same
    devices on them: a heater's two nets are then those that have it.
    """
    # what is wired to other pads is told already
    told = {i for i, _ in (*pair.miswired, *pair.mispinned)}
    here = np.where(pair.map.device == UNCONNECTED, UNCONNECTED, np.arange(len(pair.ref.kind)))
    wanted = _nets(pair.ref, here, told)
    found = _nets(pair.ext, pair.map.back, told)
    for lacking, kind, own, other in (
        (wanted - found, "open", "reference", "layout"),
        (found - wanted, "short", "layout", "reference"),
    ):
        for members in sorted(lacking.elements()):
            names = ", ".join(_name(pair.ref, *member) for member in members[:NAMES])
            text = f"metal without a pad joins {names} in the {own}; in the {other} none joins just these"
            sides = (names, "") if kind == "open" else ("", names)
            yield Difference(kind, text, *sides, pair.position(int(pair.map.device[members[-1][0]])))


def _nets(side: Side, origin: Ints, told: set[int]) -> Counter[Members]:
    """How many nets without a pad join the same devices, by these; ``origin`` gives the reference's devices."""
    net = side.circuit.electrical
    ports = np.flatnonzero((net != UNCONNECTED) & ~np.isin(net, list(side.labels)))
    order = ports[np.argsort(net[ports], kind="stable")]
    nets: Counter[Members] = Counter()
    for own in np.split(order, np.flatnonzero(np.diff(net[order])) + 1):
        here = [side.local(port) for port in own.tolist()]
        devices = [int(origin[i]) for i, _ in here]
        # a device that the other side lacks is told already
        if len(here) > 1 and UNCONNECTED not in devices and told.isdisjoint(devices):
            pins = [0 if side.kind[i] == PHASE_SHIFTER else pin for i, pin in here]
            nets[tuple(sorted(zip(devices, pins, strict=True)))] += 1
    return nets


def _name(side: Side, instance: int, pin: int) -> str:
    name = side.circuit.instances[instance]
    if side.kind[instance] == PHASE_SHIFTER:
        return name
    return f"{name},{side.circuit.kinds[side.circuit.kind[instance]].ports[pin]}"
