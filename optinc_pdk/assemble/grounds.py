"""Names of the floorplan's strips, and ground pads that the heaters of a chip, a die or a strip share.

A strip is one or several blocks with all that belongs to them, placed and routed as one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from optinc_pdk.circuit import CircuitBuilder

HUB = "pad_GND0,e1"
"""The port that every ground end is joined to: the first pad of a common ground, or of none until it is divided."""
PADS = 8
"""Ground pads of a die."""
LOCAL_PADS = 2
"""Ground pads of a strip with a ground of its own."""
_SECTION = re.compile(r"(l(\d+))(?:(b\d+)|c\d+)?(_mix|_split|_sum|_in)?")


def add_common_grounds(b: CircuitBuilder) -> None:
    """Add ground pads ``GND0``, ``GND1``, …, all on the net of ``HUB``, for a chip whose heaters share one ground."""
    for i in range(PADS):
        b.add(f"pad_GND{i}", "pad")
        b.ports[f"GND{i}"] = f"pad_GND{i},e1"
        if i:
            b.connect(HUB, f"pad_GND{i},e1")


def copy_parts(source: CircuitBuilder, target: CircuitBuilder) -> None:
    """Add the instances, nets and ports of a circuit without ground pads to another one, behind its ground pads."""
    target.instances |= source.instances
    target.settings |= source.settings
    target.grid |= source.grid
    target.nets += source.nets
    target.ports |= source.ports


def strip_names(sections: Iterable[str]) -> dict[str, str]:
    """Return the strip to which each section of the floorplan belongs.

    Every block of a hidden layer is a strip, because its signals enter and leave by fibres or electrically; the
    independent parts of a layer's matrix are one strip. All blocks
    of the first layer form one strip together with the preprocessing unit (section ``p``). All blocks of the last layer
    form one strip together with the output splitter trees (section ``t``).

    Args:
        sections: Names of sections.

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


def add_divided_grounds(b: CircuitBuilder, groups: Mapping[str, str]) -> None:
    """Add ground pads for each group of strips, and reconnect every ground end from ``HUB`` to the pads of its group.

    Args:
        b: Circuit without ground pads, otherwise complete. It is changed in place.
        groups: Strip name to the name of its group. A strip that is missing is a group by itself, with fewer pads.
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
