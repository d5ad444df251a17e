"""Comparison of small circuits by KLayout's ``NetlistComparer``, as an independent check of LVS (second opinion).

It shares no code with the walk along the optical nets. Both circuits become KLayout netlists in which optical and
electrical ports are terminals, and KLayout matches the two graphs. Every label becomes a device of its own class on the
net of its port, so that all labels of a net are compared; a net of pins would keep one name only.

KLayout supports terminals that can be swapped independently, but not terminals that can only be swapped together, as
the two sides of a coupler. So a device has one copy for each of its symmetries, whose optical terminals are connected
to the permuted ports. The maps of these copies onto each other are then exactly the symmetries of the device. The ends
of a heater can be swapped independently.

It compares devices, optical and electrical nets, and labels. Unlike LVS, it does not check lengths, widths and other
parameters, faults of the extraction such as silicon that is not a device, or positions. Equal meshes of 16 modes take
0.1 s. Unequal ones without labels may take minutes or end in an internal error of KLayout; then there is no second
opinion, and the result is no match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, ComponentType, flatten
from optinc_pdk.extract.golden_devices import device_symmetries
from optinc_pdk.signoff.lvs._device_matching import Permutation
from optinc_pdk.signoff.lvs._lengths import coupler_symmetries
from optinc_pdk.signoff.lvs.comparison import LvsResult
from optinc_pdk.signoff.lvs.differences import PHASE_SHIFTER, SYMMETRIC

# Number of mismatches that are reported; more of them have few causes.
MAX_MISMATCHES = 20


@dataclass(frozen=True)
class ComparerResult:
    """Result of KLayout's netlist comparer.

    Attributes:
        match: Whether the circuits are the same.
        mismatches: Names of devices without a counterpart, at most 20.
        failure: Reason if the comparison did not finish, else empty.
    """

    match: bool
    mismatches: tuple[str, ...]
    failure: str = ""

    def __str__(self) -> str:
        """The result in one line."""
        if self.failure:
            return f"no second opinion: {self.failure}"
        unmatched = ": no counterpart to " + ", ".join(self.mismatches) if self.mismatches else ""
        return f"KLayout's netlist comparer: {'match' if self.match else 'no match'}{unmatched}"


def compare_with_klayout(
    reference: Circuit, extracted: Circuit, process: Process, lvs: LvsResult | None = None
) -> ComparerResult:
    """Compare a reference circuit with an extracted one by KLayout's netlist comparer.

    Args:
        reference: Reference circuit, with or without hierarchy.
        extracted: Extracted circuit, flat.
        process: Process with the devices' symmetries.
        lvs: Result of LVS, which states the heaters whose wires the reference does not state; these are left out on
            both sides. None to compare all wires.

    Raises:
        NetlistError: The reference's cells contain each other.
        CardError: A golden device cannot be used.
    """
    here = frozenset(() if lvs is None else lvs.unstated)
    there = frozenset(int(lvs.device_map[i]) for i in here) if lvs is not None else here
    symmetry = {**device_symmetries(process), **SYMMETRIC, **coupler_symmetries(process)}
    log = _Log()
    comparer = kdb.NetlistComparer(log)
    both = _netlist(flatten(reference), symmetry, here), _netlist(extracted, symmetry, there)
    try:
        same = comparer.compare(*both)
    except RuntimeError as fault:
        # an internal error of KLayout
        return ComparerResult(False, (), f"KLayout's netlist comparer failed: {fault}")
    return ComparerResult(bool(same), tuple(dict.fromkeys(log.unmatched))[:MAX_MISMATCHES])


class _Log(kdb.GenericNetlistCompareLogger):
    """Collects devices without a counterpart."""

    def __init__(self) -> None:
        super().__init__()
        self.unmatched: list[str] = []

    def device_mismatch(self, a: kdb.Device | None, b: kdb.Device | None, _message: str) -> None:
        """Record a device of one side, or one of each side, without a counterpart."""
        if a is not None:
            self.unmatched.append(f"{a.expanded_name()} of the reference")
        if b is not None:
            self.unmatched.append(f"{b.expanded_name()} of the layout")


def _netlist(circuit: Circuit, symmetry: Mapping[str, Sequence[Permutation]], unwired: frozenset[int]) -> kdb.Netlist:
    """A flat circuit as a KLayout netlist; instances in ``unwired`` are on no electrical net."""
    netlist = kdb.Netlist()
    top = kdb.Circuit()
    # KLayout compares circuits of equal names
    top.name = "CHIP"
    netlist.add(top)
    nets = _nets(circuit, top)
    copies = {kind.name: _symmetry(kind, symmetry) for kind in circuit.kinds}
    classes = {kind.name: _device_class(netlist, kind, copies[kind.name][1]) for kind in circuit.kinds}
    for number, (name, index) in enumerate(zip(circuit.instances, circuit.kind.tolist(), strict=True)):
        kind, first = circuit.kinds[index], int(circuit.offset[number])
        light = len(kind.optical)
        for permutation in copies[kind.name][0]:
            device = top.create_device(classes[kind.name], name)
            wired = range(light, light if number in unwired else len(kind.ports))
            for terminal, port in enumerate([*permutation, *wired]):
                device.connect_terminal(terminal, nets[first + port])
    for label, port in circuit.ports.items():
        # KLayout walks from net to net through a device, so a device on one net would have no effect
        mark = top.create_device(_device_class(netlist, ComponentType(f"label {label}", ("at", "name")), ()), label)
        mark.connect_terminal(0, nets[port])
        mark.connect_terminal(1, top.create_net(label))
    return netlist


def _symmetry(
    kind: ComponentType, symmetry: Mapping[str, Sequence[Permutation]]
) -> tuple[Sequence[Permutation], Sequence[tuple[int, int]]]:
    """The permutations for which a device needs a copy, and pairs of terminals that can be swapped independently."""
    light = len(kind.optical)
    identity = tuple(range(light))
    group = symmetry.get(kind.name, (identity,))
    orbits = {frozenset(permutation[port] for permutation in group) for port in identity}
    ends = [(light, light + 1)] if kind.name == PHASE_SHIFTER else []
    if len(group) == math.prod(math.factorial(len(orbit)) for orbit in orbits):
        return (identity,), ends + [(min(orbit), port) for orbit in orbits for port in orbit if port > min(orbit)]
    return group, ends


def _device_class(netlist: kdb.Netlist, kind: ComponentType, swappable: Sequence[tuple[int, int]]) -> kdb.DeviceClass:
    """A device class with a terminal per port, of which some pairs can be swapped."""
    device_class = kdb.DeviceClass()
    device_class.name = kind.name
    for port in kind.ports:
        device_class.add_terminal(kdb.DeviceTerminalDefinition(port, ""))
    for one, other in swappable:
        device_class.equivalent_terminal_id(other, one)
    netlist.add(device_class)
    return device_class


def _nets(circuit: Circuit, top: kdb.Circuit) -> list[kdb.Net]:
    """The net of every port; an unconnected port has a net of its own."""
    count = int(circuit.offset[-1])
    number = np.arange(count)
    number[circuit.nets[:, 1]] = circuit.nets[:, 0]
    wired = circuit.electrical != UNCONNECTED
    number[wired] = count + circuit.electrical[wired]
    nets = {net: top.create_net(str(net)) for net in np.unique(number).tolist()}
    return [nets[net] for net in number.tolist()]
