"""Check of silicon at the edges of dies, where only the tips of edge couplers may be."""

from __future__ import annotations

import klayout.db as kdb

from optinc_pdk.cards.rules import FacetRule
from optinc_pdk.extract.polygons import box_array
from optinc_pdk.signoff.drc.design import Design
from optinc_pdk.signoff.drc.photonic_checks import too_close
from optinc_pdk.signoff.drc.shape_checks import dies


def facet(design: Design, rule: FacetRule) -> kdb.Region:
    """Find silicon in the keep-out of the dies' edges that is no tip at a facet, and tips too close to each other.

    A piece of silicon in the keep-out is a tip if it comes from the inside, is straight, and ends within the rule's
    range from the edge. Silicon nearer to the edge or outside all outlines is a violation itself.
    """
    core, outline = rule.layers
    whole = kdb.Region(dies(design, outline)).merged()
    inner = whole.sized(-design.dbu(rule.keepout_um)).merged()
    facing = whole - whole.sized(-design.dbu(rule.most_um))
    outside = kdb.Region(design.top.bbox(design.index(core))) - inner
    if outside.is_empty():
        return kdb.Region()
    # look up only the shapes that reach out
    found = kdb.RecursiveShapeIterator(design.layout, design.top, design.index(core), outside, False)
    silicon = kdb.Region(found).merged()
    pieces = (silicon - inner).merged()
    violations = pieces - whole.sized(-design.dbu(rule.value_um))
    # pieces that end exactly at the largest distance touch the area that they have to reach
    violations += pieces.not_interacting(facing) + pieces.not_interacting(inner)
    widest = design.dbu(rule.guide_width_um)
    boxes = [(each, each.bbox()) for each in pieces.each()]
    violations += kdb.Region([each for each, box in boxes if min(box.width(), box.height()) > widest])
    # where pieces enter the keep-out, so that the distance of their ends from the edge has no effect
    entries = (silicon & (inner - inner.sized(-1))).merged()
    return violations + too_close([box_array([each.bbox() for each in entries.each()])], 0, design.dbu(rule.pitch_um))
