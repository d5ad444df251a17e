"""Marks of coupled guides: a mark exempts a device from a rule only if it lies exactly over it, or over two guides.

Devices of a rule without a layer of marks are marked here, where their silicon is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import klayout.db as kdb

from optinc_pdk.cards.rules import GuideSpaceRule, Polygons, Rule
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.repeated_regions import check_repeated, repeated_regions

# Number of the GDS layer for the valid marks, the first that the layout does not use.
FIRST_LAYER = 10_000
NM_UM = 0.001


def with_valid_marks(design: Design, rules: Sequence[Rule]) -> tuple[Design, list[Rule]]:
    """Leave out the marks that lie neither exactly over one of the devices that carry them nor over two guides.

    A mark is valid if it is the bounding box of a device and covers exactly the silicon of this device, in any of the
    eight orientations. It is also valid over two guides if the rule states their width, and nothing else touches it.

    Args:
        design: Layout.
        rules: Rules to check.

    Returns:
        The layout and the rules. If some marks are not valid, the layout has one more layer with the valid ones, and
        the rules refer to this layer instead.
    """
    checked = list(rules)
    for number, rule in enumerate(rules):
        if not isinstance(rule, GuideSpaceRule):
            continue
        if rule.devices and len(rule.layers) == 1:
            found = device_boxes(design, rule)
            if not found.is_empty():
                design, checked[number] = _with_layer(design, rule, f"devices of {rule.id}", found)
            continue
        for marker in rule.layers[1:]:
            valid = valid_marks(design, rule, marker)
            if (kdb.Region(design.shapes(marker)) ^ valid).is_empty():
                continue
            design, checked[number] = _with_layer(design, rule, f"{marker}, valid for {rule.id}", valid)
    return design, checked


def _with_layer(design: Design, rule: GuideSpaceRule, name: str, marks: kdb.Region) -> tuple[Design, GuideSpaceRule]:
    """Return the layout with one more layer of marks, and the rule that refers to it."""
    design = replace(design, layers={**design.layers, name: _free_layer(design.layout)})
    design.top.shapes(design.index(name)).insert(marks)
    return design, rule.model_copy(update={"layers": (rule.layers[0], name)})


def device_boxes(design: Design, rule: GuideSpaceRule) -> kdb.Region:
    """Return the bounding boxes of a rule's devices, in any orientation, where a box contains exactly their silicon.

    Args:
        design: Layout.
        rule: Rule of guide space, with the silicon of the devices.
    """
    core, boxes = rule.layers[0], kdb.Region()
    edges = kdb.Region(design.shapes(core)).merged().edges()
    for device in (region for polygons in rule.silicon_nm for region in _orientations(polygons, design.layout.dbu)):
        extent = device.bbox()
        # a guide that adjoins at the border may continue an edge there, but none inside
        inside = [edge for edge in device.edges().each() if not _on_border(edge, extent)]
        if not inside:
            continue
        anchor = max(inside, key=lambda edge: (edge.length(), str(edge)))
        for edge in edges.with_length(anchor.length(), False).each():
            shift = edge.p1 - anchor.p1
            if edge.p2 - anchor.p2 == shift:
                box = extent.moved(shift)
                if _covers_device(design.near(core, box), box, [device]):
                    boxes.insert(box)
    return boxes.merged()


def _on_border(edge: kdb.Edge, box: kdb.Box) -> bool:
    """Return whether an edge has a point on the border of a box that it lies in."""
    return any(p.x in (box.left, box.right) or p.y in (box.bottom, box.top) for p in (edge.p1, edge.p2))


def valid_marks(design: Design, rule: GuideSpaceRule, marker: str) -> kdb.Region:
    """Return the marks of a layer that lie exactly over one of the rule's devices, or over two guides.

    Args:
        design: Layout.
        rule: Rule of guide space, with the silicon of the devices.
        marker: Name of the layer.
    """
    core = rule.layers[0]
    if design.shapes(marker).at_end():
        return kdb.Region()
    width = None if rule.coupled_width_um is None else design.dbu(rule.coupled_width_um)
    devices = [region for polygons in rule.silicon_nm for region in _orientations(polygons, design.layout.dbu)]

    def check(box: kdb.Box) -> kdb.Region:
        marks = kdb.Region()
        for mark in design.touching(marker, box).each():
            silicon = design.near(core, mark.bbox()) if mark.is_box() else kdb.Region()
            if _covers_device(silicon, mark.bbox(), devices):
                marks.insert(mark)
            elif _covers_two_guides(silicon, mark.bbox(), width):
                # a third guide that touches the mark from outside would face one of the two under the mark only
                around = design.near(core, mark.bbox().enlarged(1)).merged(True, 0)
                if around.count() == 2:
                    marks.insert(mark)
        return marks

    return check_repeated(repeated_regions(design, marker, 1, (core,)), check).merged()


def _orientations(polygons: Polygons, dbu: float) -> Iterator[kdb.Region]:
    """Yield the silicon of a device in all orientations, with its lower left corner at the origin."""
    shapes = kdb.Region([kdb.Polygon([kdb.Point(*point) for point in polygon]) for polygon in polygons])
    for mirrored in (False, True):
        for turns in range(4):
            turned = shapes.transformed(kdb.ICplxTrans(NM_UM / dbu, 90.0 * turns, mirrored, 0, 0))
            yield turned.moved(-turned.bbox().left, -turned.bbox().bottom)


def _covers_device(silicon: kdb.Region, box: kdb.Box, devices: Sequence[kdb.Region]) -> bool:
    """Whether the silicon in a box is that of a device whose bounding box it is."""
    drawn = silicon.moved(-box.left, -box.bottom)
    extent = kdb.Box(0, 0, box.width(), box.height())
    return any(device.bbox() == extent and (drawn ^ device).is_empty() for device in devices)


def _covers_two_guides(silicon: kdb.Region, box: kdb.Box, width: int | None) -> bool:
    """Whether the silicon in a box consists of two guides that cross its border at right angles, each twice.

    Guides along the border are not allowed: the silicon touches the border at the four ends of the guides only.

    Args:
        silicon: Silicon in the box, cut off at the box.
        box: Mark.
        width: Width of the guides in database units; None if no guides may be coupled.
    """
    if width is None:
        return False
    guides = silicon.merged(True, 0)
    border = kdb.Region(box).edges()
    ends = [[edge.length() for edge in (kdb.Region(guide).edges() & border).each()] for guide in guides.each()]
    return guides.holes().is_empty() and ends == [[width, width], [width, width]]


def _free_layer(layout: kdb.Layout) -> tuple[int, int]:
    """Return the GDS layer and datatype of a layer that the layout does not have."""
    used = {(info.layer, info.datatype) for info in layout.layer_infos()}
    number = FIRST_LAYER
    while (number, 0) in used:
        number += 1
    return number, 0
