"""Distributed training with gradients averaged by the chip, and by the schemes it is compared with.

Collectives for `torch.distributed`: OptINC, ring all-reduce, WRHT, dAD, edAD, rank-dAD and DASO. Needs PyTorch (the
extra `train`).
"""

try:
    import torch  # noqa: F401 - checks that PyTorch is installed
except ModuleNotFoundError as fault:
    raise ModuleNotFoundError("collectives need PyTorch: pip install 'optinc-pdk[train]'", name=fault.name) from fault

from optinc_pdk.collective.chips import (
    AveragingChip,
    ideal_cascade,
    ideal_chip,
    network_cascade,
    network_chip,
)
from optinc_pdk.collective.dad import Dad
from optinc_pdk.collective.daso import Daso
from optinc_pdk.collective.daso_plan import DasoPlan
from optinc_pdk.collective.edad import Edad
from optinc_pdk.collective.error_histogram import TABLE_II, ErrorHistogram
from optinc_pdk.collective.function_table import table_chip
from optinc_pdk.collective.optinc import Optinc, OptincState, optinc_hook
from optinc_pdk.collective.rank_dad import RankDad
from optinc_pdk.collective.ring import AllReduce, Ring, ring_all_reduce
from optinc_pdk.collective.scheme import CommunicationError, Scheme, Traffic
from optinc_pdk.collective.wrht import Wrht, WrhtState, wrht_hook

__all__ = [
    "TABLE_II",
    "AllReduce",
    "AveragingChip",
    "CommunicationError",
    "Dad",
    "Daso",
    "DasoPlan",
    "Edad",
    "ErrorHistogram",
    "Optinc",
    "OptincState",
    "RankDad",
    "Ring",
    "Scheme",
    "Traffic",
    "Wrht",
    "WrhtState",
    "ideal_cascade",
    "ideal_chip",
    "network_cascade",
    "network_chip",
    "optinc_hook",
    "ring_all_reduce",
    "table_chip",
    "wrht_hook",
]
