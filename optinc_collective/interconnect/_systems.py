"""Schema and loader of the system cards in ``components/systems/``. A system is a network of servers.

Every number names its source. ``bit_per_s`` is the rate of one wavelength in one direction in a ring, and of every link
in each direction in a fat tree. In an in-network system it follows from the transceivers and, if the card has a chip,
from the chip's symbol rate; with SHARP, from the links of a server and the share of their rate at which switches
reduce.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, model_validator

from optinc_pdk.cards import CardError
from optinc_pdk.cards.loader import components_folder
from optinc_pdk.cards.quantity import (
    Count,
    Name,
    NonNegative,
    Positive,
    Quantity,
    StrictModel,
    Text,
    describe_fault,
    quantities,
)
from optinc_pdk.errors import InputError
from optinc_pdk.io.reading import CARD
from optinc_pdk.io.yaml_files import load_yaml
from optinc_pdk.validation import validate_arguments

LIGHT_SPEED_M_S = 299_792_458.0
MAX_LOG_PORTS = 32
"""Maximum of levels × log₂(ports of a switch in one direction) of a fat tree; the simulation keeps a time per link."""


MIN_RADIX = 2
"""Smallest radix of a switch that reduces; with less, a tree of switches would have no end."""


def _at_most_one(quantity: Quantity) -> Quantity:
    if quantity > 1:
        raise ValueError(f"value {float(quantity)} must be at most 1")
    return quantity


Utilisation = Annotated[Positive, AfterValidator(_at_most_one)]


class Server(StrictModel):
    """Computing performance of a server: its peak rate, and the share of it that training reaches."""

    flop_per_s: Positive = Field(description="peak operations per second")
    utilisation: Utilisation = Field(description="share of the peak that training reaches")


class InNetworkChip(StrictModel):
    """Word length and symbol rate of an in-network chip.

    The chip receives one word of every server per symbol time, because the symbols of a word are sent in parallel.
    """

    bits: Count = Field(description="bits of a word")
    symbol_rate_bd: Positive = Field(description="symbols per second at an acceptable word-error rate")


class OpticsEnergy(StrictModel):
    """Energy of one kind of optics for every bit: power divided by rate, of a module and of what drives it."""

    module_j_per_bit: Positive = Field(description="transceiver, with its signal processing if it has some")
    serdes_j_per_bit: Positive = Field(description="electrical transmitter and receiver of a server beside it")


class TransceiverEnergy(StrictModel):
    """Energy of the electrical parts of servers and links in operation, for every bit that passes them.

    The energy of a transceiver for a bit is its power divided by its rate, so it covers the sending end of a bit and
    the receiving end of another. A link has two transceivers and two directions: a bit on it takes this energy once.
    In the same way, it takes half the energy of SerDes and error correction at every end of a link that is a server.
    """

    pluggable: OpticsEnergy = Field(description="pluggable modules with digital signal processing")
    linear: OpticsEnergy = Field(description="linear pluggable modules, without signal processing")
    copackaged: OpticsEnergy = Field(description="optics in the package of the chips")
    correction_j_per_bit: NonNegative = Field(description="error correction: coding a bit and decoding another")
    addition_j_per_bit: NonNegative = Field(description="adding a bit of a received buffer")


class SwitchedEnergy(TransceiverEnergy):
    """Energy of a network with switches, for every bit that passes a part."""

    switch_j_per_bit: Positive = Field(description="switch chip, with its SerDes and error correction")


class _System(StrictModel):
    """Fields of all systems."""

    name: Name
    sources: Mapping[Name, Text]
    overhead_s: NonNegative = Field(description="of every transfer in every step, before its data are sent")
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
        """Propagation time of light through a length of fibre."""
        return metres * float(self.fibre_index) / LIGHT_SPEED_M_S


class WdmRing(_System):
    """System of nodes on a bidirectional fibre ring with wavelength-division multiplexing.

    A transfer occupies one wavelength, in one direction, on every link between its two nodes.
    """

    kind: Literal["wdm_ring"]
    wavelengths: Count = Field(description="number in each direction")
    bit_per_s: Positive = Field(description="rate of one wavelength")
    spacing_m: NonNegative = Field(description="fibre from a node to the next")
    energy: TransceiverEnergy | None = None


class FatTree(_System):
    """System of nodes in a fat tree of electrical switches.

    A switch has ``down_ports`` ports towards the nodes and ``up_ports`` ports to the level above. The switches of the
    top level use all their ports downwards. Routing depends on the target only (D-mod-k, as in InfiniBand fat trees):
    from level l = 1, 2, … a message takes the upward port ⌊target / down_ports^(l−1)⌋ modulo up_ports.
    """

    kind: Literal["fat_tree"]
    bit_per_s: Positive = Field(description="rate of every link, each way")
    down_ports: Count = Field(description="ports of a switch towards the nodes")
    up_ports: Count = Field(description="ports of a switch away from the nodes")
    levels: Count = Field(description="levels of switches")
    switch_s: NonNegative = Field(description="delay of a switch")
    cable_m: NonNegative = Field(description="length of every link")
    energy: SwitchedEnergy | None = None

    @model_validator(mode="after")
    def _links_fit_in_memory(self) -> FatTree:
        ports = max(self.down_ports, self.up_ports, 2.0)
        if self.levels * log2(ports) > MAX_LOG_PORTS:
            raise ValueError(
                f"levels: {float(self.levels):g} of switches with {float(ports):g} ports in one direction; levels × "
                f"log₂(ports) must be at most {MAX_LOG_PORTS}: give fewer levels or ports"
            )
        return self

    @property
    def max_nodes(self) -> int:
        """Maximum number of nodes of the tree, as its ports and levels determine."""
        down, up, levels = int(self.down_ports), int(self.up_ports), int(self.levels)
        below = 1
        for _ in range(levels - 1):
            below *= down
        return below * (down + up if levels > 1 else down)


class InNetwork(_System):
    """System with in-network computing by OptINC chips (arXiv 2603.28290).

    Every server has its own fibres to a chip. With one level there is one chip, for all servers. With two levels, a
    cascade, the chips of the first level are connected to one chip of the second.
    """

    kind: Literal["in_network"]
    transceivers: Count = Field(description="number per server")
    transceiver_bit_per_s: Positive = Field(description="rate of one transceiver")
    levels: Count = Field(description="1: a star; 2: a cascade")
    fibre_m: NonNegative = Field(description="fibre between servers and chip, and between chips")
    chip: InNetworkChip | None = Field(default=None, description="without it, the chip is as fast as the transceivers")

    @property
    def bit_per_s(self) -> float:
        """Rate at which a server sends and receives, bit/s: that of all its transceivers, or of the chip if slower."""
        rate = float(self.transceivers) * float(self.transceiver_bit_per_s)
        return rate if self.chip is None else min(rate, float(self.chip.bits) * float(self.chip.symbol_rate_bd))


class Sharp(_System):
    """System of switches that reduce the data of their ports: SHARP (Graham et al., COMHPC 2016 and ISC 2020).

    Switches form a tree: servers or switches of the level below are connected to one, up to its radix, and every switch
    has one link upwards. A link consists of parallel links, each through a switch of its own.
    """

    kind: Literal["sharp"]
    links: Count = Field(description="parallel links per server")
    link_bit_per_s: Positive = Field(description="rate of one of them, each way")
    streaming: Utilisation = Field(description="share of the rate at which switches reduce long buffers")
    radix: Count = Field(description="ports of a switch towards the servers")
    levels: Count = Field(description="maximum number of levels of switches")
    switch_s: NonNegative = Field(description="delay of a switch, with its addition")
    cable_m: NonNegative = Field(description="length of every link")
    energy: SwitchedEnergy | None = None

    @model_validator(mode="after")
    def _a_switch_reduces(self) -> Sharp:
        if self.radix < MIN_RADIX:
            raise ValueError(f"radix: value {float(self.radix):g} must be at least {MIN_RADIX}")
        return self

    @property
    def bit_per_s(self) -> float:
        """Rate at which a server sends and receives during a reduction, bit/s."""
        return float(self.links) * float(self.link_bit_per_s) * float(self.streaming)


System = WdmRing | FatTree | InNetwork | Sharp
_KINDS: Mapping[str, type[WdmRing] | type[FatTree] | type[InNetwork] | type[Sharp]] = {
    "wdm_ring": WdmRing,
    "fat_tree": FatTree,
    "in_network": InNetwork,
    "sharp": Sharp,
}


def system_names() -> tuple[str, ...]:
    """Return the sorted names of the system cards in ``components/systems/``."""
    return tuple(sorted(path.stem for path in (components_folder() / "systems").glob("*.yml")))


@validate_arguments
def load_system(name: str) -> System:
    """Load and validate a system card by its name, see `system_names`, or by the path of a card.

    Raises:
        CardError: There is no such card, or it is invalid. The message names the file, key, fault and remedy.
    """
    path = components_folder() / "systems" / f"{name}.yml"
    if name not in system_names():
        path = Path(name)
        try:
            exists = path.is_file()
        except OSError as fault:  # an invalid file name, or a folder without read permission
            raise CardError(f"{path}: cannot be read ({fault.strerror}); check the path") from fault
        if not exists:
            raise CardError(f"no system {name!r}: give one of {', '.join(system_names())}, or the path of a card")
    data = load_yaml(path, CARD, CardError)
    schema = data.pop("schema", None)
    if type(schema) is not int or schema != 1:
        raise CardError(f"{path}: schema must be 1")
    kind = data.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise CardError(f"{path}: kind: {kind!r} is not a kind of system; give one of {', '.join(_KINDS)}")
    try:
        system = _KINDS[kind].model_validate(data)
    except ValidationError as fault:
        first = fault.errors()[0]
        raise CardError(f"{path}: {describe_fault(first, '.'.join(map(str, first['loc'])))}") from fault
    if system.name != path.stem:
        raise CardError(f"{path}: name is {system.name!r}, that of the file is {path.stem!r}; make them equal")
    return system


@validate_arguments
def with_rate(system: System, bit_per_s: float) -> System:
    """Return a copy of a system with another bit rate.

    It is that of a wavelength in a ring, of a link in a fat tree, of all transceivers of a server together in an
    in-network system, whose copy has no chip that limits the rate, or at which a server sends and receives during a
    reduction by SHARP.

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
    if isinstance(system, Sharp):
        rate = bit_per_s / (float(system.links) * float(system.streaming))
        return system.model_copy(update={**changed, "link_bit_per_s": Quantity(rate, source)})
    return system.model_copy(update={**changed, "bit_per_s": Quantity(bit_per_s, source)})
