"""Meshes from netlist to S-matrix: this package, SAX and other peers side by side in one table.

    python benchmarks/bench_simulate.py                              # five minutes, half of it one compilation by SAX
    python benchmarks/bench_simulate.py --jit-modes 16 --modes 8,16,64     # SAX is compiled for small meshes only
    python benchmarks/bench_simulate.py --modes 64 --no-peers --no-agree --large 0 --sax-modes 0   # ours alone

Couplers, heaters, gratings and terminators are components of their own, in both. Every row runs in a process of its
own, whose peak memory includes the import. Seconds are the lesser of wall clock and processor time, so that neither
other work on the machine nor threads of a compiler count against anybody; whatever is imported or compiled on the way
to the first answer is part of it, and what is imported before stands beside it.

SAX is asked in the forms that it is fastest with: JAX models in its coordinate form (those that call numpy cannot be
compiled), without S-parameters that are zero, dense results, and for compilation whole MZIs as one device each.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import resource
import subprocess
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
    wavelength: float | None
    bias: float | None
    peak_mb: float
    s: Any = None


class Watch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def read(self) -> float:
        """The lesser of wall clock and processor time."""
        return min(time.perf_counter() - self.wall, time.process_time() - self.processor)


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
        watch = Watch()
        work()
        best = min(best, watch.read())
    return float(best)


def ours(modes: int, reflecting: bool, wavelengths: int) -> Run:
    """A mesh by this package, all ports; ``wavelengths`` of them once more, and as many biases."""
    process = process_of(reflecting)
    circuit = mesh_chip(modes, process, "mesh")
    phases = drive(circuit)
    watch = Watch()
    s = scattering(circuit, phases, WAVELENGTH_NM, process).s[0]
    first = watch.read()
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


def coordinates(entries: dict[tuple[int, int], complex], ports: tuple[str, ...]) -> tuple[Any, Any, Any, Any]:
    """SAX's coordinate form: rows [in], columns [out], values, and the ports' places."""
    into, out = np.array(list(entries)).T
    return into, out, np.array(list(entries.values())), {port: place for place, port in enumerate(ports)}


def turn_of(process: Process) -> Callable[[Any], Any]:
    """A JAX function of a wavelength in µm: what it turns the light of a heated guide by, compared to 1550 nm."""
    import jax.numpy as jnp

    strip, length = process.guide, process.devices["phase_shifter"].size("length_um")
    here = float(effective_index(WAVELENGTH_NM, strip.index, strip.group_index, strip.wavelength_nm))
    slope = (strip.index - strip.group_index) / strip.wavelength_nm

    def turn(wl: Any) -> Any:
        index = strip.index + slope * (wl * 1e3 - strip.wavelength_nm)
        return 2.0 * jnp.pi * length * (index / wl - here / (WAVELENGTH_NM * 1e-3))

    return turn


def sax_devices(process: Process) -> dict[str, Callable[..., Any]]:
    """JAX models of a process's devices without reflections, which jit can trace."""
    import jax.numpy as jnp

    turn = turn_of(process)

    def model(name: str) -> Callable[..., Any]:
        ports = process.devices[name].ports.optical
        s = device_s(process, name, WAVELENGTH_NM)[0].T
        kept = {(i, j): s[i, j] for i in range(len(ports)) for j in range(len(ports)) if abs(s[i, j]) > NEGLIGIBLE}
        into, out, value, places = coordinates(kept or {(0, 0): 0.0j}, ports)
        if name != "phase_shifter":
            return lambda *, wl=WAVELENGTH_NM * 1e-3: (into, out, jnp.asarray(value), places)
        return lambda *, wl=WAVELENGTH_NM * 1e-3, phase=0.0: (
            into,
            out,
            value * jnp.exp(1j * (turn(wl) + phase)),
            places,
        )

    return {name: model(name) for name in ("mmi2x2", "phase_shifter", "grating_coupler", "terminator")}


def whole_mzis(process: Process) -> dict[str, Callable[..., Any]]:
    """JAX models of an MZI and a dummy as one device each, multiplied out by hand."""
    import jax.numpy as jnp

    coupler = device_s(process, "mmi2x2", WAVELENGTH_NM)[0]
    bar, cross = complex(coupler[1, 2]), complex(coupler[1, 3])
    guide = complex(device_s(process, "phase_shifter", WAVELENGTH_NM)[0, 0, 1])
    turn = turn_of(process)
    # S is outer (inner a + b) from o2 and inner c + d from o1, to o3 and o4
    ways = {(1, 2): (bar * bar, cross * cross), (1, 3): (cross * bar, bar * cross)}
    ways |= {(0, 2): (bar * cross, cross * bar), (0, 3): (cross * cross, bar * bar)}
    ways |= {(j, i): value for (i, j), value in ways.items()}
    into, out, _, places = coordinates(dict.fromkeys(ways, 0.0j), ("o1", "o2", "o3", "o4"))
    through, past = np.array(list(ways.values())).T
    outer_too = np.array([1 in way for way in ways])

    def mzi(*, wl: Any = WAVELENGTH_NM * 1e-3, phi: Any = 0.0, theta: Any = 0.0) -> Any:
        arm = guide * jnp.exp(1j * turn(wl))
        inner, outer = arm * jnp.exp(1j * jnp.asarray(theta)), arm * jnp.exp(1j * jnp.asarray(phi))
        return into, out, (inner * through + past) * jnp.where(outer_too, outer, 1.0), places

    dummy = coordinates({(0, 1): 2.0 * bar * cross, (1, 0): 2.0 * bar * cross}, ("o1", "o2"))

    def mzi_dummy(*, wl: Any = WAVELENGTH_NM * 1e-3) -> Any:
        return dummy

    return {"mzi": mzi, "mzi_dummy": mzi_dummy, "grating_coupler": sax_devices(process)["grating_coupler"]}


def sax_settings(circuit: Circuit) -> dict[str, dict[str, float]]:
    """The drive of all heaters by SAX's instance names."""
    structure, phases = analyse(circuit), drive(circuit)
    return {
        structure.circuit.instances[heater].replace(".", "_"): {"phase": phases[channel]}
        for heater, channel in zip(structure.heater.tolist(), structure.channel, strict=True)
    }


def by_sax(modes: int, jit: bool, whole: bool = False, dictionary: bool = False) -> Run:
    """A mesh without reflections by SAX's klu; compiled, the first answer is circuit and compilation.

    Whole MZIs are one device each, which spares SAX most of the circuit; a dictionary is what it gives unasked.
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
        models = sax_devices(process)
    watch = Watch()
    form = "SDict" if dictionary else "SDense"
    model, _ = sax.circuit(netlist=netlist, models=models, backend="klu", return_type=form)
    ports: dict[str, int] = {}

    def dense(wl: Any) -> Any:
        s, places = sax.sdense(model(wl=wl, **settings))
        ports.update(places)
        return s

    call = jax.jit(dense) if jit else dense
    found = jax.block_until_ready(
        model(wl=WAVELENGTH_NM * 1e-3, **settings) if dictionary else call(WAVELENGTH_NM * 1e-3)
    )
    first = watch.read()
    if dictionary:
        return Run(first, None, None, peak_mb(), None)
    labels = sorted(ports)
    order = [ports[label] for label in labels]
    # SAX has them [in, out]
    s = np.asarray(found)[np.ix_(order, order)].T
    further = seconds(lambda: jax.block_until_ready(call(1.551)), REPEATS if jit else 1)
    return Run(first, further, None, peak_mb(), s)


def bricks(modes: int) -> list[tuple[int, float, float]]:
    """Row, theta and phi of a mesh's MZIs in the order of the light, at random."""
    rng = np.random.default_rng(0)
    return [(row, *rng.uniform(0.0, 6.0, 2)) for column in range(modes) for row in range(column % 2, modes - 1, 2)]


def by_interferometer(modes: int) -> Run:
    """A lossless mesh's transfer matrix by interferometer: one N × N product per MZI."""
    import interferometer

    watch = Watch()
    mesh = interferometer.Interferometer()
    for row, theta, phi in bricks(modes):
        mesh.add_BS(interferometer.Beamsplitter(row + 1, row + 2, theta, phi))
    mesh.calculate_transformation()
    first = watch.read()
    return Run(first, seconds(mesh.calculate_transformation, 1), None, peak_mb())


def by_phaseshift(modes: int) -> Run:
    """The same by phaseshift."""
    from phaseshift.clements_interferometer import Decomposition, MachZehnder, mzi_circuit_reconstruction

    watch = Watch()
    cells = [MachZehnder(theta, phi, (row, row + 1)) for row, theta, phi in bricks(modes)]
    mesh = Decomposition(D=np.ones(modes, dtype=np.complex128), circuit=cells)
    mzi_circuit_reconstruction(mesh)
    first = watch.read()
    return Run(first, seconds(lambda: mzi_circuit_reconstruction(mesh), 1), None, peak_mb())


def by_perceval(modes: int) -> Run:
    """The same by perceval, beam splitters and phase shifters apart."""
    import perceval

    watch = Watch()
    mesh = perceval.Circuit(modes)
    for row, theta, phi in bricks(modes):
        for phase in (phi, theta):
            mesh.add(row, perceval.PS(float(phase)))
            mesh.add(row, perceval.BS())
    mesh.compute_unitary()
    first = watch.read()
    return Run(first, seconds(mesh.compute_unitary, 1), None, peak_mb())


PEERS = {"interferometer": by_interferometer, "phaseshift": by_phaseshift, "perceval": by_perceval}
"""Peers with a lossless mesh's transfer matrix in one direction; no S-parameters, loss, reflections or wavelengths."""
NOT_RUN = """not run:
  simphony 0.7.3: has no solver of its own, it calls SAX, and asks for one before 0.15
  photontorch 0.4.1: calls torch.solve, which torch has not had since 1.13
  simphox 0.0.1a8: imports jax.config, which jax has not had since 0.4.25
  strawberryfields, piquasso: photons through a given matrix, no S-parameters; the first needs numpy before 2
  pnn, neurophox, torchonn: layers of neural networks, no circuits; dphox, multiport-interferometer: layouts"""


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


def import_seconds(modules: str) -> float:
    """What imports cost before anything is asked."""
    code = f"import time; w, p = time.perf_counter(), time.process_time(); import {modules}; "
    code += "print(min(time.perf_counter() - w, time.process_time() - p))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | ONE_THREAD,
    )
    return float(done.stdout)


@dataclass
class Sheet:
    """The one table."""

    table: Table
    imports: dict[str, float]

    def add(self, what: str, module: str, modes: int, run: Run, mine: Run | None = None) -> None:
        """One row; ratios and the difference where there is a run of ours to compare with."""
        if module not in self.imports:
            self.imports[module] = import_seconds(module)
        ratios = ["", ""]
        if mine is not None:
            slower = max(mine.wavelength or 0.0, mine.bias or 0.0)
            ratios = [f"{run.first / mine.first:.1f}", f"{run.wavelength / slower:.1f}" if run.wavelength else ""]
        compared = mine is not None and run.s is not None
        cells = [
            what,
            str(modes),
            f"{self.imports[module]:.2f}",
            f"{run.first:.3f}",
            ratios[0],
            "" if run.wavelength is None else f"{run.wavelength:.5f}",
            "" if run.bias is None else f"{run.bias:.5f}",
            ratios[1],
            f"{run.peak_mb:.0f}",
            f"{np.abs(run.s - mine.s).max():.0e}" if compared and mine is not None else "",
        ]
        print(" | ".join(cells), file=sys.stderr)
        self.table.add_row(*cells)


def new_sheet() -> Sheet:
    """Without rows."""
    columns = ("what", "N", "import", "first", "ratio", "wavelength", "bias", "ratio", "MB", "difference")
    table = Table(
        *columns, title="Rectangular meshes from netlist to S-matrix between all ports, seconds; ratios to ours"
    )
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return Sheet(table, {})


def bench_mesh(sheet: Sheet, modes: int, sax_modes: int, jit_modes: int, peers: bool, wavelengths: int) -> None:
    """The rows of one size."""
    us, them = "optinc_pdk.assemble, optinc_pdk.simulate", "jax, sax"
    mine = in_own_process(ours, modes, False, wavelengths)
    sheet.add("ours", us, modes, mine)
    sheet.add("ours, every device reflects", us, modes, in_own_process(ours, modes, True, wavelengths))
    if modes <= sax_modes:
        sheet.add("SAX klu", them, modes, in_own_process(by_sax, modes, False, False, True), mine)
        sheet.add("SAX klu, dense", them, modes, in_own_process(by_sax, modes, False), mine)
    if modes <= jit_modes:
        sheet.add("SAX klu, dense, jit, whole MZIs", them, modes, in_own_process(by_sax, modes, True, True), mine)
    for name, work in PEERS.items() if peers else ():
        if importlib.util.find_spec(name):
            sheet.add(f"{name}, lossless, one way", name, modes, in_own_process(work, modes))
    sheet.table.add_section()


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "64",
    sax_modes: Annotated[int, typer.Option(help="SAX is called for meshes of at most so many modes.")] = 64,
    jit_modes: Annotated[int, typer.Option(help="And compiled for at most so many.")] = 64,
    wavelengths: Annotated[int, typer.Option(help="Wavelengths and biases that follow the first answer.")] = 20,
    large: Annotated[int, typer.Option(help="Wavelengths of the mesh of 256 modes; 0 leaves it out.")] = 101,
    peers: Annotated[bool, typer.Option(help="The other peers that are installed.")] = True,
    agree: Annotated[bool, typer.Option(help="Compare every mesh of up to 16 modes with SAX.")] = True,
) -> None:
    """Prints the table."""
    try:
        sizes = [int(size) for size in modes.split(",")]
    except ValueError:
        raise typer.BadParameter(f"modes is {modes!r}; give whole numbers separated by commas") from None
    if min(sizes) < 2 or wavelengths < 1 or large < 0:
        raise typer.BadParameter("give at least 2 modes, 1 wavelength, and no negative number")
    sheet = new_sheet()
    for size in sizes:
        bench_mesh(sheet, size, sax_modes, jit_modes, peers, wavelengths)
    if large:
        for what, reflecting in (("ours", False), ("ours, every device reflects", True)):
            run = in_own_process(ours, LARGE_MODES, reflecting, large)
            sheet.add(f"{what}, {large} wavelengths", "optinc_pdk.assemble, optinc_pdk.simulate", LARGE_MODES, run)
    worst = [in_own_process(agreement, size) for size in range(2, AGREEMENT_MODES + 1)] if agree else []
    console = Console(width=145)
    console.print(sheet.table)
    if worst:
        console.print(
            f"largest difference to SAX's klu, reflections included, 2 to {AGREEMENT_MODES} modes: {max(worst):.1e}"
        )
    if peers:
        missing = [f"  {name}: not installed" for name in PEERS if not importlib.util.find_spec(name)]
        console.print("\n".join([NOT_RUN, *missing]))


if __name__ == "__main__":
    typer.run(main)
