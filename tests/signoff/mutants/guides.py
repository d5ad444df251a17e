"""Faults of guides: cut, narrowed, moved, joined, crossed, lengthened, bent, covered."""

from __future__ import annotations

from collections.abc import Iterator

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.kinds import kind
from optinc_pdk.cells.curves import ribbon

Rng = np.random.Generator
# Chords of a drawn curve: fine enough for a tenth of a nanometre of sagitta.
CHORDS = 400


def straights(draft: Draft, least_um: float, free: bool = True) -> list[kdb.Box]:
    """Straight guides of some length; ``free`` of heaters over them."""
    found = [b for b in draft.boxes("core") if min(b.width(), b.height()) == draft.width]
    found = [b for b in found if max(b.width(), b.height()) >= 1000 * least_um]
    return [b for b in found if not free or (draft.base.region("heater") & kdb.Region(b)).is_empty()]


def slice_of(box: kdb.Box, rng: Rng, length: int, wider: int = 0) -> kdb.Box:
    """A piece of a guide somewhere along it, across its whole width and a little more."""
    lying = box.width() > box.height()
    low, high = (box.left, box.right) if lying else (box.bottom, box.top)
    at = int(rng.integers(low + 1, high - length))
    if lying:
        return kdb.Box(at, box.bottom - wider, at + length, box.top + wider)
    return kdb.Box(box.left - wider, at, box.right + wider, at + length)


def cut_by(name: str, length: int, shared: bool = False, holes: bool = False) -> None:
    """Register a cut through a guide."""

    @kind(name)
    def cut(draft: Draft, rng: Rng) -> Mutation | None:
        gap = slice_of(choose(rng, straights(draft, 2.0, free=False)), rng, length, 10)
        if holes:
            if "holes" not in draft.process.gds_layers:
                return None
            draft.add("holes", gap)
        else:
            draft.cut("core", gap, shared)
        return Mutation(f"{length} nm cut out of a guide", um(gap))


cut_by("guide cut by 1 nm", 1)
cut_by("guide cut by 10 nm", 10)
cut_by("guide cut by 50 nm", 50)
cut_by("guide cut by 1 um", 1000)
cut_by("guide cut by 10 nm in a shared cell", 10, shared=True)
cut_by("guide cut by a hole", 400, holes=True)


def sides(box: kdb.Box, by: int, both: bool) -> kdb.Region:
    """Strips along a guide's sides, inside it."""
    if box.width() > box.height():
        found = [kdb.Box(box.left, box.bottom, box.right, box.bottom + by)]
        other = kdb.Box(box.left, box.top - by, box.right, box.top)
    else:
        found = [kdb.Box(box.left, box.bottom, box.left + by, box.top)]
        other = kdb.Box(box.right - by, box.bottom, box.right, box.top)
    return kdb.Region([*found, other] if both else found)


def narrow(name: str, by: int, both: bool, length: int | None) -> None:
    """Register a guide made narrower, all along or over a length."""

    @kind(name)
    def narrowed(draft: Draft, rng: Rng) -> Mutation:
        box = choose(rng, straights(draft, 3.0, free=False))
        part = box if length is None else slice_of(box, rng, length)
        draft.cut("core", sides(part, by, both))
        return Mutation(f"{by} nm taken from a guide's side over {max(part.width(), part.height())} nm", um(part))


narrow("guide narrowed by 1 nm on one side, all along", 1, False, None)
narrow("guide narrowed by 1 nm on one side", 1, False, 500)
narrow("guide narrowed by 2 nm on both sides", 2, True, 1000)
narrow("guide narrowed by 20 nm on both sides, all along", 20, True, None)
narrow("guide narrowed by 100 nm on both sides", 100, True, 2000)
narrow("guide notched", 200, False, 60)


def widen(name: str, by: int, length: int) -> None:
    """Register a guide made wider over a length."""

    @kind(name)
    def widened(draft: Draft, rng: Rng) -> Mutation:
        part = slice_of(choose(rng, straights(draft, 3.0, free=False)), rng, length)
        draft.add("core", part.enlarged(0, by) if part.width() > draft.width else part.enlarged(by, 0))
        return Mutation(f"{by} nm added to both sides of a guide over {length} nm", um(part))


widen("guide widened by 1 nm", 1, 1000)
widen("guide widened by 30 nm", 30, 2000)


@kind("guide moved sideways by 1 nm")
def moved_by_a_nanometre(draft: Draft, rng: Rng) -> Mutation:
    return moved(draft, rng, 1)


@kind("guide moved sideways by 20 nm")
def moved_by_more(draft: Draft, rng: Rng) -> Mutation:
    return moved(draft, rng, 20)


def moved(draft: Draft, rng: Rng, by: int) -> Mutation:
    box = choose(rng, straights(draft, 5.0, free=False))
    part = slice_of(box, rng, 3000)
    move = kdb.Vector(0, by) if part.width() > draft.width else kdb.Vector(by, 0)
    draft.cut("core", part)
    draft.add("core", part.moved(move))
    return Mutation(f"3 µm of a guide moved sideways by {by} nm", um(part))


@kind("spur on a guide")
def spur(draft: Draft, rng: Rng) -> Mutation:
    part = slice_of(choose(rng, straights(draft, 5.0)), rng, draft.width)
    lying = abs(part.bottom - part.top) == draft.width
    shape = kdb.Box(part.left, part.top, part.right, part.top + 1000)
    draft.add("core", shape if lying else kdb.Box(part.right, part.bottom, part.right + 1000, part.top))
    return Mutation("a spur of 1 µm on a guide", um(part))


def neighbours(draft: Draft, least_um: float) -> Iterator[tuple[kdb.Box, kdb.Box]]:
    """Pairs of lying guides above each other, with nothing between them, cut to what they share."""
    lying = [b for b in straights(draft, least_um) if b.width() > b.height()]
    for low in lying:
        over = [b for b in lying if low.top < b.bottom <= low.top + 130_000]
        over = [b for b in over if min(b.right, low.right) - max(b.left, low.left) >= 1000 * least_um]
        if over:
            high = min(over, key=lambda b: b.bottom)
            left, right = max(low.left, high.left), min(low.right, high.right)
            between = kdb.Region(kdb.Box(left, low.top + 1, right, high.bottom - 1))
            if (draft.base.region("core") & between).is_empty():
                yield kdb.Box(left, low.bottom, right, low.top), kdb.Box(left, high.bottom, right, high.top)


@kind("guides bridged")
def bridged(draft: Draft, rng: Rng) -> Mutation:
    low, high = choose(rng, list(neighbours(draft, 2.0)))
    at = int(rng.integers(low.left, low.right - draft.width))
    shape = kdb.Box(at, low.top, at + draft.width, high.bottom)
    draft.add("core", shape)
    return Mutation("two guides joined by a third", um(shape))


@kind("guides crossed")
def crossed(draft: Draft, rng: Rng) -> Mutation:
    low, high = choose(rng, list(neighbours(draft, 2.0)))
    at = int(rng.integers(low.left, low.right - draft.width))
    shape = kdb.Box(at, low.bottom - 3000, at + draft.width, high.top + 3000)
    draft.add("core", shape)
    return Mutation("a guide drawn across two others", um(shape))


@kind("guides swapped")
def swapped(draft: Draft, rng: Rng) -> Mutation:
    low, high = choose(rng, list(neighbours(draft, 20.0)))
    length = min(low.width(), 60_000)
    for box in (low, high):
        draft.cut("core", kdb.Box(low.left, box.bottom, low.left + length, box.top))
    t = np.linspace(0, 1, CHORDS)
    rise = (1 - np.cos(np.pi * t)) / 2
    for start, stop in ((low, high), (high, low)):
        y = start.center().y + (stop.center().y - start.center().y) * rise
        draft.add("core", curve(np.stack([low.left + t * length, y], axis=1), draft.width))
    return Mutation("two guides cross over each other", um(low + high))


def curve(line: np.ndarray, width: int) -> kdb.Polygon:
    """A guide along a line; both in nm."""
    points = ribbon(line / 1000, width / 1000)
    return kdb.Polygon([kdb.Point(int(x), int(y)) for x, y in points.tolist()])


@kind("gap closed")
def gap_closed(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2"))
    box = place.box
    gap = kdb.Region(box) - draft.base.region("core")
    inner = gap.interacting(kdb.Region(kdb.Box(box.left, box.center().y - 50, box.left + 100, box.center().y + 50)))
    if inner.is_empty():
        inner = gap.interacting(
            kdb.Region(kdb.Box(box.center().x - 50, box.bottom, box.center().x + 50, box.bottom + 100))
        )
    draft.add("core", inner)
    return Mutation("the gap between two ports of a coupler filled", um(inner.bbox()))


def lengthen(name: str, extra_um: float, arm: bool) -> None:
    """Register a longer way, of an interferometer's arm or anywhere."""

    @kind(name)
    def lengthened(draft: Draft, rng: Rng) -> Mutation:
        span = 60_000 if extra_um > 0.5 else 36_000
        box = choose(rng, arms(draft, span) if arm else straights(draft, span / 1000 + 1))
        lying = box.width() > box.height()
        at = kdb.Point(box.left, box.center().y) if lying else kdb.Point(box.center().x, box.bottom)
        start = int(rng.integers(0, max(box.width(), box.height()) - span))
        t = np.linspace(0, 1, CHORDS)
        # a bump of height a over a length L is π²a²/4L longer
        height = np.sqrt(4 * span * extra_um * 1000) / np.pi
        along, aside = start + t * span, height * (1 - np.cos(2 * np.pi * t)) / 2
        old = kdb.Box(start, -draft.width // 2, start + span, draft.width // 2)
        turn = kdb.Trans(0, False, at.x, at.y) if lying else kdb.Trans(1, True, at.x, at.y)
        draft.cut("core", old.transformed(turn))
        new = curve(np.stack([along, aside], axis=1), draft.width)
        draft.add("core", new.transformed(turn))
        return Mutation(f"a guide {extra_um * 1000:g} nm longer", um(old.transformed(turn)))


def arms(draft: Draft, span: int) -> list[kdb.Box]:
    """Straight parts of arms of interferometers: between the couplers of one cell."""
    found = []
    for place in draft.places("mzi_unit"):
        couplers = sorted((p.box for p in draft.places("mmi2x2") if p.path[: len(place.path)] == place.path), key=str)
        inner = kdb.Box(min(b.right for b in couplers), -(10**9), max(b.left for b in couplers), 10**9)
        found += [b for b in straights(draft, span / 1000 + 1) if b.inside(place.box) and b.inside(inner)]
    return found


for nanometres in (5, 10, 20, 50, 60, 100):
    lengthen(f"arm {nanometres} nm longer", nanometres / 1000, True)
for nanometres in (5, 10, 20):
    lengthen(f"guide {nanometres} nm longer", nanometres / 1000, False)
lengthen("arm 1 um longer", 1.0, True)
lengthen("guide 200 nm longer", 0.200, False)
lengthen("guide 1 um longer", 1.0, False)


@kind("bend deleted")
def bend_deleted(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    draft.replace(place, [])
    return Mutation("a bend deleted", um(place.box))


@kind("bend turned the other way")
def bend_turned(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    number, move = place.path[-1]
    draft.replace(place, [(number, move * kdb.Trans.M0)])
    return Mutation("a bend turns the other way", um(place.box))


@kind("bend made a corner")
def bend_cornered(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))

    def corner(shapes: kdb.Region) -> kdb.Region:
        box = shapes.bbox()
        across = kdb.Box(box.left, box.bottom, box.right, box.bottom + draft.width)
        return kdb.Region([across, kdb.Box(box.right - draft.width, box.bottom, box.right, box.top)])

    draft.reshape(place, "core", corner)
    return Mutation("a bend drawn as a right angle", um(place.box))


@kind("bend of few chords")
def bend_chords(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    draft.reshape(place, "core", lambda shapes: shapes.smoothed(200))
    return Mutation("a bend drawn with fewer chords", um(place.box))


@kind("guide stepped by 2 nm")
def stepped(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2", "bend"))
    number, move = place.path[-1]
    draft.replace(place, [(number, kdb.Trans(0, 2) * move)])
    return Mutation(f"a {place.cell.name} moved sideways by 2 nm", um(place.box))


@kind("second guide beside a guide")
def beside(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, straights(draft, 5.0))
    step = draft.width + 1000
    move = kdb.Vector(0, step) if box.width() > box.height() else kdb.Vector(step, 0)
    draft.add("core", box.moved(move))
    return Mutation("a second guide 1 µm beside a guide", um(box))


@kind("second guide coupled to a guide under a mark")
def coupled(draft: Draft, rng: Rng) -> Mutation | None:
    """The mark is valid and the coupler is recognised, so only the netlist shows that it does not belong there."""
    if "coupler" not in draft.process.devices:
        return None
    part = slice_of(choose(rng, straights(draft, 22.0)), rng, 20_000)
    lying = part.width() > part.height()
    move = kdb.Vector(0, draft.width + 300) if lying else kdb.Vector(draft.width + 300, 0)
    second = part.moved(move)
    along = kdb.Vector(2_000, 0) if lying else kdb.Vector(0, 2_000)
    mark = kdb.Box(part.p1 + along, second.p2 - along)
    draft.add("core", second)
    draft.add("coupled", mark.enlarged(0 if lying else 300, 300 if lying else 0))
    return Mutation("a second guide 0.3 µm beside a guide, under a mark of coupled guides", um(part))


@kind("stray silicon")
def stray(draft: Draft, rng: Rng) -> Mutation:
    box = draft.clear_spot(rng, 2000)
    draft.add("core", box)
    return Mutation("a square of silicon", um(box))


def cover(name: str, layer: str) -> None:
    """Register something drawn over a guide that should not be there."""

    @kind(name)
    def covered(draft: Draft, rng: Rng) -> Mutation | None:
        own = draft.etch if layer == "etch" else layer
        if own not in draft.process.gds_layers:
            return None
        part = slice_of(choose(rng, straights(draft, 12.0)), rng, 8000)
        draft.add(own, part.enlarged(6000, 6000) if layer == "slab" else part.enlarged(300, 300))
        return Mutation(f"{own} over a guide", um(part))


cover("slab over a guide", "slab")
cover("etch over a guide", "etch")
cover("mark of coupled guides over a guide", "coupled")
cover("mark of a black box over a guide", "blackbox")


@kind("stub where a device was")
def stubbed(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("terminator"))
    draft.reshape(
        place, "core", lambda shapes: shapes - kdb.Region(shapes.bbox().enlarged(-shapes.bbox().width() // 4, 0))
    )
    return Mutation("the middle of a terminator is missing", um(place.box))
