"""Parts of a circuit that depend on its dies: feeds of local oscillators, and grounds that strips share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DiePlan:
    """How a network's strips share dies, as far as the circuit depends on it.

    Attributes:
        carrier_tree: Whether all strips lie on one die, with one tree of splitters from the carrier to every local
            oscillator and one ground for all. Otherwise strips are local: each block's local oscillators have a fibre
            of their own, and grounds are joined within a strip or among the strips of a die.
        ground_groups: Name of a local strip to the name of its die, whose ground bus it shares. A local strip that is
            not listed has ground pads of its own. Not used with a carrier tree.
    """

    carrier_tree: bool
    ground_groups: Mapping[str, str] = field(default_factory=dict)


CARRIER_TREE = DiePlan(carrier_tree=True)
"""All strips on one die, with a carrier tree and one ground."""
LOCAL_STRIPS = DiePlan(carrier_tree=False)
"""Strips that share neither carriers nor grounds."""
