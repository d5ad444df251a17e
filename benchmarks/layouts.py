"""Chips of every size and kind, laid out and signed off: results/layouts.json.

    python benchmarks/layouts.py                   # all rows: hours
    python benchmarks/layouts.py --only mesh-64    # rows whose names contain a text

Every row lays a circuit out, writes it, checks all design rules on the file, extracts the circuit from the polygons
and compares it with the netlist. Rows are written as they are done, so that a run can be interrupted; a row
replaces the one of the same name from an earlier run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from studies import read_data, write_study

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network, to_layout, write_gds
from optinc_pdk.networks import AveragingNetwork, Layer
from optinc_pdk.pdk import get_pdk
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ROOT / "optinc_pdk" / "networks" / "bundled"
MODES = (4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128)
WIRINGS = ("soi220", "soi220_flipchip", "soi220_two_metal")
REALISED = ("soi220", "soi220_onchip", "soi220_flipchip", "soi220_flipchip_onchip")
SHIPPED = (
    "average_4bit_4servers",
    "average_4bit_4servers_relu",
    "average_8bit_4servers",
    "average_8bit_4servers_relu",
    "average_8bit_4servers_robust",
)
INTRODUCTION = """# Layouts

Every chip is laid out, written, checked against all design rules of its process that need no bias, extracted from its
polygons, and compared with its netlist.

- `mesh-N` is one mesh of N modes between fibres. `hidden-N` is a network for two servers and two symbols with N hidden
  units: four meshes, two of them with N modes, and N activations. The others are bundled networks.
- The number of MZIs includes dummies and attenuators. Times were measured on two shared cores.
- Warnings are violated recommendations, for example the size of a die, or a ground bus that is wider than a window of
  the density rule.
- A chip that is *not buildable* is drawn at the size it needs. The one with 128 hidden units and wires to the perimeter
  is not drawn; it would be 1.09 m wide."""
HEADS = (
    "chip",
    "process",
    "MZIs",
    "pads",
    "size, mm",
    "fit",
    "GDS, kB",
    "layout, s",
    "DRC faults (warnings)",
    "LVS",
    "DRC, LVS, s",
)
CircuitAndChip = tuple[Circuit, ChipLayout]


@dataclass(frozen=True)
class Row:
    """One chip: name, process, size, times and results of its checks."""

    name: str
    process: str
    mzis: int
    pads: int
    dies: int
    width_mm: float
    height_mm: float
    fit: str
    gds_bytes: int
    layout_s: float
    violations: int
    warnings: int
    drc_s: float
    lvs: str
    devices: int
    lvs_s: float


def mesh(modes: int) -> Callable[[Process, str], CircuitAndChip]:
    """Return the layout function of one mesh between fibres."""

    def lay_out(process: Process, name: str) -> CircuitAndChip:
        circuit = mesh_chip(modes, process, name)
        return circuit, floorplan(circuit, process)

    return lay_out


def hidden(modes: int) -> Callable[[Process, str], CircuitAndChip]:
    """Return the layout function of a network of two servers, two symbols and one hidden layer.

    Its chip has ``modes`` activations and four meshes, two of them of ``modes`` modes. No two rows are multiples of
    each other, so every hidden unit has detectors of its own.
    """
    weights = [1.0 + np.outer(np.arange(b), np.arange(a)) for a, b in pairwise((2, modes, 2))]
    onn = AveragingNetwork(tuple(Layer(weight, np.zeros(len(weight))) for weight in weights), Averaging(4, 2, 2))
    return lambda process, name: lay_out_network(onn, process, name)


def shipped(network: str) -> Callable[[Process, str], CircuitAndChip]:
    """Return the layout function of a network that comes with the package."""
    onn = AveragingNetwork.load(NETWORKS / f"{network}.npz")
    return lambda process, name: lay_out_network(onn, process, name)


def chips() -> Iterator[tuple[str, str, Callable[[Process, str], CircuitAndChip]]]:
    """Yield the name, process and layout function of every row."""
    for modes in MODES:
        for process in WIRINGS:
            yield f"mesh-{modes}", process, mesh(modes)
    for modes in MODES:
        for process in REALISED:
            yield f"hidden-{modes}", process, hidden(modes)
    for network in SHIPPED:
        for process in (*REALISED, "soi220_two_metal"):
            yield network, process, shipped(network)


def signed_off(name: str, process_name: str, make: Callable[[Process, str], CircuitAndChip]) -> Row:
    """Lay one chip out and check it."""
    process = load_process(process_name)
    get_pdk(process_name).activate()
    start = time.perf_counter()
    circuit, chip = make(process, "chip")
    with tempfile.TemporaryDirectory() as folder:
        gds = Path(folder) / "chip.gds"
        write_gds(to_layout(chip, process, "chip"), gds)
        laid = time.perf_counter()
        rules = run_drc(gds, process.rules, process.gds_layers)
        checked = time.perf_counter()
        lvs = compare(circuit, extract(gds, process), process)
        compared = time.perf_counter()
        size = gds.stat().st_size
    return Row(
        name=name,
        process=process_name,
        mzis=sum(len(circuit.instances_of(kind)) for kind in ("mzi_unit", "mzi_dummy", "attenuator")),
        pads=len(circuit.instances_of("pad")),
        dies=len(chip.dies),
        width_mm=round(chip.width_um / 1e3, 2),
        height_mm=round(chip.height_um / 1e3, 2),
        fit=chip.fit,
        gds_bytes=size,
        layout_s=round(laid - start, 2),
        violations=rules.violations,
        warnings=rules.warnings,
        drc_s=round(checked - laid, 1),
        lvs="match" if lvs.match else f"{lvs.total_differences} differences",
        devices=lvs.devices,
        lvs_s=round(compared - checked, 1),
    )


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page in Markdown."""
    lines = [INTRODUCTION, "", f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for r in rows:
        dies = f"{r['dies']} dies, " if r["dies"] > 1 else ""
        lines.append(
            f"| {r['name']} | {r['process']} | {r['mzis']:,} | "
            f"{r['pads']:,} | {dies}{r['width_mm']} × {r['height_mm']} | {r['fit']} | "
            f"{r['gds_bytes'] / 1e3:,.0f} | {r['layout_s']} | {r['violations']} ({r['warnings']}) | "
            f"{r['lvs']}, {r['devices']:,} devices | {r['drc_s']}, {r['lvs_s']} |"
        )
    return "\n".join([*lines, ""])


def main(only: Annotated[str, typer.Option(help="Part of the names of the rows to run: name/process.")] = "") -> None:
    """Run rows and record them."""
    console = Console(stderr=True)
    order = [f"{name}/{process}" for name, process, _ in chips()]
    rows = {f"{row['name']}/{row['process']}": row for row in read_data("layouts", [])}
    processes = sorted({process for _, process, _ in chips()})
    networks = [NETWORKS / f"{network}.npz" for network in SHIPPED]
    for name, process, make in chips():
        if only not in f"{name}/{process}":
            continue
        try:
            row = signed_off(name, process, make)
        except InputError as fault:
            console.print(f"{name}/{process} is refused: {fault}", highlight=False)
            rows.pop(f"{name}/{process}", None)
        else:
            console.print(row, highlight=False)
            rows[f"{name}/{process}"] = asdict(row)
        done = [rows[key] for key in order if key in rows]
        last = not only and f"{name}/{process}" == order[-1]
        write_study("layouts", done, "python benchmarks/layouts.py", processes, networks, whole=last)


if __name__ == "__main__":
    typer.run(main)
