"""Strips of the floorplan, their distribution over dies, and the ground pads that a chip, a die or a strip shares.

A strip is one or several blocks with all that belongs to them, placed and routed as one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from optinc_pdk.circuit import Circuit, CircuitBuilder

HUB = "pad_GND0,e1"
"""The port that every ground end is joined to: the first ground pad of the die. If a die has several grounds, their
ends are moved to pads of their own afterwards."""
PADS = 8
"""Ground pads of a die."""
LOCAL_PADS = 2
"""Ground pads of a strip with a ground of its own."""
_SECTION = re.compile(r"(l(\d+))(?:(b\d+)|c\d+)?(_mix|_split|_sum|_in)?")


@dataclass(frozen=True)
class DiePlan:
    """The effects on the circuit of how a network's strips are distributed over dies.

    A strip is a part of the floorplan with one block, or with all blocks of the first or of the last layer.

    Attributes:
        carrier_tree: True if all strips lie on one die: one splitter tree distributes the carrier to all local
            oscillators, and all heaters share one ground. False if strips are independent: the local oscillators of
            each block have a fibre of their own, and grounds are shared within a strip or among the strips of a die.
        ground_groups: Name of a strip to the name of the die whose ground it shares. A strip that is missing has ground
            pads of its own. Not used if ``carrier_tree`` is true.
    """

    carrier_tree: bool
    ground_groups: Mapping[str, str] = field(default_factory=dict)


CARRIER_TREE = DiePlan(carrier_tree=True)
"""All strips on one die, with a carrier tree and one ground."""
LOCAL_STRIPS = DiePlan(carrier_tree=False)
"""Strips that share neither carriers nor grounds."""


class CircuitPlan(Protocol):
    """A circuit without the parts that depend on the dies, whatever the chip computes."""

    @property
    def strips(self) -> tuple[str, ...]:
        """Names of the strips of the floorplan, in the order in which light passes them."""
        ...

    @property
    def shares_one_die(self) -> bool:
        """Whether all strips may share one die and its ground."""
        ...

    def complete(self, plan: DiePlan) -> Circuit:
        """Return the complete circuit for a distribution over dies."""
        ...


def add_pad(b: CircuitBuilder, label: str, signal: str, ground: str) -> None:
    """Add a pad for a heater, photodiode or modulator, and join the device's ground end to ``HUB``.

    Ports are texts "instance,port". For example, ``add_pad(b, "x_theta", "x,e3", "x,e4")`` adds the pad ``pad_x_theta``
    with the label ``x_theta`` on port e3 of the instance x, and grounds e4.
    """
    b.add(f"pad_{label}", "pad")
    b.ports[label] = f"pad_{label},e1"
    b.connect(f"pad_{label},e1", signal)
    b.connect(HUB, ground)


def add_common_grounds(b: CircuitBuilder) -> None:
    """Add ground pads ``GND0``, ``GND1``, …, all on the net of ``HUB``, for a chip whose heaters share one ground."""
    for i in range(PADS):
        b.add(f"pad_GND{i}", "pad")
        b.ports[f"GND{i}"] = f"pad_GND{i},e1"
        if i:
            b.connect(HUB, f"pad_GND{i},e1")


def begun_circuit(draft: CircuitBuilder, plan: DiePlan) -> CircuitBuilder:
    """Return a circuit with the parts of a draft without ground pads, behind the pads of a common ground if planned."""
    b = CircuitBuilder(draft.name, draft.library, draft.cells)
    if plan.carrier_tree:
        add_common_grounds(b)
    b.instances |= draft.instances
    b.settings |= draft.settings
    b.grid |= draft.grid
    b.nets += draft.nets
    b.ports |= draft.ports
    return b


def strip_names(sections: Iterable[str]) -> dict[str, str]:
    """Return the strip to which each section of the floorplan belongs.

    Every block of a hidden layer is a strip, because its signals enter and leave by fibres or electrically; the
    independent parts of a layer's matrix are one strip. All blocks
    of the first layer form one strip together with the preprocessing unit (section ``p``). All blocks of the last layer
    form one strip together with the output splitter trees (section ``t``).

    Returns:
        Section name to strip name. Sections that belong to no strip, such as ``carrier``, are missing.
    """
    matches = {section: match for section in sections if (match := _SECTION.fullmatch(section))}
    last = max((int(match[2]) for match in matches.values()), default=0)
    names = {
        section: match[1] if int(match[2]) in (0, last) else match[1] + (match[3] or "")
        for section, match in matches.items()
    }
    return names | {"p": "l0", "t": f"l{last}"}


def finished_circuit(b: CircuitBuilder, plan: DiePlan) -> Circuit:
    """Return the circuit of a builder; grounds that are not common get pads for each group of strips in the plan."""
    if not plan.carrier_tree:
        _divide_grounds(b, plan.ground_groups)
    return b.build()


def _divide_grounds(b: CircuitBuilder, groups: Mapping[str, str]) -> None:
    """Add ground pads for each group of strips, and reconnect every ground end from ``HUB`` to the pads of its group.

    A strip without a group is one by itself, with fewer pads.
    """
    strips = strip_names({section for section, _, _ in b.grid.values()})
    nets: list[tuple[str, str]] = []
    used: set[str] = set()
    for a, port in b.nets:
        if a != HUB:
            nets.append((a, port))
            continue
        strip = strips[b.grid[port.rpartition(",")[0]][0]]
        group = groups.get(strip, strip)
        used.add(group)
        nets.append((f"pad_GND_{group}_0,e1", port))
    for group in sorted(used):
        pads = PADS if group in groups.values() else LOCAL_PADS
        for i in range(pads):
            name = f"GND_{group}_{i}"
            b.add(f"pad_{name}", "pad")
            b.ports[name] = f"pad_{name},e1"
            if i:
                nets.append((f"pad_GND_{group}_0,e1", f"pad_{name},e1"))
    b.nets = nets
