"""Faults of instances: cells placed with a magnification or with a slight rotation."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from mutants.devices import some
from mutants.draft import Draft, Mutation, um
from mutants.kinds import kind

Rng = np.random.Generator
PARTS = {
    "coupler": ("mmi2x2",),
    "splitter or crossing": ("mmi1x2", "crossing"),
    "terminator": ("terminator",),
    "grating coupler": ("grating_coupler",),
    "phase shifter": ("phase_shifter",),
    "photodiode or modulator": ("photodiode", "modulator"),
    "bend": ("bend",),
    "interferometer": ("mzi_unit", "mzi_dummy", "attenuator"),
}


def about(point: kdb.Point, magnification: float, degrees: float) -> kdb.ICplxTrans:
    """Magnification and rotation about a point."""
    there = kdb.ICplxTrans(kdb.Trans(point - kdb.Point()))
    return there * kdb.ICplxTrans(magnification, degrees, False, 0, 0) * there.inverted()


def placed(name: str, kinds: tuple[str, ...], magnification: float, degrees: float) -> None:
    """Register a cell whose instance is magnified or rotated about its middle."""

    @kind(name)
    def changed(draft: Draft, rng: Rng) -> Mutation | None:
        found = some(draft, rng, *kinds)
        if found is None:
            return None
        device, place = found
        number, at = place.path[-1]
        middle = place.cell.bbox().transformed(at).center()
        draft.replace(place, [(number, about(middle, magnification, degrees) * kdb.ICplxTrans(at))])
        return Mutation(f"a {device} magnified by {magnification:g} and rotated by {degrees:g}°", um(place.box))


for part, kinds in PARTS.items():
    placed(f"instance of a {part} magnified by 1.001", kinds, 1.001, 0)
    placed(f"instance of a {part} rotated by 0.01 degrees", kinds, 1, 0.01)
    placed(f"instance of a {part} rotated by 0.1 degrees", kinds, 1, 0.1)
    placed(f"instance of a {part} rotated by 1 degree", kinds, 1, 1)
placed("instance of a coupler magnified by 0.999", PARTS["coupler"], 0.999, 0)
placed("instance of an interferometer magnified by 0.9999", PARTS["interferometer"], 0.9999, 0)


def whole(name: str, magnification: float, degrees: float) -> None:
    """Register a chip that is magnified or rotated as a whole, by its top cell's only instance."""

    @kind(name)
    def changed(draft: Draft, rng: Rng) -> Mutation:
        top = draft.layout.create_cell("WHOLE")
        trans = about(draft.top.bbox().center(), magnification, degrees)
        top.insert(kdb.CellInstArray(draft.top.cell_index(), trans))
        draft.tops = {top.cell_index()}
        return Mutation(f"the chip magnified by {magnification:g} and rotated by {degrees:g}°", um(draft.top.bbox()))


whole("chip magnified by 1.001", 1.001, 0)
whole("chip rotated by 0.01 degrees", 1, 0.01)
whole("chip rotated by 1 degree", 1, 1)
