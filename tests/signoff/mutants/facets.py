"""Faults at the edge of a die: edge couplers away from it, of another kind, or beside other silicon."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, Place, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def coupler(draft: Draft, rng: Rng) -> Place | None:
    """One edge coupler, if the chip has any."""
    places = draft.places("edge_coupler")
    return choose(rng, places) if places else None


def outward(place: Place) -> int:
    """+1 for an edge coupler that faces right, -1 for one that faces left."""
    return 1 if (place.trans * kdb.Vector(1, 0)).x > 0 else -1


def guide_between(draft: Draft, place: Place, by: int) -> kdb.Box:
    """The guide from an edge coupler's port to a position further outwards, or inwards if ``by`` is negative."""
    port, width = place.trans * kdb.Point(0, 0), round(1000 * float(draft.process.guide.width_um))
    ends = sorted((port.x, port.x + outward(place) * by))
    return kdb.Box(ends[0], port.y - width // 2, ends[1], port.y + width // 2)


def displaced(name: str, by: int) -> None:
    """Register an edge coupler moved outwards by some nm, with its guide lengthened or shortened."""

    @kind(name)
    def moved(draft: Draft, rng: Rng) -> Mutation | None:
        place = coupler(draft, rng)
        if place is None:
            return None
        number, at = place.path[-1]
        guide = guide_between(draft, place, by)
        if by > 0:
            draft.add("core", guide)
        else:
            draft.cut("core", guide)
        draft.replace(place, [(number, kdb.Trans(outward(place) * by, 0) * at)])
        return Mutation(f"an edge coupler and the end of its guide moved outwards by {by} nm", um(place.box))


displaced("edge coupler with its guide 6 um inwards", -6_000)
displaced("edge coupler with its guide 20 um inwards", -20_000)
displaced("edge coupler with its guide 300 um inwards", -300_000)
displaced("edge coupler with its guide 4 um outwards", 4_000)
displaced("edge coupler with its guide 10 um outwards", 10_000)


@kind("edge coupler replaced by a grating coupler at the guide")
def of_another_kind(draft: Draft, rng: Rng) -> Mutation | None:
    place = coupler(draft, rng)
    if place is None:
        return None
    draft.replace(place, [(draft.cell_of("grating_coupler").cell_index(), place.path[-1][1])])
    return Mutation("an edge coupler replaced by a grating coupler", um(place.box))


@kind("die with edge couplers 10 um larger on every side")
def larger_die(draft: Draft, rng: Rng) -> Mutation | None:
    if coupler(draft, rng) is None:
        return None
    box = draft.base.region("outline").bbox()
    draft.edit("outline", box, lambda shapes: shapes.sized(10_000))
    return Mutation("the outline 10 µm larger", um(box))


@kind("guide along the edge of a die")
def along_the_edge(draft: Draft, rng: Rng) -> Mutation:
    die = draft.base.region("outline").bbox()
    guide = kdb.Box(die.left + 5_000, die.top - 300_000, die.left + 5_450, die.top - 200_000)
    draft.add("core", guide)
    return Mutation("a guide along the edge of a die", um(guide))
