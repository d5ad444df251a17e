"""Networks chosen for size, field noise and symbol rate: tolerance, and rates of the extracted chips.

    python benchmarks/network_rates.py          # 4 and 8 bits on soi220 and soi220_fast, into results/
    python benchmarks/network_rates.py 4        # 4 bits only, not into results/
    python benchmarks/network_rates.py --trained    # networks trained under field noise; needs the extra "train"

ε* and σ* are measured as in `closed_forms.py`. The rate is that of the extracted and programmed chip, at an estimated
word-error rate of 1e-9 and the laser power of the process, to 2 %. The networks are those of `optinc synth --for
size`, `--for noise` within a number of MZIs, and `--for rate` on the process of the row. Training starts from the
network chosen for size, with seed 1 and the schedule `SCHEDULE`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from studies import blocks, write_study

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.io.formatting import format_si
from optinc_pdk.networks import AveragingNetwork, comparator_network, lattice_score, prove
from optinc_pdk.networks.closed_form.comparators import GAIN
from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance
from optinc_pdk.networks.training.schedule import TrainingSchedule
from optinc_pdk.studies.rate_search import chip_rate, networks_by_rate

PROCESSES = ("soi220", "soi220_fast")
LIMITS = {4: (24, None), 8: (110, None)}
"""Limits of MZIs of the networks chosen for noise, by bits; None for eight times the smallest network."""
FEWEST = 1e-4
"""Smallest word-error rate that is counted for σ*."""
SCHEDULE = TrainingSchedule(
    3000, noise=0.0, field_noise=6e-3, rate=1e-3, leak=0.1, hard=0.2, copies=4, evaluations=10, allowance=0.3
)
"""Training under field noise."""
TRAININGS = {"none": None, "field noise": SCHEDULE}
"""Trainings by name."""
TRAINED_PROCESS = "soi220_fast"
TRAINED_DRAWS = 50
"""Networks with errors for ε* of trained networks."""


def networks(task: Averaging) -> Iterator[tuple[str, AveragingNetwork]]:
    """Networks that do not depend on the process, with the options that choose them."""
    yield "size", comparator_network(task)
    for limit in LIMITS[task.bits]:
        onn = comparator_network(task, limit, goal="noise")
        yield "noise" if limit is None else f"noise, `--mzis {limit}`", onn


def row(task: Averaging, name: str, onn: AveragingNetwork, rates: dict[str, float | None]) -> str:
    """One row of the table; ``rates`` are by process."""
    prove(onn, samples=1000)
    epsilon, sigma = matrix_error_tolerance(onn), field_noise_tolerance(onn, fewest=FEWEST)
    found = " | ".join(_rate(rates[each]) if each in rates else "" for each in PROCESSES)
    shape = "-".join(map(str, onn.structure))
    return f"| {task.bits} | {name} | {shape} | {onn.mzis} | {epsilon:.2e} | {sigma:.2e} | {found} |"


def trained_row(task: Averaging, name: str, schedule: TrainingSchedule | None, process: Process) -> str:
    """One row of the table of trained networks."""
    from optinc_pdk.networks.training.train import train

    onn = comparator_network(task)
    if schedule is not None:
        onn = train(onn, schedule, 1)
    epsilon, sigma = matrix_error_tolerance(onn, TRAINED_DRAWS), field_noise_tolerance(onn, fewest=FEWEST)
    rate = _rate(chip_rate(onn, process, extracted=True))
    margin = lattice_score(onn).margin
    return f"| {task.bits} | {name} | {onn.mzis} | {margin:.3f} | {epsilon:.2e} | {sigma:.2e} | {rate} |"


def _rate(rate: float | None) -> str:
    return "none" if rate is None else format_si(rate, "Bd")


def main() -> None:
    """Print a table; write it if it is complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bits", nargs="*", type=int, help="default: 4 and 8")
    parser.add_argument("--rate-only", action="store_true", help="print only the rows of networks chosen for the rate")
    parser.add_argument("--trained", action="store_true", help="print the table of trained networks")
    given = parser.parse_args()
    if unknown := set(given.bits) - set(LIMITS):
        parser.error(f"bits {unknown.pop()}: use {' or '.join(map(str, LIMITS))}")
    if given.trained:
        lines = [f"| bits | training | MZIs | margin | ε* | σ* | {TRAINED_PROCESS} |", "|---|---|---|---|---|---|---|"]
        print(*lines, sep="\n", flush=True)
        for bits in given.bits or LIMITS:
            for name, schedule in TRAININGS.items():
                task = Averaging(bits, 4, bits // 2)
                lines.append(trained_row(task, name, schedule, load_process(TRAINED_PROCESS)))
                print(lines[-1], flush=True)
        if not given.bits:
            command = "python benchmarks/network_rates.py --trained"
            write_study("trained_networks", blocks(lines), command, [TRAINED_PROCESS])
        return
    cards: dict[str, Process] = {name: load_process(name) for name in PROCESSES}
    lines = [
        f"| bits | chosen for | structure | MZIs | ε* | σ* | {' | '.join(PROCESSES)} |",
        "|---|---|---|---|---|---|" + "---|" * len(PROCESSES),
    ]
    print(*lines, sep="\n", flush=True)
    for bits in given.bits or LIMITS:
        task = Averaging(bits, 4, bits // 2)
        for name, onn in () if given.rate_only else networks(task):
            lines.append(row(task, name, onn, {each: chip_rate(onn, cards[each], True) for each in PROCESSES}))
            print(lines[-1], flush=True)
        for each, card in cards.items():
            start = time.process_time()
            first = networks_by_rate(task, card, GAIN)[0]
            print(f"{bits} bits, {each}: {time.process_time() - start:.0f} s of one core", file=sys.stderr)
            lines.append(row(task, f"rate on {each}", first.onn, {each: first.extracted_bd}))
            print(lines[-1], flush=True)
    if not given.bits and not given.rate_only:
        write_study("network_rates", blocks(lines), "python benchmarks/network_rates.py", PROCESSES)


if __name__ == "__main__":
    main()
