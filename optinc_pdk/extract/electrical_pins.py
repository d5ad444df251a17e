"""Connection of the electrical pins of recognised devices to metal nets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optinc_pdk.cards import Process
from optinc_pdk.circuit import UNCONNECTED
from optinc_pdk.extract.device_matching import DevicePlacement
from optinc_pdk.extract.faults import Fault
from optinc_pdk.extract.mask_layout import NM_PER_UM
from optinc_pdk.extract.metal_nets import MetalNets
from optinc_pdk.extract.spatial_index import NOT_FOUND


def connect_pins(
    placements: Sequence[DevicePlacement], metal: MetalNets, process: Process
) -> tuple[list[tuple[int, ...]], list[Fault]]:
    """Find the metal net at each electrical pin of recognised devices.

    Args:
        placements: Devices.
        metal: Metal nets of the layout.
        process: Process whose cards name the pins.

    Returns:
        For each device, the number of the metal net of each of its pins, -1 for none; and faults: one for every pin
        without metal, and one for every pin on the same net as another pin of its device.
    """
    points = np.array([(pin.x, pin.y) for placement in placements for pin in placement.pins], dtype=np.int64)
    under = iter(metal.nets_at(points.reshape(-1, 2)).tolist())
    connected: list[tuple[int, ...]] = []
    faults: list[Fault] = []
    for placement in placements:
        kind = placement.variant.name
        nets: dict[int, str] = {}
        pin_nets: list[int] = []
        for name, at in zip(process.device(kind).ports.electrical, placement.pins, strict=True):
            net = next(under)
            place = at.x / NM_PER_UM, at.y / NM_PER_UM
            if net == NOT_FOUND:
                faults.append(Fault("pin", f"no metal at pin {name} of a {kind}", place))
            elif net in nets:
                faults.append(Fault("short", f"pins {nets[net]} and {name} of a {kind} are joined in metal", place))
            else:
                nets[net] = name
            pin_nets.append(UNCONNECTED if net == NOT_FOUND else net)
        connected.append(tuple(pin_nets))
    return connected, faults
