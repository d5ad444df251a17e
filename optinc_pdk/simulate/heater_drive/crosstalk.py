"""Thermal crosstalk that the process card expects between the heaters of a circuit."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.drive import DistanceCrosstalk
from optinc_pdk.drive.crosstalk import STORED, GridCrosstalk
from optinc_pdk.simulate.circuit_optics import CircuitOptics


def nominal_crosstalk(structure: CircuitOptics, process: Process) -> DistanceCrosstalk | GridCrosstalk | None:
    """Return the thermal crosstalk that the process card states, between the heaters at their positions.

    Args:
        structure: The circuit; the crosstalk has the order of its H heaters.
        process: Process of the cards.

    Returns:
        The crosstalk operator; for thousands of heaters one whose time and memory are linear in their number. None if
        the card states no crosstalk, or the circuit has no positions or resistances, which only extraction from a
        layout provides.
    """
    circuit = structure.circuit
    if process.imperfections is None or not circuit.position_um.size or "resistance_ohm" not in circuit.settings:
        return None
    card = process.imperfections.crosstalk
    direct = DistanceCrosstalk(circuit.position_um[structure.heater], float(card.share), float(card.distance_um))
    return GridCrosstalk(direct) if direct.heaters**2 > STORED else direct
