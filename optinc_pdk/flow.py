"""The whole pipeline: trained weights in, a signed-off chip out.

Layout and sign-off tools are imported only after the weights, the name and the process have been read, so that
unusable input is refused at once.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optinc_pdk.assemble import check_buildable, draft_circuit
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import DEFAULT_PROCESS, Link, Process, Receivers, card_digests, load_process, with_link
from optinc_pdk.circuit import Bias, Board, Circuit, write_bias, write_netlist
from optinc_pdk.drive import RangeError
from optinc_pdk.errors import InputError
from optinc_pdk.file_sets import StagedFiles, output_targets
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.memory_limit import refuse_beyond_memory
from optinc_pdk.onn import (
    LayerFactor,
    Onn,
    bundled_weights,
    factorise,
    lattice_score,
    linked_network,
    normalise,
    output_notes,
)
from optinc_pdk.onn.build_memory import estimated_memory_gb
from optinc_pdk.onn.conditioning import check_gains
from optinc_pdk.onn.network import ACTIVATIONS
from optinc_pdk.validation import validate_arguments

if TYPE_CHECKING:
    from optinc_pdk.report.schema import Report
    from optinc_pdk.signoff.drc.design_rule_check import DrcResult
    from optinc_pdk.signoff.electrical.electrical_check import ElectricalResult
    from optinc_pdk.signoff.function import FunctionResult
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.signoff.lvs.comparison import LvsResult
    from optinc_pdk.simulate import Programming, Scattering

CHIP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,31}")
FILE_ENDINGS = (
    ".gds",
    ".pic.yml",
    ".bias.yml",
    ".drc.lyrdb",
    ".lvs.json",
    ".lvs.lyrdb",
    ".function.npz",
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
    weights: str | Path | Onn | None = None,
    directory: str | Path = "gds_out",
    name: str | None = None,
    process: str = DEFAULT_PROCESS,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    input_amplitudes: Sequence[float] | None = None,
    link: Link | None = None,
    receivers: Receivers | None = None,
    port_metadata: bool = False,
) -> Build:
    """Build a chip from trained weights and check it.

    If a check fails, the files are written nevertheless and the report has the verdict "fail".

    Args:
        weights: Weight file or network; by default the bundled 4-bit network.
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

    Returns:
        The build; its ``passed`` states whether every check passed.

    Raises:
        InputError: The weights, the name, the process, the amplitudes or the folder cannot be used; nothing is written.
    """
    with StagedFiles(directory) as staged:
        built = build_staged(
            weights, staged, name, process, on_stage, on_progress, input_amplitudes, link, receivers, port_metadata
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
    weights: str | Path | Onn | None,
    staged: StagedFiles,
    name: str | None,
    process: str,
    on_stage: Callable[[str], None] | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
    input_amplitudes: Sequence[float] | None = None,
    link: Link | None = None,
    receivers: Receivers | None = None,
    port_metadata: bool = False,
) -> Build:
    """Build a chip into a set of files that :func:`publish` makes visible; arguments and errors as of :func:`build`."""
    clock = _Clock(on_stage, on_progress)
    with clock.stage("read"):
        onn, name = _read(weights, name)
        digest = onn.digest
        _check_amplitudes(onn, input_amplitudes)
        # digests of the cards as they are, without the options of this build
        stated = load_process(process)
        cards = {"name": stated.name, "cards": card_digests(stated)}
        card = with_link(stated, link, receivers)
        neurons = card.link.kind == "neurons"
        notes = output_notes(onn, neurons)
        given, onn = onn, linked_network(onn, neurons)
        out = _Files(staged, name)
        # refused before anything is computed
        output_targets(staged.directory, [f"{name}{ending}" for ending in (*FILE_ENDINGS, REPORT_ENDING)])
        # not at the top: it imports klayout
        from optinc_pdk.extract.golden_devices import check_golden

        check_golden(card)
        score = lattice_score(given)
        if score.exact < score.inputs:
            other = next(one for one in ACTIVATIONS if one != given.activation)
            notes.append(
                f"network: without any error it computes {score.exact:,} of {score.inputs:,} inputs exactly, with the "
                f"activation {given.activation}; train it again, or, if its file does not state the activation, give "
                f"--activation {other}"
            )
    from optinc_pdk.cells.golden_files import check_golden_files
    from optinc_pdk.layout import lay_out, to_layout, write_gds
    from optinc_pdk.pdk import active_pdk
    from optinc_pdk.report.build_numbers import (
        chip_numbers,
        drc_numbers,
        factor_numbers,
        findings,
        function_numbers,
        task_numbers,
    )
    from optinc_pdk.report.detection_loss import detection_losses

    refuse_beyond_memory(
        estimated_memory_gb(onn),
        f"a chip of {onn.mzis:,} MZIs",
        "use a machine with more memory, fewer or narrower layers, or 'factor' with smaller blocks",
    )
    with clock.stage("factor"):
        factors = factorise(onn, input_amplitudes)
        check_gains(factors, card, detection_losses(onn, card))
    with clock.stage("assemble"):
        draft = draft_circuit(onn, card, name)
    with clock.stage("layout"):
        with active_pdk(card):
            check_golden_files(card)
        circuit, chip = lay_out(draft, card)
        layout = to_layout(chip, card, name, port_metadata)
    gds = out.path(".gds")
    write_gds(layout, gds)
    write_netlist(circuit, out.path(".pic.yml"))
    signed = _sign_off(circuit, given, factors, card, out, clock, input_amplitudes)
    numbers: dict[str, Any] = {
        "schema": 1,
        "name": name,
        "verdict": "fail",
        "task": task_numbers(onn.task),
        "process": cards,
        "onn": {
            "structure": list(given.structure),
            "accuracy": score.accuracy,
            "margin": score.margin,
            "activation": onn.activation,
            "sha256": digest,
        },
        "factor": factor_numbers(given, factors),
        "chip": chip_numbers(circuit, chip, onn, card, signed.programming, signed.function),
        "drc": drc_numbers(signed.rules, signed.electrical),
        "lvs": {"devices": signed.lvs.devices, "nets": signed.lvs.nets, "match": signed.lvs.match},
        "function": function_numbers(signed.function),
        "speed": signed.speed,
        "faults": [fault.to_json() for fault in signed.faults],
    }
    notes += signed.notes + findings(
        signed.rules,
        signed.electrical,
        signed.faults,
        signed.lvs,
        signed.function,
        onn.activation,
        signed.programming,
    )
    with clock.stage("report"):
        pictures = _pictures(gds, card, onn, signed.function)
    report = _write(numbers, out, pictures, notes, clock.seconds)
    return Build(report, staged.directory, tuple(notes))


@dataclass(frozen=True, eq=False)
class _SignOff:
    """Results of the checks; the function is not checked where LVS finds a difference, nor the speed of wrong words."""

    rules: DrcResult
    electrical: ElectricalResult | None
    faults: Sequence[LayoutFault]
    lvs: LvsResult
    programming: Programming | None
    function: FunctionResult | None
    speed: dict[str, Any] | None
    notes: list[str]


def _sign_off(
    circuit: Circuit,
    onn: Onn,
    factors: tuple[LayerFactor, ...],
    card: Process,
    out: _Files,
    clock: _Clock,
    inputs: Sequence[float] | None,
) -> _SignOff:
    """Check the written layout: design rules, netlist, and the function of the extracted circuit; write its pinout."""
    from optinc_pdk.extract import extract
    from optinc_pdk.report.pinout import read_pinout
    from optinc_pdk.report.pinout_drawing import pinout_svg
    from optinc_pdk.signoff.drc.design_rule_check import run_drc
    from optinc_pdk.signoff.drc.marker_database import write_lyrdb
    from optinc_pdk.signoff.electrical.electrical_check import check_electrical
    from optinc_pdk.signoff.electrical.wiring import wiring_of
    from optinc_pdk.signoff.function import check_scattering, write_function
    from optinc_pdk.signoff.layout_faults import layout_faults_of
    from optinc_pdk.signoff.lvs.comparison import compare, write_lvs, write_lvs_lyrdb
    from optinc_pdk.simulate import UnsettledError, program, scattering

    gds = out.path(".gds")
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
    function: FunctionResult | None = None
    speed: dict[str, Any] | None = None
    notes: list[str] = []
    # a circuit that differs from the netlist has no known channels to program
    if lvs.match and circuit.board is not None:
        try:
            with clock.stage("program"):
                wiring = wiring_of(extraction, card)
                programming = program(
                    extraction.circuit,
                    circuit.board,
                    onn,
                    card,
                    ground=wiring.common_ground,
                    factors=factors,
                    inputs=inputs,
                )
            write_bias(programming.bias, out.path(".bias.yml"))
            with clock.stage("currents"):
                electrical = check_electrical(card.rules, wiring, programming.bias)
                # those of the wiring are among those of the extraction
                faults += tuple(fault for fault in electrical.faults if fault not in faults)
            with clock.stage("function"):
                wavelength = float(card.guide.wavelength_nm)
                s = scattering(extraction.circuit, programming.bias, wavelength, card, ground=wiring.common_ground)
                function = check_scattering(
                    s, circuit.board, programming.bias, onn.task, onn=onn, on_progress=partial(clock.steps, "function")
                )
            write_function(function, out.path(".function.npz"))
            if function.passed and card.noise is not None and card.budget is not None:
                with clock.stage("rate"):
                    speed = _speed(s, circuit.board, programming.bias, onn.task, card)
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
    return _SignOff(rules, electrical, faults, lvs, programming, function, speed, notes)


def _speed(s: Scattering, board: Board, bias: Bias, task: Averaging, card: Process) -> dict[str, Any]:
    """Estimate the highest symbol rate of the extracted chip, what limits it, and the energy at this rate."""
    from optinc_pdk.report.build_numbers import speed_numbers
    from optinc_pdk.signoff.function import function_inputs
    from optinc_pdk.tolerance.error_estimate import error_margins
    from optinc_pdk.tolerance.highest_rates import find_rate_limits, rates_without_limits
    from optinc_pdk.tolerance.link_energy import link_energy

    margins = error_margins(s, function_inputs(task), board, bias)
    limits = find_rate_limits(margins, card)
    named = limits.main_limit is not None or limits.symbol_rate_bd in (None, limits.highest_bd)
    without = None if named else rates_without_limits(margins, card, limits)
    energy = None if limits.symbol_rate_bd is None else link_energy(board, bias, task, card, limits.noise)
    return speed_numbers(limits, without, energy, len(margins.wrong))


def _read(weights: str | Path | Onn | None, name: str | None) -> tuple[Onn, str]:
    """Read the network and the chip's name, and check that a chip can be built from it."""
    if isinstance(weights, Onn):
        onn, stem, prefix = weights, "chip", ""
    else:
        path = bundled_weights() if weights is None else Path(weights)
        onn, stem, prefix = Onn.load(path), path.stem, f"{path}: "
    try:
        check_buildable(onn)
        # refuses a hidden layer that is zero for every input
        normalise(onn)
    except InputError as fault:
        raise InputError(f"{prefix}{fault}") from fault
    chosen = re.sub(r"[^A-Za-z0-9_]", "_", stem)[:32] if name is None else name
    if not CHIP_NAME.fullmatch(chosen):
        raise InputError(
            f"name {chosen!r}: it becomes the name of a GDS cell and of files; use 1 to 32 letters, digits and "
            "underscores, a letter or digit first"
        )
    return onn, chosen


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


def _pictures(gds: Path, process: Process, onn: Onn, function: FunctionResult | None) -> dict[str, bytes]:
    """The page's pictures as PNG."""
    from optinc_pdk.report.layout_pictures import detail_window, layout_png
    from optinc_pdk.report.plots import outputs_png

    # pictures name layers by their purpose
    parts = {"metal": process.metal.layer, "etch70": process.grating.layer}
    layers = process.gds_layers | {part: process.layers[name].gds for part, name in parts.items()}
    pictures = {
        "layout": layout_png(gds, layers),
        "detail": layout_png(gds, layers, window_um=detail_window(gds, layers["heater"], 700.0, 420.0)),
    }
    if function is not None:
        levels = np.broadcast_to(function.levels[np.newaxis, :, np.newaxis], function.outputs.shape)
        pictures["outputs"] = outputs_png(
            function.outputs.reshape(-1, onn.task.symbols),
            levels.reshape(-1, onn.task.symbols).astype(float),
            onn.task.output_resolution,
        )
    return pictures


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
