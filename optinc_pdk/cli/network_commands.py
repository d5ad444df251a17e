"""Commands that make networks: in closed form, by training and by search; and ``task``, which states what one does."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from optinc_pdk.cli import arguments as opt
from optinc_pdk.cli.app import app, print_table, progress_counter
from optinc_pdk.cli.arguments import DEFAULT
from optinc_pdk.cli.exit_codes import FAILED, PASSED
from optinc_pdk.cli.paths import output_folder, output_path
from optinc_pdk.errors import InputError
from optinc_pdk.options import Activation

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.networks import Activation, AveragingNetwork
    from optinc_pdk.networks.closed_form.proof import ExactnessProof
    from optinc_pdk.networks.training.schedule import TrainingProgress
    from optinc_pdk.report.tables import CandidateRow


@app.command()
def task(
    weights: Annotated[Path, typer.Argument(help="Weight file: .npz, .safetensors, .onnx or .pt.")],
    output: opt.WeightsOut,
    bits: Annotated[
        int | None, typer.Option(help="Bits of a word that the network averages; even. Default: no averaging task.")
    ] = None,
    servers: Annotated[
        int | None, typer.Option(help="Number of servers whose words are averaged; with --bits.")
    ] = None,
    groups: opt.TaskGroups = None,
    remainder: opt.Remainder = False,
    finer_input: opt.FinerInput = False,
    activation: Annotated[
        Activation | None,
        typer.Option(
            help="Activation of hidden layers: relu, clipped_relu for Hardtanh(0, 1), or sine for the sine of a "
            "modulator. .npz and .onnx files state it; .pt files need this option, and .safetensors files whose "
            "metadata do not state it."
        ),
    ] = None,
) -> None:
    """Write a weight file that states the averaging task and the activation of a network.

    PyTorch's files contain weights alone. Without --bits and --servers the network stays a general one.
    """
    _check_weights_path(output)
    output_path(output, weights)

    from optinc_pdk.networks.network import load_for_task, load_network

    given = {
        "--bits": bits, "--servers": servers, "--groups": groups, "--remainder": remainder or None,
        "--finer-input": finer_input or None,
    }  # fmt: skip
    named = ", ".join(name for name, value in given.items() if value is not None)
    if bits is None or servers is None:
        if named:
            raise InputError(f"{named}: a task needs --bits and --servers: give both, or no option of a task")
        network = load_network(weights, activation=activation)
    else:
        network = load_for_task(weights, _task(bits, servers, groups, remainder, finer_input), activation)
    network.save(output)
    print(f"{output}: {network.task}, {network.activation}")
    for remark in network.remarks:
        print(f"{weights}: {remark}")


@app.command()
def synth(
    bits: opt.TaskBits,
    servers: opt.TaskServers,
    output: opt.WeightsOut,
    groups: opt.TaskGroups = None,
    remainder: opt.Remainder = False,
    finer_input: opt.FinerInput = False,
    activation: Annotated[
        str | None,
        typer.Option(
            help="Activation of the hidden units: clipped_relu for comparators, relu for the forms with --copies, "
            "--amplifiers and --unary. Default: clipped_relu, or relu with one of these options."
        ),
    ] = None,
    mzis: Annotated[
        int | None,
        typer.Option(
            help="Take the most tolerant network of comparators with at most this many MZIs by the paper's count, as "
            "optinc factor states them, for independent parts separately. With --for noise or rate, the best one "
            "within this limit. Default: the largest tolerance per MZI."
        ),
    ] = None,
    goal: Annotated[
        Literal["size", "noise", "rate"] | None,
        typer.Option(
            "--for",
            help="What the network of comparators is chosen for: size, the largest tolerance per MZI or within --mzis; "
            "noise, the largest field noise σ* that it tolerates; rate, the highest symbol rate of its chip on "
            "--process. Default: size.",
        ),
    ] = None,
    process: Annotated[
        str | None,
        typer.Option(
            help="With --for rate: process of the chip, its name or a folder with process cards. "
            f"Default: {opt.DEFAULT}."
        ),
    ] = None,
    gain: Annotated[
        float | None,
        typer.Option(
            help="Slope of the comparators per step of their signals, at least 1; they remove errors below "
            "(gain - 1) / 2 gain of a step. Default: 8."
        ),
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(
            max=opt.MOST_UNITS,
            help="ReLU: regenerate signals; each signal that waits is carried by this many units, 1 or more. "
            "Default with --amplifiers: 1.",
        ),
    ] = None,
    amplifiers: Annotated[
        int | None,
        typer.Option(
            max=opt.MOST_UNITS,
            help="ReLU: regenerate signals; the gain of a staircase is spread over this many layers, 1 or more. "
            "Default with --copies or --unary: 3.",
        ),
    ] = None,
    unary: Annotated[bool, typer.Option(help="ReLU: carry every signal as single bits, the largest network.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Write an exact network in closed form, and prove that it is exact on its whole lattice of inputs.

    Its hidden units are comparators, which clip at 0 and 1 and share detectors. With --activation relu it is the
    smallest network of ReLUs, with --copies or --amplifiers one that regenerates its signals and tolerates larger
    errors of its matrices, and with --unary one of single bits, which tolerates the largest errors of these forms.
    With --for noise or --for rate, a table shows the networks among which it was chosen.
    """
    _check_weights_path(output)
    task = _task(bits, servers, groups, remainder, finer_input)

    from optinc_pdk.assemble import check_buildable
    from optinc_pdk.networks import ProofError, prove

    relu = {"--copies": copies is not None, "--amplifiers": amplifiers is not None, "--unary": unary}
    clipped = {"--mzis": mzis is not None, "--gain": gain is not None, "--for": goal is not None}
    if process is not None and goal != "rate":
        raise InputError("--process has no effect without --for rate; drop it, or add --for rate")
    rows: list[CandidateRow] = []
    try:
        if _synth_activation(activation, relu, clipped) == "clipped_relu":
            onn, rows = chosen_network(task, goal or "size", mzis, gain, process)
        else:
            onn = _relu_form(task, copies, amplifiers, unary)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    try:
        with progress_counter() as report:
            report("proving", 0, None)
            proof = prove(onn)
    except ProofError as fault:
        raise InputError(f"{output}: not written, because the network cannot be proved exact: {fault}") from fault
    onn.save(output)
    try:
        check_buildable(onn)
        no_chip = ""
    except InputError as fault:
        no_chip = str(fault)
    if as_json:
        facts: dict[str, Any] = {"structure": onn.structure, "mzis": onn.mzis, "lattice": onn.task.lattice_size}
        if no_chip:
            facts["no_chip"] = no_chip
        if rows:
            facts["candidates"] = [row.to_json(goal == "rate") for row in rows]
        print(json.dumps({"schema": 1, "file": str(output)} | facts | {"proof": asdict(proof)}))
    else:
        _print_exact_network(output, onn, proof, rows, goal, no_chip)


def _print_exact_network(
    output: Path, onn: AveragingNetwork, proof: ExactnessProof, rows: list[CandidateRow], goal: str | None, no_chip: str
) -> None:
    """Print the networks among which one was chosen, the one that was written, and why it has no chip, if so."""
    if rows:
        from optinc_pdk.report.tables import candidate_table

        print_table(candidate_table(rows, goal == "rate"))
    print(
        f"{output}: {'-'.join(map(str, onn.structure))}, {onn.mzis:,} MZIs; proved exact over all "
        f"{onn.task.lattice_size:,} lattice points: {proof.values:,} signal values in {proof.stages} "
        f"stage{'s' * (proof.stages != 1)}, {proof.samples:,} points sampled"
    )
    if no_chip:
        print(f"no chip can be built from it: {no_chip}")


@app.command()
def train(
    bits: opt.TaskBits,
    servers: opt.TaskServers,
    output: opt.WeightsOut,
    groups: opt.TaskGroups = None,
    remainder: opt.Remainder = False,
    finer_input: opt.FinerInput = False,
    start: Annotated[
        Path | None, typer.Option(help="Weight file to start from. Default: the smallest network in closed form.")
    ] = None,
    hidden: Annotated[
        str | None,
        typer.Option(help="Start from random weights, with hidden layers of these widths, such as 24-24-20."),
    ] = None,
    activation: Annotated[
        Activation | None,
        typer.Option(
            help="Activation of the hidden layers: relu, or clipped_relu for units that clip at 0 and 1. Default: that "
            "of --start, otherwise relu."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(max=opt.MOST, help="Optimizer steps.")] = 20_000,
    noise: Annotated[
        float, typer.Option(help="Matrix error ε during training, relative to the 2-norm of each matrix.")
    ] = 3e-3,
    input_noise: Annotated[
        float, typer.Option(help="Largest error of an input during training, as a share of full scale.")
    ] = 0.0,
    amplitude_noise: Annotated[
        float, typer.Option(help="RMS error of hidden signals during training, as a share of full scale.")
    ] = 0.0,
    field_noise: Annotated[
        float,
        typer.Option(help="Field noise σ of every detector during training, relative to full scale; as for σ*."),
    ] = 0.0,
    drive_bits: Annotated[
        int | None, typer.Option(help="Round weights as heater drives of this many bits would. Default: no rounding.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="Loss function: margin, or paper for the two stages of arXiv 2603.28290.")
    ] = "margin",
    leak: Annotated[
        float, typer.Option(help="Slope of the gradient outside 0 to 1 in clipped networks; it falls to 0.")
    ] = 0.3,
    condition: Annotated[
        float | None,
        typer.Option(help="Penalise condition numbers of the optical matrices above this one. Default: no penalty."),
    ] = None,
    output_bias: Annotated[
        bool, typer.Option(help="Train biases of the last layer; the chip needs another hidden unit for them.")
    ] = False,
    approximate: Annotated[
        str | None,
        typer.Option(
            help="Layers to approximate by blocks of a diagonal times a unitary, counted from 0, such as 1,2,3. "
            "Default: none."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(help="Initial learning rate.")] = 3e-3,
    hard: Annotated[
        float, typer.Option(help="Share of each batch taken from the lattice points with the largest errors.")
    ] = 0.1,
    ramp: Annotated[
        float, typer.Option(help="Share of the steps during which the matrix error grows from 0 to --noise.")
    ] = 0.2,
    seed: opt.Seed = 0,
    stop: Annotated[
        bool, typer.Option(help="End as soon as every word is exact, also under the errors of the training.")
    ] = True,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="File that keeps the state of the training; if it exists, the training continues from it."),
    ] = None,
    device: Annotated[str, typer.Option(help="PyTorch device, such as cpu or cuda.")] = "cpu",
) -> None:
    """Train a network so that it tolerates errors of its matrices; needs the extra 'train' (PyTorch).

    Exit code 1 if the trained network is not exact; it is written in any case.
    """
    _check_weights_path(output)
    if checkpoint is not None:
        output_path(checkpoint, start, option="--checkpoint")
    task = _task(bits, servers, groups, remainder, finer_input)

    from optinc_pdk.networks import lattice_score
    from optinc_pdk.networks.training.train import TrainingSchedule, check_device
    from optinc_pdk.networks.training.train import train as run

    check_device(device)
    try:
        schedule = TrainingSchedule(
            steps=steps,
            noise=noise,
            input_noise=input_noise,
            amplitude_noise=amplitude_noise,
            field_noise=field_noise,
            drive_bits=drive_bits,
            leak=leak,
            condition=condition,
            output_bias=output_bias,
            loss=cast(Literal["margin", "paper"], loss),
            approximate=_numbers("--approximate", approximate, ","),
            rate=rate,
            hard=hard,
            ramp=ramp,
            stop=stop,
        )
        first = _initial_network(task, start, hidden, seed, activation)
    except ValueError as fault:
        raise InputError(_with_options(str(fault))) from fault
    with progress_counter(remaining=True) as report:
        report("training", 0, steps)
        onn = run(first, schedule, seed, lambda state: report(_state(state), state.step, steps), checkpoint, device)
    score = lattice_score(onn)
    onn.save(output)
    words = f"{score.accuracy:.2%} exact" if task.enumerable else f"{score.exact:,} of {score.inputs:,} sampled exact"
    print(f"{output}: {'-'.join(map(str, onn.structure))}, {words}, margin {score.margin:.3f} levels")
    raise typer.Exit(PASSED if score.exact == score.inputs else FAILED)


@app.command()
def search(
    bits: opt.TaskBits,
    servers: opt.TaskServers,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            parser=opt.parse_output,
            metavar="PATH",
            help="Folder for the networks, front.csv and front.png.",
        ),
    ],
    groups: opt.TaskGroups = None,
    remainder: opt.Remainder = False,
    finer_input: opt.FinerInput = False,
    epsilon: Annotated[
        float, typer.Option(help="Matrix error ε to tolerate, relative to the 2-norm: 1e-6 to 0.1.")
    ] = 1e-3,
    steps: Annotated[int, typer.Option(max=opt.MOST, help="Optimizer steps of each training.")] = 60_000,
    seed: opt.Seed = 0,
    also: Annotated[
        list[Path] | None,
        typer.Option(help="Weight file to compare with the networks found; may be given several times."),
    ] = None,
    activation: Annotated[
        Activation | None, typer.Option(help="Activation of the hidden layers of weight files that do not state it.")
    ] = None,
) -> None:
    """Search for the network with the fewest MZIs that tolerates a matrix error; needs the extra 'train' (PyTorch).

    An interrupted search continues from the networks in its folder. Exit code 1 if no network keeps 99.9 % of the words
    exact.
    """
    output_folder(output)
    task = _task(bits, servers, groups, remainder, finer_input)

    from optinc_pdk.networks import AveragingNetwork
    from optinc_pdk.networks.training.search import SearchCandidate, candidates_csv, evaluate_candidate, pareto_front
    from optinc_pdk.networks.training.search import search as run

    others = [(path, AveragingNetwork.load(path, bits, servers, groups, activation)) for path in also or []]
    for path, onn in others:
        if onn.task != task:
            raise InputError(f"{path}: the network computes {onn.task}, not {task}; leave it out")
    with progress_counter() as report:
        report("search", 0, steps)

        def report_training(name: str, state: TrainingProgress) -> None:
            report(f"{name}: {_state(state)}", state.step, steps)

        def print_candidate(one: SearchCandidate) -> None:
            structure = "-".join(map(str, one.onn.structure))
            words = f"{one.share:.3%} exact, margin {one.margin:.3f}, 99.9 % to ε = {one.tolerated:.2g}"
            print(f"{one.name}: {structure}, {one.mzis:,} MZIs, {words}", file=sys.stderr)

        candidates = []
        for path, onn in others:
            candidates.append(evaluate_candidate(path.stem, onn, epsilon))
            print_candidate(candidates[-1])
        candidates += run(task, epsilon, steps, seed, output, print_candidate, report_training)

    from optinc_pdk.io.file_sets import StagedFiles
    from optinc_pdk.io.writing import write_atomic
    from optinc_pdk.report.plots import pareto_front_png

    best = {id(one) for one in pareto_front(candidates)}
    rows = [(one.name, one.mzis, one.tolerated, id(one) in best) for one in candidates]
    passed = [one for one in candidates if one.passed]
    one = min(passed, key=lambda one: one.mzis, default=None)
    with StagedFiles(output) as staged:
        if one is not None:
            one.onn.save(staged.path("best.npz"))
        write_atomic(staged.path("front.png"), pareto_front_png(rows, epsilon))
        write_atomic(staged.path("front.csv"), candidates_csv(candidates))
        staged.publish(["front.csv"], ["best.npz"])
    if one is None:
        print(f"{output / 'front.csv'}: {len(candidates)} networks, none exact for 99.9 % of words at ε = {epsilon:g}")
        raise typer.Exit(FAILED)
    structure = "-".join(map(str, one.onn.structure))
    print(f"{output / 'best.npz'}: {structure}, {one.mzis:,} MZIs, {one.share:.3%} exact at ε = {epsilon:g}")


def _synth_activation(activation: str | None, relu: dict[str, bool], clipped: dict[str, bool]) -> str:
    """The activation of a closed form, from the option and from those that belong to one activation only.

    Args:
        activation: Value of --activation, or None.
        relu: Options of ReLU networks, and whether they are given.
        clipped: The same for clipped networks.

    Raises:
        InputError: The activation is unknown, or an option belongs to the other one.
    """
    from optinc_pdk.networks.layers import ACTIVATIONS

    if activation is not None and activation not in ACTIVATIONS:
        raise InputError(f"--activation {activation}: use one of {', '.join(ACTIVATIONS)}")
    chosen = activation or ("relu" if any(relu.values()) else "clipped_relu")
    if chosen == "sine":
        raise InputError("no network is known in closed form whose activation is a sine; train one with optinc train")
    for option, given in (clipped if chosen == "relu" else relu).items():
        if given:
            raise InputError(f"{option} has no effect with the activation {chosen}; drop it, or change --activation")
    return chosen


def _relu_form(task: Averaging, copies: int | None, amplifiers: int | None, unary: bool) -> AveragingNetwork:
    """The closed form with ReLUs that the options choose.

    Raises:
        ValueError: The options exclude each other, or one is out of range.
    """
    from optinc_pdk.networks import carry_chain, regenerating_chain, unary_chain

    if unary and copies is not None:
        raise ValueError("--unary and --copies exclude each other: single bits need no copies; drop one")
    if unary:
        return unary_chain(task, 3 if amplifiers is None else amplifiers)
    if copies is None and amplifiers is None:
        return carry_chain(task)
    return regenerating_chain(task, 1 if copies is None else copies, 3 if amplifiers is None else amplifiers)


def _check_weights_path(path: Path) -> None:
    """Check the path of the weight file that a command writes."""
    if output_path(path).suffix.lower() != ".npz":
        raise InputError(f"{path}: weights are written as .npz; give the file this ending")


def _task(bits: int, servers: int, groups: int | None, remainder: bool, finer_input: bool) -> Averaging:
    """The task; ``groups`` defaults to one network input for each symbol.

    Raises:
        InputError: A number is out of range.
    """
    from optinc_pdk.averaging import Averaging

    try:
        return Averaging.of(bits, servers, groups, remainder, finer_input)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def _initial_network(
    task: Averaging, start: Path | None, hidden: str | None, seed: int, activation: Activation | None
) -> AveragingNetwork:
    """The network that training starts from: of a file, with random weights, or in closed form."""
    from optinc_pdk.networks import carry_chain, comparator_network
    from optinc_pdk.networks.network import load_for_task
    from optinc_pdk.networks.training.initialisation import random_network

    if start is not None and hidden is not None:
        raise InputError("--start and --hidden exclude each other: start from a file, or from random weights")
    if hidden is not None:
        return random_network(task, _numbers("--hidden", hidden, "-"), seed, activation or "relu")
    if start is None and activation == "sine":
        raise InputError("--activation sine starts from random weights or a file; add --hidden or --start")
    if start is None:
        return comparator_network(task) if activation == "clipped_relu" else carry_chain(task)
    return load_for_task(start, task, activation)


def _state(state: TrainingProgress) -> str:
    """The state of a training in words."""
    return f"{state.errors:,} errors, margin {state.margin:.3f}, {state.tolerance:.2%} exact under noise"


def _numbers(name: str, text: str | None, separator: str) -> tuple[int, ...]:
    """Parse the whole numbers of an option; empty where it is not given."""
    try:
        return () if text is None else tuple(int(part) for part in text.split(separator))
    except ValueError as fault:
        raise InputError(f"{name} {text}: give whole numbers separated by {separator!r}") from fault


def _with_options(message: str) -> str:
    """Return a message about a field of a schedule, ``field_noise = …``, with the option that sets it."""
    return re.sub(r"^([a-z_]+) = ", lambda found: f"--{found[1].replace('_', '-')} ", message)


Goal = Literal["size", "noise", "rate"]


def chosen_network(
    task: Averaging, goal: Goal, mzis: int | None, gain: float | None, process: str | None
) -> tuple[AveragingNetwork, list[CandidateRow]]:
    """Choose a network of comparators, under a progress bar.

    Args:
        task: The averaging task.
        goal: What it is chosen for.
        mzis: Largest number of MZIs; None for none.
        gain: Slope of the comparators; None for the default.
        process: Process of the rates; None for the default.

    Returns:
        The network, and the networks among which it was chosen; none for its size.

    Raises:
        ValueError: The slope or the limit is out of range.
        InputError: No network is within the limit, or no chip has an acceptable rate.
    """
    from optinc_pdk.networks import comparator_network
    from optinc_pdk.networks.closed_form.comparator_search import candidate_network, check_choices
    from optinc_pdk.networks.closed_form.comparators import GAIN

    slope = GAIN if gain is None else gain
    check_choices(mzis, slope)
    with progress_counter() as report:
        if goal == "size":
            return comparator_network(task, mzis, slope, lambda tried: report("networks", tried, None)), []
        from optinc_pdk.report.tables import rated_rows, tolerant_rows

        if goal == "noise":
            from optinc_pdk.networks.closed_form.comparator_search import candidates

            found = candidates(task, slope, mzis, lambda tried: report("networks", tried, None), "noise")
            return candidate_network(task, found[0]), tolerant_rows(task, found)
        from optinc_pdk.cards import load_process
        from optinc_pdk.studies.rate_search import networks_by_rate

        card = load_process(DEFAULT if process is None else process)
        rated = networks_by_rate(task, card, slope, mzis, lambda what, done: report(what, done, None))
        return rated[0].onn, rated_rows(rated)
