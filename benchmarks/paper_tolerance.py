"""The paper's network, 4-64-128-256-128-64-4 at 8 bits and 4 servers, on meshes of imperfect devices.

    python benchmarks/paper_tolerance.py train            # the network: minutes, needs the extra "train"
    python benchmarks/paper_tolerance.py run              # chips until --minutes are over; goes on where it stopped
    python benchmarks/paper_tolerance.py table            # the tables of docs/paper_network.md

All layers are approximated, 41,664 MZIs (arXiv 2603.28290, Table I). Words are counted over the whole lattice. Before
calibration heaters are driven for the cards' nominal devices, crosstalk included. After calibration every device is
known, which is more than measuring can give: phases are fitted to them, codes rounded, and each neuron's gain and
offset set for the codes as rounded.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from optinc_pdk.averaging import score
from optinc_pdk.cards import KINDS, Process, load_process
from optinc_pdk.drive import compensate
from optinc_pdk.files import InputError
from optinc_pdk.onn import Layer, Onn, lattice_score
from optinc_pdk.tolerance import Imperfections, imperfections
from optinc_pdk.tolerance.meshes.blocks import (
    Block,
    Made,
    Phases,
    biased,
    blocks_of,
    computed,
    dimmed,
    draw_block,
    fitted,
    ideal,
)
from optinc_pdk.tolerance.meshes.mesh_heaters import MeshCrosstalk, mesh_crosstalk, rounded_phases

Floats = NDArray[np.float64]

ROOT = Path(__file__).resolve().parent.parent
WEIGHTS = ROOT / "benchmarks" / "paper_8bit_4servers.npz"
FINISHED = ROOT / "benchmarks" / "paper_tolerance.csv"
BITS = (None, 16.0, 12.0, 8.5)
RESIDUAL = 2**30
"""In place of a block's number, the stream of what is left of every phase."""
KIND = {"couplers": "coupler", "phases": "phase", "loss": "loss", "crosstalk": "crosstalk"}
"""Imperfections of the tables and their kinds in the card."""


@dataclass(frozen=True)
class Case:
    """Chips of one kind.

    Attributes:
        name: In the table.
        amount: Factor of the card's spread by kind; kinds left out have none.
        fit: "signals": least squares counts errors as the lattice's signals see them; "matrix": every direction alike.
        steps: Of each fit, at most; 0 for no calibration.
        dim: Whether rows that are weaker than their attenuator can make are made weak by the mesh.
        residual_rad: Error of every phase that is left over.
        bits: Effective bits of the drive; None for no rounding.
        chips: How many are wanted.
    """

    name: str
    amount: tuple[tuple[str, float], ...] = ()
    fit: str = "signals"
    steps: int = 400
    dim: bool = True
    residual_rad: float = 0.0
    bits: tuple[float | None, ...] = BITS
    chips: int = 20


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
    """What one chip computes at one drive."""

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
    """A layer's blocks with the cards' devices, and the drive for them.

    Attributes:
        made: Of every block.
        phases: Of every block's heaters.
        scale: (out,) what electronics multiply the fields by.
        own: Phases that every block's heaters make themselves.
    """

    made: list[Made]
    phases: list[Phases]
    scale: Floats
    own: list[Floats]


@dataclass(frozen=True, eq=False)
class Bench:
    """A network with its blocks, its lattice, where its heaters are, and how they are driven without measurement."""

    onn: Onn
    process: Process
    blocks: tuple[tuple[Block, ...], ...]
    points: Floats
    levels: Floats
    crosstalk: dict[int, MeshCrosstalk]
    nominal: tuple[Nominal, ...]


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A layer of a chip after calibration, at one drive.

    Attributes:
        phases: Of every block's guides, as the codes make them.
        gain: (out,) of the electronics.
        offset: (out,) of the electronics.
        signal: (points, out) what comes out.
    """

    phases: list[Phases]
    gain: Floats
    offset: Floats
    signal: Floats


def bench(path: Path, process: Process, card: Imperfections) -> Bench:
    """The network of a file."""
    onn = Onn.load(path)
    blocks = blocks_of(onn)
    points = np.concatenate(list(onn.task.pieces()))
    meshes = {block.mesh.modes: block.mesh for layer in blocks for block in layer}
    share, distance = float(card.card.crosstalk.share), float(card.card.crosstalk.distance_um)
    crosstalk = {modes: mesh_crosstalk(mesh, process, share, distance) for modes, mesh in meshes.items()}
    nominal = []
    for layer in blocks:
        made = [draw_block(block, process, replace(card, amount={}), 0) for block in layer]
        phases, scale = biased(layer, made, [ideal(block, part) for block, part in zip(layer, made, strict=True)])
        nominal.append(Nominal(made, phases, scale, compensated(crosstalk, layer, made, phases)))
    levels = np.asarray(onn.task.targets(points), dtype=np.float64)
    return Bench(onn, process, blocks, points, levels, crosstalk, tuple(nominal))


def weight(blocks: tuple[Block, ...], made: list[Made], phases: list[Phases], like: Layer) -> Floats:
    """(out, in) what a layer's blocks compute, in fields."""
    whole = np.zeros(like.weight.shape)
    for block, part, heaters in zip(blocks, made, phases, strict=True):
        whole[block.rows, block.columns] += computed(part, heaters)
    return whole


def compensated(
    crosstalk: dict[int, MeshCrosstalk], blocks: tuple[Block, ...], known: list[Made], phases: list[Phases]
) -> list[Floats]:
    """Phases that the heaters of a layer's blocks produce in their own guides, for crosstalk as it is known."""
    return [
        compensate(replace(crosstalk[block.mesh.modes], share=part.share), wanted.all())
        for block, wanted, part in zip(blocks, phases, known, strict=True)
    ]


def realised(
    here: Bench,
    blocks: tuple[Block, ...],
    true: list[Made],
    phases: list[Phases],
    own: list[Floats],
    bits: float | None,
) -> list[Phases]:
    """Phases of a layer's guides at the nearest codes, with crosstalk as it is."""
    found = []
    for block, part, wanted, exact in zip(blocks, true, phases, own, strict=True):
        operator = replace(here.crosstalk[block.mesh.modes], share=part.share)
        found.append(wanted.like(operator.apply(rounded_phases(here.process, exact, bits))))
    return found


def electronics(field: Floats, wished: Floats, offset: bool) -> tuple[Floats, Floats]:
    """(out,) gains and offsets with which fields (points, out) come nearest to what is wished."""
    middle, aim = (x.mean(axis=0) if offset else np.zeros(x.shape[1]) for x in (field, wished))
    power = np.sum((field - middle) ** 2, axis=0)
    overlap = np.sum((field - middle) * (wished - aim), axis=0)
    gain = np.divide(overlap, power, out=np.ones_like(power), where=power > 0.0)
    return gain, aim - gain * middle


def words(here: Bench, signal: Floats) -> tuple[int, float]:
    """Exact words and margin of the outputs (points, M)."""
    found = score(signal, here.levels, here.onn.task.output_resolution)
    return found.exact, found.margin


def before(here: Bench, case: Case, true: list[list[Made]], seed: int) -> Iterator[Row]:
    """Words with the heaters driven for the cards' devices, nothing measured."""
    start = time.monotonic()
    for bits in case.bits:
        signal = here.points
        rng = np.random.default_rng([seed, KINDS.index("phase"), RESIDUAL])
        for blocks, made, layer, nominal in zip(here.blocks, true, here.onn.layers, here.nominal, strict=True):
            found = realised(here, blocks, made, nominal.phases, nominal.own, bits)
            off = [case.residual_rad * rng.standard_normal(one.all().size) for one in found]
            found = [one.like(one.all() + error) for one, error in zip(found, off, strict=True)]
            signal = nominal.scale * (signal @ weight(blocks, made, found, layer).T) + layer.bias
            if layer is not here.onn.layers[-1]:
                signal = np.maximum(signal, 0.0)
        yield row(case, seed, bits, False, words(here, signal), len(here.points), start)


def after(here: Bench, case: Case, true: list[list[Made]], seed: int) -> Iterator[Row]:
    """Words with every device known."""
    start = time.monotonic()
    *_, last = calibrated(here, case, true, seed)
    for bits, layer in last.items():
        yield row(case, seed, bits, True, words(here, layer.signal), len(here.points), start)


def calibrated(here: Bench, case: Case, true: list[list[Made]], seed: int) -> Iterator[dict[float | None, Calibrated]]:
    """Layer by layer, by the drive's bits: each is fitted for the signals that really reach it, devices known."""
    drives: dict[float | None, Floats] = dict.fromkeys(case.bits, here.points)
    wished = here.points
    for blocks, made, layer in zip(here.blocks, true, here.onn.layers, strict=True):
        last = layer is here.onn.layers[-1]
        seen = drives[None]
        # offsets are the electronics', so that only what varies counts
        middles = (np.zeros(layer.inputs), np.zeros(layer.inputs)) if last else (seen.mean(axis=0), wished.mean(axis=0))
        given: list[tuple[Floats, Floats] | None] = [None] * len(blocks)
        if case.fit == "signals":
            now, aim = seen - middles[0], wished - middles[1]
            given = [(now[:, block.columns], aim[:, block.columns] @ block.unitary.T) for block in blocks]
        each = list(zip(blocks, made, given, strict=True))
        programmed = [fitted(*one, case.steps, seed) for one in each]
        if case.dim:
            weak = dimmed(blocks, made, programmed)
            programmed = [
                found if amplitude is None else fitted(*one, case.steps, seed, amplitude)
                for one, found, amplitude in zip(each, programmed, weak, strict=True)
            ]
        phases, _ = biased(blocks, made, programmed)
        own = compensated(here.crosstalk, blocks, made, phases)
        wished = wished @ layer.weight.T + layer.bias
        found = {}
        for bits, signal in drives.items():
            there = realised(here, blocks, made, phases, own, bits)
            field = signal @ weight(blocks, made, there, layer).T
            gain, offset = electronics(field, wished, not last)
            drives[bits] = field * gain + offset if last else np.maximum(field * gain + offset, 0.0)
            found[bits] = Calibrated(there, gain, offset, drives[bits])
        wished = wished if last else np.maximum(wished, 0.0)
        yield found


def row(
    case: Case, seed: int, bits: float | None, calibrated: bool, found: tuple[int, float], words: int, start: float
) -> Row:
    """One line of the file."""
    exact, margin = found
    return Row(
        case.name, seed, text(bits), calibrated, exact, words, round(margin, 4), round(time.monotonic() - start, 1)
    )


def drawn(here: Bench, case: Case, card: Imperfections, seed: int) -> list[list[Made]]:
    """Every layer's blocks as a chip of a case has them."""
    wanted = replace(card, amount=dict(case.amount))
    return [[draw_block(block, here.process, wanted, seed) for block in layer] for layer in here.blocks]


def chip(here: Bench, case: Case, card: Imperfections, seed: int) -> list[Row]:
    """One chip of a case at every drive."""
    true = drawn(here, case, card, seed)
    found = list(before(here, case, true, seed))
    return found + list(after(here, case, true, seed)) if case.steps else found


app = typer.Typer(no_args_is_help=True, help=(__doc__ or "").splitlines()[0])
notes = Console(stderr=True)


@app.command()
def train(folder: Annotated[Path, typer.Option(help="For checkpoints.")] = ROOT / "gds_out") -> None:
    """Trains the network as bench_networks.py does."""
    from bench_networks import SCENARIOS, run

    from optinc_pdk.onn.training.starts import random_start

    scenario = SCENARIOS[0]
    start = random_start(scenario.task, scenario.widths[1:-1], seed=1)
    onn, _ = run(start, scenario.approximated, 25_000, folder / WEIGHTS.name)
    onn.save(WEIGHTS)
    print(f"{WEIGHTS.name}: {lattice_score(onn)}")


def read(path: Path) -> list[Row]:
    """Chips that are done."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            Row(
                one["case"],
                int(one["seed"]),
                one["bits"],
                one["calibrated"] == "True",
                int(one["exact"]),
                int(one["words"]),
                float(one["margin"]),
                float(one["seconds"]),
            )
            for one in csv.DictReader(file)
        ]


def write(path: Path, rows: Sequence[Any]) -> None:
    """Adds the rows of one chip, dataclasses of one kind."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(rows[0])], lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(asdict(one) for one in rows)


@app.command()
def run(
    minutes: Annotated[float, typer.Option(help="No chip is begun after these.")] = 1e9,
    only: Annotated[list[str] | None, typer.Option(help="Cases by name; all where left out.")] = None,
    chips: Annotated[int, typer.Option(help="Chips of a case at most.")] = 20,
    first: Annotated[int, typer.Option(help="Number of the first chip, for several runs side by side.")] = 0,
    results: Annotated[Path, typer.Option(help="Chips that are done.")] = FINISHED,
) -> None:
    """Runs chips, the first of every case first."""
    process = load_process("soi220")
    card = imperfections(process)
    here = bench(WEIGHTS, process, card)
    done = {(one.case, one.seed) for one in read(results)}
    cases = [case for case in CASES if not only or case.name in only]
    unknown = sorted(set(only or ()) - {case.name for case in CASES})
    if unknown:
        raise InputError(f"there is no case {unknown[0]!r}; there are: {', '.join(case.name for case in CASES)}")
    todo = [(seed, case) for seed in range(first, chips) for case in cases if seed < case.chips]
    todo = [(seed, case) for seed, case in todo if (case.name, seed) not in done]
    start = time.monotonic()
    with Progress(console=notes) as progress:
        task = progress.add_task("chips", total=len(todo))
        for seed, case in todo:
            if time.monotonic() - start > 60.0 * minutes:
                break
            progress.update(task, description=f"{case.name}, chip {seed}")
            write(results, chip(here, case, card, seed))
            progress.advance(task)


@app.command()
def table(results: Annotated[Path, typer.Option(help="Chips that are done.")] = FINISHED) -> None:
    """Prints mean and worst of the words that are exact, and the words lost to each imperfection alone."""
    rows = read(results)
    print("| chips | number | calibrated | unrounded | 16 bits | 12 bits | 8.5 bits |\n|---|---|---|---|---|---|---|")
    for case in CASES:
        for calibrated in (False, True):
            mine = [one for one in rows if one.case == case.name and one.calibrated == calibrated]
            if mine:
                cells = [shown([one for one in mine if one.bits == text(bits)]) for bits in BITS]
                count = len({one.seed for one in mine})
                print(f"| {case.name} | {count} | {'yes' if calibrated else 'no'} | " + " | ".join(cells) + " |")
    print("\n| alone | words lost before calibration | after |\n|---|---|---|")
    for name in KIND:
        mine = [one for one in rows if one.case == f"{name} alone" and one.bits == text(None)]
        pair = [lost([one for one in mine if one.calibrated == calibrated]) for calibrated in (False, True)]
        print(f"| {name} | {pair[0]} | {pair[1]} |")
    for case in CASES:
        if not case.steps:
            for bits in case.bits:
                mine = [one for one in rows if one.case == case.name and one.bits == text(bits)]
                name = case.name if bits is None else f"drive of {bits:g} bits"
                print(f"| {name} | {lost(mine)} | |")


def text(bits: float | None) -> str:
    """Bits as they stand in the file."""
    return "unrounded" if bits is None else f"{bits:g}"


def shown(rows: list[Row]) -> str:
    """Mean and worst, and how many chips are perfect."""
    if not rows:
        return ""
    exact = [one.exact for one in rows]
    perfect = sum(one.exact == one.words for one in rows)
    return f"{np.mean(exact):,.1f}, {min(exact):,}; {perfect} of {len(rows)}"


def lost(rows: list[Row]) -> str:
    """Mean of the words that are not exact, and their share."""
    if not rows:
        return ""
    mean = float(np.mean([one.words - one.exact for one in rows]))
    return f"{mean:,.1f} ({mean / rows[0].words:.3%})"


if __name__ == "__main__":
    app()
