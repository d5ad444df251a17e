"""Netlists that gdsfactory writes, as netlists that SAX simulates with the models of a process."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.cards.device_cell import GUIDE_CELLS
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit.gdsfactory_netlists import ALIASES, LEAD, PHASE_SHIFTER
from optinc_pdk.circuit.schematic_cells import SchematicCell, SchematicInstance, cells_of_netlist


def sax_schematic(netlist: Mapping[str, Any], process: Process, name: str = "") -> dict[str, dict[str, Any]]:
    """Return the optical part of a netlist of gdsfactory for SAX, with its hierarchy.

    SAX gives a model the settings of an instance only. Lengths of bends and dimensions of couplers are in ``info``,
    which gdsfactory's cells write; here they become settings.

    Args:
        netlist: What ``Component.get_netlist(recursive=True)`` returns, or without ``recursive``.
        process: Process whose devices the netlist has.
        name: Name of the top cell, if several netlists could be the top.

    Returns:
        Netlists by name, the top first, for ``sax.circuit(netlist, models=sax_models(process))``. Names of
        instances that are no names in Python get underscores.

    Raises:
        NetlistError: The netlist is not in gdsfactory's format.
    """
    cells, top = cells_of_netlist(netlist, name)
    used = [top]
    for cell in used:
        inside = {part.component for part in cells[cell].instances.values()}
        used += sorted(each for each in inside if each in cells and each not in used)
    return {_word(cell): _flat_netlist(cells, cells[cell], process) for cell in used}


def _flat_netlist(cells: Mapping[str, SchematicCell], cell: SchematicCell, process: Process) -> dict[str, Any]:
    """Return the optical part of one netlist."""
    nets = [net for net in cell.nets if all(_is_light(cells, cell, end, process) for end in net)]
    ports = {label: end for label, end in cell.ports.items() if _is_light(cells, cell, end, process)}
    lit = {end.rpartition(",")[0] for end in (*(end for net in nets for end in net), *ports.values())}
    return {
        "instances": {
            _word(name): {"component": _word(part.component), "settings": _settings(part, process)}
            for name, part in cell.instances.items()
            if name in lit
        },
        "nets": [{"p1": _port(a), "p2": _port(b)} for a, b in nets],
        "ports": {label: _port(end) for label, end in ports.items()},
    }


def _is_light(cells: Mapping[str, SchematicCell], cell: SchematicCell, end: str, process: Process) -> bool:
    """Return whether a port of an instance, ``"instance,port"``, is optical."""
    instance, _, port = end.rpartition(",")
    component = cell.instances[instance].component
    if component in cells:
        inner = cells[component]
        return port in inner.ports and _is_light(cells, inner, inner.ports[port], process)
    if component in GUIDE_CELLS:
        return port.startswith("o")
    card = process.devices.get(ALIASES.get(component, component))
    return card is not None and port in card.ports.optical


def _settings(part: SchematicInstance, process: Process) -> dict[str, float]:
    """Return the settings that the model of a guide or device takes from an instance."""
    card = process.devices.get(ALIASES.get(part.component, part.component))
    keys = ("length",) if card is None else (*SETTINGS.get(card.model.name, ()), LEAD, "length_um")
    values = {**part.info, **{key: value for key, value in part.settings.items() if value is not None}}
    stated = {key: float(values[key]) for key in keys if values.get(key) is not None}
    if card is not None and card.name == PHASE_SHIFTER:
        # the cell is longer than the heated guide by its contacts
        stated[LEAD] = card.size("contact_width_um")
    return stated


def _word(name: str) -> str:
    """Return a name that is one in Python too, because SAX makes it the name of an argument."""
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if keyword.iskeyword(word) else word


def _port(end: str) -> str:
    """Return a port, ``"instance,port"``, with the name of its instance as SAX takes it."""
    instance, _, port = end.rpartition(",")
    return f"{_word(instance)},{port}"
