"""The paper's network of comparators on soi220_fast: sampled chips, their words, and words with noise.

    python benchmarks/paper_fast.py run      # two minutes of one core for each chip; continues an earlier run
    python benchmarks/paper_fast.py table    # writes results/paper_fast.json
    python benchmarks/paper_fast.py budget   # writes smallest losses and gains: results/paper_fast_budget.json

The network is `paper_8bit_4servers.npz`. Samples and calibration are those of `paper_tolerance.py`: blocks are separate
meshes, and calibration knows every device. Noise is that of `paper_noise.py`, with the cards of soi220_fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from csv_rows import read, write
from paper_noise import noisy, with_fields
from paper_tolerance import ALL, ROOT, Calibrated, Setup, Whole, calibrated, drawn, load_setup, text, words
from rich.console import Console
from rich.progress import Progress
from studies import blocks, write_study

from optinc_pdk.arrays import Floats
from optinc_pdk.budgets.light_budget import detection_losses
from optinc_pdk.cards import load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, factorise, linked_network
from optinc_pdk.networks.requirements import least_gains
from optinc_pdk.simulate.transmission.noise import Noise, noise_of
from optinc_pdk.studies import Imperfections, imperfections

WEIGHTS = ROOT / "benchmarks" / "paper_8bit_4servers.npz"
FINISHED = ROOT / "benchmarks" / "paper_fast.csv"
PROCESS = "soi220_fast"
BITS = (None, 16.0, 12.0, 8.5)
NOISY_BITS = 16.0
RATES_BD = (1e3, 1e4, 1e5, 1e6, 1e7)
LOCKS_RAD = (0.0, 0.05, 0.1)
"""Phase errors of the fibres' locks in place of the card's, at the rate LOCK_RATE_BD."""
LOCK_RATE_BD = 1e5
QUADRATURE_WEIGHT = 0.1
"""Weight in the fits of the first layer. Without it, the first chips of `paper_fast.csv` were calibrated."""


@dataclass(frozen=True)
class Row:
    """Words of one chip at one resolution of the drive, without noise or at a symbol rate."""

    seed: int
    quadrature_weight: float
    bits: str
    symbol_rate_bd: float
    fibre_phase_rad: float
    exact: int
    words: int
    margin: float


def chip(setup: Setup, card: Imperfections, seed: int) -> list[Row]:
    """Calibrate one chip, and count its words without noise and at every symbol rate."""
    case = replace(ALL, name=PROCESS, bits=BITS, quadrature_weight=QUADRATURE_WEIGHT)
    sampled = drawn(setup, case, card, seed)
    layers: list[dict[float | None, Calibrated]] = list(calibrated(setup, case, sampled, seed))
    rows = [row(setup, seed, bits, None, last.signal) for bits, last in layers[-1].items()]
    fields = with_fields(setup, sampled, [by_bits[NOISY_BITS] for by_bits in layers])
    noises = [noise_of(setup.process, symbol_rate_bd=rate) for rate in RATES_BD]
    slow = noise_of(setup.process, symbol_rate_bd=LOCK_RATE_BD)
    for noise in (*noises, *(replace(slow, fibre_phase_rad=lock) for lock in LOCKS_RAD)):
        signal = noisy(setup.points, fields, noise, seed, setup.onn.activation, onchip=True)
        rows.append(row(setup, seed, NOISY_BITS, noise, signal))
    return rows


def row(setup: Setup, seed: int, bits: float | None, noise: Noise | None, signal: Floats) -> Row:
    """Return the row for (points, M) outputs of a chip."""
    exact, margin = words(setup, signal)
    rate, lock = (0.0, 0.0) if noise is None else (noise.symbol_rate_bd, noise.fibre_phase_rad)
    return Row(seed, QUADRATURE_WEIGHT, text(bits), rate, lock, exact, len(setup.points), round(margin, 4))


app = typer.Typer(no_args_is_help=True, help=(__doc__ or "").splitlines()[0])


@app.command()
def run(
    chips: Annotated[int, typer.Option(help="Number of chips.")] = 20,
    first: Annotated[int, typer.Option(help="Index of the first chip, for parallel runs.")] = 0,
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED,
) -> None:
    """Calibrate chips and count their words."""
    process = load_process(PROCESS)
    card = imperfections(process)
    setup = load_setup(WEIGHTS, process, card)
    done = {one.seed for one in read(results, Row) if one.quadrature_weight == QUADRATURE_WEIGHT}
    todo = [seed for seed in range(first, first + chips) if seed not in done]
    with Progress(console=Console(stderr=True)) as progress:
        for seed in progress.track(todo, description="chips"):
            write(results, chip(setup, card, seed))


def condition(one: Row) -> tuple[float, str, float, float]:
    """Return what the chips of a row of the table have in common."""
    return one.quadrature_weight, one.bits, one.symbol_rate_bd, one.fibre_phase_rad


@app.command()
def table(
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED, whole: Whole = False
) -> None:
    """Write the words of all chips by resolution of the drive and symbol rate."""
    rows = read(results, Row)
    lines = [
        "| weight of quadrature | drive, bits | symbol rate | locks, mrad | chips that read every word "
        "| words exact, mean | worst | margin, worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys(map(condition, rows)):
        weight, bits, rate, lock = key
        matching = [one for one in rows if condition(one) == key]
        exact = [one.exact for one in matching]
        perfect = sum(one.exact == one.words for one in matching)
        cells: Sequence[str] = (
            f"{weight:g}",
            bits,
            format_si(rate, "Bd") if rate else "no noise",
            f"{1e3 * lock:g}" if rate else "",
            f"{perfect} of {len(matching)}",
            f"{np.mean(exact):,.2f} of {matching[0].words:,}",
            f"{min(exact):,}",
            f"{min(one.margin for one in matching):.2f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    command = "python benchmarks/paper_fast.py table"
    write_study("paper_fast", blocks(lines), command, [PROCESS], [WEIGHTS], whole)


@app.command()
def budget() -> None:
    """Write the smallest loss of every hidden layer, and the gain that its neurons need, from the cards."""
    process = load_process(PROCESS)
    onn = linked_network(AveragingNetwork.load(WEIGHTS), process.link.kind == "neurons")
    lines = [
        "| layer | columns | meshes, dB | signal outside, dB | oscillator, dB | gain without loss | least gain |",
        "|---|---|---|---|---|---|---|",
    ]
    for index, (factor, loss) in enumerate(zip(factorise(onn)[:-1], detection_losses(onn, process), strict=True)):
        gain, meshes_db = float(least_gains(factor).max()), loss.columns * loss.column_db
        lines.append(
            f"| {index} | {loss.columns} | {meshes_db:.1f} | {loss.source_db:.1f} | {loss.oscillator_db:.1f} "
            f"| {gain:.3g} | {gain * 10 ** (loss.total_db / 20):.3g} |"
        )
    write_study("paper_fast_budget", blocks(lines), "python benchmarks/paper_fast.py budget", [PROCESS], [WEIGHTS])


if __name__ == "__main__":
    app()
