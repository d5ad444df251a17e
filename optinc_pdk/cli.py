"""The command line. Every command imports what it needs itself, so that ``--help`` answers at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from optinc_pdk.files import InputError

if TYPE_CHECKING:
    from optinc_pdk.averaging import Averaging
    from optinc_pdk.cards import Process
    from optinc_pdk.circuit import Bias, Circuit
    from optinc_pdk.flow import Build

PASSED, FAILED, UNUSABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130
DEFAULT = "soi220"
NETLISTS = (".yml", ".yaml")

app = typer.Typer(
    help="From trained weights to a signed-off photonic chip that computes a quantized average.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Weights = Annotated[Path, typer.Argument(help="Weight file: .npz, .safetensors or .onnx.")]
Gds = Annotated[Path, typer.Argument(help="Layout, GDS2 or OASIS.")]
Netlist = Annotated[Path, typer.Argument(help="Netlist, .pic.yml.")]
BiasFile = Annotated[Path, typer.Option("--bias", help="Bias file, .bias.yml.")]
Out = Annotated[Path | None, typer.Option("-o", "--output", help="File to write; beside the input by default.")]
ProcessName = Annotated[str, typer.Option("--process", help="Process name, or a folder with process cards.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Bits = Annotated[int | None, typer.Option(help="Bits of a word; for files that carry no task.")]
Servers = Annotated[int | None, typer.Option(help="Number of servers; for files that carry no task.")]
Groups = Annotated[int | None, typer.Option(help="Number of network inputs; for files that carry no task.")]
TaskBits = Annotated[int, typer.Option("--bits", help="Bits of a word.")]
TaskServers = Annotated[int, typer.Option("--servers", help="Number of servers.")]
TaskGroups = Annotated[int | None, typer.Option("--groups", help="Number of inputs; one per symbol by default.")]
Remainder = Annotated[bool, typer.Option("--remainder", help="Level 1 of a cascade: fraction in the last output.")]
FinerInput = Annotated[bool, typer.Option("--finer-input", help="Level 2 of a cascade: the last input is finer.")]
WeightsOut = Annotated[Path, typer.Option("-o", "--output", help="Weight file to write, .npz.")]


@app.command()
def build(
    weights: Annotated[Path | None, typer.Argument(help="Weight file; the bundled 4-bit network if left out.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the chip's files.")] = Path("gds_out"),
    name: Annotated[str | None, typer.Option(help="Chip name; the weight file's stem by default.")] = None,
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Build a chip from trained weights and check it: layout, rules, netlist, function."""
    from optinc_pdk import flow
    from optinc_pdk.onn import Onn

    with _progress(flow.STAGES) as watch:
        source: Path | Onn | None = weights
        if weights is not None and (bits, servers, groups) != (None, None, None):
            source = Onn.load(weights, bits, servers, groups)
            name = weights.stem if name is None else name
        done = flow.build(source, output, name, process, watch)
    if as_json:
        print(done.report.to_json(), end="")
    else:
        _summary(done)
    raise typer.Exit(PASSED if done.passed else FAILED)


@app.command()
def factor(
    weights: Weights,
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Factor the matrices of a network: errors, MZIs, phase shifters."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.onn import Onn
    from optinc_pdk.report.tables import factor_rows, factor_table

    splitter_db = load_process(process).device("mmi1x2").parameter("loss_db")
    onn = Onn.load(weights, bits, servers, groups)
    try:
        rows = factor_rows(onn, splitter_db)
    except InputError as fault:
        raise InputError(f"{weights}: {fault}") from fault
    if as_json:
        print(json.dumps({"schema": 1, "layers": rows}, indent=2))
    else:
        _print(factor_table(rows))


@app.command()
def size(
    weights: Annotated[list[Path], typer.Argument(help="Weight files: .npz, .safetensors or .onnx.")],
    process: ProcessName = DEFAULT,
    bits: Bits = None,
    servers: Servers = None,
    groups: Groups = None,
    as_json: Json = False,
) -> None:
    """Size of networks' chips against area, pads, power and light, beside the paper's; no layout is made."""
    from optinc_pdk.assemble import check_weights
    from optinc_pdk.cards import load_process
    from optinc_pdk.onn import Onn
    from optinc_pdk.report.size import onn_size, paper_sizes
    from optinc_pdk.report.size_table import size_markdown, size_rows

    card = load_process(process)
    given = [(path, Onn.load(path, bits, servers, groups)) for path in weights]
    tasks = {(onn.task.bits, onn.task.servers): onn.task for _, onn in given}
    sizes = [one for task in tasks.values() for one in paper_sizes(task, card)]
    with _progress(tuple(str(path) for path in weights)) as watch:
        for path, onn in given:
            watch(str(path))
            try:
                check_weights(onn)
                sizes.append(onn_size(path.stem, onn, card))
            except InputError as fault:
                raise InputError(f"{path}: {fault}") from fault
    if as_json:
        print(json.dumps({"schema": 1, "process": card.name, "networks": size_rows(sizes)}, indent=2))
    else:
        print(size_markdown(sizes, card), end="")


@app.command()
def drc(
    gds: Gds,
    bias: Annotated[Path | None, typer.Option(help="Bias file, for rules on currents.")] = None,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Check design rules; writes a .drc.lyrdb marker database. Rules on currents are not run without a bias."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.report.collect import currents_lines, drc_numbers
    from optinc_pdk.report.tables import drc_rows, drc_table
    from optinc_pdk.signoff.drc import check_chip
    from optinc_pdk.signoff.electrical import check_currents, full_currents
    from optinc_pdk.signoff.lyrdb import write_lyrdb
    from optinc_pdk.signoff.wiring import read_wiring

    card = load_process(process)
    drive = None if bias is None else _bias(bias, card)
    result, currents = check_chip(gds, card), None
    if drive is not None:
        result, currents = check_currents(result, read_wiring(gds, card), drive)
    write_lyrdb(result, output or gds.with_suffix(".drc.lyrdb"))
    rows = drc_rows(result)
    if as_json:
        numbers = drc_numbers(result, currents) | {"rules": rows}
        print(json.dumps({"schema": 1} | numbers, indent=2))
    else:
        _print(drc_table(rows))
        for line in [] if currents is None else currents_lines(currents, full_currents(currents.wiring)):
            print(line)
        left = f", {result.not_run} not run: give --bias" if result.not_run else ""
        print(f"{result.violations} violations of {len(result.rules)} rules{left}")
    _process_hint(result.violations == 0, gds, card)
    raise typer.Exit(FAILED if result.violations else PASSED)


@app.command()
def deck(
    output: Annotated[Path, typer.Option("-o", "--output", help="Script to write, .lydrc.")] = Path("optinc.lydrc"),
    process: ProcessName = DEFAULT,
) -> None:
    """Write a process's design rules as a script for KLayout's application."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.files import write_atomic
    from optinc_pdk.signoff.deck import deck_script
    from optinc_pdk.signoff.drc import BIASED

    card = load_process(process)
    if output.suffix != ".lydrc":
        raise InputError(f"{output}: KLayout reads such scripts from .lydrc files; give the file this ending")
    write_atomic(output, deck_script(card.name, card.rules, card.gds_layers))
    left_out = [rule.id for rule in card.rules if rule.kind in BIASED]
    print(f"{output}: {len(card.rules) - len(left_out)} rules of {card.name}")
    if left_out:
        print(f"not in this deck: {', '.join(left_out)}, which need the bias; optinc drc --bias checks them")
    print(f"in a shell: QT_QPA_PLATFORM=offscreen klayout -b -r {output} -rd input=a.gds -rd report=a.lyrdb")
    print("in KLayout: put it into the folder .klayout/drc, then Tools > DRC checks the layout that is shown")


@app.command()
def lvs(
    gds: Gds,
    netlist: Netlist,
    output: Out = None,
    process: ProcessName = DEFAULT,
    second_opinion: Annotated[
        bool,
        typer.Option("--second-opinion", help="Also ask KLayout's netlist comparer, on small chips."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare the circuit extracted from a layout with the netlist; writes .lvs.json."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.circuit import read_netlist
    from optinc_pdk.extract import extract
    from optinc_pdk.report.collect import difference_line
    from optinc_pdk.signoff import second_opinion as klayout
    from optinc_pdk.signoff.belonging import check_netlist
    from optinc_pdk.signoff.lvs import compare, write_lvs, write_lvs_lyrdb

    card, reference = load_process(process), read_netlist(netlist)
    extraction = extract(gds, card)
    with _named(netlist):
        check_netlist(reference, extraction, card)
    result = compare(reference, extraction, card)
    other = klayout.second_opinion(reference, extraction.circuit, card) if second_opinion else None
    path = output or gds.with_suffix(".lvs.json")
    write_lvs(result, path)
    write_lvs_lyrdb(result, gds, path.with_suffix(".lyrdb"))
    if as_json:
        opinion = {"second_opinion": asdict(other)} if other else {}
        print(json.dumps(result.to_json() | opinion, indent=2))
    else:
        for difference in result.differences:
            print(difference_line(difference))
        verdict = "match" if result.match else "NO match"
        print(
            f"{verdict}: {result.devices} devices and {result.nets} nets agree, {result.total_differences} differences"
        )
        if other:
            told = ": no counterpart to " + ", ".join(other.mismatches) if other.mismatches else ""
            print(f"KLayout's netlist comparer: {'match' if other.match else 'NO match'}{told}")
    _process_hint(result.match, gds, card)
    raise typer.Exit(PASSED if result.match and (other is None or other.match) else FAILED)


def _count_wavelengths(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {total} wavelengths", end="" if done < total else "\n", file=sys.stderr)


@app.command()
def simulate(
    source: Annotated[Path, typer.Argument(help="Layout (extracted first) or netlist.")],
    bias: BiasFile,
    wavelengths: Annotated[
        str | None, typer.Option(help="Wavelengths in nm: one, a list 1549,1550 or a range 1540:1560:5.")
    ] = None,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """S-matrices of the linear blocks as the bias drives them; writes .s.npz, or Touchstone to -o FILE.sNp."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.simulate.files import block_scattering, parse_wavelengths, write_scattering

    card = load_process(process)
    wanted = parse_wavelengths(wavelengths, float(card.guide.wavelength_nm))
    ground = None
    if source.suffix not in NETLISTS:
        from optinc_pdk.signoff.wiring import read_wiring

        ground = read_wiring(source, card).common
    blocks = block_scattering(_circuit(source, card), _bias(bias, card), wanted, card, ground, _count_wavelengths)
    path = output or source.with_name(f"{_stem(source)}.s.npz")
    write_scattering(wanted, blocks, path)
    shapes = [{"ports": len(block.labels), "shape": list(block.s.shape)} for block in blocks]
    if as_json:
        print(json.dumps({"schema": 1, "file": str(path), "wavelengths_nm": wanted.tolist(), "blocks": shapes}))
    else:
        print(f"{path}: {len(wanted)} wavelengths, " + ", ".join(f"{shape['ports']} ports" for shape in shapes))


@app.command()
def check(
    weights: Weights,
    gds: Gds,
    netlist: Netlist,
    bias: BiasFile,
    output: Out = None,
    process: ProcessName = DEFAULT,
    as_json: Json = False,
) -> None:
    """Check the function of the extracted layout, every word; writes .function.npz."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.circuit import read_netlist
    from optinc_pdk.extract import extract
    from optinc_pdk.onn import Onn
    from optinc_pdk.report.collect import function_findings, function_numbers
    from optinc_pdk.signoff.function import check_function, write_function
    from optinc_pdk.signoff.wiring import read_wiring

    card, task = load_process(process), Onn.load(weights).task
    board = read_netlist(netlist).board
    if board is None:
        raise InputError(f"{netlist}: it has no board under info.board; give the netlist of a whole chip")
    drive = _bias(bias, card)
    with _progress(("extract", "function")) as watch:
        watch("extract")
        circuit = extract(gds, card).circuit
        watch("function")
        result = check_function(circuit, board, drive, task, card, read_wiring(gds, card).common)
    write_function(result, output or gds.with_suffix(".function.npz"))
    if as_json:
        print(json.dumps({"schema": 1} | (function_numbers(result) or {}), indent=2))
    else:
        print(f"{result.exact:,}/{result.inputs:,} words exact, margin {result.margin:.3f} levels")
        for line in function_findings(result):
            print(line)
    raise typer.Exit(PASSED if result.passed else FAILED)


@app.command()
def view(
    gds: Gds,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder; that of the layout by default.")
    ] = None,
    png: Annotated[bool, typer.Option("--png", help="Write pictures even where KLayout could be opened.")] = False,
    process: ProcessName = DEFAULT,
) -> None:
    """Open a layout in KLayout, or write pictures of chip, layer, mesh and MZI where there is no KLayout or display."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.report.view import PICTURES, klayout_application, open_klayout, write_pictures

    card, directory = load_process(process), gds.parent if output is None else output
    application = None if png else klayout_application()
    if application is not None:
        print(open_klayout(application, gds, card, directory))
        return
    with _progress(PICTURES) as watch:
        written = write_pictures(gds, card, directory, watch)
    for path in written:
        print(path)
    if len(written) < len(PICTURES):
        print(f"optinc: {gds} has no heaters side by side, so the whole layout is drawn alone", file=sys.stderr)


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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from optinc_pdk.onn import Onn, carry_chain, lattice_score
    from optinc_pdk.onn.training.starts import random_start
    from optinc_pdk.onn.training.train import Progress as State
    from optinc_pdk.onn.training.train import Schedule
    from optinc_pdk.onn.training.train import train as run

    task = _task(bits, servers, groups, remainder, finer_input)
    if output.suffix != ".npz":
        raise InputError(f"{output}: weights are written as .npz; give the file this ending")
    if start is not None and hidden is not None:
        raise InputError("--start and --hidden exclude each other: train on from a file, or start at random")
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
        if start is not None and start.suffix == ".npz":
            first = Onn.load(start)
        elif start is not None:
            first = replace(Onn.load(start, bits, servers, task.groups), task=task)
        elif hidden is not None:
            first = random_start(task, _numbers("--hidden", hidden, "-"), seed)
        else:
            first = carry_chain(task)
    except ValueError as fault:
        raise InputError(str(fault)) from fault
    if first.task != task:
        raise InputError(f"{start}: it computes {first.task}, not {task}; give its own bits, servers and groups")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("training", total=steps)

        def watch(state: State) -> None:
            words = f"{state.errors:,} errors, margin {state.margin:.3f}, {state.tolerance:.2%} under noise"
            bar.update(line, completed=state.step, description=words)

        onn = run(first, schedule, seed, watch, checkpoint, device)
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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from optinc_pdk.files import write_atomic
    from optinc_pdk.onn import Onn
    from optinc_pdk.onn.training.schedule import Progress as State
    from optinc_pdk.onn.training.search import Candidate, front, judge, write_candidates
    from optinc_pdk.onn.training.search import search as run
    from optinc_pdk.report.plots import front_png

    task = _task(bits, servers, groups, remainder, finer_input)
    given = [(path, Onn.load(path, bits, servers, groups)) for path in also or []]
    for path, onn in given:
        if onn.task != task:
            raise InputError(f"{path}: it computes {onn.task}, not {task}; leave it out")
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("search", total=steps)

        def watch(name: str, state: State) -> None:
            words = f"{name}: {state.errors:,} errors, margin {state.margin:.3f}, {state.tolerance:.2%} under noise"
            bar.update(line, completed=state.step, description=words)

        def found(one: Candidate) -> None:
            structure = "-".join(map(str, one.onn.structure))
            words = f"{one.share:.3%} exact, margin {one.margin:.3f}, 99.9 % to ε = {one.tolerated:.2g}"
            console.print(f"{one.name}: {structure}, {one.mzis:,} MZIs, {words}", highlight=False, soft_wrap=True)

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


@app.command()
def cells(
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write, .md.")] = Path("docs/cells.md"),
    process: ProcessName = DEFAULT,
) -> None:
    """Write the gallery of a process's cells: a page with a picture of each, its ports, its card and its model."""
    from optinc_pdk.cards import load_process
    from optinc_pdk.pdk import get_pdk
    from optinc_pdk.report.gallery import write_gallery

    card = load_process(process)
    get_pdk(process).activate()
    print(f"{output}: {write_gallery(card, output)} cells")


def main() -> None:
    """Run a command; errors become one line and an exit code."""
    try:
        app(standalone_mode=True)
    except InputError as fault:
        print(f"optinc: {fault}", file=sys.stderr)
        sys.exit(UNUSABLE)
    except KeyboardInterrupt:
        print("optinc: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except OSError as fault:
        print(
            f"optinc: {fault.filename or ''}: {fault.strerror}; check the path and its permissions",
            file=sys.stderr,
        )
        sys.exit(UNUSABLE)
    except Exception:
        import traceback

        traceback.print_exc()
        print("optinc: internal error; please report it with the lines above", file=sys.stderr)
        sys.exit(INTERNAL)


@contextmanager
def _progress(stages: tuple[str, ...]) -> Iterator[Callable[[str], None]]:
    """A bar over the stages on stderr; silent where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:>9}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=len(stages))

        def watch(stage: str) -> None:
            bar.update(task, description=stage, completed=stages.index(stage))

        yield watch


def _summary(done: Build) -> None:
    from optinc_pdk.report.tables import summary_table

    _print(summary_table(done.report))
    for line in done.findings:
        print(line, file=sys.stderr)
    print(f"verdict {done.report.verdict}: {done.directory / done.report.name}.report.html")


def _print(table: Any) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 110).print(table)


def _task(bits: int, servers: int, groups: int | None, remainder: bool, finer_input: bool) -> Averaging:
    """One input per symbol unless said otherwise; refusals become the user's."""
    from optinc_pdk.averaging import Averaging

    try:
        return Averaging(bits, servers, bits // 2 if groups is None else groups, remainder, finer_input)
    except ValueError as fault:
        raise InputError(str(fault)) from fault


def _numbers(name: str, text: str | None, separator: str) -> tuple[int, ...]:
    """Whole numbers of an option, or none."""
    try:
        return () if text is None else tuple(int(part) for part in text.split(separator))
    except ValueError as fault:
        raise InputError(f"{name} {text}: give whole numbers, joined by {separator!r}") from fault


def _bias(path: Path, process: Process) -> Bias:
    from optinc_pdk.circuit import read_bias

    bias = read_bias(path)
    if bias.process != process.name:
        raise InputError(
            f"{path}: it drives process {bias.process!r}, not {process.name!r}; give that process with --process"
        )
    return bias


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in what is said of its content."""
    try:
        yield
    except InputError as fault:
        raise InputError(f"{path}: {fault}") from fault


def _process_hint(passed: bool, gds: Path, process: Process) -> None:
    """Say where a layout with faults looks like one of another process."""
    from optinc_pdk.signoff.belonging import process_hint

    if not passed and (hint := process_hint(gds, process)):
        print(f"optinc: {gds}: {hint}", file=sys.stderr)


def _stem(path: Path) -> str:
    return path.name.removesuffix(".yml").removesuffix(".pic").removesuffix(".gds").removesuffix(".oas")


def _circuit(path: Path, process: Process) -> Circuit:
    """A netlist as written, or the circuit extracted from a layout."""
    if path.suffix in NETLISTS:
        from optinc_pdk.circuit import read_netlist

        return read_netlist(path)
    from optinc_pdk.extract import extract

    return extract(path, process).circuit
