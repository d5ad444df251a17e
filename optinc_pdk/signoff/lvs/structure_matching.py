"""Matching of circuits without common labels: pairs of devices with the same surroundings.

Every device gets a colour: its kind and pads at first, then in every round also the colours of its neighbours (colour
refinement, Weisfeiler and Leman, Nauchno-Techn. Inform. 2(9), 12 (1968)). Devices whose colour occurs once in each
circuit correspond to each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optinc_pdk.circuit import UNCONNECTED

if TYPE_CHECKING:
    from optinc_pdk.signoff.lvs.device_matching import IndexedCircuit

ROUNDS = 64
"""Rounds of the refinement, and so the largest distance in devices at which a difference distinguishes two devices."""


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
