"""Fast YAML writer for large netlists: the same output as PyYAML's, about twenty times as fast.

PyYAML writes the small parts; this module writes instances, nets, ports and grid, which grow with the chip. If a name
might need quotes, PyYAML writes the whole netlist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from optinc_pdk.io.yaml_files import WIDTH, yaml_text

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)*")
_PORT = re.compile(rf"{_PLAIN.pattern},[A-Za-z][A-Za-z0-9_]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# PyYAML might fold a line at a longer name
_MAX_LENGTH = 50
_PLACEHOLDER = "placeholder_of_{}"


def netlist_text(data: dict[str, Any]) -> str:
    """Return the YAML text of a netlist in gdsfactory's schema.

    Args:
        data: Netlist as :func:`optinc_pdk.circuit.netlist_files.netlist_dict` returns it.
    """
    grid = data["info"].get("grid", {})
    parts = {"instances": data["instances"], "nets": data["nets"], "ports": data["ports"], "grid": grid}
    if not all(parts.values()) or not _plain(data["instances"], data["nets"], data["ports"], grid):
        return yaml_text(data)
    placeholder = {key: _PLACEHOLDER.format(key) for key in parts}
    info = data["info"] | {"grid": placeholder["grid"]}
    small = yaml_text(data | {key: placeholder[key] for key in ("instances", "nets", "ports")} | {"info": info})
    texts = {
        "instances": "\n" + "\n".join(f"  {k}: {{component: {v['component']}}}" for k, v in data["instances"].items()),
        "nets": "\n" + "\n".join(f"- {{p1: '{net['p1']}', p2: '{net['p2']}'}}" for net in data["nets"]),
        "ports": " " + _folded(data["ports"]),
        "grid": "\n" + "\n".join(f"    {k}: [{s}, {c}, {r}]" for k, (s, c, r) in grid.items()),
    }
    for key, text in texts.items():
        before, match, after = small.partition(f"{key}: {placeholder[key]}\n")
        if not match or placeholder[key] in after:
            return yaml_text(data)
        small = f"{before}{key}:{text}\n{after}"
    return small


def _folded(ports: Mapping[str, str]) -> str:
    """Return a flow mapping at the top level, folded as PyYAML does: after the item that exceeds the width."""
    lines: list[str] = []
    line = "ports: {"
    for label, port in ports.items():
        if len(line) > WIDTH:
            lines.append(line)
            line = "  "
        elif not line.endswith("{"):
            line += " "
        line += f"{label}: '{port}',"
    lines.append(line[:-1] + "}")
    return "\n".join(lines).removeprefix("ports: ")


def _plain(
    instances: Mapping[str, Any], nets: Sequence[Mapping[str, str]], ports: Mapping[str, str], grid: Mapping[str, Any]
) -> bool:
    """Return whether all names can be written without quotes."""
    names = {*instances, *ports, *(at[0] for at in grid.values()), *(str(i["component"]) for i in instances.values())}
    ends = {*ports.values(), *(net["p1"] for net in nets), *(net["p2"] for net in nets)}
    return (
        all(len(instance) == 1 for instance in instances.values())
        and all(len(name) <= _MAX_LENGTH and _PLAIN.fullmatch(name) for name in names)
        and all(len(end) <= _MAX_LENGTH and _PORT.fullmatch(end) for end in ends)
        and not any(name.lower() in _WORDS for name in names)
    )
