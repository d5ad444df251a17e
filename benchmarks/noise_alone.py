"""Word errors with one kind of noise at a time: two columns of results/noise_alone.json for the chip of one link.

    python benchmarks/noise_alone.py average_4bit_4servers.gds average_4bit_4servers.npz 316227766
    python benchmarks/noise_alone.py average_8bit_4servers.gds average_8bit_4servers.npz 316227766

Layouts come from `optinc build`, with netlist and bias beside them. Every input is sent once, seed 0.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from optinc_pdk.cards import load_process
from optinc_pdk.io.chip_files import chip_files
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import noise_of, scattering
from optinc_pdk.simulate.transmission.noise import KINDS, Noise
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors

LOCKS_RAD = (3e-3, 10e-3, 30e-3)
"""Residual phase errors of the fibres' phase lock, in addition to the card's value."""


def noises(card: Noise) -> dict[str, Noise]:
    """Return the noise parameters of each kind alone, by name."""
    alone = {kind: card.only(kind) for kind in KINDS}
    locks = {f"fibre, {1e3 * lock:g} mrad": replace(alone["fibre"], fibre_phase_rad=lock) for lock in LOCKS_RAD}
    return alone | locks


def main(
    gds: Annotated[Path, typer.Argument(help="Layout of a build.")],
    weights: Annotated[Path, typer.Argument(help="Its network.")],
    symbol_rate: Annotated[float, typer.Argument(help="Symbols per second.")],
) -> None:
    """Print a row of the table for every kind."""
    process, task, files = load_process(), AveragingNetwork.load(weights).task, chip_files(gds)
    chip = read_extracted_chip(files.gds, files.netlist, files.bias, process)
    s = scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)
    tried = function_inputs(task)
    margins = error_margins(s, tried, chip.board, chip.bias)
    for name, noise in noises(noise_of(process, symbol_rate_bd=symbol_rate)).items():
        read = read_words(s, tried, chip.board, chip.bias, noise, 0)
        estimate = estimate_errors(margins, noise).rate
        print(f"| {name} | {read.wrong:,} of {read.words:,} | {estimate:.2g} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
