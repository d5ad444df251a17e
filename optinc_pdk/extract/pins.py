"""Electrical pins of recognized devices: the metal that lies where a device has its pins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.gds import NM_PER_UM
from optinc_pdk.extract.lookup import NOWHERE
from optinc_pdk.extract.metal import Metal
from optinc_pdk.extract.silicon import Placement


def tie_pins(
    placements: Sequence[Placement], metal: Metal, process: Process
) -> tuple[list[tuple[int, ...]], list[Fault]]:
    """Tie recognized devices to metal.

    Args:
        placements: Devices.
        metal: Metal.
        process: Gives the names of the pins.

    Returns:
        For each device the metal net of each of its pins, and a fault for every pin without metal and for pins of
        one device that metal joins.
    """
    points = np.array([(pin.x, pin.y) for placement in placements for pin in placement.pins], dtype=np.int64)
    under = iter(metal.nets_at(points.reshape(-1, 2)).tolist())
    tied: list[tuple[int, ...]] = []
    faults: list[Fault] = []
    for placement in placements:
        kind = placement.variant.name
        nets: dict[int, str] = {}
        found: list[int] = []
        for name, at in zip(process.device(kind).ports.electrical, placement.pins, strict=True):
            net = next(under)
            place = at.x / NM_PER_UM, at.y / NM_PER_UM
            if net == NOWHERE:
                faults.append(Fault("pin", f"no metal at pin {name} of a {kind}", place))
            elif net in nets:
                faults.append(Fault("short", f"pins {nets[net]} and {name} of a {kind} are joined in metal", place))
            else:
                nets[net] = name
            found.append(UNCONNECTED if net == NOWHERE else net)
        tied.append(tuple(found))
    return tied, faults
