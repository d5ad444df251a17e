"""The whole pipeline: trained weights or a matrix in, a signed-off chip out.

Layout and sign-off tools are imported only after the weights or the matrix, the name and the process have been read, so
that unusable input is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.assemble import CircuitPlan
from optinc_pdk.cards import DEFAULT_PROCESS, Link, Receivers
from optinc_pdk.circuit import Circuit, write_netlist
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshKind
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.matrices import MatrixReading, MatrixTarget
from optinc_pdk.matrices.factorisation import mesh_shape
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.pipeline.inputs import BuildInputs, factored, read_inputs
from optinc_pdk.pipeline.outputs import publish_chip
from optinc_pdk.pipeline.sign_off import finish
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.pipeline.tasks.averaging_task import AveragingTask
from optinc_pdk.pipeline.tasks.chip_task import ChipTask
from optinc_pdk.pipeline.tasks.general_task import GeneralTask
from optinc_pdk.pipeline.tasks.matrix_task import MatrixTask
from optinc_pdk.pipeline.tasks.sources import CheckedNetwork, CheckOptions, Data, Source, refuse_options
from optinc_pdk.report.schema import Budget
from optinc_pdk.validation import validate_arguments

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout


@dataclass(frozen=True, eq=False)
class BuildOptions:
    """Options of a build; None stands for the default that :func:`build` describes.

    Attributes:
        name: Chip name.
        process: Process name or folder.
        input_amplitudes: For averages, amplitude of level 3 of each symbol.
        link: For averages, how the outputs reach the servers.
        receivers: For averages, how the servers detect them.
        port_metadata: Whether the layout file has metadata about ports.
        mesh: For a matrix, shape of its meshes.
        extra_columns: For a matrix, number of redundant columns of each mesh.
        checks: Options of the check.
        accept: Names of the budgets of the process that the chip may miss.
    """

    name: str | None = None
    process: str = DEFAULT_PROCESS
    input_amplitudes: Sequence[float] | None = None
    link: Link | None = None
    receivers: Receivers | None = None
    port_metadata: bool = False
    mesh: MeshKind | None = None
    extra_columns: int | None = None
    checks: CheckOptions = field(default_factory=CheckOptions)
    accept: Sequence[Budget] = ()


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
    mesh: MeshKind | None = None,
    accept: Sequence[Budget] = (),
) -> Build:
    """Build a chip from trained weights or from a matrix, and check it.

    If a check fails, or the chip misses a budget of the process that ``accept`` does not name, the files are written
    nevertheless and the report has the verdict "fail".

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
        link: How the outputs reach the servers, see :class:`optinc_pdk.cards.technology.LinkCard`; by default the
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
        mesh: For a matrix, shape of its meshes: a rectangle (default) or a triangle.
        accept: Names of the budgets of the process that the chip may miss: ``size``, ``pads``, ``power``, ``loss``,
            ``rate``. The verdict lists those that it misses.

    Returns:
        The build; its ``passed`` states whether every check passed, and every budget holds or was accepted.

    Raises:
        InputError: The weights, the name, the process, the amplitudes or the folder cannot be used; nothing is written.
    """
    options = BuildOptions(
        name=name,
        process=process,
        input_amplitudes=input_amplitudes,
        link=link,
        receivers=receivers,
        port_metadata=port_metadata,
        mesh=mesh,
        extra_columns=extra_columns,
        checks=CheckOptions(read, tolerance, data, agreement, accuracy),
        accept=accept,
    )
    with StagedFiles(directory) as staged:
        built = build_staged(weights, staged, options, Clock(on_stage, on_progress))
        notes = publish_chip(staged, built.report.name)
    return replace(built, findings=(*built.findings, *notes))


def build_staged(weights: Source | None, staged: StagedFiles, options: BuildOptions, clock: Clock) -> Build:
    """Build a chip into a set of files that a caller makes visible.

    Args:
        weights: What the chip is built from, as for :func:`build`.
        staged: The files.
        options: Options of the build.
        clock: Clock of the stages.

    Raises:
        InputError: As for :func:`build`.
    """
    with clock.stage("read"):
        inputs = read_inputs(
            weights, staged, options.name, options.process, options.link, options.receivers, options.checks
        )
        task = _task(inputs, options)
    factors = factored(task, clock)
    # not at the top: they import gdsfactory and klayout
    from optinc_pdk.cells.golden_files import check_golden_files
    from optinc_pdk.layout import to_layout, write_gds
    from optinc_pdk.pdk import active_pdk

    out, card = inputs.out, task.process
    with clock.stage("assemble"):
        draft = task.draft(factors, out.name)
    with clock.stage("layout"):
        with active_pdk(card):
            check_golden_files(card)
        circuit, chip = _laid_out(task, draft)
        task.check_layout(chip)
        layout = to_layout(chip, card, out.name, options.port_metadata)
    write_gds(layout, out.path(".gds"))
    write_netlist(circuit, out.path(".pic.yml"))
    return finish(task, factors, circuit, chip, out, inputs.cards, clock, list(task.notes), options.accept)


def _laid_out(task: ChipTask[Any, Any, Any], draft: CircuitPlan) -> tuple[Circuit, ChipLayout]:
    """Lay out the circuit of a new chip.

    Raises:
        InputError: The chip is larger than any layout; for a matrix, the message states its size and the process's die.
    """
    from optinc_pdk.layout import lay_out
    from optinc_pdk.layout.chip_layout import LIMITLESS_UM, OversizeError

    try:
        return lay_out(draft, task.process)
    except OversizeError as fault:
        if isinstance(task, MatrixTask):
            raise task.too_large(f"would be larger than {LIMITLESS_UM / 1e3:g} mm") from fault
        raise


def _task(inputs: BuildInputs, options: BuildOptions) -> ChipTask[Any, Any, Any]:
    """Return the task of a new chip.

    Raises:
        InputError: An option cannot be used, or has no effect on the network or matrix.
    """
    source = inputs.source
    if not isinstance(source, AveragingNetwork):
        refuse_options("a network that averages words", input_amplitudes=options.input_amplitudes)
    if isinstance(source, MatrixTarget):
        shape = mesh_shape(options.mesh, options.extra_columns)
        return MatrixTask(source, inputs.process, shape, inputs.prefix)
    refuse_options("a matrix", mesh=options.mesh, extra_columns=options.extra_columns)
    if isinstance(source, CheckedNetwork):
        return GeneralTask(source, inputs.process)
    _check_amplitudes(source, options.input_amplitudes)
    return AveragingTask(source, inputs.process, options.input_amplitudes)


def _check_amplitudes(onn: AveragingNetwork, amplitudes: Sequence[float] | None) -> None:
    """Check the amplitudes of level 3 by symbol."""
    task = onn.task
    if amplitudes is None:
        return
    if len(amplitudes) != task.symbols or not all(0.0 < amplitude <= 1.0 for amplitude in amplitudes):
        raise InputError(
            f"input amplitudes {[float(a) for a in amplitudes]}: give {task.symbols}, one for each symbol, above 0 and "
            "at most 1, the carrier's amplitude"
        )
