"""Shared ground metal: every heater current raises the ground potential of all heaters on the same metal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optinc_pdk.arrays import Floats


@dataclass(frozen=True, eq=False)
class SharedGround:
    """Ground potentials of a chip's heater channels as a linear function of the heater currents.

    Attributes:
        labels: (channels,) channel labels.
        rise_v: Function from currents (channels,) in A to ground potentials (channels,) in V, both in the order of
            ``labels``.
    """

    labels: tuple[str, ...]
    rise_v: Callable[[Floats], Floats]

    def for_channels(self, labels: Sequence[str]) -> Callable[[Floats], Floats]:
        """Return ``rise_v`` for another selection or order of channels.

        Channels of this ground that are missing in ``labels`` carry no current. Channels in ``labels`` that this ground
        lacks have an ideal ground of 0 V.

        Args:
            labels: Channel labels.

        Returns:
            Function from currents (len(labels),) in A to ground potentials (len(labels),) in V.
        """
        place = {label: i for i, label in enumerate(self.labels)}
        known = np.array([i for i, label in enumerate(labels) if label in place], dtype=np.int64)
        number = np.array([place[label] for label in labels if label in place], dtype=np.int64)

        def rise(current_a: Floats) -> Floats:
            all_currents, potential = np.zeros(len(self.labels)), np.zeros(len(labels))
            all_currents[number] = current_a[known]
            potential[known] = self.rise_v(all_currents)[number]
            return potential

        return rise
