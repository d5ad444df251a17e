"""What a build begins with: the network or matrix, the process with its options, and the names of the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optinc_pdk.cards import Process, card_digests, load_process, with_link
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.matrices import MatrixTarget
from optinc_pdk.memory_limit import refuse_beyond_memory
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.options import ProgramOptions
from optinc_pdk.pipeline.outputs import BuildFiles, chip_name
from optinc_pdk.pipeline.stages import Clock
from optinc_pdk.pipeline.tasks.chip_task import ChipTask
from optinc_pdk.pipeline.tasks.sources import CheckedNetwork, Source, read_source, refuse_options


@dataclass(frozen=True, eq=False)
class BuildInputs:
    """Inputs of a build, checked.

    Attributes:
        source: The network or matrix.
        prefix: Beginning of messages about it.
        process: Process with the options of this build.
        cards: Name of the process and digests of its cards, without these options, for the report.
        out: Files of the build.
    """

    source: AveragingNetwork | CheckedNetwork | MatrixTarget
    prefix: str
    process: Process
    cards: dict[str, Any]
    out: BuildFiles


def read_inputs(target: Source | None, staged: StagedFiles, options: ProgramOptions) -> BuildInputs:
    """Read the inputs of a build.

    Raises:
        InputError: One of them cannot be used, or has no effect on the others.
    """
    source, stem, prefix = read_source(target, options)
    out = BuildFiles(staged, chip_name(stem, options.name))
    if not isinstance(source, AveragingNetwork):
        refuse_options("a network that averages words", link=options.link, receivers=options.receivers)
    stated = load_process(options.process)
    cards = {"name": stated.name, "cards": card_digests(stated)}
    card = with_link(stated, options.link, options.receivers)
    # not at the top: it imports klayout
    from optinc_pdk.extract.golden_devices import check_golden

    check_golden(card)
    out.check()
    return BuildInputs(source, prefix, card, cards, out)


def factored(task: ChipTask[Any, Any, Any], clock: Clock) -> Any:
    """Return the factors of a task's matrices.

    Raises:
        InputError: The build needs more memory than the machine has, or no chip of the process can realise them.
    """
    size = task.estimate()
    refuse_beyond_memory(size.memory_gb, size.chip, size.remedy)
    with clock.stage("factor"):
        return task.factor()
