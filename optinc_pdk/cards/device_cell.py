"""Cells of devices that a process brings along: a GDS file or a gdsfactory function, with the places of its ports."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from optinc_pdk.cards.errors import CardError
from optinc_pdk.cards.quantity import Name, PortName, StrictModel, Text
from optinc_pdk.io.reading import DEVICE_CELL, read_bytes

if TYPE_CHECKING:
    from optinc_pdk.cards.device import DeviceCard

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
        """Return the cell with the path of its file, which is relative to a folder in the card.

        Args:
            folder: Folder of the card.

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

    Recognition polygons state the digest of the cell that they were made from. It does not tell whether a function of
    an installed module has changed, which is noticed when the cell is drawn.

    Args:
        card: Card with a cell.
        layers: GDS layer and datatype of each layer that recognition polygons have.

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
