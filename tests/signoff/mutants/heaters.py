"""Faults of heaters: cut, shorted, moved off their guides, thinned, swapped, without contacts."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, Place, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def heater(draft: Draft, rng: Rng) -> tuple[Place, kdb.Box]:
    """A phase shifter and, in its cell, its heater."""
    place = choose(rng, draft.places("phase_shifter"))
    return place, kdb.Region(place.cell.begin_shapes_rec(draft.index("heater"))).bbox()


def free(draft: Draft, place: Place, box: kdb.Box) -> kdb.Box:
    """The part of a heater that is not under a contact."""
    metal = kdb.Region(place.cell.begin_shapes_rec(draft.index(draft.contact))).merged()
    return (kdb.Region(box) - metal).bbox()


def cut_by(name: str, length: int, under_contact: bool = False) -> None:
    """Register a cut through a heater."""

    @kind(name)
    def cut(draft: Draft, rng: Rng) -> Mutation:
        place, box = heater(draft, rng)
        open_box = free(draft, place, box)
        low, high = (box.left, open_box.left) if under_contact else (open_box.left, open_box.right)
        at = int(rng.integers(low + 1, high - length))
        gap = kdb.Region(kdb.Box(at, box.bottom, at + length, box.top))
        draft.reshape(place, "heater", lambda shapes: shapes - gap)
        return Mutation(f"{length} nm cut out of a heater", um(place.box))


cut_by("heater cut by 1 nm", 1)
cut_by("heater cut by 1 um", 1000)
cut_by("heater cut under its contact", 100, under_contact=True)


def thin(name: str, by: int, length: int | None, shared: bool = False) -> None:
    """Register a heater thinned on one side, over its whole length or a part."""

    @kind(name)
    def thinned(draft: Draft, rng: Rng) -> Mutation:
        place, box = heater(draft, rng)
        open_box = free(draft, place, box)
        left = box.left if length is None else int(rng.integers(open_box.left, open_box.right - length))
        right = box.right if length is None else left + length
        side = kdb.Region(kdb.Box(left, box.top - by, right, box.top))
        draft.reshape(place, "heater", lambda shapes: shapes - side, shared)
        return Mutation(f"{by} nm taken from a heater's side", um(place.box))


thin("heater thinned by 1 nm", 1, None)
thin("heater thinned by 100 nm", 100, None)
thin("heater thinned by 2 nm on a part", 2, 5000)
thin("heater notched", 400, 1000)
thin("heater thinned by 100 nm in a shared cell", 100, None, shared=True)


def moved(name: str, layers: tuple[str, ...], dx: int, dy: int) -> None:
    """Register a heater moved, alone or with its contacts."""

    @kind(name)
    def move(draft: Draft, rng: Rng) -> Mutation:
        place, _ = heater(draft, rng)
        copy = place.cell.dup()
        for layer in layers or draft.process.gds_layers:
            if layer != "core":
                shapes = copy.shapes(draft.index(layer))
                region = kdb.Region(shapes).moved(dx, dy)
                shapes.clear()
                shapes.insert(region)
        draft.replace(place, [(copy.cell_index(), place.path[-1][1])])
        return Mutation(f"a heater moved by ({dx}, {dy}) nm", um(place.box))


moved("heater moved off its guide by 2 nm", ("heater",), 0, 2)
moved("heater moved off its guide by 20 nm", ("heater",), 0, 20)
moved("heater moved off its guide", ("heater",), 0, 3000)
moved("heater moved along by 100 nm", ("heater",), 100, 0)
moved("heater moved along by 3 um", ("heater",), 3000, 0)
moved("heater moved with its contacts", (), 1000, 0)
moved("heater moved with its contacts aside", (), 0, 1000)


@kind("heater lengthened by 100 nm")
def lengthened(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    end = free(draft, place, box).right
    part = kdb.Box(end, box.bottom - 30_000, end + 100, box.top + 30_000).transformed(place.trans)
    for layer in {draft.contact, draft.wire}:
        draft.cut(layer, part)
    return Mutation("a heater's contact begins 100 nm later", um(place.box))


@kind("heater deleted")
def deleted(draft: Draft, rng: Rng) -> Mutation:
    place, _ = heater(draft, rng)
    draft.reshape(place, "heater", lambda shapes: kdb.Region())
    return Mutation("a heater deleted", um(place.box))


@kind("phase shifter deleted, its guide left")
def unheated(draft: Draft, rng: Rng) -> Mutation:
    place, _ = heater(draft, rng)
    copy = draft.layout.create_cell("BARE")
    copy.shapes(draft.index("core")).insert(kdb.Region(place.cell.begin_shapes_rec(draft.index("core"))))
    draft.replace(place, [(copy.cell_index(), place.path[-1][1])])
    return Mutation("a phase shifter replaced by its guide", um(place.box))


@kind("heater shorted by metal over it")
def shorted_over(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    bar = free(draft, place, box).enlarged(1000, 2000)
    draft.add(draft.contact, bar.transformed(place.trans))
    return Mutation("a heater covered by metal", um(place.box))


@kind("heater shorted beside it")
def shorted_beside(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    metal = kdb.Region(place.cell.begin_shapes_rec(draft.index(draft.contact)))
    bar = kdb.Box(
        free(draft, place, box).left - 1000,
        metal.bbox().top - 3000,
        free(draft, place, box).right + 1000,
        metal.bbox().top,
    )
    draft.add(draft.contact, bar.transformed(place.trans))
    return Mutation("the contacts of a heater joined in metal", um(place.box))


@kind("metal across a heater")
def across(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    at = free(draft, place, box).center()
    draft.add(
        draft.contact, kdb.Box(at.x - 2500, box.bottom - 2500, at.x + 2500, box.top + 2500).transformed(place.trans)
    )
    return Mutation("metal across a heater", um(place.box))


@kind("heater joined to another")
def joined(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    bar = kdb.Box(box.center().x, box.bottom, box.center().x + 1000, box.bottom + 52_000 + 1000)
    draft.add("heater", bar.transformed(place.trans))
    return Mutation("heater drawn from one heater to the next row", um(place.box))


@kind("second heater beside a guide")
def second(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    draft.add("heater", box.moved(0, 12_000).transformed(place.trans))
    return Mutation("a second heater 12 µm beside a heater", um(place.box))


@kind("heater over a foreign guide")
def foreign(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    box = place.box
    draft.add("heater", kdb.Box(box.left - 10_000, box.center().y - 450, box.right + 10_000, box.center().y + 450))
    return Mutation("a heater without contacts over a bend", um(box))


@kind("contact of a heater deleted")
def contactless(draft: Draft, rng: Rng) -> Mutation:
    place, _ = heater(draft, rng)
    metal = kdb.Region(place.cell.begin_shapes_rec(draft.index(draft.contact))).merged()
    contact = choose(rng, sorted((p.bbox() for p in metal.each()), key=str))
    draft.cut(draft.contact, contact.transformed(place.trans))
    return Mutation("a contact of a heater deleted", um(place.box))


@kind("contact of a heater shortened")
def short_contact(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    copy = place.cell.dup()
    for layer in ("heater",):
        shapes = copy.shapes(draft.index(layer))
        shapes.clear()
        shapes.insert(kdb.Box(box.left, box.bottom, box.right - 3000, box.top))
    draft.replace(place, [(copy.cell_index(), place.path[-1][1])])
    return Mutation("a heater ends 3 µm before the end of its contact", um(place.box))


@kind("phase shifter mirrored about its width")
def mirrored(draft: Draft, rng: Rng) -> Mutation:
    place, _ = heater(draft, rng)
    number, at = place.path[-1]
    new = at * kdb.Trans.M90
    shift = place.cell.bbox().transformed(at).center() - place.cell.bbox().transformed(new).center()
    draft.replace(place, [(number, kdb.Trans(shift) * new)])
    return Mutation("a phase shifter mirrored", um(place.box))


@kind("heater swapped with its neighbour's layer")
def swapped_layer(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    copy = place.cell.dup()
    copy.shapes(draft.index("heater")).clear()
    copy.shapes(draft.index(draft.contact)).insert(box)
    draft.replace(place, [(copy.cell_index(), place.path[-1][1])])
    return Mutation("a heater drawn as metal", um(place.box))


@kind("guide under a heater bent")
def bent(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    at = free(draft, place, box).center()
    part = kdb.Box(at.x - 3000, at.y - draft.width // 2, at.x + 3000, at.y + draft.width // 2)
    draft.reshape(place, "core", lambda shapes: (shapes - kdb.Region(part)) + kdb.Region(part.moved(0, 3)))
    return Mutation("a guide's part under a heater moved aside by 3 nm", um(place.box))


def opening(name: str, width: int, length: int, shared: bool = False) -> None:
    """Register a hole in a heater between its contacts."""

    @kind(name)
    def opened(draft: Draft, rng: Rng) -> Mutation:
        place, box = heater(draft, rng)
        open_box = free(draft, place, box)
        at = int(rng.integers(open_box.left + 1, open_box.right - length))
        low = box.center().y - width // 2
        gap = kdb.Region(kdb.Box(at, low, at + length, low + width))
        draft.reshape(place, "heater", lambda shapes: shapes - gap, shared)
        return Mutation(f"a hole of {length} by {width} nm in a heater", um(place.box))


opening("hole in a heater of 1 nm", 1, 1)
opening("hole in a heater of 100 nm", 100, 100)
opening("hole in a heater of 600 nm", 600, 600)
opening("slit along a heater", 50, 20_000)
opening("hole in a heater of a shared cell", 100, 100, shared=True)


@kind("hole in a heater under its contact")
def under_contact(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    gap = kdb.Region(kdb.Box(box.left + 2000, box.center().y - 200, box.left + 2400, box.center().y + 200))
    draft.reshape(place, "heater", lambda shapes: shapes - gap)
    return Mutation("a hole of 400 nm in a heater under its contact", um(place.box))


@kind("heater tapered by 10 nm")
def tapered(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    points = [(box.left, box.top), (box.center().x, box.top + 10), (box.right, box.top)]
    more = kdb.Region(kdb.Polygon([kdb.Point(*point) for point in points]))
    draft.reshape(place, "heater", lambda shapes: shapes + more)
    return Mutation("a heater 10 nm wider in its middle", um(place.box))


@kind("heater widened by 1 nm")
def widened(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    draft.reshape(place, "heater", lambda shapes: kdb.Region(kdb.Box(box.left, box.bottom, box.right, box.top + 1)))
    return Mutation("a heater 1 nm wider", um(place.box))


def wire_over(name: str, width: int, upper: bool) -> None:
    """Register a wire across a heater, longer than the heater is wide."""

    @kind(name)
    def crossed(draft: Draft, rng: Rng) -> Mutation | None:
        if upper and draft.wire == draft.contact:
            return None
        place, box = heater(draft, rng)
        at = free(draft, place, box).center().x
        bar = kdb.Box(at, box.bottom - 4000, at + width, box.top + 4000)
        draft.add(draft.wire if upper else draft.contact, bar.transformed(place.trans))
        return Mutation(f"a wire of {width} nm across a heater", um(place.box))


wire_over("wire of 2 um across a heater", 2000, False)
wire_over("wire of 1 nm across a heater", 1, False)
wire_over("wire of the upper metal across a heater", 4000, True)


@kind("wire along the edge of a heater")
def along_edge(draft: Draft, rng: Rng) -> Mutation:
    place, box = heater(draft, rng)
    at = free(draft, place, box).center().x
    bar = kdb.Box(at, box.top - 1, at + 4000, box.top + 4000)
    draft.add(draft.contact, bar.transformed(place.trans))
    return Mutation("metal that overlaps a heater's side by 1 nm", um(place.box))
