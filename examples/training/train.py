"""Train a small network on four ranks of this machine, with any of the schemes, and log what came of it.

    python examples/training/train.py resnet --scheme ring optinc-8
    torchrun --nproc-per-node 4 examples/training/train.py llama --scheme optinc-extracted

Writes a log (.csv: step, loss, seconds) and a result (.json) for every scheme; what is there already is not trained
again. Four ranks are started unless this process is one of a job already, as under torchrun.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ranks
import schemes
import torch
import torch.distributed as dist
from data import Data, cifar, generated_images, text
from loop import TASKS, Run, Watch, train
from results import finished, write
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from optinc_pdk.collective import CommunicationError
from optinc_pdk.collective.scheme import communicating
from optinc_pdk.errors import InputError

OUT = Path("training_out")
CONTEXTS = {"small": 64, "full": 512}
SMALL_IMAGES = (16, 10, 8192, 8192, 0.25)
"""Edge, classes, images to train on and to test with, noise."""
FULL_IMAGES = (32, 100, 1024, 8, 0.25)
MAX_SEED = 2**64 - 1
"""Of PyTorch's generators."""
MAX_TIMEOUT_S = 1e6
"""Days; the engine counts milliseconds in an integer."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as of shells."""


def main() -> int:
    """Start the ranks; or be one of them."""
    options = parser().parse_args()
    try:
        runs = runs_of(options)
        if not ranks.is_rank() or os.environ["RANK"] == "0":
            prepare(options, runs)
        if ranks.is_rank():
            return _rank(options, runs)
        return ranks.launch(sys.argv, schemes.SERVERS)
    except InputError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if ranks.is_rank():
            os._exit(INTERRUPTED)  # an orderly end would wait for the others; who started it tells
        print("interrupted; what has ended is kept, start it again to go on", file=sys.stderr)
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("model", nargs="+", choices=sorted(TASKS["small"]), help="networks, one after another")
    made.add_argument("--scheme", nargs="+", default=["ring"], choices=list(schemes.ENTRIES), help="likewise")
    made.add_argument("--size", default="small", choices=list(TASKS), help="full: those of arXiv 2603.28290, one step")
    made.add_argument("--steps", type=int, help="instead of the network's own number of steps")
    made.add_argument("--seed", type=int, nargs="+", default=[0], help="of parameters and samples")
    made.add_argument("--cifar", type=Path, help="folder with CIFAR-100 or CIFAR-10, binary version")
    made.add_argument("--text", type=Path, help="text to train on, instead of Python's language reference")
    made.add_argument("-o", "--output", type=Path, default=OUT, help="folder for logs, results and chips")
    made.add_argument("--timeout", type=float, default=120.0, help="seconds to wait for a rank that does not answer")
    return made


def runs_of(options: argparse.Namespace) -> list[Run]:
    """The trainings asked for.

    Raises:
        InputError: A number that is none of steps, a seed or a timeout, data that no model takes, or a model that has
            no full size.
    """
    if options.steps is not None and options.steps < 1:
        raise InputError(f"--steps {options.steps}: give at least 1")
    for seed in options.seed:
        if not 0 <= seed <= MAX_SEED:
            raise InputError(f"--seed {seed}: give whole numbers from 0 to {MAX_SEED}")
    if not 1 <= options.timeout <= MAX_TIMEOUT_S:
        raise InputError(f"--timeout {options.timeout:g}: give from 1 to {MAX_TIMEOUT_S:g} seconds")
    if options.text is not None and "llama" not in options.model:
        raise InputError(f"--text {options.text}: only llama is trained on text; leave it out, or train llama")
    if options.cifar is not None and set(options.model) == {"llama"}:
        raise InputError(f"--cifar {options.cifar}: llama is trained on text; leave it out, or train resnet or chain")
    tasks = TASKS[options.size]
    missing = [model for model in options.model if model not in tasks]
    if missing:
        raise InputError(f"{missing[0]} has no size {options.size}; give one of {', '.join(tasks)}")
    return [
        Run(options.size, model, scheme, options.steps or tasks[model].steps, seed)
        for model in options.model
        for seed in options.seed
        for scheme in options.scheme
    ]


def prepare(options: argparse.Namespace, runs: list[Run]) -> None:
    """Make the output's folder and the chips that the schemes take.

    Raises:
        InputError: Nothing can be written there, or a chip cannot be built.
    """
    try:
        options.output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=options.output):
            pass
    except OSError as fault:
        raise InputError(f"{options.output}: cannot be written to ({fault.strerror}); give another folder") from fault
    for kind in dict.fromkeys(schemes.ENTRIES[run.scheme].chip for run in runs):
        if kind:
            schemes.build_chip(kind, options.output)


def load(options: argparse.Namespace, model: str) -> Data:
    """What a network is trained on."""
    if model == "llama":
        return text(options.text, CONTEXTS[options.size])
    if options.cifar is not None:
        return cifar(options.cifar)
    return generated_images(*(SMALL_IMAGES if options.size == "small" else FULL_IMAGES))


def _rank(options: argparse.Namespace, runs: list[Run]) -> int:
    """Train all that is not there yet; an error ends the rank at once, for an orderly end would wait for the others."""
    ranks.join(options.timeout)
    try:
        if dist.get_world_size() != schemes.SERVERS:
            raise InputError(f"{dist.get_world_size()} ranks; the chips take {schemes.SERVERS} servers, start as many")
        loaded = {model: load(options, model) for model in dict.fromkeys(run.model for run in runs)}
        for run in runs:
            data = loaded[run.model]
            if _is_there(run, data, options.output):
                continue
            with _bar(run) as watch:
                result = train(run, data, options.output, watch)
            if dist.get_rank() == 0:
                write(run, result, options.output)
                print(line(result), flush=True)
            with communicating("the end of a training"):
                dist.barrier()
    except (InputError, CommunicationError) as fault:
        print(f"error: {fault}", file=sys.stderr, flush=True)
        os._exit(2 if isinstance(fault, InputError) else 1)
    dist.destroy_process_group()
    return 0


def _is_there(run: Run, data: Data, folder: Path) -> bool:
    """Whether a training need not be done; what rank 0 sees counts, so that all ranks go on with the same one."""
    found = finished(run, data, folder) if dist.get_rank() == 0 else None
    told = torch.tensor([found is not None])
    with communicating("what is there already"):
        dist.broadcast(told, 0)
    if found is not None:
        print(f"{line(found)}  (was there)", flush=True)
    return bool(told)


def line(result: dict[str, object]) -> str:
    """A result in one line."""
    return (
        f"{result['model']:7} {result['scheme']:17} seed {result['seed']}  loss {result['loss']:.4f}  "
        f"accuracy {100 * result['accuracy']:.2f} %  {result['payload'] + result['side']:,.0f} bytes a step  "
        f"{1e6 * schemes.step_s(result):.3f} µs simulated  {1e3 * result['wall_s']:.1f} ms measured"
    )


@contextmanager
def _bar(run: Run) -> Iterator[Watch]:
    """Progress of rank 0 on stderr; silent where that is no terminal."""
    console = Console(stderr=True)
    shown = dist.get_rank() == 0 and console.is_terminal
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not shown) as bar:
        task = bar.add_task(f"{run.model} {run.scheme}", total=run.steps)

        def watch(steps: int, loss: float) -> None:
            bar.update(task, completed=steps, description=f"{run.model} {run.scheme} {loss:.3f}")

        yield watch


if __name__ == "__main__":
    sys.exit(main())
