"""What a build begins with: what the chip is for, the process with its options, and the names of the files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optinc_pdk.cards import card_digests, load_process
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.memory_limit import refuse_beyond_memory
from optinc_pdk.options import ProgramOptions
from optinc_pdk.pipeline.outputs import BuildFiles, chip_name
from optinc_pdk.pipeline.stages import Clock
from optinc_pdk.tasks.chip_task import ChipTask
from optinc_pdk.tasks.reading import Source, read_task


@dataclass(frozen=True, eq=False)
class BuildInputs:
    """Inputs of a build, checked.

    Attributes:
        task: What the chip is for, and the process with the options of this build.
        cards: Name of the process and digests of its cards, without these options, for the report.
        out: Files of the build.
    """

    task: ChipTask[Any, Any, Any]
    cards: dict[str, Any]
    out: BuildFiles


def read_inputs(
    target: Source | None, staged: StagedFiles, options: ProgramOptions, matrix: tuple[Path, str, str] | None = None
) -> BuildInputs:
    """Read the inputs of a build.

    Args:
        target: What the chip is for; None for the bundled network.
        staged: Files of the build.
        options: Options of the build.
        matrix: What the report of an existing chip states of its matrix; None if nothing.

    Raises:
        InputError: One of them cannot be used, or has no effect on the others.
    """
    stated = load_process(options.process)
    task, stem = read_task(target, stated, options, matrix)
    out = BuildFiles(staged, chip_name(stem, options.name))
    # not at the top: it imports klayout
    from optinc_pdk.extract.golden_devices import check_golden

    check_golden(task.process)
    out.check()
    return BuildInputs(task, {"name": stated.name, "cards": card_digests(stated)}, out)


def factored(task: ChipTask[Any, Any, Any], clock: Clock) -> Any:
    """Return the factors of a task's matrices.

    Raises:
        InputError: The build needs more memory than the machine has, or no chip of the process can realise them.
    """
    size = task.estimate()
    refuse_beyond_memory(size.memory_gb, size.chip, size.remedy)
    with clock.stage("factor"):
        return task.factor()
