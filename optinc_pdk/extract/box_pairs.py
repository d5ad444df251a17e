"""Search for all pairs of touching boxes among millions of boxes.

Boxes are sorted into horizontal strips and swept from left to right. Long boxes, such as wires, are treated separately,
because they would be in many strips.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints

# A box longer than this many strip widths is a long one.
LONG_STRIPS = 16
# Candidate pairs compared at a time, which limits the memory used.
MAX_CANDIDATES = 4_000_000
# Distance from an edge within which a line that ends there does not cross it.
ROUNDING = 3
# Direction in which the edges of a box move when it grows.
OUTWARDS = np.array([-1, -1, 1, 1])
# Columns of boxes with x and y exchanged.
SWAPPED_AXES = [1, 0, 3, 2]


def touching_pairs(first: Ints, second: Ints, strip: int | None = None) -> Ints:
    """Find all pairs of boxes, one from each of two sets (n, 4) and (m, 4), that share at least one point.

    Boxes are left, bottom, right and top. ``strip``, the width of the strips into which they are sorted, affects speed
    only. It should be about the size of most boxes; the default is their median size, for the set in which it is
    larger.

    Returns:
        (k, 2) index in ``first`` and index in ``second`` of each pair, in ascending order.
    """
    if strip is None:
        strip = max(1, _median_size(first), _median_size(second))
    (short, wide, tall), (short_too, wide_too, tall_too) = (_by_shape(boxes, strip) for boxes in (first, second))
    swapped, swapped_too = first[:, SWAPPED_AXES], second[:, SWAPPED_AXES]
    parts = [
        _along(first, np.append(short, wide), second, np.append(short_too, wide_too), strip),
        _along(swapped, np.append(short, tall), swapped_too, tall_too, strip),
        _along(swapped, tall, swapped_too, short_too, strip),
        _across(first, wide, second, tall_too),
        _across(second, wide_too, first, tall)[:, ::-1],
    ]
    pairs = np.concatenate(parts)
    return pairs[np.lexsort(pairs.T[::-1])]


def close_pairs(boxes: Ints, distance: int, strip: int) -> Ints:
    """Return the pairs (k, 2) of boxes (n, 4) that are less than a distance apart along both axes, the lower first.

    ``strip`` is as for :func:`touching_pairs`.
    """
    grown = boxes + np.array([0, 0, distance - 1, distance - 1])
    pairs = touching_pairs(grown, grown, strip)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def line_boxes(lines: Ints) -> Ints:
    """Return the bounding boxes (n, 4) of lines (n, 4) between two points."""
    return np.concatenate([np.minimum(lines[:, :2], lines[:, 2:]), np.maximum(lines[:, :2], lines[:, 2:])], axis=1)


def crossed_lines(lines: Ints, edges: Ints) -> Bools:
    """Return whether lines (n, 4) cross any of some edges (m, 4), more than `ROUNDING` away from their ends."""
    line, edge = touching_pairs(line_boxes(lines), line_boxes(edges)).T
    start, end = lines[line, :2], lines[line, 2:]
    along, wall, between = end - start, edges[edge, 2:] - edges[edge, :2], edges[edge, :2] - start

    def cross(a: Ints, b: Ints) -> Floats:
        return np.asarray(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], dtype=np.float64)

    turn, length = cross(along, wall), np.hypot(*along.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        at, beside = cross(between, wall) / turn * length, cross(between, along) / turn
    inner = (at > ROUNDING) & (at < length - ROUNDING) & (beside >= 0) & (beside <= 1)
    crossed = np.zeros(len(lines), dtype=np.bool_)
    crossed[line[inner]] = True
    return crossed


def _median_size(boxes: Ints) -> int:
    """Return the median of the boxes' longer sides, 0 without boxes."""
    return int(np.median(np.max(boxes[:, 2:] - boxes[:, :2], axis=1))) if len(boxes) else 0


def _by_shape(boxes: Ints, strip: int) -> tuple[Ints, Ints, Ints]:
    """Return the numbers of the short boxes, of the long wide ones and of the long tall ones."""
    width, height = (boxes[:, 2:] - boxes[:, :2]).T
    long = np.maximum(width, height) > LONG_STRIPS * strip
    wide = long & (width >= height)
    return np.flatnonzero(~long), np.flatnonzero(wide), np.flatnonzero(long & ~wide)


def _along(first: Ints, ones: Ints, second: Ints, others: Ints, strip: int) -> Ints:
    """Find pairs in common strips: the left edge of one of the two boxes lies between the edges of the other."""
    if not len(ones) or not len(others):
        return np.zeros((0, 2), dtype=np.int64)
    one, other = _in_strips(first, ones, strip), _in_strips(second, others, strip)
    return np.concatenate(
        [_sweep(first, one, second, other, strip, 0), _sweep(second, other, first, one, strip, 1)[:, ::-1]]
    )


def _in_strips(boxes: Ints, numbers: Ints, strip: int) -> tuple[Ints, Ints]:
    """Return strip and box number for every strip that a box touches, sorted by strip and left edge."""
    low = boxes[numbers, 1] // strip
    count = boxes[numbers, 3] // strip - low + 1
    number = np.repeat(numbers, count)
    where = np.repeat(low, count) + _counted(count)
    order = np.lexsort((boxes[number, 0], where))
    return where[order], number[order]


def _sweep(first: Ints, one: tuple[Ints, Ints], second: Ints, other: tuple[Ints, Ints], strip: int, after: int) -> Ints:
    """Find pairs whose second box has its left edge within the first, at least ``after`` right of its left edge.

    Each set is given by its boxes and by :func:`_in_strips`.
    """
    (strips, a), (strips_too, b) = one, other
    least = min(int(first[a, 0].min()), int(second[b, 0].min()))
    most = max(int(first[a, 2].max()), int(second[b, 2].max())) - least + 2
    keys = strips_too * most + second[b, 0] - least
    start = np.searchsorted(keys, strips * most + first[a, 0] - least + after)
    stop = np.searchsorted(keys, strips * most + first[a, 2] - least, side="right")
    parts = [np.zeros((0, 2), dtype=np.int64)]
    for i, j in _listed(start, stop):
        pairs = np.stack([a[i], b[j]], axis=1)
        bottom = np.maximum(first[a[i], 1], second[b[j], 1])
        # a pair that shares several strips counts in the lowest of them
        counted = (bottom <= np.minimum(first[a[i], 3], second[b[j], 3])) & (bottom // strip == strips[i])
        parts.append(pairs[counted])
    return np.concatenate(parts)


def _across(first: Ints, wide: Ints, second: Ints, tall: Ints) -> Ints:
    """Find pairs of a wide and a tall box: the left edge of one lies between the edges of the other."""
    if not len(wide) or not len(tall):
        return np.zeros((0, 2), dtype=np.int64)
    order = np.argsort(first[wide, 0])
    lefts = first[wide[order], 0]
    start, stop = (np.searchsorted(lefts, second[tall, edge], side="right") for edge in (0, 2))
    candidates = [np.stack([wide[order[j]], tall[i]], axis=1) for i, j in _listed(start, stop)]
    # one tree per octave of height: the search range follows from the highest box of a tree
    octave = np.log2(1 + first[wide, 3] - first[wide, 1]).astype(np.int64)
    for height in np.unique(octave):
        candidates += _crossed(first, wide[octave == height], second, tall)
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *candidates])
    bottom = np.maximum(first[pairs[:, 0], 1], second[pairs[:, 1], 1])
    overlap: Bools = bottom <= np.minimum(first[pairs[:, 0], 3], second[pairs[:, 1], 3])
    return np.compress(overlap, pairs, axis=0)


def _crossed(first: Ints, wide: Ints, second: Ints, tall: Ints) -> list[Ints]:
    """Find candidates whose tall box has its left edge within the wide box, by a segment tree over these edges."""
    edges, leaf = np.unique(second[tall, 0], return_inverse=True)
    leaves = 1 << len(edges).bit_length()
    ends = (np.searchsorted(edges, first[wide, 0]), np.searchsorted(edges, first[wide, 2], side="right"))
    node, number = _covering(ends[0] + leaves, ends[1] + leaves)
    bottoms = np.sort(first[wide, 1])
    keys = node * (len(wide) + 1) + np.searchsorted(bottoms, first[wide[number], 1])
    order = np.argsort(keys)
    keys, number = keys[order], number[order]
    height = (first[wide, 3] - first[wide, 1]).max()
    low = np.searchsorted(bottoms, second[tall, 1] - height)
    high = np.searchsorted(bottoms, second[tall, 3], side="right")
    candidates = []
    # a leaf has one ancestor on every level of the tree
    for level in range(leaves.bit_length()):
        at = (leaf + leaves >> level) * (len(wide) + 1)
        start, stop = np.searchsorted(keys, at + low), np.searchsorted(keys, at + high)
        candidates += [np.stack([wide[number[j]], tall[i]], axis=1) for i, j in _listed(start, stop)]
    return candidates


def _covering(low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return the fewest nodes of a binary tree (root 1) that cover ranges of leaves, and the number of the range."""
    number = np.arange(len(low))
    nodes, numbers = [], []
    while len(number):
        for_low = (low < high) & (low % 2 == 1)
        nodes.append(low[for_low])
        low = low + for_low
        for_high = (low < high) & (high % 2 == 1)
        high = high - for_high
        nodes.append(high[for_high])
        numbers += [number[for_low], number[for_high]]
        more = low < high
        low, high, number = low[more] // 2, high[more] // 2, number[more]
    return np.concatenate(nodes), np.concatenate(numbers)


def _counted(count: Ints) -> Ints:
    """Concatenate 0, 1, ..., count - 1 for each count."""
    return np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)


def _listed(start: Ints, stop: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield the number of each range with each number in it, at most about ``MAX_CANDIDATES`` at a time."""
    count = stop - start
    total = np.cumsum(count)
    done = 0
    while done < len(count):
        before = int(total[done - 1]) if done else 0
        until = max(done + 1, int(np.searchsorted(total, before + MAX_CANDIDATES, side="right")))
        part = count[done:until]
        yield np.repeat(np.arange(done, until), part), np.repeat(start[done:until], part) + _counted(part)
        done = until
