"""The paper's network, 4-64-128-256-128-64-4 at 8 bits and 4 servers, on meshes of imperfect devices.

    python benchmarks/paper_tolerance.py train            # the network: minutes, needs the extra "train"
    python benchmarks/paper_tolerance.py run              # chips until --minutes are over; resumes an earlier run
    python benchmarks/paper_tolerance.py table            # writes results/paper_tolerance.json

All layers are approximated, 41,664 MZIs (arXiv 2603.28290, Table I). Words are counted over the whole lattice. Before
calibration, heaters are driven for the nominal devices of the cards, with compensation of thermal crosstalk.
Calibration here assumes that all device parameters are known, which measurements cannot provide: phases are fitted to
the devices, codes are rounded, and gains and offsets of the neurons are set for the rounded codes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import studies
import typer
from csv_rows import read, write
from imperfect_meshes.block_programming import (
    BlockPhases,
    FabricatedBlock,
    MeshBlock,
    block_phases,
    blocks_of,
    computed_matrix,
    draw_block,
    fit_block,
    ideal_programming,
    reduced_amplitudes,
)
from imperfect_meshes.mesh_heaters import MeshCrosstalk, mesh_crosstalk, rounded_phases
from rich.console import Console
from rich.progress import Progress

from optinc_pdk.arrays import Floats
from optinc_pdk.averaging import score
from optinc_pdk.cards import KINDS, Process, load_process
from optinc_pdk.drive import compensate
from optinc_pdk.errors import InputError
from optinc_pdk.networks import AveragingNetwork, Layer, lattice_score
from optinc_pdk.networks.layers import activate
from optinc_pdk.studies import Imperfections, imperfections

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "benchmarks" / "paper_8bit_4servers_relu.npz"
FINISHED = ROOT / "benchmarks" / "paper_tolerance.csv"
BITS = (None, 16.0, 12.0, 8.5)
RESIDUAL = 2**30
"""Stream key, in place of a block's number, of the residual phase errors."""
KIND = {"couplers": "coupler", "phases": "phase", "loss": "loss", "crosstalk": "crosstalk"}
"""Kinds of imperfections on the card by their names in the tables."""


@dataclass(frozen=True)
class Case:
    """One case of the table.

    Attributes:
        name: Name in the table.
        amount: Factor on the card's spread by kind; missing kinds are switched off.
        fit: "signals": least squares weighted by the signals of the lattice; "matrix": all directions weighted equally.
        steps: Largest number of steps of each fit; 0 for no calibration.
        dim: Whether the mesh weakens rows beyond the range of their attenuators.
        residual_rad: Rms residual error of every phase.
        bits: Effective bits of the drive; None for no rounding.
        chips: Number of chips.
        quadrature_weight: Weight of signals in quadrature in the fits of the first layer, whose light comes through
            fibres with phase errors.
    """

    name: str
    amount: tuple[tuple[str, float], ...] = ()
    fit: str = "signals"
    steps: int = 400
    dim: bool = True
    residual_rad: float = 0.0
    bits: tuple[float | None, ...] = BITS
    chips: int = 20
    quadrature_weight: float = 0.0


ALL = Case("all", tuple((kind, 1.0) for kind in KIND.values()))
CASES = (
    ALL,
    Case("drive alone", steps=0, bits=(None, 16.0, 15.0, 14.0, 13.0, 12.0, 11.0, 10.0, 8.5), chips=1),
    Case("1 mrad alone", steps=0, residual_rad=1e-3, bits=(None,)),
    Case("3 mrad alone", steps=0, residual_rad=3e-3, bits=(None,)),
    *(Case(f"{name} alone", ((kind, 1.0),), dim=False, chips=3) for name, kind in KIND.items()),
    replace(ALL, name="all, every direction alike", fit="matrix", chips=3),
    replace(ALL, name="all, attenuators ajar", dim=False, chips=8),
    replace(ALL, name="all, couplers of 1 %", amount=(("coupler", 0.5), *ALL.amount[1:]), chips=3),
)


@dataclass(frozen=True)
class Row:
    """Result of one chip at one resolution of the drive."""

    case: str
    seed: int
    bits: str
    calibrated: bool
    exact: int
    words: int
    margin: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Nominal:
    """Blocks of a layer with nominal devices, and their programming.

    Attributes:
        devices: Devices of every block.
        phases: Target phases of every block's heaters.
        scale: (out,) scales of the electronics.
        self_phases: Phases of every block's heaters after compensation of crosstalk.
    """

    devices: list[FabricatedBlock]
    phases: list[BlockPhases]
    scale: Floats
    self_phases: list[Floats]


@dataclass(frozen=True, eq=False)
class Setup:
    """The network with its blocks, its lattice, the thermal crosstalk of its meshes, and the nominal programming."""

    onn: AveragingNetwork
    process: Process
    blocks: tuple[tuple[MeshBlock, ...], ...]
    points: Floats
    levels: Floats
    crosstalk: dict[int, MeshCrosstalk]
    nominal: tuple[Nominal, ...]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A layer of a chip after calibration, at one resolution of the drive.

    Attributes:
        phases: Phases of every block at the rounded codes, with crosstalk.
        gain: (out,) gains of the electronics.
        offset: (out,) offsets of the electronics.
        signal: (points, out) outputs of the layer.
    """

    phases: list[BlockPhases]
    gain: Floats
    offset: Floats
    signal: Floats


def load_setup(path: Path, process: Process, card: Imperfections) -> Setup:
    """Load the network and program it for nominal devices."""
    onn = AveragingNetwork.load(path)
    blocks = blocks_of(onn)
    points = np.concatenate(list(onn.task.batches()))
    meshes = {block.mesh.modes: block.mesh for layer in blocks for block in layer}
    share, distance = float(card.card.crosstalk.share), float(card.card.crosstalk.distance_um)
    crosstalk = {modes: mesh_crosstalk(mesh, process, share, distance) for modes, mesh in meshes.items()}
    nominal = []
    for layer in blocks:
        devices = [draw_block(block, process, replace(card, amount={}), 0) for block in layer]
        phases, scale = block_phases(
            layer, devices, [ideal_programming(block, part) for block, part in zip(layer, devices, strict=True)]
        )
        nominal.append(Nominal(devices, phases, scale, compensated(crosstalk, layer, devices, phases)))
    levels = np.asarray(onn.task.targets(points), dtype=np.float64)
    return Setup(onn, process, blocks, points, levels, crosstalk, tuple(nominal))


def weight(
    blocks: tuple[MeshBlock, ...], devices: list[FabricatedBlock], phases: list[BlockPhases], like: Layer
) -> Floats:
    """Return the (out, in) matrix of fields that a layer's blocks compute."""
    whole = np.zeros(like.weight.shape)
    for block, part, heaters in zip(blocks, devices, phases, strict=True):
        whole[block.rows, block.columns] += computed_matrix(part, heaters)
    return whole


def compensated(
    crosstalk: dict[int, MeshCrosstalk],
    blocks: tuple[MeshBlock, ...],
    known: list[FabricatedBlock],
    phases: list[BlockPhases],
) -> list[Floats]:
    """Return the heater phases of a layer's blocks that compensate for their thermal crosstalk."""
    return [
        compensate(replace(crosstalk[block.mesh.modes], share=part.share), target.concatenated())
        for block, target, part in zip(blocks, phases, known, strict=True)
    ]


def realised(
    setup: Setup,
    blocks: tuple[MeshBlock, ...],
    sampled: list[FabricatedBlock],
    phases: list[BlockPhases],
    self_phases: list[Floats],
    bits: float | None,
) -> list[BlockPhases]:
    """Return the phases of a layer's blocks at the nearest codes, with the crosstalk of the sampled devices."""
    realised_phases = []
    for block, part, target, requested in zip(blocks, sampled, phases, self_phases, strict=True):
        operator = replace(setup.crosstalk[block.mesh.modes], share=part.share)
        realised_phases.append(target.from_concatenated(operator.apply(rounded_phases(setup.process, requested, bits))))
    return realised_phases


def electronics(field: Floats, target: Floats, offset: bool) -> tuple[Floats, Floats]:
    """Fit (out,) gains and offsets that map (points, out) fields to (points, out) targets."""
    mean, target_mean = (x.mean(axis=0) if offset else np.zeros(x.shape[1]) for x in (field, target))
    power = np.sum((field - mean) ** 2, axis=0)
    overlap = np.sum((field - mean) * (target - target_mean), axis=0)
    gain = np.divide(overlap, power, out=np.ones_like(power), where=power > 0.0)
    return gain, target_mean - gain * mean


def words(setup: Setup, signal: Floats) -> tuple[int, float]:
    """Return the number of exact words and the margin of (points, M) outputs."""
    result = score(signal, setup.levels, setup.onn.task.output_resolution)
    return result.exact, result.margin


def before(setup: Setup, case: Case, sampled: list[list[FabricatedBlock]], seed: int) -> Iterator[Row]:
    """Yield the results before calibration, with heaters programmed for nominal devices."""
    start = time.monotonic()
    for bits in case.bits:
        signal = setup.points
        rng = np.random.default_rng([seed, KINDS.index("phase"), RESIDUAL])
        for blocks, devices, layer, nominal in zip(setup.blocks, sampled, setup.onn.layers, setup.nominal, strict=True):
            realised_phases = realised(setup, blocks, devices, nominal.phases, nominal.self_phases, bits)
            residual = [case.residual_rad * rng.standard_normal(one.concatenated().size) for one in realised_phases]
            realised_phases = [
                one.from_concatenated(one.concatenated() + error)
                for one, error in zip(realised_phases, residual, strict=True)
            ]
            signal = nominal.scale * (signal @ weight(blocks, devices, realised_phases, layer).T) + layer.bias
            if layer is not setup.onn.layers[-1]:
                signal = activate(signal, setup.onn.activation)
        yield row(case, seed, bits, False, words(setup, signal), len(setup.points), start)


def after(setup: Setup, case: Case, sampled: list[list[FabricatedBlock]], seed: int) -> Iterator[Row]:
    """Yield the results after calibration with known devices."""
    start = time.monotonic()
    *_, last = calibrated(setup, case, sampled, seed)
    for bits, layer in last.items():
        yield row(case, seed, bits, True, words(setup, layer.signal), len(setup.points), start)


def calibrated(
    setup: Setup, case: Case, sampled: list[list[FabricatedBlock]], seed: int
) -> Iterator[dict[float | None, Calibrated]]:
    """Calibrate layer by layer for the signals that reach each layer; yield the layers by bits of the drive."""
    drives: dict[float | None, Floats] = dict.fromkeys(case.bits, setup.points)
    target = setup.points
    for blocks, devices, layer in zip(setup.blocks, sampled, setup.onn.layers, strict=True):
        last = layer is setup.onn.layers[-1]
        signal_in = drives[None]
        # the electronics set the offsets, so only deviations from the mean count
        means = (
            (np.zeros(layer.inputs), np.zeros(layer.inputs)) if last else (signal_in.mean(axis=0), target.mean(axis=0))
        )
        fit_signals: list[tuple[Floats, Floats] | None] = [None] * len(blocks)
        if case.fit == "signals":
            centred, target_centred = signal_in - means[0], target - means[1]
            fit_signals = [
                (centred[:, block.columns], target_centred[:, block.columns] @ block.unitary.T) for block in blocks
            ]
        each = list(zip(blocks, devices, fit_signals, strict=True))
        in_quadrature = case.quadrature_weight if layer is setup.onn.layers[0] else 0.0
        programmed = [fit_block(*one, case.steps, seed, quadrature_weight=in_quadrature) for one in each]
        if case.dim:
            amplitudes = reduced_amplitudes(blocks, devices, programmed)
            programmed = [
                by_bits if amplitude is None else fit_block(*one, case.steps, seed, amplitude, in_quadrature)
                for one, by_bits, amplitude in zip(each, programmed, amplitudes, strict=True)
            ]
        phases, _ = block_phases(blocks, devices, programmed)
        self_phases = compensated(setup.crosstalk, blocks, devices, phases)
        target = target @ layer.weight.T + layer.bias
        by_bits = {}
        for bits, signal in drives.items():
            realised_phases = realised(setup, blocks, devices, phases, self_phases, bits)
            field = signal @ weight(blocks, devices, realised_phases, layer).T
            gain, offset = electronics(field, target, not last)
            drives[bits] = field * gain + offset if last else activate(field * gain + offset, setup.onn.activation)
            by_bits[bits] = Calibrated(realised_phases, gain, offset, drives[bits])
        target = target if last else activate(target, setup.onn.activation)
        yield by_bits


def row(
    case: Case, seed: int, bits: float | None, calibrated: bool, result: tuple[int, float], words: int, start: float
) -> Row:
    """Return one row of the results file."""
    exact, margin = result
    return Row(
        case.name, seed, text(bits), calibrated, exact, words, round(margin, 4), round(time.monotonic() - start, 1)
    )


def drawn(setup: Setup, case: Case, card: Imperfections, seed: int) -> list[list[FabricatedBlock]]:
    """Sample the devices of all blocks of a chip."""
    scaled = replace(card, amount=dict(case.amount))
    return [[draw_block(block, setup.process, scaled, seed) for block in layer] for layer in setup.blocks]


def chip(setup: Setup, case: Case, card: Imperfections, seed: int) -> list[Row]:
    """Evaluate one chip of a case at every resolution of the drive."""
    sampled = drawn(setup, case, card, seed)
    rows = list(before(setup, case, sampled, seed))
    return rows + list(after(setup, case, sampled, seed)) if case.steps else rows


Whole = Annotated[bool, typer.Option("--whole", help="All chips were run at this commit, which the results state.")]
"""Option of commands that write a study: otherwise its commit and digests stay."""

app = typer.Typer(no_args_is_help=True, help=(__doc__ or "").splitlines()[0])
notes = Console(stderr=True)


@app.command()
def train(folder: Annotated[Path, typer.Option(help="For checkpoints.")] = ROOT / "gds_out") -> None:
    """Train the network as bench_networks.py does."""
    from bench_networks import SCENARIOS, run

    from optinc_pdk.networks.training.initialisation import random_network

    scenario = SCENARIOS[0]
    start = random_network(scenario.task, scenario.widths[1:-1], seed=1)
    onn, _ = run(start, scenario.approximated, 25_000, folder / WEIGHTS.name)
    onn.save(WEIGHTS)
    print(f"{WEIGHTS.name}: {lattice_score(onn)}")


@app.command()
def run(
    minutes: Annotated[float, typer.Option(help="No chip is started after this time.")] = 1e9,
    only: Annotated[list[str] | None, typer.Option(help="Cases by name; all by default.")] = None,
    chips: Annotated[int, typer.Option(help="Largest number of chips for each case.")] = 20,
    first: Annotated[int, typer.Option(help="Index of the first chip, for parallel runs.")] = 0,
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED,
) -> None:
    """Evaluate chips, the first of every case first."""
    process = load_process("soi220")
    card = imperfections(process)
    setup = load_setup(WEIGHTS, process, card)
    done = {(one.case, one.seed) for one in read(results, Row)}
    cases = [case for case in CASES if not only or case.name in only]
    unknown = sorted(set(only or ()) - {case.name for case in CASES})
    if unknown:
        raise InputError(f"unknown case {unknown[0]!r}; give one of: {', '.join(case.name for case in CASES)}")
    todo = [(seed, case) for seed in range(first, chips) for case in cases if seed < case.chips]
    todo = [(seed, case) for seed, case in todo if (case.name, seed) not in done]
    start = time.monotonic()
    with Progress(console=notes) as progress:
        task = progress.add_task("chips", total=len(todo))
        for seed, case in todo:
            if time.monotonic() - start > 60.0 * minutes:
                break
            progress.update(task, description=f"{case.name}, chip {seed}")
            write(results, chip(setup, case, card, seed))
            progress.advance(task)


@app.command()
def table(
    results: Annotated[Path, typer.Option(help="File of finished chips.")] = FINISHED, whole: Whole = False
) -> None:
    """Write mean and worst numbers of exact words, and the words lost to each imperfection alone."""
    command = "python benchmarks/paper_tolerance.py table"
    data = studies.blocks(lines(read(results, Row)))
    studies.write_study("paper_tolerance", data, command, ["soi220"], [WEIGHTS], whole)


def lines(rows: list[Row]) -> list[str]:
    """Return the tables in Markdown."""
    found = [
        "### Exact words of 28,561: mean, worst; chips without a wrong word",
        "",
        "| chips | number | calibrated | unrounded | 16 bits | 12 bits | 8.5 bits |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        for calibrated in (False, True):
            matching = [one for one in rows if one.case == case.name and one.calibrated == calibrated]
            if matching:
                cells = [shown([one for one in matching if one.bits == text(bits)]) for bits in BITS]
                count = len({one.seed for one in matching})
                found.append(f"| {case.name} | {count} | {'yes' if calibrated else 'no'} | " + " | ".join(cells) + " |")
    found += ["", "### Words lost to one imperfection alone", ""]
    found += ["| alone | words lost before calibration | after |", "|---|---|---|"]
    for name in KIND:
        matching = [one for one in rows if one.case == f"{name} alone" and one.bits == text(None)]
        pair = [lost([one for one in matching if one.calibrated == calibrated]) for calibrated in (False, True)]
        found.append(f"| {name} | {pair[0]} | {pair[1]} |")
    for case in CASES:
        if not case.steps:
            for bits in case.bits:
                matching = [one for one in rows if one.case == case.name and one.bits == text(bits)]
                name = case.name if bits is None else f"drive of {bits:g} bits"
                found.append(f"| {name} | {lost(matching)} | |")
    return found


def text(bits: float | None) -> str:
    """Format bits as in the results file."""
    return "unrounded" if bits is None else f"{bits:g}"


def shown(rows: list[Row]) -> str:
    """Format mean and worst number of exact words, and the number of perfect chips."""
    if not rows:
        return ""
    exact = [one.exact for one in rows]
    perfect = sum(one.exact == one.words for one in rows)
    return f"{np.mean(exact):,.1f}, {min(exact):,}; {perfect} of {len(rows)}"


def lost(rows: list[Row]) -> str:
    """Format the mean number of inexact words and its share."""
    if not rows:
        return ""
    mean = float(np.mean([one.words - one.exact for one in rows]))
    return f"{mean:,.1f} ({mean / rows[0].words:.3%})"


if __name__ == "__main__":
    app()
