"""``optinc verify`` of a large circuit that is drawn by hand in gdsfactory, as a whole command, its parts, and peers.

    python benchmarks/hand_drawn.py                            # 1,000 heaters; peers for at most 10 minutes each
    python benchmarks/hand_drawn.py --rows 12 --peer-seconds 0 # a quarter of it, ours alone

The circuit consists of rows between four grating couplers. Every stage of a row is a 2×2 coupler (MMI, directional
coupler, or one of free length and gap), a heater in one arm, a delay in the other, a crossing, and a pad at each end of
the heater. All guides and wires are routed by ``gf.routing.route_bundle`` and ``route_bundle_electrical`` into one flat
cell. The netlist is that of ``Component.get_netlist(recursive=True)``.

Seconds are processor time: user and system time of the command, all threads together. Peers:

- KLayout's application with the script of ``optinc process deck``: the same geometric rules.
- gdsfactory's ``get_netlist`` of the drawn component: instances are connected where their given ports coincide. It
  extracts no polygon and compares nothing; it is the first step of a comparison that knows ports only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import gdsfactory as gf
import numpy as np
import typer
from bench_signoff import in_own_process

import optinc_pdk as op
from optinc_pdk.cards import load_process
from optinc_pdk.circuit import read_reference

STAGE_UM, ROW_UM = 640.0, 480.0
COUPLERS = ("mmi2x2", "directional_coupler", "coupler")
NAME = "hand_drawn"
OPTINC = "import sys; from optinc_pdk.cli import main; main()"


def route(c: gf.Component, start: Any, end: Any, **settings: Any) -> None:
    """Route a guide between two ports."""
    gf.routing.route_bundle(c, [start], [end], cross_section="strip", **settings)


def draw_stage(c: gf.Component, coupler: str, length_um: float, x: float, y: float, name: str) -> tuple[Any, Any, Any]:
    """Draw a stage of a row: coupler, heater, delay, crossing and two pads.

    Returns:
        Its lower and upper input, behind bends that bring them apart, and its crossing.
    """
    splitter, crossing = c << gf.get_component(coupler), c << gf.get_component("crossing")
    heater = c << gf.get_component("straight_heater_metal", length=length_um)
    delay = c << gf.get_component("straight", length=length_um)
    splitter.move((x, y))
    heater.move((x + 160.0, y + 50.0))
    delay.move((x + 160.0, y - 110.0))
    crossing.move((x + 420.0, y - 55.0))
    # bends start 3 µm behind a coupler
    for port, end in (("o3", heater["o1"]), ("o4", delay["o1"])):
        route(c, splitter[port], end, bend="bend_circular", start_straight_length=3.0)
    route(c, heater["o2"], crossing["o1"])
    route(c, delay["o2"], crossing["o4"])
    inputs = []
    for port, up in (("o1", 12.0), ("o2", -12.0)):
        fan = c << gf.get_component("bend_s", size=(30.0, up))
        fan.connect("o1", splitter[port])
        inputs.append(fan["o2"])
    for end, at in (("e1", x + 90.0), ("e2", x + 400.0)):
        pad = c.add_ref(gf.get_component("pad"), name=f"{name}{end}")
        pad.move((at, y + 260.0))
        gf.routing.route_bundle_electrical(c, [heater[end]], [pad["e1"]], cross_section="wire")
    return inputs[0], inputs[1], crossing


def draw(rows: int, stages: int) -> gf.Component:
    """Draw the circuit."""
    c = gf.Component(NAME)
    for row in range(rows):
        y, lasts = row * ROW_UM, []
        for stage in range(stages):
            coupler, length = COUPLERS[(row + stage) % 3], 110.0 + 10.0 * (stage % 5)
            lower, upper, crossing = draw_stage(c, coupler, length, stage * STAGE_UM, y, f"r{row}s{stage}")
            if lasts:
                route(c, lasts[-1]["o2"], upper)
                route(c, lasts[-1]["o3"], lower)
            else:
                first = [lower, upper]
            lasts.append(crossing)
        west = []
        for i, up in enumerate((-63.5, 63.5)):
            coupler = c << gf.get_component("grating_coupler")
            coupler.rotate(180)
            coupler.move((-250.0, y + up))
            west.append(coupler["o1"])
            c.add_port(f"in{row}_{i}", port=coupler["o2"])
        gf.routing.route_bundle(c, west, first, cross_section="strip", separation=10.0)
        for i, (port, up) in enumerate((("o3", -100.0), ("o2", 63.5))):
            coupler = c << gf.get_component("grating_coupler")
            coupler.move((stages * STAGE_UM + 50.0, y + up))
            route(c, lasts[-1][port], coupler["o1"])
            c.add_port(f"out{row}_{i}", port=coupler["o2"])
    return c


def write(rows: int, stages: int, folder: Path) -> dict[str, float]:
    """Write the layout and the netlist, and return the processor time of every step."""
    op.PDK.activate()
    seconds: dict[str, float] = {}

    def timed(what: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds[what] = time.process_time() - start
        return result

    c = timed("drawing", lambda: draw(rows, stages))
    timed("write_gds", lambda: c.write_gds(folder / f"{NAME}.gds", with_metadata=False))
    # gdsfactory's routers draw wires without instances, so that it sees the ends of heaters as unconnected
    netlist = timed("get_netlist", lambda: c.get_netlist(recursive=True, on_dangling_port="ignore"))
    timed("write_netlist", lambda: c.write_netlist(netlist, folder / f"{NAME}.pic.yml"))
    return seconds


def parts(folder: Path) -> tuple[dict[str, float], int, str]:
    """Verify in this process, and return the processor time of every part, the number of devices and the verdict."""
    from optinc_pdk.report.verification_page import VerifiedFiles, render_verification, verification_numbers
    from optinc_pdk.signoff.verification import STAGES, verify

    gds, process = folder / f"{NAME}.gds", load_process()
    seconds: dict[str, float] = {}
    last = [("reading the netlist", time.process_time())]

    def stage(name: str) -> None:
        now = time.process_time()
        before, start = last[-1]
        seconds[before] = now - start
        last.append((name, now))

    reference = read_reference(gds.with_suffix(".pic.yml"), process, NAME)
    result = verify(gds, reference, {}, np.linspace(1545.0, 1555.0, 101), process, stage)
    assert set(STAGES) == {name for name, _ in last[1:]}
    stage("report")
    verified = VerifiedFiles(gds, gds.with_suffix(".pic.yml"), {})
    verification_numbers(result, verified, process)
    page = render_verification(result, verified, process, [])
    stage("end")
    verdict = f"{'pass' if result.passed else 'fail'}; the page has {len(page) / 1e6:.1f} MB"
    return seconds, len(result.drawn.circuit.instances), verdict


def command(arguments: list[str], limit_s: float | None = None) -> tuple[float, float, float, int | None]:
    """Run a command and return its processor time and wall-clock time in s, peak memory in MB, and exit code.

    The exit code is None if the command was stopped after ``limit_s`` of wall-clock time.
    """
    start = time.perf_counter()
    process = subprocess.Popen(
        arguments,
        env=os.environ | {"QT_QPA_PLATFORM": "offscreen"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stopped = False
    while True:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        if limit_s is not None and time.perf_counter() - start > limit_s and not stopped:
            process.kill()
            stopped = True
        time.sleep(0.05)
    code = None if stopped else os.waitstatus_to_exitcode(status)
    process.returncode = code
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start, usage.ru_maxrss / 1024, code


def main(
    rows: Annotated[int, typer.Option(help="Rows of the circuit.", min=1)] = 50,
    stages: Annotated[int, typer.Option(help="Heaters in a row.", min=1)] = 20,
    peer_seconds: Annotated[int, typer.Option(help="Time after which a peer is stopped; 0 for no peers.")] = 600,
    folder: Annotated[
        Path | None, typer.Option(help="Folder with the files of an earlier run, or for those of this one.")
    ] = None,
) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as temporary:
        path = folder or Path(temporary)
        gds = path / f"{NAME}.gds"
        drawing = {} if gds.exists() else in_own_process(write, rows, stages, path)
        print("| what | s | ratio to ours |\n|---|---|---|")
        verify = [sys.executable, "-c", OPTINC, "verify", str(gds), "-o", str(path / "out.html")]
        total, wall, memory, code = command(verify)
        print(f"| optinc verify, whole command | {total:.1f} ({wall:.1f} of wall-clock time, {memory:,.0f} MB) | |")
        seconds, devices, verdict = in_own_process(parts, path)
        for name, value in seconds.items():
            print(f"| {name} | {value:.1f} | |")
        for name, value in drawing.items():
            ratio = f"{value / seconds['lvs']:.1f} of lvs" if name == "get_netlist" else ""
            print(f"| gdsfactory: {name} | {value:.1f} | {ratio} |")
        if peer_seconds and shutil.which("klayout"):
            deck = path / "deck.lydrc"
            command([sys.executable, "-c", OPTINC, "process", "deck", "-o", str(deck)])
            script = ["-rd", f"input={gds}", "-rd", f"report={path / 'klayout.lyrdb'}"]
            used, _, _, ended = command(["klayout", "-b", "-r", str(deck), *script], peer_seconds)
            more = "more than " if ended is None else ""
            print(f"| KLayout's application: rules | {more}{used:.1f} | {more}{used / seconds['drc']:.1f} of drc |")
        print(f"\n{devices:,} devices, exit code {code}, {verdict}")


if __name__ == "__main__":
    typer.run(main)
