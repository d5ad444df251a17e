"""Every scenario of the paper as a chip: builds each one and writes docs/scenarios.md.

    python benchmarks/scenarios.py run [NAME ...]     build the named scenarios, or all, one after another
    python benchmarks/scenarios.py table              write docs/scenarios.md from the results of all runs

A run builds the chip in a process of its own, measures ε* and σ* of its network, and replaces the scenario's entry in
docs/scenarios.json. Numbers of a chip are those of its report: they come from the extracted layout.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Onn, comparator_network
from optinc_pdk.onn.weight_files import NETWORKS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "scenarios.json"
PAGE = ROOT / "docs" / "scenarios.md"
LOW_LOSS = ROOT / "tests" / "processes" / "low_loss"
PAPER = Path(__file__).with_name("paper_8bit_4servers.npz")


@dataclass(frozen=True)
class Scenario:
    """One row of the table.

    Attributes:
        bits: Bits of a word.
        servers: Servers of one chip.
        network: Function that makes the network; None for a cascade of comparators.
        process: Process name, or folder of process cards.
        tolerance: Whether ε* and σ* are measured.
    """

    bits: int
    servers: int
    network: Callable[[], Onn] | None
    process: str = "soi220"
    tolerance: bool = True


def _comparators(bits: int, servers: int, groups: int, mzis: int | None = None) -> Scenario:
    return Scenario(bits, servers, lambda: comparator_network(Averaging(bits, servers, groups), mzis))


def scenarios() -> dict[str, Scenario]:
    """Returns all scenarios by name, in the order of the table."""
    low_loss = str(LOW_LOSS)
    return {
        "4/4": _comparators(4, 4, 2),
        "8/4": _comparators(8, 4, 4),
        "8/8": _comparators(8, 8, 4),
        "8/16": _comparators(8, 16, 4, 600),
        "16/4, K = 4": _comparators(16, 4, 4, 700),
        "16/4, K = 8": _comparators(16, 4, 8),
        "4/16": _comparators(4, 16, 2),
        "8/3": _comparators(8, 3, 4),
        "8/5": _comparators(8, 5, 4),
        "8/6": _comparators(8, 6, 4),
        "cascade, 4 bits": Scenario(4, 4, None),
        "cascade, 8 bits": Scenario(8, 4, None),
        "4-32-32-32-32-4": Scenario(
            8, 4, lambda: Onn.load(NETWORKS / "average_8bit_4servers_wide.npz"), "soi220_flipchip"
        ),
        "4-64-128-256-128-64-4": Scenario(8, 4, lambda: Onn.load(PAPER), low_loss),
        "8/8, trained": Scenario(8, 8, lambda: Onn.load(NETWORKS / "average_8bit_8servers.npz"), low_loss),
    }


def build_row(name: str) -> dict[str, Any]:
    """Builds one scenario in this process and returns its numbers."""
    scenario = scenarios()[name]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        row = _chip(scenario, folder) if scenario.network is not None else _cascade(scenario, folder)
    row["wall_s"] = round(time.perf_counter() - start, 1)
    row["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    process = Path(scenario.process)
    row["process"] = process.name if process.is_dir() else scenario.process
    if scenario.tolerance and scenario.network is not None:
        row |= _tolerances(scenario.network())
    return row


def _chip(scenario: Scenario, folder: str) -> dict[str, Any]:
    from optinc_pdk.flow import build

    assert scenario.network is not None
    onn = scenario.network()
    report = build(onn, folder, "scenario", scenario.process).report.model_dump()
    return {"structure": list(onn.structure)} | _numbers(report)


def _numbers(report: dict[str, Any]) -> dict[str, Any]:
    """Numbers of one chip's report."""
    chip, function = report["chip"] or {}, report["function"] or {}
    certificate = function.get("certificate")
    return {
        "mzis": report["factor"]["mzis"],
        "mzis_on_die": chip.get("mzis"),
        "heaters": chip.get("phase_shifters"),
        "fit": chip.get("fit"),
        "dies": chip.get("dies"),
        "power_w": chip.get("power_w"),
        "loss_db": chip.get("loss_db"),
        "inputs": function.get("inputs"),
        "exact": function.get("exact"),
        "basis": function.get("basis"),
        "margin": function.get("margin"),
        "certified": certificate["margin"] if certificate else None,
        "no_certificate": function.get("no_certificate"),
        "drc": report["drc"]["violations"],
        "lvs": report["lvs"]["match"],
        "verdict": report["verdict"],
        "seconds": round(sum(report["seconds"].values()), 1),
        "programming_s": report["seconds"].get("program"),
    }


def _cascade(scenario: Scenario, folder: str) -> dict[str, Any]:
    from optinc_pdk.cascade_build import build_cascade

    result = build_cascade(scenario.bits, scenario.servers, directory=folder, process=scenario.process)
    report = result.report.model_dump()
    chips = [_numbers(chip.report.model_dump()) for chip in (result.first, result.second)]
    words = report["words"] or {}
    total = {key: sum(chip[key] or 0 for chip in chips) for key in ("mzis", "mzis_on_die", "heaters", "power_w", "drc")}
    return total | {
        "structure": [level["structure"] for level in report["levels"]],
        "fit": " and ".join(dict.fromkeys(str(chip["fit"]) for chip in chips)),
        "dies": 2,
        "loss_db": max(chip["loss_db"] or 0.0 for chip in chips),
        "inputs": words.get("sets"),
        "exact": words.get("exact"),
        "basis": "word sets of 16 servers through both levels; each level alone enumerated",
        "margin": words.get("margin"),
        "certified": None,
        "lvs": all(chip["lvs"] for chip in chips),
        "verdict": report["verdict"],
        "seconds": round(sum(chip["seconds"] for chip in chips), 1),
    }


def _tolerances(onn: Onn) -> dict[str, Any]:
    from optinc_pdk.onn.error_tolerance import field_noise_tolerance, matrix_error_tolerance

    return {"epsilon": matrix_error_tolerance(onn), "sigma": field_noise_tolerance(onn)}


def run(names: list[str]) -> None:
    """Builds scenarios, each in a process of its own, and records their results."""
    for name in names or list(scenarios()):
        print(name, flush=True)
        found = subprocess.run(
            [sys.executable, __file__, "one", name], check=False, capture_output=True, text=True, cwd=ROOT
        )
        lines = found.stdout.strip().splitlines()
        row = json.loads(lines[-1]) if not found.returncode else {"failure": found.stderr.strip().splitlines()[-1:]}
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results[name] = row
        RESULTS.write_text(json.dumps({key: results[key] for key in scenarios() if key in results}, indent=1) + "\n")
        print("  ", json.dumps(row), flush=True)


def main() -> None:
    """Runs scenarios, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "one", "table"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {'; '.join(scenarios())}; all by default")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in scenarios()]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}, only {'; '.join(scenarios())}")
    if options.command == "run":
        run(options.names)
    elif options.command == "one":
        print(json.dumps(build_row(options.names[0])))
    else:
        PAGE.write_text(page(json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
