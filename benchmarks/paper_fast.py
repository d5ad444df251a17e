"""The paper's network of comparators on soi220_fast: sampled chips, their words, and words with noise.

    python benchmarks/paper_fast.py run      # two minutes of one core for each chip; continues an earlier run
    python benchmarks/paper_fast.py table    # the table of docs/paper_network.md

The network is `paper_8bit_4servers.npz`. Samples and calibration are those of `paper_tolerance.py`: blocks are separate
meshes, and calibration knows every device. Noise is that of `paper_noise.py`, with the cards of soi220_fast.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from paper_noise import noisy, with_fields
from paper_tolerance import ALL, ROOT, Calibrated, Setup, calibrated, drawn, load_setup, text, words, write
from rich.console import Console
from rich.progress import Progress

from optinc_pdk.cards import load_process
from optinc_pdk.report.formatting import format_si
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.tolerance import Imperfections, imperfections

Floats = NDArray[np.float64]

WEIGHTS = ROOT / "benchmarks" / "paper_8bit_4servers.npz"
FINISHED = ROOT / "benchmarks" / "paper_fast.csv"
PROCESS = "soi220_fast"
BITS = (None, 16.0, 12.0, 8.5)
NOISY_BITS = 16.0
RATES_BD = (1e3, 1e4, 1e5, 1e6, 1e7)


@dataclass(frozen=True)
class Row:
    """Words of one chip at one resolution of the drive, without noise or at a symbol rate."""

    seed: int
    bits: str
    symbol_rate_bd: float
    exact: int
    words: int
    margin: float


def chip(setup: Setup, card: Imperfections, seed: int) -> list[Row]:
    """Calibrate one chip, and count its words without noise and at every symbol rate."""
    case = replace(ALL, name=PROCESS, bits=BITS)
    sampled = drawn(setup, case, card, seed)
    layers: list[dict[float | None, Calibrated]] = list(calibrated(setup, case, sampled, seed))
    rows = [row(setup, seed, bits, 0.0, last.signal) for bits, last in layers[-1].items()]
    fields = with_fields(setup, sampled, [by_bits[NOISY_BITS] for by_bits in layers])
    for rate in RATES_BD:
        noise = noise_of(setup.process, symbol_rate_bd=rate)
        signal = noisy(setup.points, fields, noise, seed, setup.onn.activation, onchip=True)
        rows.append(row(setup, seed, NOISY_BITS, rate, signal))
    return rows


def row(setup: Setup, seed: int, bits: float | None, rate: float, signal: Floats) -> Row:
    """Return the row for (points, M) outputs of a chip."""
    exact, margin = words(setup, signal)
    return Row(seed, text(bits), rate, exact, len(setup.points), round(margin, 4))


def read(path: Path) -> list[Row]:
    """Read the rows of finished chips."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(
                int(one["seed"]),
                one["bits"],
                float(one["symbol_rate_bd"]),
                int(one["exact"]),
                int(one["words"]),
                float(one["margin"]),
            )
            for one in csv.DictReader(file)
        ]


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
    done = {one.seed for one in read(results)}
    todo = [seed for seed in range(first, first + chips) if seed not in done]
    with Progress(console=Console(stderr=True)) as progress:
        for seed in progress.track(todo, description="chips"):
            write(results, chip(setup, card, seed))


@app.command()
def table(results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED) -> None:
    """Print the words of all chips by resolution of the drive and symbol rate."""
    rows = read(results)
    print("| drive, bits | symbol rate | chips that read every word | words exact, mean | worst | margin, worst |")
    print("|---|---|---|---|---|---|")
    for bits, rate in dict.fromkeys((one.bits, one.symbol_rate_bd) for one in rows):
        matching = [one for one in rows if (one.bits, one.symbol_rate_bd) == (bits, rate)]
        exact = [one.exact for one in matching]
        perfect = sum(one.exact == one.words for one in matching)
        cells: Sequence[str] = (
            bits,
            format_si(rate, "Bd") if rate else "no noise",
            f"{perfect} of {len(matching)}",
            f"{np.mean(exact):,.2f} of {matching[0].words:,}",
            f"{min(exact):,}",
            f"{min(one.margin for one in matching):.2f}",
        )
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    app()
