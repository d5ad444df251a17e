"""View of a circuit by instance names, for placement: components, connections, labels and grid positions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optinc_pdk.circuit import UNCONNECTED, Circuit

GROUND = "GND"
OTHER_END = {"e1": "e2", "e2": "e1", "e3": "e4", "e4": "e3"}
"""Port at one end of a heater to the port at its other end."""


class PlacementView:
    """Connections and positions of a hierarchical circuit by instance name.

    Attributes:
        circuit: The circuit.
        component: Instance name to the name of its component.
        partner: ``instance,port`` to the ``instance,port`` to which it is connected optically.
        label: ``instance,port`` of a fibre or pad to its label.
        grid: Instance name to its section, column and row in the floorplan grid.
        heaters: Instance name to its heaters and other devices that a pad drives or reads, each as label of the signal
            pad, signal port and ground port.
    """

    def __init__(self, circuit: Circuit) -> None:
        """Index a circuit."""
        self.circuit = circuit
        kinds, instances = circuit.kinds, circuit.instances
        self.component = {name: kinds[k].name for name, k in zip(instances, circuit.kind.tolist(), strict=True)}
        ports = [
            f"{name},{port}"
            for name, k in zip(instances, circuit.kind.tolist(), strict=True)
            for port in kinds[k].ports
        ]
        self.label = {ports[port]: label for label, port in circuit.ports.items()}
        self.partner: dict[str, str] = {}
        for a, b in circuit.nets.tolist():
            self.partner[ports[a]], self.partner[ports[b]] = ports[b], ports[a]
        self.grid: dict[str, tuple[str, int, int]] = {}
        self._sections: dict[str, list[str]] = {section: [] for section in circuit.sections}
        for name, (number, column, row) in zip(instances, circuit.grid.tolist(), strict=True):
            if number != UNCONNECTED:
                section = circuit.sections[number]
                self.grid[name] = (section, column, row)
                self._sections[section].append(name)
        for names in self._sections.values():
            names.sort(key=lambda name: (*self.grid[name][1:], name))
        self.heaters: dict[str, list[tuple[str, str, str]]] = {}
        self._ground_of: dict[str, tuple[str, ...]] = {}
        self._wire(ports)

    def section(self, section: str) -> list[str]:
        """Return the instance names of a section, sorted by column and row; an empty list for an unknown section."""
        return self._sections.get(section, [])

    def grounds(self, instances: Iterable[str]) -> tuple[str, ...]:
        """Return the labels of the ground pads to which instances are connected, sorted by length and text."""
        labels = {label for name in instances for label in self._ground_of.get(name, ())}
        return tuple(sorted(labels, key=lambda label: (len(label), label)))

    def _wire(self, ports: list[str]) -> None:
        """Index the signal pad and the ground pads of every heater."""
        circuit = self.circuit
        signals: dict[int, str] = {}
        grounds: dict[int, list[str]] = {}
        for label, port in circuit.ports.items():
            net = int(circuit.electrical[port])
            if net == UNCONNECTED:
                continue
            if label.startswith(GROUND):
                grounds.setdefault(net, []).append(label)
            else:
                signals[net] = label
        wired = np.flatnonzero(circuit.electrical != UNCONNECTED)
        for port, net in zip(wired.tolist(), circuit.electrical[wired].tolist(), strict=True):
            name = ports[port].rpartition(",")[0]
            if self.component[name] == "pad":
                continue
            if net in signals:
                signal = ports[port][len(name) + 1 :]
                self.heaters.setdefault(name, []).append((signals[net], signal, OTHER_END[signal]))
            elif net in grounds:
                self._ground_of[name] = tuple(grounds[net])
