"""Meshes and the paper's 8-bit network from netlist to GDS file: this package against its peers.

    python benchmarks/bench_layout.py
    python benchmarks/bench_layout.py --peer-python ENVIRONMENT/bin/python     # with multiport-interferometer too

Every row runs once in a process of its own, so that no row finds cells that another has drawn, and peak memory is its
own, import included. Times are wall-clock seconds from the circuit to the written file, after import. Ours are wired,
padded and labelled; every peer only places MZIs, without wires, pads, fibres or labels.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import gdsfactory as gf
import numpy as np
import typer
from gdsfactory.component import ComponentReference
from rich.console import Console
from rich.table import Table

from optinc_pdk.assemble import LOCAL_STRIPS, assemble, mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.cells import mzi_dummy, mzi_unit
from optinc_pdk.circuit import Circuit
from optinc_pdk.factor import unitary_mzis
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk

OURS = {"ours, bumps": "soi220_flipchip", "ours, perimeter": "soi220"}
BUMPS = "ours, bumps"
PEER_PROCESS = "soi220"
PAPER = (4, 64, 128, 256, 128, 64, 4)
"""The paper's 8-bit network of 4 servers (arXiv 2603.28290, Table I), every layer approximated: 41,664 MZIs."""
PEER_MODES = 64
PEER_SECONDS = 60.0
"""Beyond ``PEER_MODES`` a peer that is expected to take longer is left out."""
FITTED_MZIS = 400
"""Smaller meshes take about as long as drawing each cell once does."""
PEER_SCRIPT = """
import json, resource, sys, time
from multiport_interferometer import Bell
from multiport_interferometer.bell_components import activate_pdk
activate_pdk()
start = time.perf_counter()
Bell(int(sys.argv[1])).gds().write_gds(sys.argv[2])
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


@dataclass(frozen=True)
class Run:
    """One run: seconds of assembly and from circuit to file, bytes of the file, peak memory, number of our dies."""

    assembly: float | None
    seconds: float
    file_bytes: int
    peak_kib: int
    dies: int | None = None


def peak_kib() -> int:
    """Peak memory of this process in KiB, import included."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def laid_out(circuit: Circuit, assembly: float, process: Process, path: Path) -> Run:
    """Place, wire and write a circuit."""
    start = time.perf_counter()
    chip = floorplan(circuit, process)
    write_gds(to_layout(chip, process, circuit.name), path)
    return Run(assembly, time.perf_counter() - start, path.stat().st_size, peak_kib(), len(chip.dies))


def our_mesh(modes: int, path: Path, process_name: str) -> Run:
    """A mesh between fibres by this package, with wires, pads and labels."""
    process = load_process(process_name)
    get_pdk(process_name).activate()
    start = time.perf_counter()
    circuit = mesh_chip(modes, process, path.stem)
    return laid_out(circuit, time.perf_counter() - start, process, path)


def our_network(structure: tuple[int, ...], path: Path, process_name: str) -> Run:
    """The paper's network with random weights; only shapes and factorisations decide its layout."""
    process = load_process(process_name)
    get_pdk(process_name).activate()
    onn = paper_network(structure)
    start = time.perf_counter()
    circuit = assemble(onn, process, path.stem, LOCAL_STRIPS)
    return laid_out(circuit, time.perf_counter() - start, process, path)


def paper_network(structure: tuple[int, ...]) -> AveragingNetwork:
    """A network of that structure with random weights, every layer of one block or a row or column of blocks."""
    rng = np.random.default_rng(0)
    layers = tuple(Layer(rng.normal(size=(b, a)), np.zeros(b)) for a, b in pairwise(structure))
    factor = tuple(("approx", min(layer.weight.shape)) for layer in layers)
    return AveragingNetwork(layers, Averaging(2 * structure[-1], 4, structure[0]), factor)  # type: ignore[arg-type]


def slots(modes: int) -> Iterator[tuple[int, int, gf.Component, bool]]:
    """Column, upper mode, cell and whether it is flipped, for the MZIs and dummies of a rectangular mesh."""
    for column in range(modes if modes > 2 else 1):
        first = column % 2
        if first:
            yield column, 0, mzi_dummy(), False
        for mode in range(first, modes - 1, 2):
            yield column, mode, mzi_unit(), False
        if (modes - first) % 2:
            yield column, modes - 1, mzi_dummy(), True


def placed(c: gf.Component, process: Process, slot: tuple[int, int, gf.Component, bool]) -> ComponentReference:
    """Place the cell of a slot at its computed position."""
    column, mode, cell, flipped = slot
    ref = c.add_ref(cell)
    if flipped:
        ref.mirror_y()
    ref.move(
        (
            column * float(cell.ports["o3" if "o3" in cell.ports else "o2"].center[0]),
            -mode * float(process.floorplan.mode_pitch_um),
        )
    )
    return ref


def connected_mesh(modes: int, path: Path) -> Run:
    """Our MZIs placed by plain gdsfactory, each connected to the ports of the column before it."""
    process = load_process(PEER_PROCESS)
    get_pdk(PEER_PROCESS).activate()
    start = time.perf_counter()
    c = gf.Component(name=path.stem)
    ends: dict[int, gf.Port] = {}
    for slot in slots(modes):
        column, mode, cell, flipped = slot
        into, *out = ("o2", "o3", "o4") if "o3" in cell.ports else ("o1", "o2")
        if column:
            ref = c.add_ref(cell)
            ref.connect(into, ends[mode], mirror=flipped)
        else:
            ref = placed(c, process, slot)
        ends |= {mode + i: ref.ports[port] for i, port in enumerate(out)}
    c.write_gds(path)
    return Run(None, time.perf_counter() - start, path.stat().st_size, peak_kib())


def positioned_mesh(modes: int, path: Path) -> Run:
    """Our MZIs placed by plain gdsfactory at computed positions."""
    process = load_process(PEER_PROCESS)
    get_pdk(PEER_PROCESS).activate()
    start = time.perf_counter()
    c = gf.Component(name=path.stem)
    for slot in slots(modes):
        placed(c, process, slot)
    c.write_gds(path)
    return Run(None, time.perf_counter() - start, path.stat().st_size, peak_kib())


def bell_mesh(modes: int, path: Path, python: str) -> Run:
    """The mesh of multiport-interferometer, by the interpreter that has it.

    Raises:
        RuntimeError: The interpreter says why it could not.
    """
    done = subprocess.run([python, "-c", PEER_SCRIPT, str(modes), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{python} with multiport-interferometer failed:\n{done.stderr}")
    taken, peak = json.loads(done.stdout.splitlines()[-1])
    return Run(None, taken, path.stat().st_size, peak // 1024 if sys.platform == "darwin" else peak)


def in_own_process(build: Callable[..., Run], name: str, *arguments: Any) -> Run:
    """Run a build in a new process, with its file in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        first, *others = arguments
        return pool.apply(build, (first, Path(folder) / f"{name}.gds", *others))


def run_peer(build: Callable[..., Run], modes: int, mzis: int, before: tuple[int, Run] | None) -> Run | str:
    """Run a peer, unless it would take too long if its time grew as the square of the number of MZIs.

    Args:
        build: The peer.
        modes: Modes of the mesh.
        mzis: Its MZIs.
        before: MZIs and run of the size before.
    """
    if modes > PEER_MODES:
        expected = math.inf if before is None else before[1].seconds * (mzis / before[0]) ** 2
        if expected > PEER_SECONDS:
            return f"> {PEER_SECONDS:g}, left out"
    return in_own_process(build, "mesh", modes)


def new_table(title: str) -> Table:
    """Return an empty table of runs: seconds of assembly and from circuit to file, peak memory in megabytes."""
    table = Table("what", "N", "MZIs", "assembly", "to GDS", "ratio", "B/MZI", "MB", "dies", title=title)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def add_run(table: Table, what: str, modes: str, mzis: int, run: Run | str, ours: Run) -> None:
    """Add one row; a run that was left out is a text with the reason."""
    if isinstance(run, str):
        table.add_row(what, modes, f"{mzis:,}", "", run)
        return
    table.add_row(
        what,
        modes,
        f"{mzis:,}",
        "" if run.assembly is None else f"{run.assembly:.3f}",
        f"{run.seconds:.3f}",
        f"{run.seconds / ours.seconds:.2f}",
        f"{run.file_bytes / mzis:.0f}",
        f"{run.peak_kib / 1024:.0f}",
        "" if run.dies is None else str(run.dies),
    )


def bench_meshes(sizes: Sequence[int], peer_python: str | None) -> tuple[Table, dict[str, dict[int, Run]]]:
    """Run every size with this package and its peers; return the table, and our runs by number of MZIs."""
    table = new_table("Rectangular meshes; ratio to ours with bumps")
    ours: dict[str, dict[int, Run]] = {what: {} for what in OURS}
    peers: dict[str, Callable[..., Run] | str] = {
        "gdsfactory connect": connected_mesh,
        "gdsfactory add_ref": positioned_mesh,
        "Bell": partial(bell_mesh, python=peer_python) if peer_python else "not run",
    }
    before: dict[str, tuple[int, Run]] = {}
    for modes in sizes:
        mzis = unitary_mzis(modes)
        for what, process in OURS.items():
            ours[what][mzis] = in_own_process(our_mesh, "mesh", modes, process)
            add_run(table, what, str(modes), mzis, ours[what][mzis], ours[BUMPS][mzis])
        for what, build in peers.items():
            run = build if isinstance(build, str) else run_peer(build, modes, mzis, before.get(what))
            if isinstance(run, Run):
                before[what] = mzis, run
            add_run(table, what, str(modes), mzis, run, ours[BUMPS][mzis])
        table.add_section()
    return table, ours


def bench_network() -> tuple[Table, int, Run]:
    """Run the paper's network on several dies; return the table, the number of MZIs and the run."""
    table = new_table(f"The paper's 8-bit network of 4 servers, {'-'.join(map(str, PAPER))}, approximated")
    mzis = paper_network(PAPER).mzis
    run = in_own_process(our_network, "network", PAPER, OURS[BUMPS])
    add_run(table, BUMPS, "4 to 256", mzis, run, run)
    return table, mzis, run


def growth(runs: dict[int, Run]) -> str:
    """Describe the exponent of time against MZIs, fitted to the logarithms from ``FITTED_MZIS`` on."""
    fitted = {mzis: run.seconds for mzis, run in runs.items() if mzis >= FITTED_MZIS}
    if len(fitted) < 2:
        return f"growth needs two sizes of at least {FITTED_MZIS} MZIs"
    exponent = np.polyfit(np.log(list(fitted)), np.log(list(fitted.values())), 1)[0]
    return f"time grows as MZIs^{exponent:.2f} from {min(fitted):,} to {max(fitted):,} MZIs"


def parse_modes(modes: str) -> list[int]:
    """Parse the sizes of meshes; return them ascending.

    Raises:
        typer.BadParameter: Not whole numbers of at least 2, separated by commas.
    """
    try:
        sizes = sorted({int(size) for size in modes.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 2:
        raise typer.BadParameter(f"modes is {modes!r}; give whole numbers of at least 2, separated by commas")
    return sizes


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "8,16,32,64,128",
    peer_python: Annotated[
        str | None, typer.Option(help="Interpreter of an environment with multiport-interferometer.")
    ] = None,
    network: Annotated[bool, typer.Option(help="Lay out the paper's network too.")] = True,
) -> None:
    """Measure layout times and print the tables."""
    console = Console()
    table, ours = bench_meshes(parse_modes(modes), peer_python)
    console.print(table)
    if peer_python is None:
        console.print("Bell, of multiport-interferometer: not run; name an interpreter that has it by --peer-python")
    console.print("dphox: not run; it needs Python 3.9")
    for what, runs in ours.items():
        console.print(f"{what}: {growth(runs)}")
    if network:
        table, mzis, run = bench_network()
        console.print(table)
        console.print(f"{BUMPS}, with the network: {growth(ours[BUMPS] | {mzis: run})}")


if __name__ == "__main__":
    typer.run(main)
