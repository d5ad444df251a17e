"""The command that moves a chip's carrier."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from optinc_pdk.cli.app import FAILED, PASSED, app, counter, print_table
from optinc_pdk.cli.options import DEFAULT, BiasFile, Gds, Json, Netlist, Out, ProcessName, Weights
from optinc_pdk.cli.signoff import refuse_input
from optinc_pdk.files import InputError

if TYPE_CHECKING:
    from optinc_pdk.tolerance.spectrum import Point, Spectrum


@app.command()
def spectrum(
    weights: Weights,
    gds: Gds,
    netlist: Netlist,
    bias: BiasFile,
    wavelengths: Annotated[
        str, typer.Option(help="Wavelengths of the table in nm: a list 1540,1550 or a range 1510:1590:5.")
    ] = "1500:1600:5",
    resolution: Annotated[float, typer.Option(help="To which the window of the fixed bias is found, in pm.")] = 0.001,
    channels: Annotated[int, typer.Option(help="Channels of a wavelength-division link.")] = 8,
    spacing: Annotated[float, typer.Option(help="Their distance in GHz; ITU-T G.694.1 has 100.")] = 100.0,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Over which carrier wavelengths the extracted layout computes exactly; writes .spectrum.csv and .png.

    Every word is tried with the bias as it is, and with one programmed anew for the wavelength. Exit code 1 where the
    bias is not exact at its own carrier.
    """
    from optinc_pdk.cards import load_process
    from optinc_pdk.files import write_atomic
    from optinc_pdk.onn import Onn
    from optinc_pdk.signoff.built import read_built
    from optinc_pdk.simulate.files import parse_wavelengths
    from optinc_pdk.tolerance.spectrum import Subject
    from optinc_pdk.tolerance.spectrum import spectrum as run
    from optinc_pdk.tolerance.spectrum.files import spectrum_csv, spectrum_json, spectrum_lines, spectrum_png

    path = refuse_input(output or gds.with_suffix(".spectrum.csv"), weights, gds, netlist, bias)
    if path.suffix != ".csv":
        raise InputError(f"{path}: the table is written as .csv, and a .png beside it; give the file this ending")
    picture = refuse_input(path.with_suffix(".png"), weights, gds, netlist, bias)
    card, onn = load_process(process), Onn.load(weights)
    grid = parse_wavelengths(wavelengths, float(card.guide.wavelength_nm))
    with counter() as told:
        told("extract", 0, None)
        chip = read_built(gds, netlist, bias, card)
        subject = Subject(chip.circuit, chip.board, chip.bias, onn, card, chip.ground)
        found = run(
            subject, grid, resolution_nm=resolution * 1e-3, channels=channels, spacing_ghz=spacing, progress=told
        )
        told("write", 0, None)
        image = spectrum_png(found, f"{gds.name}: exactness against the carrier's wavelength")
    write_atomic(path, spectrum_csv(found).encode())
    write_atomic(picture, image)
    if as_json:
        print(json.dumps({"files": [str(path), str(picture)]} | spectrum_json(found), indent=2))
    else:
        _print(found, set(grid.tolist()))
        for line in (*spectrum_lines(found), f"{path}, {picture}"):
            print(line)
    raise typer.Exit(FAILED if found.fixed_window is None else PASSED)


def _print(found: Spectrum, grid: set[float]) -> None:
    """The table of the grid's wavelengths."""
    from rich.table import Table

    table = Table("nm", "bias fixed: exact", "margin", "rebiased: exact", "margin", "why not")
    for column in table.columns[:-1]:
        column.justify = "right"
    anew = {point.wavelength_nm: point for point in found.rebiased}
    for point in found.fixed:
        if point.wavelength_nm in grid:
            other = anew[point.wavelength_nm]
            table.add_row(f"{point.wavelength_nm:g}", *_words(point), *_words(other), other.fault.partition(";")[0])
    print_table(table)


def _words(point: Point) -> tuple[str, str]:
    return ("", "") if point.fault else (f"{point.exact:,}/{point.inputs:,}", f"{point.margin:.3f}")
