"""The silicon under boxes: whether it is one straight guide, looked at once for all places of a cell."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.gds import Mask
from optinc_pdk.extract.lookup import Finder, plain
from optinc_pdk.extract.nearby import touching
from optinc_pdk.extract.places import turn

# Where boxes in cells are alike so often, looking at cells is faster than looking at all silicon near them.
REPEATED = 4


def guides_under(mask: Mask, active: Ints, along: int, width: int) -> tuple[Ints, NDArray[np.bool_]]:
    """(n, 4) the silicon under boxes (n, 4), and (n,) whether it is one straight guide along the middle of them."""
    guides, once = _under_in_cells(mask, active)
    others = np.flatnonzero(~once)
    if len(others):
        guides[others], once[others] = _single(mask.silicon(near=_region(active[others])), active[others])
    # twice how far the middles are apart: a heater of odd width has its own between two grid points
    off = np.abs(np.sum((guides - active).reshape(-1, 2, 2), axis=1))
    size, long = guides[:, 2:] - guides[:, :2], active[:, along + 2] - active[:, along]
    straight = (size[:, 1 - along] == width) & (size[:, along] == long) & (off[:, 1 - along] <= 2)
    return guides, np.asarray(once & straight)


def _region(boxes: Ints) -> kdb.Region:
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in boxes.tolist()])


def _single(silicon: kdb.Region, boxes: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """(n, 4) what silicon has in boxes (n, 4), and (n,) whether that is one box."""
    owner, cut, slanted = Finder(plain(silicon)).cut(boxes)
    once = np.bincount(owner, minlength=len(boxes)) == 1
    once[slanted[:, 0]] = False
    found = boxes.copy()
    found[owner[once[owner]]] = cut[once[owner]]
    return found, np.asarray(once)


def _under_in_cells(mask: Mask, boxes: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The same for boxes that only one placed cell comes near, once for all places of a cell; False for the others."""
    found, known = boxes.copy(), np.zeros(len(boxes), dtype=bool)
    if mask.places is None:
        return found, known
    layer = mask.layout.layer(*mask.layers["core"])
    near, place = touching(boxes, mask.places.boxes).T
    alone = np.bincount(near, minlength=len(boxes)) == 1
    alone[touching(boxes, mask.places.loose_boxes(layer))[:, 0]] = False
    own = np.flatnonzero(alone)
    cells = mask.places.cells[place[alone[near]]]
    shifts = np.tile(cells[:, 2:], 2)
    kinds, kind = np.unique(np.hstack([cells[:, :2], boxes[own] - shifts]), axis=0, return_inverse=True)
    if REPEATED * len(kinds) > len(own):
        return found, known
    homes, good = kinds[:, 2:].copy(), np.zeros(len(kinds), dtype=bool)
    for cell, code in np.unique(kinds[:, :2], axis=0).tolist():
        members = np.flatnonzero(np.all(kinds[:, :2] == (cell, code), axis=1))
        near = _region(homes[members]).transformed(turn(code).inverted())
        drawn = kdb.Region(kdb.RecursiveShapeIterator(mask.layout, mask.layout.cell(cell), layer, near, True))
        drawn.remove_properties()
        homes[members], good[members] = _single(drawn.transformed(turn(code)).merged(), homes[members])
    found[own], known[own] = homes[kind] + shifts, good[kind]
    return found, known
