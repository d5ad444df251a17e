"""Openings of flip-chip bumps: each is an octagon of the card's size, and every labelled landing has one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.extract.gds import NM_PER_UM, Mask
from optinc_pdk.extract.lookup import NOWHERE, Finder, plain
from optinc_pdk.extract.metal import Pad
from optinc_pdk.extract.silicon import Fault, center_um

BUMP = "bump"
# The corners of an octagon lie on the grid, which moves each of its sides by less than 1 nm.
_ROUNDING_NM = 1


def check_bumps(mask: Mask, pads: Sequence[Pad], process: Process) -> list[Fault]:
    """Openings that are no bump's, and labelled landings without one.

    Args:
        mask: Layout.
        pads: Labelled pads.
        process: Says whether pads are bumps, and how large they are.

    Returns:
        Faults; none in a process without bumps.
    """
    if process.pads.wiring != "flipchip":
        return []
    size = round(process.device(BUMP).size("opening_um") * NM_PER_UM)
    openings = plain(mask.region(BUMP).merged())
    text = f"an opening is no octagon {size / NM_PER_UM:g} µm wide, as a bump's is"
    faults = [Fault("bump", text, center_um(p.bbox())) for p in openings if not _is_octagon(p, size)]
    finder = Finder(openings)
    middles = np.array([(round(x), round(y)) for x, y in (pad.center for pad in pads)], dtype=np.int64).reshape(-1, 2)
    for pad, found in zip(pads, finder.at(middles).tolist(), strict=True):
        if found == NOWHERE:
            text = f"no opening on the landing of {pad.label!r}"
            faults.append(Fault("bump", text, pad.device.position_um))
    return faults


def _is_octagon(polygon: kdb.Polygon, size: int) -> bool:
    """Whether a polygon is a regular octagon of a width across its flats, within rounding."""
    box = polygon.bbox()
    if polygon.num_points() != 8 or box.width() != size or box.height() != size:
        return False
    side = size * math.tan(math.pi / 8)
    return all(abs(edge.length() - side) <= 2 * _ROUNDING_NM for edge in polygon.each_edge())
