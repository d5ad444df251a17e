"""Which boxes touch which: all pairs at once, by sorting the boxes into the bins of a grid."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from optinc_pdk.extract.contours import Ints, pack

# A box larger than a bin is entered in all that it touches; bins grow until there are no more entries per box.
_ENTRIES = 16
# Pairs tried at once, so that memory stays bounded.
_CHUNK = 1 << 22


def touching(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Pairs of boxes that have a point in common, their outlines included.

    Args:
        first: (n, 4) left, bottom, right, top.
        second: (m, 4) likewise.

    Returns:
        (k,) numbers of the first boxes, ascending, and (k,) of the second that each touches, ascending.
    """
    none = np.zeros(0, dtype=np.int64)
    if not len(first) or not len(second):
        return none, none
    size = _bin_size(first, second)
    (bins, one), (others, other) = _entries(first, size), _entries(second, size)
    low, high = np.searchsorted(others, bins, "left"), np.searchsorted(others, bins, "right")
    count = high - low
    chunks = np.searchsorted(np.cumsum(count), np.arange(0, int(np.sum(count)), _CHUNK))
    found = [(none, none)]
    for start, stop in pairwise([*np.unique(chunks).tolist(), len(bins)]):
        a = np.repeat(np.arange(start, stop), count[start:stop])
        own = np.cumsum(count[start:stop]) - count[start:stop]
        b = np.arange(len(a)) + np.repeat(low[start:stop] - own, count[start:stop])
        i, j = one[a], other[b]
        corner = np.maximum(first[i, :2], second[j, :2])
        meets = np.all(corner <= np.minimum(first[i, 2:], second[j, 2:]), axis=1)
        # a pair shows in every bin that both touch, and counts in that of the corner of what they share
        counts = meets & (bins[a] == pack(corner // size))
        found.append((i[counts], j[counts]))
    i, j = (np.concatenate(numbers) for numbers in zip(*found, strict=True))
    order = np.lexsort((j, i))
    return i[order], j[order]


def _bin_size(first: Ints, second: Ints) -> int:
    """Width of the bins in nm."""
    boxes = np.concatenate([first, second])
    extent = boxes[:, 2:] - boxes[:, :2]
    size = max(1, int(np.median(np.max(extent, axis=1))))
    while int(np.sum(np.prod(extent // size + 1, axis=1))) > _ENTRIES * len(boxes):
        size *= 2
    return size


def _entries(boxes: Ints, size: int) -> tuple[Ints, Ints]:
    """(e,) bins and (e,) numbers of the boxes that touch them, sorted by bin."""
    low, high = boxes[:, :2] // size, boxes[:, 2:] // size
    spans = high - low + 1
    count = np.prod(spans, axis=1)
    number = np.repeat(np.arange(len(boxes)), count)
    step = np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)
    bins = pack(low[number] + np.stack([step % spans[number, 0], step // spans[number, 0]], axis=1))
    order = np.argsort(bins, kind="stable")
    return bins[order], number[order]
