"""A second opinion on small circuits: the same comparison by KLayout's own ``NetlistComparer``.

It shares nothing with our walk along the light: both circuits become KLayout netlists, in which optical and electrical
ports alike are terminals, and its graph matching judges them. Every label is a device of a class of its own on the net
of its port, so that labels are fixed even where several share a net, of which pins would keep one name.

KLayout knows terminals that can be swapped one by one, but not that a coupler's two sides can be swapped only
together. So a device stands there once for each of its symmetries, its optical terminals on the nets of the ports that
the symmetry makes of them: what maps these copies onto each other is exactly what maps the device onto itself. The ends
of a heater can be swapped one by one.

It compares devices, what light and current join, and labels. It sees no lengths, widths or other parameters, no faults
of the extraction such as silicon that is no device, and no positions; our LVS does. Equal meshes of 16 modes take it
0.1 s, unequal ones without labels may take it minutes, or end in an internal error of its own: then there is no second
opinion, which is no match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, Kind, flatten
from optinc_pdk.extract.golden import symmetries
from optinc_pdk.signoff.lvs_checks import PHASE_SHIFTER, SYMMETRIC
from optinc_pdk.signoff.lvs_match import Permutation

# Mismatches told; more have few causes.
TOLD = 20


@dataclass(frozen=True)
class Opinion:
    """What KLayout says.

    Attributes:
        match: Whether it takes the circuits as the same.
        mismatches: What it could not match, by instance names, at most 20.
        failure: Why it says nothing, where it could not finish.
    """

    match: bool
    mismatches: tuple[str, ...]
    failure: str = ""

    def __str__(self) -> str:
        """The opinion in a line."""
        if self.failure:
            return f"no second opinion: {self.failure}"
        told = ": no counterpart to " + ", ".join(self.mismatches) if self.mismatches else ""
        return f"KLayout's netlist comparer: {'match' if self.match else 'NO match'}{told}"


def second_opinion(reference: Circuit, extracted: Circuit, process: Process) -> Opinion:
    """Compare a reference circuit with an extracted one.

    Args:
        reference: Circuit that should be, with or without hierarchy.
        extracted: Circuit that is, flat.
        process: Gives the devices' symmetries.

    Raises:
        NetlistError: The reference's cells contain each other.
        CardError: A golden device cannot be used.
    """
    symmetry = {**symmetries(process), **SYMMETRIC}
    log = _Log()
    comparer = kdb.NetlistComparer(log)
    both = _netlist(flatten(reference), symmetry), _netlist(extracted, symmetry)
    try:
        same = comparer.compare(*both)
    except RuntimeError as fault:
        # KLayout's internal errors
        return Opinion(False, (), f"KLayout's netlist comparer failed: {fault}")
    return Opinion(bool(same), tuple(dict.fromkeys(log.told))[:TOLD])


class _Log(kdb.GenericNetlistCompareLogger):
    """Notes devices that have no counterpart."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def device_mismatch(self, a: kdb.Device | None, b: kdb.Device | None, _message: str) -> None:
        """A device of one side, or of both, that has no counterpart."""
        if a is not None:
            self.told.append(f"{a.expanded_name()} of the reference")
        if b is not None:
            self.told.append(f"{b.expanded_name()} of the layout")


def _netlist(circuit: Circuit, symmetry: Mapping[str, Sequence[Permutation]]) -> kdb.Netlist:
    """A flat circuit for KLayout."""
    netlist = kdb.Netlist()
    top = kdb.Circuit()
    # both sides' circuits are compared by name
    top.name = "CHIP"
    netlist.add(top)
    nets = _nets(circuit, top)
    ways = {kind.name: _symmetry(kind, symmetry) for kind in circuit.kinds}
    classes = {kind.name: _device_class(netlist, kind, ways[kind.name][1]) for kind in circuit.kinds}
    for number, (name, index) in enumerate(zip(circuit.instances, circuit.kind.tolist(), strict=True)):
        kind, first = circuit.kinds[index], int(circuit.offset[number])
        light = len(kind.optical)
        for permutation in ways[kind.name][0]:
            device = top.create_device(classes[kind.name], name)
            for terminal, port in enumerate([*permutation, *range(light, len(kind.ports))]):
                device.connect_terminal(terminal, nets[first + port])
    for label, port in circuit.ports.items():
        # KLayout walks from net to net through a device, so one of a single net would be no mark
        mark = top.create_device(_device_class(netlist, Kind(f"label {label}", ("at", "name")), ()), label)
        mark.connect_terminal(0, nets[port])
        mark.connect_terminal(1, top.create_net(label))
    return netlist


def _symmetry(
    kind: Kind, symmetry: Mapping[str, Sequence[Permutation]]
) -> tuple[Sequence[Permutation], Sequence[tuple[int, int]]]:
    """The copies that a device needs, and pairs of terminals that can be swapped alone."""
    light = len(kind.optical)
    identity = tuple(range(light))
    group = symmetry.get(kind.name, (identity,))
    orbits = {frozenset(permutation[port] for permutation in group) for port in identity}
    ends = [(light, light + 1)] if kind.name == PHASE_SHIFTER else []
    if len(group) == math.prod(math.factorial(len(orbit)) for orbit in orbits):
        return (identity,), ends + [(min(orbit), port) for orbit in orbits for port in orbit if port > min(orbit)]
    return group, ends


def _device_class(netlist: kdb.Netlist, kind: Kind, alike: Sequence[tuple[int, int]]) -> kdb.DeviceClass:
    """A class of devices with a terminal per port, of which some pairs are alike."""
    made = kdb.DeviceClass()
    made.name = kind.name
    for port in kind.ports:
        made.add_terminal(kdb.DeviceTerminalDefinition(port, ""))
    for one, other in alike:
        made.equivalent_terminal_id(other, one)
    netlist.add(made)
    return made


def _nets(circuit: Circuit, top: kdb.Circuit) -> list[kdb.Net]:
    """The net of every port; one of its own where nothing else is joined to it."""
    count = int(circuit.offset[-1])
    number = np.arange(count)
    number[circuit.nets[:, 1]] = circuit.nets[:, 0]
    wired = circuit.electrical != UNCONNECTED
    number[wired] = count + circuit.electrical[wired]
    made = {net: top.create_net(str(net)) for net in np.unique(number).tolist()}
    return [made[net] for net in number.tolist()]
