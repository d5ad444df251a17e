"""Builds chips of matrices and prints the table of docs/matrices.md: accuracy, loss, size and time of each.

    python benchmarks/matrices.py            # all rows; `--only haar64` for one

Every row is one process of its own, so that time and memory are those of one build, with its imports.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

Matrix = np.ndarray


def haar(modes: int) -> Matrix:
    """Return a random unitary."""
    return np.asarray(scipy.stats.unitary_group(modes, seed=1).rvs())


def fourier(modes: int) -> Matrix:
    """Return the unitary Fourier matrix."""
    return np.fft.fft(np.eye(modes)) / np.sqrt(modes)


def permutation(modes: int) -> Matrix:
    """Return a random permutation matrix."""
    return np.eye(modes)[np.random.default_rng(0).permutation(modes)]


def gaussian(outputs: int, inputs: int) -> Matrix:
    """Return a matrix of independent normal numbers."""
    return np.random.default_rng(0).normal(size=(outputs, inputs))


ROWS: dict[str, tuple[str, Matrix, str]] = {
    **{f"haar{n}": (f"Haar unitary, {n} modes", haar(n), "soi220") for n in (4, 6, 8, 16)},
    **{f"haar{n}": (f"Haar unitary, {n} modes", haar(n), "soi220_flipchip") for n in (32, 64, 128)},
    "dft8": ("Fourier matrix, 8 modes", fourier(8), "soi220"),
    "dft64": ("Fourier matrix, 64 modes", fourier(64), "soi220_flipchip"),
    "permutation8": ("permutation of 8 modes", permutation(8), "soi220"),
    "permutation16": ("permutation of 16 modes", permutation(16), "soi220"),
    "real10x6": ("real Gaussian, 10 × 6", gaussian(10, 6), "soi220"),
}
HEAD = ("matrix", "process", "MZIs", "largest error", "rms", "insertion loss", "die", "verdict", "CPU time", "memory")


def build(matrix: Matrix, process: str) -> tuple[dict[str, Any], float, float]:
    """Build one chip by the command line; return its report, processor time in s, and peak memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "matrix.npy")
        np.save(path, matrix)
        command = [sys.executable, "-c", "from optinc_pdk.cli import main; main()", "build", path, "-o", folder]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*command, "--process", process, "--json"], stdout=subprocess.PIPE, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # the largest process so far
    return json.loads(done.stdout), seconds, after.ru_maxrss / 1e3


def measure(name: str) -> str:
    """Build one chip in a process of its own; return its row of the table."""
    title, matrix, process = ROWS[name]
    report, seconds, memory_mb = build(matrix, process)
    found, chip = report["matrix"], report["chip"]
    values = (
        title,
        f"`{process}`",
        f"{report['factor']['mzis']:,}",
        f"{found['worst_error']:.2%}",
        f"{found['rms_error']:.2%}",
        f"{found['insertion_loss_db']:.1f} dB",
        f"{chip['width_um'] / 1e3:.1f} × {chip['height_um'] / 1e3:.1f} mm",
        report["verdict"],
        f"{seconds:.0f} s",
        f"{memory_mb / 1e3:.2f} GB",
    )
    return "| " + " | ".join(values) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS, action="append", help="rows to measure; all by default")
    chosen = parser.parse_args().only or list(ROWS)
    print("| " + " | ".join(HEAD) + " |")
    print("|---" * 2 + "|--:" * (len(HEAD) - 2) + "|")
    for name in sorted(chosen, key=lambda each: ROWS[each][1].size):
        print(measure(name), flush=True)


if __name__ == "__main__":
    main()
