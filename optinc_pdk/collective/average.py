"""Models whose gradients a function averages, bucket by bucket, and the refusal of gradients that are no numbers.

Annotations are evaluated here: torch compares those of a communication hook with its own types.
"""

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so
from torch.nn.parallel import DistributedDataParallel

from optinc_pdk.collective.scheme import gather_text, same_parameters
from optinc_pdk.errors import InputError

_NO_STEP = "no rank takes this step: lower the learning rate, scale the loss, or mend the data"


def average_by(
    model: nn.Module,
    average: Callable[[torch.Tensor], None],
    group: dist.ProcessGroup | None = None,
    checked: bool = True,
) -> DistributedDataParallel:
    """Wrap a model so that its gradients are averaged by a function.

    Args:
        model: The user's model.
        average: Replaces a bucket's gradients, flat, by their average over the ranks, in place, by the same bits on
            all; called in the same order on all ranks.
        group: The ranks; all by default.
        checked: Whether gradients that are NaN or infinite are refused, by all ranks of the group.
    """
    same_parameters(model, group)
    wrapped = DistributedDataParallel(model, process_group=group)
    names = names_of(model)

    def hook(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        if checked:
            average_finite(bucket, average, names, group)
        else:
            average(bucket.buffer())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapped.register_comm_hook(None, hook)
    return wrapped


def average_finite(
    bucket: GradBucket,
    average: Callable[[torch.Tensor], None],
    names: Mapping[int, str],
    group: dist.ProcessGroup | None = None,
) -> None:
    """Replace a bucket's gradients by their average, and refuse NaN and infinity.

    What is not finite on one rank is not finite in the average, on all of them: so each sees it by itself, and they
    talk about it only then.

    Args:
        bucket: The bucket.
        average: See `average_by`.
        names: See `names_of`.
        group: The ranks; all by default.

    Raises:
        InputError: On every rank, with the parameters' names: NaN, infinity, or a sparse gradient.
    """
    refuse_sparse(bucket, names)
    own = _not_finite(bucket, names)
    average(bucket.buffer())
    summed = _not_finite(bucket, names)
    if summed:
        refuse_gradients("NaN or infinite", own, group)
        raise InputError(f"gradients are infinite once they are added up over the ranks: {summed}; {_NO_STEP}")


def names_of(model: nn.Module) -> dict[int, str]:
    """Names of parameters by their identity, which is what a bucket has of them."""
    return {id(parameter): name for name, parameter in model.named_parameters()}


def unusable(bucket: GradBucket, names: Mapping[int, str], usable: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """Which of a bucket's parameters have gradients that can't be used, and how many; empty where none has.

    Args:
        bucket: The bucket.
        names: See `names_of`.
        usable: Tells of every number whether it can be used.
    """
    found = []
    for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
        wrong = int((~usable(gradient)).sum())
        if wrong:
            found.append(f"{_name_of(parameter, names)} ({wrong} of {gradient.numel()})")
    return ", ".join(found)


def refuse_sparse(bucket: GradBucket, names: Mapping[int, str]) -> None:
    """Refuse a bucket of a sparse gradient, as an embedding may have; it is so on all ranks.

    Args:
        bucket: The bucket, of one parameter where it is sparse.
        names: See `names_of`.

    Raises:
        InputError: With the parameter's name.
    """
    if bucket.buffer().is_sparse:
        raise InputError(
            f"the gradient of {_name_of(bucket.parameters()[0], names)} is sparse, which cannot be averaged here: make "
            "its embedding with sparse=False"
        )


def _name_of(parameter: torch.Tensor, names: Mapping[int, str]) -> str:
    return names.get(id(parameter), f"a parameter of shape {tuple(parameter.shape)}")


def refuse_gradients(fault: str, found: str, group: dist.ProcessGroup | None = None) -> None:
    """Refuse gradients that any rank can't use; all ranks have to come here.

    Args:
        fault: What they are.
        found: What `unusable` found on this rank.
        group: The ranks; all by default.

    Raises:
        InputError: On every rank, where any found something.
    """
    told = [f"rank {rank}: {text}" for rank, text in enumerate(gather_text(found, group)) if text]
    if told:
        raise InputError(f"gradients are {fault}, {'; '.join(told)}; {_NO_STEP}")


def _not_finite(bucket: GradBucket, names: Mapping[int, str]) -> str:
    """See `unusable`; where all is well, one pass over the memory, for a sum is finite only if all its terms are."""
    return "" if torch.isfinite(bucket.buffer().sum()) else unusable(bucket, names, torch.isfinite)
