"""Systems as data: schema and loader of ``components/systems/``, a card for every network of servers.

Every number names its source. A ring's ``bit_per_s`` is that of one wavelength in one direction, a fat tree's that of
every link in each direction; an in-network system's follows from its transceivers and, where the card has a chip,
from what the chip's light allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from optinc_pdk.cards import CardError
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.cards.process import quantities
from optinc_pdk.cards.quantity import NonNegative, Positive, Quantity, StrictModel
from optinc_pdk.errors import InputError
from optinc_pdk.validation import validate_arguments
from optinc_pdk.yaml_io import load_yaml

_MENDS = {"extra_forbidden": "remove the key or correct its spelling", "missing": "add the key"}
LIGHT_SPEED_M_S = 299_792_458.0
MAX_LOG_PORTS = 32
"""Of a fat tree, most levels × log₂(ports of a switch in one direction): there is a time for each of its links."""


def _whole(quantity: Quantity) -> Quantity:
    if not quantity.is_integer():
        raise ValueError(f"value {float(quantity)} must be a whole number")
    return quantity


def _at_most_one(quantity: Quantity) -> Quantity:
    if quantity > 1:
        raise ValueError(f"value {float(quantity)} must be at most 1")
    return quantity


Count = Annotated[Positive, AfterValidator(_whole)]
Utilisation = Annotated[Positive, AfterValidator(_at_most_one)]


class Server(StrictModel):
    """What computes the gradients."""

    flop_per_s: Positive = Field(description="peak operations per second")
    utilisation: Utilisation = Field(description="share of the peak that trainings reach")


class Chip(StrictModel):
    """An in-network chip: a word of ``bits`` per symbol, its symbols side by side."""

    bits: Count = Field(description="bits of a word")
    symbol_rate_bd: Positive = Field(description="symbols per second at an acceptable word-error rate")


class _System(StrictModel):
    """What all systems have."""

    name: str
    sources: Mapping[str, str]
    overhead_s: NonNegative = Field(description="of every transfer in every step, before its data flow")
    reconfiguration_s: NonNegative = Field(description="of a transfer whose circuit differs from the step before")
    fibre_index: Positive = Field(description="group index of the fibres")
    server: Server | None = None

    @model_validator(mode="after")
    def _sources_are_defined(self) -> _System:
        for key, quantity in quantities(self, ""):
            if quantity.source not in self.sources:
                raise ValueError(f"{key}: source {quantity.source!r} is not under 'sources'; add it there")
        return self

    def flight_s(self, metres: float) -> float:
        """Time that light takes through so much fibre."""
        return metres * float(self.fibre_index) / LIGHT_SPEED_M_S


class WdmRing(_System):
    """Nodes on a bidirectional ring of fibre; a circuit takes a wavelength on every link that it passes."""

    kind: Literal["wdm_ring"]
    wavelengths: Count = Field(description="number in each direction")
    bit_per_s: Positive = Field(description="rate of one wavelength")
    spacing_m: NonNegative = Field(description="fibre from a node to the next")


class FatTree(_System):
    """Electrical switches; a node's level-1 switch has ``down_ports`` nodes, and ``up_ports`` to the level above.

    The top switches use all their ports downwards. A message to a node takes the upward port that is the node's number
    modulo the number of ports (D-mod-k), as InfiniBand's fat trees do.
    """

    kind: Literal["fat_tree"]
    bit_per_s: Positive = Field(description="rate of every link, each way")
    down_ports: Count = Field(description="ports of a switch towards the nodes")
    up_ports: Count = Field(description="ports of a switch away from the nodes")
    levels: Count = Field(description="levels of switches")
    switch_s: NonNegative = Field(description="delay of a switch")
    cable_m: NonNegative = Field(description="length of every link")

    @model_validator(mode="after")
    def _can_be_numbered(self) -> FatTree:
        ports = max(self.down_ports, self.up_ports, 2.0)
        if self.levels * log2(ports) > MAX_LOG_PORTS:
            raise ValueError(
                f"levels: {float(self.levels):g} of switches with {float(ports):g} ports in one direction; levels × "
                f"log₂(ports) must be at most {MAX_LOG_PORTS}: give fewer levels or ports"
            )
        return self

    @property
    def most_nodes(self) -> int:
        """How many nodes there is room for."""
        down, up, levels = int(self.down_ports), int(self.up_ports), int(self.levels)
        below = 1
        for _ in range(levels - 1):
            below *= down
        return below * (down + up if levels > 1 else down)


class InNetwork(_System):
    """OptINC: servers on fibres of their own to one chip, or through a level of chips to one."""

    kind: Literal["in_network"]
    transceivers: Count = Field(description="of every server")
    transceiver_bit_per_s: Positive = Field(description="rate of one")
    levels: Count = Field(description="1: a star; 2: a cascade")
    fibre_m: NonNegative = Field(description="fibre between servers and chip, and between chips")
    chip: Chip | None = Field(default=None, description="where left out, as fast as the transceivers")

    @property
    def bit_per_s(self) -> float:
        """What a server sends and receives: the transceivers' rate, or one word per symbol where a chip limits it."""
        rate = float(self.transceivers) * float(self.transceiver_bit_per_s)
        return rate if self.chip is None else min(rate, float(self.chip.bits) * float(self.chip.symbol_rate_bd))


System = WdmRing | FatTree | InNetwork
_KINDS: Mapping[str, type[WdmRing] | type[FatTree] | type[InNetwork]] = {
    "wdm_ring": WdmRing,
    "fat_tree": FatTree,
    "in_network": InNetwork,
}


def system_names() -> tuple[str, ...]:
    """Names of the systems that come with the package."""
    return tuple(sorted(path.stem for path in (components_folder() / "systems").glob("*.yml")))


@validate_arguments
def load_system(name: str) -> System:
    """A system by name from ``components/systems/``, or from a file by its path.

    Raises:
        CardError: No such system, or its card cannot be used; names the file, the key, the fault and the mend.
    """
    path = components_folder() / "systems" / f"{name}.yml"
    if name not in system_names():
        path = Path(name)
        try:
            there = path.is_file()
        except OSError as fault:  # a name that no file can have, or a folder that may not be read
            raise CardError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
        if not there:
            raise CardError(f"no system {name!r}: give one of {', '.join(system_names())}, or the path of a card")
    data = load_yaml(path, CardError)
    if data.pop("schema", None) != 1:
        raise CardError(f"{path}: schema must be 1")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CardError(f"{path}: kind: {kind!r} is no kind of system; give one of {', '.join(_KINDS)}")
    try:
        system = _KINDS[kind].model_validate(data)
    except ValidationError as fault:
        first = fault.errors()[0]
        key = ".".join(map(str, first["loc"])) or "card"
        raise CardError(f"{path}: {key}: {first['msg']}; {_MENDS.get(first['type'], 'correct the value')}") from fault
    if system.name != path.stem:
        raise CardError(f"{path}: name is {system.name!r}, the file's is {path.stem!r}; make them equal")
    return system


@validate_arguments
def with_rate(system: System, bit_per_s: float) -> System:
    """The same system at another rate: of a wavelength, of a link, or of all a server's transceivers together.

    Raises:
        InputError: The rate is not finite or not above 0.
    """
    if not 0 < bit_per_s < float("inf"):
        raise InputError(f"{system.name}: a rate of {bit_per_s} b/s; give a finite one above 0")
    source = "given"
    changed = {"sources": {**system.sources, source: "given by the caller"}}
    if isinstance(system, InNetwork):
        rate = bit_per_s / float(system.transceivers)
        return system.model_copy(
            update={**changed, "transceiver_bit_per_s": Quantity(rate, source), "chip": None},
        )
    return system.model_copy(update={**changed, "bit_per_s": Quantity(bit_per_s, source)})
