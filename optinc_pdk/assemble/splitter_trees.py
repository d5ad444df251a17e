"""Splitter and combiner trees of 1×2 splitters, as balanced as the number of leaves allows."""

from __future__ import annotations

from optinc_pdk.circuit import CircuitBuilder


def add_tree(b: CircuitBuilder, name: str, section: str, root: str | None, leaves: list[str]) -> str:
    """Connect a root port to leaf ports through a tree of 1×2 splitters.

    Splitters are reciprocal, so a combiner is the same tree. In a subtree of n leaves, the first ⌈n/2⌉ leaves are on
    the upper branch.

    Args:
        b: Circuit under construction.
        name: Prefix of the splitters' names.
        section: Section of the floorplan.
        root: Port to connect to the root of the tree, or None to leave the root open.
        leaves: Ports to connect to the leaves, uppermost first.

    Returns:
        The port at the root: o1 of the first splitter, or the leaf itself if there is only one.
    """
    top = _branch(b, name, section, leaves, 0)[0]
    if root is not None:
        b.connect(root, top)
    return top


def _branch(b: CircuitBuilder, name: str, section: str, leaves: list[str], first: int) -> tuple[str, int]:
    """Add a branch; return the port at its root and its height in levels."""
    if len(leaves) == 1:
        return leaves[0], 0
    half = (len(leaves) + 1) // 2
    upper, high = _branch(b, name, section, leaves[:half], first)
    lower, low = _branch(b, name, section, leaves[half:], first + half)
    height = max(high, low) + 1
    node = b.add(f"{name}_{first}_{first + len(leaves) - 1}", "mmi1x2", (section, height, first))
    b.connect(f"{node},o2", upper)
    b.connect(f"{node},o3", lower)
    return f"{node},o1", height
