"""The command ``spectrum``: carrier wavelengths at which a chip computes exactly."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, progress_counter
from optinc_pdk.cli.chip_inputs import ChipInputs, WordTarget, check_of, process_of, read_target_chip
from optinc_pdk.cli.fault_output import exit_code, faults_explaining_errors, faults_json, print_faults
from optinc_pdk.cli.records import with_records
from optinc_pdk.errors import InputError
from optinc_pdk.options import CheckOptions

if TYPE_CHECKING:
    from optinc_pdk.arrays import Floats
    from optinc_pdk.cards import Process
    from optinc_pdk.matrices import MatrixTarget
    from optinc_pdk.pipeline.tasks.sources import CheckedNetwork
    from optinc_pdk.signoff.extracted_chip import ExtractedChip
    from optinc_pdk.studies.spectrum.sweep import CheckedSweep, WavelengthPoint, WavelengthSweep

FINEST_PM = 1e-6
"""Finest accuracy of the ends of a window in pm, as in :mod:`optinc_pdk.studies.spectrum._windows`."""


@app.command()
@with_records
def spectrum(
    *,
    chip: ChipInputs,
    checks: CheckOptions,
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
        int, typer.Option(min=1, max=opt.MOST_UNITS, help="Number of channels of a wavelength-division link.")
    ] = 8,
    spacing: Annotated[
        float, typer.Option(help="Distance of two channels in GHz, above 0; ITU-T G.694.1 uses 100.")
    ] = 100.0,
    output: opt.Out = None,
    as_json: opt.Json = False,
) -> None:
    """Find the carrier wavelengths at which the extracted layout is exact; writes .spectrum.csv and .spectrum.png.

    At each wavelength every word is checked with the bias of the file, and with a bias programmed for this wavelength.
    Exit code 1 if the bias of the file is not exact at the process's own wavelength, or if the layout has faults that
    can affect the function and that the simulation does not include.

    Give the network or the matrix with --weights: the chip of a matrix is compared with the matrix, that of a general
    network with the network over the data, within the limits of optinc build.
    """
    _check_numbers(resolution, spacing)
    path = chip.output(output or chip.gds.with_suffix(".spectrum.csv"), checks.data)
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: the table is written as .csv, and a .png beside it; give a name that ends in .csv")
    picture = chip.output(path.with_suffix(".png"), checks.data)

    from optinc_pdk.models.registry import check_wavelengths
    from optinc_pdk.simulate.s_parameters.files import parse_wavelengths

    files, card = chip.read()
    grid = parse_wavelengths(wavelengths, float(card.guide.wavelength_nm))
    check_wavelengths(card, grid)
    target = chip.target(checks)
    card = process_of(target, card)
    sweep = {"resolution_nm": resolution * 1e-3, "channels": channels, "spacing_ghz": spacing}
    with faults_explaining_errors(as_json) as faults, progress_counter() as report:
        report("extract", 0, None)
        extracted = read_target_chip(files, target, card, chip.weights)
        faults += extracted.faults
        found = _swept(target, extracted, card, grid, {**sweep, "progress": report})
        report("write", 0, None)

        from optinc_pdk.io.file_sets import write_files
        from optinc_pdk.studies.spectrum.sweep import WavelengthSweep
        from optinc_pdk.studies.spectrum.sweep_report import spectrum_csv, spectrum_json, spectrum_lines, spectrum_png

        title = "exactness" if isinstance(found, WavelengthSweep) else found.quantities[0].text
        image = spectrum_png(found, f"{chip.gds.name}: {title} against the carrier's wavelength")
    write_files({picture: image, path: spectrum_csv(found).encode()})
    if as_json:
        print(json.dumps({"files": [str(path), str(picture)]} | spectrum_json(found) | faults_json(faults), indent=2))
    else:
        if isinstance(found, WavelengthSweep):
            _print_points(found, set(grid.tolist()))
        else:
            _print_checked(found, set(grid.tolist()))
        for line in (*spectrum_lines(found), f"{path}, {picture}"):
            print(line)
        print_faults(faults)
    raise typer.Exit(exit_code(found.fixed_window is not None, faults))


def _swept(
    target: WordTarget | CheckedNetwork | MatrixTarget,
    chip: ExtractedChip,
    card: Process,
    grid: Floats,
    options: Mapping[str, Any],
) -> WavelengthSweep | CheckedSweep:
    """Sweep a chip, whatever it computes."""
    from optinc_pdk.studies.spectrum.sweep import CheckedChip, SweptChip, sweep_checked, sweep_wavelength
    from optinc_pdk.studies.variation.nominal_chip import chip_of

    if isinstance(target, WordTarget):
        words = SweptChip(chip.circuit, chip.board, chip.bias, target.network, card, chip.ground)
        return sweep_wavelength(words, grid, **options)
    nominal = chip_of(chip.circuit, chip.board, chip.bias, card, chip.ground)
    subject = CheckedChip(chip.circuit, nominal, check_of(target, nominal), chip.ground)
    return sweep_checked(subject, grid, **options)


def _print_checked(result: CheckedSweep, grid: set[float]) -> None:
    """Print a table of the wavelengths of the grid: the first quantity with the bias fixed, and rebiased."""
    from rich.table import Table

    first = result.quantities[0]
    table = Table("nm", f"bias fixed: {first.text}", "rebiased", "reason", box=None)
    rebiased = {point.wavelength_nm: point for point in result.rebiased}
    for point in result.fixed:
        if point.wavelength_nm in grid:
            other = rebiased[point.wavelength_nm]
            values = (first.format(one.values[first.key]) if one.values else "" for one in (point, other))
            table.add_row(f"{point.wavelength_nm:g}", *values, other.fault.partition(";")[0])
    print_table(table)


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
