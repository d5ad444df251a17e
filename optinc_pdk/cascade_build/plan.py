"""What a build of a cascade works on: networks of both levels, names, process, and words that are checked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.errors import InputError
from optinc_pdk.onn import Activation, Onn, comparator_network
from optinc_pdk.onn.cascade import cascade_tasks
from optinc_pdk.onn.weight_files import WITHOUT_TASK, load_for_task

CASCADE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,24}")
Source = str | Path | Onn


@dataclass(frozen=True)
class CascadePlan:
    """What is built: networks with the origin of their weights, names, process and words."""

    networks: tuple[Onn, Onn]
    origins: tuple[str, str]
    name: str
    process: str
    card: Process
    random_sets: int
    seed: int
    loss_db: float

    @property
    def chips(self) -> tuple[str, str]:
        """Names of the chips."""
        return f"{self.name}_level1", f"{self.name}_level2"


def plan_cascade(
    bits: int | None,
    servers: int | None,
    first: Source | None,
    second: Source | None,
    name: str | None,
    process: str,
    random_sets: int,
    seed: int,
    loss_db: float,
    activation: Activation | None = None,
) -> CascadePlan:
    """Read and check everything that can be refused before a chip is built.

    The arguments are those of :func:`optinc_pdk.cascade_build.build_cascade`.

    Raises:
        InputError: An argument cannot be used, the levels do not belong together, or a level has no circuit.
    """
    if name is not None:
        _check_name(name)
    if random_sets < 0:
        raise InputError(f"random word sets: {random_sets} is below 0; give 0 or more")
    if seed < 0:
        raise InputError(f"seed {seed} is below 0; give 0 or more")
    if not (math.isfinite(loss_db) and loss_db >= 0.0):
        raise InputError(f"loss between the levels: {loss_db:g} dB; give a finite loss of at least 0 dB")
    card = load_process(process)
    origins = (_origin(first), _origin(second))
    networks = _networks(bits, servers, (first, second), activation, origins)
    task = networks[0].task
    chosen = f"cascade_{task.bits}bit_{task.servers}servers" if name is None else name
    _check_name(chosen)
    for level, onn in enumerate(networks, 1):
        try:
            draft_circuit(onn, card, f"{chosen}_level{level}")
        except InputError as fault:
            raise InputError(f"level {level}, {origins[level - 1]}: {fault}") from fault
    return CascadePlan(networks, origins, chosen, process, card, random_sets, seed, loss_db)


def _check_name(name: str) -> None:
    if not CASCADE_NAME.fullmatch(name):
        raise InputError(
            f"name {name!r}: the names of chips and files begin with it; use 1 to 25 letters, digits and underscores, "
            "a letter or digit first"
        )


def _origin(source: Source | None) -> str:
    """Where the weights of a level come from, for messages and the report."""
    if source is None:
        return "comparators"
    return "network" if isinstance(source, Onn) else Path(source).name


def _networks(
    bits: int | None,
    servers: int | None,
    sources: Sequence[Source | None],
    activation: Activation | None,
    origins: Sequence[str],
) -> tuple[Onn, Onn]:
    """The networks of both levels; missing ones are comparators for the task of the given one."""
    if activation is not None and not any(isinstance(source, str | Path) for source in sources):
        raise InputError(f"activation {activation} has no effect without a weight file; leave it out, or give one")
    given = [_with_task(source, activation) for source in sources]
    known = next((onn.task for onn in given if onn is not None), None)
    if known is None and (bits is None or servers is None):
        raise InputError(
            "bits or servers are missing: give both, such as --bits 8 --servers 4, or the weights of a level as .npz, "
            "which states them"
        )
    for what, value, stated in (
        ("bits", bits, None if known is None else known.bits),
        ("servers", servers, None if known is None else known.servers),
    ):
        if value is not None and stated is not None and value != stated:
            raise InputError(
                f"{what} {value} contradict the weights, which are for {stated}; give {stated}, or leave it out"
            )
    sizes = (int(bits or 0), int(servers or 0)) if known is None else (known.bits, known.servers)
    if sizes[1] < 2:
        raise InputError(f"servers is {sizes[1]}: every chip of a cascade averages 2 or more words; give at least 2")
    try:
        tasks = cascade_tasks(*sizes, max(sizes[0] // 2, 1))
        first, second = (
            _for_task(source, task, activation) if onn is None else onn
            for task, onn, source in zip(tasks, given, sources, strict=True)
        )
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    if (first.task, second.task) != tasks:
        raise InputError(
            f"the levels do not belong together: level 1, {origins[0]}, computes {_task_text(first.task)}; level 2, "
            f"{origins[1]}, computes {_task_text(second.task)}; level 1 needs remainder = true, level 2 finer_input = "
            "true, both the same bits and servers, and one group for each symbol; optinc synth writes such networks "
            "with --remainder and --finer-input"
        )
    return first, second


def _with_task(source: Source | None, activation: Activation | None) -> Onn | None:
    """The network of a source that states its task; None for others."""
    if source is None or isinstance(source, Onn):
        return source
    return None if Path(source).suffix.lower() in WITHOUT_TASK else Onn.load(source, activation=activation)


def _for_task(source: Source | None, task: Averaging, activation: Activation | None) -> Onn:
    """The network of a file without task; comparators if there is none."""
    if isinstance(source, str | Path):
        return load_for_task(Path(source), task, activation)
    return comparator_network(task)


def _task_text(task: Averaging) -> str:
    flags = [name for name in ("remainder", "finer_input") if getattr(task, name)]
    return (
        f"{task.bits} bits, {task.servers} servers, {task.groups} groups, {' and '.join(flags) or 'no cascade option'}"
    )
