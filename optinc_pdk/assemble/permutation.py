"""Permutation of guides: columns of adjacent swaps, with a waveguide crossing for each swap."""

from __future__ import annotations

from collections.abc import Sequence

from optinc_pdk.circuit import CircuitBuilder


def swap_columns(order: Sequence[int]) -> list[list[int]]:
    """Return columns of adjacent swaps that permute n guides, by odd-even transposition (Knuth, TAOCP 3, 5.3.4).

    The number of swaps is the minimum: it equals the number of inversions of the permutation. Both variants of the
    transposition, which start with even or with odd rows, are tried, and the one with fewer columns is returned.

    Args:
        order: (n,) number of the guide, from 0 at the top, that is moved to each position: guide ``order[i]`` to row i.

    Returns:
        Columns from left to right. Each lists the upper rows of its swaps: row r is exchanged with row r + 1.

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

    A crossing has ports o1 (lower left), o2 (upper left), o3 (upper right) and o4 (lower right). Light from o1 leaves
    at o3, and light from o2 leaves at o4.

    Args:
        b: Circuit under construction.
        section: Section of the floorplan, and prefix of the names of the crossings.
        ends: (n,) open ports of the guides, uppermost first.
        order: (n,) number of the guide that is moved to each position: guide ``order[i]`` to position i.
        column: Column of the first crossings.
        row: Row of the uppermost guide. A crossing is placed in the row of the upper of its two guides.

    Returns:
        (n,) open ports after the crossings, in the new order.

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
