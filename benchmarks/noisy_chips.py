"""Sampled chips with all imperfections and noise, calibrated with noise on the bench: results/noisy_chips.json.

    python benchmarks/noisy_chips.py [NAME ...]   sample the named chips, or all, and record what they read

A name stands for all rows whose names contain it. Every chip is built, extracted from its GDS, sampled with the
imperfections of the process card and calibrated on the virtual bench. Every word is sent once, in random order, with
the noise and the bandwidths of the cards; word-error rates are estimated for every sample.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from studies import read_data, write_study

from optinc_pdk.cards import Link, Receivers, load_process
from optinc_pdk.drive import RangeError
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.options import BUDGETS, BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.studies import imperfections, read_chip
from optinc_pdk.studies.chip_checks import AFTER, BEFORE, DRIFTED, WordCheck
from optinc_pdk.studies.montecarlo.study import YieldStudy, sample_seed
from optinc_pdk.studies.montecarlo.summary_text import rate_text
from optinc_pdk.studies.outcomes import WordOutcome
from optinc_pdk.studies.variation.nominal_chip import NominalChip
from optinc_pdk.studies.variation.sampling import aged_sample, draw_sample

SAMPLES, SEED, SERVERS = 20, 2603, 4
STAGES = (BEFORE, AFTER, DRIFTED)


@dataclass(frozen=True)
class Row:
    """Samples of one chip.

    Attributes:
        bits: Bits of a word; the network is the bundled one for 4 servers.
        process: Process name.
        link: How the outputs reach the servers.
        receivers: How the servers detect them.
        rate_bd: Symbol rate.
        drive_bits: Effective bits of the heater drive.
    """

    bits: int
    process: str
    link: Link
    receivers: Receivers
    rate_bd: float
    drive_bits: float

    @property
    def name(self) -> str:
        """Name of the row."""
        return f"{self.bits}bit {self.process} {self.drive_bits:g}"


ROWS = tuple(
    Row(bits, process, link, receivers, rate, drive)
    for process, link, receivers, rate in (
        ("soi220", "neurons", "photodiodes", 3e7),
        ("soi220_fast", "neurons", "coherent", 3e9),
    )
    for bits in (4, 8)
    for drive in (16.0, 12.0, 8.5)
)


def built_chip(row: Row) -> NominalChip:
    """Build the chip of a row, and extract it from its layout."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        network = bundled_weights(row.bits, SERVERS)
        built = building.build(
            network,
            folder,
            BuildOptions(name="chip", process=row.process, link=row.link, receivers=row.receivers, accept=BUDGETS),
        )
        if not built.passed:
            raise SystemExit(f"{row.name}: its build failed: {'; '.join(built.findings)}")
        files = [folder / f"chip{ending}" for ending in (".gds", ".pic.yml", ".bias.yml")]
        return read_chip(*files, load_process(row.process))


def measure(row: Row, chip: NominalChip) -> dict[str, Any]:
    """Sample and calibrate the chip of a row, and read all words with noise."""
    onn = AveragingNetwork.load(bundled_weights(row.bits, SERVERS))
    card = imperfections(chip.process)
    drive = 2.0 ** (float(card.card.dac.effective_bits) - row.drive_bits)
    check = WordCheck(chip, onn.task, onn)
    noise = check.operating_noise(None, row.rate_bd)
    work = YieldStudy(check, card.scaled("dac", drive), SEED, True, noise)
    outcomes: dict[str, list[WordOutcome]] = {stage: [] for stage in STAGES}
    calibrations = [outcomes_of_sample(work, sample, outcomes) for sample in range(SAMPLES)]
    return {
        **asdict(row),
        "samples": SAMPLES,
        "seed": SEED,
        "receiver_a_per_sqrt_hz": noise.receiver_a_per_sqrt_hz,
        "window": noise.shape.window,
        "stages": {
            stage: work.summary.numbers(found)
            | {"words": sum(one.words for one in found), "wrong": sum(one.wrong for one in found)}
            | {"estimates": [one.estimated_word_error_rate for one in found]}
            for stage, found in outcomes.items()
        },
        "calibration_cpu_s": calibrations,
    }


def outcomes_of_sample(work: YieldStudy, sample: int, outcomes: dict[str, list[WordOutcome]]) -> float:
    """Add the outcome of each stage of a sample, and return the processor time of its calibration in s."""
    check, seed = work.check, sample_seed(work.seed, sample)
    drawn, conditions = draw_sample(work.chip, work.imperfections, seed), work.conditions(work.imperfections, seed)
    outcomes[BEFORE].append(work.outcome_of(drawn, check.stated_setting(), conditions))
    start = time.process_time()
    try:
        tuned = check.calibrated(drawn, conditions)[AFTER]
    except (RangeError, np.linalg.LinAlgError) as fault:
        spent = time.process_time() - start
        for stage in (AFTER, DRIFTED):
            outcomes[stage].append(check.unusable(check.calibration_fault(fault), conditions.noise))
        return spent
    spent = time.process_time() - start
    for stage, state in ((AFTER, drawn), (DRIFTED, aged_sample(drawn))):
        outcomes[stage].append(work.outcome_of(state, tuned, conditions))
    return spent


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    heads = (
        *("process", "rate", "bits", "drive, bits", "chips that read every word: before, after, drifted"),
        *("words wrong after", "margin, worst", "estimate after: median, worst", "drifted: median, worst"),
        "calibration: mean, longest",
    )
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in ROWS:
        if row.name not in results:
            continue
        found = results[row.name]
        stages, cpu = found["stages"], found["calibration_cpu_s"]
        after, drifted = stages[AFTER], stages[DRIFTED]
        cells = (
            row.process,
            format_si(row.rate_bd, "Bd"),
            str(row.bits),
            f"{row.drive_bits:g}",
            ", ".join(str(stages[stage]["yield"]["passed"]) for stage in STAGES) + f" of {found['samples']}",
            f"{after['wrong']:,} of {after['words']:,}",
            f"{after['margin']['worst']:.2f}",
            _estimates(after),
            _estimates(drifted),
            f"{sum(cpu) / len(cpu):.1f} s, {max(cpu):.1f} s",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _estimates(stage: dict[str, Any]) -> str:
    found = stage["estimated_word_error_rate"]
    return ", ".join(rate_text(found[which]) for which in ("median", "worst"))


HEAD = """# Sampled chips with noise

20 samples of each chip, seed 2603. All imperfections of [the process card](imperfections.md) and all [noise](noise.md)
are on, also on the bench of the calibration; 4 servers, 10 mW into every guide. `soi220` has output neurons and
photodiodes, `soi220_fast` output neurons and coherent receivers.

- **Before**: with the bias file of the build. **After**: calibrated. **Drifted**: as calibrated, after heater
  resistances have drifted.
- **Words wrong** are counted: every input is sent once, in random order, with each assignment of symbols to servers,
  and all servers read it.
- **Estimate** of the word-error rate, for rates far below what can be counted: see [noise](noise.md#the-estimate).
  Median and worst of the 20 chips.
- **Calibration**: processor time with one thread, with the simulated bench.

"""
TAIL = """
The rows were measured one by one while other programs ran on the machine, which lengthens processor times.

One amplifier and one window serve all samples of a chip; they are those with which the nominal chip has the lowest
estimate at this rate. Coherent receivers are locked to the light of their own modulators, see
[yield](yield.md#coherent-receivers).
"""


def record(row: Row, found: dict[str, Any], whole: bool) -> None:
    """Add the results of a row to those of the study."""
    results = read_data("noisy_chips", {}) | {row.name: found}
    processes = sorted({one.process for one in ROWS})
    networks = [bundled_weights(bits, SERVERS) for bits in sorted({one.bits for one in ROWS})]
    write_study("noisy_chips", results, "python benchmarks/noisy_chips.py", processes, networks, whole)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    chosen = [row for row in ROWS if not given.names or any(name in row.name for name in given.names)]
    if not chosen:
        raise SystemExit(f"no chip {given.names[0]!r}; take of {', '.join(repr(row.name) for row in ROWS)}")
    chips: dict[tuple[int, str], NominalChip] = {}
    for row in chosen:
        key = row.bits, row.process
        chips[key] = chips.get(key) or built_chip(row)
        found = measure(row, chips[key])
        record(row, found, whole=row is ROWS[-1] and chosen == list(ROWS))
        after = found["stages"][AFTER]
        print(
            f"{row.name}: {after['yield']['passed']} of {SAMPLES} read every word, {after['wrong']:,} wrong, estimate "
            f"{_estimates(after)}; calibration {max(found['calibration_cpu_s']):.1f} s at most",
            flush=True,
        )


if __name__ == "__main__":
    main()
