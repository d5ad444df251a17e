"""Netlists that gdsfactory writes, as netlists that SAX simulates with the models of a process."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from typing import Any

from optinc_pdk.cards import Process
from optinc_pdk.cards.device_cell import GUIDE_CELLS
from optinc_pdk.cards.device_models import SETTINGS
from optinc_pdk.circuit.errors import NetlistError
from optinc_pdk.circuit.gdsfactory_netlists import ALIASES, LEAD, PHASE_SHIFTER
from optinc_pdk.circuit.netlist_names import NameTable
from optinc_pdk.circuit.schematic_cells import SchematicCell, SchematicInstance, cells_of_netlist
from optinc_pdk.circuit.values import number_of


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
        NetlistError: The netlist is not in gdsfactory's format, names an instance that does not exist, or states a
            length that is no number.
    """
    cells, top = cells_of_netlist(netlist, name)
    used = [top]
    for cell in used:
        inside = {part.component for part in cells[cell].instances.values()}
        used += sorted(each for each in inside if each in cells and each not in used)
    reader = _Reader(cells, process)
    return {_word(cell): reader.netlist(cells[cell]) for cell in used}


class _Reader:
    """Reads the optical parts of netlists, with the names that the cards of a process state."""

    def __init__(self, cells: Mapping[str, SchematicCell], process: Process) -> None:
        self.cells, self.devices = cells, process.devices
        self.guides = GUIDE_CELLS | set(process.netlist.guides)
        self.names = NameTable(process)

    def netlist(self, cell: SchematicCell) -> dict[str, Any]:
        """Return the optical part of one netlist."""
        nets = [net for net in (*cell.nets, *cell.connections) if all(self._is_light(cell, end) for end in net)]
        ports = {label: end for label, end in cell.ports.items() if self._is_light(cell, end)}
        lit = {end.rpartition(",")[0] for end in (*(end for net in nets for end in net), *ports.values())}
        return {
            "instances": {
                _word(name): self._instance(name, part) for name, part in cell.instances.items() if name in lit
            },
            "nets": [{"p1": self._port(cell, a), "p2": self._port(cell, b)} for a, b in nets],
            "ports": {label: self._port(cell, end) for label, end in ports.items()},
        }

    def _device(self, instance: str, part: SchematicInstance) -> str | None:
        """Return the device that an instance is; None for guides and cells of the netlist."""
        if part.component in self.cells:
            return None
        return self.names.device(instance, ALIASES.get(part.component, part.component), part.settings)

    def _is_light(self, cell: SchematicCell, end: str) -> bool:
        """Return whether a port of an instance, ``"instance,port"``, is optical."""
        instance, _, port = end.rpartition(",")
        if instance not in cell.instances:
            raise NetlistError(f"port {end!r} is of {instance!r}, which is no instance; correct the netlist")
        part = cell.instances[instance]
        if part.component in self.cells:
            inner = self.cells[part.component]
            return port in inner.ports and self._is_light(inner, inner.ports[port])
        device = self._device(instance, part)
        if device is None:
            return part.component in self.guides and port.startswith("o")
        return self.names.port(device, port) in self.devices[device].ports.optical

    def _instance(self, name: str, part: SchematicInstance) -> dict[str, Any]:
        """Return the component of an instance and the settings that its model takes."""
        values = {**part.info, **{key: value for key, value in part.settings.items() if value is not None}}

        def stated(*keys: str) -> dict[str, float]:
            found = {key: values[key] for key in keys if values.get(key) is not None}
            return {key: number_of(f"instance {name!r}: {key}", value) for key, value in found.items()}

        if part.component in self.cells:
            return {"component": _word(part.component), "settings": {}}
        device = self._device(name, part)
        if device is None:
            length = part.info.get("length", part.settings.get("length"))
            return {"component": "straight", "settings": {"length": number_of(f"instance {name!r}: length", length)}}
        settings = stated(*SETTINGS.get(self.devices[device].model.name, ()), LEAD)
        if device == PHASE_SHIFTER:
            # the cell is longer than the heated guide by its ends
            settings |= stated("length_um") | self.names.length(name, device, part.settings)
            settings[LEAD] = self.names.end_um(device, "contact_width_um")
        return {"component": device, "settings": settings}

    def _port(self, cell: SchematicCell, end: str) -> str:
        """Return a port, ``"instance,port"``, by the names that SAX takes."""
        instance, _, port = end.rpartition(",")
        device = self._device(instance, cell.instances[instance])
        return f"{_word(instance)},{port if device is None else self.names.port(device, port)}"


def _word(name: str) -> str:
    """Return a name that is one in Python too, because SAX makes it the name of an argument."""
    word = re.sub(r"\W", "_", name)
    return f"{word}_" if keyword.iskeyword(word) else word
