"""Distinct faults: what is wrong in every instance of a cell is one fault of that cell, however often it is placed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import klayout.db as kdb
import numpy as np
from numpy.typing import NDArray

from optinc_pdk.extract.places import turn

# Markers of corners and edges reach this far beyond the shapes that they are of.
BEYOND_UM = 0.2


@dataclass(frozen=True)
class Distinct:
    """A fault, once for all instances of the cell that it is in.

    Attributes:
        cell: Name of the lowest cell in every instance of which it is.
        marker: Where, in µm, as seen in that cell.
        instances: How often the cell is placed in the top cell.
        example: One of these placements, from the cell to the top cell, in µm.
    """

    cell: str
    marker: kdb.DPolygon
    instances: int
    example: kdb.DCplxTrans


# A placed cell's index, and from the cell to the top cell.
Place = tuple[int, kdb.Trans]


class Hierarchy:
    """A layout's cells as they are placed, looked up by place."""

    def __init__(self, layout: kdb.Layout, top: kdb.Cell) -> None:
        """Look at a layout that does not change any more."""
        self.layout, self.top = layout, top
        self.beyond = round(BEYOND_UM / layout.dbu)
        self.origins: dict[tuple[int, ...], NDArray[np.int64]] = {}

    @cached_property
    def instances(self) -> dict[int, int]:
        """How often each cell is placed in the top cell."""
        count: Counter[int] = Counter({self.top.cell_index(): 1})
        for index in self.layout.each_cell_top_down():
            for instance in self.layout.cell(index).each_inst():
                count[instance.cell_index] += count[index] * max(instance.na, 1) * max(instance.nb, 1)
        return dict(count)

    def around(self, box: kdb.Box) -> list[Place]:
        """The placed cells that contain a box, nearly, the lowest first."""
        found: list[tuple[int, Place]] = []
        pending = [(0, (self.top.cell_index(), kdb.Trans()))]
        while pending:
            depth, place = pending.pop()
            found.append((depth, place))
            pending += [(depth + 1, below) for below in self._below(place, box)]
        order = sorted(found, key=lambda entry: (-entry[0], self.layout.cell_name(entry[1][0]), str(entry[1][1])))
        return [place for _, place in order]

    def _below(self, place: Place, box: kdb.Box) -> Iterator[Place]:
        index, trans = place
        local = box.transformed(trans.inverted())
        for instance in self.layout.cell(index).each_touching_inst(local):
            if instance.is_complex():
                continue
            code = instance.trans.rot
            own = instance.cell.bbox().transformed(turn(code)).enlarged(self.beyond)
            for x, y in self._origins(instance, own, local).tolist():
                yield instance.cell_index, trans * turn(code, x, y)

    def _origins(self, instance: kdb.Instance, own: kdb.Box, local: kdb.Box) -> NDArray[np.int64]:
        """(n, 2) where those members of an array lie that contain a box."""
        a, b, start = instance.a, instance.b, instance.trans.disp
        key = (start.x, start.y, a.x, a.y, b.x, b.y, instance.na, instance.nb)
        if key not in self.origins:
            i, j = np.indices((max(instance.na, 1), max(instance.nb, 1))).reshape(2, -1)
            self.origins[key] = np.stack([start.x + i * a.x + j * b.x, start.y + i * a.y + j * b.y], axis=1)
        at = self.origins[key]
        low = np.all(at <= np.array([local.left - own.left, local.bottom - own.bottom]), axis=1)
        high = np.all(at >= np.array([local.right - own.right, local.top - own.top]), axis=1)
        return np.asarray(at[low & high])


def distinct(hierarchy: Hierarchy, markers: Sequence[kdb.Polygon]) -> tuple[Distinct, ...]:
    """Group faults by the cells that they are in.

    Args:
        hierarchy: Layout in which they were found.
        markers: Where, flat, in database units.

    Returns:
        Each fault once, those of the top cell first, sorted by cell and place.
    """
    if not markers:
        return ()
    chains = [hierarchy.around(marker.bbox()) for marker in markers]
    seen = [
        [(cell, marker.transformed(trans.inverted())) for cell, trans in chain]
        for marker, chain in zip(markers, chains, strict=True)
    ]
    count = Counter(key for keys in seen for key in set(keys))
    layout, found = hierarchy.layout, {}
    for chain, keys in zip(chains, seen, strict=True):
        whole = [n for n, (cell, _) in enumerate(keys) if count[keys[n]] == hierarchy.instances[cell]]
        cell, marker = keys[whole[0]]
        if (cell, marker) not in found:
            example = kdb.DCplxTrans(chain[whole[0]][1].to_dtype(layout.dbu))
            found[cell, marker] = Distinct(
                layout.cell_name(cell), marker.to_dtype(layout.dbu), hierarchy.instances[cell], example
            )
    order = sorted(found, key=lambda key: (key[0] != hierarchy.top.cell_index(), layout.cell_name(key[0]), key[1]))
    return tuple(found[key] for key in order)
