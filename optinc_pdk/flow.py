"""The whole pipeline: trained weights or a matrix in, a signed-off chip out.

Layout and sign-off tools are imported only after the weights or the matrix, the name and the process have been read, so
that unusable input is refused at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from optinc_pdk.cards import DEFAULT_PROCESS, Link, Receivers, card_digests, load_process, with_link
from optinc_pdk.chip_tasks.averaging_task import AveragingTask
from optinc_pdk.chip_tasks.chip_task import ChipTask, Factors, Programming, Result
from optinc_pdk.chip_tasks.general_task import GeneralTask
from optinc_pdk.chip_tasks.matrix_task import MatrixTask
from optinc_pdk.chip_tasks.sources import CheckedNetwork, CheckOptions, Data, Source, read_source, refuse_options
from optinc_pdk.circuit import Circuit, write_bias, write_netlist
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.factor import MeshShape
from optinc_pdk.file_sets import StagedFiles, output_targets
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.matrices import MatrixReading, MatrixTarget
from optinc_pdk.memory_limit import refuse_beyond_memory
from optinc_pdk.onn import Onn
from optinc_pdk.validation import validate_arguments

if TYPE_CHECKING:
    from optinc_pdk.report.schema import Report
    from optinc_pdk.signoff.drc.design_rule_check import DrcResult
    from optinc_pdk.signoff.electrical.electrical_check import ElectricalResult
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.signoff.lvs.comparison import LvsResult

CHIP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}")
FILE_ENDINGS = (
    ".gds",
    ".pic.yml",
    ".bias.yml",
    ".drc.lyrdb",
    ".lvs.json",
    ".lvs.lyrdb",
    ".function.npz",
    ".network.npz",
    ".matrix.npz",
    ".pinout.csv",
    ".pinout.svg",
    ".report.html",
)
"""Endings of the files of a build; those that it does not write are deleted if an earlier build left them."""
REPORT_ENDING = ".report.json"
STAGES = (
    "read",
    "factor",
    "assemble",
    "layout",
    "drc",
    "extract",
    "lvs",
    "program",
    "currents",
    "function",
    "rate",
    "pinout",
    "report",
)


@dataclass(frozen=True, eq=False)
class Build:
    """A finished build.

    Attributes:
        report: Content of ``report.json``: results of all checks and numbers of the chip.
        directory: Folder of the chip's files.
        findings: Failed checks and remarks, one line each.
    """

    report: Report
    directory: Path
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return self.report.verdict == "pass"


@dataclass
class _Clock:
    """Measures the seconds of each stage and reports its begin."""

    on_stage: Callable[[str], None] | None
    on_progress: Callable[[str, int, int], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if self.on_stage is not None:
            self.on_stage(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 3)

    def steps(self, stage: str, done: int, total: int) -> None:
        """Report the progress within a long stage."""
        if self.on_progress is not None:
            self.on_progress(stage, done, total)


@dataclass(frozen=True)
class _Files:
    """The files of one build, which become visible together."""

    staged: StagedFiles
    name: str

    def path(self, ending: str) -> Path:
        """Path under which a file is written."""
        return self.staged.path(f"{self.name}{ending}")

    def target(self, ending: str) -> Path:
        """Path of a file after the build."""
        return self.staged.target(f"{self.name}{ending}")

    def digests(self) -> dict[str, str]:
        """SHA-256 of the files that are written."""
        from optinc_pdk.report.build_files import file_digest

        paths = [self.path(ending) for ending in FILE_ENDINGS]
        return {path.name: file_digest(path) for path in paths if path.exists()}


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
    clock = _Clock(on_stage, on_progress)
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
            task = GeneralTask(source.network, source.data, source.limits, card)
        else:
            _check_amplitudes(source, input_amplitudes)
            task = AveragingTask(source, card, input_amplitudes)
        out = _Files(staged, name)
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
    out: _Files,
    cards: dict[str, Any],
    clock: _Clock,
    notes: list[str],
    port_metadata: bool,
) -> Build:
    """Build and check the chip of a task."""
    from optinc_pdk.cells.golden_files import check_golden_files
    from optinc_pdk.layout import lay_out, to_layout, write_gds
    from optinc_pdk.pdk import active_pdk
    from optinc_pdk.report.build_numbers import drc_numbers, layout_findings

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
    gds = out.path(".gds")
    write_gds(layout, gds)
    write_netlist(circuit, out.path(".pic.yml"))
    signed = _sign_off(task, circuit, factors, out, clock)
    numbers: dict[str, Any] = {
        "schema": 1,
        "name": out.name,
        "verdict": "fail",
        "process": cards,
        **task.sections(factors, circuit, chip, signed.programming, signed.result),
        "drc": drc_numbers(signed.rules, signed.electrical),
        "lvs": {"devices": signed.lvs.devices, "nets": signed.lvs.nets, "match": signed.lvs.match},
        "faults": [fault.to_json() for fault in signed.faults],
    }
    notes += signed.notes + layout_findings(signed.rules, signed.electrical, signed.faults, signed.lvs)
    notes += task.findings(signed.programming, signed.result)
    with clock.stage("report"):
        pictures = _pictures(gds, task, signed.result)
    report = _write(numbers, out, pictures, notes, clock.seconds)
    return Build(report, staged.directory, tuple(notes))


@dataclass(frozen=True, eq=False)
class _SignOff(Generic[Programming, Result]):
    """Results of the checks; chips that differ from their netlist are not programmed, nor is their function checked."""

    rules: DrcResult
    electrical: ElectricalResult | None
    faults: Sequence[LayoutFault]
    lvs: LvsResult
    programming: Programming | None
    result: Result | None
    notes: list[str]


def _sign_off(
    task: ChipTask[Factors, Programming, Result], circuit: Circuit, factors: Factors, out: _Files, clock: _Clock
) -> _SignOff[Programming, Result]:
    """Check the written layout: design rules, netlist, and the function of the extracted circuit; write its pinout."""
    from optinc_pdk.extract import extract
    from optinc_pdk.report.pinout import read_pinout
    from optinc_pdk.report.pinout_drawing import pinout_svg
    from optinc_pdk.signoff.drc.design_rule_check import run_drc
    from optinc_pdk.signoff.drc.marker_database import write_lyrdb
    from optinc_pdk.signoff.electrical.electrical_check import check_electrical
    from optinc_pdk.signoff.electrical.wiring import wiring_of
    from optinc_pdk.signoff.layout_faults import layout_faults_of
    from optinc_pdk.signoff.lvs.comparison import compare, write_lvs, write_lvs_lyrdb
    from optinc_pdk.simulate import UnsettledError

    gds, card = out.path(".gds"), task.process
    with clock.stage("drc"):
        # the marker database names the layout where it will be
        rules = replace(run_drc(gds, card.rules, card.gds_layers), file=str(out.target(".gds")))
    with clock.stage("extract"):
        extraction = extract(gds, card)
    with clock.stage("lvs"):
        lvs = compare(circuit, extraction, card)
        write_lvs(lvs, out.path(".lvs.json"))
        write_lvs_lyrdb(lvs, out.target(".gds"), out.path(".lvs.lyrdb"))
    electrical: ElectricalResult | None = None
    faults = layout_faults_of(extraction.faults)
    programming: Programming | None = None
    result: Result | None = None
    notes: list[str] = []
    # a circuit that differs from the netlist has no known channels to program
    if lvs.match:
        try:
            with clock.stage("program"):
                wiring = wiring_of(extraction, card)
                ground = wiring.common_ground
                programming = task.program(circuit, extraction.circuit, factors, ground)
            write_bias(programming.bias, out.path(".bias.yml"))
            with clock.stage("currents"):
                electrical = check_electrical(card.rules, wiring, programming.bias)
                # those of the wiring are among those of the extraction
                faults += tuple(fault for fault in electrical.faults if fault not in faults)
            result = task.check(circuit, extraction.circuit, programming, ground, clock)
            task.write(result, out.path(""))
        except RangeError as fault:
            notes.append(f"program: {fault}")
        except UnsettledError as fault:
            notes.append(f"function: {fault}")
    if electrical is None:
        write_lyrdb(rules, out.path(".drc.lyrdb"))
    else:
        write_lyrdb(rules, out.path(".drc.lyrdb"), electrical.rules, electrical.faults)
    with clock.stage("pinout"):
        bias = None if programming is None else programming.bias
        currents = None if electrical is None else electrical.currents
        pinout = read_pinout(extraction, circuit, lvs, card, bias, currents)
        write_atomic(out.path(".pinout.csv"), pinout.to_csv().encode())
        write_atomic(out.path(".pinout.svg"), pinout_svg(pinout, card))
    return _SignOff(rules, electrical, faults, lvs, programming, result, notes)


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


def _pictures(gds: Path, task: ChipTask[Factors, Programming, Result], result: Result | None) -> dict[str, bytes]:
    """The page's pictures as PNG."""
    from optinc_pdk.report.layout_pictures import detail_window, layout_png

    # pictures name layers by their purpose
    process = task.process
    parts = {"metal": process.metal.layer, "etch70": process.grating.layer}
    layers = process.gds_layers | {part: process.layers[name].gds for part, name in parts.items()}
    pictures = {
        "layout": layout_png(gds, layers),
        "detail": layout_png(gds, layers, window_um=detail_window(gds, layers["heater"], 700.0, 420.0)),
    }
    return pictures if result is None else pictures | task.pictures(result)


def _write(
    numbers: dict[str, Any],
    out: _Files,
    pictures: dict[str, bytes],
    notes: list[str],
    seconds: dict[str, float],
) -> Report:
    """Write the report's page and, last, its numbers with the verdict."""
    from optinc_pdk.report.page import write_report
    from optinc_pdk.report.schema import Report

    numbers["seconds"] = seconds
    numbers["files"] = out.digests()
    if not Report.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    return write_report(out.path(REPORT_ENDING).parent, out.name, numbers, notes=notes, **pictures)
