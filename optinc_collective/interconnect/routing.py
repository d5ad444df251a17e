"""Routing: the links of a system that the transfers of a step use, and the check that a system can run a schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_collective.interconnect.schedule import ExchangeSchedule, ExchangeStep, ring_links, wavelength_conflicts
from optinc_collective.interconnect.systems import FatTree, InNetwork, Sharp, System, WdmRing
from optinc_pdk.arrays import Floats, Ints
from optinc_pdk.errors import InputError

_SCHEMES = {"chip": "OptINC", "switch": "SHARP"}
"""Schemes by the units of their schedules."""
_KINDS = {"chip": "in_network", "switch": "sharp"}


@dataclass(frozen=True)
class Routes:
    """Links that the T transfers of a step use, as E pairs of a transfer and a link, and the delays of the transfers.

    Attributes:
        transfer: Number of the transfer of every pair, 0 ... T - 1, shape (E,).
        link: Number of the link of every pair, shape (E,). A system's link numbers are not contiguous.
        delay_s: Propagation and switching delay of every transfer, s, shape (T,).
    """

    transfer: Ints
    link: Ints
    delay_s: Floats


def check_system_runs(system: System, schedule: ExchangeSchedule) -> None:
    """Raise an error if a system cannot run a schedule.

    Raises:
        InputError: The schedule is for another kind of system or another number of levels, it has too many nodes or
            wavelengths, a switch would add the data of too many ports, or two transfers share a wavelength on a link.
    """
    subject = f"{schedule.name} of {schedule.nodes} nodes on {system.name}"
    offered = {InNetwork: "chip", Sharp: "switch"}.get(type(system), "")
    if offered != schedule.unit:
        limit = (
            f"runs only {_SCHEMES[offered]} schedules"
            if offered
            else f"cannot run {_SCHEMES[schedule.unit]}, which needs a system of kind {_KINDS[schedule.unit]}"
        )
        raise InputError(f"{subject}: this system {limit}; choose another scheme or system")
    if isinstance(system, InNetwork) and len(schedule.steps) - 1 != int(system.levels):
        levels = len(schedule.steps) - 1
        raise InputError(
            f"{subject}: levels: {int(system.levels)}, the scheme has {levels}; choose a system with {levels}"
        )
    if isinstance(system, Sharp):
        _check_tree(subject, system, schedule)
    if isinstance(system, FatTree) and schedule.nodes > system.max_nodes:
        raise InputError(f"{subject}: at most {system.max_nodes} nodes; give fewer nodes, more levels or more ports")
    if isinstance(system, WdmRing):
        if schedule.wavelengths > system.wavelengths:
            raise InputError(
                f"{subject}: needs {schedule.wavelengths} wavelengths, the system has {int(system.wavelengths)}; give "
                "it more, or choose smaller groups or another scheme"
            )
        for step in schedule.steps:
            pairs = wavelength_conflicts(step, schedule.nodes)
            if len(pairs):
                a, b = pairs[0]
                raise InputError(
                    f"{subject}: transfers {step.source[a]}→{step.target[a]} and {step.source[b]}→{step.target[b]} "
                    f"share wavelength {step.wavelength[a]} on a link; assign other wavelengths"
                )


def _check_tree(subject: str, system: Sharp, schedule: ExchangeSchedule) -> None:
    """Raise an error if a tree of switches has too many levels, or if a switch has too many ports."""
    gathers = [step for step in schedule.steps if step.reduce]
    if len(gathers) > int(system.levels):
        raise InputError(
            f"{subject}: levels: {int(system.levels)}, the schedule has {len(gathers)}; give more levels or a "
            "larger radix"
        )
    most = max(int(np.bincount(step.target).max()) for step in gathers)
    if most > int(system.radix):
        raise InputError(
            f"{subject}: a switch adds the data of {most} ports, its radix is {int(system.radix)}; build the schedule "
            "with this radix"
        )


def routes(system: System, schedule: ExchangeSchedule, step: ExchangeStep) -> Routes:
    """Determine the links and delays of the transfers of a step.

    Args:
        system: A system that can run the schedule; see `check_system_runs`.
        schedule: The schedule of the step, which gives the number of nodes.
        step: The step.
    """
    if isinstance(system, WdmRing):
        return _around(system, schedule.nodes, step)
    if isinstance(system, FatTree):
        return _over_switches(system, step)
    if isinstance(system, Sharp):
        return _through_reducing_switches(system, schedule, step)
    return _through_chips(system, schedule, step)


def _around(system: WdmRing, nodes: int, step: ExchangeStep) -> Routes:
    """Routes on a ring: a link is one wavelength in one direction between two neighbours."""
    first, length = ring_links(step, nodes)
    transfer = np.repeat(np.arange(len(length)), length)
    offset = np.arange(len(transfer)) - np.repeat(np.cumsum(length) - length, length)
    channel = 2 * step.wavelength + (step.direction > 0)
    link = channel[transfer] * nodes + (first[transfer] + offset) % nodes
    delay = np.asarray(length * system.flight_s(float(system.spacing_m)), np.float64)
    return Routes(transfer, link, delay)


def _over_switches(system: FatTree, step: ExchangeStep) -> Routes:
    """Routes in a fat tree: up to the lowest common switch and down again.

    A link from a group of nodes to level l is numbered by the group and by the upward ports chosen on lower levels. So
    the path down to a node does not depend on the source.
    """
    down, up, levels = int(system.down_ports), int(system.up_ports), int(system.levels)
    source, target = step.source, step.target
    transfer, link = [], []
    places, base = np.zeros_like(target), 0  # the upward ports chosen so far, as one number
    height = np.zeros(len(source), np.int64)
    port_count = 1
    for level in range(levels):
        climbs = np.flatnonzero(source // down**level != target // down**level) if level else np.arange(len(source))
        if level:
            port_count *= up
            places = places * up + (target // down ** (level - 1)) % up
        for node, downward in ((source, 0), (target, 1)):
            group = node // down**level
            transfer.append(climbs)
            link.append(base + 2 * (group * port_count + places)[climbs] + downward)
        base += 2 * port_count * (system.max_nodes // down**level + 1)
        height[climbs] = level + 1
    propagation_s = 2 * height * system.flight_s(float(system.cable_m))
    delay = np.asarray(propagation_s + (2 * height - 1) * float(system.switch_s), np.float64)
    return Routes(np.concatenate(transfer), np.concatenate(link), delay)


def _through_chips(system: InNetwork, schedule: ExchangeSchedule, step: ExchangeStep) -> Routes:
    """Routes in an in-network system: a fibre up and one down per server and chip; light is split downwards."""
    upwards = step.target >= schedule.nodes
    end = np.where(upwards, step.source, step.target)
    delay = np.full(len(end), system.flight_s(float(system.fibre_m)))
    return Routes(np.arange(len(end)), 2 * end + upwards, delay)


def _through_reducing_switches(system: Sharp, schedule: ExchangeSchedule, step: ExchangeStep) -> Routes:
    """Routes in a tree of switches that reduce: every transfer is on one link, that of the server or switch below.

    A delay is that of the link and, if the sender is a switch, of this switch.
    """
    upwards = step.target > step.source  # switches are numbered from the servers to the root
    below = np.where(upwards, step.source, step.target)
    switches = np.asarray(step.source >= schedule.nodes, np.float64)
    delay = np.asarray(system.flight_s(float(system.cable_m)) + float(system.switch_s) * switches, np.float64)
    return Routes(np.arange(len(below)), 2 * below + upwards, delay)
