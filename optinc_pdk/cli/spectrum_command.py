"""The command ``spectrum``: carrier wavelengths at which a chip computes exactly."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.chip_files import chip_files, chip_paths
from optinc_pdk.cli.app import app, print_table, progress_counter
from optinc_pdk.cli.layout_faults import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.network_files import read_network
from optinc_pdk.cli.options import (
    DEFAULT,
    MOST_UNITS,
    ActivationName,
    Bits,
    ChipBias,
    ChipNetlist,
    Gds,
    Groups,
    Json,
    Out,
    ProcessName,
    Servers,
    Weights,
)
from optinc_pdk.cli.paths import output_path, warn_of_changed_cards, warn_of_changes
from optinc_pdk.errors import InputError

if TYPE_CHECKING:
    from optinc_pdk.tolerance.spectrum import WavelengthPoint, WavelengthSweep

FINEST_PM = 1e-6
"""Finest accuracy of the ends of a window in pm, as in :mod:`optinc_pdk.tolerance.spectrum.sweep`."""


@app.command()
def spectrum(
    weights: Weights,
    gds: Gds,
    netlist: ChipNetlist = None,
    bias: ChipBias = None,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    activation: ActivationName = None,
    wavelengths: Annotated[
        str,
        typer.Option(
            help="Wavelengths of the table in nm: a list such as 1540,1550, or a range first:last:step such as "
            "1510:1590:5."
        ),
    ] = "1500:1600:5",
    resolution: Annotated[
        float,
        typer.Option(help="Accuracy in pm, 1e-6 or more, of the ends of the window with the bias unchanged."),
    ] = 0.001,
    channels: Annotated[
        int, typer.Option(min=1, max=MOST_UNITS, help="Number of channels of a wavelength-division link.")
    ] = 8,
    spacing: Annotated[
        float, typer.Option(help="Distance of two channels in GHz, above 0; ITU-T G.694.1 uses 100.")
    ] = 100.0,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Find the carrier wavelengths at which the extracted layout computes exactly; writes .spectrum.csv and .png.

    At each wavelength every word is checked with the bias of the file, and with a bias programmed for this wavelength.
    Exit code 1 if the bias of the file is not exact at the process's own wavelength, or if the layout has faults that
    can affect the function and that the simulation does not include.
    """
    _check_numbers(resolution, spacing)
    files = chip_paths(gds, netlist, bias)
    path = output_path(output or gds.with_suffix(".spectrum.csv"), weights, gds, files.netlist, files.bias)
    if path.suffix != ".csv":
        raise InputError(f"{path}: the table is written as .csv, and a .png beside it; give the file this ending")
    picture = output_path(path.with_suffix(".png"), weights, gds, files.netlist, files.bias)
    warn_of_changes(gds, files.netlist, files.bias)

    from optinc_pdk.cards import load_process
    from optinc_pdk.models.registry import check_wavelengths
    from optinc_pdk.simulate.s_parameters.files import parse_wavelengths

    card = load_process(process)
    warn_of_changed_cards(gds, card)
    grid = parse_wavelengths(wavelengths, float(card.guide.wavelength_nm))
    check_wavelengths(card, grid)
    files = chip_files(gds, netlist, bias)
    onn = read_network(weights, bits, servers, groups, activation, gds)

    from optinc_pdk.signoff.extracted_chip import read_extracted_chip
    from optinc_pdk.tolerance.spectrum import SweptChip
    from optinc_pdk.tolerance.spectrum import sweep_wavelength as run

    with faults_explaining_errors(as_json) as faults, progress_counter() as report:
        report("extract", 0, None)
        chip = read_extracted_chip(gds, files.netlist, files.bias, card)
        faults += chip.faults
        subject = SweptChip(chip.circuit, chip.board, chip.bias, onn, card, chip.ground)
        result = run(
            subject, grid, resolution_nm=resolution * 1e-3, channels=channels, spacing_ghz=spacing, progress=report
        )
        report("write", 0, None)

        from optinc_pdk.file_sets import write_files
        from optinc_pdk.tolerance.spectrum.sweep_report import spectrum_csv, spectrum_json, spectrum_lines, spectrum_png

        image = spectrum_png(result, f"{gds.name}: exactness against the carrier's wavelength")
    write_files({picture: image, path: spectrum_csv(result).encode()})
    if as_json:
        print(json.dumps({"files": [str(path), str(picture)]} | spectrum_json(result) | faults_json(faults), indent=2))
    else:
        _print_points(result, set(grid.tolist()))
        for line in (*spectrum_lines(result), f"{path}, {picture}"):
            print(line)
        print_faults(faults)
    raise typer.Exit(exit_code(result.fixed_window is not None, faults))


def _check_numbers(resolution_pm: float, spacing_ghz: float) -> None:
    if not FINEST_PM <= resolution_pm < math.inf:
        raise InputError(
            f"--resolution {resolution_pm:g} pm: give a finite number from {FINEST_PM:g} pm, such as 0.001"
        )
    if not 0.0 < spacing_ghz < math.inf:
        raise InputError(f"--spacing {spacing_ghz:g} GHz: give a finite number above 0 GHz, such as 100")


def _print_points(result: WavelengthSweep, grid: set[float]) -> None:
    """Print a table of the wavelengths of the grid."""
    from rich.table import Table

    table = Table("nm", "bias fixed: exact", "margin", "rebiased: exact", "margin", "reason")
    for column in table.columns[:-1]:
        column.justify = "right"
    rebiased = {point.wavelength_nm: point for point in result.rebiased}
    for point in result.fixed:
        if point.wavelength_nm in grid:
            other = rebiased[point.wavelength_nm]
            table.add_row(f"{point.wavelength_nm:g}", *_words(point), *_words(other), other.fault.partition(";")[0])
    print_table(table)


def _words(point: WavelengthPoint) -> tuple[str, str]:
    return ("", "") if point.fault else (f"{point.exact:,}/{point.inputs:,}", f"{point.margin:.3f}")
