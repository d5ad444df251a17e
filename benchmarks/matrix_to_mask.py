"""What other packages do between a matrix and a mask, with times, on the same matrices: results/matrix_peers.json.

    python benchmarks/matrix_to_mask.py --peer phaseshift=/path/to/python --peer perceval=/path/to/python ...

Packages that exclude each other need interpreters of their own. A package without an interpreter is listed as not
run. Every package runs in one process, which is stopped after --limit seconds; what it measured until then counts.
Times are processor time of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from matrices import build
from matrix_peers import PEERS
from studies import write_study

from optinc_pdk.io.formatting import format_si

RUNNER = Path(__file__).with_name("matrix_peers.py")
MODES = (8, 16, 32, 64)
ORTHOGONAL = ("torchonn",)
"""Packages that decompose only real orthogonal matrices."""
LARGEST_ON_SOI220 = 16
STEPS = ("decomposition", "imperfect devices", "netlist", "layout", "DRC and LVS", "simulation")
FEATURES: dict[str, tuple[str, ...]] = {
    "optinc-pdk": (
        "rectangle (Clements), triangle (Reck); SVD for any matrix",
        "losses, unequal couplers, reflections, thermal crosstalk, DAC codes, sampled deviations, calibration",
        "yes, with heaters, pads and fibres",
        "devices, guides, heater wiring, pads or bumps, fibres",
        "both",
        "of the circuit that is extracted from the layout, compared with the matrix",
    ),
    "perceval-quandela 1.3.1": (
        "triangle by numerical solution, for any cell of two parameters; the rectangle raises `NotImplementedError`",
        "loss channels (`LC`), couplers of any angle, phase errors and finite phase steps (`NoiseModel`)",
        "–",
        "–",
        "–",
        "photons in the circuit as described",
    ),
    "strawberryfields 0.23.0": (
        "rectangle, triangle, their compact forms, SU(n)",
        "loss channels (`LossChannel`, `ThermalLossChannel`)",
        "–",
        "–",
        "–",
        "photons and squeezed light in the circuit as described",
    ),
    "multiport-interferometer 0.0.13": (
        "compact rectangle (from strawberryfields); rectangle by the package interferometer",
        "fixed S-parameters of couplers, bends and waveguides",
        "SAX dictionary",
        "compact rectangle of cspdk's devices, without heater wiring, pads and fibres",
        "–",
        "by SAX, of the netlist; the layout is not extracted",
    ),
    "phaseshift 1.0.0": (
        "rectangle (Clements), compact rectangle (Bell), Fourier and layered forms",
        "a loss for every cell",
        "–",
        "–",
        "–",
        "matrix of the cells",
    ),
    "neurophox 0.1.0a4": (
        "rectangle (Clements); no function rebuilds the matrix from its phases",
        "deviations of couplers (`bs_error`)",
        "–",
        "–",
        "–",
        "matrix of a mesh, for training",
    ),
    "torchonn 0.0.8": (
        "real orthogonal matrices: Clements, Reck, Francis; the class for complex unitaries raises `TypeError`",
        "quantised phases and voltages, phase noise, noise of the phase against voltage, thermal crosstalk",
        "–",
        "–",
        "–",
        "layers of networks, for training",
    ),
}
"""What each package has, from its source and documentation."""
TITLES = {
    "optinc-pdk": "optinc-pdk, rectangle",
    "perceval": "perceval, triangle",
    "strawberryfields": "strawberryfields, rectangle",
    "strawberryfields-compact": "strawberryfields, compact rectangle",
    "phaseshift": "phaseshift, rectangle",
    "neurophox": "neurophox, rectangle",
    "torchonn": "torchonn, rectangle, real orthogonal matrix",
    "multiport-interferometer": "multiport-interferometer, compact rectangle",
}
INTRODUCTION = """# From a matrix to a mask with other packages

What packages for programmable meshes do between a matrix and a mask, and how long it takes.

## Steps

| package | {steps} |
|{rule}|
{features}

From the sources of the stated versions. A dash means that the package has no such function.

## Times

Haar unitaries, the same for all packages, in one run: processor time of one thread, the shortest of a few calls after
the imports. *Error* is the largest error of an entry of the matrix that is rebuilt from the phases with the package's
own functions and cells, over all sizes.

| decomposition | version | {modes} | error |
|{time_rule}|
{times}

Layout of a mesh and simulation of its netlist by multiport-interferometer; and `optinc build` from the `.npy` file to
the verdict: imports, decomposition, layout with wiring, design rules, LVS, extraction, simulation and report:

| step | {modes} |
|{step_rule}|
{whole}

`optinc build` uses `soi220` up to 16 modes and `soi220_flipchip` above. No other package of the table draws the wiring
of the heaters, or checks a layout.

## Environments

Each package has an environment of its own, with Python 3.11:

| package | installed by pip | remarks |
|---|---|---|
{environments}
"""
ENVIRONMENTS = (
    ("perceval", "perceval-quandela==1.3.1", ""),
    ("strawberryfields", 'strawberryfields==0.23.0 "numpy<2" "scipy<1.14" "setuptools<81"', ""),
    ("phaseshift", "phaseshift==1.0.0", "in the extra `bench` of this project"),
    (
        "neurophox",
        'neurophox==0.1.0a4 "tensorflow-cpu<2.16" torch "scipy<1.14" "setuptools<81"',
        "neurophox itself with `--no-deps`, because it requires the package tensorflow",
    ),
    (
        "torchonn",
        'torchonn==0.0.8 torchonn-pyutils==0.0.3.3 mmengine mmcv-lite "numpy<2" "setuptools<81"',
        "with `--no-build-isolation` after torch; its dependency `pyutils` is another package on PyPI, and is removed "
        "before torchonn-pyutils is installed again",
    ),
    ("multiport-interferometer", "multiport-interferometer==0.0.13", "came with gdsfactory 9.34, cspdk 1.4, sax 0.16"),
)
"""How the packages were installed."""


@dataclass(frozen=True)
class Measured:
    """Rows of a package by number of modes, and why others are missing."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    reason: str = ""


def targets(modes: tuple[int, ...], folder: Path) -> dict[bool, list[Path]]:
    """Write the matrices; return their files, for real orthogonal (True) and for unitary matrices (False)."""
    files: dict[bool, list[Path]] = {True: [], False: []}
    for real, group in ((True, scipy.stats.ortho_group), (False, scipy.stats.unitary_group)):
        for count in modes:
            files[real].append(folder / f"{'orthogonal' if real else 'unitary'}{count}.npy")
            np.save(files[real][-1], group(count, seed=1).rvs())
    return files


def run(name: str, python: str | None, files: list[Path], limit_s: float, folder: Path) -> Measured:
    """Measure one package in a process of its interpreter."""
    if python is None:
        return Measured(reason="not run: no interpreter given")
    results = folder / f"{name}.jsonl"
    results.touch()
    command = [python, "-W", "ignore", str(RUNNER), name, str(results), *map(str, files)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    reason = ""
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit_s, check=False)
        if done.returncode:
            reason = f"not run: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
    except subprocess.TimeoutExpired:
        reason = f"stopped after {limit_s:g} s for all sizes"
    except OSError as fault:
        reason = f"not run: {python}: {fault.strerror}"
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return Measured({row["modes"]: row for row in rows}, reason)


def table_rows(measured: dict[str, Measured], modes: tuple[int, ...]) -> list[str]:
    """Rows of the table of decompositions."""
    lines = []
    for name, found in measured.items():
        version = next((row["version"] for row in found.rows.values()), "–")
        error = max((row["error"] for row in found.rows.values()), default=None)
        cells = [seconds(found, count, "decomposition") for count in modes]
        lines.append(line(TITLES[name], version, *cells, "–" if error is None else f"{error:.0e}"))
    return lines


def seconds(found: Measured, modes: int, step: str) -> str:
    """Cell of a time, or why it is missing."""
    return format_si(found.rows[modes][step], "s") if modes in found.rows else found.reason or "–"


def whole_chain(modes: tuple[int, ...], layouts: Measured) -> list[str]:
    """Rows of layouts, simulations and whole builds."""
    rows = [
        line(f"multiport-interferometer, {step}", *(seconds(layouts, count, step) for count in modes))
        for step in ("layout", "simulation")
    ]
    builds = []
    for count in modes:
        process = "soi220" if count <= LARGEST_ON_SOI220 else "soi220_flipchip"
        report, taken, _ = build(scipy.stats.unitary_group(count, seed=1).rvs(), process)
        builds.append(f"{taken:.0f} s, {report['verdict']}, largest error {report['matrix']['worst_error']:.2%}")
    return [*rows, line("optinc build, file to verdict", *builds)]


def line(*cells: str) -> str:
    """Row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def page(data: dict[str, Any]) -> str:
    """The page with all tables."""
    modes = data["modes"]
    return INTRODUCTION.format(
        steps=" | ".join(STEPS),
        rule="|".join(["---"] * (len(STEPS) + 1)),
        features="\n".join(line(name, *cells) for name, cells in FEATURES.items()),
        modes=" | ".join(f"{count} modes" for count in modes),
        time_rule="|".join(["---"] * 2 + ["--:"] * (len(modes) + 1)),
        times="\n".join(data["times"]),
        step_rule="|".join(["---"] + ["--:"] * len(modes)),
        environments="\n".join(line(name, f"`{packages}`", why) for name, packages, why in ENVIRONMENTS),
        whole="\n".join(data["whole"]),
    )


def main() -> None:
    """Measure and record the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--modes", type=int, nargs="+", default=MODES)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each package")
    options = parser.parse_args()
    pythons = {"optinc-pdk": sys.executable} | dict(each.split("=", 1) for each in options.peer if "=" in each)
    unknown = [each for each in options.peer if each.split("=", 1)[0] not in PEERS or "=" not in each]
    if unknown:
        parser.error(f"--peer {unknown[0]}: give NAME=PYTHON with one of {', '.join(PEERS)}")
    modes = tuple(sorted(options.modes))
    with tempfile.TemporaryDirectory() as folder:
        files = targets(modes, Path(folder))
        measured = {
            name: run(name, pythons.get(name), files[name in ORTHOGONAL], options.limit, Path(folder)) for name in PEERS
        }
    given = " ".join(f"--peer {name}=PYTHON" for name in PEERS if name in pythons and name != "optinc-pdk")
    whole = whole_chain(modes, measured["multiport-interferometer"])
    data = {"modes": modes, "times": table_rows(measured, modes), "whole": whole}
    command = f"python benchmarks/matrix_to_mask.py {given}".rstrip()
    write_study("matrix_peers", data, command, ["soi220", "soi220_flipchip"])


if __name__ == "__main__":
    main()
