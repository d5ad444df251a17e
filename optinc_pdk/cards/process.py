"""Schema of process and device cards, which contain every number that depends on the foundry, with its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StrictBool, StrictInt, model_validator

from optinc_pdk.cards.device_models import check_model
from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.quantity import (
    AnyQuantity,
    Bits,
    Chords,
    Count,
    Name,
    NonNegative,
    PortName,
    Positive,
    Quantity,
    Rows,
    SignificantBits,
    StrictModel,
    Text,
)
from optinc_pdk.cards.rules import Rule
from optinc_pdk.cards.variation import Variation

QUANTUM_NM_W_PER_A = 1239.842
"""Wavelength times energy of a photon per charge of an electron, h c / e, in nm W/A (CODATA 2018)."""


class LayerCard(StrictModel):
    """A mask layer.

    Attributes:
        gds: GDS layer and datatype.
        text: Description.
        color: Display colour, as ``#rrggbb``.
        thickness_um: Thickness of the film, for the layer stack.
        bottom_um: Height of the film's lower face, for the layer stack.
        material: Name of the material, for the layer stack.
    """

    gds: tuple[StrictInt, StrictInt]
    text: Text
    color: Annotated[str, Field(pattern=r"^#[0-9a-fA-F]{6}$")]
    thickness_um: NonNegative | None = None
    bottom_um: AnyQuantity | None = None
    material: Text | None = None


class GuideCard(StrictModel):
    """The strip waveguide ("guide").

    Attributes:
        width_um: Width.
        radius_um: Bend radius of the centreline.
        arc_segments: Number of chords by which a 90° bend is drawn.
        index: Effective index at ``wavelength_nm``.
        group_index: Group index at ``wavelength_nm``.
        wavelength_nm: Design wavelength.
        loss_db_per_cm: Propagation loss.
        length_match_um: Largest length difference between guides that must have equal lengths.
        index_per_k: Change of the effective index per kelvin; None if it is not known.
    """

    width_um: Positive
    radius_um: Positive
    arc_segments: Chords
    index: Positive
    group_index: Positive
    wavelength_nm: Positive
    loss_db_per_cm: NonNegative
    length_match_um: Positive
    index_per_k: AnyQuantity | None = None


class GratingCard(StrictModel):
    """Gratings.

    Attributes:
        layer: Name of the mask layer of the etched lines.
    """

    layer: str = "etch70"


class MetalCard(StrictModel):
    """Routing metal.

    Attributes:
        layer: Name of the mask layer of wires and pads.
        wire_width_um: Width of a wire.
        space_um: Spacing of wires.
        sheet_ohm: Sheet resistance in Ω per square.
        current_ma_per_um: Largest current per width of a wire.
    """

    layer: str = "metal"
    wire_width_um: Positive
    space_um: Positive
    sheet_ohm: Positive
    current_ma_per_um: Positive


class ViaCard(StrictModel):
    """Square vias of a contact.

    Attributes:
        size_um: Side of a via.
        space_um: Spacing of vias.
        enclosure_um: Distance by which the metals extend beyond a via.
        ohm_um2: Resistance of a via times its area, in Ω µm²; None if vias have no resistance.
    """

    size_um: Positive
    space_um: Positive
    enclosure_um: Positive
    ohm_um2: NonNegative | None = None


class ContactCard(StrictModel):
    """Layer stack of a heater contact.

    Attributes:
        layers: Names of mask layers from the heater up: one metal, or metals with a via layer between each two.
        via: Dimensions of the vias; None for a single metal.
    """

    layers: tuple[str, ...] = ("metal",)
    via: ViaCard | None = None

    @property
    def metals(self) -> tuple[str, ...]:
        """Names of the metal layers, from the heater up."""
        return self.layers[::2]

    @property
    def vias(self) -> tuple[str, ...]:
        """Names of the via layers, from the heater up."""
        return self.layers[1::2]


class PadsCard(StrictModel):
    """Connection of heaters to the electronics.

    Attributes:
        wiring: ``perimeter``: wires lead to bond pads along two edges of the die. ``flipchip``: every heater has a
            flip-chip bump beside it.
        size_um: Side of a bond pad or of the landing of a bump.
        pitch_um: Least pitch of pads or bumps.
        rows_max: Largest number of staggered rows of bond pads.
    """

    wiring: Literal["perimeter", "flipchip"]
    size_um: Positive
    pitch_um: Positive
    rows_max: Rows


class DieCard(StrictModel):
    """A die size. A process lists its die sizes in order of preference.

    Attributes:
        width_um: Width.
        height_um: Height.
        fit: Label in reports of a chip that needs this size.
        own_size: If true, the die is cut to the size of its content, and width and height are upper limits.
    """

    width_um: Positive
    height_um: Positive
    fit: Literal["fits one die", "fits one reticle"]
    own_size: StrictBool


class FloorplanCard(StrictModel):
    """Pitches and clearances of the floorplan.

    Attributes:
        mode_pitch_um: Distance between adjacent modes of a mesh.
        fibre_pitch_um: Pitch of grating couplers.
        keepout_um: Least distance of shapes from the edge of the die.
        guide_space_um: Least spacing of uncoupled guides.
    """

    mode_pitch_um: Positive
    fibre_pitch_um: Positive
    keepout_um: Positive
    guide_space_um: Positive


Holds = Literal["voltage", "power"]


class DriveCard(StrictModel):
    """Heater drive: one unipolar voltage DAC per channel.

    Attributes:
        holds: ``voltage``: a channel holds the voltage of its code at its pad. ``power``: it measures its current as
            well, and holds the power that this voltage would cause in a heater of the resistance drawn, behind its
            wires and without ground rise.
        dac_bits: Resolution.
        full_scale_v: Voltage of the highest code.
        channel_w: Electrical power of one channel, without the heater; None if it is not known.
    """

    holds: Holds = "voltage"
    dac_bits: Bits
    full_scale_v: Positive
    channel_w: Positive | None = None


class ActivationCard(StrictModel):
    """Realisation of activations, and the range of their electronics.

    Fields are relative to a launched amplitude of 1, which is the full scale of every modulator.

    Attributes:
        realisation: Whether detectors and modulators of the activations are off or on the chip.
        gain_max: Largest gain of an activation.
        offset_max: Largest absolute offset of an activation, in units of the detected difference.
        resolution_bits: Significant bits to which gains, offsets, detector balances and receiver scales are rounded.
        fan_out_max: Largest number of neurons that one pair of detectors and its amplifier drive; None for no limit.
        bandwidth_hz: Bandwidth of the electronics between an amplifier and a modulator, with the modulator's driver;
            None if it is not known.
        driver_w: Electrical power of one modulator's driver with the electronics before it; None if it is not known.
    """

    realisation: Literal["offchip", "onchip"]
    gain_max: Positive
    offset_max: Positive
    resolution_bits: SignificantBits
    fan_out_max: Count | None = None
    bandwidth_hz: Positive | None = None
    driver_w: Positive | None = None


Link = Literal["direct", "neurons"]
Receivers = Literal["photodiodes", "coherent"]


class LinkCard(StrictModel):
    """The link from the outputs of the network to the servers.

    Attributes:
        kind: ``direct``: the servers' photodiodes receive the light of the last layer. ``neurons``: every output ends
            in a neuron, whose modulator sends light of full scale to the servers.
        receivers: ``photodiodes``: the servers detect the power of this light. ``coherent``: they detect its field,
            with a local oscillator of the carrier whose phase is locked to it and two balanced photodiodes.
        oscillator_w: Power of the local oscillator at a coherent receiver; needed for coherent receivers.
        decision_j: Energy with which a server decides a symbol; None if it is not known.
    """

    kind: Link = "neurons"
    receivers: Receivers = "photodiodes"
    oscillator_w: Positive | None = None
    decision_j: Positive | None = None

    @model_validator(mode="after")
    def _oscillator_is_known(self) -> LinkCard:
        if self.receivers == "coherent" and self.oscillator_w is None:
            raise ValueError("link.oscillator_w is missing, which coherent receivers need; add it")
        return self


class BudgetCard(StrictModel):
    """Limits that decide whether a chip of a given size is feasible.

    Attributes:
        cooling_w_per_mm2: Largest heat per area that a die can dissipate.
        laser_w: Optical power launched into every guide.
        oscillator_w: Optical power launched into every fibre that leads to local oscillators of neurons; None for that
            of every guide. Where one carrier is split on the chip, it is the power of this carrier.
        margin_sigmas: Number of standard deviations of noise that a decision must tolerate.
        field_noise: Field noise, relative to full scale, that a network without known weights is assumed to tolerate.
        symbol_rate_min_bd: Lowest useful symbol rate.
        symbol_rate_max_bd: Highest symbol rate of the electronics; None for no limit.
        laser_efficiency: Light in a fibre over the electrical power of its laser; None if it is not known.
    """

    cooling_w_per_mm2: Positive
    laser_w: Positive
    oscillator_w: Positive | None = None
    margin_sigmas: Positive
    field_noise: Positive
    symbol_rate_min_bd: Positive
    symbol_rate_max_bd: Positive | None = None
    laser_efficiency: Positive | None = None


class AmplifierCard(StrictModel):
    """A measured amplifier behind a photodiode.

    Attributes:
        bandwidth_hz: Bandwidth at which its gain has fallen by 3 dB.
        a_per_sqrt_hz: Noise current referred to its input, one-sided.
        power_w: Electrical power, if known.
    """

    bandwidth_hz: Positive
    a_per_sqrt_hz: Positive
    power_w: Positive | None = None


class NoiseCard(StrictModel):
    """Noise of the laser, of fibres and of receivers.

    Attributes:
        symbol_rate_bd: Default symbol rate of noise figures.
        laser_max_w: Largest optical power in a guide.
        intensity_db_per_hz: Relative intensity noise of the laser.
        linewidth_hz: Linewidth of the laser, full width at half maximum.
        fibre_path_m: Path difference between modulated light and local oscillator at a mixer, if the modulator is off
            the chip.
        fibre_index: Group index of fibres.
        chip_path_m: The same path difference if the modulator is on the chip.
        fibre_phase_rad: Phase error of a phase-locked fibre.
        amplifiers: Amplifiers to choose from, from the slowest to the fastest. The noise of a receiver is that of one
            of them; numbers between them are not interpolated.
    """

    symbol_rate_bd: Positive
    laser_max_w: Positive
    intensity_db_per_hz: AnyQuantity
    linewidth_hz: NonNegative
    fibre_path_m: NonNegative
    fibre_index: Positive
    chip_path_m: NonNegative
    fibre_phase_rad: NonNegative
    amplifiers: Annotated[tuple[AmplifierCard, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _amplifiers_ascend(self) -> NoiseCard:
        bandwidths = [float(each.bandwidth_hz) for each in self.amplifiers]
        for below, above in itertools.pairwise(bandwidths):
            if above <= below:
                raise ValueError(
                    f"noise.amplifiers: {above:g} Hz follows {below:g} Hz; list amplifiers by ascending bandwidth"
                )
        return self


class Process(StrictModel):
    """A process card with its design rules and device cards.

    Attributes:
        name: Process name.
        title: Description.
        folders: The process's own folder, followed by the folders of the processes it is based on.
        sources: Sources of the card's numbers by key.
        layers: Mask layers by name.
        guide: The strip waveguide.
        grating: Gratings.
        metal: Routing metal.
        contact: Contacts of heaters.
        pads: Connection of heaters to the electronics.
        dies: Die sizes in order of preference.
        floorplan: Pitches and clearances.
        drive: Heater drive.
        activation: Realisation of activations.
        link: Link from the outputs to the servers.
        budget: Limits of feasibility, if stated.
        imperfections: Process variation, if stated.
        noise: Noise of laser, fibres and receivers, if stated.
        rules: Design rules.
        devices: Device cards by name.
    """

    name: Name
    title: Text
    folders: tuple[Path, ...]
    sources: Mapping[Name, Text]
    layers: Mapping[Name, LayerCard]
    guide: GuideCard
    grating: GratingCard = GratingCard()
    metal: MetalCard
    contact: ContactCard = ContactCard()
    pads: PadsCard
    dies: tuple[DieCard, ...]
    floorplan: FloorplanCard
    drive: DriveCard
    activation: ActivationCard
    link: LinkCard = LinkCard()
    budget: BudgetCard | None = None
    imperfections: Variation | None = None
    noise: NoiseCard | None = None
    rules: tuple[Rule, ...]
    devices: Mapping[str, DeviceCard]

    @model_validator(mode="after")
    def _sources_exist(self) -> Process:
        check_sources(self, self.sources, "process.yml")
        return self

    @model_validator(mode="after")
    def _layers_exist(self) -> Process:
        parts = {
            "grating.layer": (self.grating.layer,),
            "metal.layer": (self.metal.layer,),
            "contact.layers": self.contact.layers,
        }
        for key, names in parts.items():
            for name in names:
                if name not in self.layers:
                    raise ValueError(f"{key}: no layer {name!r}; take one of {', '.join(self.layers)}")
        stack = self.contact.layers
        if len(stack) % 2 == 0 or stack[-1] != self.metal.layer:
            raise ValueError(
                f"contact.layers: {', '.join(stack)} does not lead from a metal through vias to {self.metal.layer!r}, "
                "the layer of wires; correct the layers"
            )
        if bool(self.contact.vias) != (self.contact.via is not None):
            raise ValueError("contact.via: give the vias' size, space and enclosure where contact.layers has vias")
        return self

    @model_validator(mode="after")
    def _oscillator_is_within_the_laser(self) -> Process:
        budget = None if self.budget is None else self.budget.oscillator_w
        for key, power in (("link", self.link.oscillator_w), ("budget", budget)):
            if power is not None and self.noise is not None and power > self.noise.laser_max_w:
                raise ValueError(
                    f"{key}.oscillator_w: value {float(power):g} W is above noise.laser_max_w of "
                    f"{float(self.noise.laser_max_w):g} W; lower it"
                )
        return self

    @model_validator(mode="after")
    def _photons_give_at_most_one_electron(self) -> Process:
        for device in self.devices.values():
            found = device.model.parameters.get("responsivity_a_per_w") if device.model.name == "photodiode" else None
            most = float(self.guide.wavelength_nm) / QUANTUM_NM_W_PER_A
            if found is not None and found > most:
                raise ValueError(
                    f"device {device.name!r}: responsivity_a_per_w: value {float(found):g} is above {most:.4g}, one "
                    f"electron for every photon of {float(self.guide.wavelength_nm):g} nm; lower it"
                )
        return self

    @property
    def folder(self) -> Path:
        """Folder of the process's own cards."""
        return self.folders[0]

    def files(self, pattern: str) -> list[Path]:
        """Return the process's own and inherited files that match a glob pattern.

        Args:
            pattern: Glob pattern relative to the process's folders, such as ``devices/*.yml``.

        Returns:
            Paths sorted by file name. A file replaces inherited files of the same name.
        """
        return inherited_files(self.folders, pattern)

    def pad_pitch_um(self, rows: int) -> float:
        """Return the pitch of bond pads in µm, which leaves space for the wires to outer rows between the inner pads.

        Args:
            rows: Number of staggered rows of pads.
        """
        track = float(self.metal.wire_width_um + self.metal.space_um)
        between = float(self.pads.size_um + self.metal.space_um) + (rows - 1) * track
        return max(float(self.pads.pitch_um), between)

    @property
    def gds_layers(self) -> dict[str, tuple[int, int]]:
        """GDS layer and datatype of each mask layer, by layer name."""
        return {name: layer.gds for name, layer in self.layers.items()}

    def device(self, name: str) -> DeviceCard:
        """Return a device card by name.

        Raises:
            CardError: The process has no such device.
        """
        self.require_devices((name,))
        return self.devices[name]

    def require_devices(self, names: Iterable[str]) -> None:
        """Check that the process has device cards, and the devices of given names among them.

        Args:
            names: Device names; may be empty.

        Raises:
            CardError: The process has no device cards at all, or lacks devices; the message names them and the remedy.
        """
        if not self.devices:
            raise CardError(
                f"process {self.name!r} has no device cards (devices/*.yml); add them to {self.folder}, or state with "
                "'base' in process.yml a process to inherit them from"
            )
        if missing := sorted(set(names) - set(self.devices)):
            raise CardError(
                f"process {self.name!r} has no device {', '.join(map(repr, missing))}; it has "
                f"{', '.join(sorted(self.devices))}; add devices/{missing[0]}.yml to {self.folder}, or use "
                "another process"
            )


def with_link(process: Process, kind: Link | None, receivers: Receivers | None) -> Process:
    """Return a process with another link to the servers.

    Args:
        process: The process.
        kind: Kind of the link; None for the process's.
        receivers: Receivers of the servers; None for the process's.

    Raises:
        CardError: Coherent receivers are chosen, and the process states no power of their local oscillators.
    """
    chosen = {"kind": kind, "receivers": receivers}
    link = process.link.model_copy(update={key: value for key, value in chosen.items() if value is not None})
    if link.receivers == "coherent" and link.oscillator_w is None:
        raise CardError(
            f"process {process.name!r} has no link.oscillator_w, the power of the local oscillator of coherent "
            "receivers; add it to process.yml, or take photodiodes"
        )
    return process.model_copy(update={"link": link})


def with_drive(process: Process, holds: Holds) -> Process:
    """Return a process whose heater drive holds another quantity.

    Args:
        process: The process.
        holds: What a channel holds, see :class:`DriveCard`.
    """
    return process.model_copy(update={"drive": process.drive.model_copy(update={"holds": holds})})


class PortsCard(StrictModel):
    """Port names of a device.

    Attributes:
        optical: Optical ports in the order of the device's S-matrix.
        electrical: Electrical ports.
        widths: Optical port to the geometry key of its guide width. A port that is missing has the width of the strip
            guide.
    """

    optical: tuple[PortName, ...]
    electrical: tuple[PortName, ...] = ()
    widths: Mapping[PortName, Name] = {}

    @model_validator(mode="after")
    def _ports_differ(self) -> PortsCard:
        names = (*self.optical, *self.electrical)
        if len(set(names)) < len(names):
            raise ValueError(f"ports: {', '.join(names)}; give every port its own name")
        return self


class DeviceModelCard(StrictModel):
    """Compact model of a device.

    Attributes:
        name: Name of the model.
        parameters: Parameters of the model.
        file: File of S-parameters (``.sNp`` or ``.npz``) that replaces the model, relative to the card's folder; None
            if there is none.
    """

    name: Name
    parameters: Mapping[Name, AnyQuantity] = {}
    file: Path | None = None


class DeviceCard(StrictModel):
    """A device card.

    Attributes:
        name: Device name.
        title: Description.
        ports: Port names.
        geometry: Dimensions by key; keys that end in ``_um`` are in µm.
        model: Compact model.
        limits: Range of validity of the model.
        sources: Sources of the card's numbers by key.
    """

    name: Name
    title: Text
    ports: PortsCard
    geometry: Mapping[Name, AnyQuantity] = {}
    model: DeviceModelCard
    limits: Mapping[Name, AnyQuantity] = {}
    sources: Mapping[Name, Text]

    @model_validator(mode="after")
    def _sources_exist(self) -> DeviceCard:
        check_sources(self, self.sources, f"device {self.name}")
        return self

    @model_validator(mode="after")
    def _widths_exist(self) -> DeviceCard:
        for port, key in self.ports.widths.items():
            if port not in self.ports.optical:
                raise ValueError(f"ports.widths: no optical port {port!r}; take one of {', '.join(self.ports.optical)}")
            if key not in self.geometry:
                raise ValueError(
                    f"ports.widths.{port}: geometry has no {key!r}; take one of {', '.join(self.geometry)}"
                )
        return self

    @model_validator(mode="after")
    def _is_passive(self) -> DeviceCard:
        check_model(self)
        return self

    def size(self, key: str) -> float:
        """Return a dimension of the device, in the unit that its key ends in.

        Args:
            key: Key in ``geometry``, such as ``length_um``.

        Raises:
            CardError: The card has no such key.
        """
        if key not in self.geometry:
            raise CardError(f"device {self.name!r}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return float(self.geometry[key])

    def parameter(self, key: str) -> float:
        """Return a parameter of the device's compact model.

        Args:
            key: Key in ``model.parameters``.

        Raises:
            CardError: The card has no such key.
        """
        parameters = self.model.parameters
        if key not in parameters:
            raise CardError(f"device {self.name!r}: model has no {key!r}; it has {', '.join(parameters)}")
        return float(parameters[key])


def check_sources(card: BaseModel, sources: Mapping[str, str], where: str) -> None:
    """Check that every quantity of a card cites a known source.

    Args:
        card: Card.
        sources: Sources by key.
        where: Name of the card, for the message.

    Raises:
        ValueError: A source is missing; the message names the source and the quantity.
    """
    for path, quantity in quantities(card, ""):
        if quantity.source not in sources:
            raise ValueError(f"{where}: {path}: source {quantity.source!r} is not under 'sources'; add it there")


def quantities(value: Any, path: str) -> Iterator[tuple[str, Quantity]]:
    """Yield every quantity of a card with its path of keys, except quantities of design rules and device cards in it.

    Args:
        value: Card, or a part of it.
        path: Path of keys of ``value``, empty for a whole card.

    Yields:
        Path, such as ``layers.core.thickness_um``, and quantity.
    """
    if isinstance(value, Quantity):
        yield path, value
    elif isinstance(value, Rule | DeviceCard) and path:
        return
    elif isinstance(value, BaseModel):
        for key in type(value).model_fields:
            yield from quantities(getattr(value, key), f"{path}.{key}" if path else key)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from quantities(item, f"{path}.{key}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from quantities(item, f"{path}[{i}]")


def inherited_files(folders: tuple[Path, ...], pattern: str) -> list[Path]:
    """Return the files in several folders that match a glob pattern.

    Args:
        folders: Folders in order of precedence.
        pattern: Glob pattern relative to the folders.

    Returns:
        Paths sorted by file name. Of files with equal names, the one in the earliest folder is returned.
    """
    found = {path.name: path for folder in folders[::-1] for path in folder.glob(pattern)}
    return [found[name] for name in sorted(found)]


Process.model_rebuild()
