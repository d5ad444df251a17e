"""Base class of the training schemes: wrapping the model, averaging its buckets, counting bytes, errors on all ranks.

No `from __future__ import annotations` here: torch compares the annotations of a communication hook with its own types.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_type

_NO_STEP = "no rank takes this step: lower the learning rate, scale the loss, or correct the data"


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
        """Prepare a model for training, and return the model to train; its parameters are then equal on all ranks.

        It is wrapped in `DistributedDataParallel`, or gets hooks.

        Raises:
            InputError: The scheme does not support the model or the number of ranks; raised on every rank.
        """

    def step(self, optimizer: torch.optim.Optimizer, loss: float) -> None:
        """Call ``optimizer.step()``; some schemes communicate before or after it, some use this rank's loss.

        Raises:
            CommunicationError: A rank was lost.
        """
        optimizer.step()
        self.traffic.steps += 1

    def finish(self) -> None:  # noqa: B027 - most schemes have nothing to complete
        """Complete pending communication at the end of training. Afterwards the model's parameters are final."""


def ring_bytes(size: int, world: int) -> int:
    """Return the number of bytes that each of N ranks sends in a ring all-reduce: 2(N-1)/N of the data, rounded up."""
    return -(-2 * (world - 1) * size // world)


@contextmanager
def report_lost_rank(what: str, group: dist.ProcessGroup | None = None) -> Iterator[None]:
    """Context manager that converts a `RuntimeError` of torch's backend to a `CommunicationError`.

    Args:
        what: Name of the data that is communicated, for the message, such as "the words of bucket 0".
        group: Process group; all ranks by default.
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
    """Gather a text from every rank of a group, in the order of ranks; all must call this function.

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
    """Context manager that raises an `InputError` on all ranks of a group if its body raises one on any of them.

    All ranks must enter it. Without it, the other ranks would wait forever for the rank that failed.
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
    """Raise an error on all ranks if a text is not equal on all ranks, all of which must call this function.

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


def wrap_with_bucket_average(
    model: nn.Module,
    average: Callable[[torch.Tensor], None],
    group: dist.ProcessGroup | None = None,
    checked: bool = True,
) -> DistributedDataParallel:
    """Wrap a model in `DistributedDataParallel` whose communication hook calls a given averaging function.

    Args:
        model: The user's model.
        average: Function that replaces the gradients of a bucket, shape (n,), by their average over the ranks, in
            place. Its result must be bitwise equal on all ranks. It is called for the buckets in the same order on all
            ranks.
        group: Process group; all ranks by default.
        checked: Whether the hook raises `InputError` on all ranks of the group if an averaged gradient is NaN or
            infinite, or if a gradient is sparse.

    Raises:
        InputError: The ranks' parameters differ, or the model is in `DistributedDataParallel` already.
    """
    require_equal_parameters(model, group)
    wrapped = DistributedDataParallel(model, process_group=group)
    names = parameter_names(model)

    def hook(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        if checked:
            average_bucket(bucket, average, names, group)
        else:
            average(bucket.buffer())
        return completed(bucket)

    wrapped.register_comm_hook(None, hook)
    return wrapped


def average_bucket(
    bucket: GradBucket,
    average: Callable[[torch.Tensor], None],
    names: Mapping[int, str],
    group: dist.ProcessGroup | None = None,
) -> None:
    """Replace the gradients of a bucket by their average, and raise an error if the average is NaN or infinite.

    A gradient that is not finite on one rank makes the average not finite on all ranks. So every rank detects the fault
    from its own result, and the ranks exchange messages only in that case.

    Args:
        bucket: Gradients of several parameters, as `DistributedDataParallel` passes them to a communication hook.
        average: Averaging function; see `wrap_with_bucket_average`.
        names: Result of `parameter_names` for the model.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank: a gradient is sparse, or an average is NaN or infinite. The message names the
            parameters.
    """
    refuse_sparse(bucket, names)
    before = _not_finite(bucket, names)
    average(bucket.buffer())
    after = _not_finite(bucket, names)
    if after:
        refuse_gradients("NaN or infinite", before, group)
        raise InputError(f"the sum of the gradients over the ranks is infinite: {after}; {_NO_STEP}")


def parameter_names(model: nn.Module) -> dict[int, str]:
    """Map ``id(parameter)`` to the name of every parameter, for messages: a `GradBucket` has no names."""
    return {id(parameter): name for name, parameter in model.named_parameters()}


def describe_unusable(
    bucket: GradBucket, names: Mapping[int, str], usable: Callable[[torch.Tensor], torch.Tensor]
) -> str:
    """List the parameters of a bucket that have unusable gradients, such as "fc.weight (3 of 100)", for a message.

    Args:
        bucket: The bucket.
        names: Result of `parameter_names` for the model.
        usable: Function from a gradient to a boolean tensor of equal shape: True for elements that can be used.
    """
    faulty = []
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        wrong = int((~usable(gradient)).sum())
        if wrong:
            faulty.append(f"{_name_of(parameter, names)} ({wrong} of {gradient.numel()})")
    return ", ".join(faulty)


def refuse_sparse(bucket: GradBucket, names: Mapping[int, str]) -> None:
    """Raise InputError, with the name of the parameter, if the gradient in a bucket is sparse.

    The ranks do not communicate: a gradient that is sparse on one rank is sparse on all.
    """
    if bucket.buffer().is_sparse:
        raise InputError(
            f"the gradient of {_name_of(bucket.parameters()[0], names)} is sparse, which cannot be averaged here: "
            "create its embedding with sparse=False"
        )


def _name_of(parameter: torch.Tensor, names: Mapping[int, str]) -> str:
    return names.get(id(parameter), f"a parameter of shape {tuple(parameter.shape)}")


def refuse_gradients(fault: str, found: str, group: dist.ProcessGroup | None = None) -> None:
    """Raise an error on all ranks if any rank has unusable gradients. All ranks must call this function.

    Args:
        fault: Fault for the message, such as "NaN or infinite".
        found: Result of `describe_unusable` on this rank.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank, if `found` is not empty on any rank. The message has the text of every such rank.
    """
    reports = [f"rank {rank}: {text}" for rank, text in enumerate(gather_text(found, group)) if text]
    if reports:
        raise InputError(f"gradients are {fault}, {'; '.join(reports)}; {_NO_STEP}")


def _not_finite(bucket: GradBucket, names: Mapping[int, str]) -> str:
    """Call `describe_unusable` only if the sum is not finite; usable gradients then need one pass over the memory."""
    return "" if torch.isfinite(bucket.buffer().sum()) else describe_unusable(bucket, names, torch.isfinite)


def completed(bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Return a completed future with the gradients of a bucket, as a communication hook does."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


def broadcast_from_first(what: str, tensors: Iterable[torch.Tensor]) -> None:
    """Replace tensors, such as "parameters", on all ranks by those of the first rank."""
    with report_lost_rank(f"the first rank's {what}"), torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def flattened(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copy tensors into one flat tensor per data type."""
    return [torch.cat([tensor.detach().reshape(-1) for tensor in same_type]) for same_type in _by_type(tensors)]


@torch.no_grad()
def fill_from_flat(tensors: Sequence[torch.Tensor], flats: Sequence[torch.Tensor]) -> None:
    """Set tensors from the result of `flattened`."""
    for same_type, flat in zip(_by_type(tensors), flats, strict=True):
        pieces = torch.split(flat, [tensor.numel() for tensor in same_type])
        for tensor, piece in zip(same_type, pieces, strict=True):
            tensor.copy_(piece.view_as(tensor))


def _by_type(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Group tensors by data type."""
    kinds = dict.fromkeys(tensor.dtype for tensor in tensors)
    return [[tensor for tensor in tensors if tensor.dtype == kind] for kind in kinds]
