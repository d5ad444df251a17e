"""Training on one rank: the loop, which is the same for every scheme, its log and its result."""

from __future__ import annotations

import csv
import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import schemes
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from data import Data
from models import Decoder, DecoderSize, chain, resnet
from records import result_file, writing
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from optinc_collective.schemes.linear_rows import split_parameters
from optinc_collective.schemes.scheme import report_lost_rank

LOG_STEPS = 10
"""Number of steps after which the losses are averaged over ranks and logged."""

Watch = Callable[[int, float], None]


@dataclass(frozen=True)
class Task:
    """A network and its training settings.

    Attributes:
        make: Creates the network for given data, initialised by torch's current random state.
        batch: Number of samples per rank and step.
        steps: Number of steps.
        rate: Maximum learning rate; it rises for a tenth of the steps and falls as a cosine to 0.
        adam: Whether the optimiser is AdamW instead of SGD with momentum 0.9.
        tests: Maximum number of test samples; all by default.
    """

    make: Callable[[Data], nn.Module]
    batch: int
    steps: int
    rate: float
    adam: bool = False
    tests: int | None = None


def _image_chain(data: Data) -> nn.Module:
    return chain(data.inputs[0].numel(), (128, 64), data.classes)


def _resnet(widths: tuple[int, ...], blocks: tuple[int, ...], bottleneck: bool) -> Callable[[Data], nn.Module]:
    return lambda data: resnet(data.inputs.shape[1], widths, blocks, bottleneck, data.classes)


def _decoder(size: DecoderSize) -> Callable[[Data], nn.Module]:
    def make(data: Data) -> nn.Module:
        return Decoder(replace(size, vocabulary=max(size.vocabulary, data.classes)))

    return make


TASKS = {
    "small": {
        "resnet": Task(_resnet((8, 16, 32), (1, 1, 1), False), 32, 300, 0.1),
        "digits": Task(_resnet((8, 16, 32), (1, 1, 1), False), 32, 300, 0.1),
        "llama": Task(_decoder(DecoderSize(2, 64, 4, 176, 256)), 4, 400, 3e-3, adam=True),
        "chain": Task(_image_chain, 32, 300, 0.05),
    },
    "full": {
        "resnet": Task(_resnet((64, 128, 256, 512), (3, 4, 6, 3), True), 2, 1, 0.1, tests=8),
        "llama": Task(_decoder(DecoderSize(8, 384, 8, 1024, 32_000)), 1, 1, 1e-3, adam=True, tests=8),
    },
}
"""Full: ResNet-50, and the decoder of arXiv 2603.28290 with LLaMA's 32,000 tokens and a feed-forward width of 8/3 of
its width."""


@dataclass(frozen=True)
class Run:
    """Settings of a training.

    Attributes:
        size: "small" or "full".
        model: Key of `TASKS[size]`.
        scheme: Key of `schemes.ENTRIES`.
        steps: Number of steps.
        seed: Seed of parameters and samples.
    """

    size: str
    model: str
    scheme: str
    steps: int
    seed: int

    @property
    def name(self) -> str:
        """Stem of the names of its files."""
        return f"{self.size}.{self.model}.{self.scheme}.{self.seed}"


def start(run: Run, data: Data) -> nn.Module:
    """Create the network with its initial parameters, equal for all schemes and ranks."""
    torch.manual_seed(run.seed)
    return TASKS[run.size][run.model].make(data)


def train(run: Run, data: Data, folder: Path, watch: Watch) -> dict[str, object]:
    """Run a training; all ranks of the job must call this function.

    Args:
        run: Settings.
        data: Training and test data.
        folder: Folder with the chips, in which rank 0 writes the log.
        watch: Called on every rank with the number of completed steps and their loss.

    Returns:
        The result, on every rank; see `result_of`.

    Raises:
        InputError: The scheme does not support the model, gradients are not finite, or the log cannot be written.
        CommunicationError: A rank was lost.
    """
    task, rank = TASKS[run.size][run.model], dist.get_rank()
    if rank == 0:  # an earlier result, of other settings or data, would not match the log
        with writing(result_file(run, folder)):
            result_file(run, folder).unlink(missing_ok=True)
    model = start(run, data)
    start_digest = digest(model)
    batch = data.batch(task.batch, run.seed, 0, rank)
    flop = _flop(model, batch)
    sizes = sum(parameter.nbytes for parameter in model.parameters()), _rest(model)
    scheme = schemes.ENTRIES[run.scheme].make(run.steps, folder)
    wrapped = scheme.wrap(model)
    optimizer = _optimizer(task, wrapped)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, run.steps))
    losses: list[float] = []
    began, times = time.perf_counter(), []
    with _Log(folder / f"{run.name}.csv", rank) as log:
        for step in range(run.steps):
            step_began = time.perf_counter()
            inputs, targets = data.batch(task.batch, run.seed, step, rank)
            optimizer.zero_grad()
            loss = F.cross_entropy(wrapped(inputs), targets)
            loss.backward()
            scheme.step(optimizer, loss.item())
            schedule.step()
            times.append(time.perf_counter() - step_began)
            losses.append(loss.item())
            if (step + 1) % LOG_STEPS == 0 or step + 1 == run.steps:
                means = _means(losses)
                log.write(step + 1, means, time.perf_counter() - began)
                watch(step + 1, means[-1])
                losses = []
        scheme.finish()
        result = result_of(run, sizes, scheme.traffic, flop) | test(model, data, task)
    about = {"start": start_digest, "data": data.name, "data_digest": data.digest}
    return result | about | {"wall_s": median(times), "apart": _apart(model)}


def result_of(run: Run, sizes: tuple[int, int], traffic: object, flop: float) -> dict[str, object]:
    """Settings, bytes per step (mean over ranks) and floating-point operations per rank and step, as a result."""
    counted = {name: float(count) for name, count in vars(traffic).items()}
    payload, side, stand_in = _means([counted[name] / run.steps for name in ("payload", "side", "stand_in")])
    moved = schemes.Sizes(*sizes, payload, side, run.steps)
    return {**asdict(run), **asdict(moved), "stand_in": stand_in, "flop": flop}


@torch.no_grad()
def test(model: nn.Module, data: Data, task: Task) -> dict[str, object]:
    """Mean loss and accuracy over the test data, which are divided among the ranks.

    Every rank tests its own parameters with the first rank's buffers.
    """
    with report_lost_rank("the first rank's buffers"):
        for buffer in model.buffers():
            dist.broadcast(buffer, 0)
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64)
    for inputs, targets in data.tests(8 * task.batch, task.tests, dist.get_rank(), dist.get_world_size()):
        logits = model(inputs)
        sums[0] += F.cross_entropy(logits, targets, reduction="sum").item()
        sums[1] += (logits.argmax(dim=1) == targets).sum().item()
        sums[2] += targets.numel()
    model.train()
    with report_lost_rank("test results of other ranks"):
        dist.all_reduce(sums)
    return {"loss": float(sums[0] / sums[2]), "accuracy": float(sums[1] / sums[2])}


def digest(model: nn.Module) -> str:
    """Short hash of the parameters."""
    content = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return hashlib.sha256(content).hexdigest()[:12]


class _Log:
    """Log, written by rank 0: step, loss, seconds since the start."""

    def __init__(self, path: Path, rank: int) -> None:
        self._path = path
        with writing(path):
            self._stream = path.open("w", newline="") if rank == 0 else None

    def __enter__(self) -> _Log:
        self._row(["step", "loss", "seconds"])
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            with writing(self._path):  # closing flushes the buffer
                self._stream.close()

    def write(self, steps: int, losses: list[float], seconds: float) -> None:
        """Log the losses of the last steps up to number ``steps``."""
        with writing(self._path):
            for number, loss in enumerate(losses, steps - len(losses) + 1):
                self._row([number, f"{loss:.8f}", f"{seconds:.3f}"])
            if self._stream is not None:
                self._stream.flush()

    def _row(self, row: list[object]) -> None:
        if self._stream is not None:
            csv.writer(self._stream, lineterminator="\n").writerow(row)


def _optimizer(task: Task, model: nn.Module) -> torch.optim.Optimizer:
    if task.adam:
        return torch.optim.AdamW(model.parameters(), lr=task.rate, betas=(0.9, 0.95))
    return torch.optim.SGD(model.parameters(), lr=task.rate, momentum=0.9, weight_decay=5e-4)


def _rate(step: int, steps: int) -> float:
    """Factor on the learning rate at a step: rises for a tenth of the steps, then falls as a cosine."""
    rise = max(1, steps // 10)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise)))


def _means(values: list[float]) -> list[float]:
    """Means over the ranks."""
    sums = torch.tensor(values, dtype=torch.float64)
    with report_lost_rank("losses of other ranks"):
        dist.all_reduce(sums)
    return (sums / dist.get_world_size()).tolist()


def _flop(model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Count the floating-point operations of one step by running it; gradients and buffers are reset."""
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with FlopCounterMode(display=False) as counter:
        F.cross_entropy(model(batch[0]), batch[1]).backward()
    model.zero_grad()
    model.load_state_dict(buffers, strict=False)
    return float(counter.get_total_flops())


def _rest(model: nn.Module) -> int:
    """Size in bytes of the gradients outside linear layers."""
    return sum(parameter.nbytes for parameter in split_parameters(model)[1].values())


def _apart(model: nn.Module) -> float:
    """Largest difference of a parameter between ranks."""
    flat = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    high, low = flat.clone(), flat.clone()
    with report_lost_rank("parameters of other ranks"):
        dist.all_reduce(high, dist.ReduceOp.MAX)
        dist.all_reduce(low, dist.ReduceOp.MIN)
    return float((high - low).max())
