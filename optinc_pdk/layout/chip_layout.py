"""What layout starts from, a circuit by instance names, and what it results in: the dies of a chip, side by side."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.assemble import strip_names
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, NetlistError
from optinc_pdk.errors import InputError
from optinc_pdk.layout.canvas import Box, Canvas

GROUND = "GND"
OTHER_END = {"e1": "e2", "e2": "e1", "e3": "e4", "e4": "e3"}
"""Port at one end of a heater to the port at its other end."""
BLOCK = re.compile(r"l\d+([bc]\d+)?")
"""Names of the sections of blocks."""
GAP_UM = 60.0
"""Distance between strips, channels and the ground bus, in µm."""
SCRIBE_UM = 200.0
"""Distance between dies of one file, in µm."""
LIMITLESS_UM = 1e6
"""Limit of a die's width and height in µm where the process sets none: the largest file that is read back."""


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


class OversizeError(InputError):
    """A chip is larger than ``LIMITLESS_UM``, so that it is not even drawn."""


@dataclass(frozen=True)
class ChipPort:
    """A fibre or a pad of a chip, for programs that read ports.

    Attributes:
        label: Label of the fibre or pad.
        component: Component that is there.
        port: Name of the component's port.
        x: Position in µm.
        y: Position in µm.
        angle: Outward direction in degrees.
    """

    label: str
    component: str
    port: str
    x: float
    y: float
    angle: int


@dataclass(frozen=True)
class ChipLayout:
    """Layout of all dies of a chip.

    Attributes:
        canvas: Drawing of all dies, in µm; the lower left corner of the first die is at the origin.
        dies: Outline of each die (left, bottom, right, top) in µm.
        strips: Names of the strips on each die.
        fit: ``fits one die``, ``fits one reticle``, ``multi-die`` or ``not buildable``.
        ports: Fibres and pads.
    """

    canvas: Canvas
    dies: tuple[Box, ...]
    strips: tuple[tuple[str, ...], ...]
    fit: str
    ports: tuple[ChipPort, ...] = ()

    @property
    def width_um(self) -> float:
        """Width of all dies side by side, including the distances between them, in µm."""
        return max(die[2] for die in self.dies) - min(die[0] for die in self.dies)

    @property
    def height_um(self) -> float:
        """Height of the highest die in µm."""
        return max(die[3] for die in self.dies) - min(die[1] for die in self.dies)

    @property
    def area_mm2(self) -> float:
        """Sum of the areas of all dies in mm²."""
        return sum((right - left) * (top - bottom) for left, bottom, right, top in self.dies) / 1e6


@dataclass(frozen=True)
class DieLayout:
    """Layout of one finished die, with its lower left corner at the origin.

    Attributes:
        canvas: Drawing of the die, in µm.
        strips: Names of the strips on the die.
        width: Width in µm.
        height: Height in µm.
        fit: Name of the die size in the process card that it fits, or ``not buildable``.
    """

    canvas: Canvas
    strips: tuple[str, ...]
    width: float
    height: float
    fit: str


def strips_of(netlist: PlacementView) -> list[tuple[str, list[str]]]:
    """Return name and block sections of every strip of a circuit, in the order in which light passes the strips."""
    names = strip_names(netlist.circuit.sections)
    strips: dict[str, list[str]] = {}
    for section in netlist.circuit.sections:
        if BLOCK.fullmatch(section):
            strips.setdefault(names[section], []).append(section)
    return list(strips.items())


def side_by_side(dies: Sequence[DieLayout], netlist: PlacementView, process: Process) -> ChipLayout:
    """Place finished dies side by side, label their fibres and add a text with the name of each die.

    Raises:
        NetlistError: An instance is on no die.
        InputError: The dies together are wider than the largest file that is read back.
    """
    canvas = Canvas(dies[0].canvas.frames)
    boxes: list[Box] = []
    x = 0.0
    for number, die in enumerate(dies):
        canvas.add(die.canvas, x, 0.0)
        boxes.append((x, 0.0, x + die.width, die.height))
        name = netlist.circuit.name if len(dies) == 1 else f"{netlist.circuit.name} die {number + 1} of {len(dies)}"
        canvas.texts.append((name, x + die.width / 2, float(process.floorplan.keepout_um) / 2))
        x += die.width + SCRIBE_UM
    if x - SCRIBE_UM > LIMITLESS_UM:
        raise InputError(
            f"{netlist.circuit.name}: the chip would be {(x - SCRIBE_UM) / 1e3:,.0f} mm wide, and files are read up to "
            f"{LIMITLESS_UM / 1e3:,g} mm; use narrower or fewer layers, or a process with bumps"
        )
    missing = [name for name, kind in netlist.component.items() if kind != "pad" and name not in canvas.placed]
    if missing:
        raise NetlistError(
            f"{netlist.circuit.name}: instance {missing[0]!r} has no place ({len(missing)} have none); give it a "
            "section, column and row of the floorplan, as assemble does"
        )
    pads = {text: (x, y) for text, x, y in canvas.texts}
    ports: list[ChipPort] = []
    for port, label in netlist.label.items():
        instance, _, name = port.rpartition(",")
        if netlist.component[instance] == process.fibres.coupler:
            at = canvas.port(port)
            canvas.texts.append((label, at.x, at.y))
            ports.append(ChipPort(label, process.fibres.coupler, name, at.x, at.y, at.angle))
        elif label in pads:
            kind = "bump" if process.pads.wiring == "flipchip" else "pad"
            ports.append(ChipPort(label, kind, next(iter(canvas.frames[kind].ports)), *pads[label], 90))
    return ChipLayout(canvas, tuple(boxes), tuple(die.strips for die in dies), _fit(dies), tuple(ports))


def _fit(dies: Sequence[DieLayout]) -> str:
    if any(die.fit == NOT_BUILDABLE for die in dies):
        return NOT_BUILDABLE
    return dies[0].fit if len(dies) == 1 else MULTI_DIE


MULTI_DIE = "multi-die"
NOT_BUILDABLE = "not buildable"
