"""Faults of wires, vias and the metal of pins."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def wires(draft: Draft, least_um: float = 12.0) -> list[kdb.Box]:
    """Straight wires, grounds included, without pads and wires near heaters."""
    pad = round(float(draft.process.pads.size_um) * 500) - 1
    metal = draft.base.region(draft.wire)
    slim = metal - metal.sized(-pad).sized(pad + 1000) - draft.base.region("heater").sized(20_000)
    boxes = [p.bbox() for p in slim.decompose_trapezoids_to_region().each() if p.is_box()]
    least, wide = 1000 * least_um, 2 * round(float(draft.process.metal.wire_width_um) * 1000)
    found = [b for b in boxes if max(b.width(), b.height()) >= least and min(b.width(), b.height()) >= 1000]
    thin = [b for b in found if min(b.width(), b.height()) <= wide]
    return sorted(thin or found, key=str)


def across(box: kdb.Box, rng: Rng, length: int) -> kdb.Box:
    """A piece of a wire somewhere along it."""
    if box.width() >= box.height():
        at = int(rng.integers(box.left + 1, box.right - length))
        return kdb.Box(at, box.bottom, at + length, box.top)
    at = int(rng.integers(box.bottom + 1, box.top - length))
    return kdb.Box(box.left, at, box.right, at + length)


def along(part: kdb.Box, box: kdb.Box, low: int, high: int) -> kdb.Box:
    """A piece of a wire with its sides moved outwards."""
    if box.width() >= box.height():
        return kdb.Box(part.left, part.bottom - low, part.right, part.top + high)
    return kdb.Box(part.left - low, part.bottom, part.right + high, part.top)


def wire_cut(name: str, length: int) -> None:
    """Register a cut through a wire."""

    @kind(name)
    def cut(draft: Draft, rng: Rng) -> Mutation:
        box = choose(rng, wires(draft))
        part = across(box, rng, length)
        draft.cut(draft.wire, along(part, box, 10, 10))
        return Mutation(f"{length} nm cut out of a wire", um(part))


wire_cut("wire cut by 1 nm", 1)
wire_cut("wire cut by 11 um", 11_000)


def wire_narrowed(name: str, share: float) -> None:
    """Register a wire made narrower on one side."""

    @kind(name)
    def narrowed(draft: Draft, rng: Rng) -> Mutation:
        box = choose(rng, wires(draft))
        part = across(box, rng, 11_000)
        by = round(min(box.width(), box.height()) * share)
        draft.cut(draft.wire, along(part, box, 0, -(min(box.width(), box.height()) - by)))
        return Mutation(f"{by} nm taken from a wire's side over 11 µm", um(part))


wire_narrowed("wire narrowed by a tenth", 0.1)
wire_narrowed("wire narrowed by a third", 0.34)
wire_narrowed("wire narrowed by two thirds", 0.67)


@kind("wire widened by 1 um")
def widened(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, wires(draft))
    part = across(box, rng, 10_500)
    draft.add(draft.wire, along(part, box, 0, 1000))
    return Mutation("a wire 1 µm wider over 10.5 µm", um(part))


@kind("wire widened towards its neighbour by 1 nm")
def nearer(draft: Draft, rng: Rng) -> Mutation | None:
    space = round(float(draft.process.metal.space_um) * 1000)
    pairs = draft.base.region(draft.wire).space_check(space + 1000, False, kdb.Metrics.Projection)
    found = sorted(pairs.each(), key=str)
    if not found:
        return None
    pair = choose(rng, found)
    gap = pair.polygon(0).bbox()
    reach = min(pair.distance(), 10**6) - space + 1
    shape = kdb.Box(gap.left, gap.bottom, gap.right, gap.bottom + reach)
    if pair.first.dx() == 0:
        shape = kdb.Box(gap.left, gap.bottom, gap.left + reach, gap.top)
    draft.add(draft.wire, shape)
    return Mutation("metal 1 nm too near to other metal", um(shape))


@kind("wires bridged")
def bridged(draft: Draft, rng: Rng) -> Mutation:
    pieces = sorted(draft.base.region(draft.wire).each(), key=lambda p: (p.bbox().left, p.bbox().bottom))
    one = choose(rng, pieces)
    others = [p for p in pieces if p != one]
    near = min(others, key=lambda p: p.bbox().center().distance(one.bbox().center()))
    a, b = one.each_point_hull().__next__(), near.each_point_hull().__next__()
    width = round(float(draft.process.metal.wire_width_um) * 1000)
    bar = kdb.Path([a, kdb.Point(b.x, a.y), b], width, width // 2, width // 2).polygon()
    draft.add(draft.wire, bar)
    return Mutation("two pieces of metal joined", um(bar.bbox()))


@kind("metal of nothing")
def island(draft: Draft, rng: Rng) -> Mutation:
    box = draft.clear_spot(rng, 20_000)
    draft.add(draft.wire, box)
    return Mutation("a square of metal", um(box))


@kind("metal too small to hold")
def speck(draft: Draft, rng: Rng) -> Mutation:
    box = draft.clear_spot(rng, 4200)
    draft.add(draft.wire, box)
    return Mutation("a speck of metal", um(box))


@kind("metal over a grating")
def over_grating(draft: Draft, rng: Rng) -> Mutation | None:
    if not draft.places("grating_coupler"):
        return None
    box = choose(rng, draft.places("grating_coupler")).box
    draft.add(draft.wire, kdb.Box(box.center().x, box.bottom - 30_000, box.center().x + 6000, box.top + 30_000))
    return Mutation("metal over a grating", um(box))


def via(name: str, by: str) -> None:
    """Register a fault of a via."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.has("via"):
            return None
        box = choose(rng, sorted((p.bbox() for p in draft.base.region("via").each()), key=str))
        around = kdb.Box(box.left - 8500, box.bottom - 8500, box.right + 8500, box.top + 8500)
        if by == "one missing":
            draft.cut("via", box)
        elif by == "all of a contact missing":
            contact = draft.base.region("metal1").interacting(kdb.Region(box)).bbox()
            draft.cut("via", contact & around.enlarged(10_000, 10_000))
        elif by == "moved":
            draft.cut("via", box)
            draft.add("via", box.moved(0, 600))
        elif by == "larger":
            draft.add("via", box.enlarged(200, 200))
        else:
            at = choose(rng, wires(draft))
            draft.add("via", kdb.Box(-1500, -1500, 1500, 1500).moved(at.center().x, at.center().y))
        return Mutation(f"via {by}", um(box))


via("one via missing", "one missing")
via("all vias of a contact missing", "all of a contact missing")
via("via moved by 600 nm", "moved")
via("via larger by 400 nm", "larger")
via("via on a wire above nothing", "added")


@kind("wires crossed through the other metal")
def through(draft: Draft, rng: Rng) -> Mutation | None:
    if not draft.has("via"):
        return None
    pads = [pair[0] for pair in draft.texts(True) if not pair[0].string.startswith("GND")]
    first, second = sorted(pads, key=lambda t: t.x)[:2]
    draft.add("metal1", kdb.Path([kdb.Point(t.x, t.y) for t in (first, second)], 10_000, 5000, 5000).polygon())
    for text in (first, second):
        draft.add("via", kdb.Box(-1500, -1500, 1500, 1500).moved(text.x, text.y))
    return Mutation(f"{first.string} and {second.string} joined in metal1", (first.x / 1000, first.y / 1000))


def pin(name: str, by: str) -> None:
    """Register a fault in the metal of a photodiode's or modulator's pins."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation | None:
        places = draft.places("photodiode", "modulator")
        if not places:
            return None
        place = choose(rng, places)
        pins = sorted(kdb.Region(place.cell.begin_shapes_rec(draft.index(draft.wire))).merged().each(), key=str)
        if by == "cut":
            draft.cut(draft.wire, pins[0].bbox().transformed(place.trans))
        elif by == "joined":
            draft.add(draft.wire, (pins[0].bbox() + pins[1].bbox()).transformed(place.trans))
        else:
            for layer in (draft.wire,):
                draft.reshape(place, layer, lambda shapes: shapes.moved(0, 1000))
        return Mutation(f"a pin of a {place.cell.name} {by}", um(place.box))


pin("pin of a black box without metal", "cut")
pin("pins of a black box joined", "joined")
pin("pins of a black box moved by 1 um", "moved")


def neck(name: str, length: int, left: str) -> None:
    """Register a wire necked from both sides over a length."""

    @kind(name)
    def necked(draft: Draft, rng: Rng) -> Mutation:
        box = choose(rng, wires(draft, length / 1000 + 1))
        part = across(box, rng, length)
        width = min(box.width(), box.height())
        usual = round(float(draft.process.metal.wire_width_um) * 1000)
        remains = {"1 nm less": min(width, usual) - 1, "half": usual // 2, "1 nm": 1}[left]
        low = (width - remains) // 2
        high = width - remains - low
        middle = along(part, box, -low, -high)
        draft.cut(draft.wire, kdb.Region(part) - kdb.Region(middle))
        return Mutation(f"a wire necked to {remains} nm over {length} nm", um(part))


neck("neck of 1 nm less than a wire", 2_000, "1 nm less")
neck("neck of half a wire's width", 2_000, "half")
neck("neck of half a wire's width over 10 nm", 10, "half")
neck("neck of 1 nm width", 3_000, "1 nm")


@kind("hole in a wire")
def hole(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, wires(draft))
    part = across(box, rng, 1000)
    width = min(box.width(), box.height())
    draft.cut(draft.wire, along(part, box, -(width // 4), -(width // 4)))
    return Mutation("a hole in a wire", um(part))


@kind("slanted neck in a wire")
def slanted(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, wires(draft))
    part = across(box, rng, 8_000)
    width = min(box.width(), box.height())
    lying = box.width() >= box.height()
    depth = width // 2
    points = (
        [(part.left, part.top), (part.right, part.top), (part.center().x, part.top - depth)]
        if lying
        else [(part.right, part.bottom), (part.right, part.top), (part.right - depth, part.center().y)]
    )
    draft.cut(draft.wire, kdb.Region(kdb.Polygon([kdb.Point(*point) for point in points])))
    return Mutation(f"a wedge of {depth} nm cut into a wire", um(part))
