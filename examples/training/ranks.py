"""Start the ranks of a job on this machine, monitor them, and end all when one is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from types import FrameType

import torch
import torch.distributed as dist

BAD_INPUT = 2
"""Exit code of a rank with invalid input."""
GRACE_PERIOD_S = 20.0
"""Time for other ranks to detect and report a lost rank before they are killed."""


def is_rank() -> bool:
    """Whether this process is a rank started by `launch` or torchrun."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def join(timeout_s: float) -> None:
    """Join the job given by the environment variables.

    Args:
        timeout_s: Time to wait for a rank that does not answer, in seconds.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))


def end_on_request() -> None:
    """Make SIGTERM raise SystemExit, so that this process ends its children first."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def launch(arguments: list[str], world: int) -> int:
    """Run a script as several ranks and wait for them.

    Args:
        arguments: The script and its arguments.
        world: Number of ranks.

    Returns:
        Exit code of the job: 0 if all ranks succeeded, 1 if a rank was killed, else the code of the rank that failed
        first. The rank and its messages are written to stderr.
    """
    end_on_request()
    with socket.socket() as probe, tempfile.TemporaryDirectory() as folder:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        logs = [Path(folder, f"rank{rank}") for rank in range(world)]
        ranks = [_start(arguments, rank, world, port, logs[rank]) for rank in range(world)]
        try:
            first = _first_lost(ranks)
            running = [str(rank) for rank, process in enumerate(ranks) if process.poll() is None]
        finally:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if first is None:
            return 0
        code = ranks[first].returncode
        if first:  # rank 0 writes to stderr itself
            sys.stderr.write(logs[first].read_text())
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        if running:
            print(f"killed after {GRACE_PERIOD_S:g} s without response: rank {', '.join(running)}", file=sys.stderr)
        remedy = "correct the input" if code == BAD_INPUT else "start it again to continue"
        print(f"rank {first} of {world} {how}; the job has ended, {remedy}", file=sys.stderr)
        return 1 if code < 0 else code


def _start(arguments: list[str], rank: int, world: int, port: int, log: Path) -> subprocess.Popen[bytes]:
    environment = {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, *arguments]
    if rank == 0:
        return subprocess.Popen(command, env=environment)
    with log.open("wb") as stream:
        return subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)


def _first_lost(ranks: list[subprocess.Popen[bytes]]) -> int | None:
    """Rank that caused the end of the job: a killed one, else one with invalid input, else the first that failed.

    None if all ranks succeed.
    """
    while True:
        codes = [process.poll() for process in ranks]
        lost = [rank for rank, code in enumerate(codes) if code]
        if lost:
            break
        if None not in codes:
            return None
        time.sleep(0.05)
    until = time.monotonic() + GRACE_PERIOD_S
    while any(process.poll() is None for process in ranks) and time.monotonic() < until:
        time.sleep(0.05)
    codes = [process.poll() for process in ranks]
    killed = [rank for rank, code in enumerate(codes) if code is not None and code < 0]
    refused = [rank for rank, code in enumerate(codes) if code == BAD_INPUT]
    return (killed or refused or lost)[0]
