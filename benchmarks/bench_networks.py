"""Tables of networks that average exactly: MZIs against the paper's, approximations, tolerance, cascades.

    python benchmarks/bench_networks.py closed                     # Table I by closed form, the full lattices: minutes
    python benchmarks/bench_networks.py trained --out DIR          # Table I by training the paper's structures
    python benchmarks/bench_networks.py approximations --out DIR   # what Table II shows for 16/4, at 8/4
    python benchmarks/bench_networks.py tolerance [WEIGHTS ...]    # exact words by ε, of these and of the package
    python benchmarks/bench_networks.py cascade                    # two levels, 16 servers

MZIs by the paper's convention (arXiv 2603.28290): weights only. Ratios to the paper are against its own network,
approximated as in its Table I. Seeds are fixed; interrupted trainings continue from their checkpoints in DIR.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from optinc_pdk.averaging import Averaging, decide
from optinc_pdk.factor import network_mzis
from optinc_pdk.networks import AveragingNetwork, carry_chain, lattice_score, matrix_error_accuracy, prove
from optinc_pdk.networks.network import Cascade, cascade_tasks
from optinc_pdk.networks.training.initialisation import random_network
from optinc_pdk.networks.training.schedule import TrainingProgress, TrainingSchedule
from optinc_pdk.networks.training.search import largest_tolerated_error
from optinc_pdk.networks.weight_files import NETWORKS


@dataclass(frozen=True)
class Scenario:
    """Row of Table I: task, the paper's structure, and its approximated layers, numbered from 1 as in the paper."""

    task: Averaging
    widths: tuple[int, ...]
    approximated: tuple[int, ...]

    @property
    def name(self) -> str:
        """Bits and servers in the paper's notation."""
        return f"{self.task.bits}/{self.task.servers}"

    def paper(self) -> int:
        """Number of MZIs of the paper's network with approximated layers."""
        return network_mzis(self.widths, self.approximated).mzis


SCENARIOS = (
    Scenario(Averaging(8, 4, 4), (4, 64, 128, 256, 128, 64, 4), tuple(range(1, 7))),
    Scenario(Averaging(8, 8, 4), (4, 64, 128, 256, 512, 256, 128, 64, 4), tuple(range(2, 8))),
    Scenario(Averaging(8, 16, 4), (4, 64, 128, 256, 512, 1024, 512, 256, 128, 64, 4), tuple(range(2, 10))),
    Scenario(Averaging(16, 4, 4), (4, 64, 128, 256, 512, 256, 128, 64, 8), tuple(range(4, 7))),
)
CHOICES = ((3, 4), (3, 4, 5), (3, 4, 5, 6), (2, 3, 4), (2, 3, 4, 5))
"""Layers approximated at 8/4, in the order of Table II: the widest, more behind, all behind, more in front, both."""

EPSILONS = (1e-4, 3e-4, 1e-3, 3e-3)
DRAWS = 10


def closed() -> None:
    """Prints Table I by closed forms: no training, every lattice point checked."""
    print("| bits/servers | inputs | structure | MZIs | paper | ratio | words checked | exact | margin | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        task = scenario.task
        for groups in sorted({task.groups, task.symbols}):
            start = time.perf_counter()
            onn = carry_chain(replace(task, groups=groups))
            proof = prove(onn)
            shape = "-".join(map(str, onn.structure))
            ratio = f"{onn.mzis:,} | {scenario.paper():,} | {onn.mzis / scenario.paper():.2%}"
            if onn.task.enumerable:
                score = lattice_score(onn)
                checked = f"all {score.inputs:,} | {score.accuracy:.4%} | {score.margin:.3f}"
            else:
                checked = f"{proof.values} values in {proof.stages} stages, {proof.samples:,} sampled | proved | 0.500"
            seconds = time.perf_counter() - start
            print(f"| {scenario.name} | {groups} | {shape} | {ratio} | {checked} | {seconds:.1f} |", flush=True)


def trained(out: Path, names: list[str], steps: int) -> None:
    """Prints Table I by training the paper's structures and approximated layers from random weights."""
    print("| bits/servers | structure | approximated | MZIs | of full SVD | lattice | exact | margin | steps | s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for scenario in SCENARIOS:
        if scenario.name not in names:
            continue
        start = random_network(scenario.task, scenario.widths[1:-1], seed=1)
        onn, last = run(start, scenario.approximated, steps, out / f"paper_{scenario.name.replace('/', '_')}.npz")
        count = network_mzis(scenario.widths, scenario.approximated)
        score = lattice_score(onn)
        numbers = f"{count.mzis:,} | {count.ratio:.1%} | {score.inputs:,} | {score.accuracy:.5%} | {score.margin:.3f}"
        layers = ", ".join(map(str, scenario.approximated))
        shape = "-".join(map(str, scenario.widths))
        print(f"| {scenario.name} | {shape} | {layers} | {numbers} | {last.step:,} | {last.seconds:.0f} |", flush=True)


def approximations(out: Path, steps: int) -> None:
    """Prints the effect of approximating other layers, at 8 bits and 4 servers."""
    scenario = SCENARIOS[0]
    start = random_network(scenario.task, scenario.widths[1:-1], seed=1)
    print("| approximated | MZIs of full SVD | exact words | errors of the word (share of the errors) | margin | s |")
    print("|---|---|---|---|---|---|")
    for layers in CHOICES:
        name = "approximated_" + "".join(map(str, layers))
        onn, last = run(start, layers, steps, out / f"{name}.npz")
        score = lattice_score(onn)
        area = network_mzis(scenario.widths, layers).ratio
        names = ", ".join(map(str, layers))
        print(
            f"| {names} | {area:.1%} | {score.accuracy:.5%} | {histogram(onn)} | {score.margin:.3f} | "
            f"{last.seconds:.0f} |",
            flush=True,
        )


def run(
    start: AveragingNetwork, layers: tuple[int, ...], steps: int, path: Path
) -> tuple[AveragingNetwork, TrainingProgress]:
    """Network of one training, stored in a file, and its last progress; approximated layers are numbered from 1."""
    schedule = TrainingSchedule(
        steps,
        noise=0.0,
        rate=2e-3,
        allowance=0.15,
        batch=1024,
        copies=1,
        evaluations=40,
        hard=0.3,
        approximate=tuple(layer - 1 for layer in layers),
        project=50,
        stop=True,
    )
    from optinc_pdk.networks.training.train import train

    last: list[TrainingProgress] = []

    def report(state: TrainingProgress) -> None:
        last[:] = [state]
        print(
            f"{path.stem}: {state.step}/{steps} steps, {state.errors:,} errors, margin {state.margin:.3f}, "
            f"{state.seconds:.0f} s",
            file=sys.stderr,
        )

    path.parent.mkdir(parents=True, exist_ok=True)
    onn = train(start, schedule, seed=1, progress=report, checkpoint=path.with_suffix(".state.npz"))
    onn.save(path)
    return onn, last[0]


def histogram(onn: AveragingNetwork) -> str:
    """Most frequent errors of wrong words, as in Table II."""
    errors: Counter[int] = Counter()
    for points in onn.task.batches():
        levels = np.asarray(onn.task.targets(points))
        wrong = onn.task.decode(decide(onn.forward(points)).astype(np.int64)) - onn.task.decode(levels)
        errors.update(wrong[wrong != 0].tolist())
    total = sum(errors.values())
    return ", ".join(f"{value:+d} ({count / total:.1%})" for value, count in errors.most_common(4)) or "none"


def tolerances(paths: list[Path]) -> None:
    """Prints the shares of exact words under matrix errors of the normalised networks, without correction."""
    print("| network | structure | MZIs | margin | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " | 99.9 % to ε |")
    print("|---|---|---|---|" + "---|" * (len(EPSILONS) + 1))
    networks = [(path.stem, AveragingNetwork.load(path)) for path in [*sorted(NETWORKS.glob("*.npz")), *paths]]
    closed_form = [("closed form 8/4", carry_chain(SCENARIOS[0].task))]
    for name, onn in [*closed_form, *networks]:
        shares = " | ".join(f"{matrix_error_accuracy(onn, epsilon, DRAWS):.3%}" for epsilon in EPSILONS)
        shape = "-".join(map(str, onn.structure))
        margin = lattice_score(onn).margin
        print(
            f"| {name} | {shape} | {onn.mzis:,} | {margin:.3f} | {shares} | {largest_tolerated_error(onn):.2g} |",
            flush=True,
        )


def cascade(words: int) -> None:
    """Prints cascades of five units in two levels, 8 bits, 16 servers: every lattice point, and words end to end."""
    first, second = (carry_chain(task) for task in cascade_tasks(8, 4, 4))
    pairs = [("closed form", Cascade(first, second))]
    trained_paths = [NETWORKS / f"cascade_8bit_4servers_level{level}.npz" for level in (1, 2)]
    if all(path.is_file() for path in trained_paths):
        pairs.append(("trained", Cascade(*(AveragingNetwork.load(path) for path in trained_paths))))
    print("| network | level 1 | level 2 | MZIs, 4 + 1 units | level 1 exact | level 2 exact | end to end | naive |")
    print("|---|---|---|---|---|---|---|---|")
    for name, chip in pairs:
        exact = naive = done = 0
        for seed in range(-(-words // 100_000)):
            sample = np.random.default_rng(seed).integers(0, 256, (min(100_000, words - done), 4, 4))
            ideal = chip.ideal(sample)
            exact += int((chip.average(sample) == ideal).sum())
            naive += int((chip.naive(sample) != ideal).sum())
            done += len(sample)
        shapes = " | ".join("-".join(map(str, onn.structure)) for onn in (chip.first, chip.second))
        scores = " | ".join(
            f"{score.exact:,} of {score.inputs:,}, margin {score.margin:.2f}"
            for score in map(lattice_score, (chip.first, chip.second))
        )
        total = 4 * chip.first.mzis + chip.second.mzis
        print(f"| {name} | {shapes} | {total:,} | {scores} | {exact:,} of {done:,} | {naive / done:.1%} wrong |")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("closed")
    for name, steps in (("trained", 25_000), ("approximations", 25_000)):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True)
        command.add_argument("--steps", type=int, default=steps)
        if name == "trained":
            command.add_argument("--scenarios", nargs="+", default=["8/4", "8/8"])
    commands.add_parser("tolerance").add_argument("weights", type=Path, nargs="*")
    commands.add_parser("cascade").add_argument("--words", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.command == "closed":
        closed()
    elif options.command == "trained":
        trained(options.out, options.scenarios, options.steps)
    elif options.command == "approximations":
        approximations(options.out, options.steps)
    elif options.command == "tolerance":
        tolerances(options.weights)
    else:
        cascade(options.words)


if __name__ == "__main__":
    main()
