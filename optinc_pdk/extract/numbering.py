"""From devices and what joins them to a circuit: everything numbered by kind and position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED, Circuit, Kind
from optinc_pdk.extract.contours import Ints
from optinc_pdk.extract.guides import Nets
from optinc_pdk.extract.silicon import Device


def number(
    name: str,
    process: Process,
    devices: Sequence[Device],
    nets: Nets,
    metal: Sequence[tuple[int, ...]],
    labels: Mapping[str, int],
) -> Circuit:
    """Build a circuit.

    Args:
        name: Circuit name.
        process: Gives the devices' ports.
        devices: Devices in any order.
        nets: Optical nets between ports that are numbered device by device.
        metal: For each device, the metal net of each electrical port.
        labels: Label to number of its device: of a fibre if it has optical ports, else of a pad.

    Returns:
        The circuit with its instances ordered by kind, then by x, then by y, and named by kind and number.
    """
    order = sorted(range(len(devices)), key=lambda i: (devices[i].kind, devices[i].center))
    kinds, kind = _kinds([devices[i].kind for i in order], process)
    sizes = np.array([len(k.ports) for k in kinds], dtype=np.int64)
    offset = np.concatenate([[0], np.cumsum(sizes[kind])]).astype(np.int64)
    start = np.empty(len(order), dtype=np.int64)
    start[order] = offset[:-1]
    port = [int(start[i]) + own for i, device in enumerate(devices) for own in range(len(device.guided))]
    electrical = np.full(int(offset[-1]), UNCONNECTED, dtype=np.int64)
    ports: dict[str, int] = {}
    for i, wired in enumerate(metal):
        first = int(start[i]) + len(devices[i].guided)
        electrical[first : first + len(wired)] = wired
    for label, i in labels.items():
        own = devices[i].guided.index(False) if devices[i].guided else 0
        ports[label] = int(start[i]) + own
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


def _kinds(names: Sequence[str], process: Process) -> tuple[tuple[Kind, ...], Ints]:
    """The kinds in use, and the number of each instance's."""
    used = sorted(set(names))
    cards = [process.device(name).ports for name in used]
    kinds = tuple(Kind(name, card.optical, card.electrical) for name, card in zip(used, cards, strict=True))
    return kinds, np.array([used.index(name) for name in names], dtype=np.int64)


def _names(kinds: Sequence[str]) -> tuple[str, ...]:
    seen: Counter[str] = Counter()
    names: list[str] = []
    for kind in kinds:
        names.append(f"{kind}_{seen[kind]}")
        seen[kind] += 1
    return tuple(names)


def _compact(net: Ints) -> Ints:
    """Net numbers in port order, from 0."""
    result = np.full_like(net, UNCONNECTED)
    seen: dict[int, int] = {}
    for port in np.flatnonzero(net != UNCONNECTED).tolist():
        result[port] = seen.setdefault(int(net[port]), len(seen))
    return result
