"""Links of a system, and which of them every transfer of a step takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.interconnect.schedule import Integers, Schedule, Step, conflicts, hops
from optinc_pdk.interconnect.systems import FatTree, InNetwork, System, WdmRing

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Routes:
    """Links of a step's T transfers.

    Attributes:
        transfer: Transfer of every entry (E,).
        link: A link that it takes (E,); numbers are the system's, with gaps.
        delay_s: What light, cables and switches delay every transfer by (T,).
    """

    transfer: Integers
    link: Integers
    delay_s: Floats


def check_fits(system: System, schedule: Schedule) -> None:
    """Refuse a schedule that a system cannot run.

    Raises:
        InputError: Too many nodes or wavelengths, two transfers at one wavelength, or another kind of schedule.
    """
    told = f"{schedule.name} of {schedule.nodes} nodes on {system.name}"
    in_network = isinstance(system, InNetwork)
    if in_network != bool(schedule.units):
        takes = "OptINC's schedules alone" if in_network else "no OptINC, which takes an in_network system"
        raise InputError(f"{told}: this system takes {takes}; choose another scheme or system")
    if isinstance(system, InNetwork) and len(schedule.steps) - 1 != int(system.levels):
        levels = len(schedule.steps) - 1
        raise InputError(f"{told}: levels: {int(system.levels)}, the scheme has {levels}; choose a system with as many")
    if isinstance(system, FatTree) and schedule.nodes > system.most_nodes:
        raise InputError(f"{told}: there is room for {system.most_nodes}; give fewer nodes, more levels or more ports")
    if isinstance(system, WdmRing):
        if schedule.wavelengths > system.wavelengths:
            raise InputError(
                f"{told}: takes {schedule.wavelengths} wavelengths, the system has {int(system.wavelengths)}; give it "
                "more, or take smaller groups or another scheme"
            )
        for step in schedule.steps:
            found = conflicts(step, schedule.nodes)
            if len(found):
                a, b = found[0]
                raise InputError(
                    f"{told}: transfers {step.source[a]}→{step.target[a]} and {step.source[b]}→{step.target[b]} share "
                    f"wavelength {step.wavelength[a]} on a link; assign other wavelengths"
                )


def routes(system: System, schedule: Schedule, step: Step) -> Routes:
    """The links of a step's transfers."""
    if isinstance(system, WdmRing):
        return _around(system, schedule.nodes, step)
    if isinstance(system, FatTree):
        return _over_switches(system, step)
    return _through_chips(system, schedule, step)


def _around(system: WdmRing, nodes: int, step: Step) -> Routes:
    """A link is a wavelength in a direction between two neighbours."""
    first, length = hops(step, nodes)
    transfer = np.repeat(np.arange(len(length)), length)
    offset = np.arange(len(transfer)) - np.repeat(np.cumsum(length) - length, length)
    channel = 2 * step.wavelength + (step.direction > 0)
    link = channel[transfer] * nodes + (first[transfer] + offset) % nodes
    delay = np.asarray(length * system.flight_s(float(system.spacing_m)), np.float64)
    return Routes(transfer, link, delay)


def _over_switches(system: FatTree, step: Step) -> Routes:
    """Up to the lowest common switch and down again.

    Level l's link from a group of nodes is numbered by that group and by the ports taken below, so that the way to a
    node from above is the same from wherever a message comes.
    """
    down, up, levels = int(system.down_ports), int(system.up_ports), int(system.levels)
    source, target = step.source, step.target
    transfer, link = [], []
    places, base = np.zeros_like(target), 0  # the ports taken below, as one number
    height = np.zeros(len(source), np.int64)
    ways = 1
    for level in range(levels):
        climbs = np.flatnonzero(source // down**level != target // down**level) if level else np.arange(len(source))
        if level:
            ways *= up
            places = places * up + (target // down ** (level - 1)) % up
        for node, way in ((source, 0), (target, 1)):
            group = node // down**level
            transfer.append(climbs)
            link.append(base + 2 * (group * ways + places)[climbs] + way)
        base += 2 * ways * (system.most_nodes // down**level + 1)
        height[climbs] = level + 1
    wires = 2 * height * system.flight_s(float(system.cable_m))
    delay = np.asarray(wires + (2 * height - 1) * float(system.switch_s), np.float64)
    return Routes(np.concatenate(transfer), np.concatenate(link), delay)


def _through_chips(system: InNetwork, schedule: Schedule, step: Step) -> Routes:
    """Every server and chip has a fibre of its own up, and one down; the fibres down are where light is split."""
    upwards = step.target >= schedule.nodes
    end = np.where(upwards, step.source, step.target)
    delay = np.full(len(end), system.flight_s(float(system.fibre_m)))
    return Routes(np.arange(len(end)), 2 * end + upwards, delay)
