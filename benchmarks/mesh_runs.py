"""Common parts of the rows of bench_simulate.py, and the row of this package."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.simulate import analyse, prepare, s_matrices, scattering

WAVELENGTH_NM = 1550.0
NO_REFLECTION_DB = -400.0
NEGLIGIBLE = 1e-18
LARGE_MODES = 256
SPECTRUM_NM = (1540.0, 1560.0)
REPEATS = 5


@dataclass(frozen=True)
class Run:
    """One run: seconds of the first result and of each further wavelength and bias, peak memory, and the S-matrix."""

    first: float
    wavelength: float | None
    bias: float | None
    peak_mb: float
    s: Any = None


class Stopwatch:
    """Measures seconds since its creation."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> float:
        """Return the smaller of wall-clock and processor time in seconds."""
        return min(time.perf_counter() - self.wall, time.process_time() - self.processor)


def process_of(reflecting: bool) -> Process:
    """Return the default process, with or without reflections."""
    process = load_process()
    if reflecting:
        return process
    devices = {}
    for name, card in process.devices.items():
        parameters = dict(card.model.parameters)
        if "reflection_db" in parameters:
            parameters["reflection_db"] = Quantity(NO_REFLECTION_DB, parameters["reflection_db"].source)
        model = card.model.model_copy(update={"parameters": parameters})
        devices[name] = card.model_copy(update={"model": model})
    return process.model_copy(update={"devices": devices})


def drive(circuit: Circuit, seed: int = 0) -> dict[str, float]:
    """Return a random phase for each pad label."""
    channels = [label for label in circuit.ports if label.endswith(("_theta", "_phi"))]
    phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, len(channels))
    return dict(zip(channels, phases.tolist(), strict=True))


def peak_mb() -> float:
    """Return the peak memory of this process in MiB, import included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def seconds(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the shortest time of several runs in seconds."""
    best = np.inf
    for _ in range(repeats):
        watch = Stopwatch()
        work()
        best = min(best, watch.read())
    return float(best)


def ours(modes: int, reflecting: bool, wavelengths: int) -> Run:
    """Simulate a mesh with this package at all ports, then at ``wavelengths`` wavelengths and as many biases."""
    process = process_of(reflecting)
    circuit = mesh_chip(modes, process, "mesh")
    phases = drive(circuit)
    watch = Stopwatch()
    s = scattering(circuit, phases, WAVELENGTH_NM, process).s[0]
    first = watch.read()
    structure = analyse(circuit)
    plan = prepare(structure, WAVELENGTH_NM, process)
    rng = np.random.default_rng(1)
    spectrum = np.linspace(*SPECTRUM_NM, wavelengths)
    one = rng.uniform(0.0, 6.0, structure.heater.size)
    repeats = REPEATS if modes < LARGE_MODES else 1
    by_wavelength = (
        seconds(lambda: s_matrices(plan, one, spectrum, process, progress=print_progress), repeats) / wavelengths
    )
    by_bias = None
    if modes < LARGE_MODES:
        many = rng.uniform(0.0, 6.0, (wavelengths, structure.heater.size))
        by_bias = seconds(lambda: s_matrices(plan, many, WAVELENGTH_NM, process)) / wavelengths
    return Run(first, by_wavelength, by_bias, peak_mb(), s)


def print_progress(done: int, total: int) -> None:
    """Print progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr)
