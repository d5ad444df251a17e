"""Faults beside guides and devices: other layers that act on light near them, and guides beside devices."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.draft import Draft, Mutation, choose, um
from mutants.guides import straights
from mutants.kinds import kind

Rng = np.random.Generator
# Devices that a chip has; tests/extract/test_silicon_checks.py tries all devices of all processes.
DEVICES = (
    "crossing",
    "edge_coupler",
    "grating_coupler",
    "mmi1x2",
    "mmi2x2",
    "modulator",
    "phase_shifter",
    "photodiode",
    "terminator",
)
# Names of a layer in the processes, where they differ.
NAMES = {"etch": ("etch70", "etch")}
DISTANCES_NM = (0, 50, 200, 500, 1000)
# Width of a strip along silicon, which the rules of all layers allow.
STRIP_NM = 1_500


def strip_beside(draft: Draft, rng: Rng, box: kdb.Box, gap: int) -> kdb.Polygon | None:
    """A strip along some of the silicon in a box, at a distance from all silicon; None if there is no place."""
    core = draft.base.region("core")
    near = (core & kdb.Region(box)).merged()
    strips = near.sized(gap + STRIP_NM) - near.sized(gap) if gap else near.sized(STRIP_NM)
    # without what grows beyond the box, which may be another device's surroundings
    window = kdb.Region(box.enlarged(gap + STRIP_NM, gap + STRIP_NM))
    around = core & window
    free = (strips & window) - (around.sized(gap) if gap else around)
    found = sorted(free.merged().each(), key=lambda polygon: (-polygon.area(), str(polygon)))[:4]
    return choose(rng, found) if found else None


def beside(layer: str, gap: int, target: str) -> None:
    """Register a strip of a layer beside a guide or a device."""
    thing = target.replace("_", " ")

    @kind(f"{layer} {gap} nm beside a {thing}")
    def strip(draft: Draft, rng: Rng) -> Mutation | None:
        own = next((name for name in NAMES.get(layer, (layer,)) if name in draft.process.gds_layers), None)
        if target == "guide":
            boxes = straights(draft, 20.0)
        elif target == "guide or device":
            boxes = [
                *straights(draft, 20.0)[:1],
                *(draft.places(each)[0].box for each in DEVICES if draft.places(each)),
            ]
        else:
            boxes = [place.box for place in draft.places(target)]
        if own is None or not boxes:
            return None
        polygon = strip_beside(draft, rng, choose(rng, boxes), gap)
        if polygon is None:
            return None
        draft.add(own, polygon)
        return Mutation(f"{own} {gap} nm beside a {thing}", um(polygon.bbox()))


for nanometres in DISTANCES_NM:
    for device in ("guide", *DEVICES):
        beside("slab", nanometres, device)
    for other in ("etch", "holes", "label", "heater"):
        beside(other, nanometres, "guide or device")


def guide_beside(target: str) -> None:
    """Register a guide between two terminators beside a device."""
    thing = target.replace("_", " ")

    @kind(f"guide beside a {thing}")
    def foreign(draft: Draft, rng: Rng) -> Mutation | None:
        places, ends = draft.places(target), draft.places("terminator")
        if not places or not ends:
            return None
        place = choose(rng, places)
        gap, box, half = int(choose(rng, (200, 250, 500, 800, 1000, 2000, 3999))), place.box, draft.width // 2
        lying, side = box.width() > box.height(), int(rng.choice([-1, 1]))
        off = (box.height() if lying else box.width()) // 2 + gap + half
        at = box.center() + (kdb.Vector(0, side * off) if lying else kdb.Vector(side * off, 0))
        reach = max(box.width(), box.height()) // 2
        turn = 0 if lying else 1
        guide = kdb.Box(-reach, -half, reach, draft.width - half)
        to_place = kdb.Trans(turn, False, at.x, at.y)
        draft.add("core", guide.transformed(to_place))
        # the terminator's guide begins at its cell's origin and leads to the right
        for end in (kdb.Trans(0, False, reach, 0), kdb.Trans(2, False, -reach, 0)):
            draft.top.insert(kdb.CellInstArray(ends[0].cell.cell_index(), to_place * end))
        return Mutation(f"a guide {gap} nm beside a {place.cell.name}", um(at))


for device in DEVICES:
    guide_beside(device)
