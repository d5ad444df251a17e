"""Errors of imperfect meshes before and after correction, and heater power of the best order of singular values.

    OMP_NUM_THREADS=1 python benchmarks/bench_correct.py                 # everything, 20 draws: about an hour
    OMP_NUM_THREADS=1 python benchmarks/bench_correct.py --draws 3 --modes 9 33

Errors are Frobenius norms over the target's. Each draw has its own Haar random target and its own couplers,
whose power ratios are 1/2 plus normal errors of the given rms, each coupler independently. "Real part" is
homodyne detection: only the real part counts and electronics scale the rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optinc_pdk.factor import (
    Correction,
    correct,
    correct_homodyne,
    correct_layer,
    random_mesh_devices,
    rectangular,
    svd,
    svd_search,
    total_heater_phase,
)


@dataclass(frozen=True)
class Case:
    """One row of the table for each size."""

    name: str
    splitter_rms: float = 0.02
    redundant: int = 0
    amplitude: float | None = None
    real_target: bool = False


CASES = (
    Case("unitary, whole matrix"),
    Case("orthogonal, whole matrix", real_target=True),
    Case("orthogonal, real part, full amplitude at start", amplitude=1.0, real_target=True),
    Case("orthogonal, real part, amplitude 0.95", amplitude=0.95, real_target=True),
    Case("unitary, one redundant column", redundant=1),
    Case("unitary, two redundant columns", redundant=2),
    Case("unitary, couplers of 1 %", splitter_rms=0.01),
)


def haar(modes: int, rng: np.random.Generator, real: bool) -> NDArray[np.complex128]:
    """(N, N) random unitary or orthogonal matrix (Mezzadri, arXiv math-ph/0609050)."""
    gauss = rng.standard_normal((modes, modes))
    if not real:
        gauss = gauss + 1j * rng.standard_normal((modes, modes))
    q, r = np.linalg.qr(gauss)
    diagonal = np.diagonal(r)
    return np.asarray(q * (diagonal / np.abs(diagonal)))


def draw(case: Case, modes: int, seed: int, steps: int) -> tuple[Correction, float]:
    """One corrected mesh, and the seconds of the correction."""
    rng = np.random.default_rng(seed)
    target = haar(modes, rng, case.real_target)
    devices = random_mesh_devices(rectangular(target), rng, case.splitter_rms, case.redundant)
    start = time.perf_counter()
    if case.amplitude is None:
        result = correct(target, devices, steps=steps)
    else:
        result = correct_homodyne(target.real, devices, amplitude=case.amplitude, steps=steps)
    return result, time.perf_counter() - start


def line(case: Case, modes: int, draws: int, steps: int) -> str:
    """Medians and worst values of a case, as a row of the table."""
    runs = [draw(case, modes, seed, steps) for seed in range(draws)]

    def summary(values: list[float]) -> str:
        return f"{np.median(values):8.2g} {np.max(values):8.2g}"

    gains = [run.error_before / max(run.error, 1e-15) for run, _ in runs]
    loss_db = abs(20.0 * np.log10(np.median([np.abs(run.row_scale).min() for run, _ in runs])))
    return (
        f"{case.name:47s} {modes:3d}  {summary([run.error_before for run, _ in runs])}  "
        f"{summary([run.error_local for run, _ in runs])}  {summary([run.error for run, _ in runs])}  "
        f"{np.median(gains):8.3g} {np.min(gains):8.3g}  {np.median([run.steps for run, _ in runs]):4.0f}  "
        f"{np.median([seconds for _, seconds in runs]):5.1f} {max(seconds for _, seconds in runs):5.1f}  "
        f"{loss_db:5.2f}"
    )


def layer_line(modes: int, draws: int, steps: int) -> str:
    """A Gaussian weight matrix on two imperfect meshes: real part, rows scaled."""
    before, local, after, seconds = [], [], [], []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        weights, mesh = rng.standard_normal((modes, modes)), rectangular(np.eye(modes))
        left, right = random_mesh_devices(mesh, rng, 0.02), random_mesh_devices(mesh, rng, 0.02)
        start = time.perf_counter()
        result = correct_layer(weights, left, right, steps=steps, seed=seed + draws)
        seconds.append(time.perf_counter() - start)
        before.append(result.u.error_before)
        local.append(result.u.error_local)
        after.append(result.error)
    return (
        f"{modes:3d}  {np.median(before):8.2g} {max(before):8.2g}  "
        f"{np.median(local):8.2g} {max(local):8.2g}  "
        f"{np.median(after):8.2g} {max(after):8.2g}  {np.median(seconds):6.1f} s"
    )


def heater_line(modes: int, draws: int) -> str:
    """Heater power of the best of 300 orders and signs, relative to that of descending singular values."""
    shares, seconds = [], []
    for seed in range(draws):
        weights = np.random.default_rng(seed).standard_normal((modes, modes))
        start = time.perf_counter()
        best = svd_search(weights)
        seconds.append(time.perf_counter() - start)
        shares.append(total_heater_phase(best) / total_heater_phase(svd(weights)))
    return f"{modes:3d}  {np.median(shares):6.3f} {max(shares):6.3f}  {np.median(seconds):6.2f} s"


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--modes", type=int, nargs="+", default=[9, 33, 64])
    parser.add_argument("--steps", type=int, default=60, help="largest number of Newton factorisations")
    parser.add_argument("--cases", type=int, nargs="+", default=list(range(len(CASES))))
    options = parser.parse_args()
    draw(CASES[0], 4, 0, 1)  # compiles the kernels at the first call on a machine
    print(f"{options.draws} draws; couplers 2 % rms of the power ratio unless said; median and worst")
    print(
        f"{'':47s}   N  {'before':^17s}  {'local correction':^17s}  {'least squares':^17s}  {'gain':^17s}  "
        f"steps  {'seconds':^10s}  loss dB"
    )
    for number in options.cases:
        for modes in options.modes:
            print(line(CASES[number], modes, options.draws, options.steps))
            sys.stdout.flush()
    print("\nlayers U A V of Gaussian weights, real part; the first two errors are with V already corrected")
    for modes in options.modes:
        print(layer_line(modes, options.draws, options.steps))
        sys.stdout.flush()
    print("\nheater power of 300 tried orders and signs of singular vectors over none (Gaussian weights)")
    for modes in options.modes:
        print(heater_line(modes, options.draws))


if __name__ == "__main__":
    main()
