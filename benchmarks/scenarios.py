"""Every scenario of the paper as a chip: builds each one and records it in results/scenarios.json.

    python benchmarks/scenarios.py run [NAME ...]     build the named scenarios, or all, one after another
    python benchmarks/scenarios.py tolerance [NAME ...]   measure only ε* and σ* of scenarios that were built

A run builds the chip in a process of its own, measures ε* and σ* of its network, and replaces the scenario's entry.
Numbers of a chip are those of its report: they come from the extracted layout. ε* and σ* of a
cascade are the smaller ones of its two networks.
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

from studies import read_data, write_study

from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork, comparator_network
from optinc_pdk.networks.network import cascade_tasks
from optinc_pdk.networks.weight_files import NETWORKS
from optinc_pdk.options import BUDGETS, BuildOptions, CascadeOptions
from optinc_pdk.report.schema import Report

ROOT = Path(__file__).parents[1]
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
        mzis: Limit on the MZIs of a network of comparators (``--mzis``).
    """

    bits: int
    servers: int
    network: Callable[[], AveragingNetwork] | None
    process: str = "soi220"
    mzis: int | None = None

    def networks(self) -> list[AveragingNetwork]:
        """The network, or those of both levels of a cascade."""
        if self.network is not None:
            return [self.network()]
        return [comparator_network(task) for task in cascade_tasks(self.bits, self.servers, self.bits // 2)]


def _comparators(bits: int, servers: int, groups: int, mzis: int | None = None, process: str = "soi220") -> Scenario:
    return Scenario(bits, servers, lambda: comparator_network(Averaging(bits, servers, groups), mzis), process, mzis)


def scenarios() -> dict[str, Scenario]:
    """Returns all scenarios by name, in the order of the table."""
    return {
        "4/4": _comparators(4, 4, 2),
        "8/4": _comparators(8, 4, 4),
        "8/8": _comparators(8, 8, 4, 271),
        "8/16": _comparators(8, 16, 4, 350),
        # its gains exceed those of processes with fibres between the layers
        "16/4, K = 4": _comparators(16, 4, 4, 700, "soi220_flipchip_onchip"),
        "16/4, K = 8": _comparators(16, 4, 8),
        "4/16": _comparators(4, 16, 2, 70),
        "8/3": _comparators(8, 3, 4),
        "8/5": _comparators(8, 5, 4, 174),
        "8/6": _comparators(8, 6, 4),
        "cascade, 4 bits": Scenario(4, 4, None),
        "cascade, 8 bits": Scenario(8, 4, None),
        "4-32-32-32-32-4": Scenario(
            8, 4, lambda: AveragingNetwork.load(NETWORKS / "average_8bit_4servers_wide.npz"), "soi220_flipchip"
        ),
        "4-64-128-256-128-64-4": Scenario(8, 4, lambda: AveragingNetwork.load(PAPER), str(LOW_LOSS)),
        "8/8, trained": Scenario(
            8, 8, lambda: AveragingNetwork.load(NETWORKS / "average_8bit_8servers.npz"), "soi220_flipchip"
        ),
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
    return row | tolerances(scenario.networks())


def _chip(scenario: Scenario, folder: str) -> dict[str, Any]:
    from optinc_pdk.pipeline.building import build

    assert scenario.network is not None
    onn = scenario.network()
    built = build(onn, folder, BuildOptions(name="scenario", process=scenario.process, accept=BUDGETS))
    return {"structure": list(onn.structure)} | _numbers(built.report)


def _numbers(built: Report) -> dict[str, Any]:
    """Numbers of one chip's report."""
    report = built.model_dump()
    chip, function = report["chip"] or {}, report["function"] or {}
    certificate = function.get("certificate")
    return {
        "mzis": report["factor"]["mzis"],
        "mzis_on_die": chip.get("mzis"),
        "heaters": chip.get("phase_shifters"),
        "fit": chip.get("fit"),
        "size_mm": f"{chip['width_um'] / 1e3:.1f} × {chip['height_um'] / 1e3:.1f}" if chip else None,
        "power_w": chip.get("power_w"),
        "loss_db": chip.get("loss_db"),
        "inputs": function.get("inputs"),
        "exact": function.get("exact"),
        "coverage": function.get("coverage"),
        "margin": function.get("margin"),
        "certified": certificate["margin"] if certificate else None,
        "no_certificate": function.get("no_certificate"),
        "drc": report["drc"]["violations"],
        "lvs": report["lvs"]["match"],
        "verdict": built.verdict_text,
        "seconds": round(sum(report["seconds"].values()), 1),
        "programming_s": report["seconds"].get("program"),
    }


def _cascade(scenario: Scenario, folder: str) -> dict[str, Any]:
    from optinc_pdk.pipeline.cascade import build_cascade

    result = build_cascade(
        folder, CascadeOptions(bits=scenario.bits, servers=scenario.servers, process=scenario.process, accept=BUDGETS)
    )
    report = result.report.model_dump()
    chips = [_numbers(chip.report) for chip in (result.first, result.second)]
    words = report["words"] or {}
    total = {key: sum(chip[key] or 0 for chip in chips) for key in ("mzis", "mzis_on_die", "heaters", "power_w", "drc")}
    return total | {
        "structure": [level["structure"] for level in report["levels"]],
        "fit": " and ".join(dict.fromkeys(str(chip["fit"]) for chip in chips)),
        "size_mm": " and ".join(str(chip["size_mm"]) for chip in chips),
        "loss_db": max(chip["loss_db"] or 0.0 for chip in chips),
        "inputs": words.get("sets"),
        "exact": words.get("exact"),
        "coverage": "cascade",
        "margin": words.get("margin"),
        "certified": None,
        "lvs": all(chip["lvs"] for chip in chips),
        "verdict": result.report.verdict_text,
        "seconds": round(sum(chip["seconds"] for chip in chips), 1),
    }


def tolerances(networks: list[AveragingNetwork]) -> dict[str, Any]:
    """Measures ε* and σ*: the smallest ones of some networks."""
    from optinc_pdk.networks.error_tolerance import field_noise_tolerance, matrix_error_tolerance

    return {
        "epsilon": min(map(matrix_error_tolerance, networks)),
        "sigma": min(map(field_noise_tolerance, networks)),
    }


def run(names: list[str]) -> None:
    """Builds scenarios, each in a process of its own, and records their results."""
    for name in names or list(scenarios()):
        print(name, flush=True)
        found = subprocess.run(
            [sys.executable, __file__, "one", name], check=False, capture_output=True, text=True, cwd=ROOT
        )
        lines = found.stdout.strip().splitlines()
        row = json.loads(lines[-1]) if not found.returncode else {"failure": found.stderr.strip().splitlines()[-1:]}
        _record(name, row, whole=not names and name == list(scenarios())[-1])


def measure(names: list[str]) -> None:
    """Measures ε* and σ* of scenarios that were built, and records them."""
    for name in names or list(scenarios()):
        print(name, flush=True)
        networks = scenarios()[name].networks()
        row = read_data("scenarios", {}).get(name, {})
        structures = [list(onn.structure) for onn in networks]
        if row.get("structure") not in (structures[0], structures):
            raise SystemExit(f"{name}: the recorded chip has another network; build it again (run)")
        _record(name, row | tolerances(networks))


def _record(name: str, row: dict[str, Any], whole: bool = False) -> None:
    results = read_data("scenarios", {}) | {name: row}
    ordered = {key: results[key] for key in scenarios() if key in results}
    processes = sorted({_process(each) for each in scenarios().values()})
    write_study("scenarios", ordered, "make scenarios", processes, [*NETWORKS.glob("*.npz"), PAPER], whole)
    print("  ", json.dumps(row), flush=True)


def _process(scenario: Scenario) -> str:
    """Name of a process, or its folder relative to the repository."""
    folder = Path(scenario.process)
    return folder.relative_to(ROOT).as_posix() if folder.is_absolute() else scenario.process


COVERAGE = {
    None: "",
    "combinations": "all combinations of symbols at the fibres",
    "lattice": "all inputs, each with two assignments of symbols to servers",
    "sample": "random inputs and corner cases",
    "cascade": "random words of 16 servers and corner cases; each level alone: all inputs",
}
INTRODUCTION = """# Scenarios

A row is a complete build: weights, netlist, layout,
design rules, extraction, LVS, programming, and the function of the extracted chip. Networks are comparators in closed
form (`optinc synth`, with the limit that the row names), except for the last three. All chips of a row are on the
process that it names; `low_loss` is a test card ([tests/processes/low_loss](../tests/processes/low_loss/process.yml))
of a process with low loss, not of a foundry.
The rows were measured with the direct link (`--link direct`) and modulators of infinite extinction, before output
neurons became the default, and before the verdict covered the budgets of the process: *pass* alone stands for design
rules, LVS and function. Chips of several dies miss the budget of the size. Rows that are built from now on
accept all budgets, and the verdict names those that are missed.

- **MZIs** by the convention of arXiv 2603.28290 (weights only, distinct rows, independent parts separately), and on the
  die with dummies and attenuators.
- **Words**: inputs that were tried on the extracted chip; every one was read exactly where the verdict begins with
  *pass*. **Basis** states whether they are all inputs, or a sample, and whether interval bounds over the extracted
  matrices certify all words (with the certified margin), see [function check](function_check.md).
- **Margin**: smallest distance of an output from its decision threshold on the extracted chip, in levels; for a cascade
  through both levels.
- **ε\\***: largest matrix error with 99.9 % exact words. **σ\\***: largest field noise with a word-error rate of 1e-6
  ([glossary](glossary.md)). For a cascade, the smaller ones of its two networks.
- **Loss** from the worst source to the detector that receives most of its light. **Power** of the heaters.
- **Seconds** of all stages of the build, on two shared cores; **memory** is the largest resident size of the process.
"""


def page(results: dict[str, Any]) -> str:
    """Returns the page with a row for each scenario that was run."""
    head = [
        "bits/servers", "network", "process", "MZIs, paper", "MZIs, die", "heaters", "size, mm", "power, W", "loss, dB",
        "words", "basis", "margin", "ε\\*", "σ\\*", "DRC", "LVS", "verdict", "seconds", "memory, GB",
    ]  # fmt: skip
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for name, row in results.items():
        if "failure" in row:
            lines.append(
                f"| {name} | {' | '.join([''] * (len(head) - 5))} | not built: {' '.join(row['failure'])} | | | |"
            )
            continue
        cells = [
            name,
            _structure(row["structure"]) + (f", `--mzis {limit}`" if (limit := scenarios()[name].mzis) else ""),
            row["process"],
            f"{row['mzis']:,}",
            _number(row["mzis_on_die"], ",d"),
            _number(row["heaters"], ",d"),
            f"{row['fit']}, {row['size_mm']}",
            _number(row["power_w"], ".2f"),
            _number(row["loss_db"], ".1f"),
            f"{row['exact']:,} of {row['inputs']:,}" if row["inputs"] else "none",
            _basis(row),
            _number(row["margin"], ".3f"),
            _number(row.get("epsilon"), ".2e"),
            _number(row.get("sigma"), ".2e"),
            "clean" if not row["drc"] else f"{row['drc']} errors",
            "match" if row["lvs"] else "differs",
            row["verdict"],
            _number(row["seconds"], ".1f"),
            _number(row["peak_gb"], ".2f"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return INTRODUCTION + "\n" + "\n".join(lines) + "\n"


def _structure(structure: list[Any]) -> str:
    """Numbers of signals of one network, or of both networks of a cascade."""
    if structure and isinstance(structure[0], list):
        return " and ".join(map(_structure, structure))
    return "-".join(map(str, structure))


def _basis(row: dict[str, Any]) -> str:
    certified = row["certified"]
    return COVERAGE[row["coverage"]] + (f"; certified, {certified:.3f}" if certified and certified > 0.0 else "")


def _number(value: float | None, pattern: str) -> str:
    return "" if value is None else format(value, pattern)


def main() -> None:
    """Runs scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "one", "tolerance"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {'; '.join(scenarios())}; all by default")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in scenarios()]
    if unknown:
        parser.error(f"there is no scenario {unknown[0]!r}, only {'; '.join(scenarios())}")
    if options.command == "run":
        run(options.names)
    elif options.command == "tolerance":
        measure(options.names)
    else:
        print(json.dumps(build_row(options.names[0])))


if __name__ == "__main__":
    main()
