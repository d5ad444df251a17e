"""Strips: preprocessing, one layer, its mixers or the output splitters, from left to right."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.cells.interferometers import attenuator_frame, mzi_frame
from optinc_pdk.layout.canvas import Canvas, Netlist, Point, snap
from optinc_pdk.layout.river import river_levels
from optinc_pdk.layout.trees import CLEARANCE_UM, TreePlacer

GUIDE_TRACK_UM = 10.0


@dataclass(frozen=True)
class Zone:
    """A column's outermost contacts and how many wires run beside them on either side."""

    left: float
    right: float
    wires_left: int
    wires_right: int


class StripBuilder:
    """Builds one layer's strip; the mesh's first row is at y = 0 and rows go down."""

    def __init__(self, canvas: Canvas, netlist: Netlist, process: Process, index: int) -> None:
        """Prepare layer ``index``."""
        self.canvas, self.netlist, self.process, self.index = canvas, netlist, process, index
        self.name = f"l{index}"
        self.mode = float(process.floorplan.mode_pitch_um)
        self.fibre = float(process.floorplan.fibre_pitch_um)
        self.wire = float(process.metal.wire_width_um + process.metal.space_um)
        self.r = float(process.guide.radius_um)
        self.shifter = mzi_frame(process).shifter
        self.coupler = mzi_frame(process).coupler

    def build(self, last: bool) -> str | None:
        """Place the strip; returns the port at the local oscillators' root, None after the last layer."""
        ends, zone = self._mesh()
        starts = self._starts()
        if self.index == 0:
            self._preprocess(starts)
        else:
            self._modulated(starts)
        if last:
            self._outputs(ends)
            return None
        return self._mixers(ends, zone)

    def _mesh(self) -> tuple[dict[int, str], Zone]:
        """Place meshes and attenuators; returns the last port on each row and the last column's zone."""
        ends: dict[int, str] = {}
        x, zone = 0.0, Zone(0.0, -1e9, 0, 0)
        columns = itertools.groupby(self.netlist.section(self.name), key=lambda name: self.netlist.grid[name][1])
        for _, group in columns:
            names = [name for name in group if self.netlist.component[name] != "grating_coupler"]
            # a dark mode begins before its first MZI
            names.sort(key=lambda name: self.netlist.component[name] != "terminator")
            column = self._zone(names)
            gap = self.wire * (zone.wires_right + column.wires_left) + float(self.process.metal.space_um)
            x = max(x, zone.right + gap - column.left)
            for name in names:
                self._slot(name, x, ends)
            zone = Zone(column.left + x, column.right + x, column.wires_left, column.wires_right)
            x += self._length(names)
        return ends, zone

    def _zone(self, names: list[str]) -> Zone:
        kinds = [self.netlist.component[name] for name in names]
        if "attenuator" in kinds:
            f = attenuator_frame(self.process)
            return Zone(f.theta, f.theta + f.shifter, kinds.count("attenuator"), 0)
        f = mzi_frame(self.process)
        return Zone(0.0, f.theta + f.shifter, kinds.count("mzi"), kinds.count("mzi"))

    def _length(self, names: list[str]) -> float:
        if any(self.netlist.component[name] == "attenuator" for name in names):
            return attenuator_frame(self.process).end
        if all(self.netlist.component[name] == "terminator" for name in names):
            return 0.0
        return mzi_frame(self.process).end

    def _slot(self, name: str, x: float, ends: dict[int, str]) -> None:
        """Place one component on its row and join it to what came before on its modes."""
        component, row = self.netlist.component[name], self.netlist.grid[name][2]
        y = -row * self.mode
        if component == "terminator":
            dark = f"{name},o1" not in [self.netlist.partner.get(end) for end in ends.values()]
            self.canvas.place(name, component, x, y, rotation=180 if dark else 0)
            ports = {} if not dark else {row: ("", "o1")}
            entering = {row: f"{name},o1"} if not dark else {}
        elif component == "mzi":
            self.canvas.place(name, component, x, y)
            ports = {row: ("o2", "o3"), row + 1: ("o1", "o4")}
            entering = {r: f"{name},{inside}" for r, (inside, _) in ports.items()}
        else:
            # a dummy reaches away from the mesh: up from the first row, down from the last
            below = component == "mzi_dummy" and row > 0
            self.canvas.place(name, component, x, y, mirror=below)
            ports = {row: ("o1", "o2")}
            entering = {row: f"{name},o1"}
        for r, port in entering.items():
            if r in ends:
                self.canvas.join(ends[r], port)
        for r, (_, outside) in ports.items():
            ends[r] = f"{name},{outside}"
        if component == "terminator" and entering:
            del ends[row]

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
        source = self.netlist.partner[port].rpartition(",")[0]
        component = self.netlist.component[source]
        return component == "grating_coupler" or self.netlist.grid[source][0] == "p"

    def _centre(self, count: int) -> float:
        """The y of the first of ``count`` fibres, so that they are centred on the mesh."""
        rows = 1 + max(at[2] for at in self.netlist.grid.values() if at[0] == self.name)
        return snap(-(rows - 1) * self.mode / 2 + (count - 1) * self.fibre / 2)

    def fan(self, pairs: list[tuple[Point, Point]], x: float) -> float:
        """Draw a planar bundle from left to right between its ends, turning at and after ``x``.

        Returns:
            The x after the last turn.
        """
        pairs = sorted(pairs, key=lambda pair: pair[0][1])
        source = np.array([a[1] for a, _ in pairs])
        target = np.array([b[1] for _, b in pairs])
        levels = river_levels(source, target, 2 * self.r)
        for (a, b), level in zip(pairs, levels.tolist(), strict=True):
            turn = x + self.r + 0.5 + level * GUIDE_TRACK_UM
            if abs(a[1] - b[1]) < 2 * self.r and a[1] != b[1]:
                # shorter than 3R, an S is so steep that spacing checks see its two hollows face each other
                self.canvas.guide(a, (turn - self.r, a[1]))
                self.canvas.s_bend((turn - self.r, a[1]), (turn + 2 * self.r, b[1]))
                self.canvas.guide((turn + 2 * self.r, b[1]), b)
            else:
                self.canvas.guide(a, (turn, a[1]), (turn, b[1]), b)
        return x + 3 * self.r + 1 + float(levels.max(initial=0)) * GUIDE_TRACK_UM

    def fan_width(self, count: int) -> float:
        """Room that a bundle of ``count`` guides needs at most."""
        return 3 * self.r + 1 + count * GUIDE_TRACK_UM

    def _modulated(self, starts: dict[int, str]) -> None:
        """Fibres from the board's modulators, fanned in to the rows."""
        first = self._centre(len(starts))
        # the first column's wires come down left of the mesh, where no grating may be
        wires = self.wire * len(starts) / 2
        x = -max(self.fan_width(len(starts)), wires) - 2 * CLEARANCE_UM
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
        ground = 8 * self.wire
        leaves: dict[str, list[Point]] = {}
        trees = Canvas(self.canvas.frames)
        local = StripBuilder(trees, self.netlist, self.process, self.index)
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
        roots = {row: placer.place(self.netlist.partner[port], leaves) for row, port in starts.items()}
        right = max(root.x for root in roots.values())
        shift = -right - self.fan_width(len(starts)) - CLEARANCE_UM
        wires = self.wire * (len(fibres) + len(starts))
        shift = min(shift, -wires)
        self.canvas.add(local.canvas, shift, 0.0)
        pairs = []
        for row, port in starts.items():
            b = self.canvas.port(port)
            pairs.append(((snap(roots[row].x + shift), roots[row].y), (b.x, b.y)))
        self.fan(pairs, right + shift)

    def _mixers(self, ends: dict[int, str], zone: Zone) -> str:
        """Homodyne mixers, their gratings, trims and the oscillators' tree; returns the tree's root port."""
        name, count, first = f"{self.name}_mix", len(ends), self._centre(len(ends))
        right = self._clear_of(ends)
        wires = self.wire * (zone.wires_right + count) + float(self.process.metal.space_um)
        x = max(right + self.fan_width(count) + 3 * self.r, zone.right + wires)
        trunk = self.wire * 4
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
        self.fan(pairs, right)
        root = self._oscillator_root()
        TreePlacer(self.canvas, self.netlist, self.process, end, +1).place(root, leaves)
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
        right = self._clear_of(ends)
        placer = TreePlacer(self.canvas, self.netlist, self.process, 0.0, -1)
        levels = max(self.netlist.grid[n][1] for n in self.netlist.section("t"))
        x = right + self.fan_width(len(ends)) + levels * placer.pitch + 2 * self.r
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
        self.fan(pairs, right)
