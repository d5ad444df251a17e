"""Estimate of the duration of a training step: computation, then communication by a scheme on a system.

Examples::

    from optinc_collective.interconnect import load_system, step_time

    star, ring, tree = (load_system(name) for name in ("optinc_star", "wdm_ring", "fat_tree"))
    step_time("ring", tree, 4 * parameters, nodes=4, compute_s=compute).total_s
    step_time("wrht", ring, 4 * parameters, nodes=4, compute_s=compute).sent_bytes
    step_time("optinc", star, 2 * parameters, nodes=4, compute_s=compute)  # 16-bit words

``payload_bytes`` is the size of the reduced data: parameters × bytes of a word. dAD and its variants gather instead of
reducing; their payload is the data that *one* node contributes (activations and deltas, or low-rank factors), as the
collective counts it: ``step_time("all-gather", tree, contributed_bytes, nodes=4)``. Two exchanges in one step (a shared
exponent, then words) are two calls whose ``communication_s`` are added. DASO has `daso_step_time`. Systems are cards in
``components/systems``; `with_rate` makes a copy with another rate.

Communication starts when all gradients are computed; overlap of communication and computation is not modelled.
The parameters and operations of the networks of arXiv 2603.28290 are counted layer by layer: a multiplication with its
addition is two operations, a backward pass costs two forward passes; normalisations, activations and the softmax are
not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from optinc_collective.interconnect import allreduce
from optinc_collective.interconnect._systems import InNetwork, Server, Sharp, System, WdmRing
from optinc_collective.interconnect.exchange_schedule import ExchangeSchedule
from optinc_collective.interconnect.exchange_simulation import simulate
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments

SCHEMES = (
    "ring",
    "hierarchical-ring",
    "recursive-doubling",
    "binary-tree",
    "wrht",
    "optinc",
    "sharp",
    "all-gather",
)
FORWARD_AND_BACKWARD = 3


@dataclass(frozen=True)
class StepTime:
    """Time of one training step.

    Attributes:
        compute_s: Time of the computation, s.
        communication_s: Time of the communication that is added to that of the computation, s.
        steps: Number of consecutive communication steps; see `ExchangeSchedule.count`.
        sent_bytes: Bytes sent by the server that sends most.
    """

    compute_s: float
    communication_s: float
    steps: int
    sent_bytes: float

    @property
    def total_s(self) -> float:
        """Time of computation and communication together, s."""
        return self.compute_s + self.communication_s


@validate_arguments
def schedule_of(scheme: str, system: System, nodes: int, group: int | None = None) -> ExchangeSchedule:
    """Build the schedule of a scheme, one of `SCHEMES`, for a system.

    The schedule of "wrht" uses the system's number of wavelengths, that of "sharp" the radix of its switches, and that
    of "optinc" is a star or a cascade, depending on the system's levels. The others do not depend on the system. Only
    "hierarchical-ring" has groups, and requires their number of nodes.

    Raises:
        InputError: There is no such scheme, "wrht" is given a system that is not a ring, "sharp" one whose switches do
            not reduce, the number of nodes is not supported, or "hierarchical-ring" has no group size.
    """
    if scheme == "wrht":
        if not isinstance(system, WdmRing):
            raise InputError(f"wrht on {system.name}: this system has no wavelengths; choose a wdm_ring")
        return allreduce.wrht(nodes, int(system.wavelengths))
    if scheme == "sharp":
        if not isinstance(system, Sharp):
            raise InputError(f"sharp on {system.name}: its switches do not reduce; choose a system of kind sharp")
        return allreduce.sharp(nodes, int(system.radix))
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
    """Estimate the time of a training step in which all servers compute, then exchange data.

    Args:
        scheme: One of `SCHEMES`.
        system: The system.
        payload_bytes: Size of the gradients of one server; for "all-gather", of the data that one node contributes.
        nodes: Number of servers.
        compute_s: Time to compute the gradients, s.
        group: Number of nodes per group; required by "hierarchical-ring", not used by the others.

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
    """Estimate the mean time of a training step with DASO (arXiv 2104.05588).

    At every step each group runs a ring all-reduce. Every ``every`` steps a ring all-reduce runs over the groups, with
    one member of each group: the global exchange.

    Args:
        local: System that connects the servers of a group.
        system: System that connects the groups; one member of each group uses it at a time.
        payload_bytes: Size of the gradients (or parameters) of one server.
        nodes: Number of servers, in at least 2 groups.
        group: Number of servers per group.
        every: Number of steps from one global exchange to the next.
        compute_s: Time to compute the gradients, s.
        blocking: Whether all servers wait for the global exchange, as in warm-up and cool-down. Otherwise it overlaps
            with the steps until the next one, and only its excess over their time is added.

    Returns:
        Mean times and bytes per step. `steps` is the sum of the steps of both rings, although the outer one runs only
        every ``every`` steps.

    Raises:
        InputError: The group size does not divide the number of servers, a system cannot run the rings, or a time is
            below 0.
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
    """Compute the time in s of a number of floating-point operations, by the server's peak rate and utilisation."""
    return flop / float(server.flop_per_s * server.utilisation)


@dataclass(frozen=True)
class Workload:
    """Size of a network to train.

    Attributes:
        name: Name of the network in tables.
        parameters: Number of parameters, which equals the number of gradients per step.
        multiplications: Number of multiplications in a forward pass of one sample, an image or a token.
    """

    name: str
    parameters: int
    multiplications: int

    @property
    def flop(self) -> float:
        """Number of floating-point operations of a forward and a backward pass of one sample: 6 × `multiplications`."""
        return 2.0 * FORWARD_AND_BACKWARD * self.multiplications


@validate_arguments
def resnet50(pixels: int, classes: int, small_stem: bool) -> Workload:
    """Count the parameters and operations of ResNet-50 (arXiv 1512.03385). A sample is an image.

    Args:
        pixels: Edge length of the square image, in pixels.
        classes: Number of classes.
        small_stem: Whether the first convolution is 3 × 3 at full size, as usual for CIFAR, instead of 7 × 7 with
            pooling, which reduces the edge length to a quarter.
    """
    parameters, multiplications, channels = 0, 0, 64
    edge = pixels if small_stem else -(-pixels // 2)

    def convolve(inputs: int, outputs: int, kernel: int) -> None:
        nonlocal parameters, multiplications
        weights = inputs * outputs * kernel * kernel
        parameters += weights + 2 * outputs  # including scale and shift of the normalisation
        multiplications += weights * edge * edge

    convolve(3, 64, 3 if small_stem else 7)
    edge = edge if small_stem else -(-edge // 2)
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            convolve(channels, width, 1)
            if stage and not block:
                edge = -(-edge // 2)
            convolve(width, width, 3)
            convolve(width, 4 * width, 1)
            if not block:
                convolve(channels, 4 * width, 1)
            channels = 4 * width
    parameters += channels * classes + classes
    multiplications += channels * classes
    return Workload(f"ResNet-50, {pixels} × {pixels}", parameters, multiplications)


@validate_arguments
def llama(layers: int, hidden: int, feed_forward: int, vocabulary: int, context: int) -> Workload:
    """Count the parameters and operations of a LLaMA-style decoder (arXiv 2302.13971). A sample is a token.

    Input and output embeddings are separate matrices.

    Args:
        layers: Number of decoder layers.
        hidden: Hidden dimension of the model.
        feed_forward: Inner dimension of the feed-forward block, which has three matrices.
        vocabulary: Number of different tokens.
        context: Number of tokens of a sequence; a token attends to half of them on average.
    """
    matrices = layers * (4 * hidden * hidden + 3 * hidden * feed_forward)
    norms = (2 * layers + 1) * hidden
    attention = layers * hidden * context  # products with keys and with values, over half of the context each
    return Workload(
        f"LLaMA-style, {layers} × {hidden}",
        matrices + norms + 2 * vocabulary * hidden,
        matrices + attention + vocabulary * hidden,
    )
