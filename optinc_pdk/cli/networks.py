"""Commands that make networks."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from optinc_pdk.cli.app import FAILED, PASSED, app, counter
from optinc_pdk.cli.options import FinerInput, Json, Remainder, TaskBits, TaskGroups, TaskServers, WeightsOut
from optinc_pdk.files import InputError

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.onn import Onn
    from optinc_pdk.onn.training.schedule import Progress as State


@app.command()
def synth(
    bits: TaskBits,
    servers: TaskServers,
    output: WeightsOut,
    groups: TaskGroups = None,
    remainder: Remainder = False,
    finer_input: FinerInput = False,
    copies: Annotated[
        int | None, typer.Option(help="Tolerate errors: carry signals that wait in so many copies; 1 or more.")
    ] = None,
    amplifiers: Annotated[
        int | None, typer.Option(help="Tolerate errors: spread gain over so many layers; 1 or more.")
    ] = None,
    unary: Annotated[bool, typer.Option(help="Tolerate errors most: carry bits only, at the price of size.")] = False,
    as_json: Json = False,
) -> None:
    """Write an exact network in closed form, and prove it over its whole lattice.

    The smallest network, or with --copies or --amplifiers one that regenerates its signals, which takes more layers
    and tolerates far larger errors of its matrices; or one that carries bits only, the largest and most tolerant.
    """
    from optinc_pdk.assemble import check_buildable
    from optinc_pdk.onn import ProofError, carry_chain, prove, regenerating_chain, unary_chain

    task = _task(bits, servers, groups, remainder, finer_input)
    try:
        if unary and copies is not None:
            raise ValueError("--unary and --copies exclude each other: bits need no copies")
        if unary:
            onn = unary_chain(task, 3 if amplifiers is None else amplifiers)
        elif copies is None and amplifiers is None:
            onn = carry_chain(task)
        else:
            onn = regenerating_chain(task, 1 if copies is None else copies, 3 if amplifiers is None else amplifiers)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    try:
        proof = prove(onn)
    except ProofError as fault:
        raise InputError(f"{output}: not written, for it can't be proved: {fault}") from fault
    onn.save(output)
    try:
        check_buildable(onn)
        unbuilt = ""
    except InputError as fault:
        unbuilt = str(fault)
    if as_json:
        facts: dict[str, Any] = {"structure": onn.structure, "mzis": onn.mzis, "lattice": onn.task.lattice_size}
        if unbuilt:
            facts["no_chip"] = unbuilt
        print(json.dumps({"schema": 1, "file": str(output)} | facts | {"proof": asdict(proof)}))
    else:
        print(
            f"{output}: {'-'.join(map(str, onn.structure))}, {onn.mzis:,} MZIs; proved exact over all "
            f"{onn.task.lattice_size:,} lattice points: {proof.values:,} values of signals in {proof.stages} stages, "
            f"{proof.samples:,} points sampled"
        )
        if unbuilt:
            print(f"no chip can be built from it: {unbuilt}")


@app.command()
def train(
    bits: TaskBits,
    servers: TaskServers,
    output: WeightsOut,
    groups: TaskGroups = None,
    remainder: Remainder = False,
    finer_input: FinerInput = False,
    start: Annotated[Path | None, typer.Option(help="Weights to train on from; the closed form by default.")] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Start at random instead, with hidden layers of these widths: 24-24-20.")
    ] = None,
    steps: Annotated[int, typer.Option(help="Optimizer steps.")] = 20_000,
    noise: Annotated[float, typer.Option(help="Matrix error in training, relative to the 2-norm.")] = 3e-3,
    input_noise: Annotated[float, typer.Option(help="Largest input error, as a share of full scale.")] = 0.0,
    amplitude_noise: Annotated[float, typer.Option(help="Error of hidden signals, as a share of full scale.")] = 0.0,
    drive_bits: Annotated[int | None, typer.Option(help="Round weights as a drive of so many bits would.")] = None,
    loss: Annotated[str, typer.Option(help="margin, or paper: the two stages of arXiv 2603.28290.")] = "margin",
    approximate: Annotated[
        str | None, typer.Option(help="Layers approximated by diagonals times unitaries, from 0: 1,2,3.")
    ] = None,
    rate: Annotated[float, typer.Option(help="Learning rate at the start.")] = 3e-3,
    hard: Annotated[float, typer.Option(help="Share of every batch taken from the worst points.")] = 0.1,
    ramp: Annotated[float, typer.Option(help="Share of the steps in which the matrix error grows.")] = 0.2,
    seed: Annotated[int, typer.Option(help="Seed of the generator.")] = 0,
    stop: Annotated[bool, typer.Option(help="End as soon as every word is exact, disturbed ones too.")] = True,
    checkpoint: Annotated[Path | None, typer.Option(help="File of the state; goes on from it if it is there.")] = None,
    device: Annotated[str, typer.Option(help="PyTorch device, such as cpu or cuda.")] = "cpu",
) -> None:
    """Train a network for tolerance; needs the extra 'train'."""
    from optinc_pdk.onn import lattice_score
    from optinc_pdk.onn.training.train import Schedule
    from optinc_pdk.onn.training.train import train as run

    task = _task(bits, servers, groups, remainder, finer_input)
    if output.suffix != ".npz":
        raise InputError(f"{output}: weights are written as .npz; give the file this ending")
    try:
        schedule = Schedule(
            steps=steps,
            noise=noise,
            input_noise=input_noise,
            amplitude_noise=amplitude_noise,
            drive_bits=drive_bits,
            loss=cast(Literal["margin", "paper"], loss),
            approximate=_numbers("--approximate", approximate, ","),
            rate=rate,
            hard=hard,
            ramp=ramp,
            stop=stop,
        )
        first = _first(task, start, hidden, seed)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    with counter(remaining=True) as told:
        told("training", 0, steps)
        onn = run(first, schedule, seed, lambda state: told(_words(state), state.step, steps), checkpoint, device)
    score = lattice_score(onn)
    onn.save(output)
    words = f"{score.accuracy:.2%} exact" if task.enumerable else f"{score.exact:,} of {score.inputs:,} sampled exact"
    print(f"{output}: {'-'.join(map(str, onn.structure))}, {words}, margin {score.margin:.3f} levels")
    raise typer.Exit(PASSED if score.exact == score.inputs else FAILED)


@app.command()
def search(
    bits: TaskBits,
    servers: TaskServers,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for networks, front.csv and front.png.")],
    groups: TaskGroups = None,
    remainder: Remainder = False,
    finer_input: FinerInput = False,
    epsilon: Annotated[float, typer.Option(help="Matrix error to be tolerated, relative to the 2-norm.")] = 1e-3,
    steps: Annotated[int, typer.Option(help="Optimizer steps of every training.")] = 60_000,
    seed: Annotated[int, typer.Option(help="Seed of the generator.")] = 0,
    also: Annotated[list[Path] | None, typer.Option(help="Weight file to judge and show as well.")] = None,
) -> None:
    """Search the network with fewest MZIs for a tolerance; needs the extra 'train'. Goes on where it was ended."""
    from optinc_pdk.files import write_atomic
    from optinc_pdk.onn import Onn
    from optinc_pdk.onn.training.search import Candidate, front, judge, write_candidates
    from optinc_pdk.onn.training.search import search as run
    from optinc_pdk.report.plots import front_png

    task = _task(bits, servers, groups, remainder, finer_input)
    given = [(path, Onn.load(path, bits, servers, groups)) for path in also or []]
    for path, onn in given:
        if onn.task != task:
            raise InputError(f"{path}: it computes {onn.task}, not {task}; leave it out")
    with counter() as told:
        told("search", 0, steps)

        def watch(name: str, state: State) -> None:
            told(f"{name}: {_words(state)}", state.step, steps)

        def found(one: Candidate) -> None:
            structure = "-".join(map(str, one.onn.structure))
            words = f"{one.share:.3%} exact, margin {one.margin:.3f}, 99.9 % to ε = {one.tolerated:.2g}"
            print(f"{one.name}: {structure}, {one.mzis:,} MZIs, {words}", file=sys.stderr)

        more = []
        for path, onn in given:
            more.append(judge(path.stem, onn, epsilon))
            found(more[-1])
        candidates = [*more, *run(task, epsilon, steps, seed, output, found, watch)]
    best = {id(one) for one in front(candidates)}
    write_candidates(candidates, output / "front.csv")
    rows = [(one.name, one.mzis, one.tolerated, id(one) in best) for one in candidates]
    write_atomic(output / "front.png", front_png(rows, epsilon))
    passed = [one for one in candidates if one.passed]
    if not passed:
        print(f"{output / 'front.csv'}: {len(candidates)} networks, none keeps 99.9 % at ε = {epsilon:g}")
        raise typer.Exit(FAILED)
    one = min(passed, key=lambda one: one.mzis)
    one.onn.save(output / "best.npz")
    structure = "-".join(map(str, one.onn.structure))
    print(f"{output / 'best.npz'}: {structure}, {one.mzis:,} MZIs, {one.share:.3%} exact at ε = {epsilon:g}")


def _task(bits: int, servers: int, groups: int | None, remainder: bool, finer_input: bool) -> Averaging:
    """One input per symbol unless said otherwise; refusals become the user's."""
    from optinc_pdk.averaging import Averaging

    try:
        return Averaging(bits, servers, bits // 2 if groups is None else groups, remainder, finer_input)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def _first(task: Averaging, start: Path | None, hidden: str | None, seed: int) -> Onn:
    """What is trained on from: weights in a file, widths of random layers, or the closed form."""
    from optinc_pdk.onn import Onn, carry_chain
    from optinc_pdk.onn.training.starts import random_start

    if start is not None and hidden is not None:
        raise InputError("--start and --hidden exclude each other: train on from a file, or start at random")
    if hidden is not None:
        return random_start(task, _numbers("--hidden", hidden, "-"), seed)
    if start is None:
        return carry_chain(task)
    if start.suffix != ".npz":
        return replace(Onn.load(start, task.bits, task.servers, task.groups), task=task)
    first = Onn.load(start)
    if first.task != task:
        raise InputError(f"{start}: it computes {first.task}, not {task}; give its own bits, servers and groups")
    return first


def _words(state: State) -> str:
    """Where a training is."""
    return f"{state.errors:,} errors, margin {state.margin:.3f}, {state.tolerance:.2%} under noise"


def _numbers(name: str, text: str | None, separator: str) -> tuple[int, ...]:
    """Whole numbers of an option, or none."""
    try:
        return () if text is None else tuple(int(part) for part in text.split(separator))
    except ValueError as fault:
        raise InputError(f"{name} {text}: give whole numbers, joined by {separator!r}") from fault
