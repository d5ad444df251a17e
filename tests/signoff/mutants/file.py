"""Faults of the file: outline, layers, grid, hierarchy."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.kinds import kind

Rng = np.random.Generator


def dies(draft: Draft) -> list[kdb.Box]:
    """The outlines."""
    return [p.bbox() for p in draft.base.region("outline").each()]


def outside(name: str, layer: str, straddling: bool) -> None:
    """Register a shape that leaves the outline."""

    @kind(name)
    def out(draft: Draft, rng: Rng) -> Mutation:
        target = {"metal": draft.wire}.get(layer, layer)
        die = max(dies(draft), key=lambda b: b.right)
        y = int(rng.integers(die.bottom + 200_000, die.top - 200_000))
        left = die.right - 20_000 if straddling else die.right + 30_000
        shape = kdb.Box(left, y, left + 40_000, y + 5000)
        draft.add(target, shape)
        return Mutation(f"{target} outside the outline", um(shape))


outside("metal across the outline", "metal", True)
outside("silicon across the outline", "core", True)
outside("metal outside the outline", "metal", False)
outside("heater outside the outline", "heater", False)


@kind("shape in the keep-out of the outline")
def keep_out(draft: Draft, rng: Rng) -> Mutation:
    die = choose(rng, dies(draft))
    reach = round(float(draft.process.floorplan.keepout_um) * 1000)
    shape = kdb.Box(die.left + reach - 1, die.center().y, die.left + reach + 20_000, die.center().y + 20_000)
    draft.add(draft.wire, shape)
    return Mutation("metal 1 nm within the keep-out", um(shape))


@kind("shape on an unknown layer")
def unknown(draft: Draft, rng: Rng) -> Mutation:
    box = draft.top.bbox()
    x = int(rng.integers(box.left + 200_000, box.right - 200_000))
    shape = kdb.Box(x, box.center().y, x + 1000, box.center().y + 1000)
    draft.top.shapes(draft.layout.layer(200, int(rng.integers(1, 10)))).insert(shape)
    return Mutation("a shape on layer 200", um(shape))


@kind("known layer with another datatype")
def datatype(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    number = draft.process.gds_layers["core"][0]
    region = kdb.Region(place.cell.begin_shapes_rec(draft.index("core")))
    target = draft.layout.create_cell("BEND_5")
    target.shapes(draft.layout.layer(number, 5)).insert(region)
    draft.replace(place, [(target.cell_index(), place.path[-1][1])])
    return Mutation("a bend on the core's layer with datatype 5", um(place.box))


@kind("off grid")
def off_grid(draft: Draft, rng: Rng) -> Mutation:
    options = kdb.SaveLayoutOptions()
    options.format, options.dbu = "GDS2", draft.layout.dbu / 2
    fine = kdb.Layout()
    fine.read_bytes(draft.layout.write_bytes(options))
    draft.layout, draft.top, draft.tops = fine, fine.top_cell(), {fine.top_cell().cell_index()}
    place = choose(rng, draft.places("bend", "mmi2x2"))
    number, at = place.path[-1]
    draft.replace(place, [(number, kdb.Trans(0, 1) * at)])
    x, y = um(place.box)
    return Mutation(f"a {place.cell.name} moved by half a nanometre", (x / 2, y / 2))


@kind("database unit of 5 nm")
def coarse(draft: Draft, rng: Rng) -> Mutation:
    draft.layout.dbu = 0.005
    return Mutation("everything five times as large", um(draft.top.bbox()))


@kind("outline missing")
def no_outline(draft: Draft, rng: Rng) -> Mutation:
    draft.top.shapes(draft.index("outline")).clear()
    return Mutation("outline deleted", um(draft.top.bbox()))


@kind("outline smaller")
def small_outline(draft: Draft, rng: Rng) -> Mutation:
    die = choose(rng, dies(draft))
    draft.cut("outline", kdb.Box(die.left, die.bottom, die.center().x, die.top))
    return Mutation("outline cut in half", um(die))


@kind("outline with a corner cut off")
def odd_outline(draft: Draft, rng: Rng) -> Mutation:
    die = choose(rng, dies(draft))
    draft.cut("outline", kdb.Box(die.left, die.bottom, die.left + 1000, die.bottom + 1000))
    return Mutation("a corner of the outline cut off", um(die))


@kind("second outline")
def second_outline(draft: Draft, rng: Rng) -> Mutation:
    die = choose(rng, dies(draft))
    draft.add("outline", die.moved(die.width() // 2, 0))
    return Mutation("a second outline over the first", um(die))


@kind("polygon that crosses itself")
def crossing(draft: Draft, rng: Rng) -> Mutation:
    box = draft.clear_spot(rng, 20_000)
    points = [(0, 0), (20_000, 20_000), (20_000, 0), (0, 15_000)]
    shape = kdb.Polygon([kdb.Point(box.left + u, box.bottom + v) for u, v in points], True)
    draft.top.shapes(draft.index(draft.wire)).insert(shape)
    return Mutation("a polygon that crosses itself", um(box))


@kind("sharp corner")
def sharp(draft: Draft, rng: Rng) -> Mutation:
    box = draft.clear_spot(rng, 90_000)
    draft.add(
        draft.wire, kdb.Polygon([box.p1, kdb.Point(box.right, box.bottom + 30_000), kdb.Point(box.right, box.bottom)])
    )
    return Mutation("a corner of 18°", um(box))


@kind("two top cells")
def two_tops(draft: Draft, rng: Rng) -> Mutation:
    other = draft.layout.create_cell("OTHER")
    draft.tops.add(other.cell_index())
    other.shapes(draft.index("core")).insert(kdb.Box(0, 0, 5000, 5000))
    return Mutation("a second top cell", (0.0, 0.0))


@kind("cell lost")
def lost(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2", "mmi1x2", "bend", "phase_shifter", "terminator"))
    mutation = Mutation(f"cell {place.cell.name} deleted everywhere", um(place.box))
    draft.layout.delete_cell(place.cell.cell_index())
    return mutation


@kind("cell magnified")
def magnified(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2", "terminator"))
    target = place.cell.dup()
    target.shapes(draft.index("core")).transform(kdb.ICplxTrans(1.001))
    draft.replace(place, [(target.cell_index(), place.path[-1][1])])
    return Mutation(f"a {place.cell.name} magnified by 0.1 %", um(place.box))


@kind("text of nothing")
def remark(draft: Draft, rng: Rng) -> Mutation:
    box = draft.top.bbox()
    at = kdb.Vector(box.center().x + int(rng.integers(100_000)), box.bottom + 30_000)
    draft.top.shapes(draft.index("label")).insert(kdb.Text("a remark", kdb.Trans(at)))
    return Mutation("a text beside everything", (at.x / 1000, at.y / 1000))


@kind("drawn label")
def drawn(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("bend"))
    box = place.box
    draft.add("label", kdb.Box(box.right + 3000, box.top + 3000, box.right + 6000, box.top + 6000))
    return Mutation("a drawn label near a guide", um(box))
