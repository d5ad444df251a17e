"""Sampled chips that drift in service, with and without tracking: results/drift.json.

    python benchmarks/drift.py run BITS HOLDS [--rate BD] [--samples N] [--warm M] [--first I]
                                                                   sample chips, record their words
    python benchmarks/drift.py table                               write results and pictures of all runs

BITS is 4 or 8: the chip is the bundled network for 4 servers on soi220, its outputs end in neurons. HOLDS is what the
heater drive holds, voltage or power. With --rate, calibration, pilots and words have all noise at this symbol rate.
All N chips walk, M of them also become warmer by 10 K. A chip is recorded as soon as it is finished; runs of one
configuration with other chips (--first) may work at the same time. The results keep the rows that
were not run again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from studies import read_data, write_study

from optinc_pdk.cards import load_process, with_link
from optinc_pdk.io.formatting import format_si
from optinc_pdk.io.writing import write_atomic
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.options import BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.studies import imperfections, read_chip
from optinc_pdk.studies.chip_checks import WordCheck
from optinc_pdk.studies.drift.drift_picture import DriftTrack, drift_png
from optinc_pdk.studies.drift.scenarios import KELVIN_PER_STEP, SCENARIOS
from optinc_pdk.studies.drift.tracking import LEARNING_AVERAGES, PILOT_AVERAGES
from optinc_pdk.studies.drift.word_drift import PANELS, drift_points, start_service
from optinc_pdk.studies.montecarlo.study import YieldStudy
from optinc_pdk.studies.montecarlo.summary_text import percent, rate_text

ROOT = Path(__file__).parents[1]
CHIPS = ROOT / "gds_out" / "drift"
PICTURES = ROOT / "docs"
SEED, EFFECTIVE_BITS = 2603, 12.0
OUTCOME = ("accuracy", "words", "wrong", "margin", "estimated_word_error_rate")
KEYS = ("bits", "holds", "rate_bd", "scenario", "tracked")
"""What tells one row of the table from another."""
CARD = """schema: 1
name: soi220_power
title: soi220 with heater drives that hold power
base: soi220
drive:
  holds: power
"""


def work_of(bits: int, holds: str, rate_bd: float | None) -> tuple[YieldStudy, float]:
    """Build a chip and return the parameters of its samples, and the hours after which the card's walk has its size.

    Args:
        bits: Bits of a word.
        holds: What the heater drive holds.
        rate_bd: Symbol rate at which there is noise; None for no noise.
    """
    name = f"average_{bits}bit_4servers"
    with tempfile.TemporaryDirectory() as folder:
        card = Path(folder) / "soi220_power"
        card.mkdir()
        (card / "process.yml").write_text(CARD)
        process = "soi220" if holds == "voltage" else str(card)
        where = Path(folder) / "chip"
        built = building.build(
            bundled_weights(bits, 4), where, BuildOptions(name=name, process=process, link="neurons")
        )
        if not built.passed:
            raise SystemExit(f"{name}: its build failed: {'; '.join(built.findings)}")
        cards = with_link(load_process(process), "neurons", None)
        files = [where / f"{name}.{ending}" for ending in ("gds", "pic.yml", "bias.yml")]
        chip = read_chip(files[0], files[1], files[2], cards)
    onn, drawn = AveragingNetwork.load(bundled_weights(bits, 4)), imperfections(cards)
    card_bits = float(drawn.card.dac.effective_bits)
    drawn = drawn.scaled("dac", 2.0 ** (card_bits - EFFECTIVE_BITS))
    check = WordCheck(chip, onn.task, onn)
    noise = None if rate_bd is None else check.operating_noise(None, rate_bd)
    return YieldStudy(check, drawn, SEED, True, noise), float(drawn.card.heater.drift_h)


def run(bits: int, holds: str, rate_bd: float | None, samples: int, warm: int, first: int) -> None:
    """Sample chips, let them drift, and append the words of each to a file."""
    work, hours = work_of(bits, holds, rate_bd)
    noise = "" if rate_bd is None else f"_{rate_bd:g}"
    CHIPS.mkdir(parents=True, exist_ok=True)
    for index in range(first, first + samples):
        start = time.process_time()
        service = start_service(work, index)
        for scenario in SCENARIOS:
            if scenario.kelvin and index >= first + warm:
                continue
            for tracked in (False, True):
                if tracked and holds == "power" and not scenario.kelvin:
                    # nothing changes
                    continue
                points, effort = drift_points(service, scenario, hours, tracked)
                row: dict[str, Any] = {"bits": bits, "holds": holds, "rate_bd": rate_bd, "sample": index}
                row |= {"scenario": scenario.name, "tracked": tracked, "share": [one.share for one in points]}
                row |= {key: [getattr(one.outcome, key) for one in points] for key in OUTCOME}
                row |= {"effort": asdict(effort), "processor_s": time.process_time() - start}
                start = time.process_time()
                with (CHIPS / f"{bits}bit_{holds}{noise}_{first}.jsonl").open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(
                    *(bits, holds, rate_bd, index, scenario.name, tracked, row["accuracy"][-1], min(row["margin"])),
                    f"{row['processor_s']:.0f} s",
                    flush=True,
                )


INTRODUCTION = """# Chips in service

Chips are sampled with all imperfections of the card
`soi220`, seed {seed}, calibrated at {bits:g} effective bits, and then drift; first without noise, then
[with noise](#with-noise). Their outputs end in neurons (`--link neurons`). `optinc yield CHIP.gds --calibrate --weights
NETWORK.npz --drift HOURS` does the same for any chip of words, with `--noise --symbol-rate BD` also with noise.

- **Walk**: every heater's resistance walks at random, on its own. After {hours:g} hours its rms change is the
  card's `drift_spread`, 0.1 %; *walk x10* reaches 1 %.
- **10 K**: the temperature of the whole chip rises by 10 K at a constant rate, {kelvin:g} K between two tracking
  steps. All guides turn by the card's `guide.index_per_k`, resistances change by `heater.resistance_per_k`.
- **Drive**: `drive: {{holds: power}}` in the process card is a drive that measures its current and holds the power
  of a heater. Drift and spread of resistances and ground rise then do not change phases.
- **Exact** is the share of inputs for which every server reads the ideal word, at the end. All words are read at up
  to 26 times, of tracked chips before and after a tracking step; the worse counts. *Throughout* are the chips that
  read every word at all of these times. *Margin*: half a level minus the largest error of an output, at any time.

| network | drive | scenario | tracking | chips | exact at the end: mean, worst | throughout | margin, worst |
|---|---|---|---|---|---|---|---|
"""
NOISE = """
## With noise

The same chips and walks with all noise of the card at a symbol rate: on the bench of the calibration, in the pilots and
while words are read, with the receiver of `optinc yield --noise`. *Wrong*: of all words at all of these times, tracked
chips counted by the worse of before and after a step. *Estimate*: the largest [estimated](noise.md#the-estimate)
word-error rate at any time. *Time*: processor time of a chip with its simulation, the calibration included in the first
row of a network.

| rate | network | drive | scenario | tracking | chips | exact at the end: mean, worst | throughout | wrong | \
estimate, worst | margin, worst | time |
|---|---|---|---|---|---|---|---|---|---|---|---|
"""
EFFORT = """
## Tracking

Pilot words are a fixed set of known words, sent between data. They are chosen so that the signals of every layer
are determined twice over. In a round, they are sent at the setting in use, and once for each layer of neurons with
its local oscillators 0.2 rad ahead: signals in phase do not tell the sign of a phase error, both settings together
do. Changes of what the detectors read are solved for changes of thresholds, gains and scales, which follow, and for
changes of the heaters' phases, which are corrected. The linear model for that is measured once after calibration,
and again when a step does not settle in four rounds. With a change of temperature, oscillators and inputs move
through whole turns; a heater at the end of its range is moved by a turn, and its neighbours compensate for the
thermal crosstalk. While a heater moves by a turn, data have to wait. A rate of change, a running mean, is continued
between the steps.

Every reading of a pilot is the mean of {averages:,} symbols; those of reference and linear model, of {learning:,}. The
pilots are sent 16 times after calibration to measure the noise of their readings. Noisier readings weigh less in the
solution, and steps within four standard deviations of what noise makes of them end a round. One number of averages
serves all rates, so pilots at higher rates are noisier.

| network | drive | noise | scenario | pilots × settings | rounds per step | time per step | models per chip | turns \
per chip |
|---|---|---|---|---|---|---|---|---|
"""
SHARE = """
*Models* and *turns* count how often the model was measured again and how often a heater moved by a whole turn. The
time per step is processor time of the solution and of the pilots' bookkeeping, without the simulation of the chip,
on one shared core. A round of {pilots} words at {settings} settings, each word averaged over {averages:,} symbols,
takes {symbols:,} symbols, {time:.2g} ms at 1 GBd; a round each second takes {share:.2g} % of the symbols, besides the
time in which heaters settle.

What is not modelled: ageing of other parts than heaters, gradients of temperature over the chip, drift of the
laser, and the phases of fibres, which are taken to be locked. Temperature coefficients of wires are neglected.
"""


def rows_of() -> list[dict[str, Any]]:
    """Return all recorded rows; of a chip that was recorded twice, the later one."""
    found = {}
    for path in sorted(CHIPS.glob("*.jsonl")):
        for text in path.read_text().splitlines():
            row = json.loads(text)
            found[tuple(row[key] for key in (*KEYS, "sample"))] = row
    return list(found.values())


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the statistics of every network, drive and scenario, with and without tracking."""
    found = []
    for group in {tuple(row[key] for key in KEYS) for row in rows}:
        some = [row for row in rows if tuple(row[key] for key in KEYS) == group]
        estimates = [each for row in some for each in row["estimated_word_error_rate"] if each is not None]
        effort = [row["effort"] for row in some]
        steps = sum(one["steps"] for one in effort)
        found.append(
            dict(zip(KEYS, group, strict=True))
            | {
                "chips": len(some),
                "accuracy_mean": sum(row["accuracy"][-1] for row in some) / len(some),
                "accuracy_worst": min(row["accuracy"][-1] for row in some),
                "throughout": sum(min(row["accuracy"]) == 1.0 for row in some),
                "margin_worst": min(min(row["margin"]) for row in some),
                "words": sum(sum(row["words"]) for row in some),
                "wrong": sum(sum(row["wrong"]) for row in some),
                "estimate_worst": max(estimates, default=None),
                "processor_s": sum(row["processor_s"] for row in some) / len(some),
                "pilots": effort[0]["pilots"],
                "transmissions": effort[0]["transmissions"],
                "rounds_per_step": sum(one["rounds"] for one in effort) / steps if steps else 0.0,
                "processor_s_per_step": sum(one["processor_s"] for one in effort) / steps if steps else 0.0,
                "learnt": sum(one["learnt"] for one in effort) / len(some),
                "turns": sum(one["turns"] for one in effort) / len(some),
            }
        )
    return found


def with_earlier(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return statistics and those of earlier runs that were not run again, in the order of the table."""
    known = {tuple(one.get(key) for key in KEYS): one for one in read_data("drift", [])}
    known |= {tuple(one[key] for key in KEYS): one for one in found}
    order = [one.name for one in SCENARIOS]
    return sorted(
        known.values(),
        key=lambda one: (
            *(one.get("rate_bd") or 0.0, one["bits"], one["holds"] == "power"),
            *(order.index(one["scenario"]), one["tracked"]),
        ),
    )


def page(found: list[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    hours = float(imperfections(load_process()).card.heater.drift_h)
    lines = [INTRODUCTION.format(seed=SEED, bits=EFFECTIVE_BITS, hours=hours, kelvin=KELVIN_PER_STEP).rstrip("\n")]
    quiet = [one for one in found if one.get("rate_bd") is None]
    lines += [f"{_cells(one)} {one['margin_worst']:.2f} |" for one in quiet]
    lines += ["", *(f"![Words and margin against time, {bits} bits]({name})\n" for bits, name in pictures(quiet))]
    lines += [NOISE.rstrip("\n"), *(noise_line(one) for one in found if one.get("rate_bd") is not None)]
    lines.append(EFFORT.format(averages=PILOT_AVERAGES, learning=LEARNING_AVERAGES).rstrip("\n"))
    tracked = [one for one in found if one["tracked"]]
    for one in tracked:
        lines.append(
            f"| {one['bits']} bits | {one['holds']} | {noise_of_row(one)} | {one['scenario']} | "
            f"{one['pilots']} × {one['transmissions']} | "
            f"{one['rounds_per_step']:.2f} | {1e3 * one['processor_s_per_step']:.1f} ms | {one['learnt']:.1f} | "
            f"{one['turns']:.1f} |"
        )
    most = max(tracked, key=lambda one: one["pilots"])
    symbols = PILOT_AVERAGES * most["pilots"] * most["transmissions"]
    numbers = {"pilots": most["pilots"], "settings": most["transmissions"], "symbols": symbols}
    numbers |= {"averages": PILOT_AVERAGES, "learning": LEARNING_AVERAGES}
    return "\n".join(lines) + "\n" + SHARE.format(**numbers, time=symbols / 1e6, share=symbols / 1e7)


def _cells(one: dict[str, Any]) -> str:
    return (
        f"| {one['bits']} bits | {one['holds']} | {one['scenario']} | {'yes' if one['tracked'] else 'no'} | "
        f"{one['chips']} | {percent(one['accuracy_mean'])}, {percent(one['accuracy_worst'])} | "
        f"{one['throughout']} of {one['chips']} |"
    )


def noise_of_row(one: dict[str, Any]) -> str:
    """Return the symbol rate at which a row has noise, as text."""
    return "none" if one.get("rate_bd") is None else format_si(one["rate_bd"], "Bd")


def noise_line(one: dict[str, Any]) -> str:
    """Return a row of the table with noise."""
    estimate = rate_text(one["estimate_worst"])
    return (
        f"| {noise_of_row(one)} {_cells(one)} {one['wrong']:,} of {one['words']:,} | {estimate} | "
        f"{one['margin_worst']:.2f} | {one['processor_s']:.0f} s |"
    )


def pictures(found: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return number of bits and file name of the pictures."""
    return [(bits, f"drift_{bits}bit.png") for bits in sorted({one["bits"] for one in found})]


def table() -> None:
    """Write results and pictures of all runs."""
    rows, hours = rows_of(), float(imperfections(load_process()).card.heater.drift_h)
    recorded = [one for one in summaries(rows) if one["rate_bd"] is None]
    found = with_earlier(summaries(rows))
    for bits, name in pictures(recorded):
        some = [row for row in rows if (row["bits"], row["holds"], row["rate_bd"]) == (bits, "voltage", None)]
        some.sort(key=lambda row: [one.name for one in SCENARIOS].index(row["scenario"]))
        tracks = [
            DriftTrack(row["scenario"], row["tracked"], row["share"], (row["accuracy"], row["margin"])) for row in some
        ]
        caption = f"{bits} bits, 4 servers, drive holds voltage"
        write_atomic(PICTURES / name, drift_png(tracks, PANELS, "tracking", hours, caption))
    networks = [bundled_weights(bits, 4) for bits in (4, 8)]
    write_study("drift", found, "python benchmarks/drift.py", ["soi220"], networks)


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = parser.add_subparsers(dest="task", required=True)
    running = tasks.add_parser("run")
    running.add_argument("bits", type=int, choices=(4, 8))
    running.add_argument("holds", choices=("voltage", "power"))
    running.add_argument("--rate", type=float)
    running.add_argument("--samples", type=int, default=20)
    running.add_argument("--warm", type=int, default=20)
    running.add_argument("--first", type=int, default=0)
    tasks.add_parser("table")
    given = parser.parse_args()
    if given.task == "table":
        table()
    else:
        run(given.bits, given.holds, given.rate, given.samples, given.warm, given.first)


if __name__ == "__main__":
    main()
