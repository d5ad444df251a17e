"""Reader of GDS2 records that counts the shapes and references of cells, before KLayout reads the file.

Source of the format: GDSII Stream Format Manual, release 6.0 (Calma, 1987). A record consists of its length in bytes, a
record type, a data type and the data, all big-endian.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.arrays import Bools, Ints
from optinc_pdk.extract.size_limits import CellSizes, GdsError

HEADER = 4
BOUNDARY, PATH, TEXT, NODE, BOX = 0x08, 0x09, 0x0C, 0x15, 0x2D
STRNAME, XY, SNAME, COLROW, MAG = 0x06, 0x10, 0x12, 0x13, 0x1B
POINT_BYTES = 8
# Masks are drawn at their final size. Scripts that convert units magnify by factors well within these limits.
MAGNIFICATIONS = 0.01, 100.0


def read_cell_sizes(data: bytes) -> CellSizes:
    """Count the shapes, points and references of the cells in a GDS2 stream.

    Reading stops without an error at the first record that is not valid.

    Args:
        data: Content of the file.

    Returns:
        Sizes of the cells, and their references to each other; references to cells that the file lacks are left out.

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
