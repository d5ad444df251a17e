"""Sampled chips before and after calibration: results/tolerance.json, and plots in docs/.

    python benchmarks/tolerance.py                      # every row, 20 samples each: hours
    python benchmarks/tolerance.py --only 4bit --only 16    # names that contain all of these, or one whole name
    python benchmarks/tolerance.py --waterfall 5        # also what each imperfection costs after calibration
    python benchmarks/tolerance.py --workers 8          # number of processes

Every row builds a bundled network once, extracts its circuit from the GDS and evaluates samples with the imperfections
of the process card. Finished samples are kept in gds_out/tolerance, so an interrupted run resumes. Results are written
after every row; rows of an earlier run stay in them until they are evaluated again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer
from matplotlib.figure import Figure
from rich.console import Console
from studies import read_data, write_study

from optinc_pdk.cards import load_process
from optinc_pdk.io.chip_files import ChipFiles, chip_files
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.options import BUDGETS, BuildOptions
from optinc_pdk.pipeline.building import build
from optinc_pdk.simulate.transmission.noise import noise_of
from optinc_pdk.studies import imperfections, read_chip
from optinc_pdk.studies.chip_checks import AFTER, WordCheck
from optinc_pdk.studies.montecarlo.executors import LOCAL, open_executor
from optinc_pdk.studies.montecarlo.sample_records import Records, SampleJob
from optinc_pdk.studies.montecarlo.study import YieldStudy, amounts_of
from optinc_pdk.studies.montecarlo.summary_text import caption, percent
from optinc_pdk.studies.montecarlo.yield_plots import waterfall_png, yield_png
from optinc_pdk.studies.montecarlo.yield_run import YieldResults, header_of, run_jobs

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "optinc_pdk" / "networks" / "bundled"
DOCS = ROOT / "docs"
SHIPPED = ("average_4bit_4servers_relu", "average_8bit_4servers_relu", "average_8bit_4servers_robust")
BITS = (16.0, 12.0, 8.5)
STUDIES = ("alone", "without", "upto")
RATES_BD = (1e6, 1e7, 1e8, 1e9)
NOISE_RATES_BD = (1e4, 1e5, 1e6, 1e7, 1e8)
"""Symbol rates of rows with a noisy bench; the bundled networks have no errors below the second or third of them."""
BENCH_RATE_BD = 1e6
PARTS = f"{AFTER}, each alone, all but each, up to each"
"""Stage of samples with part of the imperfections, 28 for each chip; they are not independent chips."""
SEED = 2603
INTRODUCTION = """# Sampled chips before and after calibration

Every row is a bundled network: built, extracted from its
GDS and sampled with the imperfections of [the process card](imperfections.md), seed 2603. Sample i of all rows of a
network is the same chip. *Before*: with the bias file of the build. *Exact* is the share of inputs for which every
server reads the ideal word, under every assignment of symbols to servers that was tried. On a *perfect* chip all inputs
are exact; the interval is Wilson's. *Each alone, all but each, up to each* are 28 evaluations of every chip with part
of the imperfections. *Margin* is half a level minus the largest error of any output, in levels. Words are read without
noise, except at stages with a symbol rate: these have the card's noise, 10 mW into every waveguide, and each symbol is
integrated over its whole duration. Rows with *noise* were also calibrated with detector noise, where each reading of
the bench is the mean of 10,000 symbols at 1 MBd; all their words are read with all noise, at 1 MBd unless a rate is
given.
[Between and after](yield.md#between-and-after) describes the calibration and lists the rows that were not evaluated.
The rows were measured with the direct link (`--link direct`) and modulators of infinite extinction, before output
neurons became the default.
"""


@dataclass(frozen=True)
class Row:
    """One row of the table: a network, the effective bits of the drive, and changes to the card."""

    network: str
    bits: float = BITS[0]
    scales: dict[str, float] = field(default_factory=dict)
    noise: bool = False

    @property
    def change(self) -> str:
        """Changes to the card as text; empty for the card without noise."""
        scales = [f"{kind} × {factor:g}" for kind, factor in self.scales.items()]
        return ", ".join(scales + ["noise"] * self.noise)

    @property
    def name(self) -> str:
        """Stem of the file of its samples."""
        scales = "".join(f"_{kind}{factor:g}" for kind, factor in self.scales.items())
        return f"{self.network}_{self.bits:g}bits{scales}{'_noise' * self.noise}"

    @property
    def plain(self) -> bool:
        """Whether the row has no changes; such rows get more studies and plots."""
        return self.bits == BITS[0] and not self.scales and not self.noise


def rows() -> Iterator[Row]:
    """Yield all rows: bits of the drive, half the coupler errors, and noise."""
    for network in SHIPPED:
        yield from (Row(network, bits) for bits in BITS)
        yield Row(network, scales={"coupler": 0.5})
        yield from (Row(network, bits, noise=True) for bits in BITS)


def selected_rows(only: Sequence[str]) -> list[Row]:
    """Return the rows whose names contain all given texts; the complete name of a row selects that row only."""
    named = [row for row in rows() if row.name in only]
    return named or [row for row in rows() if all(part in row.name for part in only)]


def chip_of_network(network: str, folder: Path) -> ChipFiles:
    """Return the files of a network's chip and build it if they do not exist."""
    gds = folder / f"{network}.gds"
    if not gds.with_suffix(".report.json").exists():
        done = build(NETWORKS / f"{network}.npz", folder, BuildOptions(name=network, accept=BUDGETS))
        if not done.passed:
            raise SystemExit(f"{network}: its build failed: {'; '.join(done.findings)}")
    return chip_files(gds)


@lru_cache(maxsize=1)
def _read(files: ChipFiles) -> Any:
    return read_chip(files.gds, files.netlist, files.bias, load_process())


def work_of(row: Row, files: ChipFiles) -> YieldStudy:
    """Return what is evaluated for every sample of a row."""
    process, onn = load_process(), AveragingNetwork.load(NETWORKS / f"{row.network}.npz")
    scaled_imperfections = imperfections(process)
    scaled_imperfections = scaled_imperfections.scaled(
        "dac", 2.0 ** (float(scaled_imperfections.card.dac.effective_bits) - row.bits)
    )
    for kind, factor in row.scales.items():
        scaled_imperfections = scaled_imperfections.scaled(kind, factor)
    rates = NOISE_RATES_BD if row.noise else RATES_BD if row.plain else ()
    noise = noise_of(process, symbol_rate_bd=BENCH_RATE_BD) if row.noise else None
    return YieldStudy(WordCheck(_read(files), onn.task, onn), scaled_imperfections, SEED, True, noise, rates)


def jobs_of(work: YieldStudy, samples: int, waterfall: int) -> list[SampleJob]:
    """Return the jobs of a row: all samples, and the first ``waterfall`` samples with part of the imperfections."""
    jobs = [SampleJob("all", "", sample) for sample in range(samples)]
    kinds = tuple(amounts_of(work))
    for study, some in zip(STUDIES, (kinds, kinds, kinds[1:-1]), strict=True):
        jobs += [SampleJob(study, kind, sample) for kind in some for sample in range(waterfall)]
    return jobs


def lines_of(row: Row, numbers: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one CSV row for every stage."""
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


def part_statistics(found: YieldResults) -> dict[str, Any]:
    """Return statistics of the samples with part of the imperfections, by stage; empty if there are none."""
    parts = [
        one for (study, _, stage), some in found.outcomes.items() if study != "all" for one in some if stage == AFTER
    ]
    return {PARTS: found.summary.numbers(parts)} if parts else {}


def merged_lines(earlier: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge new lines with those of an earlier run, replacing rows evaluated again, in the order of the rows."""

    def key_of(line: dict[str, Any]) -> tuple[Any, ...]:
        return line["network"], line["bits"], line["change"]

    new = {key_of(line) for line in lines}
    order = {(row.network, row.bits, row.change): number for number, row in enumerate(rows())}
    # drop rows that no longer exist
    kept = [line for line in earlier if key_of(line) not in new and key_of(line) in order]
    return sorted([*kept, *lines], key=lambda line: order[key_of(line)])


def page(table: Sequence[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    pictures = [path.name for kind in ("calibrated", "waterfall", "rates") for path in DOCS.glob(f"{kind}_*.png")]
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
                # evaluations of one chip are not independent trials, so they have no interval
                "" if line["stage"] == PARTS else f"{percent(line['perfect_low'])} to {percent(line['perfect_high'])}",
                f"{line['word_error_rate_mean']:.2g}",
                f"{line['margin_worst']:.2f}",
            )
            text.append("| " + " | ".join(cells) + " |")
        text.append("")
        titles = {
            f"calibrated_{network}.png": "Share of the chips against words lost and margin",
            f"waterfall_{network}.png": "Words lost per imperfection",
            f"rates_{network}.png": "Words wrong by rate",
        }
        text += [f"![{title}]({name})\n" for name, title in titles.items() if name in pictures]
    return "\n".join(text)


def rates_png(network: str, table: Sequence[dict[str, Any]]) -> bytes:
    """Plot the word-error rate of a network's calibrated chips against the symbol rate; empty without such lines."""
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
        list[str] | None, typer.Option(help="Rows whose names contain all of these; or a row's name.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Samples of every row.")] = 20,
    waterfall: Annotated[int, typer.Option(help="Samples with parts of the imperfections, at 16 bits.")] = 0,
    workers: Annotated[int | None, typer.Option(help="Number of processes; by default this process only.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of chips and samples.")] = (
        ROOT / "gds_out" / "tolerance"
    ),
    docs: Annotated[Path, typer.Option(help="Folder of the plots.")] = DOCS,
) -> None:
    """Evaluate rows and write results and plots."""
    console = Console(stderr=True)
    for row in selected_rows(only or []):
        files = chip_of_network(row.network, output)
        work = work_of(row, files)
        jobs = jobs_of(work, samples, min(waterfall, samples) if row.plain else 0)
        with console.status(row.name) as status, open_executor(work, LOCAL if workers else None, workers) as run:

            def report(done: int, total: int, status: Any = status, row: Row = row) -> None:
                status.update(f"{row.name}: {done} of {total}")

            header = header_of(files, load_process(), work)
            with Records(output / f"{row.name}.jsonl", header, resume=True) as records:
                run_jobs(jobs, records, run, report)
                found = YieldResults.of(work, jobs, records.done)
        numbers = found.numbers(header)
        numbers["stages"] |= part_statistics(found)
        if row.plain:
            noiseless = {stage: outcomes for stage, outcomes in found.stages.items() if " at " not in stage}
            title = caption(numbers, numbers["samples"])
            write_atomic(docs / f"calibrated_{row.network}.png", yield_png(noiseless, 1.0, title))
        lost = [row for row in numbers["contributions"] if any(row[study]["words_lost"] for study in STUDIES)]
        if lost:
            title = caption(numbers, found.parts)
            write_atomic(
                docs / f"waterfall_{row.network}.png", waterfall_png(numbers["contributions"], work.summary.lost, title)
            )
        table = merged_lines(read_data("tolerance", []), lines_of(row, numbers))
        whole = not only and row == list(rows())[-1]
        networks = [NETWORKS / f"{network}.npz" for network in SHIPPED]
        write_study("tolerance", table, "python benchmarks/tolerance.py", ["soi220"], networks, whole)
        if rates := rates_png(row.network, table):
            write_atomic(docs / f"rates_{row.network}.png", rates)
        for line in lines_of(row, numbers):
            print(row.name, line["stage"], percent(line["accuracy_mean"]), percent(line["accuracy_worst"]), flush=True)


if __name__ == "__main__":
    typer.run(main)
