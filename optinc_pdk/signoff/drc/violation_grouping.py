"""Grouping of violations by cell: one that every instance of a cell has is one violation of that cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.cell_placements import transformation

# Markers of corners and edges extend up to this far beyond the shapes that they belong to.
BEYOND_UM = 0.2


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
        self.origins: dict[tuple[int, ...], NDArray[np.int64]] = {}

    @cached_property
    def instances(self) -> dict[int, int]:
        """Number of placements of each cell in the top cell, by cell index."""
        count: Counter[int] = Counter({self.top.cell_index(): 1})
        for index in self.layout.each_cell_top_down():
            for instance in self.layout.cell(index).each_inst():
                count[instance.cell_index] += count[index] * max(instance.na, 1) * max(instance.nb, 1)
        return dict(count)

    def around(self, box: kdb.Box) -> list[CellPlacement]:
        """Find the placed cells whose bounding box contains a box to within `BEYOND_UM`.

        Args:
            box: Box in database units, in coordinates of the top cell.

        Returns:
            Placements of cells, the lowest in the hierarchy first.
        """
        placements: list[tuple[int, CellPlacement]] = []
        pending = [(0, (self.top.cell_index(), kdb.Trans()))]
        while pending:
            depth, place = pending.pop()
            placements.append((depth, place))
            pending += [(depth + 1, below) for below in self._below(place, box)]
        order = sorted(placements, key=lambda entry: (-entry[0], self.layout.cell_name(entry[1][0]), str(entry[1][1])))
        return [place for _, place in order]

    def _below(self, place: CellPlacement, box: kdb.Box) -> Iterator[CellPlacement]:
        index, trans = place
        local = box.transformed(trans.inverted())
        for instance in self.layout.cell(index).each_touching_inst(local):
            if instance.is_complex():
                continue
            code = instance.trans.rot
            extent = instance.cell.bbox().transformed(transformation(code)).enlarged(self.beyond)
            for x, y in self._origins(instance, extent, local).tolist():
                yield instance.cell_index, trans * transformation(code, x, y)

    def _origins(self, instance: kdb.Instance, extent: kdb.Box, local: kdb.Box) -> NDArray[np.int64]:
        """(n, 2) origins of those members of an array whose bounding box contains a box."""
        a, b, start = instance.a, instance.b, instance.trans.disp
        key = (start.x, start.y, a.x, a.y, b.x, b.y, instance.na, instance.nb)
        if key not in self.origins:
            i, j = np.indices((max(instance.na, 1), max(instance.nb, 1))).reshape(2, -1)
            self.origins[key] = np.stack([start.x + i * a.x + j * b.x, start.y + i * a.y + j * b.y], axis=1)
        at = self.origins[key]
        low = np.all(at <= np.array([local.left - extent.left, local.bottom - extent.bottom]), axis=1)
        high = np.all(at >= np.array([local.right - extent.right, local.top - extent.top]), axis=1)
        return np.asarray(at[low & high])


def group_violations(hierarchy: Hierarchy, markers: Sequence[kdb.Polygon]) -> tuple[ViolationGroup, ...]:
    """Group equal violations that all instances of a cell have.

    Args:
        hierarchy: Layout in which the violations were found.
        markers: Polygons around the violations in database units, in coordinates of the top cell.

    Returns:
        One entry per group, those of the top cell first, then sorted by cell name and marker.
    """
    if not markers:
        return ()
    chains = [hierarchy.around(marker.bbox()) for marker in markers]
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
