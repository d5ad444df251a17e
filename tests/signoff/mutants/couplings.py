"""Faults of couplings: silicon beside guides, arms drawn together, layers and marks over devices."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, Place, choose, um
from mutants.guides import arms, curve, straights
from mutants.kinds import kind

Rng = np.random.Generator
# Chords of a drawn curve: few, because the rule of guide space compares all pairs of chords.
CHORDS = 100


def beside(name: str, gap: int, length_um: float, arm: bool = True) -> None:
    """Register a second guide beside an arm, joined to nothing."""

    @kind(name)
    def second(draft: Draft, rng: Rng) -> Mutation | None:
        span = round(1000 * length_um)
        found = arms(draft, span) if arm else straights(draft, length_um + 1)
        if not found:
            return None
        box = choose(rng, found)
        lying, side = box.width() > box.height(), int(rng.choice([-1, 1]))
        at = int(rng.integers(0, max(box.width(), box.height()) - span))
        step = side * (draft.width + gap)
        part = (
            kdb.Box(box.left + at, box.bottom + step, box.left + at + span, box.top + step)
            if lying
            else kdb.Box(box.left + step, box.bottom + at, box.right + step, box.bottom + at + span)
        )
        draft.add("core", part)
        return Mutation(f"a second guide {gap} nm beside a guide over {length_um:g} µm", um(part))


for nanometres in (200, 300, 500, 1000, 3000):
    beside(f"second guide {nanometres} nm beside an arm", nanometres, 20.0)
beside("second guide 300 nm beside a guide", 300, 20.0, arm=False)


@kind("ring beside a guide")
def ring(draft: Draft, rng: Rng) -> Mutation:
    box = choose(rng, [b for b in straights(draft, 30.0) if b.width() > b.height()])
    radius = round(1000 * float(draft.process.guide.radius_um))
    centre = kdb.Point(box.center().x, box.top + 300 + draft.width // 2 + radius)
    outer, inner = (
        kdb.Region(kdb.Polygon.ellipse(kdb.Box(centre.x - r, centre.y - r, centre.x + r, centre.y + r), CHORDS))
        for r in (radius + draft.width // 2, radius - draft.width // 2)
    )
    draft.add("core", outer - inner)
    return Mutation("a ring 300 nm beside a guide", um(centre))


@kind("guide between terminators beside a guide")
def terminated(draft: Draft, rng: Rng) -> Mutation | None:
    found = [b for b in straights(draft, 60.0) if b.width() > b.height()]
    if not found or not draft.places("terminator"):
        return None
    box = choose(rng, found)
    end = draft.places("terminator")[0]
    y = box.top + 300 + draft.width // 2
    left, right = box.center().x - 10_000, box.center().x + 10_000
    draft.add("core", kdb.Box(left, y - draft.width // 2, right, y - draft.width // 2 + draft.width))
    cell = end.cell
    # the terminator's guide begins at its cell's origin and leads to the right
    draft.top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(0, False, right, y)))
    draft.top.insert(kdb.CellInstArray(cell.cell_index(), kdb.Trans(2, False, left, y)))
    return Mutation("a guide between two terminators, 300 nm beside a guide", um(box))


def together(name: str, gap: int, away_um: float) -> None:
    """Register two arms that approach each other behind a coupler and part again, both by the same length."""

    @kind(name)
    def drawn(draft: Draft, rng: Rng) -> Mutation | None:
        # behind the coupler of an interferometer: two parallel arms of one place
        pairs = _parallel(draft, 30_000)
        if not pairs:
            return None
        low, high = choose(rng, pairs)
        left = max(low.left, high.left) + round(1000 * away_um)
        t = np.linspace(0, 1, CHORDS)
        for box, to in ((low, -(gap + draft.width) / 2), (high, (gap + draft.width) / 2)):
            middle = (low.center().y + high.center().y) / 2
            depth = middle + to - box.center().y
            y = box.center().y + depth * (1 - np.cos(2 * np.pi * t)) / 2
            draft.cut("core", kdb.Box(left, box.bottom, left + 28_000, box.top))
            draft.add("core", curve(np.stack([left + t * 28_000, y], axis=1), draft.width))
        return Mutation(f"two arms drawn together to {gap} nm", um(low + high))


def _parallel(draft: Draft, span: int) -> list[tuple[kdb.Box, kdb.Box]]:
    """Pairs of lying straight guides within 30 µm of each other with the same extent."""
    lying = [b for b in straights(draft, span / 1000 + 1) if b.width() > b.height()]
    return [
        (a, b)
        for a in lying
        for b in lying
        if a.top < b.bottom <= a.top + 30_000 and min(a.right, b.right) - max(a.left, b.left) > span
    ]


together("arms drawn together to 300 nm", 300, 0.5)
together("arms drawn together to 3 um", 3000, 0.5)


def pinched(name: str, gap: int) -> None:
    """Register the two arms of a 2×2 coupler led to a small gap before they part."""

    @kind(name)
    def pinch(draft: Draft, rng: Rng) -> Mutation | None:
        found = [p for p in draft.places("mmi2x2") if _right_arms(draft, p) is not None]
        if not found:
            return None
        place = choose(rng, found)
        window, low, high, x = _right_arms(draft, place)
        draft.cut("core", window)
        middle, span = (low + high) / 2, window.right - x
        t = np.linspace(0, 1, CHORDS)
        ends = _heights(draft, window)
        for start, stop, side in ((low, ends[0], -1), (high, ends[1], 1)):
            near = middle + side * (gap + draft.width) / 2
            first, last = t * 2, t * 2 - 1
            y = np.where(
                t < 0.5,
                start + (near - start) * (1 - np.cos(np.pi * first)) / 2,
                near + (stop - near) * (1 - np.cos(np.pi * last)) / 2,
            )
            draft.add("core", curve(np.stack([x + t * span, y], axis=1), draft.width))
        return Mutation(f"the arms of a coupler led together to {gap} nm", um(window))


def _right_arms(draft: Draft, place: Place) -> tuple[kdb.Box, float, float, int] | None:
    """The window behind a lying coupler in which its two arms part, and where they begin; None if there are none."""
    box = place.box
    if box.width() < box.height():
        return None
    core = draft.base.region("core")
    starts = _cross_sections(core, box.right, box)
    if len(starts) != 2:
        return None
    window = kdb.Box(box.right, box.bottom - 40_000, box.right + 45_000, box.top + 40_000)
    inside = (core & kdb.Region(window)).merged()
    own = inside.interacting(kdb.Region(kdb.Box(box.right, box.bottom, box.right + 1, box.top)))
    ends = _heights(draft, window) if own.count() == 2 else []
    if len(ends) != 2 or own.count() != inside.count():
        return None
    return window, starts[0], starts[1], box.right


def _cross_sections(core: kdb.Region, x: int, box: kdb.Box) -> list[float]:
    """Centres of the guides that cross a vertical line within a box."""
    cut = core & kdb.Region(kdb.Box(x, box.bottom - 1000, x + 1, box.top + 1000))
    return sorted(p.bbox().center().y for p in cut.merged().each())


def _heights(draft: Draft, window: kdb.Box) -> list[float]:
    cut = draft.base.region("core") & kdb.Region(kdb.Box(window.right - 1, window.bottom, window.right, window.top))
    return sorted(p.bbox().center().y for p in cut.merged().each())


pinched("arms of a coupler led together to 300 nm", 300)
pinched("arms of a coupler led together to 700 nm", 700)


def over(name: str, layer: str, kinds: tuple[str, ...], margin: int) -> None:
    """Register a layer drawn over a device."""

    @kind(name)
    def covered(draft: Draft, rng: Rng) -> Mutation | None:
        own = draft.etch if layer == "etch" else layer
        places = draft.places(*kinds)
        if own not in draft.process.gds_layers or not places:
            return None
        place = choose(rng, places)
        draft.add(own, place.box.enlarged(margin, margin))
        return Mutation(f"{own} over a {place.cell.name}", um(place.box))


over("slab over a coupler", "slab", ("mmi2x2",), 6000)
over("slab over an interferometer", "slab", ("mzi_unit", "mzi_dummy", "attenuator"), 6000)
over("slab over a splitter or crossing", "slab", ("mmi1x2", "crossing"), 6000)
over("slab over a terminator", "slab", ("terminator",), 6000)
over("slab over a grating", "slab", ("grating_coupler",), 6000)
over("etch over a coupler", "etch", ("mmi2x2",), 300)
over("etch over a splitter or crossing", "etch", ("mmi1x2", "crossing"), 300)
over("etch over a terminator", "etch", ("terminator",), 300)
over("etch over a whole grating", "etch", ("grating_coupler",), 300)
over("mark of coupled guides over a coupler", "coupled", ("mmi2x2",), 0)
over("mark of coupled guides over an interferometer", "coupled", ("mzi_unit", "attenuator"), 0)


@kind("small etch in the body of a coupler")
def small_etch(draft: Draft, rng: Rng) -> Mutation:
    place = choose(rng, draft.places("mmi2x2"))
    draft.add(draft.etch, kdb.Box(-200, -200, 200, 200).moved(place.box.center() - kdb.Point()))
    return Mutation("an etched square of 400 nm in the body of a coupler", um(place.box))


@kind("hole of its layer in a coupler")
def layer_hole(draft: Draft, rng: Rng) -> Mutation | None:
    if "holes" not in draft.process.gds_layers:
        return None
    place = choose(rng, draft.places("mmi2x2"))
    draft.add("holes", kdb.Box(-150, -150, 150, 150).moved(place.box.center() - kdb.Point()))
    return Mutation("a hole of 300 nm in the body of a coupler, on the layer of holes", um(place.box))


def everywhere(name: str, layer: str, second_guide: bool = False) -> None:
    """Register a mark over the whole chip, alone or with a fault that it could hide."""

    @kind(name)
    def marked(draft: Draft, rng: Rng) -> Mutation:
        box = draft.base.region("outline").bbox()
        draft.add(layer, box.enlarged(-60_000, -60_000))
        if second_guide:
            guide = choose(rng, [b for b in straights(draft, 20.0) if b.width() > b.height()])
            draft.add("core", guide.moved(0, draft.width + 1000))
        return Mutation(f"{layer} over the whole chip", um(box))


everywhere("mark of coupled guides over everything", "coupled")
everywhere("mark of coupled guides over everything and a second guide", "coupled", second_guide=True)
everywhere("mark of a black box over everything", "blackbox")
