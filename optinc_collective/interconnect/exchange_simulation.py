"""Duration of an all-reduce on a system of servers, by event-driven simulation, and its energy.

A transfer starts when both its nodes have finished all their earlier transfers and when its links are free of earlier
steps. Its duration is the overhead of the system, the propagation delay, and the time to send its bits.

- **Wavelengths**: a circuit has its wavelength exclusively on all its links, from start to end, so its bits are sent at
  the full rate.
- **Electrical links** are shared by the transfers of a step: between events all flows have the rates of max-min
  fairness (progressive filling), which increase when other flows end. Transfers of later repetitions and steps queue.
- **Streamed steps**: a chip forwards the average, and a switch that reduces the sum, while its inputs arrive, so a
  streamed step takes only the delays of propagation and of switches.

Nodes wait only for their partners, so fast nodes run ahead as far as the schedule allows. All data are arrays over
nodes and transfers. A repeated step is simulated repetition by repetition until all its transfers take equally long
from one repetition to the next; the remaining repetitions are extrapolated.

The energy is that of transceivers, SerDes, error correction, switch chips and additions, by the energy for a bit of the
system card. Not counted are the rest of the servers' network interfaces, memory, and links that are powered but idle;
that of an OptINC chip is `optinc_pdk.studies.link_energy`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_collective.interconnect._systems import (
    FatTree,
    InNetwork,
    OpticsEnergy,
    Sharp,
    SwitchedEnergy,
    System,
    WdmRing,
)
from optinc_collective.interconnect.exchange_schedule import (
    ExchangeSchedule,
    ExchangeStep,
    ring_links,
    wavelength_conflicts,
)
from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments, validate_fields

_SCHEMES = {"chip": "OptINC", "switch": "SHARP"}
"""Schemes by the units of their schedules."""
_KINDS = {"chip": "in_network", "switch": "sharp"}
TIME_TOLERANCE = 1e-12
"""Relative tolerance of times: smaller differences are rounding errors."""
OPTICS = ("pluggable", "linear", "copackaged")
"""Kinds of transceivers whose energy a card states."""


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
    """Determine the links and delays of the transfers of a step of a schedule that the system can run."""
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


@dataclass(frozen=True)
class ExchangeTiming:
    """Result of the simulation of an all-reduce.

    Attributes:
        seconds: Time from the common start of all nodes until the last node has finished, s.
        steps: Number of consecutive steps of the schedule; see `ExchangeSchedule.count`.
        sent_bytes: Bytes sent by the server that sends most.
        simulated_repetitions: Number of repetitions of steps that were simulated; the others were extrapolated.
    """

    seconds: float
    steps: int
    sent_bytes: float
    simulated_repetitions: int


@dataclass(frozen=True)
class _Work:
    """A step with the durations and links of its transfers.

    Attributes:
        step: The step.
        bits: Number of bits of every transfer (T,).
        wait_s: Overhead and propagation delay of every transfer (T,).
        setup_s: Additional delay of every transfer in the first repetition (T,).
        transfer: Transfer of every entry of the routes (E,).
        link: Link of every entry of the routes (E,).
        shared: Whether any link carries several transfers.
        bit_per_s: Rate of a link.
    """

    step: ExchangeStep
    bits: Floats
    wait_s: Floats
    setup_s: Floats
    transfer: Ints
    link: Ints
    shared: bool
    bit_per_s: float


@validate_arguments
def simulate(schedule: ExchangeSchedule, system: System, size_bytes: float) -> ExchangeTiming:
    """Simulate the execution of a schedule on a system; see the module for the model.

    Args:
        schedule: The schedule.
        system: The system.
        size_bytes: Size of the whole buffer of a server, which the schedule divides into pieces.

    Raises:
        InputError: The system cannot run the schedule, or the size is not finite or below 0.
    """
    if not 0 <= size_bytes < float("inf"):
        raise InputError(f"{schedule.name}: {size_bytes} bytes; give a finite size of at least 0")
    check_system_runs(system, schedule)
    works, links = _works(schedule, system, 8.0 * size_bytes)
    ready, free = np.zeros(schedule.nodes + schedule.units), np.zeros(links)
    followed = 0
    for work in works:
        followed += _run(work, ready, free)
    return ExchangeTiming(float(ready.max()), schedule.count, float(schedule.sent.max()) * size_bytes, followed)


def _works(schedule: ExchangeSchedule, system: System, size_bits: float) -> tuple[list[_Work], int]:
    """Durations and links of all steps, and the number of links."""
    works, links = [], 0
    for step, before in zip(schedule.steps, (None, *schedule.steps), strict=False):
        route = routes(system, schedule, step)
        overhead = 0.0 if step.streamed else float(system.overhead_s)
        works.append(
            _Work(
                step=step,
                bits=np.zeros(len(step.parts)) if step.streamed else size_bits / step.parts,
                wait_s=route.delay_s + overhead,
                setup_s=_new_circuits(step, before) * float(system.reconfiguration_s),
                transfer=route.transfer,
                link=route.link,
                shared=not isinstance(system, WdmRing) and bool((np.bincount(route.link) > 1).any()),
                bit_per_s=float(system.bit_per_s),
            )
        )
        links = max(links, int(route.link.max()) + 1)
    return works, links


def _new_circuits(step: ExchangeStep, before: ExchangeStep | None) -> Floats:
    """1 for every transfer whose circuit does not exist in the step before, else 0 (T,)."""
    if before is None:
        return np.ones(len(step.source))
    nodes = int(max(step.target.max(), before.target.max())) + 1
    wavelengths = int(max(step.wavelength.max(), before.wavelength.max())) + 1
    circuits, previous = (
        ((s.source * nodes + s.target) * wavelengths + s.wavelength) * 3 + s.direction for s in (step, before)
    )
    return (~np.isin(circuits, previous)).astype(np.float64) * (not step.streamed)


def _run(work: _Work, ready: Floats, free: Floats) -> int:
    """Simulate the repetitions of a step, whose number is returned; update in place when nodes and links are free."""
    step = work.step
    ends = np.concatenate([step.source, step.target])
    order = np.argsort(ends, kind="stable")
    nodes, first = np.unique(ends[order], return_index=True)
    both = order % len(step.source)
    wait = work.wait_s + work.setup_s
    done, turn_s = np.zeros(len(step.source)), 0.0
    for turn in range(step.repeat):
        start = np.maximum(ready[step.source], ready[step.target])
        # a link of a single transfer is free when the nodes of that transfer are
        if work.shared or not turn:
            np.maximum.at(start, work.transfer, free[work.link])
        before, done = done, _flow(work, start + wait)
        if work.shared:
            np.maximum.at(free, work.link, done[work.transfer])
        ready[nodes] = np.maximum.reduceat(done[both], first)
        duration = done - before
        turn_s = float(duration.max())
        wait = work.wait_s
        if turn and turn_s - duration.min() <= TIME_TOLERANCE * float(done[0]):
            break
    skipped = step.repeat - 1 - turn
    ready[nodes] += skipped * turn_s
    np.maximum.at(free, work.link, (done + skipped * turn_s)[work.transfer])
    return turn + 1


def _flow(work: _Work, start: Floats) -> Floats:
    """Time at which the last bit of every transfer is sent (T,), if the first can be sent at ``start`` (T,)."""
    if not work.shared:
        return np.asarray(start + work.bits / work.bit_per_s)
    left, end = work.bits.copy(), np.full(len(start), np.inf)
    now = float(start.min())
    while np.isinf(end).any():
        flowing = np.isinf(end) & (start <= now * (1.0 + TIME_TOLERANCE))
        rate = fair_rates(flowing, work.transfer, work.link, work.bit_per_s)
        stops = now + left[flowing] / rate[flowing]
        waiting = start[np.isinf(end) & ~flowing]
        moment = min(stops.min(initial=np.inf), waiting.min(initial=np.inf))
        stopped = np.flatnonzero(flowing)[stops <= moment * (1.0 + TIME_TOLERANCE)]
        left[flowing] -= rate[flowing] * (moment - now)
        end[stopped] = now = float(moment)
    return end


def fair_rates(flowing: Bools, transfer: Ints, link: Ints, bit_per_s: float) -> Floats:
    """Compute max-min fair rates of T concurrent transfers, bit/s, by progressive filling.

    The link with the smallest share of rate per transfer is filled first: its transfers get equal rates. Then the
    remaining rate of the other links is divided among the other transfers in the same way.

    Args:
        flowing: Mask of the transfers that have bits to send, shape (T,); others get 0.
        transfer: Number of the transfer of each of the E pairs of a transfer and a link, shape (E,); see `Routes`.
        link: Number of the link of every pair, shape (E,).
        bit_per_s: Rate of every link.
    """
    rate = np.where(flowing, bit_per_s, 0.0)
    keep = flowing[transfer]
    transfer = transfer[keep]
    _, link = np.unique(link[keep], return_inverse=True)
    left = np.full(int(link.max(initial=-1)) + 1, bit_per_s)
    while len(transfer):
        use = np.bincount(link, minlength=len(left))
        share = np.divide(left, use, out=np.full(len(left), np.inf), where=use > 0)
        least = float(share.min())
        settled = np.zeros(len(flowing), np.bool_)
        settled[transfer[share[link] <= least * (1.0 + TIME_TOLERANCE)]] = True
        rate[settled] = least
        removed = settled[transfer]
        left -= least * np.bincount(link[removed], minlength=len(left))
        transfer, link = transfer[~removed], link[~removed]
    return rate


@dataclass(frozen=True)
class ExchangeEnergy:
    """Energy of all servers and switches together for one all-reduce.

    Attributes:
        transceivers_j: Transceivers of all links, J.
        serdes_j: SerDes of servers, J; those of switches are a part of the switch chips.
        corrections_j: Error correction in servers, J; that in switches is a part of the switch chips.
        switches_j: Switch chips, J.
        additions_j: Additions of received data, J.
    """

    transceivers_j: float
    serdes_j: float
    corrections_j: float
    switches_j: float
    additions_j: float

    def __post_init__(self) -> None:
        validate_fields(self)

    @property
    def total_j(self) -> float:
        """Energy of all parts together, J."""
        return self.transceivers_j + self.serdes_j + self.corrections_j + self.switches_j + self.additions_j


@validate_arguments
def exchange_energy(
    schedule: ExchangeSchedule, system: System, size_bytes: float, optics: str = "pluggable"
) -> ExchangeEnergy:
    """Add up the energy of all transfers of a schedule.

    A bit takes the energy of a transceiver on every link that it passes, that of a switch in every switch that it
    enters, and half that of SerDes and error correction where it leaves a server and where it arrives at one. Where a
    network is slower than its links (`Sharp.streaming`), the parts are powered for longer. A wavelength of a ring has a
    transceiver at its ends only, whatever number of nodes it passes.

    Args:
        schedule: The schedule.
        system: A system that can run it, with an `energy` section in its card.
        size_bytes: Size of the whole buffer of a server.
        optics: Kind of the transceivers, one of `OPTICS`.

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
    on_links = in_switches = in_servers = added = 0.0
    for step in schedule.steps:
        links, switches = _passed(system, schedule, step)
        bits = 8.0 * size_bytes * step.repeat / step.parts
        on_links += float(bits @ links)
        in_switches += float(bits @ switches)
        in_servers += float(bits @ ((step.source < schedule.nodes) / 2 + (step.target < schedule.nodes) / 2))
        added += float(bits.sum()) if step.reduce else 0.0
    longer = 1.0 / float(system.streaming) if isinstance(system, Sharp) else 1.0
    kind: OpticsEnergy = getattr(energy, optics)
    switch = float(energy.switch_j_per_bit) if isinstance(energy, SwitchedEnergy) else 0.0
    return ExchangeEnergy(
        transceivers_j=longer * on_links * float(kind.module_j_per_bit),
        serdes_j=longer * in_servers * float(kind.serdes_j_per_bit),
        corrections_j=longer * in_servers * float(energy.correction_j_per_bit),
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
