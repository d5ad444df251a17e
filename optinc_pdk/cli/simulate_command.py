"""Command ``simulate``: S-matrices of a layout or netlist under a bias, under settings at pads, or as it is drawn."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli.app import Counter, app, progress_counter
from optinc_pdk.cli.arguments import DEFAULT, Json, Out, PadSettings, ProcessName, TopNetlist
from optinc_pdk.cli.exit_codes import PASSED
from optinc_pdk.cli.fault_output import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.paths import circuit_name, output_path, read_layout_netlist, warn_of_changed_cards, warn_of_changes
from optinc_pdk.cli.process_hints import errors_hinting_at_process, hint_at_process
from optinc_pdk.cli.records import named_file
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.arrays import Floats
    from optinc_pdk.cards import Process
    from optinc_pdk.circuit import Bias, Circuit, PlacedCircuit
    from optinc_pdk.signoff.layout_faults import LayoutFault
    from optinc_pdk.simulate.heater_drive import PadSetting
    from optinc_pdk.simulate.s_parameters.scattering import Scattering

NETLISTS = (".yml", ".yaml")


@app.command()
def simulate(
    source: Annotated[
        Path,
        typer.Argument(
            dir_okay=False,
            callback=named_file,
            help="Layout file, GDS2 or OASIS, which is extracted first; or netlist file, .pic.yml.",
        ),
    ],
    netlist: Annotated[
        Path | None,
        typer.Argument(
            dir_okay=False,
            help="Netlist file, .pic.yml, whose ports name the fibres and pads of a layout without labels. Default: "
            "none, and a fibre coupler without a label is named by its device and number.",
        ),
    ] = None,
    top: TopNetlist = "",
    bias: Annotated[
        Path | None,
        typer.Option("--bias", help="Bias file, .bias.yml: the DAC code of every heater. Default: heaters are off."),
    ] = None,
    settings: PadSettings = None,
    wavelengths: Annotated[
        str | None,
        typer.Option(
            help="Wavelengths in nm: one, a list such as 1549,1550, or a range first:last:step such as 1540:1560:5. "
            "Default: the process's wavelength."
        ),
    ] = None,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
    ports: Annotated[
        str | None,
        typer.Option(
            help="Labels of fibres, separated by commas: one S-matrix between these, in this order. "
            "Default: with --bias, one S-matrix for each linear block, else one between all fibres."
        ),
    ] = None,
) -> None:
    """Calculate the S-matrices of the linear blocks of a circuit; writes .s.npz, or Touchstone with -o FILE.sNp.

    Without a bias, the circuit is simulated as it is drawn, with heaters off or driven by --set. Exit code 1 if the
    layout has faults that can affect the function and that the simulation does not include.
    """
    path = output_path(output or source.with_name(f"{circuit_name(source)}.s.npz"), source, netlist, bias)
    warn_of_changes(source, netlist, bias)
    _refuse_contradictions(source, netlist, bias, settings, top)

    from optinc_pdk.cards import load_process
    from optinc_pdk.circuit import read_reference
    from optinc_pdk.models.registry import check_wavelengths
    from optinc_pdk.pdk import cell_drawing
    from optinc_pdk.simulate.heater_drive import parse_settings, read_drive
    from optinc_pdk.simulate.s_parameters.files import (
        check_port_count,
        parse_ports,
        parse_wavelengths,
        refuse_unknown_ending,
        write_scattering,
    )

    refuse_unknown_ending(path)
    card = load_process(process)
    warn_of_changed_cards(source, card)
    wavelengths_nm = parse_wavelengths(wavelengths, float(card.guide.wavelength_nm))
    if not _is_netlist(source):
        # light reaches a layout through couplers, which state a range; a netlist is read quickly
        check_wavelengths(card, wavelengths_nm)
    chosen = None if ports is None else parse_ports(ports)
    if chosen is not None:
        check_port_count(path, [len(chosen)])
    drive = None if bias is None else read_drive(bias, card)
    pads = parse_settings(settings or [])
    # errors of a netlist alone say nothing about the layers of a layout
    hints = nullcontext if _is_netlist(source) else partial(errors_hinting_at_process, source, card)
    reference = None
    with hints():
        if netlist is not None:
            reference = read_layout_netlist(netlist, source, card, top)
        elif _is_netlist(source) and bias is None:
            reference = read_reference(source, card, circuit_name(source), top, draw=cell_drawing(card))
    with hints(), faults_explaining_errors(as_json) as faults, progress_counter() as report:
        if drive is None or bias is None:
            blocks = _set_blocks(source, reference, pads, wavelengths_nm, card, chosen, report, faults)
        else:
            blocks = _biased_blocks(source, bias, drive, wavelengths_nm, card, chosen, report, faults)
    write_scattering(wavelengths_nm, blocks, path)
    if as_json:
        shapes = [{"ports": len(block.labels), "shape": list(block.s.shape)} for block in blocks]
        numbers = {"schema": 1, "file": str(path), "wavelengths_nm": wavelengths_nm.tolist(), "blocks": shapes}
        print(json.dumps(numbers | faults_json(faults)))
    else:
        print(f"{path}: {_contents(blocks, len(wavelengths_nm))}")
        print_faults(faults)
    code = exit_code(True, faults)
    if not _is_netlist(source):
        hint_at_process(code == PASSED, source, card)
    raise typer.Exit(code)


def _is_netlist(source: Path) -> bool:
    """Return whether a file is a netlist, not a layout, by its ending."""
    return source.suffix.lower() in NETLISTS


def _refuse_contradictions(
    source: Path, netlist: Path | None, bias: Path | None, settings: list[str] | None, top: str
) -> None:
    """Refuse files and options that exclude each other."""
    if bias is not None and settings:
        raise InputError("--set and --bias both drive the heaters; give one of them")
    if bias is not None and netlist is not None:
        raise InputError(f"{netlist}: a bias names the pads by the labels of the layout; leave the netlist out")
    if netlist is not None and _is_netlist(source):
        raise InputError(f"{netlist}: {source} is a netlist already; give a layout and its netlist, or one netlist")
    if top and (bias is not None or (netlist is None and not _is_netlist(source))):
        raise InputError(
            f"--top {top} names a netlist of a drawn circuit, and none was given; give NETLIST, or leave --top out"
        )


def _contents(blocks: list[Scattering], wavelengths: int) -> str:
    """Describe the S-matrices of a file: number of wavelengths, and ports of each block."""
    sizes = [str(len(block.labels)) for block in blocks]
    listed = (
        f"{len(sizes)} blocks of {', '.join(sizes[:-1])} and {sizes[-1]}" if sizes[1:] else f"1 block of {sizes[0]}"
    )
    return f"{wavelengths} wavelength{'s' * (wavelengths != 1)}; {listed} ports"


def _biased_blocks(
    source: Path,
    bias: Path,
    drive: Bias,
    wavelengths_nm: Floats,
    card: Process,
    chosen: tuple[str, ...] | None,
    report: Counter,
    faults: list[LayoutFault],
) -> list[Scattering]:
    """Simulate a layout or netlist as a bias file drives it; faults of the layout are added to ``faults``."""
    from optinc_pdk.circuit import read_netlist
    from optinc_pdk.simulate.heater_drive import check_phases
    from optinc_pdk.simulate.s_parameters.files import block_scattering, port_scattering

    if _is_netlist(source):
        circuit, ground = read_netlist(source), None
    else:
        from optinc_pdk.signoff.extracted_chip import read_extracted_layout

        report("extract", 0, None)
        layout = read_extracted_layout(source, drive, card)
        circuit, ground = layout.circuit, layout.ground
        faults += layout.faults
        if not faults:
            check_phases(bias, circuit, drive, card)
    progress = partial(report, "wavelengths")
    if chosen is None:
        return block_scattering(circuit, drive, wavelengths_nm, card, ground, progress)
    return [port_scattering(circuit, drive, wavelengths_nm, card, chosen, ground, progress)]


def _set_blocks(
    source: Path,
    reference: Circuit | PlacedCircuit | None,
    pads: dict[str, PadSetting],
    wavelengths_nm: Floats,
    card: Process,
    chosen: tuple[str, ...] | None,
    report: Counter,
    faults: list[LayoutFault],
) -> list[Scattering]:
    """Simulate a drawn layout, or the netlist that is given alone; faults of the layout are added to ``faults``."""
    from optinc_pdk.circuit import PlacedCircuit
    from optinc_pdk.io.formatting import count_text
    from optinc_pdk.signoff.extracted_chip import read_drawn_circuit
    from optinc_pdk.signoff.lvs.label_binding import named_circuit
    from optinc_pdk.simulate.s_parameters.scattering import set_scattering

    if _is_netlist(source) and reference is not None:
        circuit = named_circuit(reference, card) if isinstance(reference, PlacedCircuit) else reference
    else:
        report("extract", 0, None)
        drawn = read_drawn_circuit(source, reference, card)
        circuit = drawn.circuit
        faults += drawn.faults
        if drawn.lvs is not None and not drawn.lvs.match:
            places = count_text(drawn.lvs.total_differences, "place")
            print(f"optinc: {source}: differs from its netlist in {places}, see optinc lvs", file=sys.stderr)
        if drawn.named:
            print(
                f"optinc: {source}: fibre couplers without a label are named {', '.join(drawn.named)}", file=sys.stderr
            )
    off = len(circuit.instances_of("phase_shifter")) - len(pads)
    if off > 0:
        which = f"{off} heaters are off; drive them" if off > 1 else "1 heater is off; drive it"
        print(f"optinc: {source}: {which} with --set or --bias", file=sys.stderr)
    return [set_scattering(circuit, pads, wavelengths_nm, card, labels=chosen, progress=partial(report, "wavelengths"))]
