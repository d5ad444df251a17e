"""Word-error rate of the paper's network with noise against the symbol rate.

    python benchmarks/paper_noise.py run      # half a minute of one core for each chip; resumes an earlier run
    python benchmarks/paper_noise.py table    # writes results/paper_noise.json and the picture

The chips are those of `paper_tolerance.py` with all imperfections, calibrated with known devices, at a drive of 16
bits. Every block's output is mixed with a local oscillator of the power launched into a waveguide and detected by a
pair of photodiodes. Blocks have the losses of their meshes and attenuators. Gratings, splitter trees and mixers are
lossless here, and modulators reach full scale at the largest signal of their layer, so a real chip would read fewer
words correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from csv_rows import read, write
from imperfect_meshes.block_programming import FabricatedBlock, MeshBlock, transmission
from matplotlib.figure import Figure
from paper_tolerance import ALL, ROOT, WEIGHTS, Calibrated, Setup, Whole, calibrated, drawn, load_setup, words
from rich.console import Console
from rich.progress import Progress
from studies import blocks, write_study

from optinc_pdk.arrays import Complexes, Floats
from optinc_pdk.cards import load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks.layers import activate
from optinc_pdk.options import Activation
from optinc_pdk.simulate.transmission.noise import Noise, noise_of
from optinc_pdk.studies import Imperfections, imperfections

FINISHED = ROOT / "benchmarks" / "paper_noise.csv"
PICTURE = ROOT / "docs" / "paper_noise.png"
BITS = 16.0
RATES_BD = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5)
CASE = replace(ALL, name="noise", bits=(None, BITS))


@dataclass(frozen=True)
class Row:
    """Result of one chip at one symbol rate."""

    seed: int
    symbol_rate_bd: float
    exact: int
    words: int


@dataclass(frozen=True, eq=False)
class Layer:
    """A calibrated layer: every block with its field transmission, and the calibration result."""

    blocks: list[tuple[MeshBlock, Complexes]]
    calibrated: Calibrated


def noisy(
    points: Floats,
    layers: Sequence[Layer],
    noise: Noise,
    seed: int,
    activation: Activation = "relu",
    onchip: bool = False,
) -> Floats:
    """Return (points, M) outputs with noise: phase of every source, laser intensity, reading of every photodiode.

    Light of modulators on the chip comes through no fibre of its own, except for the servers' in the first layer.
    """
    rng = np.random.default_rng([seed, round(1e6 * noise.symbol_rate_bd)])
    signal = points
    for layer in layers:
        full_scale = float(np.max(np.abs(signal)))
        turned = noise.phase(layer is layers[0] or not onchip) * rng.standard_normal(signal.shape)
        phased = np.exp(1j * turned) * signal / full_scale
        read = np.zeros((len(signal), layer.calibrated.gain.size))
        for block, transmitted in layer.blocks:
            field = phased[:, block.columns] @ transmitted.T
            # the photodiodes of a pair read (1 + |z|²) / 2 ± Re z; the electronics use the difference
            plus, minus = (0.5 * np.abs(1.0 + sign * field) ** 2 for sign in (1.0, -1.0))
            scatter = np.sqrt(noise.variance(plus) + noise.variance(minus))
            read[:, block.rows] += 0.5 * (plus - minus + scatter * rng.standard_normal(field.shape))
        # laser intensity noise is common to oscillators and sources
        read *= 1.0 + noise.intensity * rng.standard_normal((len(signal), 1))
        signal = full_scale * read * layer.calibrated.gain + layer.calibrated.offset
        if layer is not layers[-1]:
            signal = activate(signal, activation)
    return signal


def with_fields(
    setup: Setup, sampled: Sequence[Sequence[FabricatedBlock]], layers: Sequence[Calibrated]
) -> list[Layer]:
    """Return calibrated layers with the field transmission of every sampled block."""
    return [
        Layer(
            [(block, transmission(*one)) for block, *one in zip(blocks, made, layer.phases, strict=True)],
            layer,
        )
        for blocks, made, layer in zip(setup.blocks, sampled, layers, strict=True)
    ]


def chip(setup: Setup, card: Imperfections, seed: int) -> list[Row]:
    """Evaluate one chip at every symbol rate."""
    sampled = drawn(setup, CASE, card, seed)
    layers = with_fields(setup, sampled, [by_bits[BITS] for by_bits in calibrated(setup, CASE, sampled, seed)])
    rows = []
    for rate in RATES_BD:
        noise = noise_of(setup.process, symbol_rate_bd=rate)
        exact, _ = words(setup, noisy(setup.points, layers, noise, seed))
        rows.append(Row(seed, rate, exact, len(setup.points)))
    return rows


app = typer.Typer(no_args_is_help=True, help=(__doc__ or "").splitlines()[0])


@app.command()
def run(
    chips: Annotated[int, typer.Option(help="Number of chips.")] = 20,
    first: Annotated[int, typer.Option(help="Index of the first chip, for parallel runs.")] = 0,
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED,
) -> None:
    """Calibrate chips and evaluate every word of the lattice with noise."""
    process = load_process("soi220")
    card = imperfections(process)
    setup = load_setup(WEIGHTS, process, card)
    done = {one.seed for one in read(results, Row)}
    todo = [seed for seed in range(first, chips) if seed not in done]
    with Progress(console=Console(stderr=True)) as progress:
        for seed in progress.track(todo, description="chips"):
            write(results, chip(setup, card, seed))


@app.command()
def table(
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED, whole: Whole = False
) -> None:
    """Write exact words and word-error rates by symbol rate, and plot them."""
    rows = read(results, Row)
    lines = ["| symbol rate | words exact, mean | worst | perfect | word-error rate |", "|---|---|---|---|---|"]
    rates, mean, worst = list[float](), list[float](), list[float]()
    for rate in RATES_BD:
        matching = [one for one in rows if one.symbol_rate_bd == rate]
        if not matching:
            continue
        exact = [one.exact for one in matching]
        perfect = sum(one.exact == one.words for one in matching)
        rates.append(rate)
        mean.append(1.0 - float(np.mean(exact)) / matching[0].words)
        worst.append(1.0 - min(exact) / matching[0].words)
        lines.append(
            f"| {format_si(rate, 'Bd')} | {np.mean(exact):,.2f} | {min(exact):,} | {perfect} of {len(matching)} | "
            f"{mean[-1]:.2g} |"
        )
    command = "python benchmarks/paper_noise.py table"
    write_study("paper_noise", blocks(lines), command, ["soi220"], [WEIGHTS], whole)
    figure = Figure(figsize=(7.0, 4.2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.plot(rates, mean, "o-", label="mean")
    axes.plot(rates, worst, "x:", label="worst chip")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-5)
    axes.set(xlabel="symbol rate / Bd", ylabel="word-error rate", ylim=(-1e-6, 1.5))
    axes.set_title("4-64-128-256-128-64-4, calibrated, 16 bits, 10 mW a guide")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    app()
