"""Process and device cards: schema and loader of ``components/``."""

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.load import DEFAULT_PROCESS, load_process, process_names
from optinc_pdk.cards.process import Device, Process
from optinc_pdk.cards.rules import Rule, load_rules
from optinc_pdk.cards.values import Quantity
from optinc_pdk.cards.variation import KINDS, Variation

__all__ = [
    "DEFAULT_PROCESS",
    "KINDS",
    "CardError",
    "Device",
    "Process",
    "Quantity",
    "Rule",
    "Variation",
    "load_process",
    "load_rules",
    "process_names",
]
