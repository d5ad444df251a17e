"""Positions of the instances of a drawn circuit, as its netlist places them."""

from __future__ import annotations

import numpy as np

from optinc_pdk.arrays import Floats
from optinc_pdk.cards import Process
from optinc_pdk.circuit import PlacedCircuit
from optinc_pdk.circuit.gdsfactory_netlists import NameTable
from optinc_pdk.extract.faults import center_um
from optinc_pdk.extract.golden_devices import bounding_box, read_golden
from optinc_pdk.signoff.lvs.differences import PHASE_SHIFTER


def placed_positions(placed: PlacedCircuit, process: Process) -> Floats:
    """Return where the devices of a drawn circuit should be in its layout.

    Args:
        placed: Circuit of the netlist.
        process: Its process.

    Returns:
        (I, 2) middle of each device in µm, where extraction has its position; the origin of its cell for couplers of
        any gap and length. NaN if the netlist states no placement, or a relative one.

    Raises:
        CardError: The process has no golden files, or one of them is not valid.
    """
    # the first variant of a device is as its cell draws it
    middles = {variant.name: center_um(bounding_box(variant.core)) for variant in reversed(read_golden(process))}
    circuit = placed.circuit
    ends = 2 * NameTable(process).end_um(PHASE_SHIFTER, "contact_width_um")
    stated = circuit.settings.get("length_um", np.full(len(circuit.instances), np.nan))
    positions = np.full((len(circuit.instances), 2), np.nan)
    for i, (kind, transform) in enumerate(zip(circuit.kind.tolist(), placed.transforms, strict=True)):
        if transform is None:
            continue
        name = circuit.kinds[kind].name
        middle = middles.get(name, (0.0, 0.0))
        if name == PHASE_SHIFTER:
            length = process.device(name).size("length_um") if np.isnan(stated[i]) else float(stated[i])
            middle = ((length + ends) / 2, 0.0)
        positions[i] = transform.apply(*middle)
    return positions
