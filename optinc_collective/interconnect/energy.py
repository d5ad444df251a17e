"""Energy of an all-reduce in an electrical network, by the parts that its bits pass.

Counted are transceivers, switch chips and additions, each with the energy for a bit of the system card (`energy`). Not
counted are the servers' network interfaces, memory, and links that are powered but idle; that of an OptINC chip is
`optinc_pdk.studies.link_energy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_collective.interconnect.routing import check_system_runs, routes
from optinc_collective.interconnect.schedule import ExchangeSchedule, ExchangeStep
from optinc_collective.interconnect.systems import InNetwork, Sharp, SwitchedEnergy, System, WdmRing
from optinc_pdk.arrays import Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields

OPTICS = ("pluggable", "copackaged")
"""Kinds of transceivers whose energy a card states."""


@dataclass(frozen=True)
class ExchangeEnergy:
    """Energy of all servers and switches together for one all-reduce.

    Attributes:
        transceivers_j: Transceivers of all links, J.
        switches_j: Switch chips, J.
        additions_j: Additions of received data, J.
    """

    transceivers_j: float
    switches_j: float
    additions_j: float

    def __post_init__(self) -> None:
        validate_fields(self)

    @property
    def total_j(self) -> float:
        """Energy of all parts together, J."""
        return self.transceivers_j + self.switches_j + self.additions_j


@validate_arguments
def exchange_energy(
    schedule: ExchangeSchedule, system: System, size_bytes: float, optics: str = "pluggable"
) -> ExchangeEnergy:
    """Add up the energy of all transfers of a schedule.

    A bit takes the energy of a transceiver on every link that it passes, and that of a switch in every switch that it
    enters. Where a network is slower than its links (`Sharp.streaming`), the parts are powered for longer. A wavelength
    of a ring has a transceiver at its ends only, whatever number of nodes it passes.

    Args:
        schedule: The schedule.
        system: A system that can run it, with an `energy` section in its card.
        size_bytes: Size of the whole buffer of a server.
        optics: Kind of the transceivers, one of `OPTICS`.

    Returns:
        Energies by part.

    Raises:
        InputError: The system cannot run the schedule or its card states no energy, the size is not finite or below 0,
            or there is no such kind of transceivers.
    """
    if not 0 <= size_bytes < float("inf"):
        raise InputError(f"{schedule.name}: {size_bytes} bytes; give a finite size of at least 0")
    if optics not in OPTICS:
        raise InputError(f"{schedule.name}: no transceivers {optics!r}; give one of {', '.join(OPTICS)}")
    check_system_runs(system, schedule)
    if isinstance(system, InNetwork):
        raise InputError(
            f"{system.name}: its energy is that of its chip; use optinc_pdk.studies.link_energy, or optinc noise"
        )
    energy = system.energy
    if energy is None:
        raise InputError(f"{system.name}: energy: the card states none; add this section")
    on_links = in_switches = added = 0.0
    for step in schedule.steps:
        links, switches = _passed(system, schedule, step)
        bits = 8.0 * size_bytes * step.repeat / step.parts
        on_links += float(bits @ links)
        in_switches += float(bits @ switches)
        added += float(bits.sum()) if step.reduce else 0.0
    longer = 1.0 / float(system.streaming) if isinstance(system, Sharp) else 1.0
    transceiver = energy.pluggable_j_per_bit if optics == "pluggable" else energy.copackaged_j_per_bit
    switch = float(energy.switch_j_per_bit) if isinstance(energy, SwitchedEnergy) else 0.0
    return ExchangeEnergy(
        transceivers_j=longer * on_links * float(transceiver),
        switches_j=longer * in_switches * switch,
        additions_j=added * float(energy.addition_j_per_bit),
    )


def _passed(system: System, schedule: ExchangeSchedule, step: ExchangeStep) -> tuple[Ints, Ints]:
    """Number of links with transceivers, and of switches, that every transfer passes; both of shape (T,)."""
    count = len(step.source)
    if isinstance(system, WdmRing):
        return np.ones(count, np.int64), np.zeros(count, np.int64)
    if isinstance(system, Sharp):
        return np.ones(count, np.int64), (step.target >= schedule.nodes).astype(np.int64)
    links = np.bincount(routes(system, schedule, step).transfer, minlength=count)
    return links, links - 1
