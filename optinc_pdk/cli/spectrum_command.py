"""The command ``spectrum``: carrier wavelengths at which a chip computes exactly."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, progress_counter
from optinc_pdk.cli.chip_inputs import ChipInputs, print_findings
from optinc_pdk.cli.fault_output import faults_explaining_errors
from optinc_pdk.cli.records import with_records
from optinc_pdk.errors import InputError
from optinc_pdk.io.file_sets import write_files
from optinc_pdk.options import CheckOptions

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
    task = chip.task(checks, card)
    sweep = {"resolution_nm": resolution * 1e-3, "channels": channels, "spacing_ghz": spacing}
    with faults_explaining_errors(as_json) as faults, progress_counter() as report:
        report("extract", 0, None)
        task, extracted = task.read_chip(files)
        faults += extracted.faults
        found = task.sweep(extracted, grid, chip.gds.name, **sweep, progress=report)
    write_files({picture: found.picture, path: found.table})
    print_findings(found, (path, picture), faults, as_json)


def _check_numbers(resolution_pm: float, spacing_ghz: float) -> None:
    if not FINEST_PM <= resolution_pm < math.inf:
        raise InputError(
            f"--resolution {resolution_pm:g} pm: give a finite number from {FINEST_PM:g} pm, such as 0.001"
        )
    if not 0.0 < spacing_ghz < math.inf:
        raise InputError(f"--spacing {spacing_ghz:g} GHz: give a finite number above 0 GHz, such as 100")
