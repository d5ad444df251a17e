"""Placement of a strip's meshes and attenuators: columns from left to right, in one row or folded into several."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from optinc_pdk.cards import Process
from optinc_pdk.layout._heater_wiring import facing_space, ground_width, signals_width
from optinc_pdk.layout._routing import draw_turn, turn_width
from optinc_pdk.layout.canvas import Canvas, CellFrames, snap
from optinc_pdk.layout.chip_layout import PlacementView

BLOCK_GAP = 2
"""Unused modes between blocks of one strip; the dummies at the blocks' edges reach into them."""
MESH_PARTS = ("mzi_unit", "mzi_dummy", "mzi_narrow_dummy", "attenuator")


@dataclass(frozen=True)
class MeshColumn:
    """One column of a mesh: instances with the same x. Lengths are in µm.

    Attributes:
        names: Names of the instances.
        left: x of the left edge of the leftmost contacts.
        right: x of the right edge of the rightmost contacts, or of the ground trunk over them.
        signals_left: Number of signal wires on the left side of the column.
        signals_right: Number of signal wires on the right side of the column.
        length: Length of its components along the guides; 0 for a column of terminators.
    """

    names: tuple[str, ...]
    left: float
    right: float
    signals_left: int
    signals_right: int
    length: float


@dataclass
class MeshRow:
    """One row of a folded mesh in its own coordinates, with light travelling to the right.

    Attributes:
        canvas: Drawing of the row.
        starts: Mode number to the port (``instance,port``) by which light enters the row.
        ends: Mode number to the port by which light leaves the row.
    """

    canvas: Canvas
    starts: dict[int, str] = field(default_factory=dict)
    ends: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PlacedMesh:
    """Ports and extent of the mesh that a :class:`MeshPlacer` has placed.

    Attributes:
        starts: Mode number to the port (``instance,port``) by which light enters the mesh; unused modes are omitted.
        ends: Mode number to the port by which light leaves the mesh.
        first: The first column, with x relative to the column.
        last: The last column, with x as placed on the canvas.
        middle: y in µm halfway between the first mode of the first row and the last mode of the last row.
        rows: Names of the instances in each row.
    """

    starts: dict[int, str]
    ends: dict[int, str]
    first: MeshColumn
    last: MeshColumn
    middle: float
    rows: tuple[frozenset[str], ...]


class MeshPlacer:
    """Places the meshes and attenuators of all blocks of one strip, one block below the other.

    The first mode of the first block is at y = 0; the other modes follow below, at the mode pitch.
    """

    def __init__(self, netlist: PlacementView, process: Process, sections: Sequence[str], frames: CellFrames) -> None:
        """Prepare the sections of a strip, one for each block."""
        self.netlist, self.process, self.frames = netlist, process, frames
        self.members = [self._members(section) for section in sections]
        self.first: dict[str, int] = {}
        mode = 0
        for section, names in zip(sections, self.members, strict=True):
            self.first[section] = mode
            mode += 1 + BLOCK_GAP + max(netlist.grid[name][2] for name in names)
        self.mode = float(process.floorplan.mode_pitch_um)
        self.mzi, self.attenuator = frames["mzi_unit"].ports, frames["attenuator"].ports

    def place(self, canvas: Canvas, rows: int) -> PlacedMesh:
        """Place all columns on a canvas and connect them.

        The first column starts at x = 0; if the mesh is folded, the first column of the last row starts there.

        Args:
            rows: Number of rows into which the mesh is folded; odd, so that light leaves on the right.
        """
        columns = self._columns()
        parts: list[MeshRow] = []
        last = MeshColumn((), 0.0, -1e9, 0, 0, 0.0)
        for share in self._shares(columns, rows):
            row = MeshRow(Canvas(canvas.frames))
            last = self._row(row, share)
            parts.append(row)
        lowest = self._stack(canvas, parts) - self.mode * max(map(self.mode_of, canvas.placed))
        members = tuple(frozenset(part.canvas.placed) for part in parts)
        return PlacedMesh(parts[0].starts, parts[-1].ends, columns[0], last, lowest / 2, members)

    def longest(self, rows: int) -> float:
        """Return the length in µm of the longest of ``rows`` rows, without the metal between the columns."""
        return max(sum(column.length for column in share) for share in self._shares(self._columns(), rows))

    def _shares(self, columns: list[MeshColumn], rows: int) -> list[list[MeshColumn]]:
        """Distribute columns over rows.

        The first and the last row may be longer by a turn, because they lie next to one. There are no more rows than
        columns, and an odd number of them. If a row would stay empty, rows get equal numbers of columns. Chains, whose
        light enters in several columns, are in one row.
        """
        rows = 1 if rows > 1 and self._has_chains else min(rows, len(columns) - (len(columns) + 1) % 2)
        total = sum(column.length for column in columns)
        modes = 1 + max(self.first.values()) + max(self.netlist.grid[name][2] for name in self.members[-1])
        spare = min(turn_width(self.process, modes), total / 2) if rows > 1 else 0.0
        middle = (total - 2 * spare) / rows
        ends = [middle + spare * (row in (0, rows - 1)) for row in range(rows)]
        shares: list[list[MeshColumn]] = [[] for _ in range(rows)]
        row, done = 0, 0.0
        for column in columns:
            while row < rows - 1 and done + column.length / 2 > sum(ends[: row + 1]):
                row += 1
            shares[row].append(column)
            done += column.length
        if all(shares):
            return shares
        cuts = [len(columns) * row // rows for row in range(rows + 1)]
        return [columns[start:end] for start, end in itertools.pairwise(cuts)]

    @cached_property
    def _has_chains(self) -> bool:
        row, columns = MeshRow(Canvas(self.frames)), self._columns()
        self._row(row, columns)
        return any(port.rpartition(",")[0] not in columns[0].names for port in row.starts.values())

    def mode_of(self, name: str) -> int:
        """Return the mode of an instance within the strip, counted from the top; for an MZI its upper mode."""
        section, _, row = self.netlist.grid[name]
        return self.first[section] + row

    def _members(self, section: str) -> list[str]:
        """Return the instances of a section that belong to the mesh; terminators may also belong to a carrier tree."""
        component, partner = self.netlist.component, self.netlist.partner
        return [
            name
            for name in self.netlist.section(section)
            if component[name] in MESH_PARTS
            or (component[name] == "terminator" and component[partner[f"{name},o1"].rpartition(",")[0]] in MESH_PARTS)
        ]

    def _columns(self) -> list[MeshColumn]:
        columns: dict[int, list[str]] = {}
        for names in self.members:
            for name in names:
                columns.setdefault(self.netlist.grid[name][1], []).append(name)
        # a terminated input precedes the first MZI of its mode
        return [
            self._column(tuple(sorted(columns[number], key=lambda n: self.netlist.component[n] != "terminator")))
            for number in sorted(columns)
        ]

    def _column(self, names: tuple[str, ...]) -> MeshColumn:
        kinds = [self.netlist.component[name] for name in names]
        if "attenuator" in kinds:
            f, count = self.attenuator, kinds.count("attenuator")
            # the ground trunk covers the contacts and extends to the right of them
            right = f["e2"].x + ground_width(self.process, count) - float(self.process.metal.space_um)
            return MeshColumn(names, f["e1"].x, right, count, 0, f["o2"].x)
        f, count = self.mzi, kinds.count("mzi_unit")
        length = f["o3"].x if set(kinds) != {"terminator"} else 0.0
        return MeshColumn(names, f["e1"].x, f["e3"].x, count, count, length)

    def _row(self, row: MeshRow, columns: list[MeshColumn]) -> MeshColumn:
        """Place columns side by side; return the last one with x as placed."""
        x, last = 0.0, MeshColumn((), 0.0, -1e9, 0, 0, 0.0)
        for column in columns:
            beside = signals_width(self.process, last.signals_right) + signals_width(self.process, column.signals_left)
            gap = beside + facing_space(self.process)
            x = snap(max(x, last.right + gap - column.left))
            for name in column.names:
                self._slot(row, name, x)
            last = MeshColumn(
                column.names,
                column.left + x,
                column.right + x,
                column.signals_left,
                column.signals_right,
                column.length,
            )
            x += column.length
        return last

    def _slot(self, row: MeshRow, name: str, x: float) -> None:
        """Place one component and connect it to the previous ones on its modes."""
        component, mode = self.netlist.component[name], self.mode_of(name)
        y = -mode * self.mode
        if component == "terminator":
            at_input = self._at_input(name)
            row.canvas.place(name, component, x, y, rotation=180 if at_input else 0)
            entering, leaving = ({}, {mode: "o1"}) if at_input else ({mode: "o1"}, {})
        elif component == "mzi_unit":
            row.canvas.place(name, component, x, y)
            entering, leaving = {mode: "o2", mode + 1: "o1"}, {mode: "o3", mode + 1: "o4"}
        else:
            # a dummy extends away from the mesh: up from the first mode, down from the last; narrow ones all extend up
            row.canvas.place(name, component, x, y, mirror=component == "mzi_dummy" and self.netlist.grid[name][2] > 0)
            entering, leaving = {mode: "o1"}, {mode: "o2"}
        for mode, port in entering.items():
            if mode in row.ends:
                row.canvas.join(row.ends.pop(mode), f"{name},{port}")
            else:
                row.starts[mode] = f"{name},{port}"
        row.ends |= {mode: f"{name},{port}" for mode, port in leaving.items()}

    def _at_input(self, terminator: str) -> bool:
        """Return whether a terminator is at the input of a mode, not at its output."""
        other = self.netlist.partner[f"{terminator},o1"].rpartition(",")[0]
        return self.netlist.grid[other][1] >= self.netlist.grid[terminator][1]

    def _row_gap(self) -> float:
        """Return the distance of folded rows: it holds a ground bus and its spaces, and the teeth of a turn."""
        bus = 2 * float(self.process.pads.size_um + self.process.metal.space_um)
        return bus + float(self.process.metal.space_um) + self.mode

    def _stack(self, canvas: Canvas, rows: list[MeshRow]) -> float:
        """Place rows below each other, every second one rotated by 180°, and connect them by turns.

        Returns:
            The y of the last row's first mode.
        """
        # the first row begins above the left turns, the last one ends below the right ones
        width = max(row.canvas.box()[2] for row in (rows[1:-1] or rows))
        bottom: float | None = None
        y = 0.0
        for i, row in enumerate(rows):
            _, low, _, high = row.canvas.box()
            backwards = i % 2 == 1
            y = 0.0 if bottom is None else bottom - self._row_gap() + (low if backwards else -high)
            left = width - row.canvas.box()[2] if i == 0 else 0.0
            canvas.add(row.canvas, snap(width if backwards else left), y, half_turn=backwards)
            bottom = y - high if backwards else y + low
        for i, (a, b) in enumerate(itertools.pairwise(rows)):
            modes = sorted(a.ends)
            pairs = [(canvas.port(a.ends[mode]), canvas.port(b.starts[mode])) for mode in modes]
            draw_turn(canvas, self.process, pairs, -1 if i % 2 else 1)
        return y
