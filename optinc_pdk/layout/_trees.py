"""Placement of splitter and combiner trees, and of the carrier's trees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.errors import InputError
from optinc_pdk.layout._routing import least_gain, length_gains, path_length, teeth, tooth_heights
from optinc_pdk.layout.canvas import Canvas, Point, fibre_row_pitch, guide_track, snap
from optinc_pdk.layout.chip_layout import PlacementView


@dataclass(frozen=True)
class PlacedTree:
    """Root port and path lengths of a placed tree.

    Attributes:
        port: Port at the root (``instance,port``).
        x: x of the root port in µm; no other part of the tree is further from the leaves.
        y: y of the root port in µm.
        lengths: Leaf port to the length in µm of the path from the leaf to the root, including splitters.
    """

    port: str
    x: float
    y: float
    lengths: Mapping[str, float]


class TreePlacer:
    """Places the splitters or combiners of trees whose leaves are at one x and whose roots are at the left or right."""

    def __init__(self, canvas: Canvas, netlist: PlacementView, process: Process, x: float, root_side: int) -> None:
        """Prepare trees with leaves at ``x`` in µm and roots on the side ``root_side``: +1 for right, -1 for left."""
        self.canvas = canvas
        self.netlist = netlist
        self.process = process
        self.x = x
        self.side = root_side
        self.length = canvas.frames["mmi1x2"].box[2]
        self.r = float(process.guide.radius_um)
        self.turn = self.r + 0.5
        self.pitch = self.length + 2 * self.turn + float(process.floorplan.guide_space_um)
        self.dark = False

    def place(self, port: str, leaves: dict[str, list[Point]]) -> PlacedTree:
        """Place the tree whose root is ``port`` and draw its guides, including those from the leaves.

        Args:
            port: Root port: port o1 of a splitter, or a leaf for a tree without splitters.
            leaves: Leaf port to the corner points of its guide in µm, from the leaf to the tree; the last corner is at
                the x of the leaves.
        """
        return self._branch(port, leaves)[0]

    def match_lengths(self, roots: Collection[str], leaves: Mapping[str, list[Point]]) -> dict[str, list[Point]]:
        """Return the leaves of trees with meanders in their guides, so that all paths of a tree have the same length.

        The trees are moved away from the leaves by the width of the meanders. Roots and leaves are as for ``place``;
        the guides of leaves end horizontally.

        Raises:
            InputError: Leaves are too close to each other for a meander.
        """
        trial = TreePlacer(Canvas(self.canvas.frames), self.netlist, self.process, self.x, self.side)
        # half of the tolerance is left to rounding and to the extraction of lengths
        matched = float(self.process.guide.length_match_um) / 2
        gains: dict[str, float] = {}
        for root in roots:
            gains |= length_gains(trial.place(root, dict(leaves)).lengths, matched, least_gain(self.r))
        if trial.dark:
            # terminators at the first level extend towards the leaves
            self.x = snap(self.x + self.side * trial.canvas.frames["terminator"].box[2])
        if not any(gains.values()):
            return self._moved(roots, leaves, {}) if trial.dark else dict(leaves)
        tallest = self._tallest([path[-1][1] for path in leaves.values()])
        heights = {leaf: tooth_heights(gains[leaf], tallest, self.r) for leaf in gains}
        self.x = snap(self.x + self.side * 4 * self.r * max(map(len, heights.values())))
        return self._moved(roots, leaves, heights)

    def _moved(
        self, roots: Collection[str], leaves: Mapping[str, list[Point]], heights: Mapping[str, list[float]]
    ) -> dict[str, list[Point]]:
        """Return the leaves with guides that have teeth of the given heights and end at the trees' x."""
        moved = {
            leaf: [*path, *teeth(path[-1], self.side, heights.get(leaf, []), self.r), (self.x, path[-1][1])]
            for leaf, path in leaves.items()
        }
        # a tree of one leaf draws no guide
        return {leaf: leaves[leaf] if leaf in roots else path for leaf, path in moved.items()}

    def _tallest(self, heights: list[float]) -> float:
        """Return the height of the highest tooth that keeps its distance from the next leaf.

        Raises:
            InputError: The tooth is too low for some gains.
        """
        apart = min(b - a for a, b in itertools.pairwise(sorted(heights)))
        track = guide_track(self.process)
        if apart - track < math.pi * self.r:
            raise InputError(
                f"floorplan.fibre_pitch_um: leaves of a tree are {apart:g} µm apart, and meanders that match path "
                f"lengths need {math.pi * self.r + track:.3f} µm; raise the pitch"
            )
        return snap(apart - track)

    def _branch(self, port: str, leaves: dict[str, list[Point]]) -> tuple[PlacedTree, int, list[Point]]:
        if port in leaves:
            path = leaves[port]
            return PlacedTree(port, *path[-1], {port: 0.0}), 0, path
        node = port.rpartition(",")[0]
        names = [self.netlist.partner[f"{node},{name}"] for name in ("o2", "o3")]
        branches = {
            name: self._branch(far, leaves)
            for name, far in zip(("o2", "o3"), names, strict=True)
            if far in leaves or self.netlist.component[far.rpartition(",")[0]] != "terminator"
        }
        height = max(branch[1] for branch in branches.values()) + 1
        y = sum(branch[0].y for branch in branches.values()) / len(branches)
        if len(branches) == 1:
            # the branch with light runs straight
            y = snap(y - self._port_y(next(iter(branches))))
        near = self.x + self.side * (height * self.pitch - self.length)
        if self.side > 0:
            self.canvas.place(node, "mmi1x2", near + self.length, y, rotation=180, mirror=True)
        else:
            self.canvas.place(node, "mmi1x2", near - self.length, y)
        lengths: dict[str, float] = {}
        for name, far in zip(("o2", "o3"), names, strict=True):
            if name not in branches:
                self._terminate(f"{node},{name}", far)
                continue
            branch, end = branches[name], self.canvas.port(f"{node},{name}")
            turn = end.x - self.side * self.turn
            corners = [*branch[2], (turn, branch[0].y), (turn, end.y), (end.x, end.y)]
            self.canvas.guide(*corners)
            further = path_length(corners, self.r) + self.length
            lengths |= {leaf: length + further for leaf, length in branch[0].lengths.items()}
        root = self.canvas.port(f"{node},o1")
        return PlacedTree(f"{node},o1", root.x, root.y, lengths), height, [(root.x, root.y)]

    def _port_y(self, port: str) -> float:
        """Return the y of a placed splitter's branch above its root; branches are not exchanged by the side."""
        return self.canvas.frames["mmi1x2"].ports[port].y

    def _terminate(self, port: str, dark: str) -> None:
        """Place the terminator of a branch without light beside the branch with light, back towards the leaves."""
        self.dark = True
        at, step = self.canvas.port(port), 2 * self.r + float(self.process.floorplan.guide_space_um)
        away = snap(at.y + (step if port.endswith("o2") else -step))
        turn = at.x - self.side * self.turn
        end = turn - self.side * self.turn
        self.canvas.guide((at.x, at.y), (turn, at.y), (turn, away), (end, away))
        self.canvas.place(dark.rpartition(",")[0], "terminator", end, away, rotation=180 if self.side > 0 else 0)


def carrier_block(canvas: Canvas, netlist: PlacementView, process: Process) -> Point | None:
    """Place the carrier block: the fibres of the carrier, the first splitter and the supply tree.

    The fibre couplers are at x = 0, the first of them at y = 0 and the others below.

    Returns:
        Position at which the guide to the local-oscillator tree leaves the block to the right, in µm; None if fibres
        feed the local oscillators.
    """
    pitch, r = fibre_row_pitch(process), float(process.guide.radius_um)
    coupler = process.fibres.coupler
    fibres = [n for n in netlist.section("carrier") if netlist.component[n] == coupler]
    leaves: dict[str, list[Point]] = {}
    for name in fibres:
        y = -netlist.grid[name][2] * pitch
        canvas.place(name, coupler, 0.0, y, rotation=180)
        leaves[f"{name},o1"] = [(0.0, y)]
    laser = "fibre_carrier,o1"
    y = leaves.pop(laser)[0][1]
    if "carrier_split" not in netlist.component:
        root = TreePlacer(canvas, netlist, process, 0.0, +1).place(netlist.partner[laser], leaves)
        turn = root.x + r + 0.5
        canvas.guide((0.0, y), (turn, y), (turn, root.y), (root.x, root.y))
        return None
    supply = TreePlacer(canvas, netlist, process, 0.0, +1).place(netlist.partner["carrier_split,o2"], leaves)
    split = supply.x
    canvas.place("carrier_split", "mmi1x2", split, y)
    canvas.guide((0.0, y), (split, y))
    upper, lower = canvas.port("carrier_split,o2"), canvas.port("carrier_split,o3")
    turn = upper.x + r + 0.5
    canvas.guide((upper.x, upper.y), (turn, upper.y), (turn, supply.y), (supply.x, supply.y))
    return lower.x, lower.y


def oscillator_tree(
    canvas: Canvas, netlist: PlacementView, process: Process, feed: Point, middle: float, roots: dict[int, str]
) -> None:
    """Draw the local-oscillator tree of a die and connect it to the trees of the strips above and below.

    Args:
        canvas: The die, on which carrier block and strips are placed.
        feed: Position at which the guide from the carrier block starts to the right, in µm.
        middle: y of the middle of the channel between the strips in µm, on which the tree is centred.
        roots: Index of each layer to the port at the root of its strip's local-oscillator tree.

    Raises:
        ValueError: A strip ends left of the tree.
    """
    r = float(process.guide.radius_um)
    above = [index for index in sorted(roots) if index % 2]
    below = [index for index in sorted(roots) if not index % 2][::-1]
    track = 6 * r
    order = above + below
    top = middle + track * (len(order) - 1) / 2
    down = feed[0] + 4 * r
    root = netlist.partner["carrier_split,o3"]
    depth = (len(order) - 1).bit_length() + 1
    placer = TreePlacer(canvas, netlist, process, 0.0, -1)
    placer.x = down + 2 * r + depth * placer.pitch
    leaves: dict[str, list[Point]] = {}
    for i, index in enumerate(order):
        end = canvas.port(roots[index])
        y = snap(top - i * track)
        # a layer of one row has no tree, and its oscillator's trim lies left of the gratings
        mixers = max(canvas.instance_box(name)[2] for name in netlist.section(f"l{index}_mix"))
        riser = max(end.x, mixers + float(process.floorplan.guide_space_um)) + 2 * r
        if riser < placer.x + r:
            raise ValueError(f"layer {index}'s oscillators lie left of their tree; place its strip further right")
        leaves[roots[index]] = [(end.x, end.y), (riser, end.y), (riser, y), (placer.x, y)]
    tree = placer.place(root, leaves)
    if root in leaves:
        canvas.guide(feed, (down, feed[1]), (down, tree.y), *leaves[root][::-1])
    else:
        canvas.guide(feed, (down, feed[1]), (down, tree.y), (tree.x, tree.y))
