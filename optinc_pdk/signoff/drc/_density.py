"""Density rules: the share of each window of a raster that a layer covers, from exact areas of polygons.

Windows of a die start at its lower left corner and are `step_um` apart. A last column and a last row end at its right
and upper edge. A die smaller than a window is one window. Shapes outside the dies are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import klayout.db as kdb
import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.cards.rules import DensityRule
from optinc_pdk.extract.cell_placements import CellPlacements
from optinc_pdk.extract.polygons import contours, region_polygons
from optinc_pdk.signoff.drc._shape_checks import dies
from optinc_pdk.signoff.drc.design import Design

Lines = Ints | Floats
# Relative error allowed for areas: they are exact for edges parallel to the axes, and rounded otherwise.
ROUNDING = 1e-12


def density(design: Design, rule: DensityRule) -> kdb.Region:
    """Find the windows in which the fraction of area covered by a layer is below or above the rule's limits.

    Windows belong to dies; the second layer of the rule contains their outlines.
    """
    violations = kdb.Region()
    for die in dies(design, rule.layers[1]):
        raster = Raster.of(die.bbox(), design.dbu(rule.window_um), design.dbu(rule.step_um))
        violations += _violations(design, rule, raster)
    return violations


@dataclass(frozen=True)
class Raster:
    """The raster of density windows on a die. All coordinates are in database units.

    Attributes:
        x, y: Coordinates of the windows' edges, ascending; two neighbouring ones bound a column or row of bins.
        columns, rows: (n, 2) indices into ``x`` or ``y`` of the two edges of each column or row of windows.
    """

    x: Ints
    y: Ints
    columns: Ints
    rows: Ints

    @classmethod
    def of(cls, die: kdb.Box, window: int, step: int) -> Raster:
        """Build the raster of a die for square windows.

        Args:
            die: Outline of the die.
            window: Side of a window in database units.
            step: Distance between neighbouring windows in database units.
        """
        x, columns = _lines(die.left, die.right, window, step)
        y, rows = _lines(die.bottom, die.top, window, step)
        return cls(x, y, columns, rows)

    @property
    def window_area(self) -> Floats:
        """(columns, rows) area of each window in square database units."""
        return np.outer(np.diff(self.x[self.columns])[:, 0], np.diff(self.y[self.rows])[:, 0]).astype(np.float64)

    def windows(self, bins: Floats) -> Floats:
        """Sum values of bins over each window.

        Args:
            bins: (len(x) - 1, len(y) - 1) one value per bin.

        Returns:
            (columns, rows) sums.
        """
        total = np.zeros((len(self.x), len(self.y)))
        total[1:, 1:] = bins.cumsum(axis=0).cumsum(axis=1)
        return self.differences(total)

    def differences(self, total: Floats) -> Floats:
        """Convert cumulative sums to sums over each window.

        Args:
            total: (len(x), len(y)) sum of everything left of and below each pair of edges.

        Returns:
            (columns, rows) sums over each window.
        """
        across = total[self.columns[:, 1]] - total[self.columns[:, 0]]
        return np.asarray(across[:, self.rows[:, 1]] - across[:, self.rows[:, 0]])

    def boxes(self, chosen: Bools) -> kdb.Region:
        """Return the selected windows as boxes.

        Args:
            chosen: (columns, rows) whether a window is selected.
        """
        region = kdb.Region()
        for column, row in np.argwhere(chosen).tolist():
            (left, right), (bottom, top) = self.x[self.columns[column]].tolist(), self.y[self.rows[row]].tolist()
            region.insert(kdb.Box(left, bottom, right, top))
        return region


def _lines(low: int, high: int, window: int, step: int) -> tuple[Ints, Ints]:
    """Edges of windows along one axis, and (n, 2) the indices of each window's two edges."""
    size = min(window, high - low)
    starts = np.arange(low, high - size + 1, step, dtype=np.int64)
    starts = np.unique(np.append(starts, high - size))
    lines = np.unique(np.concatenate([starts, starts + size]))
    return lines, np.stack([np.searchsorted(lines, starts), np.searchsorted(lines, starts + size)], axis=1)


def _violations(design: Design, rule: DensityRule, raster: Raster) -> kdb.Region:
    """Windows of one die that violate a rule; areas are bounded first, and measured where the bound is not enough."""
    least, most = (share * raster.window_area for share in (rule.least, rule.most))
    # relative to the window, because rounding may make the area of an empty one negative
    tolerance = ROUNDING * raster.window_area
    suspects = np.full(most.shape, rule.least > 0)
    places = design.places((rule.layers[0],))
    if places is None:
        suspects[:] = True
    else:
        suspects |= raster.windows(_bound(design, rule.layers[0], places, raster)) > most + tolerance
    if not suspects.any():
        return kdb.Region()
    shapes = _merged(design, rule.layers[0], raster.boxes(suspects).merged())
    area = raster.windows(coverage(shapes, raster.x, raster.y))
    return raster.boxes(suspects & ((area < least - tolerance) | (area > most + tolerance)))


def _merged(design: Design, layer: str, area: kdb.Region) -> list[kdb.Polygon]:
    """A layer's shapes within an area, without overlaps."""
    shapes = kdb.RecursiveShapeIterator(design.layout, design.top, design.index(layer), area, True)
    return region_polygons((kdb.Region(shapes) & area).merged())


def _bound(design: Design, layer: str, places: CellPlacements, raster: Raster) -> Floats:
    """(columns, rows) upper bound of the area that a layer covers in each bin.

    Overlaps count twice, and the whole area of a cell counts in every bin that it touches.
    """
    index = design.index(layer)
    bins = coverage(region_polygons(places.loose[index]), raster.x, raster.y)
    kinds, kind = np.unique(places.cells[:, 0], return_inverse=True)
    areas = np.array(
        [kdb.Region(design.layout.cell(int(k)).begin_shapes_rec(index)).area() for k in kinds], dtype=float
    )
    left, bottom, right, top = places.boxes.T
    spread = np.zeros((len(raster.x), len(raster.y)))
    x0, x1 = np.searchsorted(raster.x, left, "right") - 1, np.searchsorted(raster.x, right, "left")
    y0, y1 = np.searchsorted(raster.y, bottom, "right") - 1, np.searchsorted(raster.y, top, "left")
    x0, y0 = np.maximum(x0, 0), np.maximum(y0, 0)
    x1, y1 = np.maximum(np.minimum(x1, len(raster.x) - 1), x0), np.maximum(np.minimum(y1, len(raster.y) - 1), y0)
    for i, j, sign in ((x0, y0, 1), (x1, y1, 1), (x0, y1, -1), (x1, y0, -1)):
        np.add.at(spread, (i, j), sign * areas[kind])
    return np.asarray(bins + spread.cumsum(axis=0).cumsum(axis=1)[:-1, :-1])


def coverage(polygons: Iterable[kdb.Polygon], x: Lines, y: Lines) -> Floats:
    """Compute the area of polygons in every bin of a raster.

    It applies Green's theorem to each bin: edges are cut at the raster lines. Each part of an edge contributes the area
    between it and the right side of its bin, and, to all bins farther right in the row, its height times their width.

    Args:
        polygons: Polygons; areas where they overlap count several times.
        x, y: (m,) and (n,) coordinates of the raster lines, ascending.

    Returns:
        (m - 1, n - 1) areas.
    """
    outline = contours(polygons)
    bins = np.zeros((len(x) - 1, len(y) - 1))
    start, end = _cut(outline.points.astype(np.float64), outline.ends.astype(np.float64), x, y)
    middle = (start + end) / 2
    rise = end[:, 1] - start[:, 1]
    row = np.searchsorted(y, middle[:, 1], "right") - 1
    column = np.searchsorted(x, middle[:, 0], "right") - 1
    # edges left of the raster count in all bins of their row, edges right of it in none
    kept = (rise != 0) & (row >= 0) & (row < len(y) - 1) & (column < len(x) - 1)
    rise, row, column, across = rise[kept], row[kept], column[kept], middle[kept, 0]
    inside = column >= 0
    within = np.where(inside, x[column + 1] - across, 0.0)
    # the polygon lies to the right of upward edges
    np.add.at(bins, (column[inside], row[inside]), (rise * within)[inside])
    height = np.zeros((len(x), len(y) - 1))
    np.add.at(height, (column + 1, row), rise)
    return np.asarray(bins + np.diff(x)[:, np.newaxis] * height.cumsum(axis=0)[:-1])


def _cut(start: Floats, end: Floats, x: Lines, y: Lines) -> tuple[Floats, Floats]:
    """Start and end points of edges cut where they cross the lines of a raster."""
    number = [np.arange(len(start)), np.arange(len(start))]
    along = [np.zeros(len(start)), np.ones(len(start))]
    for axis, lines in ((0, x), (1, y)):
        low, high = np.minimum(start[:, axis], end[:, axis]), np.maximum(start[:, axis], end[:, axis])
        first, last = np.searchsorted(lines, low, "right"), np.searchsorted(lines, high, "left")
        count = np.maximum(last - first, 0)
        edge = np.repeat(np.arange(len(start)), count)
        line = lines[np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + np.repeat(first, count)]
        number.append(edge)
        along.append((line - start[edge, axis]) / (end[edge, axis] - start[edge, axis]))
    edge, place = np.concatenate(number), np.concatenate(along)
    order = np.lexsort((place, edge))
    edge, place = edge[order], place[order]
    points = start[edge] + place[:, np.newaxis] * (end - start)[edge]
    same = edge[1:] == edge[:-1]
    return points[:-1][same], points[1:][same]
