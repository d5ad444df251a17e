"""Chips of every size and kind, laid out and signed off: the table and the pictures of docs/layouts.md.

    python benchmarks/layouts.py                   # the whole page: hours
    python benchmarks/layouts.py --only mesh-64    # rows whose names contain a text

Every row lays a circuit out, writes it, checks all design rules on the file, extracts the circuit from the polygons
and compares it with the netlist. Rows are written to docs/layouts/layouts.csv as they are done, so that a run can
be interrupted; a row replaces the one of the same name from an earlier run.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from optinc_pdk.assemble import mesh_chip
from optinc_pdk.averaging import Averaging
from optinc_pdk.cards import Process, load_process
from optinc_pdk.circuit import Circuit
from optinc_pdk.errors import InputError
from optinc_pdk.extract import extract
from optinc_pdk.file_writing import write_atomic
from optinc_pdk.layout import ChipLayout, floorplan, lay_out_network, to_layout, write_gds
from optinc_pdk.onn import Layer, Onn
from optinc_pdk.pdk import get_pdk
from optinc_pdk.report.layout_pictures import layout_png
from optinc_pdk.signoff.drc.design_rule_check import run_drc
from optinc_pdk.signoff.lvs.comparison import compare

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "layouts"
NETWORKS = ROOT / "optinc_pdk" / "onn" / "networks"
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

`python benchmarks/layouts.py` generates this page. It lays out every chip of the table, writes it, checks it against
all design rules of its process that need no bias, extracts the circuit from the polygons, and compares it with the
netlist.

- `mesh-N` is one mesh of N modes between fibres. `hidden-N` is a network for two servers and two symbols with N hidden
  units: four meshes, two of them with N modes, and N activations. The others are bundled networks.
- The number of MZIs includes dummies and attenuators. Times were measured on two shared cores.
- Warnings are violated recommendations, for example the size of a die, or a ground bus that is wider than a window of
  the density rule.
- A chip that is *not buildable* is drawn at the size it needs. The one with 128 hidden units and wires to the perimeter
  is not drawn; it would be 1.09 m wide.
- Each name links to a picture."""
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
    onn = Onn(tuple(Layer(weight, np.zeros(len(weight))) for weight in weights), Averaging(4, 2, 2))
    return lambda process, name: lay_out_network(onn, process, name)


def shipped(network: str) -> Callable[[Process, str], CircuitAndChip]:
    """Return the layout function of a network that comes with the package."""
    onn = Onn.load(NETWORKS / f"{network}.npz")
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


def signed_off(name: str, process_name: str, make: Callable[[Process, str], CircuitAndChip], picture: Path) -> Row:
    """Lay one chip out, check it and write its picture."""
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
        parts = {"metal": process.metal.layer, "etch70": process.grating.layer}
        layers = process.gds_layers | {part: process.layers[layer].gds for part, layer in parts.items()}
        write_atomic(picture, layout_png(gds, layers, width_px=900))
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


def page(rows: list[dict[str, str]]) -> str:
    """Return the page in Markdown."""
    lines = [INTRODUCTION, "", f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    for r in rows:
        dies = f"{r['dies']} dies, " if int(r["dies"]) > 1 else ""
        lines.append(
            f"| [{r['name']}](layouts/{r['name']}_{r['process']}.png) | {r['process']} | {int(r['mzis']):,} | "
            f"{int(r['pads']):,} | {dies}{r['width_mm']} × {r['height_mm']} | {r['fit']} | "
            f"{int(r['gds_bytes']) / 1e3:,.0f} | {r['layout_s']} | {r['violations']} ({r['warnings']}) | "
            f"{r['lvs']}, {int(r['devices']):,} devices | {r['drc_s']}, {r['lvs_s']} |"
        )
    return "\n".join([*lines, ""])


def main(only: Annotated[str, typer.Option(help="Part of the names of the rows to run: name/process.")] = "") -> None:
    """Run rows and rewrite the page."""
    console = Console(stderr=True)
    table = FOLDER / "layouts.csv"
    order = [f"{name}/{process}" for name, process, _ in chips()]
    rows: dict[str, dict[str, str]] = {}
    if table.exists():
        with table.open(newline="", encoding="utf-8") as stream:
            rows = {f"{row['name']}/{row['process']}": row for row in csv.DictReader(stream)}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, process, make in chips():
        if only not in f"{name}/{process}":
            continue
        try:
            row = signed_off(name, process, make, FOLDER / f"{name}_{process}.png")
        except InputError as fault:
            console.print(f"{name}/{process} is refused: {fault}", highlight=False)
            continue
        console.print(row, highlight=False)
        rows[f"{name}/{process}"] = {key: str(value) for key, value in asdict(row).items()}
        done = [rows[key] for key in order if key in rows]
        with table.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, [field.name for field in fields(Row)])
            writer.writeheader()
            writer.writerows(done)
        write_atomic(ROOT / "docs" / "layouts.md", page(done).encode())


if __name__ == "__main__":
    typer.run(main)
