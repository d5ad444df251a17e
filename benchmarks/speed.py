"""Speed of ten kernels and five commands, each against a fixed reference of its own kind in the same run.

    make bench                                    # three minutes
    python benchmarks/speed.py --only rules       # rows whose names contain a text; nothing is written

References do not change with the project: operations of plain KLayout regions for layouts, of NumPy and SciPy for
numbers, and an import of gdsfactory for whole commands. Kernel and reference take turns, and the least processor time
of each counts, so that other work on the machine matters little. The ratio is what compares commits and machines.

A run adds its rows to results/speed.json under the commit, and prints what became slower than in the last commit of
that file by more than 15 %.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import klayout.db as kdb
import numpy as np
import scipy.linalg
import typer
from rich.console import Console
from studies import commit, read_data, write_study

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.factor import rectangular
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.extracted_chip import read_extracted_layout
from optinc_pdk.signoff.function import function_inputs
from optinc_pdk.signoff.lvs.comparison import compare
from optinc_pdk.simulate import analyse, prepare, program, s_matrices, scattering, transmit
from optinc_pdk.studies import draw_sample, imperfections, read_chip, sample_scatterings

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "optinc_pdk" / "networks" / "bundled"
PROCESS = "soi220_flipchip"
MODES = 64
SLOWER = 1.15
"""A ratio larger than the last one by more than this factor is reported."""
REPEATS = 3
Work = Callable[[], object]
Row = dict[str, float]

INTRODUCTION = """# Speed

Each kernel and each command takes turns with a reference
that does not change: operations of plain KLayout regions, of NumPy and SciPy, or an import of gdsfactory. Both times
are the least processor time of a few turns on one thread, in seconds. The ratio compares commits and machines; seconds
depend on the machine and on its other work.
"""


def processor() -> float:
    """Return the processor time in s of this process and of those that it has started."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def measured(work: Work, reference: Work, repeats: int) -> Row:
    """Return the least processor times of some work and of its reference, which take turns."""
    least = {"seconds": np.inf, "reference": np.inf}
    for _ in range(repeats):
        for name, run in (("reference", reference), ("seconds", work)):
            start = processor()
            run()
            least[name] = min(least[name], processor() - start)
    return {name: round(float(value), 4) for name, value in least.items()}


# References.


@cache
def discs() -> list[kdb.Polygon]:
    """Return 1,250 discs of 64 corners that overlap in rows."""
    places = ((1500 * x, 4000 * y) for x in range(25) for y in range(50))
    return [kdb.Polygon.ellipse(kdb.Box(x, y, x + 2000, y + 2000), 64) for x, y in places]


def regions() -> None:
    """Merge discs, shrink them and check their space with plain KLayout."""
    kdb.Region(discs()).merged().sized(-200).merged().space_check(500)


@cache
def matrix(size: int) -> Any:
    """Return a complex matrix of normal random numbers."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((size, size)) + 1j * rng.standard_normal((size, size))


def decomposition() -> None:
    """Compute the QR decomposition of a matrix of 800 rows with SciPy."""
    scipy.linalg.qr(matrix(800))


def equations() -> None:
    """Solve 800 linear equations with as many right sides with NumPy."""
    np.linalg.solve(matrix(800), matrix(800))


def gdsfactory_import() -> None:
    """Import gdsfactory in a process of its own."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", "import gdsfactory"], check=True, capture_output=True)


# Kernels; what is prepared once is cached.


@cache
def mesh() -> Circuit:
    """Return the circuit of a mesh between fibres."""
    return mesh_chip(MODES, load_process(PROCESS), "chip")


@cache
def mesh_gds() -> Path:
    """Lay the mesh out once; return its file."""
    return laid_out(FOLDER / "mesh.gds")


def laid_out(path: Path) -> Path:
    """Lay the mesh out with all its wiring and write it."""
    process = load_process(PROCESS)
    get_pdk(PROCESS).activate()
    write_gds(to_layout(floorplan(mesh(), process), process, "chip"), path)
    return path


def rules() -> None:
    """Check all design rules of the mesh."""
    process = load_process(PROCESS)
    assert run_drc(mesh_gds(), process.rules, process.gds_layers, threads=1).clean


def lvs() -> None:
    """Extract the mesh and compare it with its netlist."""
    process = load_process(PROCESS)
    assert compare(mesh(), extract(mesh_gds(), process), process).match


@cache
def unitary() -> Any:
    """Return a random unitary of 256 rows."""
    return np.linalg.qr(matrix(256))[0]


def phases() -> None:
    """Compute the phases of a mesh of 256 modes."""
    rectangular(unitary())


@cache
def prepared() -> Any:
    """Return the mesh analysed for S-parameters, and ten sets of its phases."""
    structure = analyse(mesh())
    sets = np.random.default_rng(1).uniform(0, 6, (10, structure.heater.size))
    return prepare(structure, 1550.0, load_process(PROCESS)), sets


def first_s_parameters() -> None:
    """Compute the S-parameters of the mesh, from its netlist."""
    channels = [label for label in mesh().ports if label.endswith(("_theta", "_phi"))]
    scattering(mesh(), dict.fromkeys(channels, 1.0), 1550.0, load_process(PROCESS))


def next_s_parameters() -> None:
    """Compute the S-parameters of the mesh for ten more sets of phases."""
    plan, phases_rad = prepared()
    s_matrices(plan, phases_rad, 1550.0, load_process(PROCESS))


@cache
def chip() -> Any:
    """Build the default chip; return its network, the chip for samples, and the extracted layout."""
    command("build", "-o", str(FOLDER / "built"))()
    (gds,) = (FOLDER / "built").glob("*.gds")
    read = read_chip(gds, gds.with_suffix(".pic.yml"), gds.with_suffix(".bias.yml"), load_process())
    return (
        AveragingNetwork.load(NETWORKS / f"{gds.stem}.npz"),
        read,
        read_extracted_layout(gds, read.bias, load_process()),
    )


def programming() -> None:
    """Program the extracted default chip."""
    onn, read, layout = chip()
    program(layout.circuit, read.board, onn, load_process(), ground=layout.ground)


@cache
def light() -> Any:
    """Return the symbols of all words of the default chip, and its S-parameters."""
    onn, read, layout = chip()
    s = scattering(layout.circuit, read.bias, 1550.0, load_process(), ground=layout.ground)
    return function_inputs(onn.task).symbols, s


def words() -> None:
    """Send all words through the default chip."""
    _, read, _ = chip()
    symbols, s = light()
    transmit(symbols, s, read.board, read.bias)


def samples() -> None:
    """Compute the S-parameters of 16 samples of the default chip with all imperfections."""
    _, read, _ = chip()
    every = imperfections(load_process())
    sample_scatterings(read, [draw_sample(read, every, seed) for seed in range(16)], read.voltage_v)


def command(*arguments: str, code: int = 0) -> Work:
    """Return a function that runs a command in a process of its own."""

    def run() -> None:
        line = [sys.executable, "-c", "from optinc_pdk.cli import main; main()", *arguments]
        done = subprocess.run(line, capture_output=True, text=True, cwd=FOLDER)
        if done.returncode != code:
            raise RuntimeError(f"optinc {' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-500:]}")

    return run


def large_matrix() -> None:
    """Build the chip of a unitary of 64 rows from its file."""
    if not (FOLDER / "large.npy").exists():
        np.save(FOLDER / "large.npy", np.linalg.qr(matrix(MODES))[0])
    command("build", "large.npy", "--process", PROCESS, "-o", "large")()


def verified() -> None:
    """Verify the default chip against its netlist, which `chip` has built."""
    (gds,) = (FOLDER / "built").glob("*.gds")
    command("verify", str(gds), str(gds.with_suffix(".pic.yml")), "-o", "verified.html")()


FOLDER = Path(tempfile.gettempdir()) / f"speed-{os.getpid()}"
"""Folder of everything that is built; it exists during a measurement."""
KERNELS: dict[str, tuple[Work, Work]] = {
    "netlist to GDS, 64 modes": (lambda: laid_out(FOLDER / "again.gds"), regions),
    "design rules, 64 modes": (rules, regions),
    "extraction and LVS, 64 modes": (lvs, regions),
    "phases of a unitary, 256 modes": (phases, decomposition),
    "first S-parameters, 64 modes": (first_s_parameters, equations),
    "ten more sets of phases, 64 modes": (next_s_parameters, equations),
    "programming, default chip": (programming, equations),
    "all words, default chip": (words, equations),
    "16 sampled chips": (samples, equations),
    "refusal of a missing file": (command("drc", "missing.gds", code=2), gdsfactory_import),
}
COMMANDS: dict[str, tuple[Work, Work]] = {
    "optinc --help": (command("--help"), gdsfactory_import),
    "build, default chip": (command("build", "-o", "default"), gdsfactory_import),
    "build, matrix of 64 modes": (large_matrix, gdsfactory_import),
    "build, 8-bit chip": (
        command("build", str(NETWORKS / "average_8bit_4servers_relu.npz"), "-o", "eight", "--accept", "rate"),
        gdsfactory_import,
    ),
    "verify, default chip": (verified, gdsfactory_import),
}


def measure(only: str, console: Console) -> dict[str, Row]:
    """Measure the rows whose names contain a text; commands run once, kernels in turns after a first run."""
    rows: dict[str, Row] = {}
    for name, (work, reference) in {**KERNELS, **COMMANDS}.items():
        if only not in name:
            continue
        if name in KERNELS:
            work()
        rows[name] = measured(work, reference, REPEATS if name in KERNELS else 1)
        console.print(f"{name}: {rows[name]['seconds']:.2f} s, {ratio(rows[name]):.2f} times", highlight=False)
    return rows


def ratio(row: Row) -> float:
    """Return the time of a row relative to its reference."""
    return row["seconds"] / row["reference"]


def slower(rows: dict[str, Row], before: dict[str, Row]) -> list[str]:
    """Return a line for every row whose ratio grew by more than 15 %."""
    common = [name for name in rows if name in before and ratio(rows[name]) > SLOWER * ratio(before[name])]
    return [f"{name}: {ratio(before[name]):.2f} → {ratio(rows[name]):.2f} times its reference" for name in common]


def page(commits: dict[str, dict[str, Row]]) -> str:
    """Return the page: the last commit, and the ratio of the one before."""
    *earlier, last = commits
    before = commits[earlier[-1]] if earlier else {}
    lines = [INTRODUCTION, f"Commit {last}" + (f", and {earlier[-1]} before it" if earlier else "") + ".", ""]
    lines += ["| | s | reference, s | ratio | before |", "|---|--:|--:|--:|--:|"]
    for name, row in commits[last].items():
        old = f"{ratio(before[name]):.2f}" if name in before else ""
        lines.append(f"| {name} | {row['seconds']:.2f} | {row['reference']:.2f} | {ratio(row):.2f} | {old} |")
    return "\n".join([*lines, ""])


def main(only: Annotated[str, typer.Option(help="Part of the names of the rows to measure.")] = "") -> None:
    """Measure, write results, and print what became slower."""
    console = Console(stderr=True)
    FOLDER.mkdir()
    try:
        rows = measure(only, console)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    commits: dict[str, dict[str, Row]] = read_data("speed", {})
    current = commit()
    earlier = [name for name in commits if name != current]
    for line in slower(rows, commits[earlier[-1]]) if earlier else ():
        console.print(f"slower: {line}", style="bold red", highlight=False)
    if not only:
        write_study("speed", {name: commits[name] for name in earlier} | {current: rows}, "make bench")


if __name__ == "__main__":
    typer.run(main)
