"""Checks of silicon, etch, slab and coupling marks around the recognised devices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import klayout.db as kdb

from optinc_pdk.cards import Process
from optinc_pdk.extract.faults import Fault, center_um
from optinc_pdk.extract.gds import NM_PER_UM, Mask
from optinc_pdk.extract.golden import Variant
from optinc_pdk.extract.lookup import Finder, box_array, plain
from optinc_pdk.extract.silicon import Placement


def check_etch(placements: Iterable[Placement], etch: kdb.Region) -> list[Fault]:
    """Grating etch that is missing or should not be there."""
    golden = [polygon for placement in placements for polygon in placement.etch]
    # the same polygons one by one, as nearly always, need no difference
    if set(golden) == set(plain(etch)):
        return []
    wrong = kdb.Region(golden) ^ etch
    faults: list[Fault] = []
    # one fault per place: differences less than a micrometer apart have one cause
    for place in plain(wrong.sized(NM_PER_UM // 2).merged()):
        area = (wrong & kdb.Region(place)).area()
        text = f"grating etch differs from the golden devices by {area} nm²"
        faults.append(Fault("etch", text, center_um(place.bbox())))
    return faults


def check_layers(mask: Mask, core: kdb.Region, placements: Sequence[Placement], process: Process) -> list[Fault]:
    """Etch that is not the gratings', and slab on silicon where the process has one."""
    faults = check_etch(placements, mask.region(process.grating.layer))
    slab = mask.region("slab") if "slab" in mask.layers else kdb.Region()
    if not slab.is_empty():
        text = "slab over silicon: the process has no rib devices"
        faults += [Fault("slab", text, center_um(shape.bbox())) for shape in plain(slab & core)]
    return faults + check_coupled(mask, placements)


def check_coupled(mask: Mask, placements: Sequence[Placement]) -> list[Fault]:
    """Marks of coupled guides where there is no device of several guides: they would hide guides too close."""
    if "coupled" not in mask.layers:
        return []
    coupled = kdb.Region([kdb.Polygon(placement.box) for placement in placements if len(placement.core) > 1])
    text = "marked as coupled guides, but no such device is here"
    return [Fault("coupled", text, center_um(shape.bbox())) for shape in plain(mask.region("coupled") - coupled)]


def check_inside(taken: kdb.Region, core: kdb.Region) -> list[Fault]:
    """Holes inside devices."""
    return [
        Fault("body", f"{shape.area()} nm² of silicon is missing inside a device", center_um(shape.bbox()))
        for shape in sorted(plain(taken - core))
    ]


def check_foreign(placements: Sequence[Placement], guides: Sequence[kdb.Polygon]) -> list[Fault]:
    """Silicon within a device's bounding box that is none of the device."""
    finder = Finder(guides)
    faults: list[Fault] = []
    boxes = [placement.box for placement in placements]
    for placement, box, near in zip(placements, boxes, finder.overlapping(box_array(boxes)), strict=True):
        for piece in sorted((kdb.Region(near) & kdb.Region(box)).each()) if near else ():
            text = f"{piece.area()} nm² of other silicon within the box of a {placement.variant.name}"
            faults.append(Fault("foreign", text, center_um(piece.bbox())))
    return faults


def describe_bodies(
    silicon: kdb.Region, variants: Sequence[Variant], body_nm: int
) -> tuple[list[Fault], list[kdb.Polygon]]:
    """Name what is wider than any guide and no golden device.

    Args:
        silicon: Silicon that is neither a device nor a guide, merged.
        variants: Golden devices.
        body_nm: Half the width that only a device's body exceeds.

    Returns:
        A fault per body, and the bodies.
    """
    bodies = sorted(plain(opened(silicon, body_nm)))
    faults: list[Fault] = []
    for body in bodies:
        name, area = min(
            ((variant.name, _difference(silicon, body, variant, body_nm)) for variant in variants),
            key=lambda match: match[1],
            default=("none", body.area()),
        )
        x, y = center_um(body.bbox())
        text = f"unrecognized silicon body at ({x:.3f}, {y:.3f}), nearest golden device {name}, differs by {area} nm²"
        faults.append(Fault("body", text, (x, y)))
    return faults, bodies


def opened(region: kdb.Region, size: int) -> kdb.Region:
    """What survives a shrink and a growth."""
    return region.sized(-size).sized(size).merged()


def _difference(silicon: kdb.Region, body: kdb.Polygon, variant: Variant, body_nm: int) -> int:
    """Area in which silicon around a body differs from a variant whose body lies on it."""
    drawn = kdb.Region(list(variant.core))
    own = opened(drawn, body_nm)
    if own.is_empty():
        return int(drawn.area() + body.area())
    shift = body.bbox().center() - own.bbox().center()
    golden = drawn.moved(shift)
    near = kdb.Region(golden.bbox() + body.bbox())
    return int(((silicon & near) ^ golden).area())
