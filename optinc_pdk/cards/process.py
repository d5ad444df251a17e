"""Process cards: everything that changes when the foundry changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, model_validator

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.rules import Rule
from optinc_pdk.cards.values import AnyQuantity, NonNegative, Positive, Quantity, Strict
from optinc_pdk.cards.variation import Variation


class Layer(Strict):
    """A mask layer: GDS layer and datatype, colour of its view, thickness and height for the layer stack."""

    gds: tuple[int, int]
    text: str
    color: str
    thickness_um: NonNegative | None = None
    bottom_um: AnyQuantity | None = None
    material: str | None = None


class Guide(Strict):
    """The strip guide. ``arc_segments`` counts the chords of a 90° bend."""

    width_um: Positive
    radius_um: Positive
    arc_segments: Positive
    index: Positive
    group_index: Positive
    wavelength_nm: Positive
    loss_db_per_cm: NonNegative
    length_match_um: Positive


class Grating(Strict):
    """The layer of the gratings' etched lines."""

    layer: str = "etch70"


class Metal(Strict):
    """Routing metal: the layer of wires and pads, wires, their spacing, and how much current they may carry."""

    layer: str = "metal"
    wire_width_um: Positive
    space_um: Positive
    sheet_ohm: Positive
    current_ma_per_um: Positive


class Via(Strict):
    """Square vias of a contact: their side, their space, and how far the metals go on beyond them.

    ``ohm_um2`` is the resistance of vias times their area; they have none where it is left out.
    """

    size_um: Positive
    space_um: Positive
    enclosure_um: Positive
    ohm_um2: NonNegative | None = None


class Contact(Strict):
    """What a contact is made of, from the heater up: a metal, or metals with a layer of vias between any two."""

    layers: tuple[str, ...] = ("metal",)
    via: Via | None = None

    @property
    def metals(self) -> tuple[str, ...]:
        """The metals; the first lies on the heater."""
        return self.layers[::2]

    @property
    def vias(self) -> tuple[str, ...]:
        """The layers of vias, the first between the first two metals."""
        return self.layers[1::2]


class Pads(Strict):
    """How heaters reach the electronics.

    ``perimeter``: wires on one metal to bond pads along two edges, staggered at most ``rows_max`` deep.
    ``flipchip``: a bump beside every heater, over the mesh.
    """

    wiring: Literal["perimeter", "flipchip"]
    size_um: Positive
    pitch_um: Positive
    rows_max: Positive


class Die(Strict):
    """Die sizes in order of preference; ``fit`` is what a chip in that outline is called.

    A die of its ``own_size`` is cut to what it holds, up to the given size.
    """

    width_um: Positive
    height_um: Positive
    fit: Literal["fits one die", "fits one reticle"]
    own_size: bool


class Floorplan(Strict):
    """Pitches of the floorplan."""

    mode_pitch_um: Positive
    fibre_pitch_um: Positive
    keepout_um: Positive
    guide_space_um: Positive


class Drive(Strict):
    """Heater drive: one unipolar voltage DAC per channel."""

    dac_bits: Positive
    full_scale_v: Positive


class ActivationCard(Strict):
    """How activations are realised, and the range of their electronics.

    Fields are relative to a launched amplitude of 1, the full scale of every modulator.
    """

    realisation: Literal["offchip", "onchip"]
    gain_max: Positive
    offset_max: Positive
    resolution_bits: Positive


class Budget(Strict):
    """What the verdict on a chip's size measures it against.

    ``cooling_w_per_mm2`` is the heat that leaves a die; ``laser_w`` the light launched into every guide;
    ``margin_sigmas`` how many standard deviations of noise a decision has to bear; ``field_noise`` the noise, relative
    to full scale, that a network without known weights is taken to bear. Symbols slower than
    ``symbol_rate_min_bd`` are of no use; those faster than ``symbol_rate_max_bd`` are beyond the electronics.
    """

    cooling_w_per_mm2: Positive
    laser_w: Positive
    margin_sigmas: Positive
    field_noise: Positive
    symbol_rate_min_bd: Positive
    symbol_rate_max_bd: Positive | None = None


class NoiseCard(Strict):
    """Noise of the laser, of fibres and of receivers.

    ``symbol_rate_bd`` is what noise is quoted at where no other is given, ``laser_max_w`` the most light that a guide
    may be given. ``intensity_db_per_hz`` is the laser's relative intensity noise, ``linewidth_hz`` its full width at
    half maximum. ``fibre_path_m`` and ``chip_path_m`` are how much longer the laser's light travels through a
    modulator, off and on the chip, than straight to the detector that compares both; ``fibre_phase_rad`` is the error
    of a phase-locked fibre. ``receiver_a_per_sqrt_hz`` is the noise current of a detector's amplifier that is made for
    a bandwidth of ``receiver_hz``; one for less has less, in proportion, but ``receiver_floor_a_per_sqrt_hz``.
    """

    symbol_rate_bd: Positive
    laser_max_w: Positive
    intensity_db_per_hz: AnyQuantity
    linewidth_hz: NonNegative
    fibre_path_m: NonNegative
    fibre_index: Positive
    chip_path_m: NonNegative
    fibre_phase_rad: NonNegative
    receiver_a_per_sqrt_hz: NonNegative
    receiver_hz: Positive
    receiver_floor_a_per_sqrt_hz: NonNegative


class Process(Strict):
    """One process card with its rules and devices."""

    name: str
    title: str
    folders: tuple[Path, ...]
    sources: Mapping[str, str]
    layers: Mapping[str, Layer]
    guide: Guide
    grating: Grating = Grating()
    metal: Metal
    contact: Contact = Contact()
    pads: Pads
    dies: tuple[Die, ...]
    floorplan: Floorplan
    drive: Drive
    activation: ActivationCard
    budget: Budget | None = None
    imperfections: Variation | None = None
    noise: NoiseCard | None = None
    rules: tuple[Rule, ...]
    devices: Mapping[str, Device]

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
                "the layer of wires"
            )
        if bool(self.contact.vias) != (self.contact.via is not None):
            raise ValueError("contact.via: give the vias' size, space and enclosure where contact.layers has vias")
        return self

    @property
    def folder(self) -> Path:
        """The process's own folder; those of the processes it is based on follow in ``folders``."""
        return self.folders[0]

    def files(self, pattern: str) -> list[Path]:
        """Files of the process by pattern, sorted by name; its own before those it inherits."""
        return inherited(self.folders, pattern)

    def pad_pitch_um(self, rows: int) -> float:
        """Pitch of bond pads in so many rows: wires to an outer row pass between the pads of the inner ones."""
        track = float(self.metal.wire_width_um + self.metal.space_um)
        between = float(self.pads.size_um + self.metal.space_um) + (rows - 1) * track
        return max(float(self.pads.pitch_um), between)

    @property
    def gds_layers(self) -> dict[str, tuple[int, int]]:
        """Layer name to (layer, datatype)."""
        return {name: layer.gds for name, layer in self.layers.items()}

    def device(self, name: str) -> Device:
        """One device card.

        Raises:
            CardError: The process has no such device.
        """
        if name not in self.devices:
            known = ", ".join(sorted(self.devices))
            raise CardError(f"process {self.name!r} has no device {name!r}; it has {known}")
        return self.devices[name]


class Ports(Strict):
    """Port names of a device, in the order of its S-matrix.

    ``widths`` names the entry of the geometry that is a port's guide width; at other ports it is the strip guide's.
    """

    optical: tuple[str, ...]
    electrical: tuple[str, ...] = ()
    widths: Mapping[str, str] = {}


class DeviceModel(Strict):
    """The compact model of a device and its parameters.

    ``file`` names a file of S-parameters, ``.sNp`` or ``.npz``, that take the model's place; its path starts at the
    card's folder.
    """

    name: str
    parameters: Mapping[str, AnyQuantity] = {}
    file: Path | None = None


class Device(Strict):
    """One device card."""

    name: str
    title: str
    ports: Ports
    geometry: Mapping[str, AnyQuantity] = {}
    model: DeviceModel
    limits: Mapping[str, AnyQuantity] = {}
    sources: Mapping[str, str]

    @model_validator(mode="after")
    def _sources_exist(self) -> Device:
        check_sources(self, self.sources, f"device {self.name}")
        return self

    @model_validator(mode="after")
    def _widths_exist(self) -> Device:
        for port, key in self.ports.widths.items():
            if port not in self.ports.optical:
                raise ValueError(f"ports.widths: no optical port {port!r}; take one of {', '.join(self.ports.optical)}")
            if key not in self.geometry:
                raise ValueError(f"ports.widths.{port}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return self

    def size(self, key: str) -> float:
        """One geometry parameter.

        Raises:
            CardError: The card has no such parameter.
        """
        if key not in self.geometry:
            raise CardError(f"device {self.name!r}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return float(self.geometry[key])

    def parameter(self, key: str) -> float:
        """One model parameter.

        Raises:
            CardError: The card has no such parameter.
        """
        parameters = self.model.parameters
        if key not in parameters:
            raise CardError(f"device {self.name!r}: model has no {key!r}; it has {', '.join(parameters)}")
        return float(parameters[key])


def check_sources(card: BaseModel, sources: Mapping[str, str], where: str) -> None:
    """Refuse quantities whose source is not listed.

    Raises:
        ValueError: Names the source and the quantity.
    """
    for path, quantity in quantities(card, ""):
        if quantity.source not in sources:
            raise ValueError(f"{where}: {path}: source {quantity.source!r} is not under 'sources'")


def quantities(value: Any, path: str) -> Iterator[tuple[str, Quantity]]:
    """Every quantity of a card with its path of keys; rules and devices within a process are cards of their own."""
    if isinstance(value, Quantity):
        yield path, value
    elif isinstance(value, Rule | Device) and path:
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


def inherited(folders: tuple[Path, ...], pattern: str) -> list[Path]:
    """Files by pattern, sorted by name; those of earlier folders replace those of later ones."""
    found = {path.name: path for folder in folders[::-1] for path in folder.glob(pattern)}
    return [found[name] for name in sorted(found)]


Process.model_rebuild()
