"""Thermal crosstalk that the process card expects between the heaters of a circuit."""

from __future__ import annotations

from optinc_pdk.cards import Process
from optinc_pdk.drive import DistanceCrosstalk
from optinc_pdk.simulate.circuit_optics import CircuitOptics


def nominal_crosstalk(structure: CircuitOptics, process: Process) -> DistanceCrosstalk | None:
    """Return the card's crosstalk between the heaters as placed.

    Args:
        structure: The circuit; its heaters give the order of the operator's H phases.
        process: Process of the cards.

    Returns:
        The operator; None where the card states no crosstalk, and where the circuit has no positions or resistances,
        which only a layout gives.
    """
    circuit = structure.circuit
    if process.imperfections is None or not circuit.position_um.size or "resistance_ohm" not in circuit.settings:
        return None
    card = process.imperfections.crosstalk
    return DistanceCrosstalk(circuit.position_um[structure.heater], float(card.share), float(card.distance_um))
