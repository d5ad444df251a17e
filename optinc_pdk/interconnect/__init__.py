"""The system around the chip: all-reduces as executable schedules, and the time they take."""

from optinc_pdk.interconnect.allreduce import (
    all_gather,
    binary_tree,
    hierarchical_ring,
    optinc_cascade,
    optinc_star,
    recursive_doubling,
    ring,
    wrht,
)
from optinc_pdk.interconnect.schedule import Schedule, Step, bounds, conflicts, execute, turns
from optinc_pdk.interconnect.simulate import Timing, simulate
from optinc_pdk.interconnect.systems import System, load_system, system_names, with_rate
from optinc_pdk.interconnect.training import SCHEMES, StepTime, daso_step_time, schedule_of, step_time

__all__ = [
    "SCHEMES",
    "Schedule",
    "Step",
    "StepTime",
    "System",
    "Timing",
    "all_gather",
    "binary_tree",
    "bounds",
    "conflicts",
    "daso_step_time",
    "execute",
    "hierarchical_ring",
    "load_system",
    "optinc_cascade",
    "optinc_star",
    "recursive_doubling",
    "ring",
    "schedule_of",
    "simulate",
    "step_time",
    "system_names",
    "turns",
    "with_rate",
    "wrht",
]
