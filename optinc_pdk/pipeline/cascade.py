"""Build of a cascade: chips of both levels, and words of N² servers through them, from weights to a verdict.

Level 1 is built first. Its receiver scales state the field of a level in its output fibres; level 2 is factored and
programmed for these amplitudes. Both chips are then read back from their written files and connected in simulation.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.assemble import draft_circuit
from optinc_pdk.cards import Process, load_process
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import StagedFiles, output_targets
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import AveragingNetwork, comparator_network
from optinc_pdk.networks.network import cascade_tasks
from optinc_pdk.options import BuildOptions, CascadeOptions
from optinc_pdk.pipeline import outputs
from optinc_pdk.pipeline.building import build_staged
from optinc_pdk.pipeline.stages import STAGES, Build, Clock
from optinc_pdk.report.build_files import BUILD_ENDING, file_digest
from optinc_pdk.validation import validate_api

if TYPE_CHECKING:
    from optinc_pdk.report.cascade_report import CascadeReport
    from optinc_pdk.signoff.cascade_words import CascadeResult
    from optinc_pdk.signoff.extracted_chip import ExtractedChip

__all__ = ["CASCADE_STAGES", "CascadeBuild", "CascadePlan", "build_cascade"]

CASCADE_STAGES = (*(f"level {level}: {stage}" for level in (1, 2) for stage in STAGES), "words")
CASCADE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,24}")
Source = str | Path | AveragingNetwork


@dataclass(frozen=True)
class CascadePlan:
    """What is built: networks with the origin of their weights, names, process and words."""

    networks: tuple[AveragingNetwork, AveragingNetwork]
    origins: tuple[str, str]
    name: str
    card: Process
    options: CascadeOptions

    @property
    def chips(self) -> tuple[str, str]:
        """Names of the chips."""
        return f"{self.name}_level1", f"{self.name}_level2"


def plan_cascade(options: CascadeOptions) -> CascadePlan:
    """Read and check everything that can be refused before a chip is built.

    Raises:
        InputError: An option cannot be used, the levels do not belong together, or a level has no circuit.
    """
    name, loss_db = options.name, options.loss_db
    if name is not None:
        _check_name(name)
    if not math.isfinite(loss_db):
        raise InputError(f"loss between the levels: {loss_db:g} dB; give a finite loss of at least 0 dB")
    card = load_process(options.process)
    sources = (options.first, options.second)
    origins = (_origin(sources[0]), _origin(sources[1]))
    networks = _networks(options.bits, options.servers, sources, origins)
    task = networks[0].task
    chosen = f"cascade_{task.bits}bit_{task.servers}servers" if name is None else name
    _check_name(chosen)
    for level, onn in enumerate(networks, 1):
        try:
            draft_circuit(onn, card, f"{chosen}_level{level}")
        except InputError as fault:
            raise InputError(f"level {level}, {origins[level - 1]}: {fault}") from fault
    return CascadePlan(networks, origins, chosen, card, options)


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
    return "network" if isinstance(source, AveragingNetwork) else Path(source).name


def _networks(
    bits: int | None,
    servers: int | None,
    sources: Sequence[Source | None],
    origins: Sequence[str],
) -> tuple[AveragingNetwork, AveragingNetwork]:
    """The networks of both levels; missing ones are comparators for the task of the given one."""
    given = [_network(source) for source in sources]
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
            comparator_network(task) if onn is None else onn for task, onn in zip(tasks, given, strict=True)
        )
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    if (first.task, second.task) != tasks:
        raise InputError(
            f"the levels do not belong together: level 1, {origins[0]}, computes {first.task}; level 2, "
            f"{origins[1]}, computes {second.task}; level 1 needs remainder = true, level 2 finer_input = "
            "true, both the same bits and servers, and one group for each symbol; optinc synth writes such networks "
            "with --remainder and --finer-input"
        )
    return first, second


def _network(source: Source | None) -> AveragingNetwork | None:
    """The network of a level; None if none is given."""
    return source if source is None or isinstance(source, AveragingNetwork) else AveragingNetwork.load(source)


ENDINGS = (".cascade.png", ".cascade.txt", ".cascade.json")
"""Endings of the cascade's own files; the last one is its report."""


def own_files(plan: CascadePlan) -> list[str]:
    """Return the names of the cascade's own files, its report last."""
    return [f"{plan.name}{ending}" for ending in ENDINGS]


def publish(
    plan: CascadePlan, numbers: dict[str, Any], result: CascadeResult | None, staged: StagedFiles
) -> CascadeReport:
    """Write the cascade's own files and make them visible together with those of both chips.

    Args:
        plan: The plan of the build.
        numbers: Fields of the report; its verdict becomes "pass" if nothing failed.
        result: Words through both levels; None if they were not sent.
        staged: Files of both chips.

    Returns:
        The report as written.
    """
    from optinc_pdk.report.cascade_report import CascadeReport, cascade_text
    from optinc_pdk.report.plots import outputs_png

    if not CascadeReport.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    picture, text, summary = own_files(plan)
    written: dict[str, bytes] = {}
    if result is not None:
        written[picture] = outputs_png(result.outputs, result.levels.astype(float))
    draft = CascadeReport.model_validate(numbers)
    written[text] = cascade_text(draft).encode()
    files = {name: hashlib.sha256(content).hexdigest() for name, content in written.items()}
    report = draft.model_copy(update={"files": files})
    for name, content in written.items():
        write_atomic(staged.path(name), content)
    write_atomic(staged.path(summary), report.to_json().encode())
    outputs.publish(staged, *plan.chips, reports=[summary], stale=[picture, text])
    return report


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


def build_cascade(
    out: str | Path = "gds_out",
    options: CascadeOptions | None = None,
    *,
    on_stage: Callable[[str], None] | None = None,
) -> CascadeBuild:
    """Build the chips of both levels of a cascade and check words of N² servers against the one-level average.

    If a check fails, or a chip misses a budget of the process that ``options.accept`` does not name, the files are
    written nevertheless and the report has the verdict "fail".

    Examples:
        >>> import optinc_pdk as op
        >>> cascade = op.build_cascade("out", op.CascadeOptions(bits=8, servers=4))  # doctest: +SKIP

    Args:
        out: Folder for the files of both chips and of the cascade.
        options: Weights of both levels, or the numbers of bits and servers, and the words that are checked.
        on_stage: Called with the name of each stage, one of ``CASCADE_STAGES``, when it begins.

    Returns:
        The build; its ``passed`` states whether both chips passed and all words are exact.

    Raises:
        InputError: An option cannot be used, or the levels do not belong together; nothing is written.
    """
    chosen = options or CascadeOptions()
    plan = plan_cascade(chosen)
    output_targets(Path(out), own_files(plan))
    with StagedFiles(out) as staged:
        return _build(plan, staged, on_stage)


def _build(
    plan: CascadePlan,
    staged: StagedFiles,
    on_stage: Callable[[str], None] | None,
) -> CascadeBuild:
    from optinc_pdk.signoff.cascade_words import check_cascade, link_amplitudes, link_extracted
    from optinc_pdk.simulate import UnsettledError

    def clock(level: int) -> Clock:
        return Clock(None if on_stage is None else lambda name: on_stage(f"level {level}: {name}"))

    def both(name: str, amplitudes: Sequence[float] | None) -> BuildOptions:
        return BuildOptions(name=name, process=options.process, input_amplitudes=amplitudes, accept=options.accept)

    names, options = plan.chips, plan.options
    first = build_staged(plan.networks[0], staged, both(names[0], None), clock(1))
    lower = _extracted(staged, names[0], plan.card)
    amplitudes = None if lower is None else link_amplitudes(lower.board, lower.bias, plan.options.loss_db)
    second = build_staged(plan.networks[1], staged, both(names[1], amplitudes), clock(2))
    upper = _extracted(staged, names[1], plan.card)
    findings = [f"{names[i]}: {line}" for i, one in enumerate((first, second)) for line in one.findings]
    result: CascadeResult | None = None
    start = time.perf_counter()
    if lower is not None and upper is not None:
        if on_stage is not None:
            on_stage("words")
        try:
            chips = link_extracted(lower, upper, plan.card, plan.options.loss_db)
            tasks = [onn.task for onn in plan.networks]
            result = check_cascade(chips, tasks, plan.options.random_sets, plan.options.seed)
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
            _level_numbers(plan, number, one, chip, staged)
            for number, (one, chip) in enumerate(((first, lower), (second, upper)))
        ],
        "link": None if amplitudes is None else _link_numbers(amplitudes, plan.options.loss_db),
        "words": None if result is None else _word_numbers(plan, result),
        "findings": findings,
        "seconds": seconds,
    }
    return CascadeBuild(publish(plan, numbers, result, staged), staged.directory, first, second, result)


def _extracted(staged: StagedFiles, name: str, card: Process) -> ExtractedChip | None:
    """The chip as read back from its files; None if it was not programmed."""
    from optinc_pdk.signoff.extracted_chip import read_extracted_chip

    gds, netlist, bias = (staged.path(f"{name}{ending}") for ending in (".gds", ".pic.yml", ".bias.yml"))
    return read_extracted_chip(gds, netlist, bias, card) if bias.exists() else None


def _level_numbers(
    plan: CascadePlan, number: int, one: Build, chip: ExtractedChip | None, staged: StagedFiles
) -> dict[str, Any]:
    report, onn = one.report, plan.networks[number]
    function = report.function
    return {
        "name": report.name,
        "weights": plan.origins[number],
        "task": report.task.model_dump(),
        "verdict": report.verdict,
        "accepted": report.accepted,
        "report": file_digest(staged.path(f"{report.name}{BUILD_ENDING}")),
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


def _word_numbers(plan: CascadePlan, result: CascadeResult) -> dict[str, Any]:
    from optinc_pdk.io.formatting import error_numbers

    return {
        "sets": result.sets,
        "random": plan.options.random_sets,
        "seed": plan.options.seed,
        "receivers": result.words // result.sets,
        "exact": result.exact,
        "margin": result.margin,
        "margins": result.margins.tolist(),
        "errors": error_numbers(result.errors),
        "level1_margin": result.level1_margin,
        "quadrature": result.quadrature,
    }


validate_api(__name__)
