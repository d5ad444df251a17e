"""Placement of strips: from left to right the inputs or P, a layer's blocks, and its mixers or T.

P is the preprocessing of the servers' inputs, T the distribution of the outputs to the servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optinc_pdk.cards import Process
from optinc_pdk.layout._copy_sum_placement import place_copies_or_sums
from optinc_pdk.layout._heater_wiring import facing_space, ground_width, pin_width, signals_width
from optinc_pdk.layout._mesh_placement import MeshPlacer
from optinc_pdk.layout._routing import draw_fanout, fan_length, least_gain, length_gains, teeth, tooth_heights
from optinc_pdk.layout._trees import TreePlacer
from optinc_pdk.layout.canvas import Canvas, CellFrames, Point, fibre_row_pitch, guide_track, snap
from optinc_pdk.layout.chip_layout import PlacementView


@dataclass(frozen=True)
class PlacedStrip:
    """A placed strip: one or several blocks with their inputs, mixers or outputs, in the strip's own coordinates.

    Attributes:
        name: Name of the strip.
        canvas: Drawing of the strip.
        root: Port at the root of its local-oscillator tree; None if it has no such tree or a fibre feeds it.
        rows: Names of the instances in each row of its mesh.
    """

    name: str
    canvas: Canvas
    root: str | None
    rows: tuple[frozenset[str], ...]


class StripBuilder:
    """Places one strip. The first mode of the first block is at y = 0; the other modes follow below."""

    def __init__(
        self, netlist: PlacementView, process: Process, name: str, sections: Sequence[str], frames: CellFrames
    ) -> None:
        """Prepare a strip; ``sections`` are those of its blocks."""
        self.netlist, self.process, self.name = netlist, process, name
        # independent parts of a layer share mixers and modulators
        self.mixed = [bank for bank in dict.fromkeys((*sections, name)) if netlist.section(f"{bank}_mix")]
        self.inputs = [section for section in (*sections, f"{name}_in") if netlist.section(section)]
        self.canvas = Canvas(frames)
        self.placer = MeshPlacer(netlist, process, sections, frames)
        # without preprocessing, the chip is a matrix between fibres, whose paths have to lose equal light
        self.matched = not netlist.section("p")
        self.coupler = process.fibres.coupler
        self.fibre = fibre_row_pitch(process)
        self.r, self.track = float(process.guide.radius_um), guide_track(process)
        self.space, self.clear = float(process.metal.space_um), float(process.floorplan.guide_space_um)

    def columns_length(self, fold: int) -> float:
        """Return the length in µm of the longest row of a mesh of ``fold`` rows, without the metal between columns."""
        return self.placer.longest(fold)

    def build(self, fold: int = 1) -> PlacedStrip:
        """Place the strip with its mesh folded into ``fold`` rows (odd). Call it only once."""
        self.mesh = self.placer.place(self.canvas, fold)
        left, _, right, _ = self.canvas.box()
        # terminators of unused modes lie left of the first column
        self.left = 0.0 if left >= 0 else left - self.clear
        self.right = self._clear_of(self.mesh.ends) if fold == 1 else right + self.clear
        starts = dict(sorted(self.mesh.starts.items()))
        source = self._source(next(iter(starts.values())))
        if self.netlist.grid[source][0] not in self.inputs:
            self._preprocess(starts)
        elif self.netlist.component[source] == "modulator":
            self._modulators(starts)
        else:
            self._fibres(starts)
        root = None
        if self.mixed:
            root = self._mixers()
        else:
            self._outputs(self.mesh.ends)
        return PlacedStrip(self.name, self.canvas, root, self.mesh.rows)

    def _source(self, port: str) -> str:
        """Return the instance to which a port is connected."""
        return self.netlist.partner[port].rpartition(",")[0]

    def _wires_width(self, signals: int) -> float:
        return signals_width(self.process, signals)

    def _centre(self, count: int) -> float:
        """Return the y of the first of ``count`` fibres that are centred on the mesh."""
        return snap(self.mesh.middle + (count - 1) * self.fibre / 2)

    def fan(self, pairs: list[tuple[Point, Point]], x: float) -> None:
        """Draw a planar bundle of guides, see :func:`optinc_pdk.layout._routing.draw_fanout`."""
        draw_fanout(self.canvas, self.process, pairs, x)

    def fan_width(self, count: int) -> float:
        """Return an upper bound of the width in µm of the turns in a bundle of ``count`` guides."""
        return 3 * self.r + 1 + count * self.track

    def _fibres(self, starts: dict[int, str]) -> None:
        """Place the fibres from the board's modulators, with guides to the modes."""
        first = self._centre(len(starts))
        # the first column's wires run left of the mesh, where no coupler may be
        wires = self._wires_width(self.mesh.first.signals_left)
        ends = [self.canvas.port(port) for port in starts.values()]
        near = snap(self.left - max(self.fan_width(len(starts)), wires) - 2 * self.clear)
        fan = [((near, snap(first - i * self.fibre)), (end.x, end.y)) for i, end in enumerate(ends)]
        heights = self._matching_teeth(fan)
        x = self._beside(near, -1, heights)
        pairs = []
        for port, (a, b), teeth_um in zip(starts.values(), fan, heights, strict=True):
            self.canvas.place(self._source(port), self.coupler, x, a[1], rotation=180)
            self._meander((x, a[1]), 1, teeth_um, near)
            pairs.append((a, b))
        self.fan(pairs, near + self.clear)

    def _modulators(self, starts: dict[int, str]) -> None:
        """Place the modulators and a carrier tree for each block, with guides to the modes."""
        length = self.canvas.frames["modulator"].ports["o2"].x
        modulators = {self._source(port): port for port in starts.values()}
        rows = [leaf for section in self.inputs for leaf in self._carrier_leaves(section, modulators)]
        first, count = self._centre(len(rows)), len(starts)
        wires = self._wires_width(self.mesh.first.signals_left) + pin_width(self.process)
        x = snap(self.left - max(self.fan_width(count), wires) - 2 * self.clear - length)
        trees = snap(x - self.clear)
        leaves: dict[str, list[Point]] = {}
        pairs = []
        for i, leaf in enumerate(rows):
            y = snap(first - i * self.fibre)
            self.canvas.place(leaf, self.netlist.component[leaf], x, y)
            leaves[f"{leaf},o1"] = [(x, y), (trees, y)]
            if leaf in modulators:
                pairs.append(self._pair(f"{leaf},o2", modulators[leaf]))
        self.fan(pairs, x + length + self.clear)
        for section in self.inputs:
            here = self.netlist.section(section)
            couplers = [name for name in here if self.netlist.component[name] == self.coupler]
            if not couplers:
                continue
            fibre = couplers[0]
            tree = TreePlacer(self.canvas, self.netlist, self.process, trees, -1)
            root = tree.place(self.netlist.partner[f"{fibre},o1"], leaves)
            # the modulators' wires run over the trees, where no coupler may be
            at = snap(min(root.x, x - self._wires_width(count)) - 2 * self.clear)
            self.canvas.place(fibre, self.coupler, at, root.y, rotation=180)
            # a tree of one leaf draws no guide
            self.canvas.guide((at, root.y), leaves[root.port][0] if root.port in leaves else (root.x, root.y))

    def _carrier_leaves(self, section: str, modulators: Mapping[str, str]) -> list[str]:
        """Return the leaves of a block's carrier tree, uppermost first: modulators, then balancing terminators."""
        inside = set().union(*self.mesh.rows)
        names = [
            name
            for name in self.netlist.section(section)
            if name in modulators or (self.netlist.component[name] == "terminator" and name not in inside)
        ]
        return sorted(names, key=lambda name: (name not in modulators, self.netlist.grid[name][2]))

    def _pair(self, a: str, b: str) -> tuple[Point, Point]:
        """Return the positions of two ports."""
        p, q = self.canvas.port(a), self.canvas.port(b)
        return (p.x, p.y), (q.x, q.y)

    def _preprocess(self, starts: dict[int, str]) -> None:
        """Place P: fibres, trims, combiner trees and copies for several blocks, with guides to the modes."""
        names = self.netlist.section("p")
        fibres = [name for name in names if self.netlist.component[name] in (self.coupler, "phase_shifter")]
        rows = 1 + max(self.netlist.grid[name][2] for name in fibres)
        first = self._centre(rows)
        trims = sum(self.netlist.component[name] == "phase_shifter" for name in fibres)
        ground = ground_width(self.process, trims)
        shifter = self.canvas.frames["phase_shifter"].ports["o2"].x
        leaves: dict[str, list[Point]] = {}
        trees = Canvas(self.canvas.frames)
        for name in fibres:
            component, y = self.netlist.component[name], first - self.netlist.grid[name][2] * self.fibre
            if component == self.coupler:
                trees.place(name, component, -ground - shifter, y, rotation=180)
            else:
                trees.place(name, component, -shifter, y)
                leaves[f"{name},o2"] = [(0.0, y)]
        for name in fibres:
            if self.netlist.component[name] == self.coupler:
                trees.join(f"{name},o1", self.netlist.partner[f"{name},o1"])
        placer = TreePlacer(trees, self.netlist, self.process, 0.0, +1)
        roots = self._roots(names)
        leaves = placer.match_lengths(roots, leaves)
        placed = [placer.place(root, leaves) for root in roots]
        guides = [(root.port, (root.x, root.y)) for root in placed]
        if self.netlist.section(f"{self.name}_split"):
            split = f"{self.name}_split"
            guides = place_copies_or_sums(trees, self.netlist, self.process, split, guides, self.mesh.middle)
        right = max(point[0] for _, point in guides)
        wires = self._wires_width(trims) + self._wires_width(self.mesh.first.signals_left) + facing_space(self.process)
        shift = snap(self.left - max(right + self.fan_width(len(starts)) + self.clear, wires))
        self.canvas.add(trees, shift, 0.0)
        pairs = []
        for port, (x, y) in guides:
            b = self.canvas.port(self.netlist.partner[port])
            pairs.append(((snap(x + shift), y), (b.x, b.y)))
        self.fan(pairs, snap(right + shift))

    def _roots(self, names: Sequence[str]) -> list[str]:
        """Return the ports by which light leaves a section's trees, uppermost first."""
        inside = set(names)
        ports = [f"{n},{'o1' if self.netlist.component[n] == 'mmi1x2' else 'o2'}" for n in names]
        roots = [port for port in ports if port in self.netlist.partner and self._source(port) not in inside]
        return sorted(roots, key=lambda port: self.netlist.grid[port.rpartition(",")[0]][2])

    def _mixers(self) -> str | None:
        """Place homodyne mixers, their detectors or the fibres to them, trims and the local oscillators' trees.

        Returns:
            The port at the root of the oscillators' tree; None where it is fed by a fibre.
        """
        ends, last, frames = self.mesh.ends, self.mesh.last, self.canvas.frames
        rows = [(bank, row) for bank in self.mixed for row in range(self._mixer_count(bank))]
        count, first, shifter = len(rows), self._centre(len(rows)), frames["phase_shifter"].ports["o2"].x
        wires = self._wires_width(last.signals_right) + self._wires_width(count) + facing_space(self.process)
        x = snap(max(self.right + self.fan_width(count) + 3 * self.r, last.right + wires))
        detector = self.netlist.component[self._source(f"{rows[0][0]}_mix_r0,o3")]
        size = frames[detector].box[2]
        pins = pin_width(self.process) + self._wires_width(count) if detector == "photodiode" else 0.0
        near = x + shifter + ground_width(self.process, count) + pins
        far = near + max(self.fibre, size + pins)
        # the lower detector is two bends below; the oscillator enters halfway between it and the next row
        down = 2 * self.r + self.clear
        between = snap((down + self.fibre) / 2)
        end = far + size + pins + 2 * self.clear
        pairs: list[tuple[Point, Point]] = []
        leaves: dict[str, list[Point]] = {}
        for i, ((bank, row), light) in enumerate(zip(rows, (ends[mode] for mode in sorted(ends)), strict=True)):
            y = first - i * self.fibre
            mixer, trim = f"{bank}_mix_r{row}", f"{bank}_lo_r{row}"
            self.canvas.place(mixer, "mmi2x2", x, y)
            oscillator = y - between
            self.canvas.place(trim, "phase_shifter", x, oscillator)
            low, bar, cross = (self.canvas.port(f"{mixer},{port}") for port in ("o1", "o3", "o4"))
            back = x - self.r - 0.5
            self.canvas.guide((x, oscillator), (back, oscillator), (back, low.y), (low.x, low.y))
            self.canvas.place(self._source(f"{mixer},o3"), detector, near, bar.y)
            self.canvas.guide((bar.x, bar.y), (near, bar.y))
            below = y - down
            self.canvas.place(self._source(f"{mixer},o4"), detector, far, below)
            turn = cross.x + self.r + 0.5
            self.canvas.guide((cross.x, cross.y), (turn, cross.y), (turn, below), (far, below))
            pairs.append(self._pair(light, f"{mixer},o2"))
            leaf = self.canvas.port(f"{trim},o2")
            leaves[f"{trim},o2"] = [(leaf.x, leaf.y), (end, leaf.y)]
        self.fan(pairs, self.right)
        return self._oscillators(leaves, far + self.fibre)

    def _output_shifter(self, port: str, x: float, y: float, count: int) -> str:
        """Place one of ``count`` phase shifters in front of output fibres, beginning at (x, y) in µm, and its fibre.

        ``port`` is the guide port of the fibre coupler; the port of the phase shifter is returned.
        """
        leaving = self.netlist.partner[port]
        shifter = leaving.rpartition(",")[0]
        self.canvas.place(shifter, "phase_shifter", x, y)
        at = self.canvas.port(leaving)
        self.canvas.place(port.rpartition(",")[0], self.coupler, snap(at.x + ground_width(self.process, count)), y)
        self.canvas.join(leaving, port)
        return f"{shifter},o1"

    def _mixer_count(self, bank: str) -> int:
        return sum(self.netlist.component[name] == "mmi2x2" for name in self.netlist.section(f"{bank}_mix"))

    def _oscillators(self, leaves: dict[str, list[Point]], fibres: float) -> str | None:
        """Place the local oscillators' tree of every bank of mixers, and its fibre at ``fibres`` or right of it.

        Returns:
            The port at the root of the tree; None where it is fed by a fibre.
        """
        placer = TreePlacer(self.canvas, self.netlist, self.process, max(path[-1][0] for path in leaves.values()), +1)
        roots = []
        for bank in self.mixed:
            nodes = [n for n in self.netlist.section(f"{bank}_mix") if self.netlist.component[n] == "mmi1x2"]
            roots.append(f"{nodes[-1]},o1" if nodes else f"{bank}_lo_r0,o2")
        leaves = placer.match_lengths(roots, leaves)
        for port in roots:
            tree = placer.place(port, leaves)
            fibre = self._source(port)
            if self.netlist.component[fibre] != self.coupler:
                return port
            at = snap(max(tree.x + self.clear, fibres))
            self.canvas.place(fibre, self.coupler, at, tree.y)
            start = leaves.get(port, [(tree.x, tree.y)])
            self.canvas.guide(*start, (at, tree.y))
        return None

    def _clear_of(self, ends: dict[int, str]) -> float:
        """Return the x right of the mesh; a dummy's terminated port extends further than its modes."""
        modes = max(self.canvas.port(port).x for port in ends.values())
        drawn = max(self.canvas.instance_box(port.rpartition(",")[0])[2] for port in ends.values())
        return max(modes, drawn + self.clear)

    def _outputs(self, ends: dict[int, str]) -> None:
        """Place T: sums over several blocks and splitter trees to the servers' fibres."""
        guides = []
        for mode in sorted(ends):
            at = self.canvas.port(ends[mode])
            guides.append((ends[mode], (at.x, at.y)))
        right = self.right
        if self.netlist.section(f"{self.name}_sum"):
            # the trims' wires run left of them
            width = self._wires_width(self.mesh.last.signals_right) + self._wires_width(len(guides)) + self.space
            start = snap(max(right, self.mesh.last.right + width))
            for _, point in guides:
                self.canvas.guide(point, (start, point[1]))
            guides = [(port, (start, y)) for port, (_, y) in guides]
            total = f"{self.name}_sum"
            guides = place_copies_or_sums(self.canvas, self.netlist, self.process, total, guides, self.mesh.middle)
            right = max(point[0] for _, point in guides)
        fibres = [n for n in self.netlist.section("t") if self.netlist.component[n] == self.coupler]
        first = self._centre(len(fibres))
        placer = TreePlacer(self.canvas, self.netlist, self.process, 0.0, -1)
        levels = max(self.netlist.grid[n][1] for n in self.netlist.section("t"))
        x = right + self.fan_width(len(guides)) + levels * placer.pitch + 2 * self.r
        shifted = any(self.netlist.component[n] == "phase_shifter" for n in self.netlist.section("t"))
        if shifted:
            # the wires of the last column and those of the phase shifters run between them
            wires = self._wires_width(self.mesh.last.signals_right) + self._wires_width(len(fibres))
            x = max(x, self.mesh.last.right + wires + facing_space(self.process))
        placer.x = near = snap(x)
        if self.matched:
            places = [snap(first - self.netlist.grid[name][2] * self.fibre) for name in fibres]
            heights = self._matching_teeth([(a, (near, y)) for (_, a), y in zip(guides, places, strict=True)])
            placer.x = self._beside(near, 1, heights)
        leaves: dict[str, list[Point]] = {}
        for name in fibres:
            port, y = f"{name},o1", first - self.netlist.grid[name][2] * self.fibre
            if shifted:
                port = self._output_shifter(port, placer.x, y, len(fibres))
            else:
                self.canvas.place(name, self.coupler, placer.x, y)
            leaves[port] = [(placer.x, y)]
        pairs: list[tuple[Point, Point]] = []
        for number, (port, point) in enumerate(guides):
            root = placer.place(self.netlist.partner[port], leaves)
            if self.matched:
                self._meander((root.x, root.y), -1, heights[number], near)
            pairs.append((point, (near if self.matched else root.x, root.y)))
        self.fan(pairs, right)

    def _matching_teeth(self, fan: list[tuple[Point, Point]]) -> list[list[float]]:
        """Return the heights in µm of the teeth that lengthen each guide of a fan-out to the length of the longest.

        Only fan-outs of a matrix are matched, see ``matched``; other guides get no teeth.
        """
        if not self.matched:
            return [[] for _ in fan]
        lengths = {i: fan_length(self.process, a, b) for i, (a, b) in enumerate(fan)}
        gains = length_gains(lengths, float(self.process.guide.length_match_um) / 2, least_gain(self.r))
        tallest = snap(self.fibre - self.track)
        return [tooth_heights(gains[i], tallest, self.r) for i in range(len(fan))]

    def _beside(self, x: float, side: int, heights: Sequence[Sequence[float]]) -> float:
        """Return the x in µm beyond the teeth that start at ``x`` and extend to the right or left."""
        most = max(map(len, heights))
        return snap(x + side * (self.clear + 4 * self.r * most)) if most else x

    def _meander(self, start: Point, side: int, heights: Sequence[float], end: float) -> None:
        """Draw a horizontal guide with teeth from a coupler or phase shifter, which bends keep clear of, to x = end."""
        first = (snap(start[0] + side * self.clear), start[1])
        self.canvas.guide(start, *teeth(first, side, heights, self.r), (end, start[1]))
