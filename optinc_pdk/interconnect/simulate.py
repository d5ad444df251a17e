"""Time of an all-reduce on a system, event by event.

A transfer starts when both its ends have finished all that they have part in before, so when the data that it sends
have arrived, and when its links are free of earlier steps. It waits for the system's overhead and for the light's or
the message's flight; in between its bits flow.

- **Wavelengths** are a circuit's own on all its links, from its start to its end: so its bits flow at the full rate.
- **Electrical links** are shared by the transfers of a step: from event to event all flows have the rates of max-min
  fairness (progressive filling), which go up when others end. Those of later turns and steps queue behind.
- **Light in flight**: what a chip averages leaves it as it arrives, so a streamed step takes the flight alone.

Nodes wait for no one but their partners, so fast ones run ahead as far as the schedule lets them. Everything is arrays
over nodes and transfers. A step that is repeated is followed turn by turn until all its transfers end equally long
after those of the turn before; so do all further turns then, which are not followed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.errors import InputError
from optinc_pdk.interconnect.fabric import check_fits, routes
from optinc_pdk.interconnect.schedule import Integers, Schedule, Step
from optinc_pdk.interconnect.systems import System, WdmRing
from optinc_pdk.validation import validate_arguments

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

SAME = 1e-12
"""Relative difference below which two times are one: rounding."""


@dataclass(frozen=True)
class Timing:
    """An all-reduce that was simulated.

    Attributes:
        seconds: From the start at all nodes to the end at the last.
        steps: Steps of the schedule.
        sent_bytes: What the server that sends most sends.
        followed: Turns that were followed; the others are alike.
    """

    seconds: float
    steps: int
    sent_bytes: float
    followed: int


@dataclass(frozen=True)
class _Work:
    """What a step costs.

    Attributes:
        step: The step.
        bits: Of every transfer (T,).
        wait_s: Overhead and flight (T,).
        setup_s: What comes on top the first time (T,).
        transfer: Transfer of every entry of the routes (E,).
        link: Link of every entry (E,).
        shared: Whether some link carries several transfers.
        bit_per_s: Rate of a link.
    """

    step: Step
    bits: Floats
    wait_s: Floats
    setup_s: Floats
    transfer: Integers
    link: Integers
    shared: bool
    bit_per_s: float


@validate_arguments
def simulate(schedule: Schedule, system: System, size_bytes: float) -> Timing:
    """Run a schedule on a system.

    Args:
        schedule: What to run.
        system: Where.
        size_bytes: Size of the buffer that is reduced.

    Raises:
        InputError: The system cannot run the schedule, or the size is not finite or below 0.
    """
    if not 0 <= size_bytes < float("inf"):
        raise InputError(f"{schedule.name}: {size_bytes} bytes; give a finite size of at least 0")
    check_fits(system, schedule)
    works, links = _works(schedule, system, 8.0 * size_bytes)
    ready, free = np.zeros(schedule.nodes + schedule.units), np.zeros(links)
    followed = 0
    for work in works:
        followed += _run(work, ready, free)
    return Timing(float(ready.max()), schedule.count, float(schedule.sent.max()) * size_bytes, followed)


def _works(schedule: Schedule, system: System, size_bits: float) -> tuple[list[_Work], int]:
    """Every step with its costs; the number of links."""
    works, links = [], 0
    for step, before in zip(schedule.steps, (None, *schedule.steps), strict=False):
        way = routes(system, schedule, step)
        overhead = 0.0 if step.streamed else float(system.overhead_s)
        works.append(
            _Work(
                step=step,
                bits=np.zeros(len(step.parts)) if step.streamed else size_bits / step.parts,
                wait_s=way.delay_s + overhead,
                setup_s=_new_circuits(step, before) * float(system.reconfiguration_s),
                transfer=way.transfer,
                link=way.link,
                shared=not isinstance(system, WdmRing) and bool((np.bincount(way.link) > 1).any()),
                bit_per_s=float(system.bit_per_s),
            )
        )
        links = max(links, int(way.link.max()) + 1)
    return works, links


def _new_circuits(step: Step, before: Step | None) -> Floats:
    """1 for every transfer whose circuit was not there in the step before, else 0."""
    if before is None:
        return np.ones(len(step.source))
    most = int(max(step.target.max(), before.target.max())) + 1
    lanes = int(max(step.wavelength.max(), before.wavelength.max())) + 1
    now, then = (((s.source * most + s.target) * lanes + s.wavelength) * 3 + s.direction for s in (step, before))
    return (~np.isin(now, then)).astype(np.float64) * (not step.streamed)


def _run(work: _Work, ready: Floats, free: Floats) -> int:
    """All turns of a step: when its nodes and links are done with it (in place); how many turns were followed."""
    step = work.step
    ends = np.concatenate([step.source, step.target])
    order = np.argsort(ends, kind="stable")
    nodes, first = np.unique(ends[order], return_index=True)
    both = order % len(step.source)
    wait = work.wait_s + work.setup_s
    done, turn_s = np.zeros(len(step.source)), 0.0
    for turn in range(step.repeat):
        start = np.maximum(ready[step.source], ready[step.target])
        # a link of one transfer is free when that transfer's ends are
        if work.shared or not turn:
            np.maximum.at(start, work.transfer, free[work.link])
        before, done = done, _flow(work, start + wait)
        if work.shared:
            np.maximum.at(free, work.link, done[work.transfer])
        ready[nodes] = np.maximum.reduceat(done[both], first)
        took = done - before
        turn_s = float(took.max())
        wait = work.wait_s
        if turn and turn_s - took.min() <= SAME * float(done[0]):
            break
    skipped = step.repeat - 1 - turn
    ready[nodes] += skipped * turn_s
    np.maximum.at(free, work.link, (done + skipped * turn_s)[work.transfer])
    return turn + 1


def _flow(work: _Work, start: Floats) -> Floats:
    """When every transfer's last bit has gone, if its first could go at ``start`` (T,)."""
    if not work.shared:
        return np.asarray(start + work.bits / work.bit_per_s)
    left, end = work.bits.copy(), np.full(len(start), np.inf)
    now = float(start.min())
    while np.isinf(end).any():
        flowing = np.isinf(end) & (start <= now * (1.0 + SAME))
        rate = fair_rates(flowing, work.transfer, work.link, work.bit_per_s)
        stops = now + left[flowing] / rate[flowing]
        waiting = start[np.isinf(end) & ~flowing]
        moment = min(stops.min(initial=np.inf), waiting.min(initial=np.inf))
        stopped = np.flatnonzero(flowing)[stops <= moment * (1.0 + SAME)]
        left[flowing] -= rate[flowing] * (moment - now)
        end[stopped] = now = float(moment)
    return end


def fair_rates(flowing: Booleans, transfer: Integers, link: Integers, bit_per_s: float) -> Floats:
    """Rates of max-min fairness: the fullest links' flows get equal shares, then those of what is left, and so on.

    Args:
        flowing: Which transfers have bits to send (T,).
        transfer: Transfer of every entry of the routes (E,).
        link: Link of every entry (E,).
        bit_per_s: Rate of a link.

    Returns:
        Rates (T,); 0 for those that do not flow.
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
        settled[transfer[share[link] <= least * (1.0 + SAME)]] = True
        rate[settled] = least
        gone = settled[transfer]
        left -= least * np.bincount(link[gone], minlength=len(left))
        transfer, link = transfer[~gone], link[~gone]
    return rate
