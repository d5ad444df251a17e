"""New weights for an existing chip: a new bias, checked on the chip's own layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from optinc_pdk.assemble import MatrixForm, matrix_form
from optinc_pdk.circuit import Circuit
from optinc_pdk.circuit.netlist_files import netlist_dict
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.io.reading import GDS, LAYOUT, NETLIST, OASIS, read_bytes
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.matrices import READINGS, MatrixTarget
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.options import ProgramOptions
from optinc_pdk.pipeline.inputs import BuildInputs, factored, read_inputs
from optinc_pdk.pipeline.outputs import BuildFiles, publish_chip
from optinc_pdk.pipeline.sign_off import finish
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.pipeline.tasks.averaging_task import AveragingTask
from optinc_pdk.pipeline.tasks.chip_task import ChipTask
from optinc_pdk.pipeline.tasks.general_task import GeneralTask
from optinc_pdk.pipeline.tasks.matrix_task import MatrixTask
from optinc_pdk.pipeline.tasks.sources import CheckedNetwork, Source, refuse_options
from optinc_pdk.validation import validate_arguments


@validate_arguments
def reprogram(
    gds: str | Path,
    netlist: str | Path,
    target: Source,
    out: str | Path = "gds_out",
    options: ProgramOptions | None = None,
    *,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Build:
    """Program an existing chip for other weights, or for another matrix, of the same shape, and check it.

    The files are those of a build. Layout and netlist are copies of those of the chip, byte for byte. If a check fails,
    or the chip misses a budget of the process that ``options.accept`` does not name, the files are written nevertheless
    and the report has the verdict "fail".

    Examples:
        >>> import optinc_pdk as op
        >>> options = op.ProgramOptions(name="other")
        >>> chip = op.reprogram("out/mine.gds", "out/mine.pic.yml", "other.npz", "out2", options)  # doctest: +SKIP

    Args:
        gds: Layout of the chip.
        netlist: Its netlist, ``.pic.yml``, as a build writes it.
        target: Weight file or network; or a matrix as an array, a file or a
            :class:`optinc_pdk.matrices.MatrixTarget`.
        out: Folder for the files.
        options: Options of the programming. Without ``read``, a matrix is read as the report beside the layout states;
            without a report, as fields if the chip has phase shifters at the outputs, else as powers.
        on_stage: Called with the name of each stage when it begins.
        on_progress: Called within a long stage with its name, the number of steps done and their total.

    Returns:
        The build; its ``passed`` states whether every check passed, and every budget holds or was accepted.

    Raises:
        InputError: A file or an option cannot be used, or the weights need another chip; nothing is written.
    """
    chosen = options or ProgramOptions()
    # a BuildOptions is a ProgramOptions with more fields
    more = {one.name for one in fields(chosen)} - {one.name for one in fields(ProgramOptions)}
    refuse_options("a build", **{name: getattr(chosen, name) or None for name in sorted(more)})
    clock = Clock(on_stage, on_progress)
    with StagedFiles(out) as staged:
        with clock.stage("read"):
            files = {".gds": (Path(gds), LAYOUT), ".pic.yml": (Path(netlist), NETLIST)}
            contents = {ending: read_bytes(path, kind) for ending, (path, kind) in files.items()}
            if not contents[".gds"].startswith((GDS, OASIS)):
                raise InputError(f"{gds}: neither GDS2 nor OASIS; give the layout of the chip")
            if contents[".gds"].startswith(OASIS):
                raise InputError(f"{gds}: is an OASIS file; the layout of a build is GDS2: write it as GDS2 first")
            circuit = Circuit.read(netlist)
            inputs = read_inputs(target, staged, chosen)
            written = inputs.out
            _refuse_own_files(written, {ending: path for ending, (path, _) in files.items()})
            reading_given = chosen.read is not None or isinstance(target, MatrixTarget)
            task = _task(inputs, circuit, Path(gds), Path(netlist), reading_given)
        factors = factored(task, clock)
        with clock.stage("layout"):
            from optinc_pdk.layout import lay_out

            needed, chip = lay_out(task.draft(factors, circuit.name), task.process)
            _check_same(circuit, needed, Path(netlist), inputs.prefix)
        for ending, content in contents.items():
            write_atomic(written.path(ending), content)
        built = finish(task, factors, circuit, chip, written, inputs.cards, clock, list(task.notes), chosen.accept)
        notes = publish_chip(staged, written.name)
    return replace(built, findings=(*built.findings, *notes))


def _task(
    inputs: BuildInputs, circuit: Circuit, gds: Path, netlist: Path, reading_given: bool
) -> ChipTask[Any, Any, Any]:
    """Return the task of an existing chip.

    Args:
        inputs: The new weights or matrix, and the process with the link of the chip.
        circuit: Circuit of the chip.
        gds: Its layout; the report beside it states how a matrix is read.
        netlist: Its file, for messages.
        reading_given: Whether the user said how a matrix is read.

    Raises:
        InputError: A matrix has another shape than the chip.
    """
    source, card = inputs.source, inputs.process
    if isinstance(source, AveragingNetwork):
        return AveragingTask(source, card, None)
    if isinstance(source, CheckedNetwork):
        return GeneralTask(source, card)
    form = matrix_form(circuit.ports)
    if source.matrix.shape != (form.outputs, form.inputs):
        takes = (
            f"takes matrices of shape ({form.outputs}, {form.inputs})"
            if form.outputs and form.inputs
            else "is not the chip of a matrix"
        )
        raise InputError(
            f"{inputs.prefix}the matrix has shape {source.matrix.shape}, and {netlist} {takes}; give a matrix of the "
            "chip's shape, or build a chip for it"
        )
    if not reading_given:
        source = _as_read(source, gds, form, inputs.prefix)
    return MatrixTask(source, card, form.shape, inputs.prefix, form)


def _as_read(target: MatrixTarget, gds: Path, form: MatrixForm, prefix: str) -> MatrixTarget:
    """Return a matrix that is read as the report beside the layout states, or else as the chip allows.

    Raises:
        InputError: It cannot be read so.
    """
    from optinc_pdk.report.build_files import stated_matrix

    stated = stated_matrix(gds)
    reading = next((each for each in READINGS if stated is not None and each == stated[1]), None)
    # otherwise the layout is not that of the netlist, which LVS reports
    fits = (reading == "field") is form.has_phases
    if stated is None or reading is None or not fits:
        return target if form.has_phases else replace(target, read="power")
    try:
        return replace(target, read=reading)
    except InputError as fault:
        raise InputError(f"{prefix}{fault}; {stated[0]} states that the chip is read as {reading!r}") from fault


def _refuse_own_files(out: BuildFiles, files: Mapping[str, Path]) -> None:
    """Refuse a name under which the chip's own files, by their endings, would be replaced.

    Raises:
        InputError: They would.
    """
    for ending, path in files.items():
        target = out.target(ending)
        if target.exists() and target.samefile(path):
            raise InputError(
                f"{target}: is a file of the chip itself, whose bias and report would be replaced; give another name "
                "or folder"
            )


def _network_shape(circuit: Circuit) -> str:
    """What a chip is for, with the numbers of its signals: inputs of each server, neurons by layer, outputs."""
    board = circuit.board
    if board is None:
        form = matrix_form(circuit.ports)
        return f"a matrix of {form.outputs} × {form.inputs}"
    neurons = Counter(neuron.layer for neuron in board.neurons)
    sizes = [len(board.inputs[0]), *(neurons[layer] for layer in sorted(neurons)), len(board.outputs[0])]
    servers = f" for {len(board.inputs)} servers" if len(board.inputs) > 1 else ""
    return f"a network of {'-'.join(map(str, sizes))} signals{servers}"


def _check_same(circuit: Circuit, needed: Circuit, netlist: Path, prefix: str) -> None:
    """Check that weights need the circuit that a chip has.

    Raises:
        InputError: They need another; the message says what differs.
    """
    if netlist_dict(needed) == netlist_dict(circuit):
        return
    have_shape, want_shape = _network_shape(circuit), _network_shape(needed)
    if have_shape != want_shape:
        raise InputError(
            f"{prefix}needs the chip of {want_shape}, and {netlist} is that of {have_shape}; give weights of the same "
            "shape and structure, or build a chip for them"
        )
    have, want = (Counter(one.kinds[number].name for number in one.kind.tolist()) for one in (circuit, needed))
    counts = [f"{want[kind]} {kind} instead of {have[kind]}" for kind in sorted(have | want)]
    differing = [text for text, kind in zip(counts, sorted(have | want), strict=True) if have[kind] != want[kind]]
    difference = ", ".join(differing[:5]) or "the same components, connected or placed differently"
    raise InputError(
        f"{prefix}needs another chip than {netlist}: {difference}; give weights of the same shape and structure, and "
        "the process and options of the chip, or build a chip for them"
    )
