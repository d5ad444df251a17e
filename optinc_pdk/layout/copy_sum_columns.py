"""Columns of a section that copies or sums guides, and the positions of guides before and behind each column.

Seen from the side with more guides, levels of splitters and levels of combiners are the same: guides are a pitch apart,
neighbours swap places through crossings and meet in pairs, and each level is centred on the guides that it comes from.
So the paths to all copies, and from all summands, rise and fall by about the same, and only guides that meet move.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.layout.placement_view import PlacementView
from optinc_pdk.layout.river_routing import spaced_positions


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

        Returns:
            (n,) guide numbers, n the larger number of guides.
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

    Args:
        netlist: The circuit.
        section: Name of the section.
        ports: Ports (``instance,port``) from which guides enter the section, uppermost first.

    Returns:
        The columns, and the ports (``instance,port``) from which guides leave the section, uppermost first.

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
    """Return the vertical positions of guides before and behind each column of a section.

    Args:
        steps: Columns of the section, at least one.
        pitch: Smallest distance between the centrelines of neighbouring guides in µm.

    Returns:
        For each column two arrays, before and behind it: distance of each guide below the middle of the section in µm,
        uppermost guide first.
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
