"""Train networks on four ranks of this machine with any of the schemes; writes logs and results.

    python examples/training/train.py resnet --scheme ring optinc-8
    python examples/training/train.py digits --scheme ring optinc-8
    torchrun --nproc-per-node 4 examples/training/train.py llama --scheme optinc-extracted

Writes a log (.csv: step, loss, seconds) and a result (.json) for every scheme; trainings that have a result are not
repeated. Starts four ranks, unless this process is already a rank of a job, as under torchrun.
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
from data import Data, cifar, digits, generated_images, text
from loop import TASKS, Run, Watch, train
from records import finished, write
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from optinc_collective.schemes import CommunicationError
from optinc_collective.schemes.scheme import report_lost_rank
from optinc_pdk.errors import InputError

OUT = Path("training_out")
CONTEXTS = {"small": 64, "full": 512}
SMALL_IMAGES = (16, 10, 8192, 8192, 0.25)
"""Edge length, classes, numbers of training and test images, noise."""
FULL_IMAGES = (32, 100, 1024, 8, 0.25)
MAX_SEED = 2**64 - 1
"""Largest seed of PyTorch's generators."""
MAX_TIMEOUT_S = 1e6
"""Many days; torch's backend counts milliseconds in an integer."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


def main() -> int:
    """Start the ranks, or run as one of them."""
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
            os._exit(INTERRUPTED)  # an orderly exit would wait for the others; the launcher reports the interruption
        print("interrupted; results so far are kept, start it again to continue", file=sys.stderr)
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Parser of the command line."""
    command_line = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command_line.add_argument(
        "model",
        nargs="+",
        choices=sorted(TASKS["small"]),
        help="networks, trained one after another; digits: the ResNet on scikit-learn's handwritten digits",
    )
    command_line.add_argument(
        "--scheme",
        nargs="+",
        default=["ring"],
        choices=list(schemes.ENTRIES),
        help="schemes, trained one after another",
    )
    command_line.add_argument(
        "--size", default="small", choices=list(TASKS), help="full: those of arXiv 2603.28290, one step"
    )
    command_line.add_argument("--steps", type=int, help="number of steps; by default that of the network")
    command_line.add_argument("--seed", type=int, nargs="+", default=[0], help="seeds of parameters and samples")
    command_line.add_argument("--cifar", type=Path, help="folder with CIFAR-100 or CIFAR-10, binary version")
    command_line.add_argument("--text", type=Path, help="text to train on, instead of Python's language reference")
    command_line.add_argument("-o", "--output", type=Path, default=OUT, help="folder for logs, results and chips")
    command_line.add_argument(
        "--timeout", type=float, default=120.0, help="seconds to wait for a rank that does not answer"
    )
    return command_line


def runs_of(options: argparse.Namespace) -> list[Run]:
    """List the requested trainings.

    Raises:
        InputError: The number of steps, a seed or the timeout is out of range, no model uses the given data, or a model
            has no full size.
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
    if options.cifar is not None and not {"resnet", "chain"} & set(options.model):
        raise InputError(
            f"--cifar {options.cifar}: only resnet and chain are trained on it; leave it out, or train one of them"
        )
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
    """Create the output folder and build the chips that the schemes need.

    Raises:
        InputError: The folder cannot be written to, or a chip cannot be built.
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
    """Load the data for a network."""
    if model == "llama":
        return text(options.text, CONTEXTS[options.size])
    if model == "digits":
        return digits()
    if options.cifar is not None:
        return cifar(options.cifar)
    return generated_images(*(SMALL_IMAGES if options.size == "small" else FULL_IMAGES))


def _rank(options: argparse.Namespace, runs: list[Run]) -> int:
    """Run all trainings without a result on this rank. After an error it exits at once, without waiting for others."""
    ranks.join(options.timeout)
    try:
        if dist.get_world_size() != schemes.SERVERS:
            raise InputError(
                f"{dist.get_world_size()} ranks, but chips for {schemes.SERVERS} servers; start {schemes.SERVERS} ranks"
            )
        loaded = {model: load(options, model) for model in dict.fromkeys(run.model for run in runs)}
        for run in runs:
            data = loaded[run.model]
            if _has_result(run, data, options.output):
                continue
            with _bar(run) as watch:
                result = train(run, data, options.output, watch)
            if dist.get_rank() == 0:
                write(run, result, options.output)
                print(line(result), flush=True)
            with report_lost_rank("the end of a training"):
                dist.barrier()
    except (InputError, CommunicationError) as fault:
        print(f"error: {fault}", file=sys.stderr, flush=True)
        os._exit(2 if isinstance(fault, InputError) else 1)
    dist.destroy_process_group()
    return 0


def _has_result(run: Run, data: Data, folder: Path) -> bool:
    """Whether a training has a result; rank 0 decides for all ranks."""
    result = finished(run, data, folder) if dist.get_rank() == 0 else None
    exists = torch.tensor([result is not None])
    with report_lost_rank("whether a result exists"):
        dist.broadcast(exists, 0)
    if result is not None:
        print(f"{line(result)}  (from an earlier run)", flush=True)
    return bool(exists)


def line(result: dict[str, object]) -> str:
    """Format a result as one line."""
    return (
        f"{result['model']:7} {result['scheme']:17} seed {result['seed']}  loss {result['loss']:.4f}  "
        f"accuracy {100 * result['accuracy']:.2f} %  {result['payload'] + result['side']:,.0f} bytes per step  "
        f"{1e6 * schemes.step_s(result):.3f} µs simulated  {1e3 * result['wall_s']:.1f} ms measured"
    )


@contextmanager
def _bar(run: Run) -> Iterator[Watch]:
    """Show the progress of rank 0 on stderr if that is a terminal."""
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
