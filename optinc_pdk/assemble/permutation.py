"""Permutation of guides: columns of adjacent swaps, with a waveguide crossing for each swap."""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.circuit import CircuitBuilder


def swap_columns(order: Sequence[int]) -> list[list[int]]:
    """Return the swaps that permute n guides, by odd-even transposition (Knuth, TAOCP 3, 5.3.4).

    Only guides that have to change sides are swapped, so the number of swaps is the number of inversions, the minimum.

    Args:
        order: (n,) which guide, numbered from the top, is to become the i-th.

    Returns:
        Columns from left to right, each as the upper rows of its swaps. Transposition may start with even or odd rows;
        the solution with fewer columns is returned.

    Raises:
        ValueError: The order is not a permutation.
    """
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"order is {list(order)}; give every guide 0 … {len(order) - 1} once")
    return min((_transposition(order, first) for first in (0, 1)), key=len)


def _transposition(order: Sequence[int], first: int) -> list[list[int]]:
    destination = [0] * len(order)
    for place, guide in enumerate(order):
        destination[guide] = place
    columns: list[list[int]] = []
    for step in range(first, first + len(destination) + 1):
        swaps = [row for row in range(step % 2, len(destination) - 1, 2) if destination[row] > destination[row + 1]]
        for row in swaps:
            destination[row], destination[row + 1] = destination[row + 1], destination[row]
        if swaps:
            columns.append(swaps)
    return columns


def permute(
    b: CircuitBuilder, section: str, ends: Sequence[str], order: Sequence[int], column: int = 0, row: int = 0
) -> list[str]:
    """Permute guides by adding waveguide crossings.

    Clockwise from the lower guide on the left a crossing has o1, o2, o3, o4: the lower guide enters o1 and leaves o3
    as the upper, the upper one enters o2 and leaves o4 as the lower.

    Args:
        b: Circuit under construction.
        section: Section of the floorplan and prefix of the crossings' names; a crossing's row is its upper guide's.
        ends: (n,) ports at the guides' ends, uppermost first.
        order: (n,) which of them is to become the i-th.
        column: Column of the first crossings.
        row: Row of the uppermost guide.

    Returns:
        (n,) ports in the new order.

    Raises:
        ValueError: The order is not a permutation of the guides.
    """
    moved = list(ends)
    if len(order) != len(moved):
        raise ValueError(f"order names {len(order)} guides of {len(moved)}; name every one")
    for step, swaps in enumerate(swap_columns(order), column):
        for upper in swaps:
            crossing = b.add(f"{section}_x_c{step}_r{row + upper}", "crossing", (section, step, row + upper))
            b.connect(moved[upper], f"{crossing},o2")
            b.connect(moved[upper + 1], f"{crossing},o1")
            moved[upper], moved[upper + 1] = f"{crossing},o3", f"{crossing},o4"
    return moved
