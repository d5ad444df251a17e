"""Violations of a rule: those that touch become one marker, and those that every instance of a cell has one group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.circuit.netlist import component_labels
from optinc_pdk.extract.box_pairs import touching_pairs
from optinc_pdk.extract.cell_placements import transformation
from optinc_pdk.extract.polygons import box_array

# Boxes on average that a box may touch where polygons are merged exactly. In a chain of gaps between the chords of two
# bends, each touches a few; where every edge of a ring faces every other, each touches all. KLayout's merging takes a
# time that grows with the number of crossings.
MAX_TOUCHING = 16
# Violations up to which connected ones are merged exactly; of more, nobody reads the outlines.
MAX_MERGED = 20_000
# Boxes whose neighbours are counted to estimate how many pairs there are.
SAMPLE = 64
# Markers of corners and edges extend up to this far beyond the shapes that they belong to.
BEYOND_UM = 0.2
# Placements that are searched for all rules of a layout, about 20 s; any further violation counts as one of the top
# cell. A clean layout needs none, one with 30,000 violations in arrays of cells 120,000.
MAX_SEARCHED = 2_000_000


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


@dataclass(frozen=True)
class ViolationGroup:
    """Equal violations in all instances of one cell.

    Attributes:
        cell: Name of the cell: the lowest in the hierarchy whose instances all have the violation.
        marker: Polygon around the violation in µm, in the cell's coordinates.
        instances: Number of placements of the cell in the top cell.
        example: Transformation of one of these placements, from the cell to the top cell, in µm.
    """

    cell: str
    marker: kdb.DPolygon
    instances: int
    example: kdb.DCplxTrans


# Index of a placed cell, and the transformation from the cell to the top cell.
CellPlacement = tuple[int, kdb.Trans]


class Hierarchy:
    """The placed cells of a layout, which can be searched by position.

    Attributes:
        layout: The layout, which must not change any more.
        top: Its top cell.
    """

    def __init__(self, layout: kdb.Layout, top: kdb.Cell) -> None:
        self.layout, self.top = layout, top
        self.beyond = round(BEYOND_UM / layout.dbu)
        self.searched = 0

    @cached_property
    def instances(self) -> dict[int, int]:
        """Number of placements of each cell in the top cell, by cell index."""
        count: Counter[int] = Counter({self.top.cell_index(): 1})
        for index in self.layout.each_cell_top_down():
            for instance in self.layout.cell(index).each_inst():
                count[instance.cell_index] += count[index] * max(instance.na, 1) * max(instance.nb, 1)
        return dict(count)

    def around(self, box: kdb.Box, layers: Sequence[int]) -> list[CellPlacement]:
        """Find the placed cells whose shapes' bounding box contains a box to within `BEYOND_UM`.

        Once `MAX_SEARCHED` placements have been found for all boxes together, only the top cell is returned.

        Args:
            box: Box in database units, in coordinates of the top cell.
            layers: Indexes of the layers whose shapes count; all layers if there are none.

        Returns:
            Placements of cells, the lowest in the hierarchy first.
        """
        placements: list[tuple[int, CellPlacement]] = []
        whole = (self.top.cell_index(), kdb.Trans())
        if self.searched >= MAX_SEARCHED:
            return [whole]
        pending = [(0, whole)]
        while pending:
            depth, place = pending.pop()
            placements.append((depth, place))
            for below in self._below(place, box, layers):
                self.searched += 1
                if self.searched >= MAX_SEARCHED:
                    return [whole]
                pending.append((depth + 1, below))
        order = sorted(placements, key=lambda entry: (-entry[0], self.layout.cell_name(entry[1][0]), str(entry[1][1])))
        return [place for _, place in order]

    def _below(self, place: CellPlacement, box: kdb.Box, layers: Sequence[int]) -> Iterator[CellPlacement]:
        index, trans = place
        local = box.transformed(trans.inverted())
        for instance in self.layout.cell(index).each_touching_inst(local):
            if instance.is_complex():
                continue
            code = instance.trans.rot
            extent = self._extent(instance.cell, layers).transformed(transformation(code)).enlarged(self.beyond)
            low = np.array([local.right - extent.right, local.top - extent.top])
            high = np.array([local.left - extent.left, local.bottom - extent.bottom])
            for x, y in members_within(instance, low, high).tolist():
                yield instance.cell_index, trans * transformation(code, x, y)

    def _extent(self, cell: kdb.Cell, layers: Sequence[int]) -> kdb.Box:
        """Box around the shapes of a cell on some layers, empty if it has none; on all layers if none are given."""
        return sum(map(cell.bbox, layers), kdb.Box()) if layers else cell.bbox()


def members_within(instance: kdb.Instance, low: Ints, high: Ints) -> Ints:
    """Find the members of an array whose origins lie in a box; the shorter side of the array is searched.

    Args:
        instance: Array of a cell, or a single placement.
        low: (2,) lower left corner of the box in database units.
        high: (2,) upper right corner of the box.

    Returns:
        (n, 2) origins in database units.
    """
    sides = ((max(instance.na, 1), instance.a), (max(instance.nb, 1), instance.b))
    (rows, across), (columns, along) = sorted(sides, key=lambda side: side[0])
    start = np.array([instance.trans.disp.x, instance.trans.disp.y])
    start = start + np.arange(rows)[:, None] * np.array([across.x, across.y])
    # in each row, members first … last lie in the box
    first, last = np.zeros(rows, dtype=np.int64), np.full(rows, columns - 1)
    for axis, step in enumerate((along.x, along.y)):
        below, above = low[axis] - start[:, axis], high[axis] - start[:, axis]
        if step == 0:
            last[(below > 0) | (above < 0)] = -1
        else:
            near, far = (below, above) if step > 0 else (above, below)
            first, last = np.maximum(first, -(-near // step)), np.minimum(last, far // step)
    count = np.maximum(last - first + 1, 0)
    row = np.repeat(np.arange(rows), count)
    member = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count) + first[row]
    return np.asarray(start[row] + member[:, None] * np.array([along.x, along.y]))


def group_violations(
    hierarchy: Hierarchy, markers: Sequence[kdb.Polygon], layers: Sequence[int]
) -> tuple[ViolationGroup, ...]:
    """Group equal violations that all instances of a cell have.

    Args:
        hierarchy: Layout in which the violations were found.
        markers: Polygons around the violations in database units, in coordinates of the top cell.
        layers: Indexes of the layers whose shapes violate the rule; cells without any are not to blame. All layers if
            there are none.

    Returns:
        One entry per group, those of the top cell first, then sorted by cell name and marker.
    """
    if not markers:
        return ()
    chains = [hierarchy.around(marker.bbox(), layers) for marker in markers]
    local = [
        [(cell, marker.transformed(trans.inverted())) for cell, trans in chain]
        for marker, chain in zip(markers, chains, strict=True)
    ]
    count = Counter(key for keys in local for key in set(keys))
    layout, groups = hierarchy.layout, {}
    for chain, keys in zip(chains, local, strict=True):
        whole = [n for n, (cell, _) in enumerate(keys) if count[keys[n]] == hierarchy.instances[cell]]
        cell, marker = keys[whole[0]]
        if (cell, marker) not in groups:
            example = kdb.DCplxTrans(chain[whole[0]][1].to_dtype(layout.dbu))
            groups[cell, marker] = ViolationGroup(
                layout.cell_name(cell), marker.to_dtype(layout.dbu), hierarchy.instances[cell], example
            )
    order = sorted(groups, key=lambda key: (key[0] != hierarchy.top.cell_index(), layout.cell_name(key[0]), key[1]))
    return tuple(groups[key] for key in order)
