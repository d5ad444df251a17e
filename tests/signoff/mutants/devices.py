"""Faults of devices: stretched, moved, replaced, turned, deleted, duplicated, swapped."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, Place, choose, um
from mutants.kinds import kind

Rng = np.random.Generator
DEVICES = ("mmi2x2", "mmi1x2", "terminator", "grating_coupler", "crossing", "photodiode", "modulator", "edge_coupler")
LOOK_ALIKE = {
    "mmi2x2": ("mmi1x2", "crossing", "directional_coupler", "monitor_tap"),
    "mmi1x2": ("mmi2x2", "crossing", "taper", "terminator"),
    "crossing": ("mmi2x2", "terminator", "taper"),
    "terminator": ("taper", "grating_coupler"),
    "grating_coupler": ("terminator", "edge_coupler"),
    "photodiode": ("modulator", "terminator"),
    "modulator": ("photodiode", "taper"),
    "edge_coupler": ("terminator", "taper", "grating_coupler"),
}


def some(draft: Draft, rng: Rng, *kinds: str) -> tuple[str, Place] | None:
    """One device of one of the kinds that the chip has."""
    there = [k for k in kinds if draft.places(k)]
    if not there:
        return None
    name = choose(rng, there)
    return name, choose(rng, draft.places(name))


def stretch(name: str, by: int, kinds: tuple[str, ...], shared: bool = False) -> None:
    """Register a device lengthened in its middle."""

    @kind(name)
    def stretched(draft: Draft, rng: Rng) -> Mutation | None:
        found = some(draft, rng, *kinds)
        if found is None:
            return None
        device, place = found
        middle = place.cell.bbox().center().x

        def longer(shapes: kdb.Region) -> kdb.Region:
            return kdb.Region([stretched_polygon(p, middle, by) for p in shapes.each()])

        for layer in ("core", draft.etch):
            if not kdb.Region(place.cell.begin_shapes_rec(draft.index(layer))).is_empty() and layer == "core":
                draft.reshape(place, layer, longer, shared)
        return Mutation(f"a {device} lengthened by {by} nm", um(place.box))


def stretched_polygon(polygon: kdb.Polygon, middle: int, by: int) -> kdb.Polygon:
    """A polygon with the points to the right of its middle moved to the right."""
    return kdb.Polygon([kdb.Point(p.x + by if p.x > middle else p.x, p.y) for p in polygon.each_point_hull()])


stretch("coupler lengthened by 5 nm", 5, ("mmi2x2",))
stretch("coupler lengthened by 1 nm", 1, ("mmi2x2",))
stretch("coupler lengthened by 5 nm in a shared cell", 5, ("mmi2x2",), shared=True)
stretch("splitter lengthened by 5 nm", 5, ("mmi1x2",))
stretch("crossing lengthened by 5 nm", 5, ("crossing",))
stretch("terminator lengthened by 100 nm", 100, ("terminator",))
stretch("photodiode or modulator lengthened by 5 nm", 5, ("photodiode", "modulator"))
stretch("grating coupler lengthened by 10 nm", 10, ("grating_coupler",))
stretch("edge coupler lengthened by 100 nm", 100, ("edge_coupler",))


@kind("coupler widened by 10 nm")
def widened(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2"))

    def wider(shapes: kdb.Region) -> kdb.Region:
        body = shapes.sized(-600).sized(600)
        return shapes + body.sized(0, 5, 2)

    draft.reshape(place, "core", wider)
    return Mutation("a coupler's body 10 nm wider", um(place.box))


def move(name: str, dx: int, dy: int, kinds: tuple[str, ...]) -> None:
    """Register a device moved within its parent cell."""

    @kind(name)
    def moved(draft: Draft, rng: Rng) -> Mutation | None:
        found = some(draft, rng, *kinds)
        if found is None:
            return None
        device, place = found
        number, at = place.path[-1]
        sign = int(rng.choice([-1, 1]))
        draft.replace(place, [(number, kdb.Trans(sign * dx, sign * dy) * at)])
        return Mutation(f"a {device} moved by ({sign * dx}, {sign * dy}) nm", um(place.box))


move("coupler moved by 1 nm along", 1, 0, ("mmi2x2",))
move("coupler moved by 1 nm aside", 0, 1, ("mmi2x2",))
move("splitter moved by 1 nm", 1, 0, ("mmi1x2",))
move("crossing moved by 1 nm", 0, 1, ("crossing",))
move("device moved by 500 nm", 0, 500, DEVICES)
move("device moved by 3 um", 3000, 0, DEVICES)
move("grating coupler moved by 1 nm", 1, 0, ("grating_coupler",))
move("edge coupler moved by 1 nm", 1, 0, ("edge_coupler",))
move("photodiode or modulator moved by 1 nm", 0, 1, ("photodiode", "modulator"))
move("interferometer moved by 1 nm", 1, 0, ("mzi_unit", "mzi_dummy", "attenuator"))
move("interferometer moved by 1 um aside", 0, 1000, ("mzi_unit", "mzi_dummy", "attenuator"))


@kind("device replaced by another")
def replaced(draft: Draft, rng: Rng) -> Mutation | None:
    found = some(draft, rng, *LOOK_ALIKE)
    if found is None:
        return None
    device, place = found
    known = [k for k in LOOK_ALIKE[device] if k in draft.process.devices]
    other = draft.cell_of(choose(rng, known))
    move = place.path[-1][1]
    shift = place.cell.bbox().transformed(move).p1 - other.bbox().transformed(move).p1
    draft.replace(place, [(other.cell_index(), kdb.Trans(shift) * move)])
    return Mutation(f"a {device} replaced by a {other.name}", um(place.box))


@kind("coupler replaced by a directional coupler")
def coupler_replaced(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2"))
    other, at = draft.cell_of("directional_coupler"), place.path[-1][1]
    shift = place.cell.bbox().transformed(at).center() - other.bbox().transformed(at).center()
    draft.replace(place, [(other.cell_index(), kdb.Trans(shift) * at)])
    return Mutation("an MMI replaced by a directional coupler", um(place.box))


@kind("interferometer replaced by another")
def interferometer_replaced(draft: Draft, rng: Rng) -> Mutation | None:
    kinds = [k for k in ("mzi_unit", "mzi_dummy", "attenuator") if draft.places(k)]
    name = choose(rng, kinds)
    others = [k for k in kinds if k != name]
    if not others:
        return None
    place, other = choose(rng, draft.places(name)), draft.places(choose(rng, others))[0].cell
    draft.replace(place, [(other.cell_index(), place.path[-1][1])])
    return Mutation(f"a {name} replaced by a {other.name}", um(place.box))


def turn(name: str, turned: kdb.Trans, kinds: tuple[str, ...]) -> None:
    """Register a device turned about its middle."""

    @kind(name)
    def turned_about(draft: Draft, rng: Rng) -> Mutation | None:
        found = some(draft, rng, *kinds)
        if found is None:
            return None
        device, place = found
        number, at = place.path[-1]
        new = about_its_middle(place.cell.bbox(), at, turned)
        draft.replace(place, [(number, new)])
        return Mutation(f"a {device} turned by {turned}", um(place.box))


def about_its_middle(box: kdb.Box, at: kdb.Trans, turned: kdb.Trans) -> kdb.Trans:
    """A cell's transformation after a rotation about the centre of its bounding box."""
    new = at * turned
    return kdb.Trans(box.transformed(at).center() - box.transformed(new).center()) * new


for device, kinds in (
    ("coupler", ("mmi2x2",)),
    ("splitter", ("mmi1x2",)),
    ("crossing", ("crossing",)),
    ("terminator", ("terminator",)),
    ("grating coupler", ("grating_coupler",)),
    ("edge coupler", ("edge_coupler",)),
    ("photodiode or modulator", ("photodiode", "modulator")),
    ("interferometer", ("mzi_unit", "mzi_dummy", "attenuator")),
):
    turn(f"{device} mirrored about its length", kdb.Trans.M0, kinds)
    turn(f"{device} mirrored about its width", kdb.Trans.M90, kinds)
    turn(f"{device} rotated by 90 degrees", kdb.Trans.R90, kinds)
    turn(f"{device} rotated by 180 degrees", kdb.Trans.R180, kinds)


@kind("coupler rotated by 1 degree")
def slanted(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2"))
    middle = place.cell.bbox().center()
    turned = kdb.ICplxTrans(kdb.Trans(middle - kdb.Point())) * kdb.ICplxTrans(1, 1, False, 0, 0)
    turned = turned * kdb.ICplxTrans(kdb.Trans(kdb.Point() - middle))
    draft.reshape(place, "core", lambda shapes: shapes.transformed(turned))
    return Mutation("a coupler rotated by 1°", um(place.box))


def delete(name: str, kinds: tuple[str, ...]) -> None:
    """Register a device deleted."""

    @kind(name)
    def deleted(draft: Draft, rng: Rng) -> Mutation | None:
        found = some(draft, rng, *kinds)
        if found is None:
            return None
        draft.replace(found[1], [])
        return Mutation(f"a {found[0]} deleted", um(found[1].box))


delete("coupler deleted", ("mmi2x2",))
delete("splitter or crossing deleted", ("mmi1x2", "crossing"))
delete("terminator deleted", ("terminator",))
delete("grating coupler deleted", ("grating_coupler",))
delete("edge coupler deleted", ("edge_coupler",))
delete("photodiode or modulator deleted", ("photodiode", "modulator"))
delete("interferometer deleted", ("mzi_unit", "mzi_dummy", "attenuator"))


def duplicate(name: str, dx: int, dy: int) -> None:
    """Register a device drawn twice."""

    @kind(name)
    def duplicated(draft: Draft, rng: Rng) -> Mutation | None:
        device, place = some(draft, rng, *DEVICES)
        number, at = place.path[-1]
        draft.replace(place, [(number, at), (number, kdb.Trans(dx, dy) * at)])
        return Mutation(f"a {device} drawn twice, ({dx}, {dy}) nm apart", um(place.box))


duplicate("device duplicated in place", 0, 0)
duplicate("device duplicated 1 nm aside", 0, 1)
duplicate("device duplicated 30 um aside", 0, 30_000)


def column(name: str, dx: int, dy: int) -> None:
    """Register a shift of a column of a mesh."""

    @kind(name)
    def shifted(draft: Draft, rng: Rng) -> Mutation:
        cells = draft.places("mzi_unit", "mzi_dummy")
        left = choose(rng, sorted({p.box.left for p in cells}))
        # replacing one member dissolves its array, so members are replaced one at a time
        for place in [p for p in cells if p.box.left == left]:
            number, at = place.path[-1]
            draft.replace(place, [(number, kdb.Trans(dx, dy) * at)])
        return Mutation(f"a mesh column shifted by ({dx}, {dy}) nm", (left / 1000, cells[0].box.center().y / 1000))


column("mesh column shifted by 10 nm", 10, 0)
column("mesh column shifted by one mode", 0, 52_000)
column("mesh column shifted aside by 1 nm", 0, 1)


@kind("grating line missing")
def line_missing(draft: Draft, rng: Rng) -> Mutation | None:
    found = some(draft, rng, "grating_coupler")
    if found is None:
        return None
    place = found[1]

    def without(shapes: kdb.Region) -> kdb.Region:
        lines = list(shapes.each())
        del lines[int(rng.integers(len(lines)))]
        return kdb.Region(lines)

    draft.reshape(place, draft.etch, without)
    return Mutation("a line of a grating is missing", um(place.box))


@kind("grating line thinned by 2 nm")
def line_thinned(draft: Draft, rng: Rng) -> Mutation | None:
    found = some(draft, rng, "grating_coupler")
    if found is None:
        return None
    place = found[1]

    def thinned(shapes: kdb.Region) -> kdb.Region:
        lines = list(shapes.each())
        number = int(rng.integers(len(lines)))
        lines[number] = next(kdb.Region(lines[number]).sized(-1, 0, 2).each())
        return kdb.Region(lines)

    draft.reshape(place, draft.etch, thinned)
    return Mutation("a line of a grating 2 nm thinner", um(place.box))


@kind("gratings of a shared cell moved by 1 nm")
def gratings_moved(draft: Draft, rng: Rng) -> Mutation | None:
    found = some(draft, rng, "grating_coupler")
    if found is None:
        return None
    place = found[1]
    draft.reshape(place, draft.etch, lambda shapes: shapes.moved(1, 0), shared=True)
    return Mutation("the etch of all gratings moved by 1 nm", um(place.box))


@kind("hole in a device")
def hole(draft: Draft, rng: Rng) -> Mutation:
    device, place = some(draft, rng, *DEVICES)
    inner = kdb.Region(place.cell.begin_shapes_rec(draft.index("core"))).merged().sized(-150)
    at = next(choose(rng, list(inner.each())).each_point_hull())
    draft.reshape(
        place, "core", lambda shapes: shapes - kdb.Region(kdb.Box(at.x - 50, at.y - 50, at.x + 50, at.y + 50))
    )
    return Mutation(f"a hole of 100 nm in a {device}", um(place.box))


@kind("devices swapped")
def swapped(draft: Draft, rng: Rng) -> Mutation | None:
    pairs = [(a, b) for a, b in (("mmi2x2", "mmi1x2"), ("photodiode", "modulator"), ("mmi1x2", "terminator"))]
    pairs = [(a, b) for a, b in pairs if draft.places(a) and draft.places(b)]
    names = choose(rng, pairs)
    one, other = (choose(rng, draft.places(name)) for name in names)
    draft.replace(one, [(other.path[-1][0], one.path[-1][1])])
    draft.replace(other, [(one.path[-1][0], other.path[-1][1])])
    return Mutation(f"a {names[0]} and a {names[1]} swapped", um(one.box))
