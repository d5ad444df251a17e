"""``optinc drc`` and ``optinc verify`` against the number of edges: rings, combs, gratings, spirals, random shapes.

    python benchmarks/many_edges.py                      # 1,000 to 1,000,000 edges, about an hour
    python benchmarks/many_edges.py --most 100000 --only rings

Every family is drawn flat in two ways: one that fulfils the rules of the process for its layer, and one in which every
shape violates them. Each run is a whole command in a process of its own; seconds are its processor time, memory is its
largest resident size. The exponent is that of a power law through the last two sizes of a row, less the time of a
layout of one shape, so that the fixed time of a command does not hide the growth. ``verify`` compares with the netlist
of one straight guide, so LVS differs too.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import klayout.db as kdb
import numpy as np
import typer

CORE, ETCH, HEATER, METAL = (3, 0), (6, 0), (39, 0), (41, 0)
NETLIST = """\
instances:
  guide: {component: straight, settings: {length: 100.0}}
ports: {}
name: many_edges
"""
OPTINC = "import sys; from optinc_pdk.cli import main; main()"
Drawn = Iterator[tuple[tuple[int, int], kdb.DPolygon]]


def grid(count: int, pitch_um: float) -> Iterator[tuple[float, float]]:
    """Places of ``count`` shapes on a square grid."""
    side = math.ceil(math.sqrt(count))
    return (((k % side) * pitch_um, (k // side) * pitch_um) for k in range(count))


def ring(x: float, y: float, radius: float, width: float, corners: int) -> kdb.DPolygon:
    """A ring of half of ``corners`` on each contour."""
    angle = np.linspace(0, 2 * math.pi, corners // 2, endpoint=False)
    outer, inner = (
        [kdb.DPoint(x + r * math.cos(a), y + r * math.sin(a)) for a in angle.tolist()] for r in (radius, radius - width)
    )
    shape = kdb.DPolygon(outer)
    shape.insert_hole(inner)
    return shape


def rings(edges: int, bad: bool) -> Drawn:
    """Guides bent to rings; the bad ones are narrow, too small, of fine chords, and stand side by side."""
    corners = 512 if bad else 256
    for x, y in grid(edges // corners + 1, 4.7 if bad else 40.0):
        yield CORE, ring(x, y, 2.3 if bad else 15.0, 0.3 if bad else 0.45, corners)


def metal_rings(edges: int, bad: bool) -> Drawn:
    """Rings of metal; the bad ones are narrow, with an inside that is too small."""
    corners = 512 if bad else 256
    for x, y in grid(edges // corners + 1, 12.0 if bad else 80.0):
        yield METAL, ring(x, y, 5.0 if bad else 30.0, 0.5 if bad else 5.0, corners)


def combs(edges: int, bad: bool) -> Drawn:
    """Combs of metal with 500 teeth, a polygon each."""
    tooth, gap, high = (0.5, 0.5, 20.0) if bad else (5.0, 11.0, 60.0)
    pitch, teeth = tooth + gap, 500
    for row in range(max(edges // (4 * teeth), 1)):
        y = row * 3 * high
        end = (teeth - 1) * pitch + tooth
        points = [kdb.DPoint(0, y - tooth), kdb.DPoint(end, y - tooth)]
        for k in reversed(range(teeth)):
            for x in (k * pitch + tooth, k * pitch):
                points += [kdb.DPoint(x, at) for at in ((y, y + high) if x > k * pitch else (y + high, y))]
        # the outer sides of the first and the last tooth go on to the base
        points = [points[0], points[1], *(p for p in points[2:] if p.y != y or 0 < p.x < end)]
        yield METAL, kdb.DPolygon(points)


def gratings(edges: int, bad: bool) -> Drawn:
    """Lines of grating etch on silicon, 25 for each of its pieces."""
    pitch, line = (0.3, 0.1) if bad else (0.66, 0.33)
    for x, y in grid(edges // 104 + 1, 30.0 if bad else 200.0):
        yield CORE, kdb.DPolygon(kdb.DBox(x - 1, y - 1, x + 25 * pitch + 1, y + 13))
        for k in range(25):
            yield ETCH, kdb.DPolygon(kdb.DBox(x + k * pitch, y, x + k * pitch + line, y + 12))


def spirals(edges: int, bad: bool) -> Drawn:
    """One spiral guide of chords of 1 µm (clean) or 0.2 µm, in pieces of 2,000 chords, joined end to end."""
    pitch, chord, width = (0.5, 0.2, 0.3) if bad else (6.0, 1.0, 0.45)
    count = edges // 2
    # length of an Archimedean spiral from the radius 20 µm: pi r² / pitch
    radius = np.sqrt(20.0**2 + chord * np.arange(count) * pitch / math.pi)
    angle = 2 * math.pi * radius / pitch
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    out = np.stack([np.cos(angle), np.sin(angle)], axis=1) * width / 2
    sides = np.stack([x, y], axis=1)[None] + np.stack([out, -out])
    for k in range(0, count - 1, 2000):
        outer, inner = sides[:, k : min(k + 2001, count)].tolist()
        yield CORE, kdb.DPolygon([kdb.DPoint(*at) for at in (*outer, *inner[::-1])])


def squares(edges: int, bad: bool) -> Drawn:
    """Shapes at random on four layers: triangles on top of each other, or squares of metal that keep their distance."""
    rng = np.random.default_rng(0)
    count = edges // 4
    if not bad:
        for (x, y), (a, b) in zip(grid(count, 25.0), rng.uniform(0, 5, (count, 2)).tolist(), strict=True):
            yield METAL, kdb.DPolygon(kdb.DBox(x + a, y + b, x + a + 6, y + b + 6))
        return
    side = 3.0 * math.sqrt(count)
    for k, (x, y) in enumerate(rng.uniform(0, side, (count, 2)).tolist()):
        corners = [kdb.DPoint(x + a, y + b) for a, b in rng.uniform(-4, 4, (3, 2)).tolist()]
        yield (CORE, ETCH, HEATER, METAL)[k % 4], kdb.DPolygon(corners)


FAMILIES: dict[str, Callable[[int, bool], Drawn]] = {
    "rings": rings,
    "metal rings": metal_rings,
    "combs": combs,
    "gratings": gratings,
    "spirals": spirals,
    "random": squares,
}


def draw(path: Path, family: str, edges: int, bad: bool) -> None:
    """Write a layout of about so many edges."""
    layout = kdb.Layout()
    top = layout.create_cell("many_edges")
    for layer, shape in FAMILIES[family](edges, bad):
        top.shapes(layout.layer(*layer)).insert(shape)
    layout.write(str(path))


def measure(arguments: list[str], folder: Path, limit_s: float) -> tuple[float, float, int]:
    """Run a command; returns its processor time in s, its largest memory in GB and its exit code."""
    child = subprocess.Popen(
        [sys.executable, "-c", OPTINC, *arguments],
        cwd=folder, stdout=(folder / "out.txt").open("w"), stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (int(limit_s), int(limit_s) + 5)),
    )  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, child.returncode


def main(
    least: Annotated[int, typer.Option(help="Edges of the smallest layout.")] = 1_000,
    most: Annotated[int, typer.Option(help="Edges of the largest layout.")] = 1_000_000,
    only: Annotated[str | None, typer.Option(help="One family.")] = None,
    commands: Annotated[str, typer.Option(help="drc, verify or both.")] = "drc,verify",
    limit_s: Annotated[float, typer.Option(help="Processor time at which a run is ended.")] = 300.0,
) -> None:
    """Print a table of times, memory and exponents."""
    sizes = [round(least * 10**k) for k in range(1 + round(math.log10(most / least)))]
    print("| layout | command |" + "".join(f" {size:,} |" for size in sizes) + " memory | exponent |")
    print("|---|---|" + "--:|" * (len(sizes) + 2))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "n.pic.yml").write_text(NETLIST)
        files = {"drc": ["n.gds"], "verify": ["n.gds", "n.pic.yml"]}

        def run(command: str, family: str, size: int, bad: bool) -> tuple[float, float, int]:
            draw(folder / "n.gds", family, size, bad)
            return measure([command, *files[command]], folder, limit_s)

        fixed = {command: run(command, "random", 4, False)[0] for command in commands.split(",")}
        for family in [only] if only else FAMILIES:
            for bad in (False, True):
                for command, least_s in fixed.items():
                    runs = [run(command, family, size, bad) for size in sizes]
                    times = [f"{s:.1f} s" if code in (0, 1) else f"exit {code} after {s:.0f} s" for s, _, code in runs]
                    grown = math.log10((runs[-1][0] - least_s) / max(runs[-2][0] - least_s, 0.1))
                    what = f"{family}, {'violated' if bad else 'clean'}"
                    print(
                        f"| {what} | {command} | " + " | ".join(times) + f" | {runs[-1][1]:.2f} GB | {grown:.2f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    typer.run(main)
