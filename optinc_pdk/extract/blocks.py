"""A cell extracted by itself: its devices, the guides between them, and the guides that end at none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Contours, EdgeIndex, Ints, contours
from optinc_pdk.extract.golden import Variant
from optinc_pdk.extract.lookup import plain
from optinc_pdk.extract.silicon import Placement, check_foreign, place_devices
from optinc_pdk.extract.strips import StripRule, check_strip


@dataclass(frozen=True)
class Strip:
    """A guide from a device's port to a free end.

    Attributes:
        polygon: The guide.
        ends: (2, 2, 2) the device's edge, and the guide's own edge at its free end.
    """

    polygon: kdb.Polygon
    ends: Ints


@dataclass(frozen=True)
class Block:
    """A cell in one orientation with its heaters, at its origin.

    Attributes:
        silicon: Its merged silicon.
        placements: Its devices, without phase shifters.
        ports: (p, 2, 2) edges of all its devices' ports.
        joined: (n, 2, 2, 2) edges of the ports that its guides join.
        length_um: (n,) the guides' lengths.
        strips: Guides from a port to a free end.
        through: Guides with two free ends.
    """

    silicon: kdb.Region
    placements: tuple[Placement, ...]
    ports: Ints
    joined: Ints
    length_um: NDArray[np.float64]
    strips: tuple[Strip, ...]
    through: tuple[Strip, ...]

    @cached_property
    def edges(self) -> kdb.Edges:
        """Edges of its silicon."""
        return self.silicon.edges()

    @cached_property
    def kept(self) -> kdb.Region:
        """Where no other silicon may be: its own, and its devices' boxes."""
        return self.silicon + kdb.Region([kdb.Polygon(p.box) for p in self.placements])

    @cached_property
    def openings(self) -> frozenset[tuple[tuple[int, int], ...]]:
        """Edges at which others may meet it, whichever way they run."""
        ends = [strip.ends[1] for strip in self.strips] + [end for strip in self.through for end in strip.ends]
        return frozenset(undirected(edge) for edge in [*ends, *self.ports])


def undirected(edge: Ints) -> tuple[tuple[int, int], ...]:
    """An edge's ends in order of position."""
    return tuple(sorted((int(x), int(y)) for x, y in edge))


def read_block(
    silicon: kdb.Region, heaters: Sequence[tuple[kdb.Box, Ints]], variants: Sequence[Variant], rule: StripRule
) -> Block | None:
    """Extract a cell by itself.

    Args:
        silicon: Its merged silicon.
        heaters: The guides under its heaters, with their end edges.
        variants: Golden devices.
        rule: What a guide looks like.

    Returns:
        The block, or None where anything in the cell is not in order.
    """
    whole = contours(plain(silicon))
    placements = place_devices(whole, variants)
    bodies = [polygon for p in placements for polygon in p.core]
    taken = kdb.Region(bodies + [kdb.Polygon(box) for box, _ in heaters]).merged()
    left = silicon - taken
    left.min_coherence = True
    pieces = plain(left)
    outline = contours(pieces)
    if whole.double_area != outline.double_area + contours(plain(taken)).double_area:
        return None
    if check_foreign(placements, pieces):
        return None
    ports = np.concatenate([np.zeros((0, 2, 2), dtype=np.int64), *map(_ports, placements), *(e for _, e in heaters)])
    strips = _strips(pieces, outline, ports, rule)
    if strips is None:
        return None
    joined = [(strip, length) for strip, inner, length in strips if inner == 2]
    return Block(
        silicon,
        tuple(placements),
        ports,
        np.array([strip.ends for strip, _ in joined], dtype=np.int64).reshape(-1, 2, 2, 2),
        np.array([length for _, length in joined], dtype=np.float64),
        tuple(strip for strip, inner, _ in strips if inner == 1),
        tuple(strip for strip, inner, _ in strips if inner == 0),
    )


def _ports(placement: Placement) -> Ints:
    """(p, 2, 2) edges of a device's guide ports."""
    edges = list(placement.variant.port_edges.values())
    shift = np.array([placement.shift.x, placement.shift.y])
    return np.asarray(np.stack([placement.variant.points[edges], placement.variant.ends[edges]], axis=1) + shift)


def _strips(
    pieces: Sequence[kdb.Polygon], outline: Contours, ports: Ints, rule: StripRule
) -> list[tuple[Strip, int, float]] | None:
    """Each guide, how many of its ends are devices', and its length; None where a piece is no guide."""
    index = EdgeIndex(ports[:, 0], ports[:, 1])
    meets = index.find(outline.ends, outline.points) >= 0
    free = _across(outline, rule.width) & ~meets
    found: list[tuple[Strip, int, float]] = []
    for number, piece in enumerate(pieces):
        first = int(outline.first[number])
        own = slice(first, int(outline.first[number + 1]))
        inner, outer = np.flatnonzero(meets[own]), np.flatnonzero(free[own])
        ends = np.concatenate([inner, outer])
        if len(ends) != 2 or outline.holes[number]:
            return None
        low, high = sorted(ends.tolist())
        length, fault = check_strip(outline.ring(number) - outline.points[first], low, high, rule)
        if fault is not None:
            return None
        edges = np.stack([outline.points[own][ends], outline.ends[own][ends]], axis=1)
        # a device's edge runs the other way
        edges[: len(inner)] = edges[: len(inner), ::-1]
        found.append((Strip(piece, edges), len(inner), length))
    return found


def _across(outline: Contours, width: int) -> NDArray[np.bool_]:
    """(E,) whether an edge could be a guide's free end: along an axis and as long as a guide is wide."""
    away = np.abs(outline.ends - outline.points)
    return np.asarray((np.min(away, axis=1) == 0) & (np.max(away, axis=1) == width))


def leaves_alone(silicon: kdb.Region, block: Block) -> bool:
    """Whether other silicon, as seen from a block, meets it at its openings only."""
    if not (silicon & block.kept).is_empty():
        return False
    shared = block.edges & silicon.edges()
    found = ((edge.p1, edge.p2) for edge in shared.each())
    return all(undirected(np.array([(p.x, p.y), (q.x, q.y)])) in block.openings for p, q in found)
