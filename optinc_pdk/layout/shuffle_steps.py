"""Copies and sums as columns of components, and the heights at which guides enter and leave them.

Seen from where there are most guides, levels of splitters and levels of combiners are the same: guides are a pitch
apart, neighbours change places through crossings and meet in pairs, and each level is centred on the guides that it
comes from. So ways to all copies, and from all summands, go up and down by about as much, and only guides that meet
move.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.layout.netlist import Netlist
from optinc_pdk.layout.river import spread

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Way:
    """How light goes through a component: ports by which it enters and leaves, uppermost first."""

    component: str
    enters: tuple[str, ...]
    leaves: tuple[str, ...]


TRIM = Way("phase_shifter", ("o1",), ("o2",))
CROSSING = Way("crossing", ("o2", "o1"), ("o3", "o4"))
SPLITTER = Way("mmi1x2", ("o1",), ("o2", "o3"))
COMBINER = Way("mmi1x2", ("o2", "o3"), ("o1",))


@dataclass(frozen=True)
class Step:
    """One column: the same component for some guides.

    Attributes:
        way: How light goes through it.
        at: Number of the guide at which an instance begins, from the top, to the instance; ascending.
        count: Guides in front of the column.
    """

    way: Way
    at: Mapping[int, str]
    count: int

    def towards_fewer(self) -> Ints:
        """For each guide on the side where there are more, its number on the other; crossed guides change places."""
        to = np.arange(self.count)
        if self.way == CROSSING:
            for upper in self.at:
                to[[upper, upper + 1]] = to[[upper + 1, upper]]
        elif self.way == COMBINER:
            to = to - np.searchsorted([upper + 1 for upper in self.at], to, side="right")
        elif self.way == SPLITTER:
            to = np.repeat(to, [1 + (guide in self.at) for guide in range(self.count)])
        return to


def section_steps(netlist: Netlist, section: str, ports: Sequence[str]) -> tuple[list[Step], list[str]]:
    """The section's columns in the light's order, and the ports at which it ends.

    Raises:
        ValueError: No guide, or no neighbouring guides, lead to an instance.
    """
    order, steps = list(ports), list[Step]()
    grid, component = netlist.grid, netlist.component
    # where groups of guides differ in height, a column may hold crossings of one and combiners of another
    names = sorted(netlist.section(section), key=lambda name: (grid[name][1], component[name]))
    for _, group in itertools.groupby(names, key=lambda name: (grid[name][1], component[name])):
        at: dict[int, str] = {}
        place = {port: guide for guide, port in enumerate(order)}
        for name in group:
            ways = [way for way in (TRIM, CROSSING, SPLITTER, COMBINER) if way.component == component[name]]
            for way in ways:
                found = [place.get(netlist.partner[f"{name},{port}"], -1) for port in way.enters]
                if found == list(range(found[0], found[0] + len(found))) and found[0] >= 0:
                    at[found[0]] = name
                    break
            else:
                raise ValueError(
                    f"{section}: no guides lead to {name!r} side by side; give the section's, from the top"
                )
        steps.append(Step(way, dict(sorted(at.items())), len(order)))
        for first in sorted(at, reverse=True):
            order[first : first + len(way.enters)] = [f"{at[first]},{port}" for port in way.leaves]
    return steps, order


def depths_of(steps: Sequence[Step], pitch: float) -> list[tuple[Floats, Floats]]:
    """How far below the section's middle guides lie in front of and behind each column."""
    splits = any(step.way == SPLITTER for step in steps)
    ways = [step.towards_fewer() for step in steps]
    if splits:
        ways.reverse()
    # where the outermost guides behind each guide lie on average
    count = len(ways[0])
    totals: list[Floats] = [pitch * (np.arange(count, dtype=np.float64) - (count - 1) / 2)]
    counts: list[Floats] = [np.ones(count)]
    for to in ways:
        totals.append(np.bincount(to, totals[-1]).astype(float))
        counts.append(np.bincount(to, counts[-1]).astype(float))
    homes = [total / count for total, count in zip(totals, counts, strict=True)]
    wanted = homes[-1]
    depths: list[tuple[Floats, Floats]] = []
    for to, home in zip(reversed(ways), reversed(homes[1:]), strict=True):
        meet = np.bincount(to)
        wanted = np.where(meet[to] > 1, home[to], wanted[to])
        # without the noise of floats, so that columns that want the same get it
        many = np.round(spread(wanted, pitch, -math.inf, math.inf), 6)
        few = np.sort(np.bincount(to, many) / meet)
        depths.append((few, many) if splits else (many, few))
    return depths if splits else depths[::-1]
