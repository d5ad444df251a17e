"""Placement of copies and sums: splitters, crossings and combiners that copy or add the light of guides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.cards import Process
from optinc_pdk.cards.rules import BendRadiusRule, ForeignGuideRule
from optinc_pdk.layout._routing import (
    draw_fanout,
    fan_end,
    fan_length,
    length_gains,
    path_length,
    spaced_positions,
    straight_between_bends,
    teeth,
    tooth_gain,
    tooth_heights,
)
from optinc_pdk.layout.canvas import Canvas, CellFrames, Point, guide_track, snap
from optinc_pdk.layout.chip_layout import PlacementView


def place_copies_or_sums(
    canvas: Canvas,
    netlist: PlacementView,
    process: Process,
    section: str,
    guides: Sequence[tuple[str, Point]],
    middle: float,
) -> list[tuple[str, Point]]:
    """Place the instances of a section that copies or sums guides, and draw its guides.

    Summed fields interfere, so all paths from the trim phase shifters to one output get the same length (within the
    process's tolerance) by meanders behind the trims. Copies need no matching: each copy enters its own mesh, where a
    length difference is a static phase that the mesh's phase shifters compensate.

    Args:
        canvas: Canvas that receives instances and guides. The instances at which the guides start need not be on it.
        section: Name of the section. If it has no instances, the result is ``guides``.
        guides: For each guide that enters the section, uppermost first, the port from which it comes
            (``instance,port``) and the position in µm up to which it is already drawn.
        middle: y on which the section is centred, in µm.

    Returns:
        For each guide that leaves the section, uppermost first, its last port and the position in µm at which it ends;
        all guides leave to the right.

    Raises:
        CardError: The process lacks a device of the section.
        ValueError: The guides do not lead to the section's instances.
    """
    steps, ends = section_columns(netlist, section, [port for port, _ in guides])
    if not steps:
        return list(guides)
    pitch = _pitch(canvas.frames, process, {step.passage.component for step in steps})
    rows = [(middle - front, middle - behind) for front, behind in guide_depths(steps, pitch)]
    starts = [point for _, point in guides]
    trial = _SectionDrawing(Canvas(canvas.frames), process, pitch, starts)
    trial.draw(steps, rows, {})
    # half of the tolerance is left to rounding and to the extraction of lengths
    matched, gains = float(process.guide.length_match_um) / 2, dict[str, float]()
    for lengths in trial.lengths:
        if len(lengths) > 1:
            gains |= length_gains(lengths, matched, tooth_gain(2 * trial.r + trial.straight, trial.r))
    drawing = _SectionDrawing(canvas, process, pitch, starts)
    drawing.draw(steps, rows, gains)
    return list(zip(ends, drawing.finish(), strict=True))


def _pitch(frames: CellFrames, process: Process, components: set[str]) -> float:
    """Return the smallest pitch at which guides reach the components of a section."""
    pitch, double = guide_track(process), 2 * (2 * float(process.guide.radius_um) + _straight(process))
    if CROSSING.component in components:
        ports = frames[CROSSING.component].ports
        # the upper guide turns into the crossing and out of it, the lower one rises to it and after it
        turns = 2 * (float(process.guide.radius_um) + _straight(process))
        pitch = max(pitch, ports["o2"].y - ports["o4"].y + turns, double)
    if SPLITTER.component in components:
        ports = frames[SPLITTER.component].ports
        pitch = max(pitch, ports["o2"].y - ports["o3"].y + double)
    if TRIM.component in components:
        pitch = max(pitch, float(process.floorplan.mode_pitch_um))
    # a multiple of 2 nm, so that half of it is on the grid
    return 2 * snap(math.ceil(pitch * 500 - 1e-6) / 1000)


def _straight(process: Process) -> float:
    """Return the straight in µm that the process's bend rules need between bends, and between a bend and a device."""
    arms = [arm for rule in process.rules if isinstance(rule, BendRadiusRule) for arm, _ in rule.arms_um]
    return max([straight_between_bends(process), *arms])


class _SectionDrawing:
    """Draws all guides of a section in parallel, from left to right, and sums up their lengths.

    Attributes:
        paths: Corners of each guide that are not drawn yet.
        lengths: For each guide, trim to the length in µm from it to the guide's end.
        x: Right end of the last column.
    """

    def __init__(self, canvas: Canvas, process: Process, pitch: float, starts: Sequence[Point]) -> None:
        """Start at the ends of the guides that enter the section."""
        self.canvas, self.process, self.pitch = canvas, process, pitch
        self.r, self.straight = float(process.guide.radius_um), _straight(process)
        # the last straight is drawn together with the next column
        self.paths: list[list[Point]] = [[point] for point in starts]
        self.lengths: list[dict[str, float]] = [{} for _ in starts]
        self.x = max(x for x, _ in starts)

    def draw(
        self, steps: Sequence[SectionColumn], rows: Sequence[tuple[Floats, Floats]], gains: Mapping[str, float]
    ) -> None:
        """Draw all columns; after the trims, guides meander to gain the lengths in ``gains``."""
        for step, (front, behind) in zip(steps, rows, strict=True):
            self._fan(front)
            self.x = snap(self.x + self.straight)
            columns = {
                TRIM: self._trims,
                CROSSING: self._crossings,
                SPLITTER: self._splitters,
                COMBINER: self._combiners,
            }
            columns[step.passage](step, behind)
            if step.passage == TRIM:
                self._meander(step, gains)

    def finish(self) -> list[Point]:
        """Draw all guides up to the section's right end; return their ends."""
        self._draw_to([(snap(self.x + self.straight), path[-1][1]) for path in self.paths])
        return [path[-1] for path in self.paths]

    def _end(self, guide: int, *corners: Point) -> None:
        """Draw a guide up to its last corner, where a device or a bundle begins."""
        path = [*self.paths[guide], *corners]
        self.canvas.guide(*path)
        self._gain(guide, path_length(path, self.r))
        self.paths[guide] = [path[-1]]

    def _gain(self, guide: int, length: float) -> None:
        self.lengths[guide] = {leaf: before + length for leaf, before in self.lengths[guide].items()}

    def _draw_to(self, ends: Sequence[Point]) -> None:
        for guide, end in enumerate(ends):
            self._end(guide, end)

    def _fan(self, rows: Floats) -> None:
        """Move guides to the rows of a column, unless they are all there."""
        targets = [snap(row) for row in rows.tolist()]
        sources = [path[-1][1] for path in self.paths]
        if sources == targets:
            return
        self.x = snap(self.x + self.straight)
        self._draw_to([(self.x, y) for y in sources])
        end = snap(fan_end(self.process, sources[::-1], targets[::-1], self.x))
        pairs = [((self.x, a), (end, b)) for a, b in zip(sources, targets, strict=True)]
        draw_fanout(self.canvas, self.process, pairs, self.x)
        for guide, (a, b) in enumerate(pairs):
            self._gain(guide, fan_length(self.process, a, b))
            self.paths[guide] = [b]
        self.x = end

    def _trims(self, step: SectionColumn, _: Floats) -> None:
        frame = self.canvas.frames[TRIM.component]
        for guide, name in step.at.items():
            y = self.paths[guide][-1][1]
            self._end(guide, (self.x, y))
            self.canvas.place(name, TRIM.component, self.x, y)
            self.paths[guide] = [(snap(self.x + frame.ports["o2"].x), y)]
            # all trims have the same length
            self.lengths[guide] = {name: 0.0}
        rules = [float(rule.value_um) for rule in self.process.rules if isinstance(rule, ForeignGuideRule)]
        # no guide turns towards another guide's heater within the distance that the rules require or recommend
        self.x = snap(self.x + frame.box[2] + max(rules, default=0.0))

    def _meander(self, step: SectionColumn, gains: Mapping[str, float]) -> None:
        tallest = snap(self.pitch - guide_track(self.process))
        heights = {guide: tooth_heights(gains.get(name, 0.0), tallest, self.r) for guide, name in step.at.items()}
        for guide, each in heights.items():
            self.paths[guide] += teeth((self.x, self.paths[guide][-1][1]), +1, each, self.r)
        self.x = snap(self.x + 4 * self.r * max(map(len, heights.values())))

    def _crossings(self, step: SectionColumn, _: Floats) -> None:
        """Draw crossings: the lower guide rises through one to the upper row, the upper guide descends through it."""
        length, turn = self.canvas.frames[CROSSING.component].box[2], self.straight + self.r
        end = snap(self.x + length + 2 * (turn + self.r))
        for upper, name in step.at.items():
            lower = upper + 1
            top, bottom = self.paths[upper][-1][1], self.paths[lower][-1][1]
            middle = snap((top + bottom) / 2)
            self.canvas.place(name, CROSSING.component, self.x + self.r + turn, middle)
            left, above, right, below = (self.canvas.port(f"{name},{port}") for port in ("o1", "o2", "o3", "o4"))
            self._end(upper, (above.x, top), (above.x, above.y))
            self._end(lower, (left.x - turn, bottom), (left.x - turn, middle), (left.x, middle))
            self._gain(upper, above.y - below.y)
            self._gain(lower, right.x - left.x)
            self.paths[upper] = [(right.x, middle), (right.x + turn, middle), (right.x + turn, top), (end, top)]
            self.paths[lower] = [(below.x, below.y), (below.x, bottom), (end, bottom)]
            self.lengths[upper], self.lengths[lower] = self.lengths[lower], self.lengths[upper]
        self.x = end

    def _splitters(self, step: SectionColumn, behind: Floats) -> None:
        """Draw splitters, whose branches go directly up and down to their rows."""
        frame, turn = self.canvas.frames[SPLITTER.component], self.r + 0.5
        end = snap(self.x + frame.box[2] + 2 * turn)
        paths: list[list[Point]] = []
        for guide in range(step.count):
            if guide not in step.at:
                paths.append(self.paths[guide])
                continue
            name, y = step.at[guide], self.paths[guide][-1][1]
            self._end(guide, (self.x, y))
            self.canvas.place(name, SPLITTER.component, self.x, y)
            for port in SPLITTER.outputs:
                at, row = self.canvas.port(f"{name},{port}"), snap(float(behind[len(paths)]))
                paths.append([(at.x, at.y), (at.x + turn, at.y), (at.x + turn, row), (end, row)])
        self.paths, self.x = paths, end
        self.lengths = [{} for _ in paths]

    def _combiners(self, step: SectionColumn, behind: Floats) -> None:
        """Draw combiners halfway between the guides that they combine."""
        frame, turn = self.canvas.frames[COMBINER.component], self.r + 0.5
        right = snap(self.x + 2 * turn + frame.box[2])
        paths: list[list[Point]] = []
        lengths: list[dict[str, float]] = []
        for guide in range(step.count):
            if guide - 1 in step.at:
                continue
            row = snap(float(behind[len(paths)]))
            if guide not in step.at:
                paths.append(self.paths[guide])
                lengths.append(self.lengths[guide])
                continue
            name = step.at[guide]
            self.canvas.place(name, COMBINER.component, right, row, rotation=180, mirror=True)
            for i, port in enumerate(COMBINER.inputs, guide):
                at, y = self.canvas.port(f"{name},{port}"), self.paths[i][-1][1]
                self._end(i, (at.x - turn, y), (at.x - turn, at.y), (at.x, at.y))
                self._gain(i, frame.box[2])
            paths.append([(right, row)])
            lengths.append(self.lengths[guide] | self.lengths[guide + 1])
        self.paths, self.lengths, self.x = paths, lengths, right


@dataclass(frozen=True)
class ComponentPorts:
    """A component and the names of the ports by which light enters and leaves it, uppermost first."""

    component: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


TRIM = ComponentPorts("phase_shifter", ("o1",), ("o2",))
CROSSING = ComponentPorts("crossing", ("o2", "o1"), ("o3", "o4"))
SPLITTER = ComponentPorts("mmi1x2", ("o1",), ("o2", "o3"))
COMBINER = ComponentPorts("mmi1x2", ("o2", "o3"), ("o1",))


@dataclass(frozen=True)
class SectionColumn:
    """One column of a section: instances of one component on some of the guides. Guides are numbered from the top.

    Attributes:
        passage: The component and its ports.
        at: Number of the uppermost guide that enters an instance, to the name of the instance; ascending.
        count: Number of guides that enter the column.
    """

    passage: ComponentPorts
    at: Mapping[int, str]
    count: int

    def towards_fewer(self) -> Ints:
        """Return the guide on the side with fewer guides that belongs to each guide on the side with more guides.

        Splitters have more guides behind the column, combiners before it. Crossings exchange two numbers.
        """
        to = np.arange(self.count)
        if self.passage == CROSSING:
            for upper in self.at:
                to[[upper, upper + 1]] = to[[upper + 1, upper]]
        elif self.passage == COMBINER:
            to = to - np.searchsorted([upper + 1 for upper in self.at], to, side="right")
        elif self.passage == SPLITTER:
            to = np.repeat(to, [1 + (guide in self.at) for guide in range(self.count)])
        return to


def section_columns(
    netlist: PlacementView, section: str, ports: Sequence[str]
) -> tuple[list[SectionColumn], list[str]]:
    """Return the columns of a section in the order in which light passes them, and the ports at which guides leave it.

    Both lists of ports (``instance,port``), of guides that enter and leave, begin with the uppermost.

    Raises:
        ValueError: An instance has an input without a guide, or inputs whose guides are not neighbours.
    """
    order, steps = list(ports), list[SectionColumn]()
    grid, component = netlist.grid, netlist.component
    # groups of guides may have different depths, so that a grid column holds crossings of one and combiners of another
    names = sorted(netlist.section(section), key=lambda name: (grid[name][1], component[name]))
    for _, group in itertools.groupby(names, key=lambda name: (grid[name][1], component[name])):
        at: dict[int, str] = {}
        place = {port: guide for guide, port in enumerate(order)}
        for name in group:
            passages = [each for each in (TRIM, CROSSING, SPLITTER, COMBINER) if each.component == component[name]]
            for passage in passages:
                entering = [place.get(netlist.partner[f"{name},{port}"], -1) for port in passage.inputs]
                if entering == list(range(entering[0], entering[0] + len(entering))) and entering[0] >= 0:
                    at[entering[0]] = name
                    break
            else:
                raise ValueError(
                    f"{section}: no neighbouring guides lead to {name!r}; give the section's guides from the top"
                )
        steps.append(SectionColumn(passage, dict(sorted(at.items())), len(order)))
        for first in sorted(at, reverse=True):
            order[first : first + len(passage.inputs)] = [f"{at[first]},{port}" for port in passage.outputs]
    return steps, order


def guide_depths(steps: Sequence[SectionColumn], pitch: float) -> list[tuple[Floats, Floats]]:
    """Return the distances of guides below the middle of a section, before and behind each of its columns, in µm.

    The uppermost guide is first; centrelines of neighbouring guides are at least ``pitch`` apart.
    """
    splits = any(step.passage == SPLITTER for step in steps)
    numbers = [step.towards_fewer() for step in steps]
    if splits:
        numbers.reverse()
    # mean position of the outermost guides that belong to each guide
    count = len(numbers[0])
    totals: list[Floats] = [pitch * (np.arange(count, dtype=np.float64) - (count - 1) / 2)]
    counts: list[Floats] = [np.ones(count)]
    for to in numbers:
        totals.append(np.bincount(to, totals[-1]).astype(float))
        counts.append(np.bincount(to, counts[-1]).astype(float))
    means = [total / count for total, count in zip(totals, counts, strict=True)]
    targets = means[-1]
    depths: list[tuple[Floats, Floats]] = []
    for to, mean in zip(reversed(numbers), reversed(means[1:]), strict=True):
        meet = np.bincount(to)
        targets = np.where(meet[to] > 1, mean[to], targets[to])
        # rounded, so that columns with equal targets get equal positions
        many = np.round(spaced_positions(targets, pitch, -math.inf, math.inf), 6)
        few = np.sort(np.bincount(to, many) / meet)
        depths.append((few, many) if splits else (many, few))
    return depths if splits else depths[::-1]
