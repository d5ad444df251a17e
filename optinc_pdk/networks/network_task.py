"""What chips need to know of a network's task: its inputs, its outputs, and the inputs that it is scaled for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from numpy.typing import ArrayLike

from optinc_pdk.arrays import Floats


class NetworkTask(Protocol):
    """The task of a network: :class:`optinc_pdk.averaging.Averaging`, or that of a general network.

    N servers send M symbols each, which form K network inputs. A general network has one server, and a symbol for each
    input.
    """

    @property
    def servers(self) -> int:
        """Number of servers N."""
        ...

    @property
    def symbols(self) -> int:
        """Number of input fibres of each server, M."""
        ...

    @property
    def groups(self) -> int:
        """Number of network inputs, K."""
        ...

    @property
    def group_symbols(self) -> int:
        """Number of symbols that form one input, M/K."""
        ...

    @property
    def symbol_shares(self) -> Floats:
        """(M/K,) share of each symbol in its input; sum 1."""
        ...

    @property
    def outputs(self) -> int:
        """Number of outputs of the network."""
        ...

    @property
    def receivers(self) -> int:
        """Number of receivers of each output."""
        ...

    @property
    def remainder(self) -> bool:
        """Whether the outputs go to level 2 of a cascade, so that their fields are equal per level."""
        ...

    @property
    def enumerable(self) -> bool:
        """Whether `batches` yields all inputs that exist."""
        ...

    @property
    def reserve(self) -> float:
        """Factor by which hidden signals may exceed their maxima over `batches`, at least 1."""
        ...

    @property
    def input_minima(self) -> Floats:
        """(K,) smallest value of each network input."""
        ...

    @property
    def input_maxima(self) -> Floats:
        """(K,) largest value of each network input."""
        ...

    @property
    def default_amplitude(self) -> float:
        """Amplitude of the highest level in the input fibres."""
        ...

    def input_values(self, amplitudes: ArrayLike | None = None) -> Floats:
        """Return the (K,) value of each network input whose fibres have amplitude 1."""
        ...

    def batches(self, points: int = 1 << 16) -> Iterator[Floats]:
        """Yield inputs, (at most ``points``, K) each, over which signals are scaled."""
        ...
