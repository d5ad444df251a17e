"""Meshes from netlist to S-matrix: this package against SAX.

    python benchmarks/bench_simulate.py
    python benchmarks/bench_simulate.py --jit-modes 0 --modes 8,16         # minutes less

Couplers, heaters, gratings and terminators are components of their own, in both. Every row runs in a process of its
own; times are that process's seconds of processor time after import, so that a shared machine counts little, and peak
memory includes the import. SAX's models are JAX functions, because those that call numpy cannot be
compiled; without reflections S-parameters that are zero are left out of them, which is what SAX is fastest with.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import Process, Quantity, load_process
from optinc_pdk.circuit import Circuit, flatten
from optinc_pdk.models import device_s, effective_index, sax_models, sax_netlist
from optinc_pdk.simulate import analyse, prepare, s_matrices, scattering

WAVELENGTH_NM = 1550.0
NO_REFLECTION_DB = -400.0
NEGLIGIBLE = 1e-18
AGREEMENT_MODES = 16
LARGE_MODES = 256
SPECTRUM_NM = (1540.0, 1560.0)
REPEATS = 5
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class Run:
    """Seconds of the first answer, of each further wavelength and bias, the most memory, and the S-matrix."""

    first: float
    wavelength: float
    bias: float | None
    peak_mb: float
    s: Any = None


def process_of(reflecting: bool) -> Process:
    """The default process, with reflections or without."""
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
    """A random phase by pad label."""
    channels = [label for label in circuit.ports if label.endswith(("_theta", "_phi"))]
    phases = np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, len(channels))
    return dict(zip(channels, phases.tolist(), strict=True))


def peak_mb() -> float:
    """The most memory that this process has held, import included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


def seconds(work: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The least of some runs."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return float(best)


def ours(modes: int, reflecting: bool, wavelengths: int) -> Run:
    """A mesh by this package, all ports; ``wavelengths`` of them once more, and as many biases."""
    import scipy.sparse.csgraph  # noqa: F401

    process = process_of(reflecting)
    circuit = mesh_chip(modes, process, "mesh")
    phases = drive(circuit)
    start = time.process_time()
    s = scattering(circuit, phases, WAVELENGTH_NM, process).s[0]
    first = time.process_time() - start
    structure = analyse(circuit)
    plan = prepare(structure, WAVELENGTH_NM, process)
    rng = np.random.default_rng(1)
    spectrum = np.linspace(*SPECTRUM_NM, wavelengths)
    one = rng.uniform(0.0, 6.0, structure.heater.size)
    repeats = REPEATS if modes < LARGE_MODES else 1
    by_wavelength = seconds(lambda: s_matrices(plan, one, spectrum, process, progress=told), repeats) / wavelengths
    by_bias = None
    if modes < LARGE_MODES:
        many = rng.uniform(0.0, 6.0, (wavelengths, structure.heater.size))
        by_bias = seconds(lambda: s_matrices(plan, many, WAVELENGTH_NM, process)) / wavelengths
    return Run(first, by_wavelength, by_bias, peak_mb(), s)


def told(done: int, total: int) -> None:
    """Progress on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr)


def sax_devices(process: Process, only_forward: bool) -> dict[str, Callable[..., Any]]:
    """JAX models of a process's devices, which jit can trace; the wavelength turns the heated guides."""
    import jax.numpy as jnp

    def model(name: str) -> Callable[..., Any]:
        card = process.devices[name]
        s = device_s(process, name, WAVELENGTH_NM)[0]
        ports = card.ports.optical
        least = NEGLIGIBLE if only_forward else -1.0
        kept = {
            (a, b): complex(s[j, i])
            for i, a in enumerate(ports)
            for j, b in enumerate(ports)
            if abs(s[j, i]) > least and (s[j, i] != 0.0 or a == b)
        }
        kept = kept or {(ports[0], ports[0]): 0.0}
        if name != "phase_shifter":
            return lambda *, wl=WAVELENGTH_NM * 1e-3: {
                key: jnp.asarray(value) + 0.0 * wl for key, value in kept.items()
            }
        strip, length = process.guide, card.size("length_um")
        here = float(effective_index(WAVELENGTH_NM, strip.index, strip.group_index, strip.wavelength_nm))

        def heated(*, wl: Any = WAVELENGTH_NM * 1e-3, phase: Any = 0.0) -> dict[tuple[str, str], Any]:
            slope = (strip.index - strip.group_index) / strip.wavelength_nm
            index = strip.index + slope * (wl * 1e3 - strip.wavelength_nm)
            turn = 2.0 * jnp.pi * length * (index / wl - here / (WAVELENGTH_NM * 1e-3)) + phase
            return {key: value * jnp.exp(1j * turn) for key, value in kept.items()}

        return heated

    return {name: model(name) for name in ("mmi2x2", "phase_shifter", "grating_coupler", "terminator")}


def whole_mzis(process: Process) -> dict[str, Callable[..., Any]]:
    """JAX models of an MZI and a dummy as one device each, multiplied out by hand."""
    import jax.numpy as jnp

    devices = sax_devices(process, only_forward=True)
    coupler = devices["mmi2x2"]()
    bar, cross = coupler["o2", "o3"], coupler["o2", "o4"]

    def mzi(*, wl: Any = WAVELENGTH_NM * 1e-3, phi: Any = 0.0, theta: Any = 0.0) -> dict[tuple[str, str], Any]:
        outer = devices["phase_shifter"](wl=wl, phase=phi)["o1", "o2"]
        inner = devices["phase_shifter"](wl=wl, phase=theta)["o1", "o2"]
        one_way = {
            ("o2", "o3"): (bar * inner * bar + cross * cross) * outer,
            ("o2", "o4"): (cross * inner * bar + bar * cross) * outer,
            ("o1", "o3"): bar * inner * cross + cross * bar,
            ("o1", "o4"): cross * inner * cross + bar * bar,
        }
        return one_way | {(b, a): value for (a, b), value in one_way.items()}

    def mzi_dummy(*, wl: Any = WAVELENGTH_NM * 1e-3) -> dict[tuple[str, str], Any]:
        through = jnp.asarray(2.0 * bar * cross) + 0.0 * wl
        return {("o1", "o2"): through, ("o2", "o1"): through}

    return {"mzi": mzi, "mzi_dummy": mzi_dummy, "grating_coupler": devices["grating_coupler"]}


def sax_settings(circuit: Circuit) -> dict[str, dict[str, float]]:
    """The drive of all heaters by SAX's instance names."""
    structure, phases = analyse(circuit), drive(circuit)
    return {
        structure.circuit.instances[heater].replace(".", "_"): {"phase": phases[channel]}
        for heater, channel in zip(structure.heater.tolist(), structure.channel, strict=True)
    }


def by_sax(modes: int, jit: bool, whole: bool = False) -> Run:
    """A mesh without reflections by SAX's klu; compiled, the first answer is the compilation.

    Whole MZIs are one device each, which spares SAX most of the circuit.
    """
    import jax
    import sax

    jax.config.update("jax_enable_x64", True)
    process = process_of(False)
    circuit = mesh_chip(modes, process, "mesh")
    if whole:
        phases = drive(circuit)
        settings = {
            name: {end: phases[f"{name}_{end}"] for end in ("phi", "theta")}
            for name in circuit.instances
            if f"{name}_theta" in phases
        }
        netlist, models = sax_netlist(replace(circuit, cells={})), whole_mzis(process)
    else:
        netlist, settings = sax_netlist(circuit), sax_settings(circuit)
        models = sax_devices(process, only_forward=True)
    sax.sdict(models["grating_coupler"]())
    start = time.process_time()
    model, _ = sax.circuit(netlist=netlist, models=models, backend="klu")
    ports: dict[str, int] = {}

    def dense(wl: Any) -> Any:
        s, places = sax.sdense(model(wl=wl, **settings))
        ports.update(places)
        return s

    call = jax.jit(dense) if jit else dense
    found = jax.block_until_ready(call(WAVELENGTH_NM * 1e-3))
    first = time.process_time() - start
    labels = sorted(ports)
    order = [ports[label] for label in labels]
    # SAX has them [in, out]
    s = np.asarray(found)[np.ix_(order, order)].T
    further = seconds(lambda: jax.block_until_ready(call(1.551)), REPEATS if jit else 1)
    return Run(first, further, None, peak_mb(), s)


def agreement(modes: int) -> float:
    """Largest difference to SAX's klu, with our models and reflections."""
    import jax
    import sax

    jax.config.update("jax_enable_x64", True)
    process = process_of(True)
    circuit = mesh_chip(modes, process, "mesh")
    model, _ = sax.circuit(netlist=sax_netlist(circuit), models=sax_models(process), backend="klu")
    theirs = sax.sdict(model(**sax_settings(circuit)))
    found = scattering(flatten(circuit), drive(circuit), WAVELENGTH_NM, process)
    matrix = np.array([[complex(theirs[a, b]) for a in found.labels] for b in found.labels])
    return float(np.abs(found.s[0] - matrix).max())


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process whose numerical libraries use one thread."""
    os.environ |= ONE_THREAD
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def bench_meshes(sizes: list[int], jit_modes: int, whole_modes: int, wavelengths: int) -> Table:
    """Ours and SAX's, and the largest difference between both."""
    table = new_table("Rectangular meshes, components separate, all ports; ratio to ours")
    for modes in sizes:
        mine = in_own_process(ours, modes, False, wavelengths)
        add_run(table, "ours", modes, mine, None)
        for what, jit, whole, most in (
            ("SAX klu", False, False, modes),
            ("SAX klu, jit", True, False, jit_modes),
            ("SAX klu, jit, whole MZIs", True, True, whole_modes),
        ):
            if modes <= most:
                add_run(table, what, modes, in_own_process(by_sax, modes, jit, whole), mine)
        add_run(table, "ours, every device reflects", modes, in_own_process(ours, modes, True, wavelengths), None)
        table.add_section()
    return table


def new_table(title: str) -> Table:
    """An empty table of runs."""
    table = Table(
        "what", "N", "first", "ratio", "wavelength", "ratio", "bias", "ratio", "MB", "difference", title=title
    )
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def add_run(table: Table, what: str, modes: int, run: Run, mine: Run | None) -> None:
    """One row; ratios and the difference where there is a run of ours to compare with."""
    ratios = ["", "", ""]
    difference = ""
    if mine is not None and mine.bias is not None:
        ratios = [
            f"{run.first / mine.first:.0f}",
            f"{run.wavelength / mine.wavelength:.0f}",
            f"{run.wavelength / mine.bias:.0f}",
        ]
        difference = f"{np.abs(run.s - mine.s).max():.0e}"
    table.add_row(
        what,
        str(modes),
        f"{run.first:.3f}",
        ratios[0],
        f"{run.wavelength:.5f}",
        ratios[1],
        "" if run.bias is None else f"{run.bias:.5f}",
        ratios[2],
        f"{run.peak_mb:.0f}",
        difference,
    )


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "8,16,32,64",
    jit_modes: Annotated[int, typer.Option(help="SAX is compiled for meshes of at most so many modes.")] = 16,
    whole_modes: Annotated[int, typer.Option(help="The same with whole MZIs as one device each.")] = 16,
    wavelengths: Annotated[int, typer.Option(help="Wavelengths and biases that follow the first answer.")] = 20,
    large: Annotated[int, typer.Option(help="Wavelengths of the mesh of 256 modes; 0 leaves it out.")] = 101,
    agree: Annotated[bool, typer.Option(help="Compare every mesh of up to 16 modes with SAX.")] = True,
) -> None:
    """Prints the tables."""
    console = Console(width=120)
    try:
        sizes = [int(size) for size in modes.split(",")]
    except ValueError:
        raise typer.BadParameter(f"modes is {modes!r}; give whole numbers separated by commas") from None
    if min(sizes) < 2 or wavelengths < 1 or large < 0:
        raise typer.BadParameter("give at least 2 modes, 1 wavelength, and no negative number")
    console.print(bench_meshes(sizes, jit_modes, whole_modes, wavelengths))
    console.print("of the other peers none simulates circuits of components; photontorch and simphony: not run")
    if agree:
        worst = {size: in_own_process(agreement, size) for size in range(2, AGREEMENT_MODES + 1)}
        console.print(f"largest difference to SAX's klu, 2 to {AGREEMENT_MODES} modes: {max(worst.values()):.1e}")
    if large:
        table = new_table(f"{LARGE_MODES} modes, 32,640 MZIs; {large} wavelengths")
        for what, reflecting in (("ours", False), ("ours, every device reflects", True)):
            add_run(table, what, LARGE_MODES, in_own_process(ours, LARGE_MODES, reflecting, large), None)
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
