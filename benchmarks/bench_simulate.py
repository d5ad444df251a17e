"""Meshes from netlist to S-matrix: this package, SAX and other peers side by side in one table.

    python benchmarks/bench_simulate.py                              # five minutes, half of it one compilation by SAX
    python benchmarks/bench_simulate.py --jit-modes 16 --modes 8,16,64     # SAX is compiled for small meshes only
    python benchmarks/bench_simulate.py --modes 64 --no-peers --no-agree --large 0 --sax-modes 0   # ours alone

Couplers, heaters, gratings and terminators are separate components in all. Every row runs in its own process, whose
peak memory includes the import. Seconds are the smaller of wall clock and processor time, so that neither other work on
the machine nor the threads of a compiler count. The first result includes everything imported or compiled on the way;
imports before it have a column of their own.

SAX runs in the forms in which it is fastest: JAX models in its coordinate form (models that call numpy cannot be
compiled), without S-parameters that are zero, with dense results, and for compilation with whole MZIs as one device
each.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer
from mesh_runs import LARGE_MODES, Run, ours
from peer_runs import NOT_RUN, PEERS
from rich.console import Console
from rich.table import Table
from sax_runs import agreement, by_sax

AGREEMENT_MODES = 16
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


def in_own_process(work: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a fresh process whose numerical libraries use one thread."""
    os.environ |= ONE_THREAD
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def import_seconds(modules: str) -> float:
    """Seconds for the import of modules in a fresh process."""
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
    """The table of results."""

    table: Table
    imports: dict[str, float]

    def add(self, what: str, module: str, modes: int, run: Run, reference: Run | None = None) -> None:
        """Add one row; with ratios and the difference where there is a run of this package to compare with."""
        if module not in self.imports:
            self.imports[module] = import_seconds(module)
        ratios = ["", ""]
        if reference is not None:
            slower = max(reference.wavelength or 0.0, reference.bias or 0.0)
            ratios = [f"{run.first / reference.first:.1f}", f"{run.wavelength / slower:.1f}" if run.wavelength else ""]
        compared = reference is not None and run.s is not None
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
            f"{np.abs(run.s - reference.s).max():.0e}" if compared and reference is not None else "",
        ]
        print(" | ".join(cells), file=sys.stderr)
        self.table.add_row(*cells)


def new_sheet() -> Sheet:
    """The table without rows."""
    columns = ("what", "N", "import", "first", "ratio", "wavelength", "bias", "ratio", "MB", "difference")
    table = Table(
        *columns, title="Rectangular meshes from netlist to S-matrix between all ports, seconds; ratios to ours"
    )
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    return Sheet(table, {})


def bench_mesh(sheet: Sheet, modes: int, sax_modes: int, jit_modes: int, peers: bool, wavelengths: int) -> None:
    """Add the rows of one size."""
    us, them = "optinc_pdk.assemble, optinc_pdk.simulate", "jax, sax"
    reference = in_own_process(ours, modes, False, wavelengths)
    sheet.add("ours", us, modes, reference)
    sheet.add("ours, every device reflects", us, modes, in_own_process(ours, modes, True, wavelengths))
    if modes <= sax_modes:
        sheet.add("SAX klu", them, modes, in_own_process(by_sax, modes, False, False, True), reference)
        sheet.add("SAX klu, dense", them, modes, in_own_process(by_sax, modes, False), reference)
    if modes <= jit_modes:
        sheet.add("SAX klu, dense, jit, whole MZIs", them, modes, in_own_process(by_sax, modes, True, True), reference)
    for name, work in PEERS.items() if peers else ():
        if importlib.util.find_spec(name):
            sheet.add(f"{name}, lossless, one way", name, modes, in_own_process(work, modes))
    sheet.table.add_section()


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "64",
    sax_modes: Annotated[int, typer.Option(help="SAX is called for meshes of at most so many modes.")] = 64,
    jit_modes: Annotated[int, typer.Option(help="SAX is compiled for meshes of at most so many modes.")] = 64,
    wavelengths: Annotated[int, typer.Option(help="Wavelengths and biases after the first result.")] = 20,
    large: Annotated[int, typer.Option(help="Wavelengths of the mesh of 256 modes; 0 leaves it out.")] = 101,
    peers: Annotated[bool, typer.Option(help="Run the other peers that are installed.")] = True,
    agree: Annotated[bool, typer.Option(help="Compare every mesh of up to 16 modes with SAX.")] = True,
) -> None:
    """Run the benchmark and print the table."""
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
