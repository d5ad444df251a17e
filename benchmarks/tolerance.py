"""Sampled chips before and after calibration: docs/tolerance.md, docs/tolerance.csv and their pictures.

    python benchmarks/tolerance.py                      # every row, 20 samples each: hours
    python benchmarks/tolerance.py --only 4bit --only 16    # names that contain all of these, or one whole name
    python benchmarks/tolerance.py --waterfall 5        # also what each imperfection costs after calibration
    python benchmarks/tolerance.py --workers 8          # on so many processes

Every row builds a network that ships, once, extracts its circuit from the GDS and measures samples with the
imperfections of its process's card. Finished samples are kept in gds_out/tolerance, so that a run that was broken off
goes on where it was. The page is written after every row; rows of an earlier run stay in it until they are measured
again.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from rich.console import Console

from optinc_pdk.cards import load_process
from optinc_pdk.files import write_atomic
from optinc_pdk.flow import build
from optinc_pdk.onn import Onn
from optinc_pdk.simulate.noise import noise_of
from optinc_pdk.tolerance import imperfections, read_chip
from optinc_pdk.tolerance.montecarlo.plots import waterfall_png, yield_png
from optinc_pdk.tolerance.montecarlo.records import Job, Records
from optinc_pdk.tolerance.montecarlo.run import ChipFiles, Found, chip_files, header_of, measure
from optinc_pdk.tolerance.montecarlo.schedule import LOCAL, runner
from optinc_pdk.tolerance.montecarlo.study import AFTER, Work, amounts_of
from optinc_pdk.tolerance.montecarlo.summary import outcome_numbers
from optinc_pdk.tolerance.montecarlo.text import caption, percent

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "optinc_pdk" / "onn" / "networks"
DOCS = ROOT / "docs"
SHIPPED = ("average_4bit_4servers", "average_8bit_4servers", "average_8bit_4servers_robust")
BITS = (16.0, 12.0, 8.5)
STUDIES = ("alone", "without", "upto")
RATES_BD = (1e6, 1e7, 1e8, 1e9)
NOISE_RATES_BD = (1e4, 1e5, 1e6, 1e7, 1e8)
"""Of rows whose bench has noise; the chips that ship read without errors below the third or second of them."""
BENCH_RATE_BD = 1e6
PARTS = f"{AFTER}, each alone, all but each, up to each"
"""The stage of samples with parts of the imperfections, 28 of every chip: as many measurements, not chips."""
SEED = 2603
INTRODUCTION = """# Sampled chips before and after calibration

Written by `python benchmarks/tolerance.py`. Every row is a network that ships, built, extracted from its GDS and
sampled with the imperfections of [the process's card](imperfections.md), seed 2603; sample i of all rows of a network
is the same chip. *Before*: driven as the build's bias file says. *Exact* is the share of the inputs for which every
server reads the ideal word, under every assignment of symbols to servers that was tried; a *perfect* chip misses none,
and the interval is Wilson's. *Each alone, all but each, up to each* are 28 measurements of every chip with parts of
the imperfections. *Margin* is half a level minus the largest error of any output, in levels. Words are
read without noise, but for stages at a symbol rate: there with the card's noise, 10 mW into every guide, each symbol
integrated over all of its time. Rows of *noise* were also calibrated with that of the detectors, every reading of the
bench the mean of 10,000 symbols at 1 MBd, and read all their words with all of it, at 1 MBd where no rate is given.
How a chip is calibrated, and which rows were not measured: [between and after](yield.md#between-and-after).
"""


@dataclass(frozen=True)
class Row:
    """One row: a network, the bits of its drive, and what differs from the card."""

    network: str
    bits: float = BITS[0]
    scales: dict[str, float] = field(default_factory=dict)
    noise: bool = False

    @property
    def change(self) -> str:
        """What differs from the card without noise, in words."""
        scales = [f"{kind} × {factor:g}" for kind, factor in self.scales.items()]
        return ", ".join(scales + ["noise"] * self.noise)

    @property
    def name(self) -> str:
        """Name of the file of its samples."""
        scales = "".join(f"_{kind}{factor:g}" for kind, factor in self.scales.items())
        return f"{self.network}_{self.bits:g}bits{scales}{'_noise' * self.noise}"

    @property
    def plain(self) -> bool:
        """Whether this is the card's own chip, of which more is asked."""
        return self.bits == BITS[0] and not self.scales and not self.noise


def rows() -> Iterator[Row]:
    """All rows: the drive's bits, couplers twice as good, and noise."""
    for network in SHIPPED:
        yield from (Row(network, bits) for bits in BITS)
        yield Row(network, scales={"coupler": 0.5})
        yield from (Row(network, bits, noise=True) for bits in BITS)


def chosen(only: Sequence[str]) -> list[Row]:
    """The rows whose names contain all of these; a row's whole name means that row alone."""
    named = [row for row in rows() if row.name in only]
    return named or [row for row in rows() if all(part in row.name for part in only)]


def built(network: str, folder: Path) -> ChipFiles:
    """The chip of a network, built where it is not there."""
    gds = folder / f"{network}.gds"
    if not gds.with_suffix(".report.json").exists():
        done = build(NETWORKS / f"{network}.npz", folder, network)
        if not done.passed:
            raise SystemExit(f"{network}: its build failed: {'; '.join(done.findings)}")
    return chip_files(gds)


@lru_cache(maxsize=1)
def _read(files: ChipFiles) -> Any:
    return read_chip(files.gds, files.netlist, files.bias, load_process())


def work_of(row: Row, files: ChipFiles) -> Work:
    """What is measured of a row's samples."""
    process, onn = load_process(), Onn.load(NETWORKS / f"{row.network}.npz")
    wanted = imperfections(process)
    wanted = wanted.scaled("dac", 2.0 ** (float(wanted.card.dac.effective_bits) - row.bits))
    for kind, factor in row.scales.items():
        wanted = wanted.scaled(kind, factor)
    rates = NOISE_RATES_BD if row.noise else RATES_BD if row.plain else ()
    noise = noise_of(process, symbol_rate_bd=BENCH_RATE_BD) if row.noise else None
    return Work(_read(files), onn.task, wanted, SEED, 1.0, noise, onn, rates)


def jobs_of(work: Work, samples: int, waterfall: int) -> list[Job]:
    """The samples of a row, and the first of them with parts of the imperfections."""
    jobs = [Job("all", "", sample) for sample in range(samples)]
    kinds = tuple(amounts_of(work))
    for study, some in zip(STUDIES, (kinds, kinds, kinds[1:-1]), strict=True):
        jobs += [Job(study, kind, sample) for kind in some for sample in range(waterfall)]
    return jobs


def lines_of(row: Row, numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """A row of the CSV for every stage."""
    return [
        {"network": row.network, "bits": row.bits, "change": row.change, "stage": stage}
        | {f"perfect_{key}": value for key, value in found["yield"].items()}
        | {
            f"{key}_{which}": found[key][which]
            for key in ("accuracy", "word_error_rate", "margin")
            for which in ("mean", "worst")
        }
        for stage, found in numbers["stages"].items()
    ]


def of_parts(found: Found, target: float) -> dict[str, Any]:
    """The stage of samples that have only parts of the imperfections; empty where there are none."""
    parts = [
        one for (study, _, stage), some in found.outcomes.items() if study != "all" for one in some if stage == AFTER
    ]
    return {PARTS: outcome_numbers(parts, target)} if parts else {}


def together(earlier: Path, lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of an earlier run, those measured again in place of theirs, in the order of the rows."""
    kept: list[dict[str, Any]] = []
    if earlier.exists():
        with earlier.open(newline="") as stream:
            kept = [{key: _value(key, text) for key, text in line.items()} for line in csv.DictReader(stream)]

    def which(line: dict[str, Any]) -> tuple[Any, ...]:
        return line["network"], line["bits"], line["change"]

    new = {which(line) for line in lines}
    order = {(row.network, row.bits, row.change): number for number, row in enumerate(rows())}
    # rows that are asked for no more go
    kept = [line for line in kept if which(line) not in new and which(line) in order]
    return sorted([*kept, *lines], key=lambda line: order[which(line)])


def _value(key: str, text: str) -> str | float | int:
    if key in ("network", "change", "stage"):
        return text
    return int(text) if key in ("perfect_passed", "perfect_samples") else float(text)


def page(table: Sequence[dict[str, Any]], pictures: Sequence[str]) -> str:
    """The page of all rows that are there."""
    text = [INTRODUCTION]
    for network in dict.fromkeys(line["network"] for line in table):
        text += [f"## {network}", ""]
        heads = (
            *("drive, bits", "change", "stage", "exact, mean", "exact, worst", "perfect", "95 %", "word errors"),
            "margin, worst",
        )
        text += ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
        for line in (line for line in table if line["network"] == network):
            cells = (
                f"{line['bits']:g}",
                line["change"],
                line["stage"],
                percent(line["accuracy_mean"]),
                percent(line["accuracy_worst"]),
                f"{line['perfect_passed']} of {line['perfect_samples']}",
                # measurements of one chip are no independent trials
                "" if line["stage"] == PARTS else f"{percent(line['perfect_low'])} to {percent(line['perfect_high'])}",
                f"{line['word_error_rate_mean']:.2g}",
                f"{line['margin_worst']:.2f}",
            )
            text.append("| " + " | ".join(cells) + " |")
        text.append("")
        wanted = {
            f"calibrated_{network}.png": "Share of the chips against words lost and margin",
            f"waterfall_{network}.png": "Words lost per imperfection",
            f"rates_{network}.png": "Words wrong by rate",
        }
        text += [f"![{title}]({name})\n" for name, title in wanted.items() if name in pictures]
    return "\n".join(text)


def rates_png(network: str, table: Sequence[dict[str, Any]]) -> bytes:
    """Word-error rate of a network's calibrated chips against the symbol rate; empty where there are no such lines."""
    figure = Figure(figsize=(7.0, 4.2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    drives = [
        *((bits, "noise", "calibrated with noise too") for bits in BITS),
        (BITS[0], "", "calibrated without noise"),
    ]
    for bits, change, label in drives:
        at = [
            line
            for line in table
            if (line["network"], line["bits"], line["change"]) == (network, bits, change) and " at " in line["stage"]
        ]
        if not at:
            continue
        rate = [float(line["stage"].split()[2]) for line in at]
        mean, worst = ([line[f"word_error_rate_{which}"] for line in at] for which in ("mean", "worst"))
        (drawn,) = axes.plot(rate, mean, "o-", label=f"{bits:g} bits, {label}, {at[0]['perfect_samples']} chips")
        axes.plot(rate, worst, "x:", color=drawn.get_color())
    if not axes.lines:
        return b""
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=1e-6)
    axes.set(xlabel="symbol rate / Bd", ylabel="word-error rate", ylim=(-1e-7, 1.5))
    axes.set_title(f"{network}: mean of the chips; dotted, the worst")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=120, metadata={"Software": None})
    return picture.getvalue()


def main(
    only: Annotated[
        list[str] | None, typer.Option(help="Rows whose names contain this, all of several; or a row's name.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples of every row.")] = 20,
    waterfall: Annotated[int, typer.Option(help="Samples with parts of the imperfections, at 16 bits.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Processes; this one alone where left out.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of chips and samples.")] = (
        ROOT / "gds_out" / "tolerance"
    ),
    docs: Annotated[Path, typer.Option(help="Folder of the page.")] = DOCS,
) -> None:
    """Measure rows and write the page."""
    console = Console(stderr=True)
    for row in chosen(only or []):
        files = built(row.network, output)
        work = work_of(row, files)
        jobs = jobs_of(work, samples, min(waterfall, samples) if row.plain else 0)
        with console.status(row.name) as status, runner(work, LOCAL if workers else None, workers) as run:

            def told(done: int, total: int, status: Any = status, row: Row = row) -> None:
                status.update(f"{row.name}: {done} of {total}")

            header = header_of(files, load_process(), work)
            with Records(output / f"{row.name}.jsonl", header, resume=True) as records:
                measure(jobs, records, run, told)
                found = Found.of(work, jobs, records.done)
        numbers = found.numbers(header, work.target)
        numbers["stages"] |= of_parts(found, work.target)
        if row.plain:
            still = {stage: outcomes for stage, outcomes in found.stages.items() if " at " not in stage}
            told = caption(numbers, numbers["samples"])
            write_atomic(docs / f"calibrated_{row.network}.png", yield_png(still, work.target, told))
        lost = [row for row in numbers["contributions"] if any(row[study]["words_lost"] for study in STUDIES)]
        if lost:
            told = caption(numbers, found.parts)
            write_atomic(docs / f"waterfall_{row.network}.png", waterfall_png(numbers["contributions"], told))
        table = together(docs / "tolerance.csv", lines_of(row, numbers))
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
        write_atomic(docs / "tolerance.csv", stream.getvalue().encode())
        if rates := rates_png(row.network, table):
            write_atomic(docs / f"rates_{row.network}.png", rates)
        pictures = [path.name for kind in ("calibrated", "waterfall", "rates") for path in docs.glob(f"{kind}_*.png")]
        write_atomic(docs / "tolerance.md", page(table, pictures).encode())
        for line in lines_of(row, numbers):
            print(row.name, line["stage"], percent(line["accuracy_mean"]), percent(line["accuracy_worst"]), flush=True)


if __name__ == "__main__":
    typer.run(main)
