"""Schema of device cards, of the cells that a process brings along for devices, and of their names in netlists."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from optinc_pdk.cards.device_models import NO_MODEL, check_model
from optinc_pdk.cards.quantity import (
    AnyQuantity,
    CardError,
    Name,
    NonNegative,
    PortName,
    StrictModel,
    Text,
    check_sources,
)
from optinc_pdk.io.reading import DEVICE_CELL, read_bytes

ROUNDING = 1e-6
"""Relative difference of two numbers in netlists that count as equal."""


class LengthName(StrictModel):
    """Argument of a cell that states its length.

    Attributes:
        argument: Name of the argument, in µm.
        end_um: Length of guide between each optical port of the cell and its heated part; twice this is not a part of
            the device's length.
    """

    argument: Name
    end_um: NonNegative


class DeviceNames(StrictModel):
    """How netlists call a device.

    Attributes:
        cells: Names of the functions that draw the device; if there are none, the name of the device.
        settings: Arguments of the functions with the values that the device has. A cell of other values is not this
            device. Arguments that are not listed may have any value.
        ports: Further names of ports: name in netlists to port of the card.
        length: Argument that states the length of a phase shifter; None if it is ``length_um``.
    """

    cells: tuple[Name, ...] = ()
    settings: Mapping[Name, StrictBool | StrictInt | StrictFloat | Text | None] = {}
    ports: Mapping[PortName, PortName] = {}
    length: LengthName | None = None

    def differing(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of some settings that have another value than the device's; settings it lacks are ignored."""
        stated = {key: settings[key] for key in self.settings if key in settings}
        return {key: value for key, value in stated.items() if not _agree(self.settings[key], value)}


class NetlistNames(StrictModel):
    """How netlists call what is no device.

    Attributes:
        guides: Names of further cells that are parts of guides and wires.
    """

    guides: tuple[Name, ...] = ()


def _agree(expected: Any, value: Any) -> bool:
    """Return whether a value of a netlist is the one expected; numbers may differ by rounding."""
    if isinstance(expected, bool) or isinstance(value, bool) or not isinstance(expected, int | float):
        return bool(expected == value)
    return isinstance(value, int | float) and abs(value - expected) <= ROUNDING * max(abs(expected), 1.0)


GUIDE_CELLS = frozenset(
    {
        "straight",
        "bend_euler",
        "bend_circular",
        "bend_s",
        "s_guide",
        "bent_guide",
        "wire_straight",
        "wire_corner",
        "wire_corner45",
    }
)
"""Cells that are parts of guides and wires, not devices. A part with ports e1 and e2 is metal."""
CIRCUIT_CELLS = frozenset(
    {"activation_offchip", "activation_onchip", "attenuator", "coupler_ring", "coupler_ring_bend", "coupler_straight"}
    | {
        "cutback",
        "die_frame",
        "fibre_array",
        "heater_test",
        "homodyne_mixer",
        "mesh",
        "mesh_column",
        "mzi",
        "mzi_dummy",
    }
    | {"mzi_unit", "ring_double", "ring_single", "ring_single_bend_coupler", "splitter_tree", "straight_heater_metal"}
)
"""Cells of the package that are circuits of devices, or structures of a chip."""
MEASURED_DEVICES, MEASURED_MODELS = frozenset({"bump", "pad", "phase_shifter"}), frozenset({"coupled_guides"})
"""Devices, and models of devices, that extraction measures instead of comparing polygons; the package draws them."""
LARGEST_UM = 1e5
"""Largest coordinate of a port; a device is far smaller than a die."""
NM_PER_UM = 1000
PYTHON_FILE = ".py"


def _check_coordinate(value: float) -> float:
    if not abs(value) <= LARGEST_UM:
        raise ValueError(f"value {value} µm must be in ±{LARGEST_UM:g}")
    if not math.isclose(value * NM_PER_UM, round(value * NM_PER_UM), abs_tol=1e-6):
        raise ValueError(f"value {value} µm is off the 1 nm grid; round it")
    return float(value)


Coordinate = Annotated[StrictFloat | StrictInt, AfterValidator(_check_coordinate)]
PythonName = Annotated[StrictStr, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")]
FunctionName = Annotated[
    StrictStr, Field(pattern=r"^([A-Za-z_]\w*(\.[A-Za-z_]\w*)*|[\w./ -]{1,200}\.py):[A-Za-z_]\w*$", max_length=1000)
]


class PortPlace(StrictModel):
    """Place of a port in a cell.

    Attributes:
        at_um: Position (x, y) in µm. That of a guide port is the middle of the silicon's edge there.
        angle_deg: Outward direction in degrees.
        fibre: Whether light enters or leaves the chip here, so that no guide continues.
    """

    at_um: tuple[Coordinate, Coordinate]
    angle_deg: Literal[0, 90, 180, 270]
    fibre: StrictBool = False

    @property
    def at_nm(self) -> tuple[int, int]:
        """Position (x, y) in nm."""
        return round(self.at_um[0] * NM_PER_UM), round(self.at_um[1] * NM_PER_UM)


class CellCard(StrictModel):
    """Cell of a device: the layout that is drawn for it.

    Attributes:
        gds: GDS2 or OASIS file, relative to the card's folder; None for a function.
        top: Name of the cell in the file; None if the file has one top cell only.
        function: Function that returns a gdsfactory component: ``package.module:function``, or ``file.py:function``
            with a file relative to the card's folder; None for a file.
        settings: Arguments of the function.
        pdk: gdsfactory PDK that the function draws with, as ``package.module:variable``; None for that of the process.
        ports: Place of each port. A file needs all. Ports of a function are those of its component, unless they are
            stated here.
    """

    gds: Path | None = None
    top: Text | None = None
    function: FunctionName | None = None
    settings: Mapping[Name, Any] = {}
    pdk: PythonName | None = None
    ports: Mapping[PortName, PortPlace] = {}

    @model_validator(mode="after")
    def _has_one_source(self) -> CellCard:
        if (self.gds is None) == (self.function is None):
            raise ValueError("give either gds, a layout file, or function, which draws the cell")
        for key in ("settings", "pdk") if self.function is None else ("top",):
            if getattr(self, key):
                other = "function" if self.function is None else "gds"
                raise ValueError(f"{key} belongs to {other}, which the cell does not have; remove it")
        return self

    @property
    def text(self) -> str:
        """What draws the cell, for messages."""
        return str(self.gds) if self.function is None else self.function

    @property
    def file(self) -> Path | None:
        """File that draws the cell: the layout or the Python file; None for a function of an installed module."""
        if self.function is None:
            return self.gds
        module = self.function.rpartition(":")[0]
        return Path(module) if module.endswith(PYTHON_FILE) else None

    def located(self, folder: Path) -> CellCard:
        """Return the cell with the path of its file, which is relative to the folder of the card.

        Raises:
            ValueError: There is no such file.
        """
        if self.file is None:
            return self
        path, key = folder / self.file, "gds" if self.function is None else "function"
        if not path.is_file():
            raise ValueError(
                f"cell.{key}: there is no file {path}; correct the path, which is relative to the card's folder"
            )
        if self.function is None:
            return self.model_copy(update={"gds": path})
        return self.model_copy(update={"function": f"{path}:{self.function.rpartition(':')[2]}"})


def cell_digest(card: DeviceCard, layers: Iterable[tuple[int, int]]) -> str:
    """Return a SHA-256 of all that a process states about the cell of a device, with the content of its file.

    Recognition polygons, on GDS layers and datatypes ``layers``, state the digest of the cell that they were made from.
    It does not tell whether a function of an installed module has changed, which is noticed when the cell is drawn.

    Raises:
        CardError: The file of the cell cannot be read.
    """
    cell = card.cell
    if cell is None:
        raise CardError(f"device {card.name!r} has no cell of its own; add the key 'cell' to its card")
    # the path of a file depends on where the process lies
    function = cell.function
    if function is not None and cell.file is not None:
        function = function.rpartition(":")[2]
    stated = {
        "layers": sorted(layers),
        "ports": [card.ports.optical, card.ports.electrical],
        "widths": {port: float(card.geometry[key]) for port, key in sorted(card.ports.widths.items())},
        "places": {name: (place.at_nm, place.angle_deg, place.fibre) for name, place in sorted(cell.ports.items())},
        "top": cell.top,
        "function": function,
        "settings": cell.settings,
        "pdk": cell.pdk,
    }
    digest = hashlib.sha256(json.dumps(stated, sort_keys=True, default=str).encode())
    if cell.file is not None:
        digest.update(read_bytes(cell.file, DEVICE_CELL, CardError))
    return digest.hexdigest()


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
        transfer: Fields of a modulator at equally spaced drives, from 0 to the largest voltage of its driver; empty for
            the sine of the parameter ``swing``, the largest voltage over the half-wave voltage.
    """

    name: Name = NO_MODEL
    parameters: Mapping[Name, AnyQuantity] = {}
    file: Path | None = None
    transfer: tuple[NonNegative, ...] = ()


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
        """Return a dimension of the device, ``geometry[key]``, in the unit that its key ends in.

        Raises:
            CardError: The card has no such key.
        """
        if key not in self.geometry:
            raise CardError(f"device {self.name!r}: geometry has no {key!r}; it has {', '.join(self.geometry)}")
        return float(self.geometry[key])

    def parameter(self, key: str) -> float:
        """Return a parameter of the device's compact model, ``model.parameters[key]``.

        Examples:
            >>> from optinc_pdk.cards import load_process
            >>> load_process("soi220").device("crossing").parameter("loss_db")
            0.25

        Raises:
            CardError: The card has no such key.
        """
        parameters = self.model.parameters
        if key not in parameters:
            raise CardError(f"device {self.name!r}: model has no {key!r}; it has {', '.join(parameters)}")
        return float(parameters[key])
