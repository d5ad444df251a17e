"""WRHT, the wavelength-reused hierarchical tree all-reduce, over real sends (arXiv 2207.10982)."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import GradBucket  # type: ignore[attr-defined] # public, but its stub does not say so

from optinc_pdk.collective.average import average_by, average_finite
from optinc_pdk.collective.scheme import Scheme, Traffic, same_everywhere, together
from optinc_pdk.collective.sends import average_by_sends, check
from optinc_pdk.interconnect.allreduce import wrht
from optinc_pdk.interconnect.schedule import Schedule
from optinc_pdk.validation import validate_type


class WrhtState:
    """What `wrht_hook` runs: the schedule of these ranks on a bidirectional ring, its wavelengths checked.

    Attributes:
        schedule: Steps of concurrent transfers with their wavelengths.
        traffic: Bytes that this rank sent: whole buffers, as often as the schedule says.
    """

    def __init__(self, wavelengths: int, traffic: Traffic | None = None) -> None:
        """Build the schedule for all ranks.

        Args:
            wavelengths: Of the ring's links, in each direction.
            traffic: Where bytes are counted; a new count by default.

        Raises:
            InputError: Fewer than two ranks, no wavelength, other wavelengths on other ranks, or transfers in conflict;
                raised on every rank.
        """
        world = dist.get_world_size()
        with together():
            validate_type("traffic", traffic, Traffic | None)
            self.schedule: Schedule = wrht(world, wavelengths)
            check(self.schedule, world)
        # ranks with schedules of their own would wait for each other, or add up what is not meant for them
        same_everywhere("WRHT", f"{wavelengths} wavelengths", "give all ranks one number")
        self.traffic = traffic or Traffic()

    def average(self, gradients: torch.Tensor) -> None:
        """Replace a bucket's gradients by their mean over the ranks."""
        average_by_sends(self.schedule, gradients, self.traffic)


def wrht_hook(state: WrhtState, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Average gradients by WRHT: ``ddp.register_comm_hook(WrhtState(wavelengths), wrht_hook)``.

    Raises:
        InputError: Gradients are NaN or infinite; raised on every rank, with the parameters' shapes.
        CommunicationError: A rank was lost.
    """
    average_finite(bucket, state.average, {})
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Wrht(Scheme):
    """Exact mean gradients in the few steps of a tree, each a whole buffer on one wavelength."""

    name = "WRHT"

    def __init__(self, wavelengths: int) -> None:
        """Choose the ring.

        Args:
            wavelengths: Of the ring's links, in each direction.
        """
        super().__init__()
        self._wavelengths = wavelengths

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model in `DistributedDataParallel`.

        Raises:
            InputError: Fewer than two ranks, no wavelength, or ranks with different parameters.
        """
        return average_by(model, WrhtState(self._wavelengths, self.traffic).average)
