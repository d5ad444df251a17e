"""Sign-off of a written layout: design rules, netlist, programming, function, pinout and report of a chip.

Layout and sign-off tools are imported where they are used, so that bad input is refused quickly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from optinc_pdk.circuit import Circuit, write_bias
from optinc_pdk.drive import RangeError, SharedGround
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.pipeline.outputs import BuildFiles
from optinc_pdk.pipeline.stages import Build, Clock
from optinc_pdk.tasks.chip_task import ChipTask, Factors, Programming, Result

if TYPE_CHECKING:
    from optinc_pdk.arrays import Floats
    from optinc_pdk.extract import Extraction
    from optinc_pdk.layout import ChipLayout
    from optinc_pdk.options import Budget
    from optinc_pdk.report.layout_application import LayoutData
    from optinc_pdk.report.matrix_pictures import MatrixMap
    from optinc_pdk.report.page import PageResults
    from optinc_pdk.report.pinout import Pinout
    from optinc_pdk.report.schema import Report
    from optinc_pdk.signoff.drc.design_rule_check import DrcResult
    from optinc_pdk.signoff.electrical.electrical_check import ElectricalResult
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.signoff.lvs.comparison import LvsResult
    from optinc_pdk.simulate import CircuitOptics


def finish(
    task: ChipTask[Any, Any, Any],
    factors: Any,
    circuit: Circuit,
    chip: ChipLayout,
    out: BuildFiles,
    cards: dict[str, Any],
    clock: Clock,
    notes: list[str],
    accept: Collection[Budget],
) -> Build:
    """Check the written layout of a chip, program it, check its function, and write the report.

    Args:
        task: What the chip is for.
        factors: Factors of its matrices.
        circuit: Its netlist.
        chip: Its layout as placed, for sizes.
        out: Files of the build, of which layout and netlist are written.
        cards: Name of the process and digests of its cards.
        clock: Times of the stages so far.
        notes: Remarks so far.
        accept: Names of the budgets of the process that the chip may miss.
    """
    from optinc_pdk.report.build_numbers import accept_limits
    from optinc_pdk.report.sign_off_results import drc_numbers, layout_findings
    from optinc_pdk.report.spectra import source_spectra

    gds = out.path(".gds")
    signed = _sign_off(task, circuit, factors, out, clock)
    numbers: dict[str, Any] = {
        "schema": 1,
        "name": out.name,
        "verdict": "fail",
        "process": cards,
        "spectrum": None,
        **task.sections(factors, circuit, chip, signed.programming, signed.result),
        "drc": drc_numbers(signed.rules, signed.electrical),
        "lvs": {"devices": signed.lvs.devices, "nets": signed.lvs.nets, "match": signed.lvs.match},
        "faults": [fault.to_json() for fault in signed.faults],
    }
    notes += signed.notes + layout_findings(signed.rules, signed.electrical, signed.faults, signed.lvs)
    notes += task.findings(signed.programming, signed.result)
    if numbers["chip"] is not None:
        notes += accept_limits(numbers["chip"]["limits"], accept)
    with clock.stage("report"):
        driven = _driven(task, circuit, signed)
        pictures = _pictures(gds, task, signed.result)
        application = _application(gds, task, circuit, signed, driven)
        results = _page_results(task, signed)
        if driven is not None and signed.programming is not None:
            sources, bias = task.sources(circuit), signed.programming.bias
            numbers["spectrum"] = source_spectra(driven.structure, sources, bias, task.process, signed.ground)
    report = _write(numbers, out, pictures, application, results, notes, clock.seconds)
    return Build(report, out.staged.directory, tuple(notes))


@dataclass(frozen=True, eq=False)
class _SignOff(Generic[Programming, Result]):
    """Results of the checks; chips that differ from their netlist are not programmed, nor is their function checked."""

    extraction: Extraction
    pinout: Pinout
    rules: DrcResult
    electrical: ElectricalResult | None
    faults: Sequence[LayoutFault]
    lvs: LvsResult
    programming: Programming | None
    ground: SharedGround | None
    result: Result | None
    notes: list[str]


def _sign_off(
    task: ChipTask[Factors, Programming, Result], circuit: Circuit, factors: Factors, out: BuildFiles, clock: Clock
) -> _SignOff[Programming, Result]:
    """Check the written layout: design rules, netlist, and the function of the extracted circuit; write its pinout."""
    from optinc_pdk.extract import extract
    from optinc_pdk.report.pinout import read_pinout
    from optinc_pdk.report.pinout_drawing import pinout_svg
    from optinc_pdk.signoff.drc.design_rule_check import run_drc
    from optinc_pdk.signoff.drc.marker_database import write_lyrdb
    from optinc_pdk.signoff.electrical.electrical_check import check_electrical
    from optinc_pdk.signoff.electrical.wiring import wiring_of
    from optinc_pdk.signoff.extracted_chip import WITHOUT_BOARD, ExtractedChip
    from optinc_pdk.signoff.layout_faults import layout_faults_of
    from optinc_pdk.signoff.lvs.comparison import compare, write_lvs, write_lvs_lyrdb
    from optinc_pdk.simulate import UnsettledError

    gds, card = out.path(".gds"), task.process
    with clock.stage("drc"):
        # the marker database names the layout where it will be
        rules = replace(run_drc(gds, card.rules, card.gds_layers), file=str(out.target(".gds")))
    with clock.stage("extract"):
        extraction = extract(gds, card)
        # programmed again, a chip keeps the name of its circuit while its files have another
        extraction = replace(extraction, circuit=replace(extraction.circuit, name=circuit.name))
    with clock.stage("lvs"):
        lvs = compare(circuit, extraction, card)
        write_lvs(lvs, out.path(".lvs.json"))
        write_lvs_lyrdb(lvs, out.target(".gds"), rules.top_cell, out.path(".lvs.lyrdb"))
    electrical: ElectricalResult | None = None
    faults = layout_faults_of(extraction.faults)
    programming: Programming | None = None
    ground: SharedGround | None = None
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
            board = circuit.board or WITHOUT_BOARD
            chip = ExtractedChip(extraction.circuit, board, programming.bias, ground, faults)
            with clock.stage("function"):
                checked = task.check(chip, partial(clock.steps, "function"))
            result = task.rated(checked, chip, clock)
            task.write(result, out.path(task.ending))
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
    return _SignOff(extraction, pinout, rules, electrical, faults, lvs, programming, ground, result, notes)


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


@dataclass(frozen=True, eq=False)
class _Driven:
    """A chip that is driven: its circuit as arrays, phases by crosstalk, and the light of a few inputs.

    Attributes:
        structure: The extracted circuit.
        coupled: Phase in rad that other heaters cause, by heater; None if the process states no crosstalk.
        light: Titles of inputs, and powers at the ports; None if the function was not checked.
    """

    structure: CircuitOptics
    coupled: dict[int, float] | None
    light: tuple[tuple[str, ...], Floats] | None


def _driven(
    task: ChipTask[Factors, Programming, Result], circuit: Circuit, signed: _SignOff[Programming, Result]
) -> _Driven | None:
    """The chip with its bias; None if it was not programmed."""
    from optinc_pdk.simulate import analyse
    from optinc_pdk.simulate.heater_drive import crosstalk_phases
    from optinc_pdk.simulate.transmission.settling import port_powers

    if signed.programming is None:
        return None
    bias, process = signed.programming.bias, task.process
    structure = analyse(signed.extraction.circuit)
    phases = crosstalk_phases(structure, bias, process, signed.ground)
    coupled = None if phases is None else dict(zip(structure.heater.tolist(), phases.tolist(), strict=True))
    if signed.result is None:
        return _Driven(structure, coupled, None)
    samples = task.light(circuit, signed.programming, signed.result)
    return _Driven(structure, coupled, (samples.titles, port_powers(structure, samples, bias, process, signed.ground)))


def _application(
    gds: Path,
    task: ChipTask[Factors, Programming, Result],
    circuit: Circuit,
    signed: _SignOff[Programming, Result],
    driven: _Driven | None,
) -> LayoutData:
    """What the page's layout shows: polygons, what can be chosen, light and heat, and the findings of the checks."""
    from optinc_pdk.report.layout_application import (
        LayoutData,
        crosstalk_text,
        layer_titles,
        layout_items,
        layout_light,
        layout_markers,
        read_process_shapes,
    )
    from optinc_pdk.report.layout_polygons import layout_guides
    from optinc_pdk.report.pinout import ExtractedNames

    process, programming = task.process, signed.programming
    names = ExtractedNames.of(signed.extraction, circuit, signed.lvs)
    shapes = read_process_shapes(gds, process)
    bias = None if programming is None else programming.bias
    currents = None if signed.electrical is None else signed.electrical.currents
    rules = () if signed.electrical is None else signed.electrical.rules
    guides = layout_guides(signed.extraction, names, shapes, process)
    coupled = None if driven is None else driven.coupled
    items = layout_items(signed.extraction, names, signed.pinout, process, bias, currents, coupled)
    light = None
    if driven is not None and driven.light is not None:
        light = layout_light(*driven.light, driven.structure, items)
    return LayoutData(
        shapes,
        layer_titles(shapes, process),
        items,
        guides,
        layout_markers(signed.rules, rules, signed.lvs, signed.faults, guides),
        signed.pinout.dies,
        light,
        "" if coupled is None else crosstalk_text(process),
    )


def _page_results(task: ChipTask[Factors, Programming, Result], signed: _SignOff[Programming, Result]) -> PageResults:
    """Results of the checks in detail: every design rule, and the chip's matrices."""
    from optinc_pdk.report.page import PageResults

    matrices: list[MatrixMap] = []
    if signed.programming is not None and signed.result is not None:
        matrices = task.matrices(signed.programming, signed.result)
    electrical = () if signed.electrical is None else signed.electrical.rules
    eyes = None if signed.result is None else task.eyes(signed.result)
    return PageResults(signed.rules.all_rules(electrical), tuple(matrices), eyes)


def _write(
    numbers: dict[str, Any],
    out: BuildFiles,
    pictures: dict[str, bytes],
    application: LayoutData,
    results: PageResults,
    notes: list[str],
    seconds: dict[str, float],
) -> Report:
    """Write the report's page and, last, its numbers with the verdict."""
    from optinc_pdk.report.build_files import BUILD_ENDING
    from optinc_pdk.report.page import write_report
    from optinc_pdk.report.schema import Report

    numbers["seconds"] = seconds
    numbers["files"] = out.digests()
    if not Report.model_validate(numbers).failures():
        numbers["verdict"] = "pass"
    return write_report(
        out.path(BUILD_ENDING).parent,
        out.name,
        numbers,
        notes=notes,
        application=application,
        results=results,
        **pictures,
    )
