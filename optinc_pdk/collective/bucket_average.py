"""Average the gradients of a model bucket by bucket with a given function; NaN and infinity are refused.

No `from __future__ import annotations` here: torch compares the annotations of a communication hook with its own types.
"""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.collective.scheme import gather_text, require_equal_parameters
from optinc_pdk.errors import InputError

_NO_STEP = "no rank takes this step: lower the learning rate, scale the loss, or correct the data"


def average_buckets_by(
    model: nn.Module,
    average: Callable[[torch.Tensor], None],
    group: dist.ProcessGroup | None = None,
    checked: bool = True,
) -> DistributedDataParallel:
    """Wrap a model in `DistributedDataParallel` whose communication hook calls a given averaging function.

    Args:
        model: The user's model.
        average: Replaces the flat gradients of a bucket by their average over the ranks, in place. The result has the
            same bits on all ranks. It is called in the same order on all ranks.
        group: Process group; all ranks by default.
        checked: Whether all ranks of the group refuse gradients that are NaN or infinite.

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
    """Replace the gradients of a bucket by their average; refuse NaN and infinity.

    A gradient that is not finite on one rank makes the average not finite on all ranks. So every rank detects it alone,
    and messages are exchanged only in that case.

    Args:
        bucket: The bucket.
        average: See `average_buckets_by`.
        names: See `parameter_names`.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank, with the names of the parameters: NaN, infinity, or a sparse gradient.
    """
    refuse_sparse(bucket, names)
    before = _not_finite(bucket, names)
    average(bucket.buffer())
    after = _not_finite(bucket, names)
    if after:
        refuse_gradients("NaN or infinite", before, group)
        raise InputError(f"the sum of the gradients over the ranks is infinite: {after}; {_NO_STEP}")


def parameter_names(model: nn.Module) -> dict[int, str]:
    """Map `id(parameter)` to the name of the parameter: a bucket holds parameters without names."""
    return {id(parameter): name for name, parameter in model.named_parameters()}


def describe_unusable(
    bucket: GradBucket, names: Mapping[int, str], usable: Callable[[torch.Tensor], torch.Tensor]
) -> str:
    """List the parameters of a bucket that have unusable gradients, with the number of unusable elements.

    Args:
        bucket: The bucket.
        names: See `parameter_names`.
        usable: Maps a tensor to a boolean tensor: True for elements that can be used.

    Returns:
        Text for an error message; empty if all gradients are usable.
    """
    faulty = []
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        wrong = int((~usable(gradient)).sum())
        if wrong:
            faulty.append(f"{_name_of(parameter, names)} ({wrong} of {gradient.numel()})")
    return ", ".join(faulty)


def refuse_sparse(bucket: GradBucket, names: Mapping[int, str]) -> None:
    """Raise an error for a bucket with a sparse gradient, as embeddings may have.

    No communication is needed: the gradient is sparse on all ranks.

    Args:
        bucket: The bucket; a sparse one has one parameter.
        names: See `parameter_names`.

    Raises:
        InputError: The gradient is sparse; with the name of the parameter.
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
        fault: What is wrong with the gradients, for the message.
        found: Result of `describe_unusable` on this rank.
        group: Process group; all ranks by default.

    Raises:
        InputError: On every rank, if `found` is not empty on any rank.
    """
    reports = [f"rank {rank}: {text}" for rank, text in enumerate(gather_text(found, group)) if text]
    if reports:
        raise InputError(f"gradients are {fault}, {'; '.join(reports)}; {_NO_STEP}")


def _not_finite(bucket: GradBucket, names: Mapping[int, str]) -> str:
    """Call `describe_unusable` only if the sum is not finite; usable gradients then need one pass over the memory."""
    return "" if torch.isfinite(bucket.buffer().sum()) else describe_unusable(bucket, names, torch.isfinite)
