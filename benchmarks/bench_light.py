"""Simulation time of built chips: from the layout to S-parameters to the words of the whole lattice.

    optinc build average_8bit_4servers_relu.npz -o gds_out --accept rate
    OMP_NUM_THREADS=1 python benchmarks/bench_light.py gds_out/average_8bit_4servers_relu.gds

Netlist, bias and report are read from the layout's folder, as a build writes them. Times are the least of five runs;
extraction and S-parameters run once.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_bias, read_netlist
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.simulate import noise_of, scattering, transmit
from optinc_pdk.studies.error_estimate import error_margins, estimate_errors

Result = TypeVar("Result")


def timed(work: Callable[[], Result], runs: int = 1) -> tuple[float, Result]:
    """Least wall time of some runs, and the last result."""
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def main(gds: Path) -> None:
    """Print one row of the table."""
    card = load_process()
    board, bias = read_netlist(gds.with_suffix(".pic.yml")).board, read_bias(gds.with_suffix(".bias.yml"))
    if board is None:
        raise SystemExit(f"{gds.with_suffix('.pic.yml')}: it has no board; give the layout of a whole chip")
    task = Averaging(**json.loads(gds.with_suffix(".report.json").read_text())["task"])
    extraction, layout = timed(lambda: read_extracted_layout(gds, bias, card))
    circuit, ground = layout.circuit, layout.ground
    matrices, s = timed(lambda: scattering(circuit, bias, float(card.guide.wavelength_nm), card, ground=ground))
    tried = function_inputs(task)
    plain, received = timed(lambda: transmit(tried.symbols, s, board, bias), 5)
    noise = noise_of(card)
    noisy, _ = timed(lambda: transmit(tried.symbols, s, board, bias, noise=noise), 5)
    search, margins = timed(lambda: error_margins(s, tried, board, bias))
    estimate, _ = timed(lambda: estimate_errors(margins, noise))
    exact = int((task.decode(received.levels) == tried.ideal[:, None]).all(axis=1).sum())
    seconds = " | ".join(f"{each:.2f}" for each in (extraction, matrices, plain, noisy, search, estimate))
    print(f"| {gds.stem} | {len(tried.ideal):,} | {exact:,} | {seconds} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gds", type=Path, nargs="+")
    print(
        "| chip | inputs | exact | extract, s | S-parameters, s | words, s | with noise, s | margins, s | estimate, s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for one in parser.parse_args().gds:
        main(one)
