"""Event-driven simulation of the duration of an all-reduce on a system of servers.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optinc_collective.interconnect.routing import check_system_runs, routes
from optinc_collective.interconnect.schedule import ExchangeSchedule, ExchangeStep
from optinc_collective.interconnect.systems import System, WdmRing
from optinc_pdk.arrays import Bools, Floats, Ints
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments

TIME_TOLERANCE = 1e-12
"""Relative tolerance of times: smaller differences are rounding errors."""


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

    Returns:
        The duration, and counts of steps and bytes.

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
    """Simulate all repetitions of a step; update in place when nodes and links are free.

    Returns:
        Number of repetitions that were simulated.
    """
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
    """Compute max-min fair rates of T concurrent transfers by progressive filling.

    The link with the smallest share of rate per transfer is filled first: its transfers get equal rates. Then the
    remaining rate of the other links is divided among the other transfers in the same way.

    Args:
        flowing: Boolean mask of the transfers that have bits to send, shape (T,).
        transfer: Number of the transfer of each of the E pairs of a transfer and a link, shape (E,); see `Routes`.
        link: Number of the link of every pair, shape (E,).
        bit_per_s: Rate of every link, bit/s.

    Returns:
        Rates of the transfers, bit/s, shape (T,); 0 for transfers without bits to send.
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
