"""Flattening of hierarchical circuits, and a check that every optical port is connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.circuit.checked_values import NetlistError
from optinc_pdk.circuit.netlist import UNCONNECTED, Circuit, ComponentType, component_labels, number_nets

# Nested cells can define exponentially many instances in a few lines of a netlist.
MAX_INSTANCES = 5_000_000


def flatten(circuit: Circuit) -> Circuit:
    """Return a flat circuit: every composite instance is replaced by the instances of its sub-circuit.

    Instances from sub-circuits are named ``parent.child`` and have the grid position of the outermost composite.

    Examples:
        >>> from optinc_pdk.assemble import mesh_chip
        >>> from optinc_pdk.cards import load_process
        >>> from optinc_pdk.circuit import flatten
        >>> circuit = flatten(mesh_chip(4, load_process(), "mesh"))
        >>> len(circuit.instances_of("phase_shifter"))
        12

    Raises:
        NetlistError: Sub-circuits contain each other, an optical port is used twice, or the flat circuit would have
            more than ``MAX_INSTANCES`` instances.
    """
    size = _flat_size(circuit, ())
    if size > MAX_INSTANCES:
        raise NetlistError(
            f"{circuit.name}: {size} instances when flat, the limit is {MAX_INSTANCES}; use fewer levels"
        )
    return _flatten(circuit)


def _flat_size(circuit: Circuit, parents: tuple[str, ...]) -> int:
    """Return the number of instances of the flat circuit without building it."""
    if circuit.name in parents:
        raise NetlistError(f"{circuit.name}: cells contain each other: {' > '.join((*parents, circuit.name))}")
    inner = {name: _flat_size(cell, (*parents, circuit.name)) for name, cell in circuit.cells.items()}
    counts = np.bincount(circuit.kind, minlength=len(circuit.kinds)).tolist()
    return sum(count * inner.get(kind.name, 1) for count, kind in zip(counts, circuit.kinds, strict=True))


@dataclass(frozen=True, eq=False)
class _FlatIndex:
    """Index maps from a circuit to its flat version.

    Attributes:
        inner: The flat sub-circuits.
        parent: (flat instances,) instance that each one comes from.
        child: (flat instances,) its number within the sub-circuit.
        port: (P,) flat port number of each port.
        shift: (I,) flat port number of each instance's first port.
    """

    inner: Mapping[str, Circuit]
    parent: Ints
    child: Ints
    port: Ints
    shift: Ints


def _flatten(circuit: Circuit) -> Circuit:
    inner = {name: _flatten(cell) for name, cell in circuit.cells.items()}
    if not any(kind.name in inner for kind in circuit.kinds):
        return replace(circuit, cells={})
    kinds, kind, index = _parts(circuit, inner)
    ports = int(np.array([len(k.ports) for k in kinds], dtype=np.int64)[kind].sum())
    flat = Circuit(
        name=circuit.name,
        kinds=kinds,
        instances=_names(circuit, inner),
        kind=kind,
        nets=_nets(circuit, index),
        electrical=_electrical(circuit, index, ports),
        ports={label: int(index.port[port]) for label, port in circuit.ports.items()},
        settings=_settings(circuit, index),
        board=circuit.board,
    )
    # two ports of a composite may be one port inside
    _refuse_double_use(flat, _uses(flat))
    return _on_grid(flat, circuit, index.parent)


def _parts(circuit: Circuit, inner: Mapping[str, Circuit]) -> tuple[tuple[ComponentType, ...], Ints, _FlatIndex]:
    """Return the flat circuit's component types, the type of each instance, and the index maps."""
    library: dict[str, ComponentType] = {k.name: k for k in circuit.kinds if k.name not in inner}
    for k in circuit.kinds:
        if k.name in inner:
            library.update({each.name: each for each in inner[k.name].kinds})
    names = sorted(library)
    sizes = np.array([len(inner[k.name].instances) if k.name in inner else 1 for k in circuit.kinds], dtype=np.int64)
    count = sizes[circuit.kind]
    parent = np.repeat(np.arange(len(circuit.instances)), count)
    start = np.cumsum(count) - count
    child = np.arange(parent.size) - start[parent]
    kind = np.zeros(parent.size, dtype=np.int64)
    for number, k in enumerate(circuit.kinds):
        selected = circuit.kind[parent] == number
        if k.name in inner:
            cell = inner[k.name]
            renamed = np.array([names.index(each.name) for each in cell.kinds], dtype=np.int64)
            kind[selected] = renamed[cell.kind[child[selected]]]
        else:
            kind[selected] = names.index(k.name)
    width = np.array([len(library[name].ports) for name in names], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(width[kind])])
    # an empty sub-circuit has no ports, so its shift is not used
    shift = offset[np.minimum(start, parent.size)]
    port = np.zeros(int(circuit.offset[-1]), dtype=np.int64)
    for number, k in enumerate(circuit.kinds):
        instances = np.flatnonzero(circuit.kind == number)
        inside = [inner[k.name].ports[name] for name in k.ports] if k.name in inner else range(len(k.ports))
        at = circuit.offset[instances][:, np.newaxis] + np.arange(len(k.ports))
        port[at] = shift[instances][:, np.newaxis] + np.array(list(inside), dtype=np.int64)
    present, used = np.unique(kind, return_inverse=True)
    index = _FlatIndex(inner, parent, child, port, shift)
    return tuple(library[names[i]] for i in present.tolist()), used.reshape(-1).astype(np.int64), index


def _names(circuit: Circuit, inner: Mapping[str, Circuit]) -> tuple[str, ...]:
    children = [[f".{child}" for child in inner[k.name].instances] if k.name in inner else [""] for k in circuit.kinds]
    return tuple(
        name + child for name, k in zip(circuit.instances, circuit.kind.tolist(), strict=True) for child in children[k]
    )


def _composites(circuit: Circuit, index: _FlatIndex) -> list[tuple[Circuit, Ints]]:
    """Return every sub-circuit with the numbers of its instances."""
    return [
        (index.inner[k.name], np.flatnonzero(circuit.kind == number))
        for number, k in enumerate(circuit.kinds)
        if k.name in index.inner
    ]


def _nets(circuit: Circuit, index: _FlatIndex) -> Ints:
    """Return the optical nets: those of sub-circuits in the order of their instances, then the circuit's own."""
    nets, owner = [np.zeros((0, 2), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for cell, instances in _composites(circuit, index):
        nets.append((index.shift[instances][:, np.newaxis, np.newaxis] + cell.nets).reshape(-1, 2))
        owner.append(np.repeat(instances, len(cell.nets)))
    inside = np.concatenate(nets)[np.argsort(np.concatenate(owner), kind="stable")]
    return np.concatenate([inside, index.port[circuit.nets].reshape(-1, 2)])


def _electrical(circuit: Circuit, index: _FlatIndex, size: int) -> Ints:
    """Return the electrical nets: those of sub-circuits, merged by the circuit's own."""
    used = np.zeros(size, dtype=bool)
    pairs = [_to_first(circuit.electrical, index.port)]
    used[index.port[circuit.electrical != UNCONNECTED]] = True
    for cell, instances in _composites(circuit, index):
        shift = index.shift[instances]
        wired = np.flatnonzero(cell.electrical != UNCONNECTED)
        # a net of one port is only a label of the cell, not a net of the flat circuit
        several = np.bincount(cell.electrical[wired], minlength=1)[cell.electrical[wired]] > 1
        used[(shift[:, np.newaxis] + wired[several]).reshape(-1)] = True
        one, other = _to_first(cell.electrical, np.arange(cell.electrical.size))
        pairs.append(tuple((shift[:, np.newaxis] + end).reshape(-1) for end in (one, other)))
    one, other = (np.concatenate([pair[end] for pair in pairs]) for end in (0, 1))
    return number_nets(component_labels(size, one, other), used)


def _to_first(electrical: Ints, port: Ints) -> tuple[Ints, ...]:
    """Return pairs of ports: the first port of a net, and each port of it."""
    wired = np.flatnonzero(electrical != UNCONNECTED)
    _, first, net = np.unique(electrical[wired], return_index=True, return_inverse=True)
    return port[wired[first][net.reshape(-1)]], port[wired]


def _settings(circuit: Circuit, index: _FlatIndex) -> dict[str, Floats]:
    columns: dict[str, Floats] = {}
    single = np.array([k.name not in index.inner for k in circuit.kinds], dtype=bool)[circuit.kind]
    plain = np.flatnonzero(single[index.parent])

    def fill(key: str, rows: Ints, values: Floats) -> None:
        if not np.all(np.isnan(values)):
            columns.setdefault(key, np.full(index.parent.size, np.nan))[rows] = values

    for key, column in circuit.settings.items():
        fill(key, plain, column[index.parent[plain]])
    for number, k in enumerate(circuit.kinds):
        if k.name in index.inner:
            rows = np.flatnonzero(circuit.kind[index.parent] == number)
            for key, column in index.inner[k.name].settings.items():
                fill(key, rows, column[index.child[rows]])
    return {key: columns[key] for key in sorted(columns)}


def _on_grid(flat: Circuit, circuit: Circuit, parent: Ints) -> Circuit:
    """Give every instance the grid position of its outermost composite; sections are in order of appearance."""
    if not len(circuit.grid) or not (circuit.grid[:, 0] != UNCONNECTED).any():
        return flat
    grid = circuit.grid[parent]
    placed = grid[:, 0] != UNCONNECTED
    present, first = np.unique(grid[placed, 0], return_index=True)
    order = present[np.argsort(first)]
    rank = np.full(len(circuit.sections), UNCONNECTED, dtype=np.int64)
    rank[order] = np.arange(order.size)
    grid[placed, 0] = rank[grid[placed, 0]]
    return replace(flat, grid=grid, sections=tuple(circuit.sections[i] for i in order.tolist()))


def check_complete(circuit: Circuit) -> None:
    """Check that every optical port of a circuit and of its sub-circuits is connected or labelled exactly once.

    Raises:
        NetlistError: An optical port is open or used twice; the message names the instance and the port.
    """
    for cell in circuit.cells.values():
        check_complete(cell)
    _refuse_double_use(circuit, _uses(circuit))
    empty = open_ports(circuit)
    if empty.size:
        raise NetlistError(
            f"{circuit.name}: optical port {circuit.port_name(int(empty[0]))} is open ({empty.size} are); "
            "connect it, label it as a fibre, or end it in a terminator"
        )


def open_ports(circuit: Circuit) -> Ints:
    """Return the indices of the optical ports of a circuit's own instances that are neither connected nor labelled."""
    return np.flatnonzero(circuit.optical_mask() & (_uses(circuit) == 0)).astype(np.int64)


def _uses(circuit: Circuit) -> Ints:
    """Return the (P,) number of nets and labels that use each optical port."""
    light = circuit.optical_mask()
    labelled = np.array([port for port in circuit.ports.values() if light[port]], dtype=np.int64)
    return np.bincount(np.concatenate([circuit.nets.reshape(-1), labelled]), minlength=light.size)


def _refuse_double_use(circuit: Circuit, uses: Ints) -> None:
    if not (uses > 1).any():
        return
    port = int(np.argmax(uses > 1))
    inside = bool((circuit.nets == port).any())
    for label, end in circuit.ports.items():
        if end == port and inside:
            raise NetlistError(
                f"{circuit.name}: {circuit.port_name(port)} is connected inside and is also fibre {label!r}; "
                "remove one of them"
            )
    raise NetlistError(f"{circuit.name}: optical port {circuit.port_name(port)} is used twice; remove one use")
