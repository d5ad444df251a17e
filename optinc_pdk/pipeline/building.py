"""The whole pipeline: trained weights or a matrix in, a signed-off chip out.

Layout and sign-off tools are imported only after the weights or the matrix, the name and the process have been read, so
that unusable input is refused at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optinc_pdk.assemble import CircuitPlan
from optinc_pdk.circuit import Circuit, write_netlist
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline.inputs import factored, read_inputs
from optinc_pdk.pipeline.outputs import publish_chip
from optinc_pdk.pipeline.sign_off import finish
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.tasks.chip_task import ChipTask
from optinc_pdk.tasks.reading import Source
from optinc_pdk.validation import validate_arguments

if TYPE_CHECKING:
    from optinc_pdk.layout import ChipLayout


@validate_arguments
def build(
    target: Source | None = None,
    out: str | Path = "gds_out",
    options: BuildOptions | None = None,
    *,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Build:
    """Build a chip from trained weights or from a matrix, and check it.

    If a check fails, or the chip misses a budget of the process that ``options.accept`` does not name, the files are
    written nevertheless and the report has the verdict "fail".

    Examples:
        >>> import optinc_pdk as op
        >>> options = op.BuildOptions(process="soi220_flipchip", accept=["rate"])
        >>> chip = op.build("weights.npz", "out", options)  # doctest: +SKIP

    Args:
        target: Weight file or network, which is a general network if it has no averaging task; or a matrix as an
            array, a file or a :class:`optinc_pdk.matrices.MatrixTarget`. By default the bundled 4-bit network.
        out: Folder for the chip's files.
        options: Options of the build.
        on_stage: Called with the name of each stage, one of ``STAGES``, when it begins.
        on_progress: Called within a long stage with its name, the number of steps done and their total.

    Returns:
        The build; its ``passed`` states whether every check passed, and every budget holds or was accepted.

    Raises:
        InputError: The target, an option or the folder cannot be used; nothing is written.
    """
    chosen = options or BuildOptions()
    with StagedFiles(out) as staged:
        built = build_staged(target, staged, chosen, Clock(on_stage, on_progress))
        notes = publish_chip(staged, built.report.name)
    return replace(built, findings=(*built.findings, *notes))


def build_staged(target: Source | None, staged: StagedFiles, options: BuildOptions, clock: Clock) -> Build:
    """Build a chip into a set of files that a caller makes visible.

    Args:
        target: What the chip is built from, as for :func:`build`.
        staged: The files.
        options: Options of the build.
        clock: Clock of the stages.

    Raises:
        InputError: As for :func:`build`.
    """
    with clock.stage("read"):
        inputs = read_inputs(target, staged, options)
        task = inputs.task
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
        layout = to_layout(chip, card, out.name, options.port_metadata)
    write_gds(layout, out.path(".gds"))
    write_netlist(circuit, out.path(".pic.yml"))
    return finish(task, factors, circuit, chip, out, inputs.cards, clock, list(task.notes), options.accept)


def _laid_out(task: ChipTask[Any, Any, Any], draft: CircuitPlan) -> tuple[Circuit, ChipLayout]:
    """Lay out the circuit of a new chip.

    Raises:
        InputError: The chip is larger than any layout, or larger than the dies of the process and not to be drawn.
    """
    from optinc_pdk.layout import lay_out
    from optinc_pdk.layout.chip_layout import LIMITLESS_UM, NOT_BUILDABLE, OversizeError

    try:
        circuit, chip = lay_out(draft, task.process)
    except OversizeError as fault:
        raise task.too_large(f"would be larger than {LIMITLESS_UM / 1e3:g} mm") or fault from fault
    if chip.fit == NOT_BUILDABLE:
        error = task.too_large(f"would be {chip.width_um / 1e3:.1f} × {chip.height_um / 1e3:.1f} mm")
        if error is not None:
            raise error
    return circuit, chip
