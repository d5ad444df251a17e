"""The whole pipeline: trained weights or a matrix in, a signed-off chip out.

Layout and sign-off tools are imported only after the weights or the matrix, the name and the process have been read, so
that unusable input is refused at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from optinc_pdk.cards import DEFAULT_PROCESS, Link, Receivers, card_digests, load_process, with_link
from optinc_pdk.chip_sign_off import FILE_ENDINGS, REPORT_ENDING, Build, BuildFiles, Clock, finish
from optinc_pdk.chip_tasks.averaging_task import AveragingTask
from optinc_pdk.chip_tasks.chip_task import ChipTask
from optinc_pdk.chip_tasks.general_task import GeneralTask
from optinc_pdk.chip_tasks.matrix_task import MatrixTask
from optinc_pdk.chip_tasks.sources import CheckedNetwork, CheckOptions, Data, Source, read_source, refuse_options
from optinc_pdk.circuit import write_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshShape
from optinc_pdk.file_sets import StagedFiles, output_targets
from optinc_pdk.matrices import MatrixReading, MatrixTarget
from optinc_pdk.memory_limit import refuse_beyond_memory
from optinc_pdk.onn import Onn
from optinc_pdk.validation import validate_arguments

CHIP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}")


@validate_arguments
def build(
    weights: Source | None = None,
    directory: str | Path = "gds_out",
    name: str | None = None,
    process: str = DEFAULT_PROCESS,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    input_amplitudes: Sequence[float] | None = None,
    link: Link | None = None,
    receivers: Receivers | None = None,
    port_metadata: bool = False,
    read: MatrixReading | None = None,
    tolerance: float | None = None,
    data: Data | None = None,
    agreement: float | None = None,
    accuracy: float | None = None,
    extra_columns: int | None = None,
) -> Build:
    """Build a chip from trained weights or from a matrix, and check it.

    If a check fails, the files are written nevertheless and the report has the verdict "fail".

    Args:
        weights: Weight file or network, which is a general network if it has no averaging task; or a matrix as an
            array, a file or a :class:`optinc_pdk.matrices.MatrixTarget`. By default the bundled 4-bit network.
        directory: Folder for the chip's files.
        name: Chip name, 1 to 32 letters, digits and underscores; by default the stem of the weight file, or "chip".
        process: Process name, or a folder with process cards.
        on_stage: Called with the name of each stage, one of ``STAGES``, when it begins.
        on_progress: Called within a long stage with its name, the number of steps done and their total.
        input_amplitudes: Amplitude of level 3 of each symbol in the input fibres, most significant first; 1 is the
            carrier's amplitude in its fibre. By default the largest value of any input has amplitude 1.
        link: How the outputs reach the servers, see :class:`optinc_pdk.cards.electronics.LinkCard`; by default the
            process's.
        receivers: How the servers detect them; by default the process's.
        port_metadata: Whether the layout file also has kfactory's metadata about ports. No check reads it.
        read: For a matrix, what is read at the outputs: fields (default), the real parts of a real matrix, or powers.
        tolerance: For a matrix, largest accepted error of an entry, relative to the largest entry; for a general
            network without labels, largest accepted deviation of an output, relative to the largest output; by default
            0.01.
        data: For a general network, what its chip is checked with: a data file, or (S, K) inputs, or a tuple of inputs
            and labels (S,) or outputs (S, M). By default random inputs within the network's range.
        agreement: For a general network, smallest accepted share of samples on which chip and network agree; by default
            0.999.
        accuracy: For a general network and data with labels, smallest accepted share of samples for which the chip
            chooses the label; by default what the network's card states, less what ``agreement`` allows, if it states
            one.
        extra_columns: For a matrix, number of redundant columns of MZIs of each mesh, 0 to 64; by default 0.

    Returns:
        The build; its ``passed`` states whether every check passed.

    Raises:
        InputError: The weights, the name, the process, the amplitudes or the folder cannot be used; nothing is written.
    """
    with StagedFiles(directory) as staged:
        built = build_staged(
            weights,
            staged,
            name,
            process,
            on_stage,
            on_progress,
            input_amplitudes,
            link,
            receivers,
            port_metadata,
            read,
            tolerance,
            data,
            agreement,
            accuracy,
            extra_columns,
        )
        from optinc_pdk.report.build_files import cascades_of

        # a cascade's report vouches for those of its chips; this build has none, so the earlier one is deleted
        outdated = cascades_of(staged.directory, built.report.name)
        publish(staged, built.report.name, reports=[path.name for path in outdated])
    notes = [f"{path}: deleted, because it was the report of a cascade with the earlier chip" for path in outdated]
    return replace(built, findings=(*built.findings, *notes))


def publish(staged: StagedFiles, *names: str, reports: Sequence[str] = (), stale: Sequence[str] = ()) -> None:
    """Replace earlier builds of chips by new ones.

    Args:
        staged: Files of the chips.
        names: Names of the chips.
        reports: Names of further files that vouch for the chips' reports; those that the set does not have are deleted.
        stale: Names of further files of an earlier build, deleted unless the set has them.
    """
    endings = [f"{name}{ending}" for name in names for ending in FILE_ENDINGS]
    staged.publish([*(f"{name}{REPORT_ENDING}" for name in names), *reports], [*endings, *stale])


def build_staged(
    weights: Source | None,
    staged: StagedFiles,
    name: str | None,
    process: str,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    input_amplitudes: Sequence[float] | None = None,
    link: Link | None = None,
    receivers: Receivers | None = None,
    port_metadata: bool = False,
    read: MatrixReading | None = None,
    tolerance: float | None = None,
    data: Data | None = None,
    agreement: float | None = None,
    accuracy: float | None = None,
    extra_columns: int | None = None,
) -> Build:
    """Build a chip into a set of files that :func:`publish` makes visible; arguments and errors as of :func:`build`."""
    clock = Clock(on_stage, on_progress)
    with clock.stage("read"):
        checks = CheckOptions(read, tolerance, data, agreement, accuracy)
        source, stem, prefix = read_source(weights, checks)
        name = chip_name(stem, name)
        if not isinstance(source, Onn):
            words = {"input_amplitudes": input_amplitudes, "link": link, "receivers": receivers}
            refuse_options("a network that averages words", **words)
        if not isinstance(source, MatrixTarget):
            refuse_options("a matrix", extra_columns=extra_columns)
        # digests of the cards as they are, without the options of this build
        stated = load_process(process)
        cards = {"name": stated.name, "cards": card_digests(stated)}
        card = with_link(stated, link, receivers)
        task: ChipTask[Any, Any, Any]
        if isinstance(source, MatrixTarget):
            task = MatrixTask(source, card, _mesh_shape(extra_columns), prefix)
        elif isinstance(source, CheckedNetwork):
            task = GeneralTask(source, card)
        else:
            _check_amplitudes(source, input_amplitudes)
            task = AveragingTask(source, card, input_amplitudes)
        out = BuildFiles(staged, name)
        # refused before anything is computed
        output_targets(staged.directory, [f"{name}{ending}" for ending in (*FILE_ENDINGS, REPORT_ENDING)])
        # not at the top: it imports klayout
        from optinc_pdk.extract.golden_devices import check_golden

        check_golden(card)
        notes = list(task.notes)
    return _build_task(task, staged, out, cards, clock, notes, port_metadata)


def _build_task(
    task: ChipTask[Any, Any, Any],
    staged: StagedFiles,
    out: BuildFiles,
    cards: dict[str, Any],
    clock: Clock,
    notes: list[str],
    port_metadata: bool,
) -> Build:
    """Build and check the chip of a task."""
    from optinc_pdk.cells.golden_files import check_golden_files
    from optinc_pdk.layout import lay_out, to_layout, write_gds
    from optinc_pdk.pdk import active_pdk

    card = task.process
    size = task.estimate()
    refuse_beyond_memory(size.memory_gb, size.chip, size.remedy)
    with clock.stage("factor"):
        factors = task.factor()
    with clock.stage("assemble"):
        draft = task.draft(factors, out.name)
    with clock.stage("layout"):
        with active_pdk(card):
            check_golden_files(card)
        circuit, chip = lay_out(draft, card)
        task.check_layout(chip)
        layout = to_layout(chip, card, out.name, port_metadata)
    write_gds(layout, out.path(".gds"))
    write_netlist(circuit, out.path(".pic.yml"))
    return finish(task, factors, circuit, chip, out, cards, clock, notes)


def _mesh_shape(extra_columns: int | None) -> MeshShape:
    """Return the shape of a matrix's meshes."""
    try:
        return MeshShape(extra_columns=extra_columns or 0)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def chip_name(stem: str, name: str | None) -> str:
    """Return the name of a chip: the given one, or one that is made of a file's stem.

    Args:
        stem: Stem of the file.
        name: The given name; None for none.

    Raises:
        InputError: The name cannot be that of a GDS cell and of files.
    """
    chosen = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:32] if name is None else name
    if not CHIP_NAME.fullmatch(chosen):
        raise InputError(
            f"name {chosen!r}: it becomes the name of a GDS cell and of files; use 1 to 32 letters, digits and "
            "underscores, a letter or digit first"
        )
    return chosen


def _check_amplitudes(onn: Onn, amplitudes: Sequence[float] | None) -> None:
    """Check the amplitudes of level 3 by symbol."""
    task = onn.task
    if amplitudes is None:
        return
    if len(amplitudes) != task.symbols or not all(0.0 < amplitude <= 1.0 for amplitude in amplitudes):
        raise InputError(
            f"input amplitudes {[float(a) for a in amplitudes]}: give {task.symbols}, one for each symbol, above 0 and "
            "at most 1, the carrier's amplitude"
        )
