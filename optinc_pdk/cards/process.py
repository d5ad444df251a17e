"""Schema of process cards, which contain every number that depends on the foundry, with its source."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import model_validator

from optinc_pdk.cards.device import DeviceCard, NetlistNames
from optinc_pdk.cards.quantity import CardError, Name, StrictModel, Text, check_sources
from optinc_pdk.cards.rules import Rule
from optinc_pdk.cards.technology import (
    ActivationCard,
    BudgetCard,
    ContactCard,
    DieCard,
    DriveCard,
    FibresCard,
    FloorplanCard,
    GratingCard,
    GuideCard,
    Holds,
    LayerCard,
    LinkCard,
    MetalCard,
    NoiseCard,
    PadsCard,
)
from optinc_pdk.cards.variation import Variation
from optinc_pdk.options import Link, Receivers

QUANTUM_NM_W_PER_A = 1239.842
"""Wavelength times energy of a photon per charge of an electron, h c / e, in nm W/A (CODATA 2018)."""


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
        fibres: Coupling of fibres.
        drive: Heater drive.
        activation: Realisation of activations.
        link: Link from the outputs to the servers.
        budget: Limits of feasibility, if stated.
        imperfections: Process variation, if stated.
        noise: Noise of laser, fibres and receivers, if stated.
        netlist: How netlists of another PDK call parts of guides and wires.
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
    fibres: FibresCard = FibresCard()
    drive: DriveCard
    activation: ActivationCard
    link: LinkCard = LinkCard()
    budget: BudgetCard | None = None
    imperfections: Variation | None = None
    noise: NoiseCard | None = None
    netlist: NetlistNames = NetlistNames()
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
            "contact.heater_via": () if self.contact.heater_via is None else (self.contact.heater_via,),
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
    def _edge_couplers_have_a_floorplan(self) -> Process:
        if self.fibres.coupler != "edge_coupler":
            return self
        for key, found, needed in (
            ("pads.wiring", self.pads.wiring, "flipchip"),
            ("activation.realisation", self.activation.realisation, "onchip"),
        ):
            if found != needed:
                raise ValueError(
                    f"fibres.coupler: edge_coupler needs {key} {needed}, the card has {found}; take grating_coupler, "
                    f"or change {key}"
                )
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
        """Return own and inherited files that match a glob pattern such as ``devices/*.yml``, sorted by name.

        A file replaces inherited files of the same name.
        """
        return inherited_files(self.folders, pattern)

    def pad_pitch_um(self, rows: int) -> float:
        """Return the pitch of bond pads in µm, with space for the wires to the outer of several staggered rows."""
        track = float(self.metal.wire_width_um + self.metal.space_um)
        between = float(self.pads.size_um + self.metal.space_um) + (rows - 1) * track
        return max(float(self.pads.pitch_um), between)

    @property
    def has_foreign_heaters(self) -> bool:
        """Whether heaters have tapers, or vias to the metal; extraction recognises such heaters, no cell draws them."""
        shifter = self.devices.get("phase_shifter")
        tapered = shifter is not None and "heater_taper_um" in shifter.geometry
        return tapered or self.contact.heater_via is not None

    def reach_um(self, layer: str) -> float | None:
        """Return the distance in µm, in the plane, within which shapes of a layer change the light in silicon.

        For a film above or below the core it is shorter than the card's ``reach_um``, by their distance in height. A
        layer named ``slab`` without it reaches as far as guides couple, ``floorplan.guide_space_um``. The distance is
        None if the layer does not reach light in silicon, or is that of gratings, whose shapes are compared with those
        of the devices.
        """
        film, core = self.layers[layer].film_um, self.layers["core"].film_um
        reach = self.layers[layer].reach_um
        if layer == "slab" and reach is None:
            reach = self.floorplan.guide_space_um
        if reach is None or layer == self.grating.layer:
            return None
        apart = 0.0 if film is None or core is None else max(film[0] - core[1], core[0] - film[1], 0.0)
        # a film exactly at the limit is out of reach, whatever the rounding
        square = round(float(reach) ** 2 - apart**2, 9)
        return math.sqrt(square) if square > 0 else None

    @property
    def gds_layers(self) -> dict[str, tuple[int, int]]:
        """GDS layer and datatype of each mask layer, by layer name."""
        return {name: layer.gds for name, layer in self.layers.items()}

    def device(self, name: str) -> DeviceCard:
        """Return a device card by name.

        Examples:
            >>> from optinc_pdk.cards import load_process
            >>> load_process("soi220").device("mmi2x2").name
            'mmi2x2'

        Raises:
            CardError: The process has no such device.
        """
        self.require_devices((name,))
        return self.devices[name]

    def require_devices(self, names: Iterable[str]) -> None:
        """Check that the process has device cards, and the devices of given names among them, which may be none.

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
    """Return a process with another kind of link to the servers or other receivers; None keeps those of the process.

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


def with_field_outputs(process: Process) -> Process:
    """Return a process whose outputs leave the chip as light that receivers read as signed fields.

    They are coherent receivers without neurons before them. Studies of noise need the power of their local oscillators,
    ``link.oscillator_w``, and say so if the process states none.
    """
    link = process.link.model_copy(update={"kind": "direct", "receivers": "coherent"})
    return process.model_copy(update={"link": link})


def with_drive(process: Process, holds: Holds) -> Process:
    """Return a process whose heater drive holds another quantity, see :class:`DriveCard`."""
    return process.model_copy(update={"drive": process.drive.model_copy(update={"holds": holds})})


def inherited_files(folders: tuple[Path, ...], pattern: str) -> list[Path]:
    """Return the files in folders that match a glob pattern, by name; of equal names, that of the first folder."""
    found = {path.name: path for folder in folders[::-1] for path in folder.glob(pattern)}
    return [found[name] for name in sorted(found)]
