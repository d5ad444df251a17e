"""Build of a cascade: chips of both levels, and words of N² servers through them, from weights to a verdict.

Level 1 is built first. Its receiver scales state the field of a level in its output fibres; level 2 is factored and
programmed for these amplitudes. Both chips are then read back from their written files and connected in simulation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.cards import DEFAULT_PROCESS, Process
from optinc_pdk.cascade_build.files import own_files, publish
from optinc_pdk.cascade_build.plan import CascadePlan, Source, plan_cascade
from optinc_pdk.chip_sign_off import STAGES, Build, Clock
from optinc_pdk.file_sets import StagedFiles, output_targets
from optinc_pdk.flow import BuildOptions, build_staged
from optinc_pdk.report.build_files import BUILD_ENDING, file_digest
from optinc_pdk.report.schema import Budget

if TYPE_CHECKING:
    from optinc_pdk.onn import Activation
    from optinc_pdk.report.cascade_report import CascadeReport
    from optinc_pdk.signoff.cascade import CascadeResult
    from optinc_pdk.signoff.extracted_chip import ExtractedChip

CASCADE_STAGES = (*(f"level {level}: {stage}" for level in (1, 2) for stage in STAGES), "words")
RANDOM_SETS = 100_000
"""Default number of random word sets."""


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
    activation: Activation | None = None,
    accept: Sequence[Budget] = (),
) -> CascadeBuild:
    """Build the chips of both levels of a cascade and check words of N² servers against the one-level average.

    If a check fails, or a chip misses a budget of the process that ``accept`` does not name, the files are written
    nevertheless and the report has the verdict "fail".

    Args:
        bits: Bits of a word; None for those of the weights that are given. Files other than .npz contain no task.
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
        activation: Activation of the hidden layers of weight files; those that state one must agree with it.
        accept: Names of the budgets of the process that the chips may miss, as for :func:`optinc_pdk.build`.

    Returns:
        The build; its ``passed`` states whether both chips passed and all words are exact.

    Raises:
        InputError: An argument cannot be used, or the levels do not belong together; nothing is written.
    """
    plan = plan_cascade(bits, servers, first, second, name, process, random_sets, seed, loss_db, activation)
    output_targets(Path(directory), own_files(plan))
    with StagedFiles(directory) as staged:
        return _build(plan, staged, on_stage, accept)


def _build(
    plan: CascadePlan,
    staged: StagedFiles,
    on_stage: Callable[[str], None] | None,
    accept: Sequence[Budget],
) -> CascadeBuild:
    from optinc_pdk.signoff.cascade import check_cascade, link_amplitudes, link_extracted
    from optinc_pdk.simulate import UnsettledError

    def clock(level: int) -> Clock:
        return Clock(None if on_stage is None else lambda name: on_stage(f"level {level}: {name}"))

    names = plan.chips
    first = build_staged(plan.networks[0], staged, BuildOptions(names[0], plan.process, accept=accept), clock(1))
    lower = _extracted(staged, names[0], plan.card)
    amplitudes = None if lower is None else link_amplitudes(lower.board, lower.bias, plan.loss_db)
    options = BuildOptions(names[1], plan.process, amplitudes, accept=accept)
    second = build_staged(plan.networks[1], staged, options, clock(2))
    upper = _extracted(staged, names[1], plan.card)
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
            _level_numbers(plan, number, one, chip, staged)
            for number, (one, chip) in enumerate(((first, lower), (second, upper)))
        ],
        "link": None if amplitudes is None else _link_numbers(amplitudes, plan.loss_db),
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
