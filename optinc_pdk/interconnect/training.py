"""Time of a training step: gradients computed, then reduced, by any scheme on any system.

For a table of trainings::

    from optinc_pdk.interconnect import load_system, step_time

    star, ring, tree = (load_system(name) for name in ("optinc_star", "wdm_ring", "fat_tree"))
    step_time("ring", tree, 4 * parameters, nodes=4, compute_s=compute).total_s
    step_time("wrht", ring, 4 * parameters, nodes=4, compute_s=compute).sent_bytes
    step_time("optinc", star, 2 * parameters, nodes=4, compute_s=compute)  # 16-bit words

``payload_bytes`` is what is reduced: parameters × bytes of a word. dAD and its variants gather instead of reducing;
their payload is what *one* node tells, activations and deltas or vectors of low rank, as the collective counts it:
``step_time("all-gather", tree, told_bytes, nodes=4)``. Two exchanges in one step (a shared exponent, then words) are
two calls whose ``communication_s`` add up. DASO has `daso_step_time`. Systems are cards in ``components/systems``; a
`with_rate` copy has another rate.

Communication starts when all gradients are there: the overlap of both, which an engine may have, is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from optinc_pdk.errors import InputError
from optinc_pdk.interconnect import allreduce
from optinc_pdk.interconnect.schedule import Schedule
from optinc_pdk.interconnect.simulate import simulate
from optinc_pdk.interconnect.systems import InNetwork, Server, System, WdmRing
from optinc_pdk.validation import validate_arguments

SCHEMES = (
    "ring",
    "hierarchical-ring",
    "recursive-doubling",
    "binary-tree",
    "wrht",
    "optinc",
    "all-gather",
)


@dataclass(frozen=True)
class StepTime:
    """One training step.

    Attributes:
        compute_s: Time without communication.
        communication_s: What communication adds.
        steps: Steps of the schedule.
        sent_bytes: What the server that sends most sends.
    """

    compute_s: float
    communication_s: float
    steps: int
    sent_bytes: float

    @property
    def total_s(self) -> float:
        """The step's time."""
        return self.compute_s + self.communication_s


@validate_arguments
def schedule_of(scheme: str, system: System, nodes: int, group: int | None = None) -> Schedule:
    """The schedule of a scheme as a system takes it: WRHT with its wavelengths, OptINC with its levels.

    Args:
        scheme: One of `SCHEMES`.
        system: Where it will run.
        nodes: How many servers.
        group: Nodes of a hierarchical ring's group.

    Raises:
        InputError: No such scheme, one that the system cannot run, or a hierarchical ring without its group.
    """
    if scheme == "wrht":
        if not isinstance(system, WdmRing):
            raise InputError(f"wrht on {system.name}: this system has no wavelengths; choose a wdm_ring")
        return allreduce.wrht(nodes, int(system.wavelengths))
    if scheme == "optinc":
        cascade = isinstance(system, InNetwork) and int(system.levels) > 1
        return allreduce.optinc_cascade(nodes) if cascade else allreduce.optinc_star(nodes)
    if scheme == "hierarchical-ring":
        if group is None:
            raise InputError("hierarchical-ring: no group; give the number of nodes of a group")
        return allreduce.hierarchical_ring(nodes, group)
    builders = {
        "ring": allreduce.ring,
        "recursive-doubling": allreduce.recursive_doubling,
        "binary-tree": allreduce.binary_tree,
        "all-gather": allreduce.all_gather,
    }
    if scheme not in builders:
        raise InputError(f"no scheme {scheme!r}: give one of {', '.join(SCHEMES)}")
    return builders[scheme](nodes)


@validate_arguments
def step_time(
    scheme: str,
    system: System,
    payload_bytes: float,
    nodes: int,
    compute_s: float = 0.0,
    group: int | None = None,
) -> StepTime:
    """Time of a training step in which all servers compute, then exchange.

    Args:
        scheme: One of `SCHEMES`.
        system: What they exchange over.
        payload_bytes: What is reduced; of ``all-gather``, what one node tells.
        nodes: Number of servers.
        compute_s: Time to compute the gradients.
        group: Nodes of a hierarchical ring's group.

    Raises:
        InputError: The system cannot run the scheme, or a time or size is below 0.
    """
    if not 0 <= compute_s < float("inf"):
        raise InputError(f"{scheme}: {compute_s} s of computation; give a finite time of at least 0")
    schedule = schedule_of(scheme, system, nodes, group)
    size = payload_bytes * nodes if scheme == "all-gather" else payload_bytes
    timing = simulate(schedule, system, size)
    return StepTime(compute_s, timing.seconds, timing.steps, timing.sent_bytes)


@validate_arguments
def daso_step_time(
    local: System,
    system: System,
    payload_bytes: float,
    nodes: int,
    group: int,
    every: int,
    compute_s: float = 0.0,
    blocking: bool = False,
) -> StepTime:
    """Mean time of a step of DASO (arXiv 2104.05588): rings within groups at every step, one over them every few.

    Args:
        local: What a group's members exchange over.
        system: What the groups exchange over, one member of each at a time.
        payload_bytes: What is reduced.
        nodes: Number of servers.
        group: Servers of a group.
        every: Steps from one global exchange to the next.
        compute_s: Time to compute the gradients.
        blocking: Whether all wait for the global exchange (warm-up, cool-down); else it takes place beside the steps
            until the next one, and adds what it takes longer than they.

    Raises:
        InputError: Groups that do not divide the servers, a system that cannot run the rings, or a time below 0.
    """
    if not 0 <= compute_s < float("inf"):
        raise InputError(f"DASO: {compute_s} s of computation; give a finite time of at least 0")
    if group < 1 or nodes % group or nodes // group < 2 or every < 1:
        raise InputError(
            f"DASO: {nodes} nodes in groups of {group}, globally every {every} steps; give groups that divide the "
            "nodes into at least 2, and at least 1 step"
        )
    inner = step_time("ring", local, payload_bytes, group, compute_s) if group > 1 else StepTime(compute_s, 0.0, 0, 0.0)
    outer = step_time("ring", system, payload_bytes, nodes // group)
    added = outer.communication_s / every if blocking else max(0.0, outer.communication_s / every - inner.total_s)
    return StepTime(
        compute_s,
        inner.communication_s + added,
        inner.steps + outer.steps,
        inner.sent_bytes + outer.sent_bytes / (every * group),
    )


@validate_arguments
def compute_time(server: Server, flop: float) -> float:
    """Seconds that a server takes for so many operations."""
    return flop / float(server.flop_per_s * server.utilisation)
