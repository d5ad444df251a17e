"""The system around the chip: all-reduces as executable schedules, and the time they take."""

from optinc_pdk.interconnect.allreduce import (
    binary_tree,
    hierarchical_ring,
    optinc_cascade,
    optinc_star,
    recursive_doubling,
    ring,
    wrht,
)
from optinc_pdk.interconnect.schedule import Schedule, Step, bounds, conflicts, execute, turns

__all__ = [
    "Schedule",
    "Step",
    "binary_tree",
    "bounds",
    "conflicts",
    "execute",
    "hierarchical_ring",
    "optinc_cascade",
    "optinc_star",
    "recursive_doubling",
    "ring",
    "turns",
    "wrht",
]
