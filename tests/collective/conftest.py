"""Ranks: processes of one job on this machine, started once, that run functions of the tests.

A function runs on all ranks at the same time, as a script would under `torchrun`::

    def mean(start):
        values = torch.full((3,), start + dist.get_rank())
        dist.all_reduce(values)
        return values.numpy() / dist.get_world_size()

    def test_mean(ranks):
        for mean_of_rank in ranks.run(mean, 1.0):
            assert ...

It has to stand at a module's top level, for the ranks load it from its file by its name.
"""

import inspect
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

import numpy as np
import pytest

import optinc_pdk.onn
from optinc_pdk.averaging import Averaging
from optinc_pdk.onn import Onn
from optinc_pdk.signoff.function import FunctionResult, inputs_of, write_function

WORLD = 4
ENGINE_SECONDS = 60.0
RUN_SECONDS = 120.0


class RankFailureError(AssertionError):
    """A rank raised, died, or did not end in time."""


class Died(Exception):  # noqa: N818 - an outcome, not an error of the tests
    """What `outcomes` gives for a rank whose process ended."""


class Ranks:
    """A job of several processes with one thread each, joined by gloo."""

    def __init__(self, world: int = WORLD, engine_seconds: float = ENGINE_SECONDS) -> None:
        self.world = world
        self.engine_seconds = engine_seconds
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._pipes: list[Connection] = []

    def run(self, function: Callable[..., object], *arguments: object, seconds: float = RUN_SECONDS) -> list:
        """Call a function on every rank; returns what it returned, by rank.

        Raises RankFailureError with every rank's traceback where one failed.
        """
        answers = self._answers(function, arguments, seconds)
        failed = {rank: text for rank, (good, _, text) in enumerate(answers) if not good}
        if failed:
            self.stop()  # the others may be in the middle of a collective; the next run starts afresh
            raise RankFailureError("\n".join(f"--- rank {rank} ---\n{text}" for rank, text in failed.items()))
        return [answer for _, answer, _ in answers]

    def outcomes(self, function: Callable[..., object], *arguments: object, seconds: float = RUN_SECONDS) -> list:
        """Call a function on every rank; returns by rank what it returned, the exception it raised, or `Died`."""
        answers = self._answers(function, arguments, seconds)
        if any(isinstance(answer, Died) for _, answer, _ in answers):
            self.stop()
        return [answer for _, answer, _ in answers]

    def start(self) -> None:
        """Start the processes, if they do not run."""
        if self._processes:
            return
        self._folder = tempfile.TemporaryDirectory(prefix="ranks")
        script = Path(__file__).with_name("rank_process.py")
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
        for rank in range(self.world):
            ours, theirs = Pipe()
            store = Path(self._folder.name, "store")
            numbers = (rank, self.world, store, theirs.fileno(), self.engine_seconds)
            command = [sys.executable, "-W", "error", str(script), *map(str, numbers)]
            self._processes.append(subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment))
            self._pipes.append(ours)
            theirs.close()

    def stop(self) -> None:
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.close()
            process.kill()
            process.wait()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None):
        self.stop()

    def _answers(self, function: Callable[..., object], arguments: tuple, seconds: float) -> list:
        self.start()
        deadline = time.monotonic() + seconds
        request = (inspect.getfile(function), function.__name__, arguments)
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
                code = self._processes[rank].wait()
                answers.append((False, Died(code), f"the process ended with code {code}"))
        return answers


@pytest.fixture(scope="session")
def ranks() -> Iterator[Ranks]:
    """Four ranks that all tests of a worker share; `run` has to leave no collective half done."""
    with Ranks() as shared:
        yield shared


@pytest.fixture
def own_ranks() -> Iterator[Callable[[int, float], Ranks]]:
    """Starts ranks of a test's own: `own_ranks(world, engine_seconds)`."""
    started: list[Ranks] = []

    def start(world: int, engine_seconds: float) -> Ranks:
        started.append(Ranks(world, engine_seconds))
        return started[-1]

    yield start
    for job in started:
        job.stop()


@pytest.fixture(scope="session")
def onn_4bit() -> Onn:
    """The bundled network of 4 servers with 4-bit words, exact."""
    return Onn.load(Path(optinc_pdk.onn.__file__).parent / "networks" / "average_4bit_4servers.npz")


def _write_table(path: Path, task: Averaging, errors: dict[tuple[int, int, int], int]) -> None:
    """A table whose words are ideal but for errors, by assignment, input and server."""
    tried = inputs_of(task)
    assignments = 1 if tried.exhaustive else 2
    words = np.tile(tried.ideal[:, None], (assignments, 1, task.servers))
    for place, error in errors.items():
        words[place] += error
    shape = (assignments, *tried.symbols.shape)
    write_function(
        FunctionResult(
            symbols=np.broadcast_to(tried.symbols, shape).astype(np.uint8),
            ideal=tried.ideal,
            words=words,
            outputs=np.zeros(shape),
            exact=0,
            margin=0.0,
            saturated=0,
            loss_db=0.0,
            exhaustive=tried.exhaustive,
            margins=np.zeros(tried.symbols.shape[::2]),
        ),
        path,
    )


@pytest.fixture(scope="session")
def write_table() -> Callable[[Path, Averaging, dict[tuple[int, int, int], int]], None]:
    """Writes a `.function.npz`: `write_table(path, task, errors)`."""
    return _write_table


@pytest.fixture
def faulty_table(tmp_path: Path) -> Path:
    """The table of a 4-bit chip that errs at every ninth combination, for a server alone or for all."""
    path = tmp_path / "faulty.function.npz"
    wrong = range(0, 4**8 - 16 * 1111, 9)
    _write_table(path, Averaging(4, 4, 2), {(0, number, server): 1 for number in wrong for server in (0, number % 4)})
    return path
