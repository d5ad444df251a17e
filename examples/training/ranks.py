"""The ranks of a job on this machine: started together, watched, and ended together when one is lost."""

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
"""Exit code of a rank that was given what it cannot use."""
FAREWELL_S = 20.0
"""How long the others may take to notice that a rank is lost and say so, before they are ended."""


def is_rank() -> bool:
    """Whether this process is a rank already, of `launch` or of torchrun."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def join(timeout_s: float) -> None:
    """Join the job that the environment tells of.

    Args:
        timeout_s: How long to wait for a rank that does not answer.
    """
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=timeout_s))


def end_on_request() -> None:
    """Let SIGTERM end this process as an exception does, so that it ends its children first."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)


def launch(arguments: list[str], world: int) -> int:
    """Run this script again as so many ranks, and wait for them.

    Args:
        arguments: Of the script.
        world: Number of ranks.

    Returns:
        The exit code of the job: 0 where all ranks ended well, else that of the rank that ended first, and 1 for one
        that was killed. Which it was, and what it said, is on stderr.
    """
    end_on_request()
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
        found.close()
        said = [Path(folder, f"rank{rank}") for rank in range(world)]
        ranks = [_start(arguments, rank, world, port, said[rank]) for rank in range(world)]
        try:
            first = _first_lost(ranks)
            silent = [str(rank) for rank, process in enumerate(ranks) if process.poll() is None]
        finally:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
                process.wait()
        if first is None:
            return 0
        code = ranks[first].returncode
        if first:  # rank 0 writes to stderr itself
            sys.stderr.write(said[first].read_text())
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
        if silent:
            print(f"still running after {FAREWELL_S:g} s, and so ended: rank {', '.join(silent)}", file=sys.stderr)
        mend = "mend what it says" if code == BAD_INPUT else "start it again to go on"
        print(f"rank {first} of {world} {how}; the job has ended, {mend}", file=sys.stderr)
        return 1 if code < 0 else code


def _start(arguments: list[str], rank: int, world: int, port: int, said: Path) -> subprocess.Popen[bytes]:
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
    with said.open("wb") as stream:
        return subprocess.Popen(command, env=environment, stdout=stream, stderr=stream)


def _first_lost(ranks: list[subprocess.Popen[bytes]]) -> int | None:
    """The rank that was lost first, a killed one or else one of bad input before those that only missed it.

    None where all end well.
    """
    while True:
        codes = [process.poll() for process in ranks]
        lost = [rank for rank, code in enumerate(codes) if code]
        if lost:
            break
        if None not in codes:
            return None
        time.sleep(0.05)
    until = time.monotonic() + FAREWELL_S
    while any(process.poll() is None for process in ranks) and time.monotonic() < until:
        time.sleep(0.05)
    codes = [process.poll() for process in ranks]
    killed = [rank for rank, code in enumerate(codes) if code is not None and code < 0]
    refused = [rank for rank, code in enumerate(codes) if code == BAD_INPUT]
    return (killed or refused or lost)[0]
