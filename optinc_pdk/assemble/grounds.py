"""Strips of the floorplan, and grounds that are joined within a strip or a die only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from optinc_pdk.circuit import Builder

HUB = "pad_GND0,e1"
"""The port that every ground is joined to until grounds are divided."""
PADS = 8
LOCAL_PADS = 2
_SECTION = re.compile(r"(l(\d+))(b\d+)?(_mix|_split|_sum)?")


def add_grounds(b: Builder) -> None:
    """The ground pads, on one net."""
    for i in range(PADS):
        b.add(f"pad_GND{i}", "pad")
        b.ports[f"GND{i}"] = f"pad_GND{i},e1"
        if i:
            b.connect(HUB, f"pad_GND{i},e1")


def strip_names(sections: Iterable[str]) -> dict[str, str]:
    """Section to the strip that it is drawn in.

    A block of a hidden layer is a strip of its own, as light comes and goes by fibre or in electrons. The first layer's
    blocks share P, the last one's T. What carries the light to all of them belongs to no strip.
    """
    found = {section: match for section in sections if (match := _SECTION.fullmatch(section))}
    last = max((int(match[2]) for match in found.values()), default=0)
    names = {
        section: match[1] if int(match[2]) in (0, last) else match[1] + (match[3] or "")
        for section, match in found.items()
    }
    return names | {"p": "l0", "t": f"l{last}"}


def divide_grounds(b: Builder, dies: Mapping[str, str]) -> None:
    """Give every group of strips ground pads of its own in place of the common ones.

    Args:
        b: Finished circuit with common grounds.
        dies: Strip to the name of its group; a strip that is missing is a group by itself.
    """
    strips = strip_names({section for section, _, _ in b.grid.values()})
    for i in range(PADS):
        del b.instances[f"pad_GND{i}"], b.ports[f"GND{i}"]
    nets: list[tuple[str, str]] = []
    groups: set[str] = set()
    for a, port in b.nets:
        if a != HUB:
            nets.append((a, port))
            continue
        instance = port.rpartition(",")[0]
        if instance in b.instances:
            strip = strips[b.grid[instance][0]]
            group = dies.get(strip, strip)
            groups.add(group)
            nets.append((f"pad_GND_{group}_0,e1", port))
    for group in sorted(groups):
        pads = PADS if group in dies.values() else LOCAL_PADS
        for i in range(pads):
            name = f"GND_{group}_{i}"
            b.add(f"pad_{name}", "pad")
            b.ports[name] = f"pad_{name},e1"
            if i:
                nets.append((f"pad_GND_{group}_0,e1", f"pad_{name},e1"))
    b.nets = nets
