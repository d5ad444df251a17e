"""WRHT, the wavelength-reused hierarchical tree all-reduce, executed between processes (arXiv 2207.10982)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so

from optinc_pdk.collective.bucket_average import average_bucket, average_buckets_by
from optinc_pdk.collective.schedule_execution import average_by_schedule, check_schedule
from optinc_pdk.collective.scheme import Scheme, Traffic, raise_on_all_ranks, require_equal_on_all_ranks
from optinc_pdk.interconnect.allreduce import wrht
from optinc_pdk.interconnect.schedule import ExchangeSchedule
from optinc_pdk.validation import validate_type


class WrhtState:
    """State of `wrht_hook`: the schedule for all ranks on a bidirectional ring, checked for wavelength conflicts.

    Attributes:
        schedule: Steps of concurrent transfers with their wavelengths.
        traffic: Count of the bytes that this rank sent; every transfer is a whole buffer.
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
        """Replace gradients (size,) by their mean over the ranks, in place."""
        average_by_schedule(self.schedule, gradients, self.traffic)


def wrht_hook(state: WrhtState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average gradients by WRHT: ``ddp.register_comm_hook(WrhtState(wavelengths), wrht_hook)``.

    Raises:
        InputError: Gradients are NaN or infinite; raised on every rank, with the shapes of the parameters.
        CommunicationError: A rank was lost.
    """
    average_bucket(bucket, state.average, {})
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Wrht(Scheme):
    """Scheme that averages gradients exactly by WRHT: few steps, in each of which whole buffers are sent."""

    name = "WRHT"

    def __init__(self, wavelengths: int) -> None:
        """Create the scheme.

        Args:
            wavelengths: Number of wavelengths of the ring's links, in each direction.
        """
        super().__init__()
        self._wavelengths = wavelengths

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model in `DistributedDataParallel` with a WRHT hook.

        Raises:
            InputError: Fewer than two ranks, no wavelength, or ranks with different parameters.
        """
        return average_buckets_by(model, WrhtState(self._wavelengths, self.traffic).average)
