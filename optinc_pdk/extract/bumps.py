"""Check of flip-chip bumps: every opening is an octagon of the card's size, and every labelled landing has one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from optinc_pdk.arrays import Bools
from optinc_pdk.cards import Process
from optinc_pdk.extract.contours import Contours, contours
from optinc_pdk.extract.faults import Fault, center_um
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout
from optinc_pdk.extract.metal_nets import LabelledPad
from optinc_pdk.extract.spatial_index import NOT_FOUND, PolygonIndex, box_array, region_polygons

BUMP = "bump"
# Rounding the corners of an octagon to the grid moves each of its sides by less than 1 nm.
_ROUNDING_NM = 1


def check_bumps(mask: MaskLayout, pads: Sequence[LabelledPad], process: Process) -> list[Fault]:
    """Check the openings of flip-chip bumps.

    Args:
        mask: Layout.
        pads: Labelled pads.
        process: Process; states whether pads are bumps, and the size of their openings.

    Returns:
        A fault for every opening that is not an octagon of the right size, and for every labelled pad without an
        opening. Empty if the process has no flip-chip wiring.
    """
    if process.pads.wiring != "flipchip":
        return []
    size = round(process.device(BUMP).size("opening_um") * NM_PER_UM)
    openings = region_polygons(mask.region(BUMP).merged())
    text = f"an opening is no octagon {size / NM_PER_UM:g} µm wide, as a bump's is"
    # equal openings are checked once
    corners = box_array(opening.bbox() for opening in openings)[:, :2].tolist()
    at_origin = [opening.moved(-x, -y) for opening, (x, y) in zip(openings, corners, strict=True)]
    distinct = list(dict.fromkeys(at_origin))
    wrong = set(itertools.compress(distinct, ~_octagons(contours(distinct), size)))
    faults = [
        Fault("bump", text, center_um(o.bbox())) for o, shape in zip(openings, at_origin, strict=True) if shape in wrong
    ]
    index = PolygonIndex(openings)
    middles = np.array([(round(x), round(y)) for x, y in (pad.center for pad in pads)], dtype=np.int64).reshape(-1, 2)
    for pad, number in zip(pads, index.at(middles).tolist(), strict=True):
        if number == NOT_FOUND:
            text = f"no opening on the landing of {pad.label!r}"
            faults.append(Fault("bump", text, pad.device.position_um))
    return faults


def _octagons(outline: Contours, size: int) -> Bools:
    """Return (C,) whether each polygon is a regular octagon of width ``size`` across its flats, within rounding."""
    octagon: Bools = np.diff(outline.first) == 8
    edges = outline.first[:-1][octagon][:, np.newaxis] + np.arange(8)
    wide = np.all(np.ptp(outline.points[edges], axis=1) == size, axis=1)
    legs = np.hypot(*np.moveaxis(outline.ends[edges] - outline.points[edges], -1, 0))
    equilateral = np.all(np.abs(np.rint(legs) - size * math.tan(math.pi / 8)) <= 2 * _ROUNDING_NM, axis=1)
    octagon[octagon] = wide & equilateral
    return octagon
