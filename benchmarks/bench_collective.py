"""What fixed point costs beside torch's own all-reduce: 25 million gradients on four ranks of this machine, over gloo.

    OMP_NUM_THREADS=1 python benchmarks/bench_collective.py

In every round each way averages the same gradients in buckets of 25 MiB, as DistributedDataParallel makes them; the
ways take turns in who is first. Times are of the slowest rank, the least of the rounds, for each part on its own.
*codec* is what the hook takes besides its two all-reduces: exponents, words, and what is read, back to floats. Its CPU
time is that of its thread, the total one that of all threads, gloo's with it.
"""

import argparse
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import optinc_pdk.onn
from optinc_pdk.collective import Chip, OptincState, ideal_chip, network_chip, ring_all_reduce
from optinc_pdk.onn import Onn

RANKS = 4
BUCKET = 25 * 2**20 // 4
PARTS = ("total", "exponents' sync", "words' sync", "codec", "codec, CPU", "total, CPU")


@dataclass
class Bucket:
    """A bucket of gradients, as the hook sees it."""

    gradients: torch.Tensor

    def buffer(self) -> torch.Tensor:
        """The gradients."""
        return self.gradients

    def index(self) -> int:
        """Its number."""
        return 0


class Clock:
    """Adds up the time that this rank spends in all-reduces, by operation."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._cpu = 0.0
        self._all_reduce = dist.all_reduce
        dist.all_reduce = self._timed

    def _timed(self, tensor: torch.Tensor, op: dist.ReduceOp = dist.ReduceOp.SUM, group: object = None) -> None:
        start, cpu = time.perf_counter(), time.thread_time()
        self._all_reduce(tensor, op, group)
        part = "exponents' sync" if op == dist.ReduceOp.MAX else "words' sync"
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
        self._cpu += time.thread_time() - cpu

    def of(self, work: Callable[[], object]) -> dict[str, float]:
        """Seconds of some work, by part."""
        self.seconds, self._cpu = {}, 0.0
        dist.barrier()
        start, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
        work()
        total, own = time.perf_counter() - start, time.thread_time() - cpu - self._cpu
        rest = total - sum(self.seconds.values())
        everything = time.process_time() - process
        return self.seconds | {"total": total, "codec": rest, "codec, CPU": own, "total, CPU": everything}


def ways(gradients: list[torch.Tensor]) -> dict[str, Callable[[], object]]:
    """Ways to average the gradients, by name."""
    ddp = DistributedDataParallel(nn.Linear(1, 1))
    onn = Onn.load(Path(optinc_pdk.onn.__file__).parent / "networks" / "average_8bit_4servers.npz")
    chips: dict[str, Chip] = {
        "hook, 8 bits, ideal": ideal_chip(8, RANKS),
        "hook, 8 bits, lattice table": network_chip(onn),
        "hook, 16 bits, ideal": ideal_chip(16, RANKS),
    }

    def through(chip: Chip) -> Callable[[], object]:
        state = OptincState(ddp, chip)
        return lambda: [state.average(Bucket(values)) for values in gradients]

    by_torch = {"torch's all-reduce": lambda: [dist.all_reduce(values) for values in gradients]}
    by_ring = {"our ring": lambda: [ring_all_reduce(values) for values in gradients]}
    return by_torch | {name: through(chip) for name, chip in chips.items()} | by_ring


def work(rank: int, port: int, size: int, rounds: int) -> None:
    """One rank; the first one prints the table."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    random = torch.Generator().manual_seed(rank)
    fresh = torch.randn(size, generator=random) * 1e-3
    gradients = [part.clone() for part in fresh.split(BUCKET)]
    clock, measured, all_ways = Clock(), {}, ways(gradients)
    for turn in range(rounds + 1):  # the first one compiles, and takes the memory
        names = list(all_ways)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            way = all_ways[name]
            for part, values in zip(gradients, fresh.split(BUCKET), strict=True):
                part.copy_(values)
            if turn:
                measured.setdefault(name, []).append(clock.of(way))
            else:
                way()
    slowest = {}
    for name in all_ways:
        runs = measured[name]
        table = torch.tensor([[run.get(part, 0.0) for part in PARTS] for run in runs], dtype=torch.float64)
        dist.all_reduce(table, op=dist.ReduceOp.MAX)
        slowest[name] = table.numpy().min(axis=0)
    if rank == 0:
        show(slowest)


def show(slowest: dict[str, np.ndarray]) -> None:
    """Print milliseconds, and the codec's share of torch's all-reduce."""
    own = slowest["torch's all-reduce"]
    print(f"| way | {', ms | '.join(PARTS)}, ms | codec / torch's, wall | both CPU |")
    print("|---|" + "---|" * (len(PARTS) + 2))
    for name, seconds in slowest.items():
        shares = [f"{seconds[k] / own[of]:.1%}" if name.startswith("hook") else "" for k, of in ((3, 0), (4, 5))]
        print(f"| {name} | {' | '.join(f'{1e3 * each:.0f}' for each in seconds)} | {' | '.join(shares)} |")


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=25_000_000, help="gradients")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (port, given.size, given.rounds), nprocs=RANKS)


if __name__ == "__main__":
    main()
