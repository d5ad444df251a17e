"""Schema of device cards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import model_validator

from optinc_pdk.cards.device_cell import CIRCUIT_CELLS, GUIDE_CELLS, MEASURED_DEVICES, MEASURED_MODELS, CellCard
from optinc_pdk.cards.device_models import NO_MODEL, check_model
from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.netlist_names import DeviceNames
from optinc_pdk.cards.quantity import AnyQuantity, Name, PortName, StrictModel, Text
from optinc_pdk.cards.sources import check_sources


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
        name: Name of the model; ``none`` for a device that is not simulated.
        parameters: Parameters of the model.
        file: File of S-parameters (``.sNp`` or ``.npz``) that replaces the model, relative to the card's folder; None
            if there is none.
    """

    name: Name = NO_MODEL
    parameters: Mapping[Name, AnyQuantity] = {}
    file: Path | None = None


class DeviceCard(StrictModel):
    """A device card.

    Attributes:
        name: Device name.
        title: Description.
        ports: Port names.
        geometry: Dimensions by key; keys that end in ``_um`` are in µm.
        cell: Layout of the device; None if the package has a cell of this name, with the dimensions of ``geometry``.
        model: Compact model. A device without one is drawn and compared, and cannot be simulated.
        limits: Range of validity of the model.
        netlist: How netlists of another PDK call the device; None if by its own name and ports.
        sources: Sources of the card's numbers by key.
    """

    name: Name
    title: Text
    ports: PortsCard
    geometry: Mapping[Name, AnyQuantity] = {}
    cell: CellCard | None = None
    model: DeviceModelCard = DeviceModelCard()
    limits: Mapping[Name, AnyQuantity] = {}
    netlist: DeviceNames | None = None
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
    def _cell_has_the_ports(self) -> DeviceCard:
        if self.cell is None:
            return self
        taken = {
            "a guide or wire": GUIDE_CELLS,
            "a circuit of the package": CIRCUIT_CELLS,
            "a device that extraction measures": MEASURED_DEVICES,
        }
        for kind in (kind for kind, known in taken.items() if self.name in known):
            raise ValueError(f"cell: {self.name} is {kind}; give a device with a cell of its own another name")
        if self.model.name in MEASURED_MODELS or not self.ports.optical:
            kind = f"the model {self.model.name}" if self.ports.optical else "no optical ports"
            raise ValueError(f"cell: extraction recognises no device with {kind} by its polygons; leave 'cell' out")
        names = (*self.ports.optical, *self.ports.electrical)
        for port, place in self.cell.ports.items():
            if port not in names:
                raise ValueError(f"cell.ports: no port {port!r}; the device has {', '.join(names)}")
            if place.fibre and port not in self.ports.optical:
                raise ValueError(f"cell.ports.{port}.fibre: the port is electrical; remove it")
        missing = [port for port in names if port not in self.cell.ports]
        if missing and self.cell.function is None:
            raise ValueError(f"cell.ports.{missing[0]} is missing, a layout file has no ports; add at_um and angle_deg")
        return self

    @model_validator(mode="after")
    def _named_ports_exist(self) -> DeviceCard:
        known = (*self.ports.optical, *self.ports.electrical)
        for name, port in ({} if self.netlist is None else self.netlist.ports).items():
            if port not in known:
                raise ValueError(f"netlist.ports.{name}: no port {port!r}; take one of {', '.join(known)}")
            if name in known:
                raise ValueError(f"netlist.ports.{name}: {name!r} is a port of the device itself; remove it")
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
