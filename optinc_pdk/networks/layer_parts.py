"""Structure of a layer's optical matrix: rows that units share, and parts that share neither rows nor columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.factor import find_structure

SMALLEST_MESH = 3
"""Smallest number of modes of a mesh with modes that are not at its edge."""
SAME_ROW = 1e-9
"""Largest difference of entries at which two rows of norm 1 count as equal."""


@dataclass(frozen=True)
class LayerPart:
    """Independent part of a layer's optical matrix.

    Attributes:
        rows: Its rows of the optical matrix.
        columns: Its columns, ascending.
    """

    rows: range
    columns: tuple[int, ...]


def shared_rows(weight: Floats) -> Ints:
    """Assign rows that are equal up to a positive factor to one common row.

    Args:
        weight: (out, in) matrix.

    Returns:
        (out,) number of the common row of each row, numbered by first occurrence; -1 for rows of zeros.
    """
    norm = np.linalg.norm(weight, axis=1)
    used = np.flatnonzero(norm > 0.0)
    numbers = np.full(len(weight), -1, dtype=np.int64)
    unit = weight[used] / norm[used, np.newaxis]
    first: list[int] = []
    for i, row in zip(used.tolist(), unit, strict=True):
        same = np.flatnonzero(np.abs(unit[first] - row).max(axis=1) <= SAME_ROW) if first else np.zeros(0, np.int64)
        if not same.size:
            first.append(int(np.searchsorted(used, i)))
        numbers[i] = same[0] if same.size else len(first) - 1
    return numbers


def independent_parts(
    matrix: Floats, consecutive_columns: bool, consecutive_rows: bool
) -> list[tuple[list[int], tuple[int, ...]]]:
    """Divide a matrix into parts whose rows and columns share no non-zero entry with other parts.

    Args:
        matrix: (rows, columns) matrix.
        consecutive_columns: Whether the columns of every part must be consecutive; parts between them are merged.
        consecutive_rows: The same for rows.

    Parts that are smaller than the largest one, but have rows or columns in their middle, are merged with it, because
    their meshes could not be made equally long by dummy MZIs.

    Returns:
        Rows and columns of each part, both ascending; parts are in the order of their first columns if these are
        consecutive, otherwise of their first rows. A row or column of zeros belongs to the part next to it.
    """
    found = find_structure(matrix)
    if not found.parts:
        return [(list(range(found.shape[0])), tuple(range(found.shape[1])))]
    row, column = (np.full(size, -1, dtype=np.int64) for size in found.shape)
    for number, part in enumerate(found.parts):
        row[part.rows], column[part.columns] = number, number
    row, column = row[_nearest(row >= 0)], column[_nearest(column >= 0)]
    merging = True
    while merging:
        before = int(np.unique(row).size)
        for asked, order in ((consecutive_columns, column), (consecutive_rows, row)):
            if asked:
                merged = _merged(order)
                row, column = merged[row], merged[column]
        for order in (column, row):
            merged = _without_padding(order, len(found.parts))
            row, column = merged[row], merged[column]
        merging = np.unique(row).size < before
    order = column if consecutive_columns else row
    return [
        (np.flatnonzero(row == part).tolist(), tuple(np.flatnonzero(column == part).tolist()))
        for part in dict.fromkeys(order.tolist())
    ]


def _nearest(used: Bools) -> Ints:
    """For every entry, the last used entry up to it; for entries before the first used one, that one."""
    last = np.maximum.accumulate(np.where(used, np.arange(used.size), -1))
    return np.where(last < 0, int(used.argmax()), last)


def _without_padding(label: Ints, count: int) -> Ints:
    """New label of each of ``count`` labels: that of the largest part for parts of 3 or more modes that are smaller.

    On the chip all parts of a layer are as long as the largest one, and only modes at the edge of a part have space for
    the dummy MZIs that make them so.
    """
    sizes = np.bincount(label, minlength=count)
    return np.where((sizes >= SMALLEST_MESH) & (sizes < sizes.max()), sizes.argmax(), np.arange(count))


def _merged(label: Ints) -> Ints:
    """New label of every label, equal for labels whose ranges of positions overlap."""
    new = np.arange(label.max() + 1)
    end, current = -1, -1
    for position, each in enumerate(label.tolist()):
        if position > end:
            current = each
        new[each] = current
        end = max(end, int(np.flatnonzero(label == each)[-1]))
    return new
