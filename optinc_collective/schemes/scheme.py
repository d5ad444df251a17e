"""Base class of the training schemes: wrapping the model, the step, counting bytes, and errors on all ranks."""

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
    """Raised if a rank was lost or did not answer in time. The gradients of this step are invalid: discard them."""


@dataclass
class Traffic:
    """Count of the bytes that this rank has sent.

    Attributes:
        payload: Bytes of gradients, or of the data that the scheme sends in their place.
        side: Bytes of additional data, such as shared exponents, numbers of rows or the loss.
        stand_in: Bytes that this rank sent through torch's backend to emulate hardware that is not present: the optical
            chip. They are not part of the scheme's traffic.
        steps: Number of optimiser steps so far.
    """

    payload: int = 0
    side: int = 0
    stand_in: int = 0
    steps: int = 0


class Scheme(ABC):
    """Base class of the training schemes: ways to train a model on several ranks, with one instance per rank.

    The training loop is the same for all schemes::

        model = scheme.wrap(model)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            scheme.step(optimizer, loss.item())
        scheme.finish()

    Attributes:
        name: Name of the scheme in tables and plots.
        traffic: Count of the bytes that this rank has sent.
    """

    name: str

    def __init__(self) -> None:
        self.traffic = Traffic()

    @abstractmethod
    def wrap(self, model: nn.Module) -> nn.Module:
        """Prepare a model for training: wrap it in `DistributedDataParallel`, or register hooks on it.

        Args:
            model: The user's model. Afterwards its parameters are equal on all ranks.

        Returns:
            The model to train.

        Raises:
            InputError: The scheme does not support the model or the number of ranks; raised on every rank.
        """

    def step(self, optimizer: torch.optim.Optimizer, loss: float) -> None:
        """Call ``optimizer.step()``; some schemes communicate before or after it.

        Args:
            optimizer: Optimiser of the wrapped model's parameters.
            loss: This rank's loss of the batch; only some schemes use it.

        Raises:
            CommunicationError: A rank was lost.
        """
        optimizer.step()
        self.traffic.steps += 1

    def finish(self) -> None:  # noqa: B027 - most schemes have nothing to complete
        """Complete pending communication at the end of training. Afterwards the model's parameters are final."""


def ring_bytes(size: int, world: int) -> int:
    """Return the number of bytes that a rank sends in a ring all-reduce: 2(N-1)/N of the data, rounded up.

    Args:
        size: Size of the data in bytes.
        world: Number of ranks N.
    """
    return -(-2 * (world - 1) * size // world)


@contextmanager
def report_lost_rank(what: str, group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Context manager that converts a `RuntimeError` of torch's backend to a `CommunicationError`.

    Args:
        what: Name of the data that is communicated, for the message, such as "the words of bucket 0".
        group: Process group; all ranks by default.

    Raises:
        CommunicationError: The backend raised a `RuntimeError`.
    """
    try:
        yield
    except RuntimeError as fault:
        if isinstance(fault, CommunicationError):
            raise
        rank, world = dist.get_rank(group), dist.get_world_size(group)
        raise CommunicationError(
            f"rank {rank} of {world}: {what} did not arrive: a rank was lost or did not answer in time "
            f"({' '.join(str(fault).split())}); this step is invalid, start again from the last checkpoint"
        ) from fault


def gather_text(text: str, group: dist.ProcessGroup | None = None) -> list[str]:
    """Gather a text from every rank on all ranks. All ranks of the group must call this function.

    Args:
        text: This rank's text.
        group: Process group; all ranks by default.

    Returns:
        The texts of all ranks, in the order of ranks.

    Raises:
        CommunicationError: A rank was lost.
    """
    validate_type("group", group, dist.ProcessGroup | None)
    device = _device(group)
    encoded = torch.tensor(list(text.encode()), dtype=torch.uint8)
    world = dist.get_world_size(group)
    with report_lost_rank("messages", group):
        sizes = [torch.zeros(1, dtype=torch.int64, device=device) for _ in range(world)]
        dist.all_gather(sizes, torch.tensor([len(encoded)], device=device), group=group)
        longest = max(int(size) for size in sizes)
        padded = torch.zeros(longest, dtype=torch.uint8, device=device)
        padded[: len(encoded)] = encoded.to(device)
        texts = [torch.empty_like(padded) for _ in range(world)]
        if longest:
            dist.all_gather(texts, padded, group=group)
    return [bytes(gathered[: int(size)].tolist()).decode() for gathered, size in zip(texts, sizes, strict=True)]


@contextmanager
def raise_on_all_ranks(group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Context manager that raises an `InputError` on all ranks if its body raises one on any rank.

    Without it, the other ranks would wait forever for the rank that failed.

    Args:
        group: Process group, all of whose ranks must enter the context; all ranks by default.

    Raises:
        InputError: On every rank, if it was raised on any.
    """
    raised = None
    try:
        yield
    except InputError as fault:
        raised = fault
    faults = gather_text("" if raised is None else str(raised), group)
    if raised is not None:
        raise raised
    for rank, text in enumerate(faults):
        if text:
            raise InputError(f"rank {rank}: {text}")


def require_equal_on_all_ranks(what: str, text: str, remedy: str, group: dist.ProcessGroup | None = None) -> None:
    """Raise an error on all ranks if a text is not equal on all ranks. All ranks must call this function.

    Args:
        what: Subject of the text for the message, such as "chip" or "parameters".
        text: This rank's text.
        remedy: How the user corrects a difference, for the message.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank, if the text of any rank differs from that of rank 0.
    """
    texts = gather_text(text, group)
    for rank, other in enumerate(texts):
        if other != texts[0]:
            first, differs = _difference(texts[0], other)
            raise InputError(f"{what}: rank 0 has {first}, rank {rank} has {differs}; {remedy}")


def require_equal_parameters(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    """Raise an error on all ranks unless they have the same model and it is not in `DistributedDataParallel` yet.

    Names, shapes, data types and `requires_grad` of the parameters are compared, but not their values. All ranks must
    call this function.

    Args:
        model: This rank's model.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank, if a parameter differs, or if the model contains `DistributedDataParallel` already.
    """
    with raise_on_all_ranks(group):
        validate_type("model", model, nn.Module)
        if any(isinstance(module, DistributedDataParallel) for module in model.modules()):
            raise InputError(
                "the model is in DistributedDataParallel already, which averages the gradients itself: give the "
                "inner model, model.module"
            )
    lines = [
        f"{name} {tuple(parameter.shape)} {parameter.dtype}{'' if parameter.requires_grad else ' frozen'}"
        for name, parameter in model.named_parameters()
    ]
    require_equal_on_all_ranks("parameters", "\n".join(lines), "build the same model on every rank", group)


def _difference(first: str, other: str) -> tuple[str, str]:
    """First line in which two texts differ, of each text."""
    lines, other_lines = first.splitlines(), other.splitlines()
    for a, b in zip(lines, other_lines, strict=False):
        if a != b:
            return a, b
    longer = lines if len(lines) > len(other_lines) else other_lines
    extra = longer[min(len(lines), len(other_lines))]
    return (extra, "no such line") if longer is lines else ("no such line", extra)


def _device(group: dist.ProcessGroup | None) -> torch.device:
    """Device on which the backend expects its tensors."""
    return (
        torch.device("cuda", torch.cuda.current_device()) if dist.get_backend(group) == "nccl" else torch.device("cpu")
    )
