"""Average the gradients of a model bucket by bucket with a given function; NaN and infinity are refused.

No `from __future__ import annotations` here: torch compares the annotations of a communication hook with its own types.
"""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_collective.schemes.scheme import gather_text, require_equal_parameters
from optinc_pdk.errors import InputError

_NO_STEP = "no rank takes this step: lower the learning rate, scale the loss, or correct the data"


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

    Returns:
        The wrapped model.

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
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

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
    """Map ``id(parameter)`` to the name of every parameter of a model.

    Error messages use it, because a `GradBucket` has the parameters but not their names.
    """
    return {id(parameter): name for name, parameter in model.named_parameters()}


def describe_unusable(
    bucket: GradBucket, names: Mapping[int, str], usable: Callable[[torch.Tensor], torch.Tensor]
) -> str:
    """List the parameters of a bucket that have unusable gradients, with the number of unusable elements.

    Args:
        bucket: The bucket.
        names: Result of `parameter_names` for the model.
        usable: Function from a gradient to a boolean tensor of equal shape: True for elements that can be used.

    Returns:
        Text for an error message, such as "fc.weight (3 of 100)"; empty if all gradients are usable.
    """
    faulty = []
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        wrong = int((~usable(gradient)).sum())
        if wrong:
            faulty.append(f"{_name_of(parameter, names)} ({wrong} of {gradient.numel()})")
    return ", ".join(faulty)


def refuse_sparse(bucket: GradBucket, names: Mapping[int, str]) -> None:
    """Raise an error if the gradient in a bucket is sparse, as that of an embedding may be.

    The ranks do not communicate: a gradient that is sparse on one rank is sparse on all.

    Args:
        bucket: The bucket; a sparse one has one parameter.
        names: Result of `parameter_names` for the model.

    Raises:
        InputError: The gradient is sparse. The message names the parameter.
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
