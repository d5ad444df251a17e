"""Cells of foundry black boxes: outline, electrical pins, and the silicon polygon by which extraction finds them."""

from __future__ import annotations

import gdsfactory as gf
import numpy as np

from optinc_pdk.cards import DeviceCard
from optinc_pdk.cells.cell_cache import cell
from optinc_pdk.cells.curves import GRID_PER_UM
from optinc_pdk.cells.drawing import add_contact, add_electrical, add_optical, add_polygon, add_rectangle
from optinc_pdk.tech import active_process


def _box(c: gf.Component, card: DeviceCard, length: float, pins_at: float) -> None:
    """Add the outline from x = 0 to ``length``, and pin e1 above and e2 below the guide at x = ``pins_at`` (µm)."""
    height, side = card.size("box_height_um"), card.size("contact_width_um")
    add_rectangle(c, (0.0, -height / 2, length, height / 2), "blackbox")
    middle = (card.size("contact_space_um") + side) / 2
    for name, y, angle in (("e1", middle, 90), ("e2", -middle, 270)):
        add_contact(c, (pins_at - side / 2, y - side / 2, pins_at + side / 2, y + side / 2))
        add_electrical(c, name, (pins_at, y), angle)


def _silicon(c: gf.Component, corners: list[tuple[float, float]]) -> None:
    """Add a silicon polygon with corners in µm."""
    add_polygon(c, np.rint(np.array(corners) * GRID_PER_UM).astype(np.int64), "core")


@cell
def photodiode() -> gf.Component:
    """Germanium photodiode (black box): a taper from o1 to a silicon landing for the germanium.

    One corner of the landing is cut, so that the extractor recognises the orientation. e1 and e2 are the centres of the
    upper and the lower pin.
    """
    c = gf.Component()
    process = active_process()
    card = process.device("photodiode")
    narrow, wide, key = float(process.guide.width_um) / 2, card.size("landing_width_um") / 2, card.size("key_um")
    start, landing = card.size("taper_length_um"), card.size("landing_length_um")
    end = start + landing
    above = [(0.0, narrow), (start, wide), (end - key, wide), (end, wide - key)]
    _silicon(c, [*above, (end, -wide), (start, -wide), (0.0, -narrow)])
    _box(c, card, card.size("box_length_um"), start + landing / 2)
    add_optical(c, "o1", (0.0, 0.0), 180)
    return c


@cell
def modulator() -> gf.Component:
    """Amplitude modulator (black box): a guide from o1 to o2 with a wider, asymmetric section.

    The extractor recognises the orientation by the asymmetry. e1 and e2 are the centres of the upper and the lower pin.
    """
    c = gf.Component()
    process = active_process()
    card = process.device("modulator")
    half = float(process.guide.width_um) / 2
    above, below = half + card.size("above_um"), half + card.size("below_um")
    start = card.size("taper_in_um")
    stop = start + card.size("section_length_um")
    end = stop + card.size("taper_out_um")
    upper = [(0.0, half), (start, above), (stop, above), (end, half)]
    _silicon(c, [*upper, (end, -half), (stop, -below), (start, -below), (0.0, -half)])
    _box(c, card, end, (start + stop) / 2)
    add_optical(c, "o1", (0.0, 0.0), 180)
    add_optical(c, "o2", (end, 0.0), 0)
    return c
