"""What every way of training on several servers has in common: it wraps the model, ends the step, counts its bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_type


class CommunicationError(RuntimeError):
    """A rank was lost, or did not answer in time; what the others hold of this step is not an average."""


@dataclass
class Traffic:
    """What this rank has sent so far.

    Attributes:
        payload: Bytes of gradients, or of what the scheme sends in their place.
        side: Bytes of what it sends beside them, such as shared exponents.
        stand_in: Bytes that the engine moved here in place of a network that is only imitated, such as the optical
            one; no part of the scheme's own traffic.
        steps: Steps of the optimiser.
    """

    payload: int = 0
    side: int = 0
    stand_in: int = 0
    steps: int = 0


class Scheme(ABC):
    """One way of training on several servers; every rank holds one of its own.

    A loop of training is the same for all of them::

        model = scheme.wrap(model)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            scheme.step(optimizer, loss.item())
        scheme.finish()

    Attributes:
        name: What tables and plots call it.
        traffic: What this rank has sent.
    """

    name: str

    def __init__(self) -> None:
        self.traffic = Traffic()

    @abstractmethod
    def wrap(self, model: nn.Module) -> nn.Module:
        """The model as it is to be trained: in `DistributedDataParallel`, or itself with hooks.

        Args:
            model: The user's model, with equal parameters on all ranks afterwards.

        Raises:
            InputError: The model or the world does not suit the scheme; raised on every rank.
        """

    def step(self, optimizer: torch.optim.Optimizer, loss: float) -> None:
        """End a step: what the scheme does after `backward`, the optimiser's step, and what it does after that.

        Args:
            optimizer: Of the wrapped model's parameters.
            loss: This rank's loss, for schemes that watch it.

        Raises:
            CommunicationError: A rank was lost.
        """
        optimizer.step()
        self.traffic.steps += 1

    def finish(self) -> None:  # noqa: B027 - most schemes leave nothing open
        """Complete what is still under way, so that the parameters are the result."""


def ring_bytes(size: int, world: int) -> int:
    """Bytes that a rank sends for a ring all-reduce, 2(N-1)/N of the data, rounded up.

    Args:
        size: Bytes of the data.
        world: Number of ranks N.
    """
    return -(-2 * (world - 1) * size // world)


@contextmanager
def communicating(what: str, group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Say what a lost rank means, in place of the engine's words for it.

    Args:
        what: What is under way, such as "the words of bucket 0".
        group: The ranks; all by default.

    Raises:
        CommunicationError: The engine gave up.
    """
    try:
        yield
    except RuntimeError as fault:
        if isinstance(fault, CommunicationError):
            raise
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        raise CommunicationError(
            f"rank {rank} of {world}: {what} did not arrive: a rank was lost or did not answer in time "
            f"({' '.join(str(fault).split())}); this step is void, start again from the last checkpoint"
        ) from fault


def gather_text(text: str, group: dist.ProcessGroup | None = None) -> list[str]:
    """Every rank's text, in the order of ranks, on every rank.

    Args:
        text: This rank's.
        group: The ranks; all by default.

    Raises:
        CommunicationError: A rank was lost.
    """
    validate_type("group", group, dist.ProcessGroup | None)
    device = _device(group)
    own = torch.tensor(list(text.encode()), dtype=torch.uint8)
    world = dist.get_world_size(group)
    with communicating("messages", group):
        sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
        dist.all_gather(sizes, torch.tensor([len(own)], device=device), group=group)
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=device)
        padded[: len(own)] = own.to(device)
        texts = [torch.empty_like(padded) for _ in range(world)]
        if longest:
            dist.all_gather(texts, padded, group=group)
    return [bytes(gathered[: int(size)].tolist()).decode() for gathered, size in zip(texts, sizes, strict=True)]


@contextmanager
def together(group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Let bad input that one rank finds stop all of them: without this the others would wait for it.

    Args:
        group: The ranks, all of which have to come here; all by default.

    Raises:
        InputError: On every rank, where it was raised on any.
    """
    own = None
    try:
        yield
    except InputError as fault:
        own = fault
    faults = gather_text("" if own is None else str(own), group)
    if own is not None:
        raise own
    for rank, text in enumerate(faults):
        if text:
            raise InputError(f"rank {rank}: {text}")


def same_everywhere(what: str, text: str, mend: str, group: dist.ProcessGroup | None = None) -> None:
    """Refuse ranks that differ.

    Args:
        what: What has to be equal.
        text: This rank's.
        mend: What to do about it.
        group: The ranks; all by default.

    Raises:
        InputError: On every rank, where any differs from the first.
    """
    texts = gather_text(text, group)
    for rank, other in enumerate(texts):
        if other != texts[0]:
            first, differs = _difference(texts[0], other)
            raise InputError(f"{what}: rank 0 has {first}, rank {rank} has {differs}; {mend}")


def same_parameters(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Refuse models whose parameters differ between ranks in name, shape, type or whether they are trained.

    Raises:
        InputError: On every rank; also for a model that torch's own data parallelism averages already.
    """
    with together(group):
        validate_type("model", model, nn.Module)
        if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
            raise InputError(
                "the model is in DistributedDataParallel already, which averages the gradients by itself: give the "
                "model in it, model.module"
            )
    lines = [
        f"{name} {tuple(parameter.shape)} {parameter.dtype}{'' if parameter.requires_grad else ' frozen'}"
        for name, parameter in model.named_parameters()
    ]
    same_everywhere("parameters", "\n".join(lines), "build the same model on every rank", group)


def _difference(first: str, other: str) -> tuple[str, str]:
    """The first line in which two texts differ, of each."""
    mine, theirs = first.splitlines(), other.splitlines()
    for a, b in zip(mine, theirs, strict=False):
        if a != b:
            return a, b
    longer = mine if len(mine) > len(theirs) else theirs
    extra = longer[min(len(mine), len(theirs))]
    return (extra, "no such line") if longer is mine else ("no such line", extra)


def _device(group: dist.ProcessGroup | None) -> torch.device:
    """Where the engine takes its tensors from."""
    return (
        torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else torch.device("cpu")
    )
