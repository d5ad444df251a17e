"""Grouping of violations by cell: one that every instance of a cell has is one violation of that cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.extract.cell_placements import transformation

# Markers of corners and edges extend up to this far beyond the shapes that they belong to.
BEYOND_UM = 0.2
# Placements that are searched for all rules of a layout, about 20 s; any further violation counts as one of the top
# cell. A clean layout needs none, one with 30,000 violations in arrays of cells 120,000.
MAX_SEARCHED = 2_000_000


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
