"""New weights for an existing chip: a new bias, checked on the chip's own layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path

from optinc_pdk.assemble import matrix_form
from optinc_pdk.circuit import Circuit
from optinc_pdk.circuit.netlist_files import netlist_dict
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import StagedFiles
from optinc_pdk.io.reading import GDS, LAYOUT, NETLIST, OASIS, read_bytes
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.options import ProgramOptions
from optinc_pdk.pipeline.inputs import factored, read_inputs
from optinc_pdk.pipeline.outputs import BuildFiles, publish_chip
from optinc_pdk.pipeline.sign_off import finish
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.report.build_files import stated_matrix
from optinc_pdk.tasks.chip_task import refuse_options
from optinc_pdk.tasks.reading import Source
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
            inputs = read_inputs(target, staged, chosen, stated_matrix(Path(gds)))
            written = inputs.out
            _refuse_own_files(written, {ending: path for ending, (path, _) in files.items()})
            inputs.task.check_report(Path(gds))
            task = inputs.task.fitted_to(circuit, str(netlist))
        factors = factored(task, clock)
        with clock.stage("layout"):
            from optinc_pdk.layout import lay_out

            needed, chip = lay_out(task.draft(factors, circuit.name), task.process)
            _check_same(circuit, needed, Path(netlist), task.source)
        for ending, content in contents.items():
            write_atomic(written.path(ending), content)
        built = finish(task, factors, circuit, chip, written, inputs.cards, clock, list(task.notes), chosen.accept)
        notes = publish_chip(staged, written.name)
    return replace(built, findings=(*built.findings, *notes))


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
