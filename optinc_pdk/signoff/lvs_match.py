"""Which reference device is which extracted one: a walk along the light from the labelled fibres.

Every optical net has two ends, so a device reached at one port is known, and so are its other ports, up to
the device's symmetry. The walk takes a step per port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.circuit import UNCONNECTED, Circuit

Ints = NDArray[np.int64]
Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Matching:
    """A partial one-to-one map of a reference circuit with I devices and P ports to an extracted one.

    Attributes:
        device: (I,) extracted instance of each reference instance, -1 where there is none.
        port: (P,) extracted port of each reference port, -1 where there is none; optical ports and pads.
        back: Reference instance of each extracted instance, -1 where there is none.
    """

    device: Ints
    port: Ints
    back: Ints


class Side:
    """One circuit, indexed for the walk."""

    def __init__(self, circuit: Circuit, symmetry: Mapping[str, Sequence[Permutation]]) -> None:
        """Index a flat circuit; a kind without symmetries has the identity only."""
        self.circuit = circuit
        self.offset = circuit.offset
        self.owner = np.repeat(np.arange(len(circuit.instances)), np.diff(self.offset))
        # the same as lists: the walk takes numbers one by one, which costs arrays several times as much
        self.starts: list[int] = self.offset.tolist()
        self.owners: list[int] = self.owner.tolist()
        self.partner = circuit.partners()
        self.partners: list[int] = self.partner.tolist()
        self.labels = circuit.electrical_labels()
        self.kind = [circuit.kinds[k].name for k in circuit.kind.tolist()]
        self.optical = [len(circuit.kinds[k].optical) for k in circuit.kind.tolist()]
        self.symmetry = {
            kind.name: tuple(symmetry.get(kind.name, (tuple(range(len(kind.optical))),))) for kind in circuit.kinds
        }

    def local(self, port: int) -> tuple[int, int]:
        """Instance and its own number of a port."""
        instance = self.owners[port]
        return instance, port - self.starts[instance]

    def nets(self, instance: int) -> list[int]:
        """Electrical nets of an instance's electrical ports, -1 where there is none."""
        first = int(self.offset[instance]) + self.optical[instance]
        nets: list[int] = self.circuit.electrical[first : int(self.offset[instance + 1])].tolist()
        return nets

    def pads(self, instance: int) -> tuple[tuple[str, ...], ...]:
        """Pad labels on each electrical net of an instance, sorted: which end is which makes no heat."""
        return tuple(sorted(self.labels.get(net, ()) for net in self.nets(instance)))

    def glance(self, port: int) -> tuple[object, ...]:
        """What lies beyond a port, as far as one device shows it: kind, kind of port, pads."""
        beyond = self.partners[port]
        if beyond == UNCONNECTED:
            return ()
        instance, own = self.local(beyond)
        orbit = min(permutation[own] for permutation in self.symmetry[self.kind[instance]])
        return self.kind[instance], orbit, self.pads(instance)


class Walk:
    """The walk's state: what is mapped, what may still be mirrored, where to go on."""

    def __init__(self, reference: Side, extracted: Side) -> None:
        """Start with nothing mapped."""
        self.reference, self.extracted = reference, extracted
        self.device = [UNCONNECTED] * len(reference.kind)
        self.back = [UNCONNECTED] * len(extracted.kind)
        self.port = [UNCONNECTED] * int(reference.offset[-1])
        self.options: dict[int, list[Permutation]] = {}
        self.queue: deque[tuple[int, int]] = deque()
        self.landmarks_used = False

    def run(self) -> None:
        """Walk until every reached device is settled."""
        while True:
            while self.queue:
                self.arrive(*self.queue.popleft())
            unsettled = next(iter(self.options), None)
            if unsettled is None:
                return
            if self.landmarks_used:
                self.settle(unsettled)
            else:
                # the branches of a tree that no fibre tells apart may end at pads that do
                self.landmarks_used = True
                self.landmarks()

    def landmarks(self) -> None:
        """Map what no symmetry leaves open, photodiodes and modulators, where both sides' have the same pad labels."""
        for i, j in self.labelled():
            if len(self.reference.symmetry[self.reference.kind[i]]) == 1:
                self.narrow(i, j, list(self.reference.symmetry[self.reference.kind[i]]))

    def arrive(self, port: int, other: int) -> None:
        """Note that a reference port is an extracted port, unless what is known already forbids it."""
        (i, a), (j, b) = self.reference.local(port), self.extracted.local(other)
        if self.device[i] == UNCONNECTED and self.back[j] == UNCONNECTED:
            kind = self.reference.kind[i]
            if kind == self.extracted.kind[j]:
                self.narrow(i, j, [p for p in self.reference.symmetry[kind] if p[a] == b])
        elif self.device[i] == j and i in self.options:
            self.narrow(i, j, [p for p in self.options[i] if p[a] == b])

    def narrow(self, i: int, j: int, options: list[Permutation]) -> None:
        """Map a device in one of several ways; walk on from the ports that are the same in all of them."""
        if not options:
            return
        self.device[i], self.back[j] = j, i
        if len(options) > 1:
            self.options[i] = options
        else:
            self.options.pop(i, None)
        for own in range(self.reference.optical[i]):
            images = {option[own] for option in options}
            port = self.reference.starts[i] + own
            if len(images) > 1 or self.port[port] != UNCONNECTED:
                continue
            other = self.extracted.starts[j] + images.pop()
            self.port[port] = other
            beyond = self.reference.partners[port], self.extracted.partners[other]
            if UNCONNECTED not in beyond:
                self.queue.append(beyond)

    def settle(self, i: int) -> None:
        """Map a device whose branches no fibre tells apart so as to fit what lies beyond its ports."""
        j = self.device[i]
        start, other = self.reference.starts[i], self.extracted.starts[j]
        seen = [self.reference.glance(start + own) for own in range(self.reference.optical[i])]
        there = [self.extracted.glance(other + own) for own in range(self.extracted.optical[j])]

        def fit(option: Permutation) -> int:
            return sum(seen[own] == there[image] for own, image in enumerate(option))

        self.narrow(i, j, [max(self.options[i], key=fit)])

    def anchor(self) -> None:
        """Start in parts of the circuit that no fibre reaches: at heaters that share a pad label."""
        for i, j in self.labelled():
            self.narrow(i, j, list(self.reference.symmetry[self.reference.kind[i]]))
            self.run()

    def labelled(self) -> Iterator[tuple[int, int]]:
        """Devices that are not mapped yet when their turn comes, of one kind and with the same pad labels."""
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


def match(reference: Side, extracted: Side) -> Matching:
    """Map a flat reference circuit to a flat extracted one.

    Args:
        reference: Circuit that should be.
        extracted: Circuit that is.

    Returns:
        The map the walk finds; what contradicts it stays unmapped.
    """
    walk = Walk(reference, extracted)
    for label, port in reference.circuit.ports.items():
        other = extracted.circuit.ports.get(label)
        if other is None:
            continue
        i, j = reference.local(port)[0], extracted.local(other)[0]
        if reference.optical[i] and extracted.optical[j]:
            walk.arrive(port, other)
        elif reference.kind[i] == extracted.kind[j]:
            walk.device[i], walk.back[j], walk.port[port] = j, i, other
    walk.run()
    walk.anchor()
    return Matching(*(np.array(numbers, dtype=np.int64) for numbers in (walk.device, walk.port, walk.back)))
