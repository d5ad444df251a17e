"""Builds chips of matrices: results/matrices.json, with accuracy, loss, size and time of each.

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
from studies import read_data, write_study

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


def measure(name: str) -> list[str]:
    """Build one chip in a process of its own; return its row of the table."""
    title, matrix, process = ROWS[name]
    report, seconds, memory_mb = build(matrix, process)
    found, chip = report["matrix"], report["chip"]
    return [
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
    ]


def main() -> None:
    """Write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=ROWS, action="append", help="rows to measure; all by default")
    only = parser.parse_args().only
    (earlier,) = read_data("matrices", [{"rows": []}])
    rows = {row[0]: row for row in earlier["rows"]}
    by_size = sorted(ROWS, key=lambda each: ROWS[each][1].size)
    for name in by_size:
        if only is None or name in only:
            rows[ROWS[name][0]] = measure(name)
            print(*rows[ROWS[name][0]], sep="  ", flush=True)
    found = [rows[ROWS[name][0]] for name in by_size if ROWS[name][0] in rows]
    processes = dict.fromkeys(process for _, _, process in ROWS.values())
    table = {"columns": list(HEAD), "rows": found}
    write_study("matrices", [table], "python benchmarks/matrices.py", processes, whole=only is None)


if __name__ == "__main__":
    main()
