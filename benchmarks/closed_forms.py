"""Table of closed forms: MZIs, tolerated matrix error ε* and field noise σ*, of comparators and of ReLUs in one run.

    python benchmarks/closed_forms.py                 # all scenarios, also into results/closed_forms.json
    python benchmarks/closed_forms.py 8/4 8/16        # some of them
    python benchmarks/closed_forms.py --forms relu    # ReLU networks only

ε* and σ* are those of `optinc_pdk.networks.error_tolerance`, with 100 draws of errors, and noise counted down to a
word-error rate of 1e-4. Every network is proved exact. "Gain" is the largest factor between a detected field and a
modulator's amplitude, both relative to full scale. "Margin" is the distance of comparators from their linear part, in
steps of their signals. MZIs are counted by the convention of arXiv 2603.28290, on distinct optical rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

import numpy as np
from studies import blocks, write_study

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import (
    AveragingNetwork,
    carry_chain,
    comparator_network,
    prove,
    regenerating_chain,
    saturation_margins,
)
from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance, perturbed_network

SCENARIOS: dict[str, tuple[Averaging, int | None]] = {
    "4/4": (Averaging(4, 4, 2), 24),
    "8/4": (Averaging(8, 4, 4), 110),
    "8/8": (Averaging(8, 8, 4), 271),
    "8/16": (Averaging(8, 16, 4), 600),
    "16/4, K = 8": (Averaging(16, 4, 8), 700),
    "16/4, K = 4": (Averaging(16, 4, 4), 700),
    "4/16": (Averaging(4, 16, 2), None),
    "8/3": (Averaging(8, 3, 4), None),
    "8/5": (Averaging(8, 5, 4), None),
    "8/6": (Averaging(8, 6, 4), None),
    "4/4, level 1": (Averaging(4, 4, 2, remainder=True), None),
    "4/4, level 2": (Averaging(4, 4, 2, finer_input=True), None),
    "8/4, level 1": (Averaging(8, 4, 4, remainder=True), None),
    "8/4, level 2": (Averaging(8, 4, 4, finer_input=True), None),
}
"""Task of every scenario, and the limit of MZIs of a second network; None for the default one only."""
FEWEST = 1e-4
"""Smallest word-error rate that is counted."""


def networks(task: Averaging, limit: int | None, forms: str) -> Iterator[tuple[str, AveragingNetwork]]:
    """The networks of one scenario with their names."""
    if forms != "relu":
        first = comparator_network(task)
        yield "comparators", first
        if limit is not None:
            second = comparator_network(task, limit)
            if second.card != first.card:
                yield f"comparators, at most {limit} MZIs", second
    if forms != "comparators":
        yield "ReLU, smallest", carry_chain(task)
        yield "ReLU, regenerating", regenerating_chain(task)


def row(name: str, form: str, onn: AveragingNetwork) -> str:
    """One row of the table."""
    prove(onn, samples=1000)
    layers = perturbed_network(onn).layers
    shapes = " ".join(f"{one.matrix.shape[0]}×{one.matrix.shape[1]}" for one in layers)
    gain = max(float(one.gain.max()) * one.norm for one in layers)
    margin = "–"
    if onn.activation == "clipped_relu":
        margins = np.concatenate([*saturation_margins(onn), [np.inf]])
        margin = f"{np.nanmin(margins) / onn.card['gain']:.3f}"
    epsilon, sigma = matrix_error_tolerance(onn), field_noise_tolerance(onn, fewest=FEWEST)
    return f"| {name} | {form} | {shapes} | {onn.mzis:,} | {epsilon:.2e} | {sigma:.2e} | {gain:,.0f} | {margin} |"


def main() -> None:
    """Print the table; write it if it is complete."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", help=f"default: all of {', '.join(SCENARIOS)}")
    parser.add_argument("--forms", choices=("all", "comparators", "relu"), default="all")
    arguments = parser.parse_args()
    if unknown := set(arguments.scenarios) - set(SCENARIOS):
        parser.error(f"unknown scenarios {', '.join(sorted(unknown))}; use {', '.join(SCENARIOS)}")
    lines = [
        "| bits/servers | form | optical layers (rows × columns) | MZIs | ε* | σ* | gain | margin |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n", flush=True)
    for name in arguments.scenarios or SCENARIOS:
        task, limit = SCENARIOS[name]
        for form, onn in networks(task, limit, arguments.forms):
            start = time.perf_counter()
            lines.append(row(name, form, onn))
            print(lines[-1], flush=True)
            print(f"{name}, {form}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if not arguments.scenarios and arguments.forms == "all":
        write_study("closed_forms", blocks(lines), "python benchmarks/closed_forms.py")


if __name__ == "__main__":
    main()
