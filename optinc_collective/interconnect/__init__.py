"""Model of the network between servers: all-reduces as executable schedules, and simulation of their duration.

The networks are optical rings, fat trees of electrical switches, switches that reduce (SHARP), and in-network
computing by an OptINC chip.
"""

from optinc_collective.interconnect._systems import System, load_system, system_names, with_rate
from optinc_collective.interconnect.allreduce import (
    all_gather,
    binary_tree,
    hierarchical_ring,
    optinc_cascade,
    optinc_star,
    recursive_doubling,
    ring,
    sharp,
    wrht,
)
from optinc_collective.interconnect.exchange_schedule import (
    ExchangeSchedule,
    ExchangeStep,
    execute,
    piece_bounds,
    repetitions,
    wavelength_conflicts,
)
from optinc_collective.interconnect.exchange_simulation import ExchangeEnergy, ExchangeTiming, exchange_energy, simulate
from optinc_collective.interconnect.training_time import SCHEMES, StepTime, daso_step_time, schedule_of, step_time
from optinc_pdk.validation import validate_api

__all__ = [
    "SCHEMES",
    "ExchangeEnergy",
    "ExchangeSchedule",
    "ExchangeStep",
    "ExchangeTiming",
    "StepTime",
    "System",
    "all_gather",
    "binary_tree",
    "daso_step_time",
    "exchange_energy",
    "execute",
    "hierarchical_ring",
    "load_system",
    "optinc_cascade",
    "optinc_star",
    "piece_bounds",
    "recursive_doubling",
    "repetitions",
    "ring",
    "schedule_of",
    "sharp",
    "simulate",
    "step_time",
    "system_names",
    "wavelength_conflicts",
    "with_rate",
    "wrht",
]

validate_api(__name__)
