"""Strips: preprocessing, one layer, its mixers or the output splitters, from left to right."""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.layout.canvas import Canvas, guide_track, snap
from optinc_pdk.layout.fan import fan
from optinc_pdk.layout.frames import Frames, Point
from optinc_pdk.layout.mesh import MeshPlacer
from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.trees import CLEARANCE_UM, TreePlacer
from optinc_pdk.layout.wiring import ground_room, room_beside


@dataclass(frozen=True)
class Strip:
    """A section with all that belongs to it, in a frame of its own.

    Attributes:
        section: Its name in the netlist.
        canvas: What is drawn.
        root: Port at the root of its local oscillators' tree, None where it has none.
        rows: The instances of each row of its mesh.
    """

    section: str
    canvas: Canvas
    root: str | None
    rows: tuple[frozenset[str], ...]


class StripBuilder:
    """Builds one section's strip; the mesh's first mode is at y = 0 and modes go down."""

    def __init__(self, netlist: Netlist, process: Process, section: str, frames: Frames) -> None:
        """Prepare a section."""
        self.netlist, self.process, self.name = netlist, process, section
        self.canvas = Canvas(frames)
        self.fibre = float(process.floorplan.fibre_pitch_um)
        self.r, self.track = float(process.guide.radius_um), guide_track(process)
        self.shifter = frames["phase_shifter"].ports["o2"].x

    def columns_length(self, fold: int) -> float:
        """Length of the longest of ``fold`` rows of columns, without what stands beside them."""
        return MeshPlacer(self.netlist, self.process, self.name, self.canvas.frames).longest(fold)

    def build(self, fold: int = 1) -> Strip:
        """Place the strip, its mesh in ``fold`` rows."""
        self.mesh = MeshPlacer(self.netlist, self.process, self.name, self.canvas.frames).place(self.canvas, fold)
        left, _, right, _ = self.canvas.box()
        self.left = 0.0 if fold == 1 else left - CLEARANCE_UM
        self.right = self._clear_of(self.mesh.ends) if fold == 1 else right + CLEARANCE_UM
        starts = self._starts()
        if any(self.netlist.grid[self._source(port)][0] == "p" for port in starts.values()):
            self._preprocess(starts)
        else:
            self._modulated(starts)
        root = None
        if self.netlist.section(f"{self.name}_mix"):
            root = self._mixers()
        else:
            self._outputs(self.mesh.ends)
        return Strip(self.name, self.canvas, root, self.mesh.rows)

    def _source(self, port: str) -> str:
        """The instance that a port is joined to."""
        return self.netlist.partner[port].rpartition(",")[0]

    def _starts(self) -> dict[int, str]:
        """The port by which light enters each row of the layer."""
        starts: dict[int, str] = {}
        for name in self.netlist.section(self.name):
            component, row = self.netlist.component[name], self.netlist.grid[name][2]
            entering = {
                "mzi": {row: "o2", row + 1: "o1"},
                "mzi_dummy": {row: "o1"},
                "attenuator": {row: "o1"},
            }
            for r, port in entering.get(component, {}).items():
                starts.setdefault(r, f"{name},{port}")
        sources = {self.netlist.partner[port]: row for row, port in starts.items() if self._from_outside(port)}
        return {row: starts[row] for row in sorted(sources.values())}

    def _from_outside(self, port: str) -> bool:
        source = self._source(port)
        component = self.netlist.component[source]
        return component == "grating_coupler" or self.netlist.grid[source][0] == "p"

    def _centre(self, count: int) -> float:
        """The y of the first of ``count`` fibres, so that they are centred on the mesh."""
        return snap(self.mesh.middle + (count - 1) * self.fibre / 2)

    def fan(self, pairs: list[tuple[Point, Point]], x: float) -> float:
        """Draw a planar bundle from left to right between its ends, turning at and after ``x``.

        Returns:
            The x after the last turn.
        """
        return fan(self.canvas, self.process, pairs, x)

    def fan_width(self, count: int) -> float:
        """Room that a bundle of ``count`` guides needs at most."""
        return 3 * self.r + 1 + count * self.track

    def _modulated(self, starts: dict[int, str]) -> None:
        """Fibres from the board's modulators, fanned in to the rows."""
        first = self._centre(len(starts))
        # the first column's wires come down left of the mesh, where no grating may be
        wires = room_beside(self.process, self.mesh.first.signals_left)
        x = snap(self.left - max(self.fan_width(len(starts)), wires) - 2 * CLEARANCE_UM)
        pairs = []
        for i, port in enumerate(starts.values()):
            guide = self.netlist.partner[port]
            self.canvas.place(guide.rpartition(",")[0], "grating_coupler", x, first - i * self.fibre, rotation=180)
            a, b = self.canvas.port(guide), self.canvas.port(port)
            pairs.append(((a.x, a.y), (b.x, b.y)))
        self.fan(pairs, x + CLEARANCE_UM)

    def _preprocess(self, starts: dict[int, str]) -> None:
        """P: fibres, trims, combiner trees, fanned in to the rows."""
        names = self.netlist.section("p")
        fibres = [name for name in names if self.netlist.component[name] != "mmi1x2"]
        rows = 1 + max(self.netlist.grid[name][2] for name in fibres)
        first = self._centre(rows)
        trims = sum(self.netlist.component[name] == "phase_shifter" for name in fibres)
        ground = ground_room(self.process, trims)
        leaves: dict[str, list[Point]] = {}
        trees = Canvas(self.canvas.frames)
        for name in fibres:
            component, y = self.netlist.component[name], first - self.netlist.grid[name][2] * self.fibre
            if component == "grating_coupler":
                trees.place(name, component, -ground - self.shifter, y, rotation=180)
            elif component == "phase_shifter":
                trees.place(name, component, -self.shifter, y)
                leaves[f"{name},o2"] = [(0.0, y)]
            else:
                trees.place(name, component, 0.0, y, rotation=180)
                leaves[f"{name},o1"] = [(0.0, y)]
        for name in fibres:
            if self.netlist.component[name] == "grating_coupler":
                trees.join(f"{name},o1", self.netlist.partner[f"{name},o1"])
        placer = TreePlacer(trees, self.netlist, self.process, 0.0, +1)
        ends = {row: self.netlist.partner[port] for row, port in starts.items()}
        leaves = placer.matched(list(ends.values()), leaves)
        roots = {row: placer.place(end, leaves) for row, end in ends.items()}
        right = max(root.x for root in roots.values())
        wires = room_beside(self.process, trims) + room_beside(self.process, self.mesh.first.signals_left)
        space = float(self.process.metal.space_um)
        shift = snap(self.left - max(right + self.fan_width(len(starts)) + CLEARANCE_UM, wires + space))
        self.canvas.add(trees, shift, 0.0)
        pairs = []
        for row, port in starts.items():
            b = self.canvas.port(port)
            pairs.append(((snap(roots[row].x + shift), roots[row].y), (b.x, b.y)))
        self.fan(pairs, snap(right + shift))

    def _mixers(self) -> str:
        """Homodyne mixers, their gratings, trims and the oscillators' tree; returns the tree's root port."""
        ends, last = self.mesh.ends, self.mesh.last
        name, count, first = f"{self.name}_mix", len(ends), self._centre(len(ends))
        wires = room_beside(self.process, last.signals_right) + room_beside(self.process, count)
        beside = last.right + wires + float(self.process.metal.space_um)
        x = snap(max(self.right + self.fan_width(count) + 3 * self.r, beside))
        trunk = ground_room(self.process, count)
        near = x + self.shifter + trunk
        far = near + self.fibre
        end = far + self.canvas.frames["grating_coupler"].box[2] + 2 * CLEARANCE_UM
        pairs: list[tuple[Point, Point]] = []
        leaves: dict[str, list[Point]] = {}
        for row in range(count):
            y = first - row * self.fibre
            mixer, trim = f"{name}_r{row}", f"{self.name}_lo_r{row}"
            self.canvas.place(mixer, "mmi2x2", x, y)
            oscillator = y - 6 * self.r
            self.canvas.place(trim, "phase_shifter", x, oscillator)
            low, bar, cross = (self.canvas.port(f"{mixer},{port}") for port in ("o1", "o3", "o4"))
            back = x - self.r - 0.5
            self.canvas.guide((x, oscillator), (back, oscillator), (back, low.y), (low.x, low.y))
            plus, minus = (self.netlist.partner[f"{mixer},{port}"] for port in ("o3", "o4"))
            self.canvas.place(plus.rpartition(",")[0], "grating_coupler", near, bar.y)
            self.canvas.guide((bar.x, bar.y), (near, bar.y))
            below = y - 2.5 * self.r
            self.canvas.place(minus.rpartition(",")[0], "grating_coupler", far, below)
            turn = cross.x + self.r + 0.5
            self.canvas.guide((cross.x, cross.y), (turn, cross.y), (turn, below), (far, below))
            a, b = self.canvas.port(ends[row]), self.canvas.port(f"{mixer},o2")
            pairs.append(((a.x, a.y), (b.x, b.y)))
            leaf = self.canvas.port(f"{trim},o2")
            leaves[f"{trim},o2"] = [(leaf.x, leaf.y), (end, leaf.y)]
        self.fan(pairs, self.right)
        root = self._oscillator_root()
        placer = TreePlacer(self.canvas, self.netlist, self.process, end, +1)
        placer.place(root, placer.matched([root], leaves))
        return root

    def _clear_of(self, ends: dict[int, str]) -> float:
        """The x right of the mesh, where a dummy's dark port reaches further than its modes."""
        modes = max(self.canvas.port(port).x for port in ends.values())
        drawn = max(self.canvas.instance_box(port.rpartition(",")[0])[2] for port in ends.values())
        return max(modes, drawn + CLEARANCE_UM)

    def _oscillator_root(self) -> str:
        nodes = [n for n in self.netlist.section(f"{self.name}_mix") if self.netlist.component[n] == "mmi1x2"]
        return f"{nodes[-1]},o1" if nodes else f"{self.name}_lo_r0,o2"

    def _outputs(self, ends: dict[int, str]) -> None:
        """T: splitter trees to the servers' fibres."""
        fibres = [n for n in self.netlist.section("t") if self.netlist.component[n] == "grating_coupler"]
        first = self._centre(len(fibres))
        placer = TreePlacer(self.canvas, self.netlist, self.process, 0.0, -1)
        levels = max(self.netlist.grid[n][1] for n in self.netlist.section("t"))
        x = self.right + self.fan_width(len(ends)) + levels * placer.pitch + 2 * self.r
        placer.x = x
        leaves: dict[str, list[Point]] = {}
        for name in fibres:
            y = first - self.netlist.grid[name][2] * self.fibre
            self.canvas.place(name, "grating_coupler", x, y)
            leaves[f"{name},o1"] = [(x, y)]
        pairs: list[tuple[Point, Point]] = []
        for port in ends.values():
            root = placer.place(self.netlist.partner[port], leaves)
            a = self.canvas.port(port)
            pairs.append(((a.x, a.y), (root.x, root.y)))
        self.fan(pairs, self.right)
