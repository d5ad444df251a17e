"""Distribution of a circuit over dies: how local oscillators are fed, and which strips share a ground."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from optinc_pdk.circuit import Circuit


@dataclass(frozen=True)
class DiePlan:
    """The effects on the circuit of how a network's strips are distributed over dies.

    A strip is a part of the floorplan with one block, or with all blocks of the first or of the last layer.

    Attributes:
        carrier_tree: True if all strips lie on one die: one splitter tree distributes the carrier to all local
            oscillators, and all heaters share one ground. False if strips are independent: the local oscillators of
            each block have a fibre of their own, and grounds are shared within a strip or among the strips of a die.
        ground_groups: Name of a strip to the name of the die whose ground it shares. A strip that is missing has ground
            pads of its own. Not used if ``carrier_tree`` is true.
    """

    carrier_tree: bool
    ground_groups: Mapping[str, str] = field(default_factory=dict)


CARRIER_TREE = DiePlan(carrier_tree=True)
"""All strips on one die, with a carrier tree and one ground."""
LOCAL_STRIPS = DiePlan(carrier_tree=False)
"""Strips that share neither carriers nor grounds."""


class CircuitPlan(Protocol):
    """A circuit without the parts that depend on the dies, whatever the chip computes."""

    @property
    def strips(self) -> tuple[str, ...]:
        """Names of the strips of the floorplan, in the order in which light passes them."""
        ...

    @property
    def shares_one_die(self) -> bool:
        """Whether all strips may share one die and its ground."""
        ...

    def complete(self, plan: DiePlan) -> Circuit:
        """Return the complete circuit for a distribution over dies."""
        ...
