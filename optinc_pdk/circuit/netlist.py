"""The netlist as arrays: instances, ports and nets are numbered; names appear only in files and messages.

Every port of every instance has one global number; ports of one instance are consecutive, optical ports first. An
optical net joins exactly two ports; an electrical net joins any number and is a number per port.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.circuit.board import Board
from optinc_pdk.circuit.checked_values import NetlistError

UNCONNECTED = -1


def component_labels(size: int, a: Ints, b: Ints) -> Ints:
    """Return the lowest node (size,) of the connected component of each node, given both nodes (edges,) of each edge.

    Each round attaches roots to lower roots and compresses paths, so that the number of rounds grows with the logarithm
    of the longest path (Shiloach and Vishkin, J. Algorithms 3, 57 (1982)). SciPy's function is as fast, but its import
    takes longer than most circuits.
    """
    root = np.arange(size, dtype=np.int64)
    while True:
        first, second = root[a], root[b]
        different = first != second
        if not different.any():
            return root
        a, b, first, second = a[different], b[different], first[different], second[different]
        np.minimum.at(root, np.maximum(first, second), np.minimum(first, second))
        while (root[root] != root).any():
            root = root[root]


def number_nets(root: Ints, used: Bools) -> Ints:
    """Number nets (size,) from 0 in the order of their first port, -1 for ports on no net.

    ``root`` (size,) is a port number that is the same for all ports of a net, ``used`` (size,) true for ports on a net.
    """
    result = np.full(root.size, UNCONNECTED, dtype=np.int64)
    _, first, net = np.unique(root[used], return_index=True, return_inverse=True)
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    result[used] = rank[net.reshape(-1)]
    return result


@dataclass(frozen=True)
class ComponentType:
    """Name and ports of a component type.

    Attributes:
        name: Component name, for instance ``"mmi2x2"``.
        optical: Optical port names, in the order of the device's S-matrix.
        electrical: Electrical port names.
    """

    name: str
    optical: tuple[str, ...]
    electrical: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check that port names are unique."""
        if len(set(self.ports)) != len(self.ports):
            raise NetlistError(
                f"component {self.name!r} has ports {', '.join(self.ports)}; give every port its own name"
            )

    @property
    def ports(self) -> tuple[str, ...]:
        """All port names: optical ports, then electrical ports."""
        return self.optical + self.electrical


def _no_ints(shape: tuple[int, ...]) -> Ints:
    return np.zeros(shape, dtype=np.int64)


@dataclass(frozen=True)
class Circuit:
    """A circuit of I instances with P ports and n optical nets.

    Attributes:
        name: Circuit name.
        kinds: Component types in use.
        instances: (I,) instance names.
        kind: (I,) component type of each instance, an index into ``kinds``.
        nets: (n, 2) global port numbers that each optical net joins.
        electrical: (P,) number of the electrical net of each port, -1 for ports on no electrical net.
        ports: External label (fibre or pad) to global port number.
        settings: Name of a setting, which ends in its unit, to (I,) values, NaN where an instance lacks the setting.
        net_length_um: (n,) guide length of each optical net in µm; empty for a circuit without geometry.
        net_bends: (n,) number of parts of each net's guide other than straights, whose lengths a netlist rounds; empty
            if it is not known.
        position_um: (I, 2) positions (x, y) in µm; empty for a circuit without geometry.
        sections: Names of the sections of the floorplan.
        grid: (I, 3) section index, column and row of each instance, -1 for instances without a place; empty for a
            circuit without a floorplan.
        cells: Sub-circuits of composite components, by component name.
        board: Board netlist, or None.
    """

    name: str
    kinds: tuple[ComponentType, ...]
    instances: tuple[str, ...]
    kind: Ints
    nets: Ints
    electrical: Ints
    ports: Mapping[str, int]
    settings: Mapping[str, Floats] = field(default_factory=dict)
    net_length_um: Floats = field(default_factory=lambda: np.zeros(0))
    net_bends: Ints = field(default_factory=lambda: _no_ints((0,)))
    position_um: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    sections: tuple[str, ...] = ()
    grid: Ints = field(default_factory=lambda: _no_ints((0, 3)))
    cells: Mapping[str, Circuit] = field(default_factory=dict)
    board: Board | None = None

    @staticmethod
    def read(path: str | Path) -> Circuit:
        """Read a circuit from a ``.pic.yml`` file.

        Raises:
            NetlistError: The file is not a valid netlist; the message names the file and the fault.
        """
        from optinc_pdk.circuit.netlist_files import read_netlist

        return read_netlist(path)

    @cached_property
    def offset(self) -> Ints:
        """(I + 1,) global number of the first port of each instance; the last entry is the number of ports P."""
        sizes = np.array([len(k.ports) for k in self.kinds], dtype=np.int64)
        return np.concatenate([[0], np.cumsum(sizes[self.kind])]).astype(np.int64)

    def port_name(self, port: int) -> str:
        """Return the name ``"instance,port"`` of a port, given its global number."""
        offset = self.offset
        instance = int(np.searchsorted(offset, port, side="right")) - 1
        return f"{self.instances[instance]},{self.kinds[self.kind[instance]].ports[port - offset[instance]]}"

    def instances_of(self, name: str) -> Ints:
        """Return the numbers of all instances of a component type, given its name, in ascending order.

        Examples:
            >>> from optinc_pdk.assemble import mesh_chip
            >>> from optinc_pdk.cards import load_process
            >>> circuit = mesh_chip(4, load_process(), "mesh")
            >>> len(circuit.instances_of("mzi_unit"))
            6
        """
        index = [i for i, kind in enumerate(self.kinds) if kind.name == name]
        return np.flatnonzero(np.isin(self.kind, index)).astype(np.int64)

    def optical_mask(self) -> Bools:
        """Return a (P,) mask that is true for optical ports."""
        optical = np.array([len(k.optical) for k in self.kinds], dtype=np.int64)[self.kind]
        local = np.arange(self.offset[-1]) - np.repeat(self.offset[:-1], np.diff(self.offset))
        return np.asarray(local < np.repeat(optical, np.diff(self.offset)))

    def electrical_labels(self) -> dict[int, tuple[str, ...]]:
        """Return the sorted pad labels on each electrical net, by net number; nets without labels are missing."""
        optical = self.optical_mask()
        labels: dict[int, list[str]] = {}
        for label, port in self.ports.items():
            if not optical[port] and self.electrical[port] != UNCONNECTED:
                labels.setdefault(int(self.electrical[port]), []).append(label)
        return {net: tuple(sorted(names)) for net, names in labels.items()}

    def partners(self) -> Ints:
        """Return (P,) the global number of the port to which each port is connected optically, -1 for none."""
        partner = np.full(int(self.offset[-1]), UNCONNECTED, dtype=np.int64)
        if len(self.nets):
            partner[self.nets[:, 0]] = self.nets[:, 1]
            partner[self.nets[:, 1]] = self.nets[:, 0]
        return partner


@dataclass
class CircuitBuilder:
    """Collects instances, nets and labels by name, and converts them to a :class:`Circuit`.

    Attributes:
        name: Circuit name.
        library: Component types by component name.
        cells: Sub-circuits by component name.
        instances: Instance name to component name.
        settings: Instance name to its settings by name.
        grid: Instance name to section, column and row of the floorplan.
        nets: Pairs of connected ports, each ``"instance,port"``.
        ports: External label to port ``"instance,port"``.
    """

    name: str
    library: Mapping[str, ComponentType]
    cells: Mapping[str, Circuit] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    settings: dict[str, dict[str, float]] = field(default_factory=dict)
    grid: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    nets: list[tuple[str, str]] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, component: str, at: tuple[str, int, int] | None = None, **settings: float) -> str:
        """Add an instance and return its name.

        ``at`` is section, column and row of the floorplan; names of settings end in their units.

        Examples:
            >>> from optinc_pdk.circuit import CircuitBuilder, ComponentType
            >>> coupler = ComponentType("mmi2x2", ("o1", "o2", "o3", "o4"))
            >>> pair = CircuitBuilder("pair", {"mmi2x2": coupler})
            >>> pair.add("left", "mmi2x2")
            'left'

        Raises:
            NetlistError: The instance name is in use, or the component is unknown.
        """
        if name in self.instances:
            raise NetlistError(f"{self.name}: instance {name!r} is defined twice; rename one of them")
        if component not in self.library:
            known = ", ".join(sorted(self.library))
            raise NetlistError(f"{self.name}: instance {name!r}: unknown component {component!r}; known: {known}")
        self.instances[name] = component
        if settings:
            self.settings[name] = settings
        if at is not None:
            self.grid[name] = at
        return name

    def connect(self, a: str, b: str) -> None:
        """Add a net between two ports, each given as ``"instance,port"``; names are checked by :meth:`build`.

        Examples:
            >>> from optinc_pdk.circuit import CircuitBuilder, ComponentType
            >>> coupler = ComponentType("mmi2x2", ("o1", "o2", "o3", "o4"))
            >>> pair = CircuitBuilder("pair", {"mmi2x2": coupler})
            >>> pair.connect(pair.add("left", "mmi2x2") + ",o3", pair.add("right", "mmi2x2") + ",o1")
            >>> pair.nets
            [('left,o3', 'right,o1')]
        """
        self.nets.append((a, b))

    def build(self) -> Circuit:
        """Return the circuit of all instances, nets and labels added so far.

        Examples:
            >>> from optinc_pdk.circuit import CircuitBuilder, ComponentType
            >>> coupler = ComponentType("mmi2x2", ("o1", "o2", "o3", "o4"))
            >>> pair = CircuitBuilder("pair", {"mmi2x2": coupler})
            >>> pair.connect(pair.add("left", "mmi2x2") + ",o3", pair.add("right", "mmi2x2") + ",o1")
            >>> pair.build().instances
            ('left', 'right')

        Raises:
            NetlistError: A net names an unknown port, joins a port to itself or an optical to an electrical port, or an
                optical port is used twice.
        """
        used = sorted(set(self.instances.values()))
        kinds = tuple(self.library[component] for component in used)
        names = tuple(self.instances)
        kind = np.array([used.index(c) for c in self.instances.values()], dtype=np.int64)
        sizes = np.array([len(k.ports) for k in kinds], dtype=np.int64)
        offset = np.concatenate([[0], np.cumsum(sizes[kind])]).astype(np.int64)
        index = {name: i for i, name in enumerate(names)}
        local = [{port: j for j, port in enumerate(k.ports)} for k in kinds]

        def number(text: str) -> tuple[int, bool]:
            instance, _, port = text.rpartition(",")
            i = index.get(instance)
            j = None if i is None else local[kind[i]].get(port)
            if i is None or j is None:
                raise NetlistError(f"{self.name}: no port {text!r}; write 'instance,port' of a defined instance")
            return int(offset[i]) + j, j < len(kinds[kind[i]].optical)

        optical: list[tuple[int, int]] = []
        metal: list[tuple[int, int]] = []
        taken: dict[int, tuple[str, str]] = {}
        for a, b in self.nets:
            (p, p_light), (q, q_light) = number(a), number(b)
            if p == q:
                raise NetlistError(f"{self.name}: net {a} - {b} joins a port to itself")
            if p_light != q_light:
                raise NetlistError(f"{self.name}: net {a} - {b} joins an optical to an electrical port")
            if not p_light:
                metal.append((p, q))
                continue
            for port in (p, q):
                if port in taken:
                    other = " - ".join(taken[port])
                    raise NetlistError(f"{self.name}: optical port used twice, by {a} - {b} and {other}")
                taken[port] = (a, b)
            optical.append((p, q))
        ports = {label: number(text)[0] for label, text in self.ports.items()}
        for label, text in self.ports.items():
            port, light = number(text)
            if port in taken:
                first, second = taken[port]
                other = f"as port {first!r}" if self.ports.get(first) == text else f"in net {first} - {second}"
                raise NetlistError(
                    f"{self.name}: optical port {text} is used twice, as port {label!r} and {other}; remove one of them"
                )
            if light:
                taken[port] = (label, text)
        metal_ports = [p for label, p in ports.items() if not number(self.ports[label])[1]]
        sections = tuple(dict.fromkeys(section for section, _, _ in self.grid.values()))
        return Circuit(
            name=self.name,
            kinds=kinds,
            instances=names,
            kind=kind,
            nets=np.array(optical, dtype=np.int64).reshape(-1, 2),
            electrical=_electrical(int(offset[-1]), metal, metal_ports),
            ports=ports,
            settings=self._columns(index),
            sections=sections,
            grid=self._grid(index, sections),
            cells=dict(self.cells),
        )

    def _columns(self, index: Mapping[str, int]) -> dict[str, Floats]:
        columns: dict[str, Floats] = {}
        for name, values in self.settings.items():
            for key, value in values.items():
                columns.setdefault(key, np.full(len(index), np.nan))[index[name]] = value
        return {key: columns[key] for key in sorted(columns)}

    def _grid(self, index: Mapping[str, int], sections: Sequence[str]) -> Ints:
        if not self.grid:
            return _no_ints((0, 3))
        grid = np.full((len(index), 3), UNCONNECTED, dtype=np.int64)
        for name, (section, column, row) in self.grid.items():
            grid[index[name]] = (sections.index(section), column, row)
        return grid


def _electrical(size: int, pairs: list[tuple[int, int]], labelled: list[int]) -> Ints:
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    used = np.zeros(size, dtype=bool)
    used[ends.reshape(-1)] = True
    used[labelled] = True
    return number_nets(component_labels(size, ends[:, 0], ends[:, 1]), used)


def named_nets(circuit: Circuit) -> list[tuple[str, str]]:
    """Return all nets as pairs of port names ``"instance,port"``.

    An optical net is one pair. An electrical net of n ports is n - 1 pairs of its first port with each other port.
    """
    offset = circuit.offset
    names: list[str] = []
    for i, instance in enumerate(circuit.instances):
        names += [f"{instance},{port}" for port in circuit.kinds[circuit.kind[i]].ports]
    if len(names) != int(offset[-1]):
        raise NetlistError(f"{circuit.name}: {len(names)} port names for {int(offset[-1])} ports")
    pairs = [(names[a], names[b]) for a, b in circuit.nets.tolist()]
    first: dict[int, int] = {}
    for port in np.flatnonzero(circuit.electrical != UNCONNECTED).tolist():
        hub = first.setdefault(int(circuit.electrical[port]), port)
        if hub != port:
            pairs.append((names[hub], names[port]))
    return pairs
