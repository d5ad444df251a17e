"""Limits for the numbers of cells, shapes and points in a layout file.

A file of one kilobyte can contain arrays of arrays of a cell, cells that contain each other, or very deep nesting. The
records of GDS2 files are therefore counted before KLayout reads the file. Source of the format: GDSII Stream Format
Manual, release 6.0 (Calma, 1987). A record consists of its length in bytes, a record type, a data type and the data,
all big-endian.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.errors import InputError

# Limits of this program, not of a process. The largest network laid out so far, 41,664 MZIs on six dies, has 1,199
# cells and, flattened, 2.4 million shapes and 1.1 million placed cells with 164 million points.
MAX_CELLS = 100_000
# KLayout sorts cells by depth in a time quadratic in the depth: one second at 8,000.
MAX_DEPTH = 1_000
MAX_PLACED = 10_000_000
# 8 bytes per point: 4 GB, the memory limit of sign-off.
MAX_POINTS = 500_000_000
# Names listed in a message.
MAX_LISTED = 5


class GdsError(InputError):
    """Error: a layout file is not usable. The message states the file and the reason."""


@dataclass(frozen=True)
class CellSizes:
    """Numbers of shapes and points in the C cells of a layout, and the R references between cells.

    Attributes:
        names: Names of the cells.
        shapes: (C,) number of shapes and texts in each cell, without those of the cells that it places.
        points: (C,) number of points of these shapes.
        parent: (R,) index of the cell that contains the reference.
        child: (R,) index of the cell that is placed.
        copies: (R,) number of times that this reference places the cell; above 1 for an array.
    """

    names: tuple[str, ...]
    shapes: Ints
    points: Ints
    parent: Ints
    child: Ints
    copies: Ints


def check_sizes(census: CellSizes, path: Path) -> None:
    """Check that a layout is small enough to be read and checked.

    Raises:
        GdsError: There are more than ``MAX_CELLS`` cells, cells contain each other or are nested more than
            ``MAX_DEPTH`` deep, or the flattened layout has more than ``MAX_PLACED`` shapes and cells or more than
            ``MAX_POINTS`` points; the message names the file ``path``.
    """
    if len(census.names) > MAX_CELLS:
        raise GdsError(f"{path}: has {len(census.names):,} cells, the limit is {MAX_CELLS:,}; draw equal cells once")
    order = _bottom_up(census, path)
    depth = [0] * len(order)
    placed, points = census.shapes.tolist(), census.points.tolist()
    by_parent = np.argsort(census.parent, kind="stable")
    first = np.searchsorted(census.parent[by_parent], np.arange(len(order) + 1)).tolist()
    child, copies = census.child[by_parent].tolist(), census.copies[by_parent].tolist()
    for cell in order:
        for i in range(first[cell], first[cell + 1]):
            depth[cell] = max(depth[cell], depth[child[i]] + 1)
            # Python's integers do not overflow: arrays of arrays can have more than 2⁶⁴ members
            placed[cell] += copies[i] * (placed[child[i]] + (placed[child[i]] > 0))
            points[cell] += copies[i] * points[child[i]]
        if depth[cell] > MAX_DEPTH:
            text = (
                f"cells are nested more than {MAX_DEPTH:,} deep, down from {census.names[cell]!r}; flatten some levels"
            )
            raise GdsError(f"{path}: {text}")
        for count, limit, what in (
            (placed[cell], MAX_PLACED, "shapes and cells"),
            (points[cell], MAX_POINTS, "points"),
        ):
            if count > limit:
                text = f"cell {census.names[cell]!r} has {_count_text(count)} {what} when placed flat"
                raise GdsError(f"{path}: {text}, the limit is {limit:,}; check the counts of its arrays")


def _count_text(count: int) -> str:
    """Format a number of any size."""
    return f"{count:,}" if count < 10**15 else f"{count:.1e}" if count < 10**300 else "over 1e300"


def _bottom_up(census: CellSizes, path: Path) -> list[int]:
    """Return the cells in an order in which each comes after all cells that it places."""
    graph: dict[int, list[int]] = {cell: [] for cell in range(len(census.names))}
    for parent, child in set(zip(census.parent.tolist(), census.child.tolist(), strict=True)):
        graph[parent].append(child)
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as fault:
        cycle = [census.names[cell] for cell in fault.args[1][::-1]]
        listed = " -> ".join(
            repr(name) for name in (cycle if len(cycle) <= MAX_LISTED else [*cycle[: MAX_LISTED - 1], "...", cycle[-1]])
        )
        raise GdsError(f"{path}: cells contain each other ({listed}); remove one of these references") from fault


HEADER = 4
BOUNDARY, PATH, TEXT, NODE, BOX = 0x08, 0x09, 0x0C, 0x15, 0x2D
STRNAME, XY, SNAME, COLROW, MAG = 0x06, 0x10, 0x12, 0x13, 0x1B
POINT_BYTES = 8
# Masks are drawn at their final size. Scripts that convert units magnify by factors well within these limits.
MAGNIFICATIONS = 0.01, 100.0


def read_cell_sizes(data: bytes) -> CellSizes:
    """Count the shapes, points and references of the cells in a GDS2 stream, up to the first record that is not valid.

    References to cells that the file lacks are left out.

    Raises:
        GdsError: A cell is magnified by a factor outside ``MAGNIFICATIONS``; the message does not name the file.
    """
    start = _record_starts(data)
    raw = np.frombuffer(data, dtype=np.uint8)
    kind = raw[start + 2]
    length = raw[start].astype(np.int64) * 256 + raw[start + 1]
    _check_magnifications(raw, start[kind == MAG])
    cell = np.cumsum(kind == STRNAME) - 1
    names = [_text(data, at, size) for at, size in _pairs(start, length, kind == STRNAME)]
    drawn = np.isin(kind, (BOUNDARY, PATH, TEXT, NODE, BOX)) & (cell >= 0)
    has_points = (kind == XY) & (cell >= 0)
    points = (length[has_points] - HEADER) // POINT_BYTES
    placed = (kind == SNAME) & (cell >= 0)
    number = {name: i for i, name in enumerate(names)}
    child = np.array([number.get(_text(data, a, n), -1) for a, n in _pairs(start, length, placed)], dtype=np.int64)
    copies = np.ones(len(child), dtype=np.int64)
    # the counts of an array belong to the last reference before them
    arrays = np.flatnonzero((kind == COLROW) & (length == HEADER + 4))
    owner = np.cumsum(placed)[arrays] - 1
    counts = _words(raw, start[arrays] + HEADER) * _words(raw, start[arrays] + HEADER + 2)
    copies[owner[owner >= 0]] = counts[owner >= 0]
    # references to cells that the file does not define are left out; KLayout reads them as empty cells
    known = child >= 0
    return CellSizes(
        tuple(name.decode("utf-8", "backslashreplace") for name in names),
        np.bincount(cell[drawn], minlength=len(names)),
        np.bincount(cell[has_points], weights=points, minlength=len(names)).astype(np.int64),
        cell[placed][known],
        child[known],
        copies[known],
    )


def _record_starts(data: bytes) -> Ints:
    """Return the byte offset of every record."""
    starts = array("q")
    at, end = 0, len(data) - HEADER
    while at <= end:
        size = data[at] << 8 | data[at + 1]
        if size < HEADER or at + size > len(data):
            break
        starts.append(at)
        at += size
    return np.array(starts, dtype=np.int64)


def _pairs(start: Ints, length: Ints, chosen: Bools) -> list[tuple[int, int]]:
    """Return offset and length of the chosen records."""
    return list(zip(start[chosen].tolist(), length[chosen].tolist(), strict=True))


def _text(data: bytes, at: int, size: int) -> bytes:
    """Return the text of a record, which ends at a zero byte."""
    return data[at + HEADER : at + size].split(b"\0", 1)[0]


def _words(raw: NDArray[np.uint8], at: Ints) -> Ints:
    """Read unsigned 16-bit integers, as KLayout does, at offsets (n,)."""
    return raw[at].astype(np.int64) * 256 + raw[at + 1]


def _check_magnifications(raw: NDArray[np.uint8], at: Ints) -> None:
    """Check magnifications at offsets (n,): 8 bytes with sign, exponent to base 16 plus 64, and fraction of 56 bits."""
    data = raw[at[at + HEADER + 8 <= len(raw), None] + np.arange(HEADER, HEADER + 8)].astype(np.int64)
    fraction = data[:, 1:] @ 256.0 ** -np.arange(1, 8)
    value = np.where(data[:, 0] & 128, -1.0, 1.0) * fraction * 16.0 ** ((data[:, 0] & 127) - 64.0)
    outside = value[(value < MAGNIFICATIONS[0]) | (value > MAGNIFICATIONS[1])]
    if len(outside):
        low, high = MAGNIFICATIONS
        raise GdsError(f"a cell is magnified by {outside[0]:g}, outside {low:g} to {high:g}; draw it at its final size")
