"""Faults of wires, vias, pads, bumps and their labels."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def wires(draft: Draft, least_um: float = 12.0) -> list[kdb.Box]:
    """Straight wires, grounds among them, apart from pads and heaters."""
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


def swap_labels(name: str, metal: bool) -> None:
    """Register an exchange of two labels: the wires, or the fibres, are swapped."""

    @kind(name)
    def swapped(draft: Draft, rng: Rng) -> Mutation:
        found = [pair for pair in draft.texts(metal) if not pair[0].string.startswith("GND")]
        first = int(rng.integers(len(found)))
        one = found[first]
        others = [pair for number, pair in enumerate(found) if number != first]
        other = min(others, key=lambda p: abs(p[0].x - one[0].x) + abs(p[0].y - one[0].y))
        one[1].text, other[1].text = (
            kdb.Text(other[0].string, one[0].trans),
            kdb.Text(one[0].string, other[0].trans),
        )
        return Mutation(f"{one[0].string} and {other[0].string} swapped", (one[0].x / 1000, one[0].y / 1000))


swap_labels("wires swapped at pads", True)
swap_labels("fibre labels swapped", False)


def change_label(name: str, metal: bool, new: str | None, move: int = 0, ground: bool = False) -> None:
    """Register a label renamed, moved or, where ``new`` is None, deleted."""

    @kind(name)
    def changed(draft: Draft, rng: Rng) -> Mutation:
        found = [pair for pair in draft.texts(metal) if pair[0].string.startswith("GND") == ground]
        text, shape = choose(rng, found)
        if new is None:
            draft.top.shapes(draft.index("label")).erase(shape)
        else:
            to = new.format(text.string)
            shape.text = kdb.Text(to, kdb.Trans(kdb.Vector(text.x + move, text.y + move)))
        return Mutation(f"label {text.string!r} becomes {new!r}, moved by {move} nm", (text.x / 1000, text.y / 1000))


change_label("pad label missing", True, None)
change_label("ground label missing", True, None, ground=True)
change_label("fibre label missing", False, None)
change_label("pad label renamed", True, "{}x")
change_label("fibre label renamed", False, "X{}")
change_label("pad label off its pad", True, "{}", 70_000)
change_label("fibre label off its fibre", False, "{}", 60_000)
change_label("pad labelled as ground", True, "GND77")
change_label("pad label moved on its pad", True, "{}", 2_000)


@kind("pad label twice")
def label_twice(draft: Draft, rng: Rng) -> Mutation:
    found = [pair for pair in draft.texts(True) if not pair[0].string.startswith("GND")]
    one, other = (found[i] for i in rng.choice(len(found), 2, replace=False).tolist())
    other[1].text = kdb.Text(one[0].string, other[0].trans)
    return Mutation(f"label {one[0].string!r} in place of {other[0].string!r}", (other[0].x / 1000, other[0].y / 1000))


def on_pad(name: str, by: str) -> None:
    """Register a pad spoilt."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation:
        text, shape = choose(rng, [p for p in draft.texts(True)])
        half = round(float(draft.process.pads.size_um) * 500)
        box = kdb.Box(text.x - half, text.y - half, text.x + half, text.y + half)
        if by == "missing":
            draft.cut(draft.wire, box)
        elif by == "smaller":
            draft.cut(draft.wire, kdb.Box(box.left, box.top - 100, box.right, box.top))
            draft.cut(draft.wire, kdb.Box(box.left, box.bottom, box.right, box.bottom + 100))
        elif by == "smaller by 1 nm":
            draft.cut(draft.wire, kdb.Box(box.left, box.top - 1, box.right, box.top))
        elif by == "moved":
            draft.cut(draft.wire, box)
            draft.add(draft.wire, box.moved(5000, 5000))
            shape.text = kdb.Text(text.string, kdb.Trans(kdb.Vector(text.x + 5000, text.y + 5000)))
        else:
            draft.cut(draft.wire, kdb.Box(box.center().x - 100, box.bottom, box.center().x + 100, box.top))
        return Mutation(f"pad {text.string!r} {by}", (text.x / 1000, text.y / 1000))


on_pad("pad missing", "missing")
on_pad("pad smaller by 200 nm", "smaller")
on_pad("pad smaller by 1 nm", "smaller by 1 nm")
on_pad("pad moved by 5 um", "moved")
on_pad("pad cut in two", "cut in two")


@kind("all ground pads but one unlabelled")
def one_ground(draft: Draft, rng: Rng) -> Mutation:
    grounds = [pair for pair in draft.texts(True) if pair[0].string.startswith("GND")]
    keep = int(rng.integers(len(grounds)))
    for number, (_, shape) in enumerate(grounds):
        if number != keep:
            draft.top.shapes(draft.index("label")).erase(shape)
    text = grounds[keep][0]
    return Mutation("labels of all ground pads but one deleted", (text.x / 1000, text.y / 1000))


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
def over_grating(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, draft.places("grating_coupler")).box
    draft.add(draft.wire, kdb.Box(box.center().x, box.bottom - 30_000, box.center().x + 6000, box.top + 30_000))
    return Mutation("metal over a grating", um(box))


def via(name: str, by: str) -> None:
    """Register vias spoilt."""

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


def bump(name: str, by: str) -> None:
    """Register a bump's opening spoilt."""

    @kind(name)
    def spoilt(draft: Draft, rng: Rng) -> Mutation | None:
        if not draft.has("bump"):
            return None
        polygon = choose(rng, sorted(draft.base.region("bump").each(), key=str))
        box = polygon.bbox()
        draft.cut("bump", box)
        if by == "moved":
            draft.add("bump", polygon.moved(4000, 0))
        elif by == "square":
            draft.add("bump", box)
        elif by == "smaller":
            draft.add("bump", kdb.Region(polygon).sized(-500))
        elif by == "twice":
            draft.add("bump", polygon)
            draft.add("bump", polygon.moved(300_000, 300_000))
        return Mutation(f"a bump's opening {by}", um(box))


bump("bump missing", "missing")
bump("bump moved by 4 um", "moved")
bump("bump square", "square")
bump("bump smaller", "smaller")
bump("bump on no landing", "twice")


def pin(name: str, by: str) -> None:
    """Register the metal of a photodiode's or modulator's pins spoilt."""

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
