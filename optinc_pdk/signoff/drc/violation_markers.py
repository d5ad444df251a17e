"""Markers of violations: those that touch become one, in a time that grows with their number, however they overlap."""

from __future__ import annotations

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.polygons import box_array

# Boxes on average that a box may touch where polygons are merged exactly. In a chain of gaps between the chords of two
# bends, each touches a few; where every edge of a ring faces every other, each touches all. KLayout's merging takes a
# time that grows with the number of crossings.
MAX_TOUCHING = 16
# Violations up to which connected ones are merged exactly; of more, nobody reads the outlines.
MAX_MERGED = 20_000
# Boxes whose neighbours are counted to estimate how many pairs there are.
SAMPLE = 64


def merged_markers(violations: kdb.Region) -> list[kdb.Polygon]:
    """Merge the violations of a rule that touch each other.

    Args:
        violations: Markers of single violations, flat and not merged.

    Returns:
        Polygons, sorted: the union of the markers that are connected, or one box around them if they overlap too often
        to be merged, or if there are more than `MAX_MERGED` violations.
    """
    polygons = list(violations.each())
    if not polygons:
        return []
    boxes = box_array([polygon.bbox() for polygon in polygons])
    cluster, touching = _clusters(boxes)
    size = np.bincount(cluster, minlength=len(touching))
    crowded = touching > MAX_TOUCHING * size
    if len(polygons) > MAX_MERGED:
        crowded = size > 1
    result: list[kdb.Polygon] = []
    result += kdb.Region([polygons[k] for k in np.flatnonzero(~crowded[cluster]).tolist()]).merged().each()
    members = np.flatnonzero(crowded[cluster])
    members = members[np.argsort(cluster[members], kind="stable")]
    first = np.flatnonzero(np.diff(cluster[members], prepend=-1))
    low, high = np.minimum.reduceat(boxes[members, :2], first), np.maximum.reduceat(boxes[members, 2:], first)
    result += [kdb.Polygon(kdb.Box(*extent)) for extent in np.concatenate([low, high], axis=1).tolist()]
    return sorted(result)


def _clusters(boxes: Ints) -> tuple[Ints, Ints]:
    """Number the clusters of boxes that touch.

    Boxes that overlap so often that their pairs would be too many are widened to a grid, on which most are equal; then
    boxes that are nearly as close as the grid's step may share a cluster.

    Args:
        boxes: (n, 4) left, bottom, right and top.

    Returns:
        (n,) number of each box's cluster; and how many pairs of boxes touch, by number of the cluster.
    """
    step, kept, which = 1, boxes, np.arange(len(boxes))
    while _pairs_estimate(kept) > MAX_TOUCHING * len(kept) and len(kept) > SAMPLE:
        step = max(4 * step, int(np.median(boxes[:, 2:] - boxes[:, :2])) // 4)
        kept, which = np.unique(
            np.concatenate([boxes[:, :2] // step, -(-boxes[:, 2:] // step)], axis=1), axis=0, return_inverse=True
        )
    pairs = touching_pairs(kept, kept)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    count = len(kept)
    label = component_labels(count, pairs[:, 0], pairs[:, 1])
    touching = np.bincount(label[pairs[:, 0]], minlength=count)
    cluster = label[which.reshape(-1)].astype(np.int64)
    size = np.bincount(cluster, minlength=count)
    # of boxes that are equal on the grid, all pairs count
    touching = np.where(size > np.bincount(label, minlength=count), size**2, touching) if step > 1 else touching
    return cluster, touching


def _pairs_estimate(boxes: Ints) -> float:
    """Estimate the number of pairs of boxes that touch, from every k-th box."""
    left, bottom, right, top = boxes.T
    low_x, low_y, high_x, high_y = boxes[:: max(len(boxes) // SAMPLE, 1), :, None].transpose(1, 0, 2)
    near = (left <= high_x) & (low_x <= right) & (bottom <= high_y) & (low_y <= top)
    return float(np.count_nonzero(near)) / len(low_x) * len(boxes) / 2
