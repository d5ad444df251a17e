"""Check for a straight guide under each heater, once per distinct cell and not once per placement."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import transformation
from optinc_pdk.extract.mask_layout import MaskLayout
from optinc_pdk.extract.spatial_index import PolygonIndex, region_polygons

# If a heater repeats at least this often on average, reading cells is faster than reading all silicon near the heaters.
MIN_REPEATS = 4


def find_guides_under(mask: MaskLayout, active: Ints, along: int, width: int) -> tuple[Ints, Bools]:
    """Find the straight guide under each heater.

    Args:
        mask: Layout.
        active: (n, 4) boxes (left, bottom, right, top) in nm, the parts of heaters between their contacts.
        along: Axis of the guides, 0 for x and 1 for y.
        width: Width of a guide in nm.

    Returns:
        (n, 4) box of the silicon under each heater in nm, and (n,) whether the silicon is one straight guide of this
        width on the heater's axis (within 1 nm). Where the silicon is not a single box, the box is that of the
        heater and the second value is false.
    """
    guides, single = _under_in_cells(mask, active)
    others = np.flatnonzero(~single)
    if len(others):
        guides[others], single[others] = _single_boxes(mask.silicon(near=_region(active[others])), active[others])
    # twice the distance of the centres; the centre of a heater of odd width is between two grid points
    off = np.abs(np.sum((guides - active).reshape(-1, 2, 2), axis=1))
    size, long = guides[:, 2:] - guides[:, :2], active[:, along + 2] - active[:, along]
    straight = (size[:, 1 - along] == width) & (size[:, along] == long) & (off[:, 1 - along] <= 2)
    return guides, np.asarray(single & straight)


def _region(boxes: Ints) -> kdb.Region:
    """Return boxes (n, 4) as a region."""
    return kdb.Region([kdb.Polygon(kdb.Box(*box)) for box in boxes.tolist()])


def _single_boxes(silicon: kdb.Region, boxes: Ints) -> tuple[Ints, Bools]:
    """Return (n, 4) the silicon within boxes (n, 4), and (n,) whether it is a single box."""
    owner, cut, slanted = PolygonIndex(region_polygons(silicon)).cut(boxes)
    single = np.bincount(owner, minlength=len(boxes)) == 1
    single[slanted[:, 0]] = False
    silicon_boxes = boxes.copy()
    silicon_boxes[owner[single[owner]]] = cut[single[owner]]
    return silicon_boxes, np.asarray(single)


def _under_in_cells(mask: MaskLayout, boxes: Ints) -> tuple[Ints, Bools]:
    """Do the same for boxes that touch only one placed cell, once for all its placements; False for other boxes."""
    silicon, known = boxes.copy(), np.zeros(len(boxes), dtype=bool)
    if mask.places is None:
        return silicon, known
    layer = mask.layout.layer(*mask.layers["core"])
    near, place = touching_pairs(boxes, mask.places.boxes).T
    alone = np.bincount(near, minlength=len(boxes)) == 1
    alone[touching_pairs(boxes, mask.places.loose_boxes(layer))[:, 0]] = False
    inside = np.flatnonzero(alone)
    cells = mask.places.cells[place[alone[near]]]
    shifts = np.tile(cells[:, 2:], 2)
    kinds, kind = np.unique(np.hstack([cells[:, :2], boxes[inside] - shifts]), axis=0, return_inverse=True)
    if MIN_REPEATS * len(kinds) > len(inside):
        return silicon, known
    local, single = kinds[:, 2:].copy(), np.zeros(len(kinds), dtype=bool)
    for cell, code in np.unique(kinds[:, :2], axis=0).tolist():
        members = np.flatnonzero(np.all(kinds[:, :2] == (cell, code), axis=1))
        near = _region(local[members]).transformed(transformation(code).inverted())
        drawn = kdb.Region(kdb.RecursiveShapeIterator(mask.layout, mask.layout.cell(cell), layer, near, True))
        drawn.remove_properties()
        local[members], single[members] = _single_boxes(
            drawn.transformed(transformation(code)).merged(), local[members]
        )
    silicon[inside], known[inside] = local[kind] + shifts, single[kind]
    return silicon, known
