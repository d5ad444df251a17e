"""Schema of process and device cards: every number that depends on the foundry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, model_validator

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.quantity import AnyQuantity, NonNegative, Positive, Quantity, StrictModel
from optinc_pdk.cards.rules import Rule
from optinc_pdk.cards.variation import Variation


class LayerCard(StrictModel):
    """A mask layer: GDS layer and datatype, display colour, and thickness and bottom height for the layer stack."""

    gds: tuple[int, int]
    text: str
    color: str
    thickness_um: NonNegative | None = None
    bottom_um: AnyQuantity | None = None
    material: str | None = None


class GuideCard(StrictModel):
    """The strip guide; ``arc_segments`` is the number of chords of a 90° bend."""

    width_um: Positive
    radius_um: Positive
    arc_segments: Positive
    index: Positive
    group_index: Positive
    wavelength_nm: Positive
    loss_db_per_cm: NonNegative
    length_match_um: Positive


class GratingCard(StrictModel):
    """Gratings: the layer of their etched lines."""

    layer: str = "etch70"


class MetalCard(StrictModel):
    """Routing metal: layer of wires and pads, wire width and spacing, sheet resistance, and current limit."""

    layer: str = "metal"
    wire_width_um: Positive
    space_um: Positive
    sheet_ohm: Positive
    current_ma_per_um: Positive


class ViaCard(StrictModel):
    """Square vias of a contact: side, spacing, and enclosure by the metals.

    ``ohm_um2`` is the resistance of vias times their area; without it, vias have no resistance.
    """

    size_um: Positive
    space_um: Positive
    enclosure_um: Positive
    ohm_um2: NonNegative | None = None


class ContactCard(StrictModel):
    """Layers of a contact from the heater up: a metal, or metals with a via layer between any two."""

    layers: tuple[str, ...] = ("metal",)
    via: ViaCard | None = None

    @property
    def metals(self) -> tuple[str, ...]:
        """Metal layers; the first is in contact with the heater."""
        return self.layers[::2]

    @property
    def vias(self) -> tuple[str, ...]:
        """Via layers; the first is between the first two metals."""
        return self.layers[1::2]


class PadsCard(StrictModel):
    """Connection of heaters to the electronics.

    ``perimeter``: wires on one metal to bond pads along two edges, in at most ``rows_max`` staggered rows.
    ``flipchip``: a bump beside every heater, over the mesh.
    """

    wiring: Literal["perimeter", "flipchip"]
    size_um: Positive
    pitch_um: Positive
    rows_max: Positive


class DieCard(StrictModel):
    """A die size; a process lists its sizes in order of preference.

    ``fit`` is the label of a chip of that size in reports. A die with ``own_size`` is cut to its content, up to the
    given size.
    """

    width_um: Positive
    height_um: Positive
    fit: Literal["fits one die", "fits one reticle"]
    own_size: bool


class FloorplanCard(StrictModel):
    """Pitches and clearances of the floorplan."""

    mode_pitch_um: Positive
    fibre_pitch_um: Positive
    keepout_um: Positive
    guide_space_um: Positive


class DriveCard(StrictModel):
    """Heater drive: one unipolar voltage DAC per channel."""

    dac_bits: Positive
    full_scale_v: Positive


class ActivationCard(StrictModel):
    """Realisation of activations, and the range of their electronics.

    Fields are relative to a launched amplitude of 1, the full scale of every modulator.
    """

    realisation: Literal["offchip", "onchip"]
    gain_max: Positive
    offset_max: Positive
    resolution_bits: Positive


class BudgetCard(StrictModel):
    """Limits that decide whether a chip of a given size is feasible.

    ``cooling_w_per_mm2`` is the heat that a die can dissipate; ``laser_w`` the power launched into every guide;
    ``margin_sigmas`` the number of standard deviations of noise that a decision must tolerate; ``field_noise`` the
    noise, relative to full scale, that a network without known weights is assumed to tolerate. Symbol rates below
    ``symbol_rate_min_bd`` are of no use; the electronics cannot process those above ``symbol_rate_max_bd``.
    """

    cooling_w_per_mm2: Positive
    laser_w: Positive
    margin_sigmas: Positive
    field_noise: Positive
    symbol_rate_min_bd: Positive
    symbol_rate_max_bd: Positive | None = None


class NoiseCard(StrictModel):
    """Noise of the laser, of fibres and of receivers.

    ``symbol_rate_bd`` is the default symbol rate for noise figures, ``laser_max_w`` the largest power in a guide.
    ``intensity_db_per_hz`` is the laser's relative intensity noise, ``linewidth_hz`` its full width at half maximum.
    ``fibre_path_m`` and ``chip_path_m`` are the path differences at a mixer between light through a modulator, off and
    on the chip, and the local oscillator; ``fibre_phase_rad`` is the phase error of a phase-locked fibre.
    ``receiver_a_per_sqrt_hz`` is the input noise current of a receiver with a bandwidth of ``receiver_hz``; it falls in
    proportion to the bandwidth, down to ``receiver_floor_a_per_sqrt_hz``.
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


class Process(StrictModel):
    """A process card with its rules and devices.

    ``folders`` holds the process's own folder first, then those of the processes it is based on.
    """

    name: str
    title: str
    folders: tuple[Path, ...]
    sources: Mapping[str, str]
    layers: Mapping[str, LayerCard]
    guide: GuideCard
    grating: GratingCard = GratingCard()
    metal: MetalCard
    contact: ContactCard = ContactCard()
    pads: PadsCard
    dies: tuple[DieCard, ...]
    floorplan: FloorplanCard
    drive: DriveCard
    activation: ActivationCard
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

    @property
    def folder(self) -> Path:
        """The process's own folder."""
        return self.folders[0]

    def files(self, pattern: str) -> list[Path]:
        """Return the process's files that match a glob pattern, sorted by name; its own replace inherited ones."""
        return inherited_files(self.folders, pattern)

    def pad_pitch_um(self, rows: int) -> float:
        """Return the pitch of bond pads in µm for a number of rows; wires to outer rows pass between inner pads."""
        track = float(self.metal.wire_width_um + self.metal.space_um)
        between = float(self.pads.size_um + self.metal.space_um) + (rows - 1) * track
        return max(float(self.pads.pitch_um), between)

    @property
    def gds_layers(self) -> dict[str, tuple[int, int]]:
        """Layer name to (layer, datatype)."""
        return {name: layer.gds for name, layer in self.layers.items()}

    def device(self, name: str) -> DeviceCard:
        """Return a device card by name.

        Raises:
            CardError: The process has no such device.
        """
        if name not in self.devices:
            known = ", ".join(sorted(self.devices))
            raise CardError(f"process {self.name!r} has no device {name!r}; it has {known}")
        return self.devices[name]


class PortsCard(StrictModel):
    """Port names of a device, in the order of its S-matrix.

    ``widths`` maps a port to the geometry key of its guide width; other ports have the strip guide's width.
    """

    optical: tuple[str, ...]
    electrical: tuple[str, ...] = ()
    widths: Mapping[str, str] = {}


class DeviceModelCard(StrictModel):
    """The compact model of a device and its parameters.

    ``file`` is a file of S-parameters, ``.sNp`` or ``.npz``, that replaces the model; its path is relative to the
    card's folder.
    """

    name: str
    parameters: Mapping[str, AnyQuantity] = {}
    file: Path | None = None


class DeviceCard(StrictModel):
    """A device card: ports, geometry, compact model and its range of validity (``limits``)."""

    name: str
    title: str
    ports: PortsCard
    geometry: Mapping[str, AnyQuantity] = {}
    model: DeviceModelCard
    limits: Mapping[str, AnyQuantity] = {}
    sources: Mapping[str, str]

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
                raise ValueError(f"ports.widths.{port}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return self

    def size(self, key: str) -> float:
        """Return a geometry parameter.

        Raises:
            CardError: The card has no such parameter.
        """
        if key not in self.geometry:
            raise CardError(f"device {self.name!r}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return float(self.geometry[key])

    def parameter(self, key: str) -> float:
        """Return a model parameter.

        Raises:
            CardError: The card has no such parameter.
        """
        parameters = self.model.parameters
        if key not in parameters:
            raise CardError(f"device {self.name!r}: model has no {key!r}; it has {', '.join(parameters)}")
        return float(parameters[key])


def check_sources(card: BaseModel, sources: Mapping[str, str], where: str) -> None:
    """Check that ``sources`` has the source of every quantity.

    Raises:
        ValueError: A source is missing; names it and the quantity.
    """
    for path, quantity in quantities(card, ""):
        if quantity.source not in sources:
            raise ValueError(f"{where}: {path}: source {quantity.source!r} is not under 'sources'")


def quantities(value: Any, path: str) -> Iterator[tuple[str, Quantity]]:
    """Yield every quantity of a card with its path of keys; rules and devices of a process are left out."""
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
    """Return files that match a glob pattern, sorted by name; earlier folders take precedence."""
    found = {path.name: path for folder in folders[::-1] for path in folder.glob(pattern)}
    return [found[name] for name in sorted(found)]


Process.model_rebuild()
