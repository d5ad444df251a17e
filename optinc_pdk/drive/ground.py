"""Ground metal that heaters share: every current raises the ground potential of all heaters on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SharedGround:
    """Ground potentials of a chip's channels as a linear function of the heater currents.

    Attributes:
        labels: (channels,) channel labels.
        rise_v: Maps currents (channels,) in A, in the order of ``labels``, to ground potentials (channels,) in V.
    """

    labels: tuple[str, ...]
    rise_v: Callable[[NDArray[np.float64]], NDArray[np.float64]]

    def for_channels(self, labels: Sequence[str]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """Return ``rise_v`` for other channels in another order.

        Channels that ``labels`` leaves out carry no current; channels that this ground lacks have an ideal ground.

        Args:
            labels: Channel labels.

        Returns:
            Function of currents (len(labels),) in A to ground potentials (len(labels),) in V.
        """
        place = {label: i for i, label in enumerate(self.labels)}
        known = np.array([i for i, label in enumerate(labels) if label in place], dtype=np.int64)
        number = np.array([place[label] for label in labels if label in place], dtype=np.int64)

        def rise(current_a: NDArray[np.float64]) -> NDArray[np.float64]:
            all_currents, potential = np.zeros(len(self.labels)), np.zeros(len(labels))
            all_currents[number] = current_a[known]
            potential[known] = self.rise_v(all_currents)[number]
            return potential

        return rise
