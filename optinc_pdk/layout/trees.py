"""Splitter and combiner trees, drawn from the netlist: who is joined to whom decides where a node lies."""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas
from optinc_pdk.layout.frames import Point
from optinc_pdk.layout.netlist import Netlist

CLEARANCE_UM = 5.0


@dataclass(frozen=True)
class Tree:
    """Where a tree's root came to lie: port name, position, and the x of its outermost extent."""

    port: str
    x: float
    y: float


class TreePlacer:
    """Places the nodes of one tree between leaves at ``x`` and a root on the side ``root_side`` (+1 right, -1 left)."""

    def __init__(self, canvas: Canvas, netlist: Netlist, process: Process, x: float, root_side: int) -> None:
        """Prepare a tree whose leaves' guides start at ``x``."""
        self.canvas = canvas
        self.netlist = netlist
        self.x = x
        self.side = root_side
        self.length = canvas.frames["mmi1x2"].box[2]
        self.turn = float(process.guide.radius_um) + 0.5
        self.pitch = self.length + 2 * self.turn + CLEARANCE_UM

    def place(self, port: str, leaves: dict[str, list[Point]]) -> Tree:
        """Place the branch whose root is ``port`` and draw its guides.

        Args:
            port: A splitter's o1, or a leaf.
            leaves: Leaf port to the guide's corners from the leaf to the tree; the last corner is at ``x``.

        Returns:
            The branch's root.
        """
        return self._branch(port, leaves)[0]

    def _branch(self, port: str, leaves: dict[str, list[Point]]) -> tuple[Tree, int, list[Point]]:
        if port in leaves:
            path = leaves[port]
            return Tree(port, *path[-1]), 0, path
        node = port.rpartition(",")[0]
        upper = self._branch(self.netlist.partner[f"{node},o2"], leaves)
        lower = self._branch(self.netlist.partner[f"{node},o3"], leaves)
        height = max(upper[1], lower[1]) + 1
        y = (upper[0].y + lower[0].y) / 2
        near = self.x + self.side * (height * self.pitch - self.length)
        if self.side > 0:
            self.canvas.place(node, "mmi1x2", near + self.length, y, rotation=180, mirror=True)
        else:
            self.canvas.place(node, "mmi1x2", near - self.length, y)
        for name, branch in (("o2", upper), ("o3", lower)):
            end = self.canvas.port(f"{node},{name}")
            turn = end.x - self.side * self.turn
            self.canvas.guide(*branch[2], (turn, branch[0].y), (turn, end.y), (end.x, end.y))
        root = self.canvas.port(f"{node},o1")
        return Tree(f"{node},o1", root.x, root.y), height, [(root.x, root.y)]
