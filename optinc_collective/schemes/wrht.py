"""WRHT, the wavelength-reused hierarchical tree all-reduce, executed between processes (arXiv 2207.10982)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so

from optinc_collective.interconnect.allreduce import wrht
from optinc_collective.interconnect.schedule import ExchangeSchedule
from optinc_collective.schemes.bucket_average import average_bucket, wrap_with_bucket_average
from optinc_collective.schemes.schedule_execution import average_by_schedule, check_schedule
from optinc_collective.schemes.scheme import Scheme, Traffic, raise_on_all_ranks, require_equal_on_all_ranks
from optinc_pdk.validation import validate_type


class WrhtState:
    """State of `wrht_hook`: the WRHT schedule for all ranks, as nodes of a bidirectional ring, and the traffic.

    Attributes:
        schedule: The schedule, checked for wavelength conflicts.
        traffic: Count of the bytes that this rank has sent; every transfer is a whole buffer.
    """

    def __init__(self, wavelengths: int, traffic: Traffic | None = None) -> None:
        """Build the schedule for all ranks.

        Args:
            wavelengths: Number of wavelengths of the ring's links, in each direction.
            traffic: Counts the bytes; a new counter by default.

        Raises:
            InputError: Fewer than two ranks, no wavelength, different numbers of wavelengths on the ranks, or transfers
                in conflict; raised on every rank.
        """
        world = dist.get_world_size()
        with raise_on_all_ranks():
            validate_type("traffic", traffic, Traffic | None)
            self.schedule: ExchangeSchedule = wrht(world, wavelengths)
            check_schedule(self.schedule, world)
        # ranks with different schedules would wait for each other or add wrong data
        require_equal_on_all_ranks("WRHT", f"{wavelengths} wavelengths", "give all ranks the same number")
        self.traffic = traffic or Traffic()

    def average(self, gradients: torch.Tensor) -> None:
        """Replace gradients, shape (size,), by their mean over all ranks, in place."""
        average_by_schedule(self.schedule, gradients, self.traffic)


def wrht_hook(state: WrhtState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Communication hook that averages the gradients of a bucket exactly by WRHT.

    It is registered by ``ddp.register_comm_hook(WrhtState(wavelengths), wrht_hook)``.

    Args:
        state: State of the hook.
        bucket: The gradients, which are replaced by their average.

    Returns:
        A completed future with the averaged gradients.

    Raises:
        InputError: Gradients are NaN, infinite or sparse. Raised on every rank; the message gives the shapes of the
            parameters.
        CommunicationError: A rank was lost.
    """
    average_bucket(bucket, state.average, {})
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Wrht(Scheme):
    """Scheme that averages gradients exactly by WRHT, the wavelength-reused hierarchical tree (arXiv 2207.10982).

    It takes fewer steps than a ring all-reduce, but every transfer is a whole buffer.
    """

    name = "WRHT"

    def __init__(self, wavelengths: int) -> None:
        """Create the scheme.

        Args:
            wavelengths: Number of wavelengths of the ring's links, in each direction.
        """
        super().__init__()
        self._wavelengths = wavelengths

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap a model in `DistributedDataParallel` with a hook that averages by WRHT; see `Scheme.wrap`.

        Raises:
            InputError: There are fewer than two ranks or no wavelengths, or the ranks have different models or numbers
                of wavelengths.
        """
        return wrap_with_bucket_average(model, WrhtState(self._wavelengths, self.traffic).average)
