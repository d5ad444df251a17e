"""Highest symbol rates of chips, counted words at given rates, and what limits them: results/symbol_rates.json.

    python benchmarks/symbol_rates.py [NAME ...]   build the named chips, or all, and record their rates

Chips are extracted from their GDS and driven by the DAC codes of their bias files. Words are sent in random order. At
least a million words are read at the rate that a row names.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies import read_data, write_study

from optinc_pdk.cards import Link, Receivers, load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, bundled_weights
from optinc_pdk.options import BUDGETS, BuildOptions
from optinc_pdk.pipeline import building
from optinc_pdk.signoff.extracted_chip import read_extracted_chip
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import scattering
from optinc_pdk.simulate.transmission.noise import noise_choices, rate_limits
from optinc_pdk.studies.chip_checks import read_words
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors
from optinc_pdk.studies.highest_rates import IDEALISED, best_noise, find_rate_limits, rates_without_limits
from optinc_pdk.studies.outcomes import wilson_interval

WORDS = 1_000_000


@dataclass(frozen=True)
class Row:
    """One chip.

    Attributes:
        bits: Bits of a word; the network is the bundled one for 4 servers.
        process: Process name.
        link: How the outputs reach the servers.
        receivers: How the servers detect them.
        rate_bd: Symbol rate at which words are counted.
    """

    bits: int
    process: str
    link: Link
    receivers: Receivers
    rate_bd: float

    @property
    def name(self) -> str:
        """Name of the row."""
        return f"{self.bits}bit {self.process} {self.link} {self.receivers}"


ROWS = tuple(
    Row(bits, process, link, receivers, rates[bits])
    for process, link, receivers, rates in (
        ("soi220", "direct", "photodiodes", {4: 1e7, 8: 1e7}),
        ("soi220", "neurons", "photodiodes", {4: 9e8, 8: 3e8}),
        ("soi220_fast", "neurons", "photodiodes", {4: 1.5e10, 8: 5e9}),
        ("soi220_fast", "neurons", "coherent", {4: 2.5e10, 8: 1e10}),
    )
    for bits in (4, 8)
)


PROCESSES = sorted({row.process for row in ROWS})
NETWORKS = [bundled_weights(bits, 4) for bits in sorted({row.bits for row in ROWS})]


def measure(row: Row) -> dict[str, Any]:
    """Build a chip, find its highest rate, and count words."""
    process = load_process(row.process)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        built = building.build(
            bundled_weights(row.bits, 4),
            folder,
            BuildOptions(name="chip", process=row.process, link=row.link, receivers=row.receivers, accept=BUDGETS),
        )
        files = [folder / f"chip{ending}" for ending in (".gds", ".pic.yml", ".bias.yml")]
        chip = read_extracted_chip(*files, process)
    s = scattering(chip.circuit, chip.bias, float(process.guide.wavelength_nm), process, ground=chip.ground)
    inputs = function_inputs(AveragingNetwork.load(bundled_weights(row.bits, 4)).task)
    start = time.process_time()
    margins = error_margins(s, inputs, chip.board, chip.bias)
    limits = find_rate_limits(margins, process)
    without = rates_without_limits(margins, process, limits)
    searched = time.process_time() - start
    noise = best_noise(margins, noise_choices(process, None, row.rate_bd))
    words = wrong = passes = 0
    while words < WORDS:
        read = read_words(s, inputs, chip.board, chip.bias, noise, 2 * passes)
        words, wrong, passes = words + read.words, wrong + read.wrong, passes + 1
    low, high = wilson_interval(wrong / words, words // len(chip.board.outputs))
    return {
        **asdict(row),
        "verdict": built.report.verdict,
        "margin": None if built.report.function is None else built.report.function.margin,
        "limits": limits.to_json() | {"without": without},
        "search_cpu_s": searched,
        "words": words,
        "wrong": wrong,
        "low": low,
        "high": high,
        "estimate": estimate_errors(margins, noise).rate,
        "amplifier_a_per_sqrt_hz": noise.receiver_a_per_sqrt_hz,
        "window": noise.shape.window,
        "laser_w": noise.laser_w,
        "slowest_bd": rate_limits(process)[0],
    }


def page(results: dict[str, Any]) -> str:
    """Return the page."""
    rows = [results[row.name] for row in ROWS if row.name in results]
    chips = [
        "| bits | process | link | receivers | margin | rate at 1e-9 | limited by | words wrong | at | estimate | "
        "95 % interval |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    limits = [
        "| bits | process | link | receivers | all | " + " | ".join(f"without {name}" for name in IDEALISED) + " |",
        "|---|---|---|---|---|" + "---|" * len(IDEALISED),
    ]
    for row in rows:
        found = row["limits"]
        head = f"| {row['bits']} | {row['process']} | {row['link']} | {row['receivers']} | "
        rate = found["symbol_rate_bd"]
        worst = max([*found["layers"], found["receivers"]])
        place = "receivers" if worst == found["receivers"] else f"layer {found['layers'].index(worst)}"
        chips.append(
            head + f"{row['margin']:.3f} | {_rate(rate, found)} | {_limit(found)}; {place} | "
            f"{row['wrong']:,} of {row['words']:,} | {format_si(row['rate_bd'], 'Bd')} | {row['estimate']:.1e} | "
            f"{row['low']:.1e} … {row['high']:.1e} |"
        )
        limits.append(
            head
            + " | ".join(_rate(one, found) for one in (rate, *(found["without"][name] for name in IDEALISED)))
            + " |"
        )
    return HEAD + "\n".join(chips) + BETWEEN + "\n".join(limits) + "\n"


def _limit(found: dict[str, Any]) -> str:
    """What raises the rate most if it is left out."""
    if found["main_limit"]:
        return str(found["main_limit"])
    capped = [name for name, rate in found["without"].items() if rate and math.isclose(rate, found["highest_bd"])]
    return f"{', '.join(capped)} (up to the limit of the process)" if capped else "no single limit"


def _rate(rate: float | None, found: dict[str, Any]) -> str:
    if rate is None:
        return "none"
    bound = math.isclose(rate, found["highest_bd"])
    return f"{format_si(rate, 'Bd')}{' (limit of the process)' if bound else ''}"


HEAD = """# Symbol rates

The chips are built and extracted from their GDS. The rate is the highest symbol rate at which the estimated word-error
rate is 1e-9. 4 servers, 10 mW into every guide, nominal devices with the noise and the bandwidths of the cards. The
processes are described in [processes](processes.md), the noise model in [noise](noise.md).

- **Link**: `direct`, the servers receive the light of the last layer; `neurons`, every output ends in a neuron whose
  modulator sends light of full scale.
- **Receivers**: `photodiodes` detect the power, `coherent` ones the field.
- **Words wrong**: counted, at the rate in the next column. The **estimate** is for the same rate, and so is the
  interval of the count.
- **Limited by**: what raises the rate most if it is left out, and where most errors arise at the highest rate.

"""
BETWEEN = """

## What limits the rate

Highest symbol rate if one limit is left out. *Laser*: intensity noise and linewidth. *Bandwidths*: no symbol enters the
reading of the next one, and no filter limits the noise that a window averages.

"""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_args()
    names = [row.name for row in ROWS]
    if unknown := sorted(set(given.names) - set(names)):
        raise SystemExit(f"no chip {unknown[0]!r}; take of {', '.join(map(repr, names))}")
    for row in ROWS:
        if given.names and row.name not in given.names:
            continue
        found = measure(row)
        results = read_data("symbol_rates", {}) | {row.name: found}
        whole = row is ROWS[-1] and not given.names
        write_study("symbol_rates", results, "python benchmarks/symbol_rates.py", PROCESSES, NETWORKS, whole)
        rate = found["limits"]["symbol_rate_bd"]
        print(
            f"{row.name}: {rate and format_si(rate, 'Bd')}, {found['wrong']} of {found['words']:,} wrong at "
            f"{format_si(row.rate_bd, 'Bd')}, estimate {found['estimate']:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
