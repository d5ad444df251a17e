"""Time of the OptINC hook compared with torch's all-reduce: 25 million gradients on four ranks of this machine, gloo.

    OMP_NUM_THREADS=1 python benchmarks/bench_collective.py

In every round each method averages the same gradients in buckets of 25 MiB, as DistributedDataParallel forms them; the
order of the methods rotates. Times are those of the slowest rank, the minimum over the rounds, separately for each
part. *codec* is the time of the hook without its two all-reduces: exponents, encoding and decoding. Its CPU time is
that of its thread; the total CPU time is that of all threads, including gloo's.
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

import optinc_pdk.networks
from optinc_collective.schemes import AveragingChip, OptincState, ideal_chip, network_chip, ring_all_reduce
from optinc_pdk.networks import AveragingNetwork

RANKS = 4
BUCKET = 25 * 2**20 // 4
PARTS = ("total", "exponents' sync", "words' sync", "codec", "codec, CPU", "total, CPU")


@dataclass
class Bucket:
    """A bucket of gradients with the interface that the hook uses."""

    gradients: torch.Tensor

    def buffer(self) -> torch.Tensor:
        """The gradients."""
        return self.gradients

    def index(self) -> int:
        """Number of the bucket."""
        return 0


class Clock:
    """Measures the time that this rank spends in all-reduces, by operation."""

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
        """Run a function and return its times in seconds, by part."""
        self.seconds, self._cpu = {}, 0.0
        dist.barrier()
        start, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
        work()
        total, codec_cpu = time.perf_counter() - start, time.thread_time() - cpu - self._cpu
        rest = total - sum(self.seconds.values())
        everything = time.process_time() - process
        return self.seconds | {"total": total, "codec": rest, "codec, CPU": codec_cpu, "total, CPU": everything}


def methods(gradients: list[torch.Tensor]) -> dict[str, Callable[[], object]]:
    """Methods of averaging the gradients, by name."""
    ddp = DistributedDataParallel(nn.Linear(1, 1))
    onn = AveragingNetwork.load(
        Path(optinc_pdk.networks.__file__).parent / "bundled" / "average_8bit_4servers_relu.npz"
    )
    chips: dict[str, AveragingChip] = {
        "hook, 8 bits, ideal": ideal_chip(8, RANKS),
        "hook, 8 bits, lattice table": network_chip(onn),
        "hook, 16 bits, ideal": ideal_chip(16, RANKS),
    }

    def through(chip: AveragingChip) -> Callable[[], object]:
        state = OptincState(ddp, chip)
        return lambda: [state.average(Bucket(values)) for values in gradients]

    torch_methods = {"torch's all-reduce": lambda: [dist.all_reduce(values) for values in gradients]}
    ring_methods = {"our ring": lambda: [ring_all_reduce(values) for values in gradients]}
    return torch_methods | {name: through(chip) for name, chip in chips.items()} | ring_methods


def work(rank: int, port: int, size: int, rounds: int) -> None:
    """Run one rank; rank 0 prints the table."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    random = torch.Generator().manual_seed(rank)
    fresh = torch.randn(size, generator=random) * 1e-3
    gradients = [part.clone() for part in fresh.split(BUCKET)]
    clock, measured, all_methods = Clock(), {}, methods(gradients)
    for turn in range(rounds + 1):  # the first round compiles and allocates memory
        names = list(all_methods)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            method = all_methods[name]
            for part, values in zip(gradients, fresh.split(BUCKET), strict=True):
                part.copy_(values)
            if turn:
                measured.setdefault(name, []).append(clock.of(method))
            else:
                method()
    slowest = {}
    for name in all_methods:
        runs = measured[name]
        table = torch.tensor([[run.get(part, 0.0) for part in PARTS] for run in runs], dtype=torch.float64)
        dist.all_reduce(table, op=dist.ReduceOp.MAX)
        slowest[name] = table.numpy().min(axis=0)
    if rank == 0:
        show(slowest)


def show(slowest: dict[str, np.ndarray]) -> None:
    """Print the times in milliseconds and the ratio of the codec to torch's all-reduce."""
    by_torch = slowest["torch's all-reduce"]
    print(f"| way | {', ms | '.join(PARTS)}, ms | codec / torch's, wall | both CPU |")
    print("|---|" + "---|" * (len(PARTS) + 2))
    for name, seconds in slowest.items():
        shares = [f"{seconds[k] / by_torch[of]:.1%}" if name.startswith("hook") else "" for k, of in ((3, 0), (4, 5))]
        print(f"| {name} | {' | '.join(f'{1e3 * each:.0f}' for each in seconds)} | {' | '.join(shares)} |")


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=25_000_000, help="gradients")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(work, (port, options.size, options.rounds), nprocs=RANKS)


if __name__ == "__main__":
    main()
