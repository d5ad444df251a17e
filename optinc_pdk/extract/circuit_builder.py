"""Construction of a circuit from extracted devices and nets, numbered by component type and position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from optinc_pdk.arrays import Ints
from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, ComponentType
from optinc_pdk.extract.device_matching import ExtractedDevice
from optinc_pdk.extract.guide_tracing import OpticalNets


def build_circuit(
    name: str,
    process: Process,
    devices: Sequence[ExtractedDevice],
    nets: OpticalNets,
    metal: Sequence[tuple[int, ...]],
    labels: Mapping[str, int],
) -> Circuit:
    """Build a circuit from extracted devices and nets.

    Args:
        name: Circuit name.
        process: Process whose cards state the ports of each device.
        devices: Devices in any order.
        nets: Optical nets. Their port numbers count the optical ports of ``devices``, device by device.
        metal: For each device, the number of the metal net of each electrical port, -1 for none.
        labels: Label to the index in ``devices`` of the device that carries it: a fibre coupler or a pad.

    Returns:
        Flat circuit. Its instances are ordered by component type, x and y, and are named by component type and number.
    """
    order = sorted(range(len(devices)), key=lambda i: (devices[i].kind, devices[i].center))
    kinds, kind = _kinds([devices[i].kind for i in order], process)
    sizes = np.array([len(k.ports) for k in kinds], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes[kind])]).astype(np.int64)
    start = np.empty(len(order), dtype=np.int64)
    start[order] = offset[:-1]
    port = [int(start[i]) + local for i, device in enumerate(devices) for local in range(len(device.guided))]
    electrical = np.full(int(offset[-1]), UNCONNECTED, dtype=np.int64)
    ports: dict[str, int] = {}
    for i, wired in enumerate(metal):
        first = int(start[i]) + len(devices[i].guided)
        electrical[first : first + len(wired)] = wired
    for label, i in labels.items():
        local = devices[i].guided.index(False) if devices[i].guided else 0
        ports[label] = int(start[i]) + local
    columns = sorted({key for device in devices for key in device.settings})
    return Circuit(
        name=name,
        kinds=kinds,
        instances=_names([devices[i].kind for i in order]),
        kind=kind,
        nets=np.array(port, dtype=np.int64)[nets.ports].reshape(-1, 2),
        electrical=_compact(electrical),
        ports=ports,
        settings={key: np.array([devices[i].settings.get(key, np.nan) for i in order]) for key in columns},
        net_length_um=nets.length_um,
        position_um=np.array([devices[i].position_um for i in order]).reshape(-1, 2),
    )


def _kinds(names: Sequence[str], process: Process) -> tuple[tuple[ComponentType, ...], Ints]:
    """Return the component types in use, and the number of each instance's type."""
    used = sorted(set(names))
    cards = [process.device(name).ports for name in used]
    kinds = tuple(ComponentType(name, card.optical, card.electrical) for name, card in zip(used, cards, strict=True))
    return kinds, np.array([used.index(name) for name in names], dtype=np.int64)


def _names(kinds: Sequence[str]) -> tuple[str, ...]:
    """Name instances by component type and number from 0."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for kind in kinds:
        names.append(f"{kind}_{seen[kind]}")
        seen[kind] += 1
    return tuple(names)


def _compact(net: Ints) -> Ints:
    """Renumber nets from 0 in the order of their ports."""
    result = np.full_like(net, UNCONNECTED)
    seen: dict[int, int] = {}
    for port in np.flatnonzero(net != UNCONNECTED).tolist():
        result[port] = seen.setdefault(int(net[port]), len(seen))
    return result
