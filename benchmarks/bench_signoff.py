"""Sign-off of meshes and of the paper's 8-bit network compared with peers: extraction with LVS, and design rules.

    python benchmarks/bench_signoff.py
    python benchmarks/bench_signoff.py --modes 8,16 --peer-modes 16 --no-network        # a minute
    python benchmarks/bench_signoff.py --modes 64 --peer-modes 0                        # ours alone

Every row runs in its own process, so its peak memory includes imports. Seconds are the smaller of wall-clock and
processor time, the least of all repeats, after a first run on a small mesh. They include reading the GDS file, but not
reading netlists, cards and golden devices. Peers run once, and are stopped after `--peer-seconds` of processor time; a
row that was stopped is marked by `>`. The rows:

- Extraction and comparison: the GDS file is read; devices, guides, heaters, wires and pads are extracted from its
  polygons and compared with the netlist. Names of cells and ports are not used.
- kfactory's `KCell.netlist()`, MZIs: on a cell in memory with each MZI and each dummy as one instance, without wires,
  pads or fibres. Instances are connected where their given ports coincide; polygons are not used, and the result is not
  compared with a netlist.
- The same, devices: each phase shifter, coupler, terminator, grating coupler and guide is an instance in one cell, as
  in the extracted netlist; without wires and pads, which have no optical ports.
- Design rules: all geometric rules, as in sign-off. The same rules, flat: on flat regions of plain KLayout.
"""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import gdsfactory as gf
import klayout.db as kdb
import typer
from bench_layout import PAPER, PEER_PROCESS, paper_network, parse_modes, peak_kib
from peer_devices import devices, whole_mzis
from rich.console import Console

from optinc_pdk.assemble import LOCAL_STRIPS, assemble, mesh_chip
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.extract import extract
from optinc_pdk.factor import unitary_mzis
from optinc_pdk.layout import floorplan, to_layout, write_gds
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design import Design, read_design
from optinc_pdk.signoff.drc.design_rule_check import CHECKS, ELECTRICAL_KINDS, run_drc
from optinc_pdk.signoff.lvs.comparison import compare

PROCESS = "soi220_flipchip"
WARM_MODES = 4
REPEATS = 3
HEADS = ("what", "N", "MZIs", "s", "ratio", "peak MB", "result")


@dataclass(frozen=True)
class Times:
    """Number of repeats of a run, and the processor time in s after which it is stopped; 0 for no limit."""

    repeats: int
    limit: float = 0.0


@dataclass(frozen=True)
class Run:
    """One run: least seconds of its repeats, peak memory of the process, result, and whether it was stopped."""

    seconds: float
    peak_kib: int
    result: str
    stopped: bool = False


class FlatDesign(Design):
    """A layout whose layers are flat regions, for checks without hierarchy and condensed layouts."""

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
    """A mesh with a number of modes between fibres; for None, the paper's network."""
    if modes is None:
        return assemble(paper_network(PAPER), process, "chip", LOCAL_STRIPS)
    return mesh_chip(modes, process, "chip")


def draw(modes: int | None, path: Path) -> None:
    """Lay a circuit out and write it."""
    process = load_process(PROCESS)
    get_pdk(PROCESS).activate()
    write_gds(to_layout(floorplan(circuit_of(modes, process), process), process, "chip"), path)


def run_lvs(modes: int | None, path: Path, times: Times) -> Run:
    """Extract a chip and compare it with its netlist."""
    process = load_process(PROCESS)
    reference = circuit_of(modes, process)

    def once() -> str:
        result = compare(reference, extract(path, process), process)
        verdict = "match" if result.match else f"{result.total_differences} differences"
        return f"{verdict}, {result.devices:,} devices"

    return timed(once, times)


def run_rules(modes: int | None, path: Path, times: Times) -> Run:
    """Check all rules as sign-off does."""
    process = load_process(PROCESS)

    def once() -> str:
        result = run_drc(path, process.rules, process.gds_layers)
        return f"{result.violations} violations, {result.warnings} warnings"

    return timed(once, times)


def run_rules_flat(modes: int | None, path: Path, times: Times) -> Run:
    """Check all rules on flat regions."""
    process = load_process(PROCESS)

    def once() -> str:
        read = read_design(path, process.gds_layers, threads=1)
        design = FlatDesign(read.layout, read.top, read.layers, read.threads)
        count = {"error": 0, "warning": 0}
        for rule in (rule for rule in process.rules if rule.kind not in ELECTRICAL_KINDS):
            violations = CHECKS[rule.kind](design, rule)
            violations.flatten()
            count[rule.severity] += kdb.Region(list(violations.each())).merged().count()
        return f"{count['error']} violations, {count['warning']} warnings"

    return timed(once, times)


def run_kfactory(build: Callable[[str, Process, int], gf.Component], modes: int, path: Path, times: Times) -> Run:
    """Extract a mesh by kfactory, from ports that coincide."""
    process = load_process(PEER_PROCESS)
    get_pdk(PEER_PROCESS).activate()
    c = build(path.stem, process, modes)

    def once() -> str:
        (netlist,) = (netlist for name, netlist in c.netlist().items() if name == c.name)
        return f"{len(netlist.instances):,} instances, {len(netlist.nets):,} nets"

    return timed(once, times)


def timed(once: Callable[[], str], times: Times) -> Run:
    """The least time of several runs, or the time until a run was stopped."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, stop)
    least, result = float("inf"), ""
    for _ in range(times.repeats):
        start, busy = time.perf_counter(), time.process_time()
        signal.setitimer(signal.ITIMER_PROF, times.limit)
        try:
            result = once()
        except TimeoutError:
            return Run(min(time.perf_counter() - start, time.process_time() - busy), peak_kib(), "stopped", True)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        least = min(least, time.perf_counter() - start, time.process_time() - busy)
    return Run(least, peak_kib(), result)


def warmed(build: Callable[..., Run], modes: int | None, path: Path, times: Times) -> Run:
    """Run once on a small mesh first, so that the time does not include compilation."""
    small = path.with_name("small.gds")
    draw(WARM_MODES, small)
    build(WARM_MODES, small, Times(1))
    return build(modes, path, times)


def in_own_process(build: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(build, arguments)


def row(what: str, modes: str, mzis: int, run: Run, ours: Run) -> str:
    """One line of the table; the ratio is that to our run."""
    more = "> " if run.stopped else ""
    seconds, ratio = f"{more}{run.seconds:.2f}", f"{more}{run.seconds / ours.seconds:.1f}"
    cells = (what, modes, f"{mzis:,}", seconds, ratio, f"{run.peak_kib / 1024:,.0f}", run.result)
    return f"| {' | '.join(cells)} |"


def bench(modes: int | None, mzis: int, peer_seconds: float | None, folder: Path, console: Console) -> list[str]:
    """All rows of one chip; peers run only if ``peer_seconds`` is given."""
    name, path = "4 to 256" if modes is None else str(modes), folder / f"chip{modes}.gds"
    console.print(f"{name} modes: layout", highlight=False)
    in_own_process(draw, modes, path)
    times = Times(1 if modes is None else REPEATS)
    lines: list[str] = []
    for what, ours, peers in ROWS:
        console.print(f"{name} modes: {what}", highlight=False)
        run = in_own_process(warmed, ours, modes, path, times)
        lines.append(row(what, name, mzis, run, run))
        console.print(lines[-1], highlight=False)
        for peer, other in peers.items() if peer_seconds is not None else ():
            console.print(f"{name} modes: {peer}", highlight=False)
            lines.append(row(peer, name, mzis, in_own_process(warmed, other, modes, path, Times(1, peer_seconds)), run))
            console.print(lines[-1], highlight=False)
    return lines


# Name of each row, our function, and those of peers.
ROWS: tuple[tuple[str, Callable[..., Run], dict[str, Callable[..., Run]]], ...] = (
    (
        "extraction and comparison",
        run_lvs,
        {
            "kfactory KCell.netlist(), MZIs": partial(run_kfactory, whole_mzis),
            "kfactory KCell.netlist(), devices": partial(run_kfactory, devices),
        },
    ),
    ("design rules", run_rules, {"the same rules, flat": run_rules_flat}),
)


def main(
    modes: Annotated[str, typer.Option(help="Modes of the meshes, separated by commas.")] = "16,32,64,128",
    peer_modes: Annotated[int, typer.Option(help="Peers run up to this size; at 64 they take minutes each.")] = 64,
    peer_seconds: Annotated[float, typer.Option(help="Processor time after which a peer is stopped.", min=1.0)] = 600.0,
    network: Annotated[bool, typer.Option(help="Also sign off the paper's network.")] = True,
) -> None:
    """Print the table."""
    console = Console(stderr=True)
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    with tempfile.TemporaryDirectory() as folder:
        for size in parse_modes(modes):
            limit = peer_seconds if size <= peer_modes else None
            lines += bench(size, unitary_mzis(size), limit, Path(folder), console)
        if network:
            lines += bench(None, paper_network(PAPER).mzis, None, Path(folder), console)
    print("\n".join(lines))


if __name__ == "__main__":
    typer.run(main)
