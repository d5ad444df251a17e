"""Processor time of a build with the garbage collector's thresholds of the command line and with Python's own.

    python benchmarks/garbage_collection.py --modes 64 --pairs 3

Builds the chip of a random unitary on `soi220_flipchip` in processes of their own, in turn with either setting.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.stats

PROGRAM = """
import gc, sys
from optinc_pdk import cli
if sys.argv.pop(1) == "default":
    cli.GARBAGE_COLLECTION = gc.get_threshold()
cli.main()
"""
SETTINGS = ("default", "command line")


def main() -> None:
    """Measure and print a table, a row for each pair of builds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modes", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=3)
    given = parser.parse_args()
    print(f"| {given.modes} modes: Python's thresholds, s | those of the command line, s | ratio |\n|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "unitary.npy"
        np.save(matrix, scipy.stats.unitary_group(given.modes, seed=1).rvs())
        for _ in range(given.pairs):
            default, ours = (_processor_s(setting, matrix) for setting in SETTINGS)
            print(f"| {default:.1f} | {ours:.1f} | {ours / default:.2f} |", flush=True)


def _processor_s(setting: str, matrix: Path) -> float:
    """Return the processor time of one build in s."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROGRAM, setting, "build", str(matrix), "--process", "soi220_flipchip"]
    subprocess.run(
        [*command, "-o", str(matrix.parent)],
        check=True,
        capture_output=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
