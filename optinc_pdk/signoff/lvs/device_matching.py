"""Matching of reference and extracted devices: a walk along the optical nets from the labelled fibres.

Every optical net has two ends, so a device reached at one port is identified, and so are its other ports, up to
the device's symmetry. The walk takes one step per port.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit import UNCONNECTED, Circuit
from optinc_pdk.signoff.lvs.structure_matching import Surroundings

Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Matching:
    """A partial one-to-one map from a reference circuit with I devices and P ports to an extracted circuit.

    Attributes:
        device: (I,) extracted instance of each reference instance, -1 if there is none.
        port: (P,) extracted port of each reference port that is optical or a pad, -1 for other ports and if there is
            none.
        back: (extracted instances,) reference instance of each extracted instance, -1 if there is none.
    """

    device: Ints
    port: Ints
    back: Ints


class IndexedCircuit:
    """A flat circuit with I instances and P ports, indexed for the walk along its optical nets.

    Attributes:
        circuit: The circuit.
        offset: (I + 1,) number of the first port of each instance; the last entry is P.
        owner: (P,) instance of each port.
        partner: (P,) port at the other end of each port's optical net, -1 if there is none.
        labels: Pad labels by electrical net.
        kind: I device names.
        optical: I numbers of optical ports.
        symmetry: By device name, the permutations of optical ports that map the device onto itself.
        starts, owners, partners: `offset`, `owner` and `partner` as lists, which are faster to index.
        lengths: (P,) length of guide in µm at each optical port, NaN if it is unknown; empty if all are.
    """

    def __init__(self, circuit: Circuit, symmetry: Mapping[str, Sequence[Permutation]]) -> None:
        """Index a flat circuit; devices that are not in ``symmetry`` have the identity only."""
        self.circuit = circuit
        self.offset = circuit.offset
        self.owner = np.repeat(np.arange(len(circuit.instances)), np.diff(self.offset))
        # the walk reads single numbers, which is several times faster from lists than from arrays
        self.starts: list[int] = self.offset.tolist()
        self.owners: list[int] = self.owner.tolist()
        self.partner = circuit.partners()
        self.partners: list[int] = self.partner.tolist()
        self.lengths = _lengths(circuit)
        self.labels = circuit.electrical_labels()
        self.kind = [circuit.kinds[k].name for k in circuit.kind.tolist()]
        self.optical = [len(circuit.kinds[k].optical) for k in circuit.kind.tolist()]
        self.symmetry = {
            kind.name: tuple(symmetry.get(kind.name, (tuple(range(len(kind.optical))),))) for kind in circuit.kinds
        }

    def local(self, port: int) -> tuple[int, int]:
        """Return the instance of a port, and the port's number within the instance."""
        instance = self.owners[port]
        return instance, port - self.starts[instance]

    def nets(self, instance: int) -> list[int]:
        """Return the net of each electrical port of an instance, -1 for a port without a net."""
        first = int(self.offset[instance]) + self.optical[instance]
        nets: list[int] = self.circuit.electrical[first : int(self.offset[instance + 1])].tolist()
        return nets

    def pads(self, instance: int) -> tuple[tuple[str, ...], ...]:
        """Return the pad labels on the net of each electrical port of an instance.

        The nets are sorted by their labels, because a heater's ends can be swapped.
        """
        return tuple(sorted(self.labels.get(net, ()) for net in self.nets(instance)))

    def neighbour(self, port: int) -> tuple[object, ...]:
        """Return a key of the device connected to an optical port: its name, its port up to symmetry, and its pads.

        The key is empty if no device is connected.
        """
        beyond = self.partners[port]
        if beyond == UNCONNECTED:
            return ()
        instance, entered = self.local(beyond)
        orbit = min(permutation[entered] for permutation in self.symmetry[self.kind[instance]])
        return self.kind[instance], orbit, self.pads(instance)


def _lengths(circuit: Circuit) -> list[float]:
    """Return the length of guide in µm at each port, NaN if it is unknown; an empty list if all are."""
    if not circuit.net_length_um.size:
        return []
    lengths = np.full(int(circuit.offset[-1]), np.nan)
    lengths[circuit.nets] = circuit.net_length_um[:, None]
    listed: list[float] = lengths.tolist()
    return listed


class Walk:
    """Search that maps devices and ports along the optical nets of both circuits.

    Its state is the map so far, the symmetries in which each device can still be mapped, and the ports to visit.
    """

    def __init__(self, reference: IndexedCircuit, extracted: IndexedCircuit) -> None:
        """Start with no device mapped."""
        self.reference, self.extracted = reference, extracted
        self.device = [UNCONNECTED] * len(reference.kind)
        self.back = [UNCONNECTED] * len(extracted.kind)
        self.port = [UNCONNECTED] * int(reference.offset[-1])
        self.options: dict[int, list[Permutation]] = {}
        self.queue: deque[tuple[int, int]] = deque()
        self.landmarks_used = False
        self.surroundings: Surroundings | None = None

    def run(self) -> None:
        """Visit ports until none is left and every mapped device is mapped in exactly one way."""
        while True:
            while self.queue:
                self.arrive(*self.queue.popleft())
            ambiguous = next(iter(self.options), None)
            if ambiguous is None:
                return
            if self.landmarks_used:
                self.choose(ambiguous)
            else:
                # branches of a tree that no fibre distinguishes may end at different pads
                self.landmarks_used = True
                self.map_landmarks()

    def map_landmarks(self) -> None:
        """Map unmapped devices without symmetries, such as photodiodes, that have equal pad labels in both circuits."""
        for i, j in self.unmapped_labelled():
            if len(self.reference.symmetry[self.reference.kind[i]]) == 1:
                self.narrow(i, j, list(self.reference.symmetry[self.reference.kind[i]]))

    def arrive(self, port: int, other: int) -> None:
        """Map a reference port to an extracted port, unless this contradicts the map so far.

        Args:
            port: Number of the reference port.
            other: Number of the extracted port.
        """
        (i, a), (j, b) = self.reference.local(port), self.extracted.local(other)
        if self.device[i] == UNCONNECTED and self.back[j] == UNCONNECTED:
            kind = self.reference.kind[i]
            if kind == self.extracted.kind[j]:
                self.narrow(i, j, [p for p in self.reference.symmetry[kind] if p[a] == b])
        elif self.device[i] == j and i in self.options:
            self.narrow(i, j, [p for p in self.options[i] if p[a] == b])

    def narrow(self, i: int, j: int, options: list[Permutation]) -> None:
        """Map a device in one of several ways, and queue the nets of the ports that are the same in all of them.

        Args:
            i: Reference instance.
            j: Extracted instance.
            options: Permutations of optical ports that are possible; if it is empty, nothing is mapped.
        """
        if not options:
            return
        self.device[i], self.back[j] = j, i
        if len(options) > 1:
            self.options[i] = options
        else:
            self.options.pop(i, None)
        for number in range(self.reference.optical[i]):
            images = {option[number] for option in options}
            port = self.reference.starts[i] + number
            if len(images) > 1 or self.port[port] != UNCONNECTED:
                continue
            other = self.extracted.starts[j] + images.pop()
            self.port[port] = other
            beyond = self.reference.partners[port], self.extracted.partners[other]
            if UNCONNECTED not in beyond:
                self.queue.append(beyond)

    def choose(self, i: int) -> None:
        """Select one symmetry for a mapped device that still has several.

        It is the one that contradicts the map so far least often, of these the one for which most neighbours agree, and
        of these the one in which the guides are most nearly as long as the reference states: the arms of an
        interferometer between two splitters differ in nothing else.

        Args:
            i: Reference instance.
        """
        j = self.device[i]
        start, other = self.reference.starts[i], self.extracted.starts[j]
        expected = [self.reference.neighbour(start + number) for number in range(self.reference.optical[i])]
        actual = [self.extracted.neighbour(other + number) for number in range(self.extracted.optical[j])]

        def fit(option: Permutation) -> tuple[int, int, int, float]:
            pairs = list(enumerate(option))
            possible = sum(self._is_possible(i, option, number, image) for number, image in pairs)
            alike = sum(expected[number] == actual[image] for number, image in pairs)
            around = 0
            if self.surroundings is not None:
                around = sum(self.surroundings.agreement(start + a, other + b) for a, b in pairs)
            return possible, alike, around, -sum(self._length_error(start + a, other + b) for a, b in pairs)

        self.narrow(i, j, [max(self.options[i], key=fit)])

    def _length_error(self, port: int, image: int) -> float:
        """Return by how many µm the guides at two ports differ in length; 0 if a length is unknown."""
        if not self.reference.lengths or not self.extracted.lengths:
            return 0.0
        error = abs(self.reference.lengths[port] - self.extracted.lengths[image])
        return 0.0 if math.isnan(error) else error

    def _is_possible(self, i: int, option: Permutation, number: int, image: int) -> bool:
        """Return whether what lies beyond a port can be what lies beyond its image, given the map so far."""
        j = self.device[i]
        beyond = self.reference.partners[self.reference.starts[i] + number]
        other = self.extracted.partners[self.extracted.starts[j] + image]
        if UNCONNECTED in (beyond, other):
            return beyond == other
        (k, a), (m, b) = self.reference.local(beyond), self.extracted.local(other)
        if k == i:
            # a guide from the device to itself
            return m == j and option[a] == b
        if self.device[k] == UNCONNECTED:
            return self.back[m] == UNCONNECTED
        return self.device[k] == m and self.port[beyond] in (UNCONNECTED, other)

    def walk_unlabelled_parts(self) -> None:
        """Map parts of the circuit that no fibre reaches, starting at devices whose pads have the same labels."""
        for i, j in self.unmapped_labelled():
            self.narrow(i, j, list(self.reference.symmetry[self.reference.kind[i]]))
            self.run()

    def walk_by_structure(self) -> None:
        """Map the circuit from devices that are distinguished by their surroundings alone."""
        self.surroundings = Surroundings(self.reference, self.extracted)
        for i, j in self.surroundings.pairs(self.device, self.back):
            self.narrow(i, j, list(self.reference.symmetry[self.reference.kind[i]]))
            self.run()

    def unmapped_labelled(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of unmapped optical devices (reference, extracted) of the same kind with the same pad labels.

        Devices that are mapped while the iteration runs are skipped.
        """
        free = {
            labels: j
            for j, mapped in enumerate(self.back)
            if mapped == UNCONNECTED
            if any(labels := self.extracted.pads(j))
        }
        for i in [i for i, mapped in enumerate(self.device) if mapped == UNCONNECTED]:
            j = free.get(self.reference.pads(i), UNCONNECTED)
            if j == UNCONNECTED or self.device[i] != UNCONNECTED or self.back[j] != UNCONNECTED:
                continue
            if self.reference.kind[i] == self.extracted.kind[j] and self.reference.optical[i]:
                yield i, j


def match(reference: IndexedCircuit, extracted: IndexedCircuit) -> Matching:
    """Map a flat reference circuit to a flat extracted circuit.

    Args:
        reference: Reference circuit.
        extracted: Extracted circuit.

    Returns:
        The map; devices and ports that would contradict it are not mapped.
    """
    walk = Walk(reference, extracted)
    fibres = 0
    for label, port in reference.circuit.ports.items():
        other = extracted.circuit.ports.get(label)
        if other is None:
            continue
        i, j = reference.local(port)[0], extracted.local(other)[0]
        if reference.optical[i] and extracted.optical[j]:
            fibres += 1
            walk.arrive(port, other)
        elif reference.kind[i] == extracted.kind[j]:
            walk.device[i], walk.back[j], walk.port[port] = j, i, other
    walk.run()
    walk.walk_unlabelled_parts()
    if not fibres:
        # a schematic without placements names no fibre of the layout
        walk.walk_by_structure()
    return Matching(*(np.array(numbers, dtype=np.int64) for numbers in (walk.device, walk.port, walk.back)))
