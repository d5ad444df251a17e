"""Sign-off of meshes and of the paper's 8-bit network: extraction with comparison, and design rules, against peers.

    python benchmarks/bench_signoff.py
    python benchmarks/bench_signoff.py --modes 8,16,32 --peer-modes 32 --no-network        # a minute

Peers run beside ours, on the same machine and in the same run: kfactory's `KCell.netlist()` on the same MZIs with
ports, placed in one cell, without wires, pads or fibres; and the same rules on flat regions of plain KLayout. Every row
runs in a process of its own, whose peak memory is its own, import included. Seconds are wall-clock, the least of the
repeats, after a first run on a small mesh; files are read within them, netlists and cards before.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import gdsfactory as gf
import klayout.db as kdb
import typer
from bench_layout import PAPER, PEER_PROCESS, paper_network, parse_modes, peak_kib, placed, slots
from rich.console import Console

from optinc_pdk.assemble import assemble, mesh_chip
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.factor import unitary_mzis
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff import drc
from optinc_pdk.signoff.gds import Design, read_design
from optinc_pdk.signoff.lvs import compare

PROCESS = "soi220_flipchip"
WARM_MODES = 4
REPEATS = 3
HEADS = ("what", "N", "MZIs", "s", "ratio", "peak MB", "result")


@dataclass(frozen=True)
class Run:
    """One run: the least seconds of its repeats, the process's peak memory and what came out."""

    seconds: float
    peak_kib: int
    result: str


class FlatDesign(Design):
    """A layout whose layers are flat regions: no hierarchy, no condensed layout."""

    @cached_property
    def flat_regions(self) -> dict[str, kdb.Region]:
        """Merged layers by name."""
        return {}

    def region(self, layer: str) -> kdb.Region:
        """A layer as a flat region."""
        if layer not in self.flat_regions:
            self.flat_regions[layer] = kdb.Region(self.shapes(layer)).merged()
        return self.flat_regions[layer]


def circuit_of(modes: int | None, process: Process) -> Circuit:
    """A mesh between fibres, or without a number the paper's network."""
    if modes is None:
        return assemble(paper_network(PAPER), process, "chip", local=True)
    return mesh_chip(modes, process, "chip")


def draw(modes: int | None, path: Path) -> None:
    """Lay a circuit out and write it."""
    process = load_process(PROCESS)
    get_pdk(PROCESS).activate()
    write_gds(to_layout(floorplan(circuit_of(modes, process), process), process, "chip"), path)


def run_lvs(modes: int | None, path: Path, repeats: int) -> Run:
    """Extract a chip and compare it with its netlist."""
    process = load_process(PROCESS)
    reference = circuit_of(modes, process)

    def once() -> str:
        found = compare(reference, extract(path, process), process)
        verdict = "match" if found.match else f"{found.total_differences} differences"
        return f"{verdict}, {found.devices:,} devices"

    return timed(once, repeats)


def run_rules(modes: int | None, path: Path, repeats: int) -> Run:
    """Check all rules as sign-off does."""
    process = load_process(PROCESS)

    def once() -> str:
        found = drc.run_drc(path, process.rules, process.gds_layers)
        return f"{found.violations} violations, {found.warnings} warnings"

    return timed(once, repeats)


def run_rules_flat(modes: int | None, path: Path, repeats: int) -> Run:
    """Check all rules on flat regions."""
    process = load_process(PROCESS)

    def once() -> str:
        read = read_design(path, process.gds_layers, threads=1)
        design = FlatDesign(read.layout, read.top, read.layers, read.threads)
        count = {"error": 0, "warning": 0}
        for rule in (rule for rule in process.rules if rule.kind not in drc.BIASED):
            faults = drc.CHECKS[rule.kind](design, rule)
            faults.flatten()
            count[rule.severity] += kdb.Region(list(faults.each())).merged().count()
        return f"{count['error']} violations, {count['warning']} warnings"

    return timed(once, repeats)


def run_kfactory(modes: int, path: Path, repeats: int) -> Run:
    """Extract the same MZIs by kfactory, from ports that touch."""
    process = load_process(PEER_PROCESS)
    get_pdk(PEER_PROCESS).activate()
    c = gf.Component(name=path.stem)
    for slot in slots(modes):
        placed(c, process, slot)

    def once() -> str:
        (found,) = (netlist for name, netlist in c.netlist().items() if name == c.name)
        return f"{len(found.instances):,} instances, {len(found.nets):,} nets"

    return timed(once, repeats)


def timed(once: Callable[[], str], repeats: int) -> Run:
    """The least time of several runs."""
    least, result = float("inf"), ""
    for _ in range(repeats):
        start = time.perf_counter()
        result = once()
        least = min(least, time.perf_counter() - start)
    return Run(least, peak_kib(), result)


def warmed(build: Callable[..., Run], modes: int | None, path: Path, repeats: int) -> Run:
    """A run after one on a small mesh, so that nothing is compiled within the time."""
    small = path.with_name("small.gds")
    draw(WARM_MODES, small)
    build(WARM_MODES, small, 1)
    return build(modes, path, repeats)


def in_own_process(build: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(build, arguments)


def row(what: str, modes: str, mzis: int, run: Run, ours: Run) -> str:
    """One line of the table; the ratio is to ours."""
    peak = f"{run.peak_kib / 1024:,.0f}"
    cells = (what, modes, f"{mzis:,}", f"{run.seconds:.2f}", f"{run.seconds / ours.seconds:.1f}", peak, run.result)
    return f"| {' | '.join(cells)} |"


def bench(modes: int | None, mzis: int, peers: bool, folder: Path, console: Console) -> list[str]:
    """All rows of one chip."""
    name, path = "4 to 256" if modes is None else str(modes), folder / f"chip{modes}.gds"
    console.print(f"{name} modes: layout", highlight=False)
    in_own_process(draw, modes, path)
    repeats = 1 if modes is None else REPEATS
    lines: list[str] = []
    for what, ours, peer, other in (
        ("extraction and comparison", run_lvs, "kfactory KCell.netlist()", run_kfactory),
        ("design rules", run_rules, "the same rules, flat", run_rules_flat),
    ):
        console.print(f"{name} modes: {what}", highlight=False)
        run = in_own_process(warmed, ours, modes, path, repeats)
        lines.append(row(what, name, mzis, run, run))
        console.print(lines[-1], highlight=False)
        if peers:
            console.print(f"{name} modes: {peer}", highlight=False)
            lines.append(row(peer, name, mzis, in_own_process(warmed, other, modes, path, 1), run))
            console.print(lines[-1], highlight=False)
    return lines


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "16,32,64,128",
    peer_modes: Annotated[int, typer.Option(help="Peers run up to this size; at 64 kfactory takes minutes.")] = 64,
    network: Annotated[bool, typer.Option(help="Sign the paper's network off too.")] = True,
) -> None:
    """Prints the table."""
    console = Console(stderr=True)
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for size in parse_modes(modes):
            lines += bench(size, unitary_mzis(size), size <= peer_modes, Path(folder), console)
        if network:
            lines += bench(None, paper_network(PAPER).mzis, False, Path(folder), console)
    print("\n".join(lines))


if __name__ == "__main__":
    typer.run(main)
