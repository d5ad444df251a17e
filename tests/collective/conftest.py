"""Fixtures that run a function of a test on several ranks, processes of one job on this machine.

A function runs on all ranks at the same time, as a script under `torchrun`::

    def mean(start):
        values = torch.full((3,), start + dist.get_rank())
        dist.all_reduce(values)
        return values.numpy() / dist.get_world_size()

    def test_mean(ranks):
        for mean_of_rank in ranks.run(mean, 1.0):
            assert ...

The function must be defined at the top level of a module: the ranks load it by its name from its file.

Ranks are forked from one process that has imported torch and the collectives without using them. So a job starts in a
fraction of a second, and a test may kill the ranks of its own job.
"""

import inspect
import multiprocessing
import runpy
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

import optinc_pdk.networks
from optinc_pdk.averaging import Averaging
from optinc_pdk.networks import AveragingNetwork
from optinc_pdk.signoff.function import function_inputs, write_function
from optinc_pdk.signoff.function._result import FunctionTally, Readings

WORLD = 4
ENGINE_SECONDS = 60.0
RUN_SECONDS = 120.0

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["torch.nn.parallel", "torch._dynamo", "optinc_collective.schemes._codec_kernels"])


class RankFailureError(AssertionError):
    """A rank raised an exception, died, or did not end in time."""


class Died(Exception):  # noqa: N818 - an outcome, not an error of the tests
    """Outcome of a rank whose process ended."""


@dataclass(frozen=True)
class End:
    """How the process of a rank ended: by an uncaught exception, or killed.

    Attributes:
        code: Its exit code; if negative, the signal that killed it.
        fault: The exception, or None.
    """

    code: int
    fault: Exception | None


class Ranks:
    """A job of several processes with one thread each, connected by gloo."""

    def __init__(self, world: int = WORLD, engine_seconds: float = ENGINE_SECONDS) -> None:
        self.world = world
        self.engine_seconds = engine_seconds
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[ForkServerProcess] = []
        self._pipes: list[Connection] = []

    def run(self, function: Callable[..., object], *arguments: object, seconds: float = RUN_SECONDS) -> list:
        """Call a function on every rank; returns the results by rank.

        Raises RankFailureError with the tracebacks of all ranks that failed.
        """
        answers = self._answers(function, arguments, seconds, False)
        failed = {rank: text for rank, (good, _, text) in enumerate(answers) if not good}
        if failed:
            self.stop()  # the others may be inside a collective; the next run starts new processes
            raise RankFailureError("\n".join(f"--- rank {rank} ---\n{text}" for rank, text in failed.items()))
        return [answer for _, answer, _ in answers]

    def outcomes(self, function: Callable[..., object], *arguments: object, seconds: float = RUN_SECONDS) -> list:
        """Call a function on every rank; returns by rank its result, the exception it raised, or `Died`."""
        answers = self._answers(function, arguments, seconds, False)
        if any(isinstance(answer, Died) for _, answer, _ in answers):
            self.stop()
        return [answer for _, answer, _ in answers]

    def ends(self, function: Callable[..., object], *arguments: object, seconds: float = RUN_SECONDS) -> list[End]:
        """Call a function during which every process ends; returns by rank how it ended."""
        answers = self._answers(function, arguments, seconds, True)
        ends = []
        for rank, (good, answer, _) in enumerate(answers):
            if good:
                self.stop()
                raise RankFailureError(f"rank {rank} of {self.world} did not end and returned {answer!r}")
            self._processes[rank].join()
            code = self._processes[rank].exitcode
            assert code is not None
            ends.append(End(code, None if isinstance(answer, Died) else answer))
        self.stop()
        return ends

    def start(self) -> None:
        """Start the processes, if they are not running."""
        if self._processes:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="ranks")
        script = Path(__file__).with_name("rank_process.py")
        store = Path(self._folder.name, "store")
        for rank in range(self.world):
            ours, theirs = FORKED.Pipe()
            job = {"job": (rank, self.world, store, theirs, self.engine_seconds)}
            process = FORKED.Process(target=runpy.run_path, args=(str(script), job, "__main__"), daemon=True)
            process.start()
            self._processes.append(process)
            self._pipes.append(ours)
            theirs.close()

    def stop(self) -> None:
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.kill()
            process.join()
            process.close()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None):
        self.stop()

    def _answers(self, function: Callable[..., object], arguments: tuple, seconds: float, last: bool) -> list:
        self.start()
        deadline = time.monotonic() + seconds
        request = (inspect.getfile(function), function.__name__, arguments, last)
        for pipe in self._pipes:
            pipe.send(request)
        answers = []
        for rank, pipe in enumerate(self._pipes):
            try:
                if not pipe.poll(max(0.0, deadline - time.monotonic())):
                    self.stop()
                    raise RankFailureError(f"rank {rank} of {self.world} did not end within {seconds} s")
                answers.append(pipe.recv())
            except (EOFError, ConnectionError):
                self._processes[rank].join()
                code = self._processes[rank].exitcode
                answers.append((False, Died(code), f"the process ended with code {code}"))
        return answers


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """Four ranks, shared by all tests of a worker; a test must complete every collective that it starts."""
    with Ranks() as shared:
        yield shared


@pytest.fixture
def own_ranks() -> Iterator[Callable[[int, float], Ranks]]:
    """Function that starts ranks for one test alone: `own_ranks(world, engine_seconds)`."""
    started: list[Ranks] = []

    def start(world: int, engine_seconds: float) -> Ranks:
        started.append(Ranks(world, engine_seconds))
        return started[-1]

    yield start
    for job in started:
        job.stop()


@pytest.fixture(scope="session")
def onn_4bit() -> AveragingNetwork:
    """The bundled network of 4 servers with 4-bit words, exact."""
    return AveragingNetwork.load(Path(optinc_pdk.networks.__file__).parent / "bundled" / "average_4bit_4servers.npz")


def _write_table(path: Path, task: Averaging, errors: dict[tuple[int, int, int], int]) -> None:
    """Write a table of ideal words plus errors, given by (assignment, input, server)."""
    inputs = function_inputs(task)
    words = np.tile(inputs.ideal[:, None], (inputs.assignments, 1, task.servers))
    for position, error in errors.items():
        words[position] += error
    shape = (inputs.assignments, *inputs.symbols.shape)
    tally = FunctionTally(task, len(inputs.ideal))
    tally.add(Readings(inputs, np.broadcast_to(inputs.symbols, shape), words, np.zeros(shape), 0))
    result = tally.result(
        coverage=inputs.coverage, corners=0, loss_db=0.0, hop_loss_db=(), certificate=None, no_certificate=""
    )
    write_function(result, path)


@pytest.fixture(scope="session")
def write_table() -> Callable[[Path, Averaging, dict[tuple[int, int, int], int]], None]:
    """Function that writes a `.function.npz`: `write_table(path, task, errors)`."""
    return _write_table


@pytest.fixture
def faulty_table(tmp_path: Path) -> Path:
    """Table of a 4-bit chip with errors at every ninth combination, for the first server and one more."""
    path = tmp_path / "faulty.function.npz"
    wrong = range(0, 4**8 - 16 * 1111, 9)
    _write_table(path, Averaging(4, 4, 2), {(0, number, server): 1 for number in wrong for server in (0, number % 4)})
    return path
