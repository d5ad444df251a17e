"""Distributed training with gradients averaged by the chip, and by the schemes it is compared with.

Collectives for `torch.distributed`: OptINC, ring all-reduce, WRHT, dAD, edAD, rank-dAD and DASO. Needs PyTorch (the
extra `train`).
"""

try:
    import torch  # noqa: F401 - checks that PyTorch is installed
except ModuleNotFoundError as fault:
    raise ModuleNotFoundError("collectives need PyTorch: pip install 'optinc-pdk[train]'", name=fault.name) from fault

from optinc_collective.schemes._chips import (
    TABLE_II,
    AveragingChip,
    ErrorHistogram,
    ideal_cascade,
    ideal_chip,
    network_cascade,
    network_chip,
    table_chip,
)
from optinc_collective.schemes._dad import Dad, Edad, RankDad
from optinc_collective.schemes._daso import Daso, DasoPlan
from optinc_collective.schemes.exact_all_reduce import AllReduce, Ring, Wrht, WrhtState, ring_all_reduce, wrht_hook
from optinc_collective.schemes.optinc import Optinc, OptincState, optinc_hook
from optinc_collective.schemes.scheme import CommunicationError, Scheme, Traffic

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
