"""Process and device cards: pydantic schema of the files in ``components/``, and their loader."""

from optinc_pdk.cards.device import DeviceCard
from optinc_pdk.cards.loader import card_digests, changed_parts, load_process, process_names
from optinc_pdk.cards.process import Process, with_drive, with_field_outputs, with_link
from optinc_pdk.cards.quantity import CardError, Quantity
from optinc_pdk.cards.rules import Rule, load_rules
from optinc_pdk.cards.variation import KINDS, Variation
from optinc_pdk.options import DEFAULT_PROCESS, Link, Receivers
from optinc_pdk.validation import validate_api

__all__ = [
    "DEFAULT_PROCESS",
    "KINDS",
    "CardError",
    "DeviceCard",
    "Link",
    "Process",
    "Quantity",
    "Receivers",
    "Rule",
    "Variation",
    "card_digests",
    "changed_parts",
    "load_process",
    "load_rules",
    "process_names",
    "with_drive",
    "with_field_outputs",
    "with_link",
]

validate_api(__name__)
