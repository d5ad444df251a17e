"""Checks of grating etch, coupled-guide markers, tips of edge couplers, and layers that light in silicon reaches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import klayout.db as kdb
import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import FacetRule
from optinc_pdk.extract._silicon_checks import gap_nm
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.device_recognition import DevicePlacement
from optinc_pdk.extract.faults import Fault, area_text, center_um
from optinc_pdk.extract.guide_couplers import NO_COUPLER
from optinc_pdk.extract.mask_layout import NM_PER_UM, MaskLayout
from optinc_pdk.extract.polygons import PolygonIndex, box_array, contours, region_polygons


def check_etch(placements: Iterable[DevicePlacement], etch: kdb.Region) -> list[Fault]:
    """Return a fault for every place where the grating etch differs from that of the golden devices."""
    golden = [polygon for placement in placements for polygon in placement.etch]
    # usually all polygons are equal, and the boolean operation is not needed
    if set(golden) == set(region_polygons(etch)):
        return []
    wrong = region_polygons(kdb.Region(golden) ^ etch)
    if not wrong:
        return []
    # one fault per place: differences less than 1 µm apart have the same cause
    places = region_polygons(kdb.Region(wrong).sized(NM_PER_UM // 2).merged())
    corners = np.array([(point.x, point.y) for point in (next(shape.each_point_hull()) for shape in wrong)])
    area = np.zeros(len(places), dtype=np.int64)
    np.add.at(area, PolygonIndex(places).at(corners), [shape.area() for shape in wrong])
    return [
        Fault("etch", f"grating etch differs from the golden devices by {area_text(size)}", center_um(place.bbox()))
        for place, size in zip(places, area.tolist(), strict=True)
    ]


def check_layers(
    mask: MaskLayout, placements: Sequence[DevicePlacement], marks: Sequence[kdb.Polygon], process: Process
) -> list[Fault]:
    """Return the faults of the grating etch, of other layers near silicon, and of coupled-guide markers.

    ``marks`` are those that were examined as couplers of any gap and length.
    """
    faults = check_etch(placements, mask.region(process.grating.layer))
    for name in process.layers:
        faults += check_reach(mask, placements, name, process)
    return faults + check_coupled(mask, placements, marks)


def check_reach(mask: MaskLayout, placements: Sequence[DevicePlacement], layer: str, process: Process) -> list[Fault]:
    """Return a fault for every place where shapes of a layer are within reach of light in silicon.

    Such a layer changes the index of guides, or absorbs, not only where it lies over silicon but also beside it. No
    device of a process has such shapes, except metal at pins. Nothing is checked unless the layer's card states a
    reach.
    """
    reach = process.reach_um(layer)
    if reach is None:
        return []
    shapes, reach_nm = mask.region(layer).merged(), round(reach * NM_PER_UM)
    if shapes.is_empty():
        return []
    silicon = mask.silicon(near=shapes.sized(reach_nm).merged())
    if layer in process.contact.metals:
        silicon -= kdb.Region([polygon for each in placements if each.pins for polygon in each.core])
    act = "it changes the light in them; move it"

    def fault(message: str, shape: kdb.Polygon) -> Fault:
        return Fault("slab" if layer == "slab" else "layer", message, center_um(shape.bbox()))

    over = (shapes & silicon).merged()
    text = f"{layer} over silicon: the process has no such guides, and {act} at least {reach:g} µm away"
    faults = [fault(text, place) for place in sorted(region_polygons(over))]
    near = sorted(region_polygons((shapes & silicon.sized(reach_nm)).merged().not_interacting(over)))
    outline = contours(region_polygons(silicon))
    edges = np.hstack([np.minimum(outline.points, outline.ends), np.maximum(outline.points, outline.ends)])
    place, edge = touching_pairs(box_array(shape.bbox().enlarged(reach_nm) for shape in near), edges).T
    split = np.searchsorted(place, np.arange(1, len(near)))
    for shape, numbers in zip(near, np.split(edge, split) if near else (), strict=True):
        one = contours([shape])
        gap = gap_nm(one.points, one.ends, outline.points[numbers], outline.ends[numbers])
        # corners of the enlarged silicon are farther away than its sides
        if gap < reach_nm:
            text = f"{layer} {gap / NM_PER_UM:.3f} µm beside guides or devices: {act} at least {reach:g} µm away"
            faults.append(fault(text, shape))
    return faults


def check_coupled(mask: MaskLayout, placements: Sequence[DevicePlacement], marks: Sequence[kdb.Polygon]) -> list[Fault]:
    """Return a fault for every coupled-guide marker outside a device of several guides, other than ``marks``.

    DRC does not check the spacing of guides under such a marker, so a misplaced marker would hide errors.
    """
    if "coupled" not in mask.layers:
        return []
    coupled = kdb.Region([kdb.Polygon(placement.box) for placement in placements if len(placement.core) > 1])
    rest = mask.region("coupled") - coupled - kdb.Region(list(marks))
    return [Fault("coupled", NO_COUPLER, center_um(shape.bbox())) for shape in region_polygons(rest)]


def check_tips(mask: MaskLayout, placements: Sequence[DevicePlacement], process: Process) -> list[Fault]:
    """Return a fault for every edge coupler whose tip is farther from the die's edge than a rule allows."""
    rules = [rule for rule in process.rules if isinstance(rule, FacetRule)]
    tips = [each for each in placements if process.device(each.variant.name).model.name == "edge_coupler"]
    if not rules or not tips:
        return []
    most = min(rule.most_um for rule in rules)
    dies = [shape.bbox() for shape in region_polygons(mask.region(rules[0].layers[1]).merged())]
    faults: list[Fault] = []
    for placement in tips:
        side = placement.tip
        found = [_ahead(side, die) / NM_PER_UM for die in dies if die.contains(side.p1) and die.contains(side.p2)]
        if not found or found[0] > most:
            where = f"{found[0]:g} µm from the edge that it faces" if found else "in no outline of a die"
            text = f"the tip of an edge coupler is {where}; fibres reach tips at most {most:g} µm from an edge"
            faults.append(Fault("facet", text, center_um(side.bbox())))
    return faults


def _ahead(side: kdb.Edge, die: kdb.Box) -> int:
    """Return the distance in nm from a side to the die's edge that it faces; silicon is on the right of the side."""
    if side.dx() == 0:
        return int(side.x1 - die.left if side.dy() > 0 else die.right - side.x1)
    return int(side.y1 - die.bottom if side.dx() < 0 else die.top - side.y1)
