"""Resistive sheets: the metal of a net as a resistor network on a raster, solved for its voltages.

Raster lines pass through all corners of the metal, so cells of metal with edges parallel to the axes are either full or
empty. The conductance of a cell cut by a slanted edge is proportional to its share of metal. Neighbouring cells are
joined by a resistor of as many squares as lie between their centres (finite volumes, two-point flux). Pads are held
at 0 V.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import klayout.db as kdb
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.drive import RangeError
from optinc_pdk.signoff.drc._density import coverage

# Least number of cells into which wide metal is divided: it resolves a spreading current and is fast to solve.
CELLS = 40_000
# Largest raster; that of a die with 7,600 heaters has 500,000 cells.
MAX_CELLS = 16_000_000
# A cell with a smaller share of metal is empty; such shares result from rounding.
LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class SheetCuts:
    """Straight cuts across the metal of a sheet, between two neighbouring columns or rows of cells.

    A cut extends from edge to edge of the metal.

    Attributes:
        boxes: (n, 4) left, bottom, right and top; a box extends to the centres of the cells on both sides of the cut.
        width: (n,) length of the cut, which is the width of the metal that the current flows through.
        current: (n,) magnitude of the current in A. It includes the component along the cut, for metal that is not
            perpendicular to the cut.
    """

    boxes: Floats
    width: Floats
    current: Floats


@dataclass(frozen=True, eq=False)
class ResistiveSheet:
    """The metal of one net on one layer as a resistor network on a raster. All lengths have the same, arbitrary unit.

    Attributes:
        x, y: (columns + 1,) and (rows + 1,) coordinates of the raster lines, ascending.
        share: (columns, rows) fraction of each cell's area that is metal.
        sink: (columns, rows) whether each cell is held at 0 V.
        sheet_ohm: Sheet resistance in Ω per square.
    """

    x: Floats
    y: Floats
    share: Floats
    sink: Bools
    sheet_ohm: float

    @classmethod
    def of(cls, polygons: Sequence[kdb.Polygon], sinks: Sequence[kdb.Box], sheet_ohm: float) -> ResistiveSheet:
        """Build the sheet of some polygons.

        Args:
            polygons: Merged polygons of the net.
            sinks: Boxes that are held at 0 V, such as pads.
            sheet_ohm: Sheet resistance in Ω per square.

        Raises:
            RangeError: The raster has more than `MAX_CELLS` cells.
        """
        points = np.array([(p.x, p.y) for polygon in polygons for e in polygon.each_edge() for p in (e.p1, e.p2)])
        edges = np.array([(box.left, box.bottom) for box in sinks] + [(box.right, box.top) for box in sinks])
        step = math.sqrt(sum(polygon.area() for polygon in polygons) / CELLS)
        x, y = (_lines(np.concatenate([points[:, axis], edges.reshape(-1, 2)[:, axis]]), step) for axis in (0, 1))
        if (len(x) - 1) * (len(y) - 1) > MAX_CELLS:
            raise RangeError(
                f"its metal needs a raster of {len(x) - 1:,} by {len(y) - 1:,} cells, one line per corner; "
                f"at most {MAX_CELLS:,} cells are solved. Draw it with fewer corners"
            )
        area = np.outer(np.diff(x), np.diff(y))
        share = np.clip(coverage(polygons, x, y) / area, 0.0, 1.0)
        share[share < LEAST_SHARE] = 0.0
        sink = np.zeros(share.shape, dtype=bool)
        middle_x, middle_y = (x[1:] + x[:-1]) / 2, (y[1:] + y[:-1]) / 2
        for box in sinks:
            column = (middle_x > box.left) & (middle_x < box.right)
            sink |= column[:, np.newaxis] & (middle_y > box.bottom) & (middle_y < box.top)
        return cls(x, y, share, sink & (share > 0), sheet_ohm)

    @cached_property
    def conductance(self) -> tuple[Floats, Floats]:
        """Conductance in S between neighbouring cells: (columns - 1, rows) along x, and (columns, rows - 1) along y."""
        dx, dy = np.diff(self.x)[:, np.newaxis], np.diff(self.y)[np.newaxis, :]
        # a cell held at 0 V has this voltage up to its edges
        half_x, half_y = (np.where(self.sink, 0.0, np.broadcast_to(d, self.share.shape) / 2) for d in (dx, dy))
        both = np.minimum(self.share[1:], self.share[:-1]), np.minimum(self.share[:, 1:], self.share[:, :-1])
        with np.errstate(divide="ignore", invalid="ignore"):
            along_x = dy * both[0] / (half_x[1:] + half_x[:-1]) / self.sheet_ohm
            along_y = dx * both[1] / (half_y[:, 1:] + half_y[:, :-1]) / self.sheet_ohm
        inner_x, inner_y = self.sink[1:] & self.sink[:-1], self.sink[:, 1:] & self.sink[:, :-1]
        return np.where(inner_x, 0.0, along_x), np.where(inner_y, 0.0, along_y)

    @cached_property
    def _number(self) -> Ints:
        """(columns, rows) number of each cell whose voltage is unknown, -1 elsewhere."""
        free = (self.share > 0) & ~self.sink & self._grounded
        number = np.full(free.shape, -1, dtype=np.int64)
        number[free] = np.arange(int(free.sum()))
        return number

    @cached_property
    def _grounded(self) -> Bools:
        """(columns, rows) whether metal joins a cell to a cell held at 0 V."""
        number = np.arange(self.share.size).reshape(self.share.shape)
        pairs = [
            np.stack([a[g > 0], b[g > 0]])
            for a, b, g in zip(
                (number[:-1], number[:, :-1]), (number[1:], number[:, 1:]), self.conductance, strict=True
            )
        ]
        first, second = np.concatenate(pairs, axis=1)
        graph = coo_array((np.ones(len(first)), (first, second)), shape=(number.size, number.size))
        part = connected_components(graph, directed=False)[1].reshape(self.share.shape)
        return np.isin(part, np.unique(part[self.sink]))

    @cached_property
    def _factors(self) -> Any:
        count = int(self._number.max(initial=-1)) + 1
        diagonal = np.zeros(count)
        rows, columns, values = [], [], []
        for axis in (0, 1):
            conductance, number = np.moveaxis(self.conductance[axis], axis, 0), np.moveaxis(self._number, axis, 0)
            low, high = number[:-1], number[1:]
            for one, other in ((low, high), (high, low)):
                here = (one >= 0) & (conductance > 0)
                np.add.at(diagonal, one[here], conductance[here])
                both = here & (other >= 0)
                rows.append(one[both])
                columns.append(other[both])
                values.append(-conductance[both])
        index = np.arange(count)
        matrix = csc_array(
            coo_array(
                (
                    np.concatenate([diagonal, *values]),
                    (np.concatenate([index, *rows]), np.concatenate([index, *columns])),
                ),
                shape=(count, count),
            )
        )
        try:
            return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        except (MemoryError, RuntimeError) as fault:
            # SuperLU reports a lack of memory as either; every cell is joined to 0 V, so that none is singular
            raise RangeError(
                f"the metal of a ground needs {count:,} unknown voltages, for which memory does not suffice ({fault}). "
                "Draw it with fewer corners, or use a machine with more memory"
            ) from fault

    def entries(self, points: ArrayLike) -> tuple[Ints, Floats]:
        """Return the cells through which currents at some points enter the metal.

        A current at a point on raster lines enters the cells on all sides of the point equally, as far as they are
        metal, so that a mirrored or rotated sheet has the same voltages.

        Args:
            points: (n, 2) x and y.

        Returns:
            (4, n, 2) column and row, and (4, n) share of each cell; the shares of a point have the sum 1.
        """
        x, y = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
        columns, rows = (_both_sides(lines, values) for lines, values in ((self.x, x), (self.y, y)))
        cells = np.stack([np.stack([column, row], axis=1) for column in columns for row in rows])
        metal = self.share[cells[..., 0], cells[..., 1]] > 0
        # a point without metal around it: its current flows nowhere, and its shares still have the sum 1
        metal |= ~metal.any(axis=0)
        return cells, metal / metal.sum(axis=0)

    def voltages(self, cells: Ints, currents: Floats) -> Floats:
        """Solve for the voltage of each cell.

        Args:
            cells: (n, 2) column and row of the cells that currents enter.
            currents: (n,) these currents in A.

        Returns:
            (columns, rows) voltages in V; 0 outside the metal.
        """
        voltage = np.zeros(self.share.shape)
        free = self._number >= 0
        if free.any():
            source = np.zeros(self.share.shape)
            np.add.at(source, (cells[:, 0], cells[:, 1]), currents)
            voltage[free] = self._factors.solve(source[free])
        return voltage

    def cuts(self, voltage: Floats) -> SheetCuts:
        """Compute the current through every straight cut across the metal.

        Args:
            voltage: (columns, rows) voltages in V, from :meth:`voltages`.
        """
        drop = voltage[:-1] - voltage[1:], voltage[:, :-1] - voltage[:, 1:]
        flow_x, flow_y = (g * v for g, v in zip(self.conductance, drop, strict=True))
        across = _cuts(self.x, self.y, self.share, flow_x, flow_y)
        vertical = _cuts(self.y, self.x, self.share.T, flow_y.T, flow_x.T)
        swapped = vertical.boxes[:, [1, 0, 3, 2]]
        return SheetCuts(
            np.concatenate([across.boxes, swapped]),
            np.concatenate([across.width, vertical.width]),
            np.concatenate([across.current, vertical.current]),
        )


def _both_sides(lines: Floats, values: Floats) -> list[Ints]:
    """(n,) numbers of the intervals below and above each value; they are equal for a value between lines."""
    # lines that divide an interval are rounded
    rounding = 1e-9 * (lines[-1] - lines[0])
    ends = np.searchsorted(lines, values - rounding, "right"), np.searchsorted(lines, values + rounding, "right")
    return [np.clip(end - 1, 0, len(lines) - 2) for end in ends]


def _lines(values: Floats, step: float) -> Floats:
    """Distinct values, ascending, with further values in between so that neighbours are at most a step apart."""
    lines = np.unique(values).astype(np.float64)
    count = np.maximum(np.ceil(np.diff(lines) / max(step, 1.0)).astype(np.int64), 1)
    first = np.repeat(lines[:-1], count)
    part = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return np.append(first + part * np.repeat(np.diff(lines) / count, count), lines[-1])


def _cuts(x: Floats, y: Floats, share: Floats, normal: Floats, along: Floats) -> SheetCuts:
    """Cuts at the lines of ``x``, from currents (columns - 1, rows) across them and (columns, rows - 1) along them."""
    open_ = np.minimum(share[1:], share[:-1]) > 0
    # a cut begins at the first cell of a line and after a cell without metal
    begins = open_.copy()
    begins[:, 1:] &= ~open_[:, :-1]
    number = np.cumsum(begins.ravel()).reshape(open_.shape) - 1
    cut, count = number[open_], int(begins.sum())
    column, row = np.nonzero(open_)
    tall = np.diff(y)[row] * np.minimum(share[1:], share[:-1])[open_]
    inner = np.pad(along, ((0, 0), (1, 1)))
    sideways = (inner[:, 1:] + inner[:, :-1]) / 2 / np.diff(x)[:, np.newaxis]
    weights = tall, normal[open_], sideways[1:][open_] * tall, sideways[:-1][open_] * tall
    width, across, behind, before = (np.bincount(cut, weights=w, minlength=count) for w in weights)
    # where a trunk joins a bus, the current along the bus is on one side of the cut only and does not count
    parallel = np.where(behind * before > 0, np.minimum(np.abs(behind), np.abs(before)), 0.0)
    first = np.flatnonzero(np.diff(cut, prepend=-1))
    last = np.append(first[1:], len(cut))[:count] - 1
    middle = (x[1:] + x[:-1]) / 2
    boxes = np.stack([middle[column[first]], y[row[first]], middle[column[first] + 1], y[row[last] + 1]], axis=1)
    return SheetCuts(boxes.reshape(-1, 4).astype(np.float64), width.astype(np.float64), np.hypot(across, parallel))
