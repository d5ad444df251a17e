"""Matching of reference and extracted devices: a walk along the optical nets from the labelled fibres.

Every optical net has two ends, so a device reached at one port is identified, and so are its other ports, up to
the device's symmetry. The walk takes one step per port.

Without common labels, every device gets a colour: its kind and pads at first, then in every round also the colours of
its neighbours (colour refinement, Weisfeiler and Leman, Nauchno-Techn. Inform. 2(9), 12 (1968)). Devices whose colour
occurs once in each circuit correspond to each other.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit import UNCONNECTED, Circuit

Permutation = tuple[int, ...]
ROUNDS = 64
"""Rounds of the refinement, and so the largest distance in devices at which a difference distinguishes two devices."""


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


class Surroundings:
    """Colours of the devices of a reference circuit and an extracted circuit after every round."""

    def __init__(self, reference: IndexedCircuit, extracted: IndexedCircuit) -> None:
        """Refine the colours of both circuits together, so that equal colours mean equal surroundings."""
        self._reference, self._extracted = reference, extracted
        self._rounds = _colours(reference, extracted)

    def pairs(self, device: list[int], back: list[int]) -> Iterator[tuple[int, int]]:
        """Yield pairs of optical devices (reference, extracted) of the same surroundings that are not mapped yet.

        Pairs whose surroundings are the same up to the largest distance come first. If several devices have the same
        colour in all rounds, such as the branches of a symmetric circuit, one pair of them is yielded at a time.

        Args:
            device: Extracted device of each reference device, -1 for none; the caller extends it between two pairs.
            back: Reference device of each extracted device, -1 for none; likewise.
        """
        for colours, others in reversed(self._rounds):
            yield from _unique(colours, others, device, back)
        while (pair := _ambiguous(*self._rounds[-1], device, back)) is not None:
            yield pair
            if device[pair[0]] == UNCONNECTED:
                return

    def agreement(self, port: int, other: int) -> int:
        """Return the number of rounds in which the devices beyond a reference port and an extracted port agree."""
        beyond, found = self._reference.partners[port], self._extracted.partners[other]
        if UNCONNECTED in (beyond, found):
            return 0
        i, j = self._reference.owners[beyond], self._extracted.owners[found]
        return sum(colours[i] == others[j] for colours, others in self._rounds)


def _colours(reference: IndexedCircuit, extracted: IndexedCircuit) -> list[tuple[list[int], list[int]]]:
    """Return the colours of the devices of both circuits after every round; devices without light have -1."""
    names: dict[object, int] = {}
    sides = (reference, extracted)
    colours = [
        [
            names.setdefault((kind, side.pads(i)), len(names)) if side.optical[i] else UNCONNECTED
            for i, kind in enumerate(side.kind)
        ]
        for side in sides
    ]
    rounds = [(colours[0], colours[1])]
    classes = len(names)
    for _ in range(ROUNDS):
        names = {}
        colours = [
            [
                names.setdefault((mine, _surroundings(side, before, i)), len(names)) if mine >= 0 else UNCONNECTED
                for i, mine in enumerate(before)
            ]
            for side, before in zip(sides, colours, strict=True)
        ]
        if len(names) <= classes:
            break
        classes = len(names)
        rounds.append((colours[0], colours[1]))
    return rounds


def _surroundings(side: IndexedCircuit, colours: list[int], instance: int) -> tuple[object, ...]:
    """Return the colours and ports of a device's neighbours in the least order that its symmetries allow."""
    start = side.starts[instance]
    around: list[tuple[int, int]] = []
    for number in range(side.optical[instance]):
        beyond = side.partners[start + number]
        if beyond == UNCONNECTED:
            around.append((UNCONNECTED, UNCONNECTED))
            continue
        other, entered = side.local(beyond)
        orbit = min(permutation[entered] for permutation in side.symmetry[side.kind[other]])
        around.append((colours[other], orbit))
    return min(tuple(around[p] for p in permutation) for permutation in side.symmetry[side.kind[instance]])


def _unique(colours: list[int], others: list[int], device: list[int], back: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the unmapped pairs of a colour that occurs once in each circuit."""
    here, there = _by_colour(colours), _by_colour(others)
    for colour, members in here.items():
        matches = there.get(colour, [])
        if len(members) == len(matches) == 1 and device[members[0]] == back[matches[0]] == UNCONNECTED:
            yield members[0], matches[0]


def _ambiguous(colours: list[int], others: list[int], device: list[int], back: list[int]) -> tuple[int, int] | None:
    """Return one of several unmapped pairs of the same colour."""
    free = {colour: j for j, colour in enumerate(others) if back[j] == UNCONNECTED and colour >= 0}
    pairs = (
        (i, free[colour])
        for i, colour in enumerate(colours)
        if colour >= 0 and device[i] == UNCONNECTED and colour in free
    )
    return next(pairs, None)


def _by_colour(colours: list[int]) -> dict[int, list[int]]:
    """Return the devices of every colour."""
    found: dict[int, list[int]] = {}
    for i, colour in enumerate(colours):
        if colour >= 0:
            found.setdefault(colour, []).append(i)
    return found
