"""Faults of widths: guides tapered by few nanometres over long stretches, in straights, bends and shared cells."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.guides import arms, slice_of, straights
from mutants.kinds import kind

Rng = np.random.Generator


def tapered(box: kdb.Box, by: int, flat: float = 0.0, turn: int = 1) -> kdb.Polygon:
    """A piece of a guide that widens by ``by`` nm and narrows again.

    Args:
        box: The piece with its original width.
        by: Change of the width in its middle; negative for a narrower guide.
        flat: Share of the length that has the changed width.
        turn: Change in the second half relative to the first: -1 makes it as much narrower as the first is wider.
    """
    lying = box.width() > box.height()
    low, high = (box.left, box.right) if lying else (box.bottom, box.top)
    side, other = (box.bottom, box.top) if lying else (box.left, box.right)
    length, ramp = high - low, (1 - flat) / 2
    if turn > 0:
        knots = [(0.0, 0), (ramp, by), (1 - ramp, by), (1.0, 0)]
    else:
        knots = [(0.0, 0), (0.25, by), (0.5, 0), (0.75, -by), (1.0, 0)]
    # the middle stays on the axis, up to the rounding of half of an odd change
    upper = [(low + round(share * length), other + change - change // 2) for share, change in knots]
    lower = [(low + round(share * length), side - change // 2) for share, change in knots]
    points = [*upper, *lower[::-1]]
    return kdb.Polygon([kdb.Point(u, v) if lying else kdb.Point(v, u) for u, v in points])


def taper(name: str, by: int, length_um: float, arm: bool = False, **shape: float) -> None:
    """Register a guide tapered over a length; ``shape`` as for :func:`tapered`."""

    @kind(name)
    def changed(draft: Draft, rng: Rng) -> Mutation | None:
        span = round(1000 * length_um)
        found = arms(draft, span) if arm else straights(draft, length_um + 1, free=False)
        found = [b for b in found if (draft.base.region("heater") & kdb.Region(b)).is_empty()]
        if not found:
            return None
        part = slice_of(choose(rng, found), rng, span)
        draft.cut("core", part)
        draft.add("core", tapered(part, by, **shape))
        return Mutation(f"a guide's width changed by {by} nm over {length_um:g} µm", um(part))


for nanometres in (1, 2, 3, 5, 10, 20):
    taper(f"guide tapered by {nanometres} nm over 30 um", nanometres, 30.0)
    taper(f"guide narrowed by a taper of {nanometres} nm over 30 um", -nanometres, 30.0)
taper("guide tapered by 1 nm over 1.5 um", 1, 1.5)
taper("guide tapered by 1 nm over 5 um", 1, 5.0)
taper("guide 1 nm wider over 30 um between tapers", 1, 30.0, flat=0.9)
taper("guide 1 nm narrower over 30 um between tapers", -1, 30.0, flat=0.9)
taper("arm tapered by 1 nm", 1, 30.0, arm=True)
taper("arm tapered by 2 nm", 2, 30.0, arm=True)
taper("guide wider, then as much narrower, by 2 nm", 2, 30.0, turn=-1)


@kind("guide tapered by 1 nm under a heater")
def under_heater(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("phase_shifter"))
    box = kdb.Region(place.cell.begin_shapes_rec(draft.index("core"))).bbox()
    part = kdb.Box(box.center().x - 20_000, box.bottom, box.center().x + 20_000, box.top)
    draft.reshape(place, "core", lambda shapes: shapes - kdb.Region(part) + kdb.Region(tapered(part, 1)))
    return Mutation("a guide under a heater 1 nm wider in its middle", um(place.box))


def bend(name: str, by: int, shared: bool = False) -> None:
    """Register a bend whose outer side is moved outwards, except for its ends."""

    @kind(name)
    def widened(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.places("bend"):
            return None
        place = choose(rng, draft.places("bend"))

        def wider(shapes: kdb.Region) -> kdb.Region:
            box = shapes.bbox()
            # the ends of the bend, where it has the original width
            inner = box.enlarged(-draft.width, -draft.width)
            return shapes + (shapes.sized(by, by, 0) & kdb.Region(inner))

        draft.reshape(place, "core", wider, shared)
        return Mutation(f"a bend {2 * by} nm wider without a step at its ends", um(place.box))

    @kind(f"{name}, smoothly")
    def smooth(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.places("bend"):
            return None
        place = choose(rng, draft.places("bend"))

        def wider(shapes: kdb.Region) -> kdb.Region:
            (polygon,) = shapes.each()
            points = np.array([(p.x, p.y) for p in polygon.each_point_hull()], dtype=float)
            ahead, behind = np.roll(points, -1, axis=0) - points, points - np.roll(points, 1, axis=0)
            normal = np.stack([-(ahead + behind)[:, 1], (ahead + behind)[:, 0]], axis=1)
            normal /= np.hypot(*normal.T)[:, None]
            # short chords only: the corners at the ends stay
            curved = np.maximum(np.hypot(*ahead.T), np.hypot(*behind.T)) < draft.width - 10
            moved = np.round(points + by * normal * curved[:, None]).astype(int)
            return kdb.Region(kdb.Polygon([kdb.Point(x, y) for x, y in moved.tolist()]))

        draft.reshape(place, "core", wider, shared)
        return Mutation(f"both sides of a bend moved outwards by {by} nm except for its ends", um(place.box))


bend("bend wider by 2 nm", 1)
bend("bends of a shared cell wider by 2 nm", 1, shared=True)


def cut_on_curve(name: str, length: int) -> None:
    """Register a cut through the middle of a bend, across the guide."""

    @kind(name)
    def cut(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.places("bend"):
            return None
        place = choose(rng, draft.places("bend"))

        def parted(shapes: kdb.Region) -> kdb.Region:
            box = shapes.bbox()
            # along the diagonal of the bend's box, which a quarter circle crosses at its middle
            line = kdb.Path([box.p1, box.p2], length).polygon()
            other = kdb.Path([kdb.Point(box.left, box.top), kdb.Point(box.right, box.bottom)], length).polygon()
            cuts = [shapes - kdb.Region(one) for one in (line, other)]
            return max(cuts, key=lambda region: region.merged().count())

        draft.reshape(place, "core", parted)
        return Mutation(f"{length} nm cut out of the middle of a bend", um(place.box))


cut_on_curve("bend cut by 2 nm", 2)
cut_on_curve("bend cut by 100 nm", 100)


@kind("hole in a guide")
def hole(draft: Draft, rng: Rng) -> Mutation:
    part = slice_of(choose(rng, straights(draft, 3.0, free=False)), rng, 100)
    draft.cut("core", kdb.Box(part.center().x - 50, part.center().y - 50, part.center().x + 50, part.center().y + 50))
    return Mutation("a hole of 100 nm in a guide", um(part))
