"""Build of a cascade: chips of both levels, and words of N² servers through them, from weights to a verdict.

Level 1 is built first. Its receiver scales state the field of a level in its output fibres; level 2 is factored and
programmed for these amplitudes. Both chips are then read back from their written files and connected in simulation.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import DEFAULT_PROCESS, Process, load_process
from optinc_pdk.errors import InputError
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.flow import FILE_ENDINGS, STAGES, Build, build
from optinc_pdk.onn import Onn, comparator_network
from optinc_pdk.onn.cascade import cascade_tasks

if TYPE_CHECKING:
    from optinc_pdk.report.cascade_report import CascadeReport
    from optinc_pdk.signoff.cascade import CascadeResult
    from optinc_pdk.signoff.extracted_chip import ExtractedChip

CASCADE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,24}")
CASCADE_STAGES = (*(f"level {level}: {stage}" for level in (1, 2) for stage in STAGES), "words")
RANDOM_SETS = 100_000
"""Default number of random word sets."""
REPORT_ENDINGS = (".report.html", ".report.json")
Source = str | Path | Onn


@dataclass(frozen=True, eq=False)
class CascadeBuild:
    """A finished build of a cascade.

    Attributes:
        report: Content of ``cascade.json``.
        directory: Folder of all files.
        first: Build of the chip of level 1.
        second: Build of the chip of level 2.
        result: Words through both levels; None if a chip was not programmed.
    """

    report: CascadeReport
    directory: Path
    first: Build
    second: Build
    result: CascadeResult | None

    @property
    def passed(self) -> bool:
        """Whether both chips passed and every word set was exact."""
        return self.report.verdict == "pass"


@dataclass(frozen=True)
class _Plan:
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


def build_cascade(
    bits: int | None = None,
    servers: int | None = None,
    first: Source | None = None,
    second: Source | None = None,
    directory: str | Path = "gds_out",
    name: str | None = None,
    process: str = DEFAULT_PROCESS,
    random_sets: int = RANDOM_SETS,
    seed: int = 0,
    loss_db: float = 0.0,
    on_stage: Callable[[str], None] | None = None,
) -> CascadeBuild:
    """Build the chips of both levels of a cascade and check words of N² servers against the one-level average.

    If a check fails, the files are written nevertheless and the report has the verdict "fail".

    Args:
        bits: Bits of a word; None for those of the weights that are given.
        servers: Number of servers N of one chip; None for those of the weights that are given.
        first: Weights of level 1, a file or a network; by default comparators in closed form.
        second: Weights of level 2; by default comparators in closed form.
        directory: Folder for the files of both chips and of the cascade.
        name: Name of the cascade, 1 to 25 letters, digits and underscores; by default it states bits and servers.
        process: Process name, or a folder with process cards.
        random_sets: Number of random word sets that are checked beside the corner cases.
        seed: Seed of the random words.
        loss_db: Loss of a fibre between the levels in dB, with its connectors.
        on_stage: Called with the name of each stage, one of ``CASCADE_STAGES``, when it begins.

    Returns:
        The build; its ``passed`` states whether both chips passed and all words are exact.

    Raises:
        InputError: An argument cannot be used, or the levels do not belong together; nothing is written.
    """
    plan = _plan(bits, servers, first, second, name, process, random_sets, seed, loss_db)
    directory = Path(directory)
    # a build that is refused or interrupted leaves an earlier one in the folder untouched
    existing = next(folder for folder in (directory, *directory.absolute().parents) if folder.is_dir())
    with tempfile.TemporaryDirectory(prefix=f".{plan.name}.", dir=existing) as folder:
        return _build(plan, Path(folder), directory, on_stage)


def _build(
    plan: _Plan,
    staging: Path,
    directory: Path,
    on_stage: Callable[[str], None] | None,
) -> CascadeBuild:
    from optinc_pdk.signoff.cascade import check_cascade, link_amplitudes, link_extracted
    from optinc_pdk.simulate import UnsettledError

    def stage(level: int) -> Callable[[str], None] | None:
        return None if on_stage is None else lambda name: on_stage(f"level {level}: {name}")

    names = plan.chips
    first = build(plan.networks[0], staging, names[0], plan.process, stage(1))
    lower = _extracted(staging, names[0], plan.card)
    amplitudes = None if lower is None else link_amplitudes(lower.board, lower.bias, plan.loss_db)
    second = build(plan.networks[1], staging, names[1], plan.process, stage(2), input_amplitudes=amplitudes)
    upper = _extracted(staging, names[1], plan.card)
    findings = [f"{names[i]}: {line}" for i, one in enumerate((first, second)) for line in one.findings]
    result: CascadeResult | None = None
    start = time.perf_counter()
    if lower is not None and upper is not None:
        if on_stage is not None:
            on_stage("words")
        try:
            chips = link_extracted(lower, upper, plan.card, plan.loss_db)
            tasks = [onn.task for onn in plan.networks]
            result = check_cascade(chips, tasks, plan.random_sets, plan.seed)
        except UnsettledError as fault:
            findings.append(f"words: {fault}")
    if amplitudes is None:
        findings.append(
            f"{names[1]}: built for inputs of full scale; {names[0]} was not programmed, so its fields are unknown"
        )
    seconds = {
        **{chip: round(sum(one.report.seconds.values()), 3) for chip, one in zip(names, (first, second), strict=True)},
        "words": round(time.perf_counter() - start, 3),
    }
    numbers: dict[str, Any] = {
        "name": plan.name,
        "verdict": "fail",
        "process": plan.card.name,
        "bits": plan.networks[0].task.bits,
        "servers": plan.networks[0].task.servers ** 2,
        "servers_of_a_chip": plan.networks[0].task.servers,
        "levels": [
            _level_numbers(plan, number, one, chip, staging)
            for number, (one, chip) in enumerate(((first, lower), (second, upper)))
        ],
        "link": None if amplitudes is None else _link_numbers(amplitudes, plan.loss_db),
        "words": None if result is None else _word_numbers(plan, result),
        "findings": findings,
        "seconds": seconds,
    }
    report = _publish(plan, numbers, result, staging, directory)
    moved = [replace(one, directory=directory) for one in (first, second)]
    return CascadeBuild(report, directory, moved[0], moved[1], result)


def _plan(
    bits: int | None,
    servers: int | None,
    first: Source | None,
    second: Source | None,
    name: str | None,
    process: str,
    random_sets: int,
    seed: int,
    loss_db: float,
) -> _Plan:
    """Read and check everything that can be refused before a chip is built."""
    given = [
        None if source is None else (source if isinstance(source, Onn) else Onn.load(source))
        for source in (first, second)
    ]
    origins = tuple(
        "comparators" if source is None else ("network" if isinstance(source, Onn) else Path(source).name)
        for source in (first, second)
    )
    networks = _networks(bits, servers, given, [str(origin) for origin in origins])
    task = networks[0].task
    chosen = f"cascade_{task.bits}bit_{task.servers}servers" if name is None else name
    if not CASCADE_NAME.fullmatch(chosen):
        raise InputError(
            f"name {chosen!r}: the names of chips and files begin with it; use 1 to 25 letters, digits and "
            "underscores, a letter or digit first"
        )
    if random_sets < 0:
        raise InputError(f"random word sets: {random_sets} is below 0; give 0 or more")
    if seed < 0:
        raise InputError(f"seed {seed} is below 0; give 0 or more")
    if not (math.isfinite(loss_db) and loss_db >= 0.0):
        raise InputError(f"loss between the levels: {loss_db:g} dB; give a finite loss of at least 0 dB")
    card = load_process(process)
    for level, onn in enumerate(networks, 1):
        try:
            draft_circuit(onn, card, f"{chosen}_level{level}")
        except InputError as fault:
            raise InputError(f"level {level}, {origins[level - 1]}: {fault}") from fault
    return _Plan(networks, (origins[0], origins[1]), chosen, process, card, random_sets, seed, loss_db)


def _networks(
    bits: int | None, servers: int | None, given: Sequence[Onn | None], origins: Sequence[str]
) -> tuple[Onn, Onn]:
    """The networks of both levels; missing ones are comparators for the task of the given one."""
    known = next((onn.task for onn in given if onn is not None), None)
    if known is None and (bits is None or servers is None):
        raise InputError(
            "bits or servers are missing: give both, such as --bits 8 --servers 4, or the weights of a level"
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
            comparator_network(task) if onn is None else onn for task, onn in zip(tasks, given, strict=True)
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


def _task_text(task: Averaging) -> str:
    flags = [name for name in ("remainder", "finer_input") if getattr(task, name)]
    return (
        f"{task.bits} bits, {task.servers} servers, {task.groups} groups, {' and '.join(flags) or 'no cascade option'}"
    )


def _extracted(folder: Path, name: str, card: Process) -> ExtractedChip | None:
    """The chip as read back from its files; None if it was not programmed."""
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip

    gds, netlist, bias = (folder / f"{name}{ending}" for ending in (".gds", ".pic.yml", ".bias.yml"))
    return read_extracted_chip(gds, netlist, bias, card) if bias.exists() else None


def _level_numbers(plan: _Plan, number: int, one: Build, chip: ExtractedChip | None, staging: Path) -> dict[str, Any]:
    report, onn = one.report, plan.networks[number]
    function = report.function
    return {
        "name": report.name,
        "weights": plan.origins[number],
        "task": report.task.model_dump(),
        "verdict": report.verdict,
        "report": _digest(staging / f"{report.name}.report.json"),
        "structure": list(onn.structure),
        "mzis": onn.mzis,
        "mzis_on_chip": None if report.chip is None else report.chip.mzis,
        "exact": None if function is None else function.exact,
        "inputs": None if function is None else function.inputs,
        "margin": None if function is None else function.margin,
        "gain": None if chip is None else max(each.gain for each in chip.bias.activations.values()),
    }


def _link_numbers(amplitudes: Sequence[float], loss_db: float) -> dict[str, Any]:
    return {
        "fibre_loss_db": float(loss_db),
        "amplitudes": list(amplitudes),
        "loss_db": [-20.0 * math.log10(amplitude) for amplitude in amplitudes],
    }


def _word_numbers(plan: _Plan, result: CascadeResult) -> dict[str, Any]:
    from optinc_pdk.report.formatting import error_numbers

    return {
        "sets": result.sets,
        "random": plan.random_sets,
        "seed": plan.seed,
        "receivers": result.words // result.sets,
        "exact": result.exact,
        "margin": result.margin,
        "margins": result.margins.tolist(),
        "errors": error_numbers(result.errors),
        "level1_margin": result.level1_margin,
        "quadrature": result.quadrature,
    }


def _publish(
    plan: _Plan, numbers: dict[str, Any], result: CascadeResult | None, staging: Path, directory: Path
) -> CascadeReport:
    """Move the chips' files into the folder and write the cascade's own; each report comes after its files."""
    from optinc_pdk.report.cascade_report import CascadeReport, cascade_text
    from optinc_pdk.report.plots import outputs_png

    if not CascadeReport.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    written: dict[str, bytes] = {}
    if result is not None:
        written[f"{plan.name}.cascade.png"] = outputs_png(result.outputs, result.levels.astype(float))
    draft = CascadeReport.model_validate(numbers)
    written[f"{plan.name}.cascade.txt"] = cascade_text(draft).encode()
    files = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
    report = draft.model_copy(update={"files": files})
    directory.mkdir(parents=True, exist_ok=True)
    summary = directory / f"{plan.name}.cascade.json"
    for stale in (summary, directory / f"{plan.name}.cascade.png"):
        stale.unlink(missing_ok=True)
    for chip in plan.chips:
        _move_chip(chip, staging, directory)
    for name, content in written.items():
        write_atomic(directory / name, content)
    write_atomic(summary, report.to_json().encode())
    return report


def _move_chip(chip: str, staging: Path, directory: Path) -> None:
    """Move the files of a chip, its report last; files of an earlier build of this name are deleted."""
    (directory / f"{chip}.report.json").unlink(missing_ok=True)
    for ending in (*FILE_ENDINGS, *REPORT_ENDINGS):
        if (staging / f"{chip}{ending}").exists():
            os.replace(staging / f"{chip}{ending}", directory / f"{chip}{ending}")
        else:
            (directory / f"{chip}{ending}").unlink(missing_ok=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
